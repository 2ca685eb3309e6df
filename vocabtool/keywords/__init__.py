"""Keyword search: splitting texts into terms, BM25 with tantivy, identifiers, spellings.

``search/query.py`` weighs the words of a query. Read ``cutter.py`` first.
"""
