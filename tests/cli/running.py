"""Commands as a person types them: in a process of their own, on a terminal or not."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Mapping
from io import BytesIO, TextIOWrapper
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tests.conftest import ROOT
from vocabtool.cli.main import _run

COMMAND = [sys.executable, "-c", "from vocabtool.cli.main import main; main()"]
NOTHING: Mapping[str, str] = MappingProxyType({})


def environment(more: Mapping[str, str] = NOTHING) -> dict[str, str]:
    """``PYTHONPATH`` in ``more`` comes before ours."""
    paths = os.pathsep.join(filter(None, (more.get("PYTHONPATH"), str(ROOT))))
    return os.environ | {"COLUMNS": "100", "NO_COLOR": "1"} | dict(more) | {"PYTHONPATH": paths}


def run(
    *arguments: str | Path,
    cwd: Path = ROOT,
    given: bytes = b"",
    environ: Mapping[str, str] = NOTHING,
) -> subprocess.CompletedProcess[bytes]:
    """A command, as a plain install has it; both streams apart."""
    command = [sys.executable, "-m", "tests.plain_command", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, cwd=cwd, env=environment(environ), input=given
    )


def told(
    *arguments: str | Path,
    code: int = 0,
    cwd: Path = ROOT,
    given: str | bytes = "",
    environ: Mapping[str, str] = NOTHING,
) -> tuple[str, str]:
    """Standard output and standard error of a command that ends with a code.

    It runs in this process, which is ten times as fast, unless it needs an environment.
    """
    given = given.encode() if isinstance(given, str) else given
    if environ:
        done = run(*arguments, cwd=cwd, given=given, environ=environ)
        assert b"Traceback" not in done.stderr
        ended, streams = done.returncode, [done.stdout, done.stderr]
    else:
        files = [TextIOWrapper(BytesIO(), "utf-8", write_through=True) for _ in range(2)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["vocabtool", *map(str, arguments)])
            patch.setattr(sys, "stdin", TextIOWrapper(BytesIO(given), "ascii"))
            patch.setattr(sys, "stdout", files[0])
            patch.setattr(sys, "stderr", files[1])
            patch.setenv("COLUMNS", "100")
            patch.chdir(cwd)
            ended = _run()  # main() would end this process
        streams = [file.buffer.getvalue() for file in files]
    printed, messages = (stream.decode() for stream in streams)
    assert ended == code, (arguments, messages)
    return printed, messages


def output(*arguments: str | Path, **options: Any) -> str:
    """Standard output of a command that ends well."""
    return told(*arguments, **options)[0]


def errors(*arguments: str | Path, code: int = 3, **options: Any) -> str:
    """Standard error of a command that fails, and prints nothing else."""
    printed, messages = told(*arguments, code=code, **options)
    assert printed == ""
    return messages


def on_terminal(here: Path, *arguments: str, code: int = 0) -> str:
    """What a terminal shows of standard output, and then standard error."""
    ended, shown, errors = run_on_terminal([*COMMAND, *arguments], here, environment())
    assert ended == code
    assert "Traceback" not in errors
    return shown + errors


def run_on_terminal(
    command: list[str], here: Path, environ: Mapping[str, str], stream: str = "stdout"
) -> tuple[int, str, str]:
    """The exit code, what a terminal shows of one stream, and what came from the other one."""
    outer, inner = pty.openpty()
    streams: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: inner}
    with subprocess.Popen(command, env=environ, cwd=here, **streams) as process:
        os.close(inner)
        shown = b""
        try:
            while piece := os.read(outer, 1 << 16):
                shown += piece
        except OSError:  # which is how a terminal ends
            pass
        os.close(outer)
        other = (process.stderr or process.stdout).read()  # type: ignore[union-attr] # one is a pipe
    return process.returncode, shown.decode().replace("\r\n", "\n"), other.decode()
