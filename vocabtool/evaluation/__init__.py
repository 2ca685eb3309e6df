"""Evaluate search: metrics, comparison of fusion methods, tuning of the keyword search's weight.

Read ``evaluate.py`` first.
"""
