"""Compare vocabularies: shared entries, entries of only one, and their use in a corpus.

Begin with ``compare.py``; ``diff.py`` holds its result. ``entries.py`` joins the two sets of
entries. ``use.py`` counts the words of a corpus by one rule for both vocabularies, ``cuts.py`` by
the rule of each. ``formats/`` reads vocabularies; ``reports/`` renders comparisons.
"""
