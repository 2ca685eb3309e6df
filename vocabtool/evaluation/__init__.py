"""Evaluation of search: metrics, comparison of all fusions, tuning of the keyword leg's weight.

Read ``compare.py`` first.
"""
