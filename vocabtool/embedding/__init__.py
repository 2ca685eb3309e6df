"""Documents to committed shards of vectors: resumable, in threads, processes or on Ray.

How vectors are made is in ``encoders/``, what is searched in ``index/``. Begin with ``embed.py``.
"""
