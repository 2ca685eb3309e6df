"""A folder of documents in pieces: loaded, updated from anywhere, and recorded."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import counted_letters
from tests.builders.small_indexes import contents
from vocabtool import ChangedRun, Index, LoadReport, embed, open_encoder, stream
from vocabtool.documents import ReadOptions
from vocabtool.index.load import _identity
from vocabtool.index.sources import RULES, Part, Source
from vocabtool.system.own_files import from_json, to_json

KEEP = ("title", "path", "source", "line")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of documents below the working directory."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "docs"
    write(folder / "guide.md", "# Guide\n\nAbout.\n\n## Install\n\napt\n\n## Use\n\nrun it\n")
    write(folder / "api.rst", "API\n===\n\nNothing.\n")
    write(folder / "code.py", "def first(): ...\n\ndef second(): ...\n")
    write(folder / "build" / "x.md", "# Built\n")
    write(folder / ".gitignore", "build/\n")
    return folder


def counts(report: LoadReport) -> tuple[int, int, int, int]:
    return report.added, report.updated, report.unchanged, report.removed


def made(**read: Any) -> tuple[Index, LoadReport]:
    index = Index.create("index", counted_letters.encode)
    return index, index.load("docs", ReadOptions(keep=KEEP, **read))


def test_an_update_from_anywhere_changes_what_was_edited(
    docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids and the field ``source`` stay as they were; a section that is gone is deleted."""
    index, report = made()
    assert counts(report) == (6, 0, 0, 0)
    before = contents(index)
    assert [*before] == [
        *("docs/api.rst#API", "docs/code.py#first", "docs/code.py#second"),
        *("docs/guide.md#Guide", "docs/guide.md#Guide > Install", "docs/guide.md#Guide > Use"),
    ]
    assert before["docs/guide.md#Guide > Use"].fields == {
        "title": "Guide",
        "path": "Guide > Use",
        "source": "docs/guide.md",
        "line": 9,
    }
    text = (
        (docs / "guide.md").read_text().replace("apt", "apt-get").replace("## Use\n\nrun it\n", "")
    )
    write(docs / "guide.md", text)
    write(docs / "new.txt", "one\ntwo\n")
    monkeypatch.chdir("/")
    path = docs.parent / "index"
    assert counts(Index.open(path, counted_letters.encode).update(sync=True)) == (2, 1, 4, 1)
    after = contents(Index.open(path, counted_letters.encode))
    assert before.keys() - after.keys() == {"docs/guide.md#Guide > Use"}
    assert after.keys() - before.keys() == {"docs/new.txt:1", "docs/new.txt:2"}
    changed = [id_ for id_ in before.keys() & after.keys() if before[id_] != after[id_]]
    assert changed == ["docs/guide.md#Guide > Install"]
    again = Index.open(path, counted_letters.encode).update(sync=True)
    assert counts(again) == (0, 0, again.read, 0)


def test_options_are_recorded(docs: Path) -> None:
    """An update splits and chooses files as the first load did."""
    index, _ = made(split="paragraph", split_size=9, overlap=2, exclude=["*.py"], gitignore=False)
    (source,) = index.manifest.sources
    assert source.options == ReadOptions(
        keep=KEEP, split="paragraph", split_size=9, overlap=2, exclude=["*.py"], gitignore=False
    )
    ids = [*contents(index)]
    assert "docs/build/x.md#Built" in ids
    assert not [id_ for id_ in ids if ".py" in id_]
    write(docs / "more.md", "a\n\nb\n")
    assert counts(Index.open("index", counted_letters.encode).update()) == (2, 0, len(ids), 0)


def test_records_of_earlier_versions(docs: Path) -> None:
    """They read line by line, and without regard to ``.gitignore``, as they did."""
    index, _ = made()
    record = to_json(index.manifest.sources[0])
    assert (record.pop("rules"), from_json(Source, {**record, "rules": RULES}, "source")) == (
        RULES,
        index.manifest.sources[0],
    )
    for name in ("split", "split_size", "overlap", "include", "exclude", "gitignore"):
        del record["options"][name]
    old = from_json(Source, record, "source")
    assert (old.options.split, old.options.gitignore, old.rules) == ("line", False, RULES)
    assert from_json(Source, to_json(old), "source") == old
    # The plan of a load without new options is what it was.
    plain = Part((), ReadOptions(field="a"), {})
    assert _identity(plain) == ["a", None, None, (), "raise", "error"]
    assert len(_identity(Part((), ReadOptions(split="file"), {}))) == 13


@pytest.fixture
def five_words() -> Callable[[], Any]:
    """Opens an encoder that reads five words."""

    def opened() -> Any:
        encoder = open_encoder(counted_letters.encode, vocabulary=["w"])
        encoder.max_tokens = 5
        return encoder

    return opened


def test_no_piece_is_longer_than_the_model_reads(docs: Path, five_words: Callable[[], Any]) -> None:
    """Sizes are those of the model; an overlap needs room."""
    write(docs / "long.md", "# Long\n\n" + "w-w, w. " * 50)
    index = Index.create("index", five_words())
    report = index.load("docs", ReadOptions(keep=["path"]))
    assert (report.too_long, report.tokens_cut) == (0, 0)
    long = [document.text for id_, document in contents(index).items() if "#Long" in id_]
    assert (len(long), {*long[1:-1]}) == (26, {"w-w, w. w-w, w."})  # a w-w is one word
    assert embed("docs", five_words(), "shards", split_size=3).counts.too_long == 0
    with pytest.raises(ValueError, match="overlap must be below the 5 tokens"):
        Index.create("other", five_words()).load("docs", overlap=6)


def test_a_run_of_embed_records_how_it_split(docs: Path) -> None:
    """Plans without the new options keep the bytes that they had."""
    embed("docs", counted_letters.encode, "plain")
    assert (
        not {"split", "split_size", "overlap"}
        & json.loads(Path("plain/_run.json").read_text()).keys()
    )
    embed("docs", counted_letters.encode, "split", split="tokens", overlap=4)
    with pytest.raises(ChangedRun, match="--split: was tokens, is paragraph"):
        embed("docs", counted_letters.encode, "split", split="paragraph", overlap=4)


def test_streams(docs: Path) -> None:
    """A stream has the same documents, and all fields of the pieces."""
    found = [*stream("docs", exclude=["*.md"], split="file")]
    assert [each.id for each in found] == ["docs/api.rst", "docs/code.py"]
    assert found[0].fields["title"] == "API"
    assert [*stream("docs").skip(4)] == [*stream("docs")][4:]
