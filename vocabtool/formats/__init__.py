"""Readers of model files, one file per format.

Start at ``registry.py``, which lists the readers in order. ``saved_model/`` reads TensorFlow
graphs. ``tokenization/`` splits texts.
"""
