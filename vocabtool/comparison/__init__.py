"""Compare vocabularies: shared entries, entries of only one, and their use in a corpus.

Begin with ``compare.py``; ``diff.py`` defines its result. ``entries.py`` finds the shared entries.
``use.py`` splits a corpus by one rule for both vocabularies; ``cuts.py`` splits it by the rule of
each. ``formats/`` reads vocabularies; ``reports/`` renders comparisons.
"""
