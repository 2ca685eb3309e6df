"""What the README shows is what happens."""

from __future__ import annotations

import contextlib
import doctest
import os
import pty
import re
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

import pytest

from tests.conftest import ROOT

README = (ROOT / "README.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def environ(**more: str) -> dict[str, str]:
    return os.environ | {"COLUMNS": "100", "NO_COLOR": "1", "PYTHONPATH": str(ROOT)} | more


def on_a_terminal(arguments: list[str]) -> str:
    """What a command writes to a terminal of 100 columns."""
    code = "from vocabtool.cli.main import main; main()"
    return read_terminal([sys.executable, "-c", code, *arguments], ROOT, environ())


def read_terminal(
    command: list[str], folder: Path, environ: dict[str, str], errors: Path | None = None
) -> str:
    """What is written to a terminal; ``errors``: a file for standard error."""
    outer, inner = pty.openpty()
    with contextlib.ExitStack() as stack:
        stderr = stack.enter_context(errors.open("wb")) if errors else inner
        stack.enter_context(
            subprocess.Popen(command, stdout=inner, stderr=stderr, env=environ, cwd=folder)
        )
        os.close(inner)
        shown = b""
        while True:
            try:
                piece = os.read(outer, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            shown += piece
    os.close(outer)
    return shown.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("block", blocks("console"))
def test_console(block: str) -> None:
    """A command in the README prints what the README says it prints."""
    command, _, shown = block.partition("\n")
    name, *arguments = command.removeprefix("$ ").split()
    assert name == "vocabtool"
    assert on_a_terminal(arguments) == shown


def typed(session: str) -> list[tuple[str, str]]:
    """Each command of a shell session, with what it shows."""
    parts = re.split(r"^\$ (.*)\n", session, flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def test_shell_sessions(tmp_path: Path) -> None:
    """Typed one after the other in a fresh clone, the README's commands show what it shows."""
    work, programs, errors = tmp_path / "clone", tmp_path / "bin", tmp_path / "errors"
    work.mkdir()
    programs.mkdir()
    (work / "data").symlink_to(ROOT / "data")
    program = programs / "vocabtool"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m vocabtool "$@"\n')
    program.chmod(0o755)
    path = environ(PATH=f"{programs}{os.pathsep}{os.environ['PATH']}")
    commands = [pair for block in blocks("shellsession") for pair in typed(block)]
    assert commands
    for command, wanted in commands:
        shown = read_terminal(["sh", "-c", command], work, path, errors)
        assert errors.read_text("utf-8") + shown == wanted, command


def test_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python of the README, run from top to bottom, answers what the README says."""
    monkeypatch.chdir(ROOT)
    session = "\n".join(blocks("pycon"))
    test = doctest.DocTestParser().get_doctest(session, {}, "README", "README.md", 0)
    runner = doctest.DocTestRunner()
    runner.run(test)
    assert (runner.failures, runner.tries > 5) == (0, True)


def test_extras() -> None:
    """It names all extras that are advised, each option of each command, and CI's one line."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    rows = re.search(r"^\| extra \|.*\n.*\n((?:\|.*\n)+)", README, re.MULTILINE)
    assert rows is not None
    named = [re.findall(r"`(.+?)`", row.split("|")[1]) for row in rows[1].splitlines()]
    assert sorted(chain(*named)) == sorted(extras["optional-dependencies"])
    sources = [file.read_text("utf-8") for file in (ROOT / "vocabtool").rglob("*.py")]
    advised = re.findall(r"pip install '(.*?)\[(.+?)\]'", "".join((*sources, README)))
    assert {folder for folder, _ in advised} == {"."}
    assert {name for _, names in advised for name in names.split(",")} <= set(chain(*named))
    import click

    from vocabtool.cli.main import cli

    for name, command in cli.commands.items():
        assert f"vocabtool {name}" in README
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert any(option in README for option in parameter.opts), parameter.opts
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    found = [line for line in lines if re.fullmatch(r"python3 -m venv .*pytest( .*)?", line)]
    assert len(found) == 1
