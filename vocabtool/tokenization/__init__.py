"""Split texts into words as a model does, and look the words up.

Vocabularies are read in ``formats/``. Words of a corpus are counted in ``oov/``. Begin with
``words.py``, then read ``lookup.py``, ``rule.py`` and ``infer_rule.py``.
"""
