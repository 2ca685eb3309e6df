"""Vocabularies of TensorFlow graphs, found by following what fills and looks up tables."""
