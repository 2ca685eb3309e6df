"""A query becomes ranked hits that explain themselves.

Here: what words weigh, both legs asked, fusions, explanations. Not here: how the index stores and
finds (``index/``, ``keywords/``), metrics (``evaluation/``). Begin with ``search.py``.
"""
