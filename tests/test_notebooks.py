"""The notebooks: they run, show what is stored in them, and use only what is public."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import vocabtool
from tests.conftest import ROOT

FOLDER = ROOT / "notebooks"
NEEDS = ("nbclient", "ipykernel", "matplotlib", "pandas", "tensorflow")
# The number of plots, and what the text around the outputs speaks of.
SHOWN = {
    "vocabulary_diff": (5, "680 common, 1,320 only in '../data/sentence_encoder', 2,524 only in"),
    "out_of_vocabulary": (4, "words are unknown: 11.8%\n57 of 80 texts contain one: 71.2%"),
    "hybrid_search": (5, "hybrid: redis-backup is number 1 of 116\nkeywords alone: redis-backup"),
}
NAMES = pytest.mark.parametrize("name", SHOWN)


def load(file: Path) -> Any:
    return json.loads(file.read_text("utf-8"))


def code_cells(notebook: Any) -> Iterator[tuple[str, list[Any]]]:
    """The code and the outputs of each cell."""
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            yield "".join(cell["source"]), cell["outputs"]


def shown(output: Any) -> str:
    """The text of an output; of an image, that it is one."""
    data = output.get("data", {})
    if "image/png" in data:
        return "an image"
    return "".join(output.get("text") or data["text/plain"])


def texts(notebook: Any) -> list[list[str]]:
    """What each code cell shows."""
    return [[shown(output) for output in outputs] for _, outputs in code_cells(notebook)]


@pytest.fixture
def execute(tmp_path: Path) -> Callable[[str], Any]:
    """Runs a notebook in a folder of its own by the documented command."""
    folder = tmp_path / "notebooks"
    folder.mkdir()
    (tmp_path / "data").symlink_to(ROOT / "data")

    def run(name: str) -> Any:
        needs = NEEDS[:-1] if name == "vocabulary_diff" else NEEDS
        if missing := [need for need in needs if importlib.util.find_spec(need) is None]:
            pytest.skip(f"{name} needs {', '.join(missing)}: pip install '.[dev]'")
        file = folder / f"{name}.ipynb"
        shutil.copyfile(FOLDER / file.name, file)
        environ = os.environ | {"PYTHONPATH": str(ROOT)}
        command = [sys.executable, str(FOLDER / "execute.py"), str(file)]
        done = subprocess.run(command, env=environ, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return load(file)

    return run


@NAMES
def test_a_fresh_run_shows_what_is_stored(execute: Callable[[str], Any], name: str) -> None:
    """Outputs are not stale: all texts are equal, and images are where images were."""
    assert texts(execute(name)) == texts(load(FOLDER / f"{name}.ipynb"))


@NAMES
def test_stored_outputs(name: str) -> None:
    """Run in order, none failed; nothing of a machine, nothing private; the figures are there."""
    notebook = load(FOLDER / f"{name}.ipynb")
    counts = [cell["execution_count"] for cell in notebook["cells"] if "outputs" in cell]
    assert counts == list(range(1, len(counts) + 1))
    outputs = [output for _, outputs in code_cells(notebook) for output in outputs]
    assert "error" not in [output["output_type"] for output in outputs]
    assert "stderr" not in [output.get("name") for output in outputs]
    plots, figures = SHOWN[name]
    every = [shown(output) for output in outputs]
    assert every.count("an image") == plots
    together = "\n".join(every)
    assert figures in together
    assert re.findall(r"(?<![\w.])(?:/[\w.-]+){2,}|[A-Z]:\\", together) == []
    assert (FOLDER / f"{name}.ipynb").stat().st_size < 300_000
    for source, _ in code_cells(notebook):
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                assert not any(alias.name.startswith("vocabtool.") for alias in node.names)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("vocabtool"):
                assert node.module == "vocabtool"
                assert {alias.name for alias in node.names} <= set(vocabtool.__all__)
            if isinstance(node, ast.Attribute):
                assert not node.attr.startswith("_"), ast.unparse(node)
                if isinstance(node.value, ast.Name) and node.value.id == "vocabtool":
                    assert node.attr in vocabtool.__all__


def test_every_notebook_is_tested_and_named() -> None:
    assert sorted(file.stem for file in FOLDER.glob("*.ipynb")) == sorted(SHOWN)
    readme = (FOLDER / "README.md").read_text("utf-8")
    assert [name for name in SHOWN if f"{name}.ipynb" not in readme] == []
