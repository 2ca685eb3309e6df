"""``Stream``: lazy streams of documents or other elements, with operators that transform them.

The package ``documents`` reads the documents. Begin with ``stream.py``.
"""
