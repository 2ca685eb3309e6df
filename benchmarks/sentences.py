"""Draw random docstrings, messages and sentences of the documentation for readers to judge.

    python -m benchmarks.sentences --seed 1 --count 60

A reader marks each text that had to be read twice; fewer than 3 in 100 is the goal.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
SHORTEST: Final = 25  # minimum characters of a message
# Calls with messages, besides exceptions.
SPEAKERS: Final = frozenset(["tell", "echo", "warn", "option", "argument"])


def docstrings(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
            text = ast.get_docstring(node)
            if text:
                yield f"{getattr(node, 'name', 'module')}: {text}"


def messages(tree: ast.Module) -> Iterator[str]:
    """Yield the texts of raised errors, of the help of options, and of printed messages."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and node.exc is not None:
            yield from texts(node.exc)
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in (
            "what",
            "note",
        ):
            yield from texts(node.value)
        elif isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in SPEAKERS:
                yield from texts(node)


def texts(node: ast.AST) -> Iterator[str]:
    """Yield literal texts, with {…} for inserted values."""
    text = ""
    if isinstance(node, ast.JoinedStr):
        pieces = (p.value if isinstance(p, ast.Constant) else "{…}" for p in node.values)
        text = "".join(map(str, pieces))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        text = node.value
    else:
        for child in ast.iter_child_nodes(node):
            yield from texts(child)
    if len(text) >= SHORTEST and " " in text:
        yield text


def sentences(page: Path) -> Iterator[str]:
    """Yield the sentences of a page, without code, tables and headings."""
    text = re.sub(r"^(```|:::).*?^\1.*?$", "", page.read_text("utf-8"), flags=re.DOTALL | re.M)
    for paragraph in re.split(r"\n\s*\n", text):
        if not re.match(r"\s*(\||#|<!--|\$\$)", paragraph):
            words = " ".join(paragraph.split())
            yield from (each for each in re.split(r"(?<=[.:?])\s", words) if " " in each)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=60)
    options = parser.parse_args()
    sources = [ast.parse(path.read_text("utf-8")) for path in (ROOT / "vocabtool").rglob("*.py")]
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*/README.md")]
    kinds = {
        "docstring": {text for tree in sources for text in docstrings(tree)},
        "message": {text for tree in sources for text in messages(tree)},
        "sentence": {text for page in pages for text in sentences(page)},
    }
    generator = random.Random(options.seed)
    for kind, found in kinds.items():
        for number, text in enumerate(generator.sample(sorted(found), options.count), 1):
            print(f"[{kind} {number}] {text}\n")


if __name__ == "__main__":
    main()
