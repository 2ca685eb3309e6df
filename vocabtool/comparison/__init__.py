"""Vocabularies compared: what both hold, what each holds alone, and how much that matters.

Where a vocabulary came from and how a comparison is shown are asked elsewhere. Begin with
``diff.py``; ``entries.py`` has the join of two sets of byte strings that all of it counts on.
"""
