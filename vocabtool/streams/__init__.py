"""Lazy streams of documents or other elements, and their operators. Begin with ``stream.py``."""
