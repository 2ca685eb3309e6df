"""The store in PostgreSQL with pgvector. Read ``database.py`` first, then ``transaction.py``."""

from vocabtool.errors import UnsupportedFormat

try:
    import psycopg_pool  # noqa: F401 - and psycopg, which it imports
except ImportError as error:
    raise UnsupportedFormat("PostgreSQL needs psycopg: pip install '.[postgres]'") from error
