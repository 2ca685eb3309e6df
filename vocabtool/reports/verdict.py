"""The verdict on a model and its texts: three sentences with their figures, and one next step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import pyarrow.compute as pc

from vocabtool.oov.report import Kind, KindCount, OovReport, SplitWords
from vocabtool.reports.report import percent, short
from vocabtool.system.messages import plural

NextStep = Literal["another model", "shorter texts", "words to add", "hybrid search", "none"]

# From which figures a step is the next one. The first step whose figure is reached is named.
MANY: Final = 0.2  # unknown words: of a sentence of ten words, two are missing
COSTLY: Final = 2.0  # pieces per word that is no code: a text fills the limit twice as fast
CUT_OFF: Final = 0.05  # of the tokens: the end of a text is really not seen
SAVED: Final = 0.1  # of the pieces: the model must be trained further for it
CODES: Final = 0.01  # of the words of a subword model: queries for codes want exactly these
RARE: Final = 0.001  # unknown words: hardly a query has one
ADDED: Final = 100  # words whose addition is estimated without --suggest
COMPARE: Final = "`vocabtool diff A B --corpus FILE` compares two on these texts"
CODE_KINDS: Final[tuple[Kind, ...]] = ("code", "random", "number", "symbol")
LABELS: Final[dict[Kind, str]] = {
    "random": "random strings",
    "form": "known words in another case or Unicode form",
    "number": "numbers",
    "code": "identifiers and codes",
    "script": "words in another script",
    "misspelling": "misspellings, plurals and singulars",
    "name": "capitalised words",
    "emoji": "emoji",
    "symbol": "punctuation",
    "other": "ordinary words",
}


class Verdict(NamedTuple):
    """How much is unknown or split, where, and what to do about it: a sentence each."""

    how_much: str
    where: str
    advice: str
    next_step: NextStep


def verdict(report: OovReport) -> Verdict:
    """Return the verdict. It depends on nothing but the figures of the report."""
    if not report.tokens:
        return Verdict("The documents contain no words.", "", "", "none")
    punctuation = sum(kind.tokens for kind in report.kinds if kind.kind == "symbol")
    words = report.tokens - punctuation
    unknown = report.tokens_unknown - punctuation
    missing = unknown / max(words, 1)
    if report.split is not None:
        return _of_pieces(report, report.split, unknown, missing)
    documents = f"{report.documents_unknown:,} of {report.documents:,} documents."
    how_much = f"The model does not know {unknown:,} of {words:,} words ({percent(missing)})"
    if punctuation:  # a document may hold nothing else unknown
        how_much += f", {punctuation:,} unknown symbols left out; they are in up to {documents}"
    else:
        how_much += f"; they are in {documents}"
    kinds = _examples(report, report.kinds)
    where = f"Most of the unknown words are {kinds}." if kinds else "No unknown word stands out."
    if missing > MANY:
        step: NextStep = "another model"
        why = f"{percent(missing)} of the words are unknown"
        advice = f"Next step: take another model ({COMPARE}), because {why}."
    elif missing >= RARE:
        step = "hybrid search"
        advice = (
            "Next step: search by vectors and keywords together (`vocabtool index`, then "
            "`vocabtool search`), because all unknown words are the same to this model, and "
            "keywords tell them apart."
        )
    else:
        step = "none"
        advice = f"Next step: none, because fewer than {percent(RARE)} of the words are unknown."
    return Verdict(how_much, where, advice, step)


def _of_pieces(report: OovReport, split: SplitWords, unknown: int, missing: float) -> Verdict:
    known = "no word is unknown"
    if unknown:
        be = "is" if unknown == 1 else "are"
        known = f"{plural(unknown, 'word')} ({percent(missing)}, without symbols) {be} unknown"
    how_much = (
        f"The model splits {percent(report.split_rate(2))} of the words into pieces: "
        f"{report.tokens:,} words become {split.pieces:,} pieces ({report.fertility:.2f} per "
        f"word), and {known}; a split word is not unseen, but it costs tokens."
    )
    kinds = _examples(report, split.kinds)
    where = f"Most additional pieces come from {kinds}" if kinds else "No word is split"
    where += (
        f"; {percent(report.cut_rate)} of all pieces are past the model's limit."
        if report.cut
        else "."
    )
    coded = [kind for kind in split.kinds if kind.kind in CODE_KINDS]
    plain = report.tokens - sum(kind.tokens for kind in coded)
    per_word = (split.pieces - sum(kind.pieces for kind in coded)) / max(plain, 1)
    codes = sum(kind.tokens for kind in split.kinds if kind.kind == "code")
    if report.suggested is not None:
        added = f"{len(report.suggested.words):,} suggested"
        saved = 1 - report.suggested.after / max(report.suggested.before, 1)
    else:
        table = split.table.slice(0, min(ADDED, split.listed))
        costs = pc.multiply(table["count"], pc.subtract(table["pieces"], 1))
        added, saved = (
            f"{len(table):,} costliest",
            (pc.sum(costs).as_py() or 0) / max(split.pieces, 1),
        )
    step: NextStep
    if missing > MANY or per_word > COSTLY:
        step = "another model"
        why = f"even without codes and numbers, a word takes {per_word:.2f} pieces"
        if missing > MANY:
            why = f"{percent(missing)} of the words are unknown"
        advice = f"take another model ({COMPARE}), because {why}"
    elif report.cut_rate >= CUT_OFF:
        step = "shorter texts"
        why = f"the model does not read {percent(report.cut_rate)} of the pieces"
        advice = f"cut the texts to size (`--split tokens` of `vocabtool index`), because {why}"
    elif saved >= SAVED:
        step = "words to add"
        advice = f"add words to the tokenizer (`--suggest {ADDED}`) and train the model further"
    elif codes >= CODES * report.tokens or missing >= RARE:
        step = "hybrid search"
        why = f"{codes:,} words are split identifiers or codes, which keywords find exactly"
        if missing >= RARE:
            why = f"{unknown:,} words are unknown, which keywords find"
        advice = f"search by vectors and keywords together (`vocabtool index`), because {why}"
    else:
        step, advice = "none", "none, because the texts suit the model"
    if split.listed:
        advice += f"; the {added} words as entries would save {percent(saved)} of the pieces"
    return Verdict(how_much, where, f"Next step: {advice}.", step)


def _examples(report: OovReport, kinds: Sequence[KindCount]) -> str:
    """Name the two largest kinds, but not symbols and random strings, with up to three words."""
    table = report.unknown if report.split is None else report.split.table
    named = []
    for kind in [kind for kind in kinds if kind.kind not in ("symbol", "random")][:2]:
        words = table.filter(pc.equal(table["kind"], kind.kind))["word"][:3].to_pylist()
        examples = ", ".join(short(word.strip()) for word in words)
        number = f"{kind.tokens:,}"
        if report.split is not None:
            number = f"{kind.pieces - kind.tokens:,} pieces"
        named.append(f"{LABELS[kind.kind]} ({number}, such as {examples})")
    return " and ".join(named)
