"""Reports that commands print and save: the parts of a report, and a renderer for each format.

This package neither counts nor prints; ``cli/`` prints. Begin with ``report.py``, then read
``oov.py`` as an example of a report, and ``report.py``, which writes reports.
"""
