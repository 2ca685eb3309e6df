"""Utilities: files that vocabtool writes, locks, checksums, a parallel map, byte strings.

Nothing here reads model files or imports another package. Begin with ``own_files.py``.
"""
