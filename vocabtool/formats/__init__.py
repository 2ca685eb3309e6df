"""Model files -> vocabularies. A file a format; ``registry.py`` lists them in order: begin there.

Graphs of TensorFlow are in ``saved_model/``. How a text is cut into words is not asked here.
"""
