"""Texts that are cut into chunks, and read in slices, have the same words as whole texts."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, normalizers, pre_tokenizers

from tests.tokenization.test_hf_words import (
    AWKWARD,
    MAKERS,
    PARTS,
    TEXT,
    byte_level,
    falling_back,
    of,
    unigram,
    word_piece,
)
from vocabtool import Words
from vocabtool.formats.tokenizer_folder import LLAMA3
from vocabtool.tokenization import hf_tokenizer
from vocabtool.tokenization.hf_tokenizer import Cuts
from vocabtool.tokenization.lookup import WordLookup
from vocabtool.tokenization.text_arrays import texts_array


def by_pattern() -> Tokenizer:
    """Like Llama 3."""
    tokenizer = byte_level()
    split = pre_tokenizers.Split(Regex(LLAMA3), "isolated")
    write = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, write])
    return tokenizer


def by_table() -> Tokenizer:
    """Like XLM-RoBERTa: SentencePiece's table of characters, then words between blanks."""
    model = sentencepiece.SentencePieceNormalizer(rule_name="nmt_nfkc").serialized_model_proto()
    proto = import_module("sentencepiece.sentencepiece_model_pb2").ModelProto.FromString(model)
    table = normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)
    steps = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    return unigram(table, pre_tokenizers.Sequence(steps))


def with_tokens(make: Callable[[], Tokenizer], *tokens: AddedToken) -> Tokenizer:
    tokenizer = Tokenizer.from_str(make().to_str())
    tokenizer.add_tokens(list(tokens))
    return tokenizer


OWN: dict[str, Callable[[], Tokenizer]] = {
    "a pattern": by_pattern,
    "a table": by_table,
    "marks in a token": partial(with_tokens, word_piece, AddedToken("<|x|>")),
    "a mark": partial(with_tokens, word_piece, AddedToken(".", single_word=True)),
    "two marks after NFKD": partial(with_tokens, word_piece, AddedToken("…")),
    "a blank in a token": partial(with_tokens, word_piece, AddedToken("the fox")),
    "a token of Llama": partial(with_tokens, falling_back, AddedToken("fox", normalized=False)),
    "a normalised token of Llama": partial(with_tokens, falling_back, AddedToken("fox")),
}
FILES = (
    *("gguf/ggml-vocab-bert-bge.gguf", "gguf/ggml-vocab-gpt-2.gguf", "roberta"),
    *("gguf/ggml-vocab-llama-bpe.gguf", "gguf/ggml-vocab-llama-spm.gguf"),
)
ALL = (*MAKERS, *OWN, *FILES)
CHUNKING = {  # of the other tokenizers: None
    **dict.fromkeys(("WordLevel", "WordPiece", "BPE with a suffix"), "behind"),
    **dict.fromkeys(("Unigram between blanks", "marks in a token", "a mark"), "behind"),
    **dict.fromkeys(("two marks after NFKD", FILES[0]), "behind"),
    **dict.fromkeys(("byte-level BPE", "byte-level with a blank before"), "before"),
    **dict.fromkeys(("Unigram, always a mark", "Unigram, a first mark"), "before"),
    **dict.fromkeys(("Unigram, never a mark", "a pattern", "a table"), "before"),
    **dict.fromkeys((FILES[1], FILES[2], FILES[3]), "before"),
    **dict.fromkeys(("BPE with bytes", "a token of Llama", FILES[4]), "instead"),
}
SPACED = st.lists(
    st.sampled_from([*PARTS, *" .,!_-ax1", ". ", "..", " fox", "the ", "<|x|>", "…", "the fox"]),
    max_size=20,
).map("".join)


@cache
def words_of(name: str, shared: Path) -> Words:
    if name in FILES:
        return Words.of(shared / "files" / name)
    return of({**MAKERS, **OWN}[name]())


def rows(lookup: WordLookup) -> list[list[tuple[Any, ...]]]:
    spelled = lookup.spelled
    count = len(lookup.ids)
    pieces = [None if spelled is None else spelled.of_word(at) for at in range(count)]
    facts = (lookup.known.tolist(), lookup.ids.tolist(), lookup.positions.tolist(), pieces)
    return lookup.rows([*zip(lookup.distinct.view("binary").to_pylist(), *facts, strict=True)])


def assert_equal(one: Any, other: Any) -> None:
    for left, right in zip(one, other, strict=True):
        if isinstance(left, tuple):
            assert_equal(left, right)
        elif isinstance(left, np.ndarray):
            assert left.dtype == right.dtype
            assert left.tolist() == right.tolist()
        else:
            assert left == right


@pytest.mark.parametrize("name", ALL)
@settings(max_examples=30, deadline=None)
@given(texts=st.lists(TEXT | SPACED, max_size=5))
@example(texts=[*AWKWARD])
@example(texts=[" ".join(AWKWARD), "\n".join(AWKWARD), "a.. ..b\fc d\ve f", " a", "a ", " ", ""])
@example(texts=["fox the fox.<|x|>.fox <s> the</s> <|x|>> x", "x y▁z ▁ w  v", "ας'.ΩΣ Σ. .Ω"])
def test_any_text(name: str, texts: list[str], shared: Path) -> None:
    """Chunks do not change the words of a text, nor do slices change anything."""
    words = words_of(name, shared)
    tokenizer: Any = words.tokenizer
    cuts = tokenizer._cuts
    assert cuts.chunking == CHUNKING.get(name)
    wanted = words.look_up(texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hf_tokenizer, "SLICE_BYTES", 1)
        assert_equal(words.look_up(texts), wanted)
        patch.setattr(tokenizer, "_cuts", Cuts(None))
        assert rows(words.look_up(texts)) == rows(wanted)


def test_marks_are_cut() -> None:
    """BERT's punctuation is cut anywhere, unless an added token has two marks."""
    tokenizers: list[Any] = [of(word_piece()).tokenizer, of(OWN["marks in a token"]()).tokenizer]
    marks = texts_array([".,;:" * 1_000])
    assert [len(one._cuts.chunks(marks)[0]) for one in tokenizers] == [4_000, 1]
