"""Sample documents, queries and conditions.

Each condition has a function that decides, for a document, whether it matches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from tests.builders.small_corpus import Doc

DIM: Final = 8
COUNT: Final = 500
WORDS: Final = [f"{a}{b}" for a in ("bal", "ker", "lom", "nir", "sut") for b in "abdeiknoru"]
KNOWN: Final = tuple(WORDS[::2])  # what the model of the samples knows, lower-cased
LANGUAGES: Final = ("en", "de", "fr")
TITLES: Final = ("Über's", "50% off_", 'say "hi"', "a; DROP TABLE x; --", "Plain title", "")
FIELDS: Final[Mapping[str, Any]] = {
    "year": "integer",
    "score": "number",
    "ok": "boolean",
    "lang": "string",
    "title": "string",
    "tags": "string",
    "day": "string",
    'odd "name"; --': "string",
}


def documents(count: int = COUNT) -> list[Doc]:
    """Return documents of at most 40 terms, so that no store rounds their lengths.

    Ids are not sorted. Every tenth document has the text and vector of an earlier document. Every
    29th document has no vector.
    """
    draw = np.random.default_rng(12)
    share = 1 / np.arange(1, len(WORDS) + 1)
    ids = draw.permutation(count).tolist()
    made: list[Doc] = []
    for n in range(count):
        words = draw.choice(WORDS, draw.integers(3, 20), p=share / share.sum()).tolist()
        for every, rest, added in (
            *((6, 1, f"SKU-{10_000 + n}-{'AB'[n % 2]}"), (60, 2, "SKU-10007-B"), (50, 3, "naïve")),
            *((50, 4, "parseHttpHeader"), (50, 5, "snake_case_helper"), (70, 6, "日本語")),
            *((40, 7, "quick-brown"), (90, 8, "QUICK BROWN"), (80, 9, "parsehttpheader")),
        ):
            if n % every == rest:
                words.insert(int(draw.integers(len(words))), added)
        text = " ".join(words)
        vector = tuple(map(float, draw.integers(-9, 10, DIM))) if n % 29 else ()
        if n % 10 == 9:
            text, vector = made[n - 5].text, made[n - 5].vector
        made.append(Doc(f"d{ids[n]:03}", text, vector, _fields(n)))
    return made


def _fields(n: int) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "year": 1990 + n % 35,
        "score": n % 17 if n % 3 else n % 17 + 0.5,
        "ok": n % 4 == 0,
        "lang": LANGUAGES[n % 7 % 3],
        "title": TITLES[n % len(TITLES)],
        "tags": [f"t{n % 4}", "x y"] if n % 2 else [f"t{n % 5}"],
        "day": f"20{10 + n % 9}-{1 + n % 12:02}-{1 + n % 28:02}",
        'odd "name"; --': f"v{n % 3}",
    }
    return {name: value for at, (name, value) in enumerate(fields.items()) if n % (11 + at)}


def vector_of(number: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return a query vector of small whole numbers, shape (DIM,). ``number``: the random seed."""
    return np.random.default_rng(number).integers(-9, 10, DIM).astype(np.float32)


QUERIES: Final = (
    *("bala", "bala kerb lomd", "BALA Kerb", "niru sutu nothere", "kera bala kera bala"),
    *("bala balb bald sutu nirn", "bala balb SKU-10007-B sutr", "bala sutr parseHttpHeader"),
    *("SKU-10007-B", "bala SKU-10007-B", "SKU-10007-B SKU-10013-B kero", "sku-10007-b"),
    *("SKU-10007", "10007", "parseHttpHeader bala", "parsehttpheader", "http header"),
    *("snake_case_helper", "snake case", "quick-brown", "quick-brown brown nothere"),
    *("quick brown", "naive", "naïve lome", "日本語", "日本"),
    *('"bala kera"', '"kera bala" niru', '"quick brown"', 'bala "nothere here"', '"bala'),
    *("bala -kerb", "-bala", "bala OR sutu", "(bala OR kerb) -lang:de", "year:2003 bala"),
    *("quickbrown", "SKU10007B kero", "日", "-naïve bala", "naïve OR kero", "10007 B"),
    *("ok:true kerb", "absent nothere", "", " \t\n", "the"),
)

HOSTILE: Final = (
    *("'", '"', '""', "'; DROP TABLE documents; --", "') OR 1=1 --", "%s %(a)s %%", "$1 {0} {}"),
    *("\\", "\\'", "\0", "bala\0kerb", "\x01\x02\x7f", "\ud800", "😀 \u202e", "a:b:c:d", "((((("),
    *("- - -", "OR OR OR", "AND", "*", "?:*", "bala*", "+bala", "<->", "& | !", "kerb & !bala"),
    *("x" * 70_000, "SKU-" * 5_000, "(" * 3_000, '"' * 3_001, "-bala " * 500, "bala OR " * 500),
)

Meaning = Callable[[Doc], bool]


def _has(name: str, test: Callable[[Any], bool]) -> Meaning:
    """Return a function that decides whether a document has the field ``name``, with a good value.

    ``test``: whether a value of the field is good.
    """
    return lambda doc: doc.fields.get(name) is not None and test(doc.fields[name])


CONDITIONS: Final[Mapping[str, Meaning]] = {
    "year = 2003": _has("year", lambda year: year == 2003),
    "year <> 2003": _has("year", lambda year: year != 2003),
    "year > 1992": _has("year", lambda year: year > 1992),
    "not year >= 2000": _has("year", lambda year: year < 2000),
    "year in (1990, 2001, 3000)": _has("year", lambda year: year in (1990, 2001)),
    "year is null": lambda doc: "year" not in doc.fields,
    "year is not null": lambda doc: "year" in doc.fields,
    "score >= 7.5": _has("score", lambda score: score >= 7.5),
    "ok": _has("ok", lambda ok: ok is True),
    "lang = 'de'": _has("lang", lambda lang: lang == "de"),
    "lang in ('en', 'fr') and ok": lambda doc: (
        doc.fields.get("lang") in ("en", "fr") and doc.fields.get("ok") is True
    ),
    "lang = 'DE'": lambda doc: False,
    "title = 'Über''s'": _has("title", lambda title: title == "Über's"),
    "title like '%off%'": _has("title", lambda title: "off" in title),
    "title startswith 'say \"'": _has("title", lambda title: title.startswith('say "')),
    "title = 'a; DROP TABLE x; --'": _has("title", lambda title: title.startswith("a; DROP")),
    "tags has any ('t0', 'x y')": _has("tags", lambda tags: bool({"t0", "x y"} & {*tags})),
    "tags contains 't3'": _has("tags", lambda tags: "t3" in tags),
    "day >= 2013-06": _has("day", lambda day: day >= "2013-06"),
    "day between 2011-01 and 2012-12-31": _has("day", lambda day: "2011" <= day < "2013"),
    '"odd ""name""; --" = \'v1\'': _has('odd "name"; --', lambda value: value == "v1"),
    "id < 'd01'": lambda doc: doc.id < "d01",
    "text like '%SKU-10007-B%'": lambda doc: "SKU-10007-B" in doc.text,
    "year < 1995 or (lang = 'fr' and not ok)": lambda doc: (
        doc.fields.get("year", 9999) < 1995
        or (doc.fields.get("lang") == "fr" and doc.fields.get("ok") is False)
    ),
    # those that operators of the queries stand for
    "\"lang\" has word 'de'": _has("lang", lambda lang: lang == "de"),
    '"year" = 2003': _has("year", lambda year: year == 2003),
    '"ok" = true': _has("ok", lambda ok: ok is True),
}
