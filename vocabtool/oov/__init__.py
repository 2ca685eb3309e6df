"""Count the words of a corpus that a model does not know, in bounded memory.

Begin with ``counter.py``. ``tokenization/`` splits texts into words. ``reports/`` renders reports.
"""
