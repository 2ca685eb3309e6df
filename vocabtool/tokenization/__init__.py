"""Split texts into words as a model does, and look the words up.

``formats/`` reads vocabularies. ``oov/`` counts the words of a corpus. Begin with ``words.py``,
then read ``lookup.py``, ``rule.py`` and ``infer_rule.py``.
"""
