"""The folder of an index: documents and commits in SQLite, keywords in tantivy, vectors in FAISS.

Ranking is in ``search/``. Read ``database.py`` first, which defines a commit. Then read
``folder.py``, which describes the files.
"""
