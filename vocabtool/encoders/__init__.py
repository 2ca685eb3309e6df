"""Encoders turn texts into vectors: SavedModels, word vectors, sentence-transformers, HTTP, Python.

``embedding/`` and ``index/`` use the vectors. Begin with ``open_encoder.py``.
"""
