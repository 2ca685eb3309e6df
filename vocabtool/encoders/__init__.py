"""Encoders turn texts into vectors: SavedModels, word vectors, sentence-transformers, HTTP, Python.

Vectors are used in ``embedding/`` and ``index/``. Begin with ``open_encoder.py``.
"""
