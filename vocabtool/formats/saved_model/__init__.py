"""Read vocabularies from SavedModels (graph, assets, checkpoint) and frozen TensorFlow graphs.

A vocabulary is recognised by the ops that use its tensor, never by its name or size. Such ops fill
a lookup table, look up words or tokenize. Weights are never read. Begin with ``graph_files.py``,
which combines the parts, then ``meta_graph.py``.
"""
