"""Compare vocabularies: shared entries, entries of only one, and their use in a corpus.

Begin with ``compare.py``; ``diff.py`` holds its result. ``entries.py`` joins the two sets of
entries. ``use.py`` counts the words of a corpus with the same rule for both vocabularies.
``cuts.py`` counts them with a rule for each vocabulary. ``formats/`` reads vocabularies;
``reports/`` renders comparisons.
"""
