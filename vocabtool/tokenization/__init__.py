"""Split texts into words as a model does, and look the words up.

Begin with ``words.py``. Then read ``lookup.py``, ``rule.py`` and ``infer_rule.py``.
"""
