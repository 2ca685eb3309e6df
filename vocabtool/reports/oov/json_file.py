"""A report as one JSON object.

Keys: ``model``, ``vocabulary`` (``name``, ``size``, ``used``, ``never_used``), ``rule`` (``steps``,
``fingerprint``), ``sources``; ``documents``, ``tokens``, ``distinct_words`` (each ``all``,
``unknown``, ``unknown_rate``); ``unknown_words`` (``word``, ``count``, ``documents``, ``error``,
``kind``, ``like``, ``example``, and ``base64`` where the word is not UTF-8) with
``unknown_words_listed`` and ``unknown_words_in_all``; ``kinds``, ``coverage``, ``pieces``;
``estimated`` (``figure``, ``off_by``, ``certain``), ``notes``, ``others`` (reports like this one).
Rates and shares are from 0 to 1. CSV and Parquet hold all unknown words.
"""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any, Final

from vocabtool.oov.report import OovReport, Pieces, UnknownWord
from vocabtool.vocabulary import is_utf8, printable

LISTED: Final = 1_000  # unknown words


def to_json(report: OovReport) -> str:
    """The report as text; numbers with full precision."""
    return json.dumps(facts(report), ensure_ascii=False, indent=2) + "\n"


def facts(report: OovReport) -> dict[str, Any]:
    """The report as values that JSON has."""
    header = report.header
    words = [_word(word) for word in report.commonest(LISTED)]
    return {
        "model": header.model,
        "vocabulary": {
            "name": header.vocabulary,
            "size": header.vocabulary_size,
            "used": report.used,
            "never_used": [printable(entry) for entry in report.never_used],
        },
        "rule": {"steps": list(header.rule), "fingerprint": header.fingerprint},
        "sources": list(header.sources),
        "documents": _rate(report.documents, report.documents_unknown, report.document_rate),
        "tokens": _rate(report.tokens, report.tokens_unknown, report.token_rate),
        "distinct_words": _rate(report.distinct, report.distinct_unknown, report.distinct_rate),
        "unknown_words": words,
        "unknown_words_listed": len(words),
        "unknown_words_in_all": report.distinct_unknown,
        "kinds": [kind._asdict() for kind in report.kinds],
        "coverage": [point._asdict() for point in report.curve],
        "pieces": None if report.pieces is None else _pieces(report.pieces),
        "estimated": [estimate._asdict() for estimate in report.estimated],
        "notes": list(report.notes),
        "others": [facts(other) for other in report.others],
    }


def _rate(of: int, unknown: int, rate: float) -> dict[str, Any]:
    return {"all": of, "unknown": unknown, "unknown_rate": rate}


def _word(word: UnknownWord) -> dict[str, Any]:
    fields = {
        "word": word.word.decode("utf-8", "backslashreplace"),
        "count": word.count,
        "documents": word.documents,
        "error": word.error,
        "kind": word.kind,
        "like": None if word.like is None else word.like.decode("utf-8", "backslashreplace"),
        "example": word.example.decode("utf-8", "backslashreplace"),
    }
    if not is_utf8(word.word):
        fields["base64"] = b64encode(word.word).decode()
    return fields


def _pieces(pieces: Pieces) -> dict[str, Any]:
    most = [
        {"word": printable(word.word), "pieces": word.pieces, "count": word.count}
        for word in pieces.most
    ]
    return {"per_token": pieces.mean, "histogram": list(pieces.histogram), "most": most}
