"""What a limit of tokens cuts off, as the libraries cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tokenization.test_token_limit import TEXTS, made
from vocabtool import TokenLimit, Words
from vocabtool.tokenization.token_limit import count_cut, cut_off

tokenizers = pytest.importorskip("tokenizers", reason="the oracle")


def byte_level() -> Any:
    found = tokenizers.ByteLevelBPETokenizer()
    found.train_from_iterator(TEXTS * 3, 290, show_progress=False)
    return found._tokenizer


def metaspace() -> Any:
    """As SentencePiece cuts, with several words in a pre-token."""
    found = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    found.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(split=False)
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=60, special_tokens=["<unk>"])
    found.train_from_iterator(TEXTS, trainer)
    return found


def test_whole_words_are_cut(tmp_path: Path) -> None:
    """Texts, tokens cut off and all tokens are counted in words."""
    (tmp_path / "words.txt").write_text("a\nb\n")
    words = Words.of(tmp_path / "words.txt", rule="lower")
    assert cut_off(words.look_up(["a b c", "a b"]), TokenLimit(2))[:3] == (1, 1, 5)


@pytest.mark.parametrize("cuts_start", [False, True])
@pytest.mark.parametrize("places", [1, 2, 3, 4, 6, 9, 30, 1_000])
@pytest.mark.parametrize("kind", ["special", "plain", "byte-level", "metaspace"])
def test_as_the_library_cuts(kind: str, places: int, cuts_start: bool, tmp_path: Path) -> None:
    """Texts that are too long, tokens cut off, and the words of which every token is left."""
    whole = {"byte-level": byte_level, "metaspace": metaspace}.get(
        kind, lambda: made(kind == "special")
    )()
    whole.save(str(tmp_path / "tokenizer.json"))
    special = whole.num_special_tokens_to_add(False)
    limit = TokenLimit(places, special, cuts_start)
    words = Words.of(tmp_path / "tokenizer.json")
    found = words.look_up(TEXTS)
    every = [whole.encode(text, add_special_tokens=False) for text in TEXTS]
    most = max(places - special, 0)
    assert limit.tokens == most
    lengths = [len(each.ids) for each in every]
    texts, tokens, all_tokens, read = cut_off(found, limit)
    assert (texts, tokens) == count_cut(found, most)
    assert texts == sum(length > most for length in lengths)
    assert tokens == sum(max(length - most, 0) for length in lengths)
    assert all_tokens == sum(lengths)
    if kind == "metaspace":  # the library numbers pre-tokens, not words
        return
    shown = [text.decode() for text in found.distinct.view("binary").to_pylist()]
    wanted = set()
    for at, each in enumerate(every):
        numbers = each.word_ids
        start = max(len(numbers) - most, 0) if cuts_start else 0
        kept = numbers[start : start + most]
        codes = found.codes[found.offsets[at] : found.offsets[at + 1]]
        for number, code in enumerate(codes.tolist()):
            if kept.count(number) == numbers.count(number):
                wanted.add(shown[code])
    assert {shown[at] for at in np.flatnonzero(read).tolist()} == wanted
