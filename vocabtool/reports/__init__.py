"""Reports that commands print and save: the parts of a report, and a renderer for each format.

This package neither counts nor prints; ``cli/`` prints. Begin with ``report.py``, which also
writes reports, then read ``oov.py`` as an example.
"""
