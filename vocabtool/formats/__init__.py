"""Readers of model files, one file per format.

Start at ``registry.py``, which lists the readers. ``saved_model/`` reads TensorFlow graphs.
"""
