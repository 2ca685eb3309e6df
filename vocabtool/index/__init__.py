"""The folder of an index: documents and commits in SQLite, keywords in tantivy, vectors in FAISS.

Ranking is in ``search/``. Begin with ``database.py``, which defines a commit, and ``folder.py``,
which describes the files.
"""
