"""Count the words of a corpus that a model does not know, in bounded memory.

``tokenization/`` makes the words and looks them up. ``reports/`` renders the reports. Begin with
``counter.py``.
"""
