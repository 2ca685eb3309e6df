"""Texts to vectors: SavedModels, word vectors, sentence-transformers, Python callables.

What is done with the vectors is in ``embedding/`` and ``index/``. Begin with ``open_encoder.py``.
"""
