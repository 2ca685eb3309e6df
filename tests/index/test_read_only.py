"""Indexes that may be read but not written: a mount, or the folder of another user.

``python -m tests.index.test_read_only DIR OUT`` prints what is compared.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.builders.served import serving
from tests.builders.small_indexes import add, delete, documents, made, vectors
from tests.cli.running import environment, told
from tests.conftest import ROOT
from vocabtool import Index

MOUNT: Final = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
# Root without the right to ignore modes is a reader who does not own the folder.
MODES: Final = (
    ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"]
    if os.geteuid() == 0
    else ["env"]
)
WAYS: Final = {"mount": ["unshare", "-m", "sh", "-c", MOUNT], "modes": MODES}
READING: Final = (
    "search {} amber --explain -k 3",
    "search {} amber --where n<4 --facets even",
    "similar {} d1 -k 2",
    "list {} --where n>4",
    "get {} d3",
    "stats {}",
    "verify {}",
    "eval {} --self-check",
    "export {} -o {out}/exported.jsonl",
    "copy {} {out}/copy",
)
CALL: Final = {"name": "search", "arguments": {"query": "amber", "k": 2}}
ASKED: Final = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": CALL}


def answered(folder: Path, out: Path) -> list[Any]:
    """What all commands that read answer, a server, and its tool for agents."""
    out.mkdir()
    names = {str(folder): "DIR", str(out): "OUT"}
    found: list[Any] = []
    for command in READING:
        printed, messages = told(*(part.format(folder, out=out) for part in command.split()))
        for name, short in names.items():
            printed, messages = printed.replace(name, short), messages.replace(name, short)
        found.append([command, printed, messages])
    with serving({"small": folder}) as client:
        hits = client.post("/v1/indexes/small/search", json={"query": "amber"}).json()["hits"]
        accepted = {"accept": "application/json, text/event-stream"}
        tool = client.post("/mcp", json=ASKED, headers=accepted)
        found += [hits, tool.status_code, tool.text]
    return found


def limited(way: str, folder: Path, *command: str | Path) -> subprocess.Popen[str]:
    """A command for which a folder is read-only."""
    start = [*WAYS[way], str(folder)] if way == "mount" else WAYS[way]
    return subprocess.Popen(
        [*start, *map(str, command)],
        cwd=ROOT, env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """How a folder is made read-only; skips what this machine does not allow."""
    way, probe = str(request.param), tmp_path / "probe"
    probe.mkdir(mode=0o555)
    with limited(way, probe, "touch", probe / "file") as tried:
        said = tried.communicate()[1]
    if not tried.returncode or "touch:" not in said:
        pytest.skip(f"needs a way to make a folder read-only: {said.strip()}")
    return way


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """An index without the right to write to it."""
    delete(made(tmp_path / "index"), "d2")
    places = [tmp_path / "index", *(tmp_path / "index").rglob("*")]
    for place in places:
        place.chmod(place.stat().st_mode & ~0o222)
    yield tmp_path / "index"
    for place in places:
        if place.exists():
            place.chmod(place.stat().st_mode | 0o200)


def test_reading_needs_no_right_to_write(folder: Path, way: str, tmp_path: Path) -> None:
    """Commands, server and agents answer the same as where they may write."""
    command = (sys.executable, "-m", "tests.index.test_read_only", folder, tmp_path / "out")
    with limited(way, folder, *command) as reader:
        printed, said = reader.communicate()
    assert reader.returncode == 0, said
    for place in (folder, *folder.rglob("*")):
        place.chmod(place.stat().st_mode | 0o200)
    assert json.loads(printed) == json.loads(json.dumps(answered(folder, tmp_path / "own")))


WRITING: Final = ("delete {} d1", "index {texts} -o {} --vectors x.npy")


def test_writing_is_refused_by_name(folder: Path, way: str, tmp_path: Path) -> None:
    """The message names the folder and the right; it gives no advice to rebuild."""
    (tmp_path / "texts.txt").write_text("amber\n")
    for command in WRITING:
        arguments = command.format(folder, texts=tmp_path / "texts.txt").split()
        with limited(
            way, folder, sys.executable, "-m", "tests.plain_command", *arguments
        ) as writer:
            said = writer.communicate()[1]
        assert writer.returncode == 3, command
        assert "Read-only file system" in said or "Permission denied" in said
        assert str(folder) in said
        assert "--force" not in said and "damaged" not in said


def test_a_server_that_shall_write_needs_the_right(folder: Path, way: str) -> None:
    """It says so at the start, even if its lock is there already and may be written."""
    folder.chmod(0o755)
    (folder / ".server.lock").touch()
    folder.chmod(0o555)
    serve = (sys.executable, "-m", "tests.plain_command", "serve", folder, "--writable")
    with limited(way, folder, *serve, "--port", "0") as server:
        try:
            messages = server.communicate(timeout=60)[1]
        finally:
            server.kill()
    assert server.returncode == 3
    assert str(folder) in messages
    assert "--writable" in messages or "Read-only file system" in messages


READER: Final = """
import sys, time
from vocabtool import Index
index, sizes, end = Index.open(sys.argv[1]), [], time.monotonic() + 60
while time.monotonic() < end and len(index) < 30:
    index.refresh()
    hits = index.search(where="n >= 0", k=40, facets=["even"])
    sizes.append([len(hits), sum(value.count for value in hits.facets["even"])])
    if len(sizes) == 1:
        print("ready", flush=True)
print(sizes)
"""


def test_a_reader_beside_a_writer(folder: Path, way: str) -> None:
    """A reader that may not write sees each commit of one that may, whole."""
    if os.geteuid() != 0:
        pytest.skip("the writer needs rights that the reader lacks")
    with limited(way, folder, sys.executable, "-c", READER, folder) as reader:
        assert reader.stdout is not None and reader.stdout.readline() == "ready\n"
        for first in range(10, 31, 3):  # opened anew each time: the journal comes and goes
            index = Index.open(folder)
            add(index, documents(range(first, first + 3)), vectors(range(first, first + 3)))
            index.close()
            time.sleep(0.05)
        printed, said = reader.communicate()
    assert reader.returncode == 0, said
    sizes = json.loads(printed)
    assert all(found == counted for found, counted in sizes)
    assert {found for found, _ in sizes} <= {9 + more for more in range(0, 22, 3)}
    assert sizes[0][0] == 9 and sizes[-1][0] == 30


@pytest.mark.parametrize("way", ["modes"], indirect=True)
def test_a_folder_that_may_not_be_read(folder: Path, way: str) -> None:
    """It is not taken for one without an index."""
    folder.chmod(0)
    code = f"import vocabtool; vocabtool.Index.open({str(folder)!r})"
    with limited(way, folder, sys.executable, "-c", code) as reader:
        said = reader.communicate()[1].splitlines()[-1]
    folder.chmod(0o555)
    assert said == f"vocabtool.errors.NotFound: {folder}: Permission denied"


if __name__ == "__main__":
    sys.stdout.write(json.dumps(answered(Path(sys.argv[1]), Path(sys.argv[2]))))
