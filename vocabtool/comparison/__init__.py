"""Vocabularies compared: what both hold, what each holds alone, and how much that matters."""
