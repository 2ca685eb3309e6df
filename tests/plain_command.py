"""The command as a plain install has it, without pandas: ``python -m tests.plain_command ...``.

The tests' own environment has pandas, and Arrow loads it wherever it is, a third of a second for
each of the many commands that are run.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder


class NoPandas(MetaPathFinder):
    """Says of pandas that it is not installed."""

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


if __name__ == "__main__":
    sys.meta_path.insert(0, NoPandas())
    sys.argv[0] = "vocabtool"
    from vocabtool.cli.main import main

    main()
