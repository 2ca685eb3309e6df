"""Compare vocabularies: which entries they share, which only one has, how a corpus uses them.

Begin with ``compare.py``; ``diff.py`` holds its result. ``entries.py`` joins the two sets of
entries. ``use.py`` counts the words of a corpus by one rule for both, ``cuts.py`` by the rule of
each. ``formats/`` reads vocabularies; ``reports/`` renders comparisons.
"""
