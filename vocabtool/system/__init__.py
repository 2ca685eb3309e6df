"""What has nothing to do with words: our own files, locks, checksums, a parallel map, byte strings.

No file of a stranger is read here, and no room is known. Begin with ``own_files.py``.
"""
