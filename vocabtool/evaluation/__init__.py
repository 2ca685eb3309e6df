"""Evaluation of search: metrics, a comparison of all fusions, tuning of the keyword leg's weight.

``search/`` searches, ``reports/`` makes the tables. Begin with ``compare.py``.
"""
