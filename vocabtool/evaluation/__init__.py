"""How well an index finds: metrics, all fusions side by side, the weight of the keyword leg.

Searching is in ``search/``, tables are in ``reports/``. Begin with ``compare.py``.
"""
