"""A comparison as one JSON object.

Keys: ``a``, ``b`` (``label``, ``name``, ``kind``, ``marker``, ``size``, ``distinct``,
``duplicates``, ``merged``, ``order``); ``fold``; ``common``, ``only_a``, ``only_b``, ``jaccard``;
``kinds``, ``gains``, ``ranks`` (``words``, ``rho``, ``largest``); ``use``, null without a corpus
(``rule``, ``sources``, ``documents``, ``tokens``, ``shares``, ``words_both``, and ``only_a`` and
``only_b`` with the words that carry the difference); ``notes``; ``entries`` with the lists
``common``, ``only_a`` and ``only_b``, an entry a line: ``token`` (and ``base64`` where that is not
UTF-8), ``id_a``, ``id_b``, ``kind_a``, ``kind_b``, ``rank_a``, ``rank_b``, ``shift``, without those
that a side does not have. Shares are from 0 to 1.
"""

from __future__ import annotations

import json
from base64 import b64encode
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from vocabtool.comparison.diff import Diff
from vocabtool.comparison.folding import Gain
from vocabtool.reports.comparison.plain_words import remarks
from vocabtool.reports.comparison.rows import PARTS, Row, rows
from vocabtool.vocabulary import is_utf8

if TYPE_CHECKING:
    from vocabtool.comparison.use import SideName, Use


LARGEST: Final = 100  # shifts of rank
COMMONEST: Final = 1_000  # words of a corpus that one side alone knows


def write(found: Diff, file: BinaryIO, most: int | None = None) -> None:
    """Write it all; of each list of entries the first ``most``, or every one."""
    shown = json.dumps(facts(found), ensure_ascii=False, indent=2)
    file.write(_bytes(shown.removesuffix("\n}")) + b',\n  "entries": {')
    for number, part in enumerate(PARTS):
        file.write(b"," * (number > 0) + f'\n    "{part}": ['.encode())
        between = b"\n"
        for row in rows(found, part, most):
            file.write(between + b"      " + _bytes(json.dumps(_row(row), ensure_ascii=False)))
            between = b",\n"
        file.write(b"\n    ]")
    file.write(b"\n  }\n}\n")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def facts(found: Diff) -> dict[str, Any]:
    """All but the entries, as values that JSON has."""
    return {
        "a": found.a._asdict(),
        "b": found.b._asdict(),
        "fold": list(found.fold),
        "common": found.common,
        "only_a": found.only_a,
        "only_b": found.only_b,
        "jaccard": found.jaccard,
        "kinds": [kind._asdict() for kind in found.kinds],
        "gains": [_gain(gain) for gain in found.gains],
        "ranks": _ranks(found),
        "use": None if found.use is None else _use(found.use),
        "notes": list(remarks(found)),
    }


def _gain(gain: Gain) -> dict[str, Any]:
    shown = gain._asdict()
    examples = [{"a": _text(a), "b": _text(b)} for a, b in shown.pop("examples")]
    return {**shown, "jaccard": gain.jaccard, "examples": examples}


def _ranks(found: Diff) -> dict[str, Any]:
    largest = [{**shift._asdict(), "token": _text(shift.token)} for shift in found.shifts(LARGEST)]
    return {"words": len(found.ranks), "rho": found.ranks.rho, "largest": largest}


def _use(use: Use) -> dict[str, Any]:
    known = {
        "a": use.known_a,
        "b": use.known_b,
        "both": use.both,
        "only_a": use.only_a,
        "only_b": use.only_b,
        "neither": use.neither,
    }
    return {
        "rule": {
            "name": use.rule_name,
            "steps": list(use.rule),
            "fingerprint": use.fingerprint,
        },
        "sources": list(use.sources),
        "documents": use.documents,
        "tokens": {"all": use.tokens, **known},
        "shares": {name: use.share(tokens) for name, tokens in known.items()},
        "words_both": use.words_both,
        "only_a": _carriers(use, "a"),
        "only_b": _carriers(use, "b"),
    }


def _carriers(use: Use, side: SideName) -> dict[str, Any]:
    words = use.words(side)
    some = words.slice(0, COMMONEST).to_pylist()
    return {
        "words": len(words),
        "carriers": use.carriers(side)._asdict(),
        "commonest": [{"word": _text(one["word"]), "count": one["count"]} for one in some],
    }


def _row(row: Row) -> dict[str, Any]:
    held = {name: value for name, value in row._asdict().items() if value is not None}
    del held["in_a"], held["in_b"]
    held["token"] = _text(row.token)
    if not is_utf8(row.token):
        held["base64"] = b64encode(row.token).decode()
    return held


def _text(entry: bytes) -> str:
    return entry.decode("utf-8", "backslashreplace")
