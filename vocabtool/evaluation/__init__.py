"""How well an index finds: metrics, every fusion side by side, the weight of the keyword leg.

Not here: searching itself (``search/``), tables for people (``reports/``). Begin with
``compare.py``.
"""
