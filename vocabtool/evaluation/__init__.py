"""Evaluation of search: metrics, comparison of all fusions, tuning of keyword search's weight.

``search/`` searches, ``reports/`` makes the tables. Begin with ``compare.py``.
"""
