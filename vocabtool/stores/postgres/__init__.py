"""The store in PostgreSQL with pgvector. Read ``schema.py`` first, then ``writer.py``."""
