"""Compare vocabularies: common entries, entries of one only, and their use in a corpus.

Begin with ``diff.py``. ``entries.py`` joins the two sets of entries. ``formats/`` reads
vocabularies; ``reports/`` renders comparisons.
"""
