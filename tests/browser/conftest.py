"""The site and some reports, served on this machine, and Chromium to open them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

import pytest

from tests.builders.file_server import files_served
from tests.conftest import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser

MODULES = ("playwright", "sphinx", "furo", "myst_parser", "sphinx_click", "sphinx_copybutton")
MODEL = "data/sentence_encoder"


def run(*arguments: str | Path) -> None:
    subprocess.run([sys.executable, "-m", *arguments], cwd=ROOT, check=True, capture_output=True)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=which("chromium"), args=["--no-sandbox"]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def tools() -> None:
    """Skip the tests if a program or a module is missing."""
    missing = [name for name in MODULES if find_spec(name) is None]
    missing += ["chromium"] * (which("chromium") is None)
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (.ci/run browser installs everything)")


@pytest.fixture(scope="session")
def folder(tools: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="session")
def site(folder: Path) -> None:
    """Build the documentation site."""
    run("sphinx", "-q", "-d", folder.parent / "doctrees", "docs", folder / "site")


@pytest.fixture(scope="session")
def reports(folder: Path) -> None:
    """Write a report on unknown words, a comparison, a search, and what an index is worth."""
    run("vocabtool", "oov", MODEL, "data/questions.txt", "--html", folder / "oov.html")
    run("vocabtool", "diff", MODEL, "data/small_glove.txt", "--html", folder / "diff.html")
    index = folder.parent / "answers"
    answers = ("data/answers.jsonl", "--id-field", "id", "--model", "data/small_glove.txt")
    run("vocabtool", "index", *answers, "-o", index, "--quiet")
    search = ("search", index, "the os.path.join of Redis, to lose xyzzyq data", "-o")
    run("vocabtool", *search, folder / "search.html")
    judged = ("--queries", "data/answers_queries.jsonl", "--qrels", "data/answers_qrels.tsv")
    run("vocabtool", "eval", index, *judged, "--html", folder / "eval.html")


@pytest.fixture(scope="session")
def server(folder: Path, site: None, reports: None) -> Iterator[str]:
    """The address of the pages."""
    with files_served(folder) as address:
        yield f"{address}/"
