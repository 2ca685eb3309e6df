"""Execute notebooks in place, and keep what they show: all of this folder, or those named.

    python notebooks/execute.py [NOTEBOOK ...]

What differs from run to run or tells of the machine is left out: times, versions, kernel names,
and what is written to standard error (TensorFlow tells there what computer it runs on).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def execute(file: Path) -> None:
    """Run one notebook from its own folder; an error in a cell is raised."""
    notebook = nbformat.read(file, as_version=4)  # type: ignore[no-untyped-call] # nbformat carries no types
    NotebookClient(
        notebook,
        timeout=600,
        kernel_name=KERNEL["name"],
        record_timing=False,
        coalesce_streams=True,  # else how a busy machine cut them would be kept
        resources={"metadata": {"path": str(file.parent)}},
    ).execute()
    plain(notebook)
    nbformat.write(notebook, file)  # type: ignore[no-untyped-call] # the same


def plain(notebook: Any) -> None:
    """Leave out of a notebook what is not part of its story."""
    notebook.metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = [one for one in cell.outputs if one.get("name") != "stderr"]
        for output in cell.get("outputs", ()):
            if "metadata" in output:
                output.metadata = {}


def main() -> None:
    """Execute notebooks and name each when it is done."""
    named = [Path(argument) for argument in sys.argv[1:]]
    for file in named or sorted(Path(__file__).parent.glob("*.ipynb")):
        execute(file)
        print(file.name)


if __name__ == "__main__":
    main()
