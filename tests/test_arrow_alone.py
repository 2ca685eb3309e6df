"""The command's start without pandas. The oracle: Arrow and pandas themselves, in a new process."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import ROOT

pytest.importorskip("pandas", reason="it is what is kept out")


def ran(program: str) -> str:
    """What a program prints; nothing that this process has loaded is loaded in it."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True
    )
    return done.stdout


def test_arrow_would_load_pandas() -> None:
    """Otherwise there is nothing to keep out."""
    assert ran("import sys, pyarrow; pyarrow.array(['a']); print('pandas' in sys.modules)") == (
        "True\n"
    )


def test_pandas_stays_out_until_it_is_asked_for() -> None:
    """Lists become arrays without it; tables become frames, and frames tables, with it."""
    program = """
import sys
from vocabtool.arrow_alone import keep_pandas_out
keep_pandas_out()
import pyarrow as pa
array = pa.array(["a", None])
print(array.to_pylist(), "pandas" in sys.modules)
frame = pa.table({"column": array}).to_pandas()
print(frame["column"].isna().tolist(), pa.Table.from_pandas(frame)["column"].to_pylist())
print(pa.array(frame["column"]).to_pylist())
"""
    assert ran(program).splitlines() == [
        "['a', None] False",
        "[False, True] ['a', None]",
        "['a', None]",
    ]


def test_a_command_does_not_load_pandas() -> None:
    """Not even where documents are read and counted."""
    program = """
import sys
from vocabtool.cli import _run
sys.argv = ["vocabtool", "oov", "data/sentence_encoder", "data/questions.txt", "--format", "json"]
assert _run() == 0
print("pandas" in sys.modules)
"""
    assert ran(program).endswith("False\n")
