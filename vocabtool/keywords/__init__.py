"""Keyword search: how texts become terms, BM25 over them by tantivy, identifiers, spellings.

Not here: what the words of a query weigh (``search/query.py``). Begin with ``cutter.py``.
"""
