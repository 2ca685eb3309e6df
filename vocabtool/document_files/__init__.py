"""Files of documents: one file per format, each with the one verb ``read``.

``read(file, request)`` yields the rows of a file as :class:`rows.Batch`. Which file is read how,
and what a caller sees of it, is in ``vocabtool/documents.py``.
"""
