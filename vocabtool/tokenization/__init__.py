"""Texts to words as a model makes them, and which of the words it knows.

Not here: where vocabularies come from (``formats/``), counts over a corpus (``oov/``).
Begin with ``words.py``, then ``lookup.py``, ``rule.py`` and ``infer_rule.py``.
"""
