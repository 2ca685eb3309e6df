"""Reports and comparisons to write, full of what strangers may put into entries and names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from vocabtool import ByteStrings, Diff, OovReport, Vocabulary
from vocabtool.choices import Fold
from vocabtool.comparison.compare import compare, weigh
from vocabtool.oov.counter import OovCounts, count_batch
from vocabtool.oov.report import Header
from vocabtool.reports import comparison, oov
from vocabtool.reports import report as render
from vocabtool.reports.comparison import save_diff
from vocabtool.reports.oov import save_report
from vocabtool.tokenization.lookup import WordLookup
from vocabtool.tokenization.text_arrays import string_array
from vocabtool.vocabulary import Marker, encode

SCRIPT = b"<script>alert(1)</script>"
NASTY = (
    *(SCRIPT, b"</style>", b"&amp;", b'"><img/src=x>', b"'", b"$x^2$", b"]]>", b"<!--"),
    *(b"\x1b[31m", b"a,b", b'"', b"a\tb", b"a\r\nb", b"caf\xe9", b"\xff", b"\x00", b"\\", b""),
    *("\u202eabc".encode(), "漢字".encode(), "😀".encode(), "\u2028".encode(), "né".encode()),
)
FORMATS = ("json", "csv", "parquet", "html")


def vocabulary(
    entries: Iterable[bytes | str], name: str = "v", marker: Marker | None = None, first_id: int = 0
) -> Vocabulary:
    stored = ByteStrings.of(encode(each) if isinstance(each, str) else each for each in entries)
    return Vocabulary(name, "list", stored, first_id=first_id, marker=marker)


def save(report: OovReport | Diff, path: Path, form: Any = None, **options: Any) -> None:
    """As the public functions do."""
    (save_diff if isinstance(report, Diff) else save_report)(report, path, form, **options)  # type: ignore[arg-type] # either kind


def saved(report: OovReport | Diff, folder: Path, form: Any, **options: Any) -> bytes:
    """What is written."""
    save(report, folder / "saved", form, **options)
    return (folder / "saved").read_bytes()


# Unknown words.

Texts = Sequence[Sequence[bytes]]


def judged(
    texts: Texts,
    vocabulary: Mapping[bytes, int],
    pieces: Mapping[bytes, int] | None = None,
    *,
    repeated: bool = False,
) -> WordLookup:
    """A lookup made by hand. ``vocabulary``: the position of each known word.

    ``repeated``: each token has its own code, and there are words that stand nowhere.
    """
    flat = [word for text in texts for word in text]
    distinct = [b"nowhere", *flat] if repeated else list(dict.fromkeys(flat))
    places = {word: place for place, word in enumerate(distinct)}
    codes = np.arange(1, len(distinct)) if repeated else np.array([places[word] for word in flat])
    positions = np.array([vocabulary.get(word, -1) for word in distinct], np.int64)
    counted = None if pieces is None else np.array([pieces.get(w, 1) for w in distinct], np.int32)
    return WordLookup(
        codes.astype(np.int32),
        np.cumsum([0, *map(len, texts)], dtype=np.int64),
        string_array(distinct),
        positions >= 0,
        positions,
        positions,
        counted,
    )


def lines(texts: Texts) -> pa.StringArray:
    """The texts that words of :func:`judged` were made of."""
    return string_array(b" ".join(text) for text in texts)


KNOWN = (b"the", b"cat", b"receive", SCRIPT[:-1])
HEADER = Header(
    "models/<b>",
    "words & more",
    len(KNOWN),
    ("lower-case A to Z", "split at whitespace"),
    "sha256:0123",
    ("a.txt", "<i>.txt"),
)


def unknown_words(
    texts: Sequence[Sequence[bytes]],
    known: Sequence[bytes] = KNOWN,
    *,
    pieces: Mapping[bytes, int] | None = None,
    header: Mapping[str, Any] | None = None,
    line: bytes | None = None,
    **options: Any,
) -> OovReport:
    """A report on texts, lists of words. ``line``: what the only text looked like."""
    counter = OovCounts(vocabulary(known), **options)
    places = {entry: place for place, entry in enumerate(known)}
    shown = lines(texts) if line is None else string_array([line])
    counter.add(count_batch(judged(texts, places, pieces)), shown)
    of = HEADER._replace(vocabulary_size=len(known))._replace(**(header or {}))
    return counter.report(of)


def nasty_words(*, pieces: bool = False, **options: Any) -> OovReport:
    """Nasty words once each, ``dog`` three times in two documents, and known words."""
    texts = [[b"the", b"dog", b"dog"], [b"recieve", b"cat", b"dog"], *([word] for word in NASTY)]
    texts.append([b"receive"] * 10)  # so often that ``recieve`` is a misspelling
    cut = {word: len(word) for word in NASTY} if pieces else None
    return unknown_words(texts, pieces=cut, **options)


# Comparisons.

A = (b"the", b"of", b"Paris", b"287.9", b"cat", *NASTY)
B = (b"of", b"the", b"paris", b"dog", *NASTY[6:9])


def compared(
    a: Vocabulary,
    b: Vocabulary,
    corpus: Sequence[str] | None = None,
    fold: tuple[Fold, ...] = (),
    labels: tuple[str, str] | None = None,
    sources: tuple[str, ...] = (),
    rule: str | None = None,
) -> Diff:
    """A comparison, weighed by the texts of a corpus."""
    found = compare(a, b, fold)
    if labels is not None:
        sides = (found.a, found.b)
        one, other = (replace(side, source=name) for side, name in zip(sides, labels, strict=True))
        found = replace(found, a=one, b=other)
    if corpus is None:
        return found
    return weigh(found, [string_array(corpus)], sources, rule=rule)


def nasty_diff(*, corpus: bool = True) -> Diff:
    """Nasty entries, names and sources."""
    a, b = vocabulary(A, "<b>one</b>", first_id=1), vocabulary(B, "two & more", first_id=1)
    texts = ["the cat of Paris paris paris", "dog bird <script>"] if corpus else None
    labels, sources = ("models/<i>", "two & more"), ("<u>.txt", "b.txt")
    return compared(a, b, texts, labels=labels, sources=sources, rule="whitespace")


def text_of(found: OovReport | Diff, width: int | None = None) -> str:
    """What standard output shows: a terminal of that width, or no terminal."""
    report = comparison.diff_report(found) if isinstance(found, Diff) else oov.oov_report(found)
    return "".join(render.render_text(report, width))
