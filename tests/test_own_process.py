"""Tests of a file in a process of its own are reported as if they ran in this process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.own_process import IMPORTED, MARK, OwnProcess

FILES = {
    "broken": "import no_such",
    "crash": """import os
def test_before(): pass
def test_crash(): os.abort()
def test_after(): pass""",
    "exit": "import os\ndef test_exit(): os._exit(0)",
    "gone": "import os\nos._exit(0)",
    "fine": """def test_one(): pass
def test_child(request): print("child:", request.config.getoption("--reports") is not None)""",
    "mixed": """import pytest
def test_pass(): pass
def test_fail():
    print("spoken")
    assert 1 == 2
@pytest.mark.skip(reason="not today")
def test_skip(): pass
@pytest.mark.xfail
def test_xfail(): assert 0
@pytest.fixture
def divided(): 1 / 0
def test_error(divided): pass""",
    "skipped": "import pytest\npytest.importorskip('no_such', reason='a library is missing')",
}
XDIST = ("-n", "2", "--dist", "loadfile")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    for name, text in FILES.items():
        (folder / f"test_{name}.py").write_text(f"# A file.{MARK.decode()}a library\n{text}\n")
    (folder / "test_here.py").write_text("def test_here(): assert 0\n")
    (folder / "pytest.ini").write_text("[pytest]\n")
    return folder


def run(folder: Path, *arguments: str) -> str:
    options = ("-p", "tests.own_process", "-p", "xdist", "-ra")
    path = {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", *options, *arguments]
    done = subprocess.run(
        command, cwd=folder, env=os.environ | path, capture_output=True, text=True
    )
    return f"exit code {done.returncode}\n{done.stdout}"


@pytest.mark.parametrize("workers", [(), XDIST], ids=["alone", "xdist"])
def test_every_report(workers: tuple[str, ...], folder: Path) -> None:
    """Results are counted, and shown with their names, texts and output; a crash is a failure."""
    shown = run(folder, *workers)
    assert "5 failed, 4 passed, 2 skipped, 1 xfailed, 2 errors" in shown.splitlines()[-1]
    assert sorted(re.findall(r"^FAILED (\S+)", shown, re.MULTILINE)) == [
        "test_crash.py::own",
        "test_exit.py::own",
        "test_gone.py::own",
        "test_here.py::test_here",
        "test_mixed.py::test_fail",
    ]
    assert sorted(re.findall(r"^SKIPPED \[1\] (.*)", shown, re.MULTILINE)) == [
        "test_mixed.py:8: not today",
        "test_skipped.py:4: a library is missing",
    ]
    facts = ("spoken", "assert 1 == 2", "ZeroDivisionError", "No module named 'no_such'")
    assert {fact for fact in facts if fact not in shown} == set()
    assert "code -6 after 1 of 3 tests, in test_crash.py::test_crash" in shown
    assert "Fatal Python error: Aborted" in shown
    assert "code 0 after 0 of 1 tests, in test_exit.py::test_exit" in shown
    assert "code 0 before any test" in shown


def test_options(folder: Path) -> None:
    """A child process selects tests as its parent would, and stops after as many failures."""
    sound = "--ignore-glob=test_[bg]*.py"
    assert "1 passed, 1 skipped" in run(folder, "-k", "one or no_such", sound)
    assert "1 failed, 1 passed" in run(folder, "-x", sound)
    assert "child: True" in run(folder, "-s")
    assert "child: False" in run(folder, "-s", "test_fine.py::test_child")
    shown = run(folder, "-k", "one", "--deselect=test_fine.py::test_one", sound)
    assert "exit code 5" in shown  # no tests


def test_last_failed(folder: Path) -> None:
    """With ``--lf``, all tests that failed run again, and no others."""
    without_crashes = "--ignore-glob=test_[bceg]*.py"
    assert "2 failed, 3 passed, 2 skipped, 1 xfailed, 1 error" in run(folder, without_crashes)
    assert "2 failed, 1 error" in run(folder, "--lf", without_crashes)


def test_heavy_libraries(request: pytest.FixtureRequest) -> None:
    """No other test file imports a library that fills the memory of a worker."""
    if any(
        MARK in item.path.read_bytes()
        for item in request.session.items
        if not isinstance(item, OwnProcess)
    ):
        pytest.skip("a file with a heavy library was named, and is imported in this process")
    assert request.config.stash[IMPORTED] == set()
