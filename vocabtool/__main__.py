"""Run the command line: ``python -m vocabtool``."""

from vocabtool.cli.main import main

main()
