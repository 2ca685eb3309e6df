"""The command line: arguments, messages, progress and exit codes.

Only this package prints and exits. Begin with ``main.py``. Related commands share a file.
``options.py`` has the options that several commands share.
"""
