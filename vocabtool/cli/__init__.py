"""The command line: arguments, messages, progress, exit codes; the one place that prints and exits.

What commands do is done by the other rooms, how results look by ``reports/``. Begin with
``main.py``; a command is in the file of its name, shared options in ``options.py``.
"""
