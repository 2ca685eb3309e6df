"""What only the inside of commands shows: lines of reports, hints, when an index is calibrated."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import pytest

from tests.builders.small_corpus import Pieces
from tests.builders.small_indexes import set_manifest
from tests.cli.running import output
from tests.cli.test_index_commands import MAKE, ROWS
from vocabtool import EmbedReport, Index, LoadReport
from vocabtool.cli import index as index_command
from vocabtool.cli.output import progress_lines
from vocabtool.embedding.shards import Counts
from vocabtool.evaluation import calibrate as calibrating
from vocabtool.formats.files import split_name
from vocabtool.index import index as index_module
from vocabtool.keywords.tokens import Span
from vocabtool.reports.hits import hits_report
from vocabtool.reports.index import embed_report, index_report
from vocabtool.reports.report import Report, render_text
from vocabtool.search.hits import (
    NO_VECTOR,
    ZERO_VECTOR,
    Explanation,
    Hit,
    Hits,
    LegPlace,
    MatchedWord,
    QuerySummary,
)
from vocabtool.search.settings import Calibration


@pytest.fixture
def index(tmp_path: Path) -> Index:
    """Four documents."""
    corpus, folder = tmp_path / "corpus.jsonl", tmp_path / "index"
    corpus.write_text("".join(json.dumps(row) + "\n" for row in ROWS), "utf-8")
    output("index", corpus, "-o", folder, *MAKE)
    return Index.open(folder)


def lines(report: Report) -> list[str]:
    """As a terminal shows it."""
    return "".join(render_text(report, 80)).splitlines()


def test_the_report_of_one_document(index: Index) -> None:
    """In the singular, and with no speed, which would be that of starting."""
    index.delete(["b", "c", "d"])
    assert repr(index) == f"<Index {index.name!r}: 1 document>"
    report = LoadReport(4, 1, 1, 0, 2, 0, 1, 1, 1, (), 1, 2.0, encoded=1)
    assert lines(index_report(index, report, 2.5, 0.0)) == [
        f"{index.name}: 1 document",
        "  done now    1 added, 2 unchanged in 2.5 s",
        "  resumed     1 document indexed before, by an interrupted load",
        "  skipped     1 invalid row",
        "  dropped     1 document with a repeated id",
        "  zero        1 vector: found by keywords only",
        "  not UTF-8   1 document, invalid bytes stored as U+FFFD: "
        "perhaps another encoding, or not text",
        "  vectors     4 numbers, float16, cosine; exact search",
        "  keywords    english, 22 running words",
        "  weight      a = 0.5, not calibrated",
    ]


def test_the_report_of_many_documents(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """The speed is of what was added; models of pieces begin with another weight."""
    monkeypatch.setattr(index.snapshot().model, "known_words", Pieces(2))
    report = LoadReport(1000, 0, 200, 100, 0, 5, 0, 0, 0, (), 0, 2.0, encoded=300)
    shown = lines(index_report(index, report, 7.0, 4.5))
    done = "200 added, 100 updated, 5 removed in 7.0 s, 4.5 s of them calibrating; 150 a second"
    assert shown[:2] == [f"{index.name}: 4 documents", f"  done now    {done}"]
    assert shown[-1] == "  weight      a = 0.4, not calibrated"
    shown = lines(index_report(index, LoadReport(0, 0, 0, 0, 0, 0, 0, 0, 0, (), 0, 2.0), 2, 0))
    assert shown[1] == "  done now    nothing: no documents"


def test_the_report_of_embed() -> None:
    """One of each, then several."""
    one = EmbedReport("out", 1, Counts(*[1] * 8), 1, 1, 1, 1, (), 1, 2.0)
    assert lines(embed_report(one)) == [
        "out: 1 document in 1 shard",
        "  done now    1 document in 2.0 s, 0 a second",
        "  resumed     1 shard existed already",
        "  redone      1 shard of the interrupted run, written again",
        "  skipped     1 invalid row",
        "  dropped     1 document with a repeated id",
        "  empty       1 text with only whitespace",
        "  zero        1 vector: the model knows no word of the text",
        "  not UTF-8   1 document, invalid bytes stored as U+FFFD",
        "  unknown     1 of 1 word (100.00%)",
    ]
    two = EmbedReport("out", 2, Counts(4000, 2, 2, 2, 4, 1), 4000, 2, 2, 2, (), 2, 2.0)
    shown = lines(embed_report(two))
    assert shown[1] == "  done now    4,000 documents in 2.0 s, 2,000 a second"


def test_a_weight_tuned_on_judgements_is_kept(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Documents added later let it be; an estimate is made anew."""
    calls: list[Index] = []
    monkeypatch.setattr(calibrating, "calibrate", lambda index, progress: calls.append(index))
    added = LoadReport(4, 0, 4, 0, 0, 0, 0, 0, 0, (), 0, 1.0)
    for judged, wanted, count in ((50, True, 0), (0, False, 0), (0, None, 0), (0, True, 1)):
        index.store_calibration(Calibration(0.3, judged, 4, 0))
        index_command._calibrate(index, 0, wanted, added, quiet=True, progress=None)
        assert len(calls) == count


@pytest.mark.parametrize(
    ("before", "known", "due"), [(3, None, False), (2, None, True), (0, 3, False), (3, 2, True)]
)
def test_an_index_is_calibrated_when_it_is_new_or_has_doubled(
    index: Index, monkeypatch: pytest.MonkeyPatch, before: int, known: int | None, due: bool
) -> None:
    """Of four documents; ``known``: how many they were when it was calibrated last."""
    monkeypatch.setattr(index_module, "CALIBRATED_FROM", 2)
    if known is not None:
        index.store_calibration(Calibration(0.3, 0, 4, 0))
        calibration = replace(Calibration(0.3, 0, 4, 0), documents=known)
        set_manifest(index.path, replace(index.manifest, calibration=calibration))
        index = Index.open(index.path)
    assert index.calibration_is_due(before) is due


def explained(
    why: Explanation, text: str = "text", fusion: str = "coverage", note: str = ""
) -> str:
    """The report of one hit with an explanation, on one line."""
    hit = Hit(id="a", text=text, fields={}, score=1.0, tier=0, explanation=why)
    summary = QuerySummary("kettle", (), fusion, None, None, None)
    return " ".join(
        lines(hits_report(Hits(query=summary, hits=(hit,), notes=(note,) if note else ())))
    )


def test_a_document_without_a_keyword_is_told_from_one_past_the_list() -> None:
    """The first holds no word of the query, the second one that stands too far down."""
    for words, reason in (
        ((), "no keyword match"),
        ((MatchedWord("kettle", 0.5),), "keywords beyond the candidates; by kettle 0.50"),
    ):
        shown = explained(Explanation(LegPlace(1, 0.9), LegPlace(None, None), words, 1, ()))
        assert f"    vectors rank 1 (0.900); {reason}; without keywords rank 1" in shown


def test_what_has_no_vector_is_told() -> None:
    """It is not said to stand too far down."""
    why = Explanation(LegPlace(None, None), LegPlace(1, 0.5), (), None, ())
    for fusion, note, reason in (
        ("coverage", ZERO_VECTOR, "the query has no vector"),
        ("coverage", NO_VECTOR, "the query has no vector"),
        ("coverage", "another", "the document has no vector"),
        ("keyword", "another", "vectors not searched"),
    ):
        assert f"    {reason}; keywords rank 1 (0.500)" in explained(why, fusion=fusion, note=note)


FAR = "The [pump] is old.@ Any [pump] with AB-1111-C, or [AB-7777-C] [fitted] here."
MANY = "[love].@ Most [engines] are [love]d and [used] @ [love]"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (FAR, {"pump": 0.1, "AB-7777-C": 2.0, "fit": 0.3}),
        (MANY, {"love": 2, "engine": 1, "use": 1}),
    ],
)
def test_the_extract_is_where_the_words_are(text: str, words: dict[str, float]) -> None:
    """The most and the rarest of them together, else the first."""
    *pieces, last = re.split(r"[\[\]]", text.replace("@", " and so on" * 30))
    ends = [*accumulate(map(len, pieces))]
    marks = tuple(map(Span, ends[::2], ends[1::2]))
    matched = tuple(MatchedWord(*pair) for pair in words.items())
    why = Explanation(LegPlace(1, 0.9), LegPlace(1, 0.5), matched, 1, marks)
    shown = explained(why, "".join([*pieces, last]))
    assert " ".join(text.split("@")[len(words) > 1].split()) in " ".join(shown.split())


def test_a_path_with_the_mark_is_a_path(tmp_path: Path) -> None:
    """A file whose own name holds ``#`` is that file; behind the longest path comes the name."""
    here = f"{tmp_path}/words"
    for name in (here, f"{here}#one"):
        Path(name).write_text("the\nof\n", "utf-8")
    assert split_name(f"{here}#one") == (f"{here}#one", None)
    assert split_name(f"{here}#one#a#b") == (f"{here}#one", "a#b")
    assert split_name(f"{here}#two") == (here, "two")
    assert split_name("https://tfhub.dev/a/1#two") == ("https://tfhub.dev/a/1", "two")
    assert split_name(f"{tmp_path}/none#two") == (f"{tmp_path}/none#two", None)


def test_lines_of_progress_say_how_long_it_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the speed of the last ten seconds or more; the next step has its own."""
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    progress = progress_lines()
    steps = [(5, "a", 0.1), (60, "b", 0.2), (65, "c", 0.3), (100, "new", 0), (200, "later", 0.5)]
    for seconds, step, share in [*steps, (208, "slower", 0.51), (214, "slower", 0.52)]:
        now[0] = seconds
        progress(step, share)
    assert capsys.readouterr().err.splitlines() == [
        "vocabtool: b, 20%, about 7 min left",
        "vocabtool: new",
        "vocabtool: later, 50%, about 100 s left",
        "vocabtool: slower, 52%, about 6 min left",
    ]
