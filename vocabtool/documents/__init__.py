"""Where documents come from: files, folders, globs, standard input, objects; one file a format.

What becomes of the documents is not known here. Begin with ``reading.py``.
"""

from vocabtool.documents.reading import Document, documents

__all__ = ["Document", "documents"]
