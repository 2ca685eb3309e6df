"""The command line: arguments, messages, progress and exit codes.

Only this package prints and exits. Begin with ``main.py``. ``options.py`` has options that several
commands share.
"""
