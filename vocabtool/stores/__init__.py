"""Stores: indexes whose documents, vectors and postings an engine keeps.

What search asks of a store is in ``search/store.py``. Each engine has a package of its own; begin
with its ``schema.py``.
"""
