"""What words weigh, and what a model knows of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from tests.builders.small_corpus import Doc, Pieces, SmallCorpus, Whole
from vocabtool import ByteStrings, Settings, Vocabulary, Words
from vocabtool.keywords.cutter import Clause, Term, idf
from vocabtool.search.query import Query, parse_query
from vocabtool.search.search import search
from vocabtool.tokenization.lookup import WordLookup
from vocabtool.tokenization.words import KnownWords

KNOWN = Whole(["love", "the", "a", "1999"])


def parsed(text: str, known: Any = KNOWN, *texts: str, **settings: Any) -> Query:
    """Without ``texts`` there are no documents, so that all terms are equally rare."""
    docs = [Doc(str(number), each) for number, each in enumerate(texts)]
    corpus = SmallCorpus(docs, known, language="english")
    return parse_query(corpus, text, Settings(**settings))


def word(text: str) -> Term:
    return Term("words", text)


def surface(text: str) -> Term:
    return Term("surfaces", text)


@pytest.mark.parametrize(
    ("text", "known", "weights"),
    [
        # Unknown words count 1.5 times, codes three times, or 1.5 times what all parts do; the
        # parts of a code count as other unknown words do, a single letter not at all,
        (
            "love xapian SKU-48007-H",
            KNOWN,
            {
                **{word("love"): 1.0, surface("sku-48007-h"): 1.5 * 3.0},
                **{word(each): 1.5 for each in ("xapian", "sku", "48007")},
            },
        ),
        ("0x80070005", KNOWN, {word("0x80070005"): 3.0}),
        # unless there are no longer parts: nothing but the whole would be found by it.
        ("1.2.3.a", KNOWN, {**{word(p): 1.5 for p in "123a"}, surface("1.2.3.a"): 1.5 * 6.0}),
        # A joined word is searched exactly too.
        ("C++", None, {word("c"): 1.0, surface("c++"): 1.5}),
        (
            "quick-brown brown",
            None,
            {word("quick"): 1, word("brown"): 1, surface("quick-brown"): 1.5},
        ),
        (
            "Quick-Brown quick-brown brown",
            None,
            {word("quick"): 1, word("brown"): 1, surface("quick-brown"): 1.5},
        ),
        # A name in camel case is searched whole, as an identifier, and in humps, as other words.
        (
            "parseHttpHeader",
            Whole(["parsehttpheader"]),
            {
                word("parsehttphead"): 4.5,
                **{word(hump): 1.0 for hump in ("parsehttpheader", "pars", "http", "header")},
            },
        ),
    ],
)
def test_how_often_terms_count(text: str, known: Any, weights: dict[Term, float]) -> None:
    """Of other joined words the whole counts instead of parts that no other word asks for."""
    counted = parsed(text, known).clauses
    assert {term: round(clause.boost, 9) for term, clause in counted.items()} == weights
    parts = {term: clause.parts for term, clause in counted.items() if clause.parts}
    assert parts == ({surface("quick-brown"): (word("quick"),)} if "brown" in text else {})


NAME, CODE = surface("snake_case"), surface("sku-48007-h")


@pytest.mark.parametrize(
    ("text", "known", "codes"),
    [
        ("love SKU-48007-H SKU-48007-H", KNOWN, [CODE]),  # unknown,
        ("SKU-48007-H box", Pieces(4), [CODE]),  # or in three pieces or more,
        ("SKU-48007-H box", None, [CODE]),  # or where nothing tells
        ("SKU-48007-H box", Pieces(6), []),
        ("SKU-48007-H box", Whole(["sku-48007-h"]), []),
        *(("snake_case box", known, [NAME]) for known in (None, Pieces(100), KNOWN)),
        ("snake_case box", Whole(["snake_case"]), [NAME]),  # known by its pieces, not as a whole
        ("snakeCase", KNOWN, [word("snakecas")]),
        ("quick-brown HTTPServer e.g. a/b", KNOWN, []),
    ],
)
def test_which_words_are_identifiers(text: str, known: Any, codes: list[Term]) -> None:
    """Codes that the model does not know, and names whatever it knows."""
    assert parsed(text, known).keywords.codes == tuple(Clause((term,)) for term in codes)


def test_m_is_the_share_of_the_idf_mass_that_is_unknown() -> None:
    """Of words that count; numbers, letters and stop words are not unknown, codes weigh whole."""
    mass = {frequency: idf(3, frequency) for frequency in (0, 1, 2)}
    texts = "love xapian", "love 7", "cats"
    shares = {"love nowhere": 0, "xapian 7": 0.5, "xapian": 1}
    for text, share in {"the love xapian": mass[1] / (mass[1] + mass[2]), **shares}.items():
        assert parsed(text, KNOWN, *texts).m == pytest.approx(share)
    # A code weighs by its whole surface, not by how rare its parts are.
    code = parsed("love SKU-48007-H", KNOWN, "SKU-48007-H", "SKU-48008-H love", "love h")
    assert code.m == pytest.approx(mass[1] / (mass[1] + mass[2]))
    for known in (None, Pieces(1)):  # whole words are not told apart
        assert parsed("SKU-48007-H love", known, "SKU-48007-H", "love").m == 0
    told = {each.word.surface: each.unknown for each in parsed("the love xapian 7 1999 x").words}
    assert told == dict.fromkeys(["the", "love", "7", "1999", "x"], False) | {"xapian": True}
    exact = [each.exact for each in parsed("CVE-2024-1234 0x80070005 running").words]
    assert exact == [surface("cve-2024-1234"), word("0x80070005"), word("run")]


def knowledge_of(*words: str, rule: str = "keras") -> KnownWords:
    stored = ByteStrings.of([each.encode() for each in words])
    return KnownWords(Words.of(Vocabulary("words", "list", stored), rule=rule))


def test_the_models_rule_decides_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keras' default joins what it parted; new words are judged in one call, few remembered."""
    knowledge = knowledge_of("love", "quickbrown", "cat")
    told = knowledge.statuses(["LOVE", "quick-brown", "quick", "love", "cat!"])
    assert [each.known for each in told] == [True, True, False, True, True]
    assert not knowledge.subword
    cut = knowledge_of("quick", "brown", rule="regex:[a-z]+")  # unknown where one of its keys is
    assert [each.known for each in cut.statuses(["quick-brown", "quick-red"])] == [True, False]
    knowledge, asked = knowledge_of("love"), list[list[str | bytes]]()
    judge = Words.look_up

    def counting(words: Words, texts: Iterable[str | bytes]) -> WordLookup:
        asked.append(list(texts))
        return judge(words, asked[-1])

    monkeypatch.setattr(Words, "look_up", counting)
    monkeypatch.setattr("vocabtool.tokenization.words.MAX_REMEMBERED", 3)
    for words in (["love", "x1", "love"], ["x1", "x2"], ["x3", "love"], ["love", "x1"]):
        known = [each.known for each in knowledge.statuses(words)]
        assert known == [each == "love" for each in words]
    assert asked == [["love", "x1"], ["x2"], ["x3"], ["love", "x1"]]


def test_models_of_pieces_have_no_m_and_a_smaller_a() -> None:
    """A code in three pieces or more counts as unknown for the guarantee; two are known."""
    docs = [Doc("right", "one SKU-48007-H there", (-1, 0)), Doc("other", "love", (1, 0))]
    east = np.array([1, 0], np.float32)
    hits = search(
        SmallCorpus(docs, Pieces(4)), "love SKU-48007-H", east, settings=Settings(explain=True)
    )
    assert (hits.query.a, hits.query.m, hits.query.weight) == (0.4, 0, 0.4)
    assert [word.pieces for word in hits.query.words] == [1, 3]
    assert (hits[0].id, hits[0].tier) == ("right", 1)
    assert any("pieces" in note for note in hits.notes)
    coarse = search(SmallCorpus(docs, Pieces(6)), "love SKU-48007-H", east)
    assert {hit.tier for hit in coarse} == {0}
