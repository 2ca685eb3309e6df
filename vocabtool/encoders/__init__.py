"""Encoders turn texts into vectors: SavedModels, word vectors, sentence-transformers, callables.

``embedding/`` and ``index/`` use the vectors. Begin with ``open_encoder.py``.
"""
