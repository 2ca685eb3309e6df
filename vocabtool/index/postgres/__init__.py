"""The store in PostgreSQL with pgvector. Read ``database.py`` first, then ``transaction.py``."""
