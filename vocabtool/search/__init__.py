"""Hybrid search: from a query to ranked hits with explanations.

``index/`` and ``keywords/`` store and find documents; ``evaluation/`` has metrics. Read
``search.py`` first.
"""
