"""Readers of model files, one file per format.

Start at ``registry.py``, which chooses a vocabulary. ``detection.py`` lists the readers, and
``saved_model/`` reads TensorFlow graphs.
"""
