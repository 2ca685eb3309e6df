"""Reports of the words of a corpus that a model does not know, counted in bounded memory.

Which words there are and which are known is decided in ``tokenization/``; how a report is shown is
in ``reports/``. Begin with ``counter.py``.
"""
