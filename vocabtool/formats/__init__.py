"""Readers of model files, one file per format. Start at ``registry.py``, which lists them in order.

TensorFlow graphs are in ``saved_model/``. Tokenization of texts is not part of this package.
"""
