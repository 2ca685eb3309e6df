"""The store in PostgreSQL with pgvector. Read ``database.py`` first, then ``writer.py``.

The interface that search needs from a store is in ``search/store.py``.
"""
