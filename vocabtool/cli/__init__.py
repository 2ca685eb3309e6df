"""The command line: arguments, messages, progress and exit codes.

Only this package prints and exits. The other packages do the work, and ``reports/`` formats the
results. Begin with ``main.py``. Related commands share a file; shared options are in
``options.py``.
"""
