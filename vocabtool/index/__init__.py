"""An index in a folder: documents and commits in SQLite, keywords in tantivy, vectors in FAISS.

The same index in a database is in ``postgres/``. Ranking is in ``search/``. Read ``database.py``
first, which defines a commit. Then read ``folder.py``, which describes the files.
"""
