"""What the README and the site show is what happens, and links of the repository lead somewhere."""

# own process: TensorFlow, in code of the pages

from __future__ import annotations

import doctest
import os
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cli.running import run_on_terminal
from tests.conftest import ROOT

SITE = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [ROOT / "README.md", *SITE]
REPOSITORY_PAGES = [*ROOT.glob("*.md"), *ROOT.glob("[a-z]*/README.md")]
ELLIPSIS = doctest.ELLIPSIS


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


NEEDS = r"<!-- needs: (\w+) -->\n"


def blocks(text: str) -> list[tuple[str, str, str]]:
    """Of each block that runs, in order: the module that it alone needs, language and code."""
    code = rf"^(?:{NEEDS})?```(console|pycon|python)\n(.*?)^```$"
    return re.findall(code, text, re.DOTALL | re.MULTILINE)


RUNNING = [page for page in PAGES if blocks(page.read_text("utf-8"))]


def commands(session: str) -> Iterator[tuple[str, str]]:
    """Each command of a shell session, with what it shows; `> ` continues a command."""
    for part in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
        lines = part.splitlines(keepends=True)
        end = 1
        while end < len(lines) and lines[end].startswith("> "):
            end += 1
        yield "".join([lines[0], *(line[2:] for line in lines[1:end])]), "".join(lines[end:])


def run_pycon(session: str, names: dict[str, Any], page: str) -> None:
    test = doctest.DocTestParser().get_doctest(session, names, page, page, 0)
    runner = doctest.DocTestRunner(optionflags=ELLIPSIS)
    runner.run(test, clear_globs=False)
    assert runner.tries > 0
    assert runner.failures == 0, page
    names.update(test.globs)


@pytest.mark.parametrize("page", RUNNING, ids=name_of)
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page's commands and Python, typed one after the other in a fresh clone, show what it says.

    `...` in what is shown stands for any text. A page that begins with `<!-- needs: NAME -->`, and
    a block that follows such a line, is skipped where that module is not installed.
    """
    text = page.read_text("utf-8")
    for module in re.findall(NEEDS, f"\n{text}".partition("\n# ")[0]):
        pytest.importorskip(module)
    clone, programs = tmp_path / "clone", tmp_path / "bin"
    clone.mkdir()
    programs.mkdir()
    for name in ("data", "docs", "notebooks"):
        (clone / name).symlink_to(ROOT / name)
    for program, module in (("vocabtool", "-m vocabtool"), ("python", "")):
        (programs / program).write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
        (programs / program).chmod(0o755)
    environ = os.environ | {
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "PYTHONPATH": str(ROOT),
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
    }
    monkeypatch.chdir(clone)
    names: dict[str, Any] = {"__name__": "__main__"}
    missing: set[str] = set()
    for module, language, code in blocks(text):
        if module and find_spec(module) is None:
            missing.add(module)
            continue
        if language == "pycon":
            run_pycon(code, names, name_of(page))
        elif language == "python":
            exec(compile(code, name_of(page), "exec"), names)
        else:
            for command, wanted in commands(code):
                _, printed, errors = run_on_terminal(["sh", "-c", command], clone, environ)
                shown = errors + printed
                same = doctest.OutputChecker().check_output(wanted, shown, ELLIPSIS)
                assert same or shown == wanted, f"$ {command}{shown}"
    if missing:
        pytest.skip(f"all ran but the blocks that need {', '.join(missing)}")


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)


def anchors_of(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", without_code(page.read_text("utf-8")), re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings
    }


@pytest.mark.parametrize("page", REPOSITORY_PAGES, ids=name_of)
def test_links(page: Path) -> None:
    """A link to a file of the repository, or to a heading of a page, leads there."""
    text = without_code(page.read_text("utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" not in target:
            name, _, anchor = target.partition("#")
            linked = page.parent / name if name else page
            assert linked.exists(), target
            assert not anchor or anchor in anchors_of(linked), target


def page_of(name: str) -> str:
    return (ROOT / "docs" / "reference" / f"{name}.md").read_text("utf-8")


def test_every_command_has_a_section() -> None:
    from vocabtool.cli.main import COMMANDS

    shown = re.findall(
        r"^\.\. click:: vocabtool\.cli\.(\S+)\n   :prog: vocabtool ([\w-]+)$",
        page_of("commands"),
        re.MULTILINE,
    )
    assert sorted((name, where) for where, name in shown) == sorted(COMMANDS.items())


FUNCTIONS_OF_AN_INDEX: Final = re.findall(
    "`[a-z]+`",
    "".join(
        line.split("|")[1]
        for line in page_of("python").splitlines()
        if re.match(r"\| `(search|update)`", line)
    ),
)


@pytest.mark.parametrize("module", ["vocabtool", "vocabtool.documents"])
def test_every_public_name_is_documented(module: str) -> None:
    shown = set(re.findall(r"^\.\. auto\w+:: (\S+)$", page_of("python"), re.MULTILINE))
    names = set(import_module(module).__all__)
    if module == "vocabtool":  # a function with the name of a method of an index is in a table
        names = {name for name in names if f"`{name}`" not in FUNCTIONS_OF_AN_INDEX} | {"open"}
    else:
        names.remove("Document")  # with the names of vocabtool
    assert {f"{module}.{name}" for name in names} <= shown


def test_every_environment_variable_is_named() -> None:
    read = set()
    for file in (ROOT / "vocabtool").rglob("*.py"):
        source = file.read_text("utf-8")
        for name in re.findall(r"environ\.(?:get|setdefault)\((\"?\w+\"?)", source):
            constant = re.search(rf'^{name}: Final = "(\w+)"', source, re.MULTILINE)
            read.add(constant[1] if constant else name.strip('"'))
    assert len(read) > 3
    assert {name for name in read if f"`{name}`" not in page_of("environment")} == set()


def test_extras() -> None:
    """It names all extras that are advised, and the one command of CI."""
    readme = (ROOT / "README.md").read_text("utf-8")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    rows = re.search(r"^\| extra \|.*\n.*\n((?:\|.*\n)+)", readme, re.MULTILINE)
    assert rows is not None
    named = [re.findall(r"`(.+?)`", row.split("|")[1]) for row in rows[1].splitlines()]
    assert sorted(chain(*named)) == sorted(extras["optional-dependencies"])
    sources = [file.read_text("utf-8") for file in (ROOT / "vocabtool").rglob("*.py")]
    advised = re.findall(r"pip install '(.*?)\[(.+?)\]'", "".join((*sources, readme)))
    assert {folder for folder, _ in advised} == {"."}
    assert {name for _, names in advised for name in names.split(",")} <= set(chain(*named))
    shell = re.findall(r"^```sh\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)
    lines = [line for block in shell for line in block.splitlines()]
    tests = [line for line in lines if re.fullmatch(r"python3 -m venv .*pytest( .*)?", line)]
    assert len(tests) == 1
    assert readme.count("\n") <= 200
