"""Stores: indexes whose documents, vectors and postings are kept in a database.

The interface that search needs from a store is in ``search/store.py``. Each database engine has a
package of its own. Read its ``schema.py`` first.
"""
