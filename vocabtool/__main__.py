"""``python -m vocabtool`` is the command line."""

from vocabtool.cli.main import main

main()
