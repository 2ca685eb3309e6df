"""Reports that commands print and save: one model of a report, and a renderer for each format.

Reports count and print nothing; ``cli/`` prints. Start with ``model.py``. ``oov.py`` is an example
of a report, and ``renderers.py`` writes it.
"""
