"""Comparisons of vocabularies against manual figures, Python's sets and kind definitions."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.some_reports import vocabulary
from vocabtool import Diff, NotFound, VocabtoolError, Vocabulary, diff

Marker = Any  # a ``Literal`` of vocabtool

A = ("the", "of", "Paris", "cat", "287.9", "[UNK]", "the", "ﬁne", "running")
B = ("[PAD]", "of", "paris", "fine", "the", "dog", "running")


def named(found: Diff, part: Any) -> list[str]:
    return [found.tokens[int(place)].as_py().decode() for place in found.places(part)]


def test_by_hand() -> None:
    """Common and other entries, and kinds."""
    found = diff(vocabulary(A, "one"), vocabulary(B, "two"))
    assert (found.a.label, found.a.size, found.a.distinct, found.a.duplicates) == ("one", 9, 8, 1)
    assert (found.b.label, found.b.size, found.b.distinct, found.b.duplicates) == ("two", 7, 7, 0)
    assert (found.common, found.only_a, found.only_b) == (3, 5, 4)
    assert found.jaccard == 3 / 12
    assert named(found, "common") == ["the", "of", "running"]
    assert named(found, "only_a") == ["Paris", "cat", "287.9", "[UNK]", "ﬁne"]
    assert named(found, "only_b") == ["[PAD]", "paris", "fine", "dog"]
    assert repr(found) == "<Diff: 3 common, 5 only in 'one', 4 only in 'two'>"

    assert found.sample("only_b", 2) == ["[PAD]", "paris"]
    assert found.sample("only_a", 5, kind="number") == ["287.9"]
    assert found.sample("common", 0) == []
    assert found.kinds == (
        ("word", 5, 6, 2, 3),
        ("capitalised", 1, 0, 1, 0),
        ("number", 1, 0, 1, 0),
        ("special", 1, 1, 1, 1),
    )


def test_a_fold_is_applied_when_asked_for() -> None:
    """Merged entries have their first ids; folds have a fixed order."""
    found = diff(vocabulary(["The", "the", "CAT"], first_id=5), vocabulary(["cat"]), fold=["case"])
    assert (found.a.size, found.a.distinct, found.a.merged, found.a.duplicates) == (3, 2, 1, 0)
    assert (found.common, found.only_a, found.only_b, found.fold) == (1, 1, 0, ("case",))
    first = tuple(found.to_arrow().to_pylist()[0].values())
    assert first == ("the", None, True, False, 5, None, "capitalised", None)
    a, b = vocabulary(["▁\uff21"], marker="▁"), vocabulary(["a"])
    for given_ in (("nfkc", "case", "nfkc"), "nfkc, case"):
        again = diff(a, b, fold=given_)
        assert (again.fold, again.common) == (("case", "nfkc"), 1)
    assert diff(a, b, fold="").fold == ()
    for wrong in (["stem"], "case,stem"):
        with pytest.raises(ValueError, match="expected names from case, nfkc, got 'stem'"):
            diff(a, b, fold=wrong)


def test_rows() -> None:
    """Arrow's rows, with gaps of ids."""
    a = replace(vocabulary(["x", "y", b"\xff"]), ids=np.array([3, 7, 7]))
    found = diff(a, vocabulary([b"\xff", "q", "y"]))
    names = ["token", "bytes", "in_a", "in_b", "id_a", "id_b", "kind_a", "kind_b"]
    rows = [
        ("x", None, True, False, 3, None, "word", None),
        ("y", None, True, True, 7, 2, "word", "word"),
        (None, b"\xff", True, True, 7, 0, "other", "other"),
        ("q", None, False, True, None, 1, None, "word"),
    ]
    assert found.to_arrow().column_names == names
    assert [tuple(row.values()) for row in found.to_arrow().to_pylist()] == rows
    assert found.to_pandas()["token"].dropna().tolist() == ["x", "y", "q"]
    assert found.to_polars().rows() == rows


TEXTS = ["The dog of Paris loves running.", "A cat, the dog, the the"]


def used(a: Vocabulary, b: Vocabulary, texts: Sequence[str] = TEXTS, **options: Any) -> Any:
    """Return the use of two vocabularies in a corpus."""
    return diff(a, b, corpus=iter(texts), **options).use


def test_use_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """the 4, dog 2, of, paris, loves, running, a, cat: 12 tokens; with folds and other rules."""
    use = used(vocabulary(A), vocabulary(B))
    assert (use.documents, use.tokens) == (2, 12)
    assert (use.both, use.only_a, use.only_b, use.neither) == (6, 1, 3, 2)
    assert use.words_both == 3
    assert use.words_a.to_pylist() == [{"word": b"cat", "count": 1}]
    words_b = [{"word": b"dog", "count": 2}, {"word": b"paris", "count": 1}]
    assert use.words_b.to_pylist() == words_b
    assert use.share(use.both) == 0.5
    assert (use.rule_name, use.rule[0]) == ("keras", "lower-case A to Z")
    assert (use.known_a, use.known_b) == (7, 9)
    assert "2 entries of A have capitals" in use.notes[0]
    use = used(vocabulary(A), vocabulary(B), fold=("case",))
    assert (use.both, use.only_a, use.only_b, use.neither) == (7, 1, 2, 2)
    assert use.notes == ()
    use = used(vocabulary(A), vocabulary(B), rule="whitespace")
    assert (use.rule_name, use.rule) == ("whitespace", ("split at whitespace",))
    assert (use.both, use.only_a, use.only_b, use.neither) == (4, 1, 1, 6)
    for rule, told in (("tokenizer:x.model", "must make words"), ("kera", "mean keras")):
        with pytest.raises(VocabtoolError, match=told):
            used(vocabulary(A), vocabulary(B), rule=rule)
    texts = [f"the w{i} cat dog" for i in range(200)]
    whole = used(vocabulary(A), vocabulary(B), texts)
    monkeypatch.setattr("vocabtool.comparison.corpus.TOGETHER", 64)
    parts = used(vocabulary(A), vocabulary(B), texts)
    assert parts.words_a == whole.words_a
    assert (parts.both, parts.only_a, parts.only_b) == (whole.both, whole.only_a, whole.only_b)


@pytest.mark.parametrize(
    ("the", "dog", "marker"),
    [
        *(("▁the", "dog", "▁"), ("Ġthe", "dog", "Ġ"), (" the", "dog", " ")),
        *(("the", "##dog", "##"), ("the", "dog@@", "@@"), ("the</w>", "dog", "</w>")),
    ],
)
def test_only_whole_words_of_pieces_are_known(the: str, dog: str, marker: Marker) -> None:
    """A piece that continues a word, or does not end one, is not a word."""
    use = used(vocabulary([the, dog], marker=marker), vocabulary([]))
    assert use.words_a.to_pylist() == [{"word": b"the", "count": 4}]


def test_files(tmp_path: Path) -> None:
    """Paths as for ``extract`` and ``oov``; unreadable parts are noted, in order."""
    for name, words in (("a", A), ("b", B)):
        (tmp_path / f"{name}.txt").write_text("\n".join(words) + "\n", "utf-8")
    a, b, path = tmp_path / "a.txt", str(tmp_path / "b.txt"), tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps({"n": 1, "body": text}) + "\n" for text in TEXTS), "utf-8")
    found = diff(a, b, corpus=path, field="body")
    assert (found.common, found.only_a, found.only_b) == (3, 5, 4)
    assert (found.a.label, found.b.label) == (str(a), b)
    assert found.use is not None
    assert (found.use.tokens, found.use.only_b, found.use.sources) == (12, 3, (str(path),))
    with pytest.raises(NotFound):
        diff(a, tmp_path / "c.txt")
    empty = used(vocabulary([]), vocabulary([]), [])
    assert (empty.tokens, empty.share(empty.both)) == (0, 0.0)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "vocab.txt").write_text("[UNK]\nthe\n##s\n", "utf-8")
        (tmp_path / name / "broken.tflite").write_bytes(b"\x1c\0\0\0TFL3" + b"\xff" * 64)

    first, second = diff(tmp_path / "a", tmp_path / "b").notes
    assert first.startswith(f"{tmp_path / 'a'}: incomplete: broken.tflite")
    assert second.startswith(f"{tmp_path / 'b'}: incomplete: broken.tflite")


# Laws.

letters = st.sampled_from(["a", "B", "b", "é", "É", "e\u0301", "ﬁ", "ß", "ж", "中", "1", "_", "▁"])
words = st.one_of(
    st.lists(letters, max_size=4).map("".join),
    st.binary(max_size=3),
    st.text(max_size=3).filter(str.isprintable),
)
markers = st.sampled_from([None, "▁", "Ġ", " ", "##", "@@", "</w>"])
vocabularies = st.builds(vocabulary, st.lists(words, max_size=12), marker=markers)
folds = st.lists(st.sampled_from(["case", "nfkc"]), unique=True)


@given(vocabularies, vocabularies, folds)
def test_sets_agree(a: Vocabulary, b: Vocabulary, fold: list[str]) -> None:
    """Entries add up as in sets; swapping A and B is symmetric."""
    same = diff(a, a)
    assert (same.only_a, same.only_b, same.jaccard) == (0, 0, 1.0)
    found = diff(a, b, fold=fold)
    assert found.only_a + found.common == found.a.distinct
    assert found.only_b + found.common == found.b.distinct
    assert found.a.distinct + found.a.merged + found.a.duplicates == len(a)
    assert sum(kind.a for kind in found.kinds) == found.a.distinct
    assert sum(kind.only_b for kind in found.kinds) == found.only_b
    assert len(found.tokens) == len(set(found.tokens.to_pylist()))
    if not found.fold and not found.by_text:
        one, other = set(a.stored), set(b.stored)
        parts = (one & other, one - other, other - one)
        for part, entries in zip(("common", "only_a", "only_b"), parts, strict=True):
            places: Any = found.places(part)  # type: ignore[arg-type] # a parameter, so only a str
            assert {found.tokens[int(i)].as_py() for i in places} == entries
    back = diff(b, a, fold=fold)
    assert (found.common, found.only_a, found.only_b) == (back.common, back.only_b, back.only_a)
    assert found.jaccard == back.jaccard
    assert found.kinds == tuple((k.kind, k.b, k.a, k.only_b, k.only_a) for k in back.kinds)


def folded(entry: bytes, folds: list[str]) -> bytes:
    """Return an entry without its marker as Python folds it."""
    try:
        text = entry.decode()
    except UnicodeDecodeError:
        return entry
    if "nfkc" in folds:
        text = unicodedata.normalize("NFKC", text)
    if "case" in folds:
        text = text.casefold()
    if "nfkc" in folds:
        text = unicodedata.normalize("NFKC", text)
    return text.encode()


plain = st.builds(vocabulary, st.lists(words, max_size=12))


@given(plain, plain, folds)
def test_folds_agree_with_python(a: Vocabulary, b: Vocabulary, fold: list[str]) -> None:
    """Sizes and common entries are those of sets of folded entries."""
    found = diff(a, b, fold=fold)
    one, other = ({folded(entry, fold) for entry in side.stored} for side in (a, b))
    assert (found.a.distinct, found.b.distinct) == (len(one), len(other))
    assert {*found.tokens.to_pylist()} == one | other
    assert found.common == len(one & other)


texts = st.lists(
    st.lists(st.sampled_from(["a", "b", "ab", "é", "A", "1", "x!"]), max_size=6).map(" ".join),
    max_size=6,
)


@given(plain, plain, texts)
def test_use_agrees_with_a_counter(a: Vocabulary, b: Vocabulary, documents: list[str]) -> None:
    """Python's Counter over ``split``, looked up in sets."""
    use = used(a, b, documents, rule="whitespace")
    counts = Counter(word.encode() for text in documents for word in text.split())
    one, other = set(a.stored), set(b.stored)
    assert use.tokens == counts.total()
    assert use.only_a == sum(n for word, n in counts.items() if word in one - other)
    assert use.only_b == sum(n for word, n in counts.items() if word in other - one)
    assert use.both == sum(n for word, n in counts.items() if word in one & other)
    expected = sorted((-n, word) for word, n in counts.items() if word in one - other)
    assert [(-r["count"], r["word"]) for r in use.words_a.to_pylist()] == expected


def kinds_of(some_entries: Iterable[bytes | str], marker: Any = None) -> list[str]:
    """Return the kind of each entry; the entries are distinct."""
    found = diff(vocabulary(some_entries, marker=marker), vocabulary([]))
    return [str(kind) for kind in found.to_arrow()["kind_a"].to_pylist()]


@pytest.mark.parametrize(
    ("marker", "pieces", "others"),
    [
        ("▁", ["ing", "s", "7", "ж"], {"▁the": "word", "▁The": "capitalised", ",": "punctuation"}),
        ("Ġ", ["ing", "Ã"], {"Ġthe": "word", "Ġ7": "number", "Ġ": "other", "<s>": "special"}),
        (" ", ["ing"], {" the": "word", ".": "punctuation", " Ж": "other script"}),
        ("##", ["##ing", "##7"], {"the": "word", "##!": "punctuation", "[CLS]": "special"}),
        ("@@", ["th@@", "7@@"], {"the": "word", "7": "number"}),
        ("</w>", ["th", "7"], {"the</w>": "word", "!": "punctuation", "7</w>": "number"}),
    ],
)
def test_pieces_by_example(marker: str, pieces: list[str], others: dict[str, str]) -> None:
    """Entries that continue a word are pieces; others have their kind without the marker."""
    assert kinds_of(pieces, marker) == ["subword piece"] * len(pieces)
    assert kinds_of(others, marker) == [*others.values()]


def defined(entry: bytes) -> str:
    """The definitions, one character after the other."""
    special = rb"<[^<>\s]*[A-Za-z/][^<>\s]*>|\[[^\[\]\s]*[A-Za-z]{2}[^\[\]\s]*\]"
    if re.fullmatch(special, entry):
        return "special"
    try:
        text = entry.decode()
    except UnicodeDecodeError:
        return "other"
    categories = [unicodedata.category(c) for c in text]
    letters = [c for c, category in zip(text, categories, strict=True) if category[0] == "L"]
    numbers = any(category[0] == "N" for category in categories)
    if not letters:
        signs = any(category[0] in "PS" for category in categories)
        return "number" if numbers else "punctuation" if signs else "other"
    w = r"[^\W_]"  # letters and numbers, as far as needed here
    joined = rf"(?:{w}|_)[_/\\@](?:{w}|_)|(?:{w}|_)::(?:{w}|_)|(?:{w}|_){{2}}\.(?:{w}|_){{2}}"
    if numbers or re.search(rf"[a-z][A-Z]|{joined}|(?:{w}|_)(?:\+\+?|#)\Z", text):
        return "identifier"
    plain = [c for c in unicodedata.normalize("NFKC", text) if unicodedata.category(c)[0] == "L"]
    scripts = [unicodedata.name(letter).split()[0] for letter in plain]
    if max(scripts, key=scripts.count) != "LATIN":  # on ties the first
        return "other script"
    return "capitalised" if unicodedata.category(letters[0]) in ("Lu", "Lt") else "word"


parts = st.sampled_from([*"aBzé1½٣_/\\@:.+#-' <>[]жЖ中한ａＡ€😀", "e\u0301", "\u200d", "ǅ", "º"])
some_entries = st.one_of(
    st.lists(parts, max_size=6).map("".join).map(str.encode), st.binary(max_size=4)
)


@given(st.lists(some_entries, max_size=30, unique=True))
def test_by_definition(some: list[bytes]) -> None:
    """All at once, with any neighbours."""
    assert kinds_of(some) == [defined(entry) for entry in some]
