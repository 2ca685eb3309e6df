"""Embed documents into committed shards of vectors: resumable, in threads, processes or on Ray.

Encoders are in ``encoders/``, the search index in ``index/``. Begin with ``embed.py``.
"""
