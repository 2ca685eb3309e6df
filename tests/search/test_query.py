"""What words weigh, and what a model knows of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from tests.builders.small_corpus import Doc, Pieces, SmallCorpus, Whole
from vocabtool import Vocabulary, Words
from vocabtool.keywords.bm25 import Clause, Term, idf
from vocabtool.keywords.cutter import Cutter
from vocabtool.keywords.identifiers import is_identifier
from vocabtool.search import store
from vocabtool.search.query import (
    WeighedWord,
    identifier_clauses,
    term_clauses,
    unknown_share,
    weigh_words,
)
from vocabtool.search.search import search
from vocabtool.search.store import KnownWords
from vocabtool.tokenization.lookup import WordLookup

KNOWN = Whole(["love", "the", "a", "1999"])
CUTTER = Cutter("english")


def weighed(text: str, knowledge: Any = KNOWN) -> list[WeighedWord]:
    return weigh_words(CUTTER.query(text), knowledge, is_identifier)


def word(text: str) -> Term:
    return Term("words", text)


def test_an_unknown_word_is_no_number_and_more_than_a_character() -> None:
    """Nor a stop word. Numbers and letters are not known either, but that says nothing."""
    told = {each.word.surface: each.unknown for each in weighed("the love xapian 7 1999 x")}
    assert told == dict.fromkeys(["the", "love", "7", "1999", "x"], False) | {"xapian": True}


EMPTY = SmallCorpus([])


def weights(text: str, knowledge: Any = KNOWN) -> dict[Term, float]:
    """How often each term counts where there are no documents, so that all are equally rare."""
    made = term_clauses(weighed(text, knowledge), EMPTY, 0.5, 2.0)
    return {term: round(clause.boost, 9) for term, clause in made.items()}


def test_unknown_words_count_one_and_a_half_times_and_codes_three_times() -> None:
    """The parts of a code count as other unknown words do, a single letter not at all.

    The whole counts 1.5 times as much as all parts together, should that be more than three.
    """
    assert weights("love xapian SKU-48007-H") == {
        word("love"): 1.0,
        word("xapian"): 1.5,
        word("sku"): 1.5,
        word("48007"): 1.5,
        Term("surfaces", "sku-48007-h"): 1.5 * 3.0,
    }
    assert weights("0x80070005") == {word("0x80070005"): 3.0}


def test_single_characters_of_a_code_count_where_it_has_no_longer_parts() -> None:
    """Else nothing but the whole would be found by it."""
    assert weights("1.2.3.a") == {
        word("1"): 1.5,
        word("2"): 1.5,
        word("3"): 1.5,
        word("a"): 1.5,
        Term("surfaces", "1.2.3.a"): 1.5 * 6.0,
    }


def test_a_joined_word_is_searched_exactly_too() -> None:
    """C++ beside C; the whole of other words instead of those parts that no other word asks for."""
    assert weights("C++", None) == {word("c"): 1.0, Term("surfaces", "c++"): 1.5}
    whole = Term("surfaces", "quick-brown")
    assert weights("quick-brown brown", None) == {
        word("quick"): 1.0,
        word("brown"): 1.0,
        whole: 1.5,
    }
    made = term_clauses(weighed("quick-brown brown", None), EMPTY, 0.5, 2.0)
    assert {term: clause.parts for term, clause in made.items() if clause.parts} == {
        whole: (word("quick"),)
    }


def test_a_name_in_camel_case_is_searched_whole_and_in_humps() -> None:
    """The whole as an identifier, the humps as other words."""
    assert weights("parseHttpHeader", Whole(["parsehttpheader"])) == {
        word("parsehttphead"): 4.5,
        word("parsehttpheader"): 1.0,
        word("pars"): 1.0,
        word("http"): 1.0,
        word("header"): 1.0,
    }


def test_codes_are_identifiers_where_the_model_does_not_know_them() -> None:
    """Unknown, or in three pieces or more, or where nothing tells."""
    exact = (Clause((Term("surfaces", "sku-48007-h"),)),)
    assert identifier_clauses(weighed("love SKU-48007-H SKU-48007-H")) == exact
    assert identifier_clauses(weighed("SKU-48007-H", None)) == exact
    assert identifier_clauses(weighed("SKU-48007-H", Pieces(4))) == exact
    assert identifier_clauses(weighed("SKU-48007-H", Pieces(6))) == ()
    assert identifier_clauses(weighed("SKU-48007-H", Whole(["sku-48007-h"]))) == ()


@pytest.mark.parametrize("knowledge", [None, Pieces(100), Whole(["snake_case"]), KNOWN])
def test_names_are_identifiers_whatever_the_model_knows(knowledge: Any) -> None:
    """It may know them by their pieces, yet not tell the whole from these."""
    exact = (Clause((Term("surfaces", "snake_case"),)),)
    assert identifier_clauses(weighed("snake_case", knowledge)) == exact
    assert identifier_clauses(weighed("snakeCase", knowledge)) == (Clause((word("snakecas"),)),)
    assert identifier_clauses(weighed("quick-brown HTTPServer e.g. a/b", knowledge)) == ()


def corpus(knowledge: Any, *texts: str) -> SmallCorpus:
    docs = [Doc(str(number), text) for number, text in enumerate(texts)]
    made = SmallCorpus(docs, knowledge)
    made.cutter = CUTTER
    return made


def test_m_is_the_share_of_the_idf_mass_that_is_unknown() -> None:
    """Of the words that count; an unknown word that the corpus does not hold is not part of it."""
    mass = {frequency: idf(3, frequency) for frequency in (0, 1, 2)}
    held = corpus(KNOWN, "love xapian", "love 7", "cats")
    assert unknown_share(weighed("the love xapian"), held) == pytest.approx(
        mass[1] / (mass[1] + mass[2])
    )
    assert unknown_share(weighed("love nowhere"), held) == 0
    assert unknown_share(weighed("xapian 7"), held) == pytest.approx(0.5)
    assert unknown_share(weighed("xapian"), held) == 1


def test_a_code_weighs_by_its_whole_surface() -> None:
    """Not by how rare its parts are."""
    held = corpus(KNOWN, "SKU-48007-H", "SKU-48008-H love", "love h")
    mass = {frequency: idf(3, frequency) for frequency in (1, 2)}
    share = unknown_share(weighed("love SKU-48007-H"), held)
    assert share == pytest.approx(mass[1] / (mass[1] + mass[2]))


@pytest.mark.parametrize("knowledge", [None, Pieces(1)])
def test_m_is_0_where_whole_words_are_not_told_apart(knowledge: Any) -> None:
    """Models of pieces know nearly all, and of no knowledge nothing follows."""
    held = corpus(knowledge, "SKU-48007-H", "love")
    assert unknown_share(weighed("SKU-48007-H love", knowledge), held) == 0


def knowledge_of(*words: str, rule: str = "keras") -> KnownWords:
    from vocabtool import ByteStrings

    stored = ByteStrings.of([each.encode() for each in words])
    return KnownWords(Words.of(Vocabulary("words", "list", stored), rule=rule))


def test_the_models_rule_decides_what_is_known() -> None:
    """Keras' default lower-cases, deletes punctuation and joins what it parted."""
    knowledge = knowledge_of("love", "quickbrown", "cat")
    told = knowledge.statuses(["LOVE", "quick-brown", "quick", "love", "cat!"])
    assert [each.known for each in told] == [True, True, False, True, True]
    assert not knowledge.subword


def test_a_word_is_unknown_when_one_of_its_keys_is() -> None:
    """By a rule that cuts at hyphens."""
    knowledge = knowledge_of("quick", "brown", rule="regex:[a-z]+")
    told = knowledge.statuses(["quick-brown", "quick-red"])
    assert [each.known for each in told] == [True, False]


def test_each_word_is_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """All new words of a query in one call; what is remembered is bounded."""
    knowledge, asked = knowledge_of("love"), []
    judge = Words.look_up

    def counting(words: Words, texts: Iterable[str | bytes]) -> WordLookup:
        asked.append(list(texts))
        return judge(words, asked[-1])

    monkeypatch.setattr(Words, "look_up", counting)
    monkeypatch.setattr(store, "MAX_REMEMBERED", 3)
    assert [each.known for each in knowledge.statuses(["love", "x1", "love"])] == [
        True,
        False,
        True,
    ]
    assert [each.known for each in knowledge.statuses(["x1", "x2"])] == [False, False]
    assert [each.known for each in knowledge.statuses(["x3", "love"])] == [False, True]
    assert [each.known for each in knowledge.statuses(["love", "x1"])] == [True, False]
    assert asked == [["love", "x1"], ["x2"], ["x3"], ["love", "x1"]]


def test_models_of_pieces_have_no_m_and_a_smaller_a() -> None:
    """A code in three pieces or more counts as unknown for the guarantee; two are known."""
    docs = [Doc("right", "one SKU-48007-H there", (-1, 0)), Doc("other", "love", (1, 0))]
    east = np.array([1, 0], np.float32)
    hits = search(SmallCorpus(docs, Pieces(4)), "love SKU-48007-H", east, explain=True)
    assert (hits.query.a, hits.query.m, hits.query.weight) == (0.4, 0, 0.4)
    assert [word.pieces for word in hits.query.words] == [1, 3]
    assert (hits[0].id, hits[0].tier) == ("right", 1)
    assert any("pieces" in note for note in hits.notes)
    coarse = search(SmallCorpus(docs, Pieces(6)), "love SKU-48007-H", east)
    assert {hit.tier for hit in coarse} == {0}
