"""Compare two vocabularies: shared entries, entries of only one, and their use in a corpus.

Begin with ``compare.py``. ``entries.py`` finds the shared entries; ``corpus.py`` splits a corpus by
one rule for both vocabularies, or by the rule of each. ``formats/`` reads vocabularies;
``reports/`` renders comparisons.
"""
