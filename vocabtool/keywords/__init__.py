"""Keyword search: splitting texts into terms, BM25 with tantivy, identifiers, spellings.

The weights of the words of a query are in ``search/query.py``. Begin with ``cutter.py``.
"""
