"""Embedding on Ray: a real Ray on this machine makes the folder that threads make."""

# own process: Ray

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import pytest

from tests.conftest import ROOT
from tests.counted_letters import LOG, SECONDS, files_of, write_corpus
from vocabtool import embed
from vocabtool.errors import VocabtoolError

pytest.importorskip("ray", reason="Ray is an extra")

DOCUMENTS: Final = 2000
SHARD: Final = 200
MODEL: Final = "python:tests.counted_letters:logged"


def command(corpus: Path, out: Path, *options: str, model: str = MODEL) -> list[str]:
    given = ["--model", model, "-o", str(out), "--shard-rows", str(SHARD), "--batch-size", "20"]
    return [sys.executable, "-m", "vocabtool", "embed", str(corpus), *given, *options]


def environment(log: Path, seconds: str = "0") -> dict[str, str]:
    """Where texts are noted; Ray's workers import the model from here."""
    told = {LOG: str(log), SECONDS: seconds, "RAY_USAGE_STATS_ENABLED": "0"}
    return {**os.environ, **told, "PYTHONPATH": str(ROOT)}


def at_work(log: Path) -> set[int]:
    """The processes that have encoded something; the one that was started tries one text."""
    lines = log.read_text().splitlines() if log.exists() else []
    return {int(line.split()[0]) for line in lines}


def test_ray_makes_the_same_folder_though_a_worker_is_killed(tmp_path: Path) -> None:
    """Two actors, one of them killed while it is at work; bad rows are counted all the same."""
    corpus = tmp_path / "corpus.jsonl"
    write_corpus(corpus, DOCUMENTS)
    with corpus.open("a") as file:
        file.write("{\n")
    skip = ("--on-error", "skip")
    plain, out, log = tmp_path / "plain", tmp_path / "out", tmp_path / "log"
    local = command(corpus, plain, *skip)
    subprocess.run(local, env=environment(tmp_path / "other"), cwd=ROOT, check=True)
    asked = command(corpus, out, *skip, "--ray", "2")
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": ROOT}
    process = subprocess.Popen(asked, env=environment(log, "0.1"), **pipes)
    pids: set[int] = set()
    while (len(pids) < 2 or not any(out.glob("shard-*.parquet"))) and process.poll() is None:
        time.sleep(0.02)
        pids = at_work(log) - {process.pid}
    assert process.poll() is None, process.communicate()
    os.kill(min(pids), signal.SIGKILL)
    said, told = process.communicate(timeout=240)
    assert process.returncode == 0, told
    assert b"1 invalid row" in said
    assert files_of(out) == files_of(plain)
    assert len(at_work(log) - {process.pid}) == 3
    again = command(corpus, out, *skip, "--ray", "1")
    done = subprocess.run(again, env=environment(log), cwd=ROOT, capture_output=True, check=True)
    assert b"nothing: all shards exist already" in done.stdout


def test_ray_reads_by_name(tmp_path: Path) -> None:
    """A stream in this process is nothing that a worker elsewhere could read."""
    with pytest.raises(VocabtoolError, match="Ray reads files by name"):
        embed(iter(["a"]), "python:tests.counted_letters:encode", tmp_path / "out", ray=1)


def test_what_fails_in_a_worker_is_told_as_anywhere(tmp_path: Path) -> None:
    """A bad row, by file and line, without Ray's traceback."""
    (tmp_path / "corpus.jsonl").write_text('{"text": "a"}\n{\n')
    asked = command(tmp_path / "corpus.jsonl", tmp_path / "out", "--ray", "1")
    done = subprocess.run(asked, env=environment(tmp_path / "log"), cwd=ROOT, capture_output=True)
    assert done.returncode == 3
    assert b"error: %b:2: not JSON" % bytes(tmp_path / "corpus.jsonl") in done.stderr
    assert not any(b"Traceback" in line for line in done.stderr.split(b"vocabtool: error: ")[1:])


CHANGING = """
import os
from vocabtool.errors import InvalidFile

def opened(process):
    if os.getpid() != process:
        raise InvalidFile("the model's files have changed")
    return Model()

class Model:
    fingerprint = "same"

    def __call__(self, texts):
        return [[1.0]] * len(texts)

    def __reduce__(self):
        return opened, (os.getpid(),)

model = Model()
"""


def test_a_model_that_a_worker_cannot_open_is_told(tmp_path: Path) -> None:
    """With its own message, and not as a dead actor."""
    (tmp_path / "changing.py").write_text(CHANGING)
    (tmp_path / "corpus.txt").write_text("a\n")
    asked = command(
        tmp_path / "corpus.txt", tmp_path / "out", "--ray", "1", model="python:changing:model"
    )
    given = environment(tmp_path / "log") | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    done = subprocess.run(asked, env=given, cwd=ROOT, capture_output=True)
    assert done.returncode == 3
    assert b"error: the model's files have changed" in done.stderr
