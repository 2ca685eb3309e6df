"""Measure the size of the project, and how many functions and files each command uses.

    python -m benchmarks.size                  # current figures and their ceilings
    python -m benchmarks.size --check          # exit code 1 if a figure is too high (run by CI)
    python -m benchmarks.size --tree ../other  # the figures of another checkout, with its code

All lines count, including blank lines and docstrings. A command is traced in a process of its own,
in its second run, when everything is imported: the called functions of the package (a comprehension
counts as part of its function), and their files. Bare participles among names are recognised by
their ending and by a list of words. A short function that is used once has at most 12 lines, a name
that no other function of the package has, and one place that uses the name. A vague name is a
target of an assignment or a loop that does not say what the value is, such as ``found``.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import subprocess
import sys
import tempfile
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

CEILINGS: Final = Path(__file__).with_name("size_ceilings.toml")
# Program that traces a command: its last run, and for "fresh" the first run in the process.
TRACED: Final = """
import contextlib, io, json, os, sys
from importlib import import_module
from pathlib import Path
package, argv, fresh = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3] == "fresh"
import vocabtool
assert Path(vocabtool.__file__).parent == Path(package), vocabtool.__file__
name = "vocabtool.cli.main" if (Path(package) / "cli" / "main.py").exists() else "vocabtool.cli"
cli = import_module(name).cli
passed = set()
def note(frame, event, _):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(package):
        if code.co_name not in ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>", "<module>"):
            passed.add((code.co_filename, code.co_name, code.co_firstlineno))
def run(argv):
    out = io.TextIOWrapper(io.BytesIO())
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        cli.main(argv, standalone_mode=False)
if not fresh:
    run(argv[0])
import threading
threading.setprofile(note)
sys.setprofile(note)
run(argv[-1])
sys.setprofile(None)
print(json.dumps([len(passed), len({file for file, *_ in passed})]))
os._exit(0)
"""
COUNT_OPTIONS: Final = """
import click
from vocabtool.cli.main import cli
def options(command):
    own = [p for p in command.params if isinstance(p, click.Option)]
    if not isinstance(command, click.Group):
        return len(own)
    context = click.Context(command)
    names = command.list_commands(context)
    return len(own) + sum(options(command.get_command(context, name)) for name in names)
print(options(cli))
"""
NAME_COMMANDS: Final = "from vocabtool.cli.main import COMMANDS; print(*COMMANDS)"
SHORT: Final = 12  # lines of a function
VAGUE: Final = frozenset({"found", "each", "part", "parts", "held", "asked", "told"})
PUBLIC_MODULES: Final = ("vocabtool.cli.main", "vocabtool.documents", "vocabtool.errors")
PARTICIPLES: Final = frozenset(
    """asked begun bought bound broken brought built chosen done drawn fed felt found given gone
    grown had heard held hidden kept known laid led left lent lost made meant met named paid said
    seen sent shown sought spoken stood taken taught thought thrown told understood won worn
    written""".split()  # noqa: SIM905 - easier to read; without cut, put, split, which are also verbs
)
NOUNS: Final = frozenset(
    """bed embed encoding embedding ending exceed feed indexing heading mapping meaning need padding
    pooling seed seeding shed speed spelling spring stemming string thing timing training warning
    weighting wording stemmed hashing setting scoring ranking reading during bring ring king sing
    everything nothing something anything numbering naming red""".split()  # noqa: SIM905 - as above
)


def main() -> None:
    """Print the figures; with ``--check``, exit with 1 if one is above its ceiling."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail above a ceiling")
    parser.add_argument("--tree", type=Path, default=Path(__file__).parent.parent)
    asked = parser.parse_args()
    figures = dict(sizes(asked.tree.resolve()))
    ceilings: dict[str, int] = tomllib.loads(CEILINGS.read_text("utf-8"))
    above = [name for name, ceiling in ceilings.items() if figures[name] > ceiling]
    width = max(map(len, figures))
    for name, figure in figures.items():
        ceiling = f"{ceilings[name]:>10,}" if name in ceilings else ""
        mark = "  above its ceiling" if name in above else ""
        sys.stdout.write(f"{name:{width}} {figure:>10,}{ceiling}{mark}\n")
    if asked.check and above:
        sys.exit(1)


def sizes(root: Path) -> Iterator[tuple[str, int]]:
    """Yield the figures of a checkout, with the names of their ceilings."""
    package = root / "vocabtool"
    sources = [path.read_text("utf-8") for path in sorted(package.rglob("*.py"))]
    trees = [ast.parse(source) for source in sources]
    yield "product_lines", sum(source.count("\n") for source in sources)
    yield "product_files", len(sources)
    unseen = {"__init__.py", "__main__.py", "__pycache__", "py.typed"}
    yield "top_entries", len({path.name for path in package.iterdir()} - unseen)
    tests = {path: path.read_text("utf-8") for path in sorted((root / "tests").rglob("*.py"))}
    lines = sum(source.count("\n") for source in tests.values())
    yield "test_lines", lines
    public = public_names(package)
    inside = sum(
        source.count("\n") for source in tests.values() if not is_public(ast.parse(source), public)
    )
    yield "test_percent_inside", round(100 * inside / lines)
    yield "imports_in_functions", sum(map(imports_in_functions, trees))
    yield from notions(trees)
    commands = set(run_python(root, "-c", NAME_COMMANDS).split())
    yield "public_names", len(public - commands)  # functions with the names of commands are not new
    yield "options", int(run_python(root, "-c", COUNT_OPTIONS))
    names = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Name))
    yield "vague_names", sum(isinstance(n.ctx, ast.Store) and n.id in VAGUE for n in names)
    yield "walruses", sum(isinstance(n, ast.NamedExpr) for tree in trees for n in ast.walk(tree))
    yield "comments", sum(map(comments, sources))
    yield "participles", sum(len(participles(tree)) for tree in trees)
    modules = [path.stem for path in package.rglob("*.py")]
    yield "participles_public", sum(map(is_participle, [*public, *modules]))
    with tempfile.TemporaryDirectory() as folder:
        yield from ways(root, Path(folder))


def public_names(package: Path) -> set[str]:
    """Return the names in ``vocabtool.__all__``."""
    code = "import vocabtool; print(*vocabtool.__all__)"
    return set(run_python(package.parent, "-c", code).split())


def is_public(tree: ast.Module, public: set[str]) -> bool:
    """Whether a test imports only public names of the package and its command line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            if any(name.startswith("vocabtool.") for name in names):
                return False
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "vocabtool":
                if not {alias.name for alias in node.names} <= public | {"__version__", "errors"}:
                    return False
            elif node.module.startswith("vocabtool.") and node.module not in PUBLIC_MODULES:
                return False
    return True


def imports_in_functions(tree: ast.Module) -> int:
    """Return the number of import statements inside functions."""
    return len(
        {
            (inner.lineno, inner.col_offset)
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            for inner in ast.walk(node)
            if isinstance(inner, ast.Import | ast.ImportFrom)
        }
    )


def comments(source: str) -> int:
    """Return the number of comments, without those for tools, such as ``# noqa``."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    texts = (token.string for token in tokens if token.type == tokenize.COMMENT)
    return sum(not text.startswith(("# noqa", "# type:", "# fmt:")) for text in texts)


def notions(trees: list[ast.Module]) -> Iterator[tuple[str, int]]:
    """Yield the numbers of classes, protocols, limits, and short functions that are used once."""
    nodes = [node for tree in trees for node in ast.walk(tree)]
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    yield "classes", len(classes)
    bases = [" ".join(map(ast.unparse, node.bases)) for node in classes]
    yield "protocols", sum("Protocol" in names for names in bases)
    assigned = [
        target
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]
    yield (
        "limits",
        sum(isinstance(name, ast.Name) and name.id.startswith("MAX_") for name in assigned),
    )
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    defined = Counter(function.name for function in functions)
    uses = Counter(node.id for node in nodes if isinstance(node, ast.Name))
    uses.update(node.attr for node in nodes if isinstance(node, ast.Attribute))
    lengths = {node.name: (node.end_lineno or 0) - node.lineno + 1 for node in functions}
    yield (
        "short_functions_used_once",
        sum(
            defined[name] == uses[name] == 1 and length <= SHORT for name, length in lengths.items()
        ),
    )


def participles(tree: ast.Module) -> list[str]:
    """Return the names of functions, methods and classes that are a bare participle."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return [n.name for n in ast.walk(tree) if isinstance(n, kinds) and is_participle(n.name)]


def is_participle(name: str) -> bool:
    """Whether a name is a single participle: ``_joined``, ``Asking``, ``told``."""
    name = name.strip("_")
    word = name.lower()
    is_one_word = "_" not in name and sum(map(str.isupper, name)) < 2
    return (
        is_one_word and word not in NOUNS and (word.endswith(("ed", "ing")) or word in PARTICIPLES)
    )


def ways(root: Path, folder: Path) -> Iterator[tuple[str, int]]:
    """Yield the numbers of functions and files that ``extract``, ``index`` and ``search`` use."""
    data = root / "data"
    questions = [str(data / "questions.txt"), "--model", str(data / "small_glove.txt")]
    build = ["index", *questions, "--quiet", "-o"]
    query = ["search", str(folder / "0"), "love to use Xapian", "-k", "2"]
    jobs = {
        "extract": [["extract", str(data / "sentence_encoder"), "-o", str(folder / "v.txt")]] * 2,
        "index": [[*build, str(folder / name)] for name in ("0", "1")],
        "search": [query] * 2,
    }
    for name, lines in jobs.items():
        functions, files = trace(root, lines, "warm")
        yield f"{name}_functions", functions
        yield f"{name}_files", files
    yield "first_search_files", trace(root, [query], "fresh")[1]


def trace(root: Path, lines: list[list[str]], state: str) -> tuple[int, int]:
    """Return the number of functions and of files that the last of these command lines uses."""
    told = run_python(root, "-c", TRACED, f"{root / 'vocabtool'}", json.dumps(lines), state)
    functions, files = json.loads(told)
    return functions, files


def run_python(root: Path, *arguments: str) -> str:
    """Run a Python process that imports a checkout's package; return what it prints."""
    environment = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


if __name__ == "__main__":
    main()
