"""Vocabularies of TensorFlow's graphs: SavedModels, with assets and checkpoint, and frozen graphs.

A vocabulary is found by following what fills, looks up or consumes it, never by name or size, and
no weight is read. Begin with ``graph_files.py``, where the parts meet, then ``linker.py``. How
texts are cut into words is not here but in ``tokenization/``; archives of Keras are in
``keras.py``.
"""
