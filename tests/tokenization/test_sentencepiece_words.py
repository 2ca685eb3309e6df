"""The pieces of words are those of the sentencepiece library, including blanks."""

from __future__ import annotations

import io
import os
import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vocabtool import OovCounter, Words

SHARED = Path(os.environ.get("VOCABTOOL_SHARED", Path(__file__).parents[3] / "shared"))
FILES = SHARED / "files" / "sentencepiece"
WORDS = ("alpha", "beta", "gamma", "naïve", "日本語", "running", "    y", "=", "1", "▁", "don't")
OPTIONS: dict[str, dict[str, Any]] = {
    "unigram": {},
    "bpe": {"model_type": "bpe"},
    "char": {"model_type": "char"},
    "word": {"model_type": "word", "vocab_size": 15},
    "as Mistral's": {
        "model_type": "bpe",
        "byte_fallback": True,
        "vocab_size": 330,
        "remove_extra_whitespaces": False,
        "normalization_rule_name": "identity",
        "allow_whitespace_only_pieces": True,
    },
    "spaces kept, none before": {"remove_extra_whitespaces": False, "add_dummy_prefix": False},
    "across words": {"split_by_whitespace": False, "remove_extra_whitespaces": False},
    "space behind": {"treat_whitespace_as_suffix": True, "remove_extra_whitespaces": False},
    "case folded": {"normalization_rule_name": "nfkc_cf"},
    "as it is": {"normalization_rule_name": "identity"},
    "without marks": {"bos_id": -1, "eos_id": -1},
    "symbols of the user's": {"user_defined_symbols": ["<x>", "  ", "▁▁"], "model_type": "bpe"},
}
REAL = [
    pytest.param(name, marks=pytest.mark.skipif(not (FILES / name).is_file(), reason=f"no {name}"))
    for name in ("sp.model", "tokenizer.model.v1")  # Google's and Mistral's
]
HOSTILE = (
    *("    y = 1", "▁", "a ▁ b", "  ", "", "\t\n", "▁▁a▁", "\u3000日本 語", "<s></s><unk>"),
    *("<0x41>", "🎉 ok", "a\0b", "e\u0301", "<x>  <x>", "\u2581\u2582", "don't  don't", " \u00a0x"),
    "\ufffd",
)
TEXTS = st.text(st.sampled_from([*" ▁ab=1<x>\té日\u3000🎉\n"]) | st.characters(codec="utf-8"))


@cache
def trained(name: str) -> bytes:
    """Return a small model with the options of that name."""
    return train(**OPTIONS[name])


def train(**options: Any) -> bytes:
    """Return a small model with these options."""
    choose = random.Random(0)
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(" ".join(choose.choices(WORDS, k=8)) for _ in range(300)),
        model_writer=written,
        hard_vocab_limit=False,
        minloglevel=2,
        **{"vocab_size": 60, **options},
    )
    return written.getvalue()


@cache
def words_of(name: str, folder: Path) -> Words:
    file = folder / f"{name}.model"
    file.write_bytes(trained(name) if name in OPTIONS else (FILES / name).read_bytes())
    return Words.of(file)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


def pieces_of(words: Words, text: str) -> tuple[list[str], list[str]]:
    """Return the pieces of a text, and the unknown ones."""
    judged = words.look_up([text])
    assert judged.spelled is not None
    pieces = [piece for code in judged.codes.tolist() for piece in judged.spelled.of_word(code)]
    return [p.decode() for p, _ in pieces], [p.decode() for p, known in pieces if not known]


@pytest.mark.parametrize("name", [*OPTIONS, *REAL])
@settings(deadline=None)
@given(texts=st.lists(TEXTS, max_size=5))
@example(texts=[*HOSTILE])
def test_pieces_are_the_librarys(name: str, folder: Path, texts: list[str]) -> None:
    """The same pieces in the same order; unknown pieces have the unknown id."""
    words = words_of(name, folder)
    library = sentencepiece.SentencePieceProcessor(str(folder / f"{name}.model"))
    for text in texts:
        pieces = library.encode(text, out_type=str)
        ids = library.encode(text)
        unknown = [p for p, i in zip(pieces, ids, strict=True) if i == library.unk_id()]
        assert pieces_of(words, text) == (pieces, unknown)


def test_only_oov_leaves_blanks_out(folder: Path) -> None:
    """``oov`` counts the words between blanks, with a note about blanks."""
    words = words_of("as Mistral's", folder)
    texts = ["▁", "=  ", "alpha"]
    assert [pieces_of(words, text)[0] for text in texts] == [["▁▁"], ["▁=", "▁▁"], ["▁alpha"]]
    counter = OovCounter(words)
    counter.count([texts])
    report = counter.report()
    assert report.tokens == 2
    (note,) = report.notes
    assert "2 tokens of spaces" in note
