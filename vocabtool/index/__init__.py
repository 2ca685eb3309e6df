"""The folder of an index: documents and commits in SQLite, keywords in tantivy, vectors in FAISS.

How hits are ranked is not known here, but in ``search/``. Begin with ``database.py``, which says
what a commit is, and ``folder.py``.
"""
