"""The index of version 0.1.0 in ``tests/data``, made by that version, as one of this version.

``made_with.py.txt`` there made it, and noted what it held and answered once compacted.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.builders.small_indexes import contents, delete
from tests.conftest import ROOT
from vocabtool import Index, InvalidFile, NotFound, VocabtoolError
from vocabtool.cli.main import cli

OLD = ROOT / "tests" / "data" / "index_0_1_0"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A copy of the index, with the model beside it."""
    shutil.copytree(OLD, tmp_path / "old")
    return tmp_path / "old" / "index"


def expected() -> dict[str, Any]:
    """What version 0.1.0 found in it."""
    found: dict[str, Any] = json.loads((OLD / "expected.json").read_text())
    return found


def test_it_is_refused_with_what_helps(old: Path) -> None:
    """By whatever opens it; an older format must be indexed again."""
    for act in (Index.open, lambda path: Index.open(path).compact()):
        with pytest.raises(InvalidFile, match=r"0\.1\.0: run `vocabtool upgrade .*--force"):
            act(old)
    file = old / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"vocabtool_index": 2}))
    with pytest.raises(InvalidFile, match="has format 2, but only format 3 can be upgraded"):
        Index.upgrade(old)


def test_documents_vectors_and_settings_are_carried_over(old: Path) -> None:
    """What it holds and answers is what version 0.1.0 said, to the last digit of each score."""
    Index.upgrade(old)
    index = Index.open(old, old.parent / "vectors.txt")
    found = {id_: {"text": each.text, **each.fields} for id_, each in contents(index).items()}
    assert found == expected()["documents"]
    assert index.verify().others == ()
    encoded = index.verify(model=True).encoded  # documents of an old index are canaries, too
    assert encoded is not None
    assert encoded.documents == 8
    assert encoded.lowest == pytest.approx(1, abs=1e-6)
    for asked, hits in expected()["answers"].items():
        fusion, query = asked.split(": ")
        answered = [[hit.id, hit.score] for hit in index.search(query, fusion=fusion, k=8)]
        assert answered == hits, asked
    assert [hit.id for hit in index.search("amber", where="even and late = 'été'")] == ["d20"]
    assert (index.calibration.a, index.calibration.judged) == (0.25, 7)  # type: ignore[union-attr]  # there is one
    kinds = sorted(each.name.partition("-")[0] for each in old.iterdir())
    assert kinds == [".lock", "generation", "verified.json", "vocabulary", "weights"]


def test_it_goes_on_as_an_index(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is kept up to date with the files it was made of, by the weights that were fitted then."""
    Index.upgrade(old)
    monkeypatch.chdir(old.parent)
    index = Index.open(old, old.parent / "vectors.txt")
    with (old.parent / "corpus.jsonl").open("a") as file:
        file.write('{"id": "new", "text": "grove grove"}\n')
    report = index.update()
    assert (report.added, report.updated, report.unchanged) == (3, 1, 27)  # d7, d11, new; d3
    assert index.search("grove grove", k=1)[0].id == "new"
    delete(index, ["new"])
    assert index.compact() == 2
    assert index.verify().documents == 31


def test_the_command_upgrades(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Once; what is no old index is told apart."""
    cli(["upgrade", str(old)], standalone_mode=False)
    assert "converted, 3 deleted documents" in capsys.readouterr().err
    with pytest.raises(VocabtoolError, match="nothing to upgrade"):
        Index.upgrade(old)
    with pytest.raises(NotFound):
        Index.upgrade(old.parent)


@pytest.mark.parametrize(
    "name", ["manifest.json", "vectors.bin", "documents-", "deleted-", "sources-", "vocabulary-"]
)
def test_what_is_damaged_is_not_carried_over(old: Path, name: str) -> None:
    """The file is named, and the old index stays as it is."""
    file = next(each for each in sorted(old.rglob("*")) if each.name.startswith(name))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 4
    file.write_bytes(data)
    before = sorted(old.rglob("*"))
    with pytest.raises(InvalidFile, match=file.name):
        Index.upgrade(old)
    left = [each for each in sorted(old.rglob("*")) if each.name != ".lock"]
    assert [each for each in left if ".part" not in str(each)] == before
