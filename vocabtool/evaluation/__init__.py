"""Evaluation of search: metrics, comparison of all fusions, tuning of keyword search's weight.

Read ``compare.py`` first.
"""
