"""Compare vocabularies: which entries they share, which only one has, how a corpus uses them.

Begin with ``diff.py``. ``entries.py`` joins the two sets of entries. ``formats/`` reads
vocabularies; ``reports/`` renders comparisons.
"""
