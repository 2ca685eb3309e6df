"""``Stream``: documents and what is made of them, shaped by operators that are lazy.

How documents are read is not known here. Begin with ``stream.py``.
"""
