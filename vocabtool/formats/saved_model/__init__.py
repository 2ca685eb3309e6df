"""Read vocabularies from SavedModels (graph, assets, checkpoint) and frozen TensorFlow graphs.

A vocabulary is recognised by the ops that use its tensor (that fill a lookup table, look up words
or tokenize), never by its name or size. Weights are never read. Begin with ``graph_files.py``,
which combines the parts, then ``linker.py``. Tokenization is in ``tokenization/``, and Keras
archives are in ``keras.py``.
"""
