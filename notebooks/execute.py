"""Execute notebooks in place and store their outputs: all in this folder, or the named ones.

    python notebooks/execute.py [NOTEBOOK ...]

Leaves out what differs between runs or machines: times, versions, kernel names, and standard
error (where TensorFlow describes the computer).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def execute(file: Path) -> None:
    """Run one notebook in its own folder; raise the first error of a cell."""
    notebook = nbformat.read(file, as_version=4)  # type: ignore[no-untyped-call] # nbformat has no types
    NotebookClient(
        notebook,
        timeout=600,
        kernel_name=KERNEL["name"],
        record_timing=False,
        coalesce_streams=True,  # else their number depends on the speed of the machine
        resources={"metadata": {"path": str(file.parent)}},
    ).execute()
    plain(notebook)
    nbformat.write(notebook, file)  # type: ignore[no-untyped-call] # the same


def plain(notebook: Any) -> None:
    """Remove metadata and standard error from a notebook."""
    notebook.metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = [one for one in cell.outputs if one.get("name") != "stderr"]
        for output in cell.get("outputs", ()):
            if "metadata" in output:
                output.metadata = {}


def main() -> None:
    """Execute notebooks, and print the name of each finished one."""
    named = [Path(argument) for argument in sys.argv[1:]]
    for file in named or sorted(Path(__file__).parent.glob("*.ipynb")):
        execute(file)
        print(file.name)


if __name__ == "__main__":
    main()
