"""A folder of documents in pieces: loaded, updated from anywhere, and recorded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import counted_letters
from tests.builders.small_indexes import contents, counts, texts
from vocabtool import Index, LoadReport, embed, open_encoder
from vocabtool.documents import ReadOptions

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
    # A w-w is one word, and the path takes one of the five.
    assert (len(long), {*long[1:-1]}) == (26, {"Long\n\nw-w, w. w-w, w."})
    assert embed("docs", five_words(), "shards", split_size=3).counts.too_long == 0
    with pytest.raises(ValueError, match=r"overlap must be less than the length of a piece \(5\)"):
        Index.create("other", five_words()).load("docs", overlap=6)


def test_the_path_is_searched(docs: Path) -> None:
    """A piece that begins with all headings of its path has no path before it; nor has a row."""
    write(docs / "guide.md", "Before.\n\n# Guide\n\n## Install\n\napt\n\n## 2024\n\nrun it\n")
    write(docs / "rows.jsonl", '{"id": 1, "path": "a", "text": "apt"}\n')
    write(docs / "main.c", "int a;\n")
    index = Index.create("index", counted_letters.encode)
    index.load("docs", exclude=["build/"], split_size=8)
    assert texts(index) == {
        "docs/api.rst#API": "API\n===\n\nNothing.",
        "docs/code.py#first": "def first(): ...",
        "docs/code.py#second": "def second(): ...",
        "docs/guide.md": "Before.",
        "docs/guide.md#Guide > Install": "# Guide\n\n## Install\n\napt",
        "docs/guide.md#Guide > 2024": "Guide > 2024\n\n## 2024\n\nrun it",
        "docs/main.c": "int a;",
        "docs/rows.jsonl:1": "apt",
    }
    fields = {id_: each.fields.get("path") for id_, each in contents(index).items()}
    assert fields["docs/guide.md#Guide > Install"] == "Guide > Install"
    assert (fields["docs/main.c"], fields["docs/rows.jsonl:1"]) == (None, None)
    assert index.manifest.searched_fields == index.stats().searched_fields == ("path", "text")
    found = {}
    for query in ("guide", "run"):
        for hit in index.search(query, explain=True, fusion="keyword"):
            assert hit.explanation is not None
            found[hit.id.rpartition("/")[2], query] = hit.explanation.highlight_fields
    assert found == {
        ("guide.md#Guide > Install", "guide"): ("text",),
        ("guide.md#Guide > 2024", "guide"): ("path",),
        ("guide.md#Guide > 2024", "run"): ("text",),
    }
    assert counts(index.update(sync=True)) == (0, 0, 8, 0)


@pytest.mark.parametrize("split", ["file", "paragraph", "tokens"])
def test_other_pieces_have_no_path(docs: Path, split: Any) -> None:
    """Nor have pieces with a field that was asked for, or with vectors of the user's own."""
    index, _ = made(split=split)
    assert index.manifest.searched_fields == ()
    assert not [text for text in texts(index).values() if text.startswith("Guide >")]
    plain = Index.create("plain", counted_letters.encode)
    plain.load("docs", field="text")
    assert plain.manifest.searched_fields == ()
    assert texts(plain)["docs/guide.md#Guide > Use"] == "## Use\n\nrun it"
    given = Index.create("given", dim=3)
    given.load("docs", vectors=np.ones((6, 3), np.float32))
    assert texts(given) == texts(plain)
