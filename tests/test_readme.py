"""The README names the extras that exist, and the command that runs the tests; it is short."""

from __future__ import annotations

import re
import tomllib
from itertools import chain

from tests.conftest import ROOT

README = (ROOT / "README.md").read_text("utf-8")


def test_extras() -> None:
    """It names all extras that are advised, and the one command of CI."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    rows = re.search(r"^\| extra \|.*\n.*\n((?:\|.*\n)+)", README, re.MULTILINE)
    assert rows is not None
    named = [re.findall(r"`(.+?)`", row.split("|")[1]) for row in rows[1].splitlines()]
    assert sorted(chain(*named)) == sorted(extras["optional-dependencies"])
    sources = [file.read_text("utf-8") for file in (ROOT / "vocabtool").rglob("*.py")]
    advised = re.findall(r"pip install '(.*?)\[(.+?)\]'", "".join((*sources, README)))
    assert {folder for folder, _ in advised} == {"."}
    assert {name for _, names in advised for name in names.split(",")} <= set(chain(*named))
    blocks = re.findall(r"^```sh\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines()]
    found = [line for line in lines if re.fullmatch(r"python3 -m venv .*pytest( .*)?", line)]
    assert len(found) == 1
    assert README.count("\n") <= 200
