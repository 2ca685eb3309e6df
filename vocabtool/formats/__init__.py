"""Readers of model files, one file per format.

Start at ``registry.py``, which lists the readers in order. ``saved_model/`` reads TensorFlow
graphs. Splitting texts is not done here, but in the package ``vocabtool/tokenization``.
"""
