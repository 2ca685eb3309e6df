"""Draw random docstrings, messages and sentences of the documentation for readers to judge.

    python -m benchmarks.sentences --seed 1 --count 60

Each text stands where people meet it: a docstring under its signature, a message after the error
or call that shows it, a sentence under the title of its page and after the sentence before it. A
reader marks each text that had to be read twice; fewer than 3 in 100 is the goal.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
SHORTEST: Final = 25  # minimum characters of a message
# Calls with messages, besides exceptions.
OPTIONS: Final = frozenset(["option", "argument"])
SPEAKERS: Final = OPTIONS | {"tell", "echo", "warn"}


def docstrings(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
            text = ast.get_docstring(node)
            if text:
                yield f"{signature(node)}\n{text}"


def signature(node: ast.FunctionDef | ast.ClassDef | ast.Module) -> str:
    """Return what a page shows above a docstring: a head, and the fields of a class."""
    if isinstance(node, ast.Module):
        return "the file"
    if isinstance(node, ast.ClassDef):
        fields = [ast.unparse(each) for each in node.body if isinstance(each, ast.AnnAssign)]
        return "\n    ".join((f"class {node.name}:", *fields))
    returned = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"def {node.name}({ast.unparse(node.args)}){returned}"


def messages(tree: ast.Module) -> Iterator[str]:
    """Yield the texts of raised errors, of the help of options, and of printed messages.

    A text that a function keeps in ``what`` or ``note`` is shown where the function uses it.
    """
    kept: dict[str, str] = {}
    kinds = ast.FunctionDef | ast.Assign | ast.Raise | ast.Call
    for node in sorted(
        (each for each in ast.walk(tree) if isinstance(each, kinds)), key=lambda each: each.lineno
    ):
        if isinstance(node, ast.FunctionDef):
            kept.clear()
        elif isinstance(node, ast.Raise) and node.exc is not None:
            yield from texts(node.exc, "error", kept)
        elif isinstance(node, ast.Assign):
            name = getattr(node.targets[0], "id", "")
            if name in ("what", "note"):
                kept.pop(name, None)
                found = [*texts(node.value, "", kept)]
                if len(found) == 1:
                    kept[name] = found[0].removeprefix(": ")
        elif isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in SPEAKERS:
                first = node.args[0] if node.args else None
                option = str(first.value) if isinstance(first, ast.Constant) else ""
                yield from texts(node, f"help of {option}" if name in OPTIONS else "note", kept)


def texts(node: ast.AST, kind: str, kept: Mapping[str, str]) -> Iterator[str]:
    """Yield literal texts after their kind, with {…} for inserted values.

    ``kept``: the texts of variables.
    """
    text = ""
    if isinstance(node, ast.JoinedStr):
        for piece in node.values:
            if isinstance(piece, ast.FormattedValue):
                text += kept.get(getattr(piece.value, "id", ""), "{…}")
            else:
                text += str(getattr(piece, "value", ""))
    elif isinstance(node, ast.Name):
        text = kept.get(node.id, "")
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        text = node.value
    else:
        for child in ast.iter_child_nodes(node):
            yield from texts(child, kind, kept)
    if len(text) >= SHORTEST and " " in text:
        yield f"{kind}: {text}"


def sentences(page: Path) -> Iterator[str]:
    """Yield the sentences of a page, without code, tables and headings."""
    text = re.sub(r"^(```|:::).*?^\1.*?$", "", page.read_text("utf-8"), flags=re.DOTALL | re.M)
    heading = before = ""
    for paragraph in re.split(r"\n\s*\n", text):
        if paragraph.lstrip().startswith("#"):
            heading, before = paragraph.strip("# \n"), ""
        elif not re.match(r"\s*(\||<!--|\$\$)", paragraph):
            words = " ".join(paragraph.split())
            for each in re.split(r"(?<=[.:?])\s", words):
                if " " in each:
                    yield f"({page.name}, {heading}) … {before}\n→ {each}"
                    before = each


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=60)
    options = parser.parse_args()
    sources = [
        (path.relative_to(ROOT), ast.parse(path.read_text("utf-8")))
        for path in (ROOT / "vocabtool").rglob("*.py")
    ]
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*/README.md")]
    kinds = {
        "docstring": {f"{name} {text}" for name, tree in sources for text in docstrings(tree)},
        "message": {f"{name} {text}" for name, tree in sources for text in messages(tree)},
        "sentence": {text for page in pages for text in sentences(page)},
    }
    generator = random.Random(options.seed)
    for kind, found in kinds.items():
        for number, text in enumerate(generator.sample(sorted(found), options.count), 1):
            print(f"[{kind} {number}] {text}\n")


if __name__ == "__main__":
    main()
