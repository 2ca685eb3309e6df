"""Hybrid search: from a query to ranked hits with explanations.

This package weighs words, calls both legs, and fuses and explains their results. ``index/`` and
``keywords/`` store and find documents; ``evaluation/`` has metrics. Begin with ``search.py``.
"""
