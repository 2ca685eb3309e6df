"""Two tokenizers compared: the oracle is the tokenizers library, with Python's sets and Counter."""

from __future__ import annotations

import json
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tests.builders.minilm import docstrings, minilm
from tests.builders.word_piece import tokenizer_of
from tests.cli.running import on_terminal, run
from tests.some_reports import vocabulary
from vocabtool import Diff, OovCounter, Words, diff

tokenizers: Any = pytest.importorskip("tokenizers", reason="it is the oracle")

MARKUP = "<img src=x>"
WORDPIECE = ["[UNK]", "the", "cat", "lin", "##al", "##g", "graph", "##s", ".", "café", MARKUP]
METASPACE = ["<unk>", "▁", "▁the", "▁cat", "▁linalg", "▁graph", "s", "al", "▁caf", "é", MARKUP]
TEXTS = ("the linalg cat graphs .", "graph graphs café", "The 猫 linalg")


def wordpiece(folder: Path) -> Path:
    """A lower-casing WordPiece tokenizer of the entries above."""
    tokenizer_of(WORDPIECE, strip_accents=False).save(str(folder / "a.json"))
    return folder / "a.json"


def metaspace(folder: Path) -> Path:
    """A Unigram tokenizer whose words begin with ``▁``."""
    made = tokenizers.Tokenizer(tokenizers.models.Unigram([(e, -1.0) for e in METASPACE], 0))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    made.save(str(folder / "b.json"))
    return folder / "b.json"


def rows(found: Diff, side: str) -> list[tuple[Any, ...]]:
    assert found.cuts is not None
    return [tuple(row.values()) for row in getattr(found.cuts, side).kept.to_pylist()]


@pytest.mark.parametrize(
    ("marker", "the", "ing"),
    [
        *(("▁", "▁the", "ing"), ("Ġ", "Ġthe", "ing"), (" ", " the", "ing")),
        *(("##", "the", "##ing"), ("@@", "the", "ing@@"), ("</w>", "the</w>", "ing")),
    ],
)
def test_like_with_like(marker: Any, the: str, ing: str) -> None:
    """``the`` equals ``▁the``, ``##ing`` equals ``ing``; both ``ing`` of a side stay two."""
    more = {"##": ["ing"], "@@": ["ing"], "</w>": ["ing</w>"]}.get(marker, [f"{marker}ing"])
    one = vocabulary(["<s>", the, ing, *more], marker=marker)
    pieces = vocabulary([b"<s>", "▁the".encode(), b"ing"], marker="▁")
    found = diff(one, pieces)
    assert (found.common, found.only_a, found.only_b, found.a.distinct) == (3, 1, 0, 4)
    assert found.tokens.to_pylist() == [b"<s>", "▁the".encode(), b"ing", "▁ing".encode()]
    assert diff(one, vocabulary([b"the", b"ing"])).common == 2  # a list of words has words


def test_bytes_and_blanks_are_decoded() -> None:
    """Bytes are decoded; runs of ``▁`` and of ``Ġ`` are blanks; the character ``▁`` is no blank."""
    a = ["Ġcaf\u00c3\u00a9", "ĠĠ", "Ġ", "\u00c3", "<|end|>", "added 漢", "âĸģ", "Ġâĸģ"]
    b = ["▁café", "▁▁", "▁", "<0xC3>", "<|end|>", "a▁b"]
    found = diff(vocabulary(a, marker="Ġ"), vocabulary(b, marker="▁"))
    tokens = ["▁café", "▁ ", "▁", "\udcc3", "<|end|>", "added 漢", "##▁", "▁▁", "<0xC3>", "a b"]
    assert [t.decode("utf-8", "surrogateescape") for t in found.tokens.to_pylist()] == tokens
    assert found.common == 4


def test_cuts_by_hand(tmp_path: Path) -> None:
    """Each side by its own rule: A lower-cases, B does not; words in the order of their counts."""
    a, b = wordpiece(tmp_path), metaspace(tmp_path)
    found = diff(a, b, corpus=iter(TEXTS))
    cuts = found.cuts
    assert found.use is None
    assert cuts is not None
    assert cuts.documents == 3
    # A: the lin ##al ##g cat graph ##s . | graph graph ##s café | the [UNK] lin ##al ##g
    assert (cuts.a.tokens, cuts.a.pieces, cuts.a.split, cuts.a.unknown) == (11, 17, 4, 1)
    # B: ▁the ▁linalg ▁cat ▁graph s ▁ . | ▁graph ▁graph s ▁caf é | ▁ The ▁ 猫 ▁linalg
    assert (cuts.b.tokens, cuts.b.split, cuts.b.unknown) == (11, 6, 3)
    assert cuts.b.pieces == cuts.b.tokens + 6
    assert cuts.a.fertility == 17 / 11
    cafe = "café".encode()
    assert rows(found, "a") == [(cafe, 1, [cafe], ["▁caf".encode(), "é".encode()])]
    linalg = (b"linalg", 2, [b"lin", b"##al", b"##g"], ["▁linalg".encode()])
    assert rows(found, "b") == [linalg]
    turned = diff(b, a, corpus=iter(TEXTS))
    assert rows(turned, "a") == [(*linalg[:2], linalg[3], linalg[2])]
    found = diff(a, b, corpus=iter(TEXTS), rule="keras")
    assert found.cuts is None
    assert found.use is not None
    assert (found.use.rule_name, found.by_text) == ("keras", True)


def test_a_side_without_a_rule(tmp_path: Path) -> None:
    """One rule cuts for both, and a note says why."""
    (tmp_path / "words.txt").write_text("the\ncat\n", "utf-8")
    found = diff(wordpiece(tmp_path), tmp_path / "words.txt", corpus=iter(TEXTS))
    assert found.cuts is None
    assert found.use is not None
    assert (found.common, found.use.tokens, found.use.both) == (2, 10, 3)
    (note,) = (note for note in found.notes if "keras" in note)
    assert "words.txt: a list of words does not define" in note
    kept = vocabulary([b"the", b"##s"], "kept", "##")
    notes = diff(kept, wordpiece(tmp_path), corpus=iter(TEXTS)).notes
    assert [note for note in notes if "kept: a vocabulary without its model" in note]
    document = json.loads(wordpiece(tmp_path).read_text("utf-8"))
    document["pre_tokenizer"] = {"type": "Nonsense"}
    (tmp_path / "bad.json").write_text(json.dumps(document), "utf-8")
    found = diff(tmp_path / "bad.json", metaspace(tmp_path), corpus=iter(TEXTS))
    assert found.use is not None
    assert [note for note in found.notes if "bad.json" in note and "rejects the file" in note]


def test_word_vectors_beside_a_tokenizer(tmp_path: Path) -> None:
    """Word vectors have the rule that fits them; a word is one piece; all words are counted."""
    (tmp_path / "v.txt").write_text("linalg 0.1 0.2\nthe 0.2 0.3\ncafé 0.0 0.1\n", "utf-8")
    found = diff(wordpiece(tmp_path), tmp_path / "v.txt", corpus=iter(TEXTS))
    assert found.cuts is not None
    assert found.cuts.b.pieces == found.cuts.b.tokens == 10
    assert found.cuts.notes[0].startswith("B: no --rule given")
    linalg = ([b"lin", b"##al", b"##g"], [b"linalg"])
    assert rows(found, "b") == [(b"linalg", 2, *linalg)]
    (tmp_path / "v.txt").write_text("LINALG 0.1 0.2\nThe 0.2 0.3\n", "utf-8")
    for fold, expected in ("", []), ("case", [(b"linalg", 1, linalg[0], [b"LINALG"])]):
        found = diff(
            *(wordpiece(tmp_path), tmp_path / "v.txt"), corpus=iter(["LINALG linalg"]), fold=fold
        )
        assert rows(found, "b") == expected


def test_the_command(tmp_path: Path) -> None:
    """Tables on a terminal, everything in JSON, the figures on standard error; the page too."""
    wordpiece(tmp_path), metaspace(tmp_path)
    (tmp_path / "c.txt").write_text("\n".join(TEXTS), "utf-8")
    arguments = ("diff", "a.json", "b.json", "--corpus", "c.txt")
    done = run(*arguments, "--format", "json", "--html", "page.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["fold"], document["use"], document["cuts"]["sources"]) == (
        *([], None),
        ["c.txt"],
    )
    side = document["cuts"]["b"]
    assert (side["tokens"], side["unknown"]) == (11, 3)
    assert side["kept"] == {
        **{"words": 1, "tokens": 2},
        "commonest": [
            {
                **{"word": "linalg", "count": 2},
                **{"pieces_a": ["lin", "##al", "##g"], "pieces_b": ["▁linalg"]},
            }
        ],
    }
    assert "vocabtool: a.json: 11 words, 17 pieces, 1.55 pieces per word, 1 unknown" in (
        done.stderr.decode()
    )
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "only B keeps whole" in page
    shown = [" ".join(line.split()) for line in on_terminal(tmp_path, *arguments).splitlines()]
    assert "A 11 17 1.55 36.36% 1" in shown
    assert "linalg 2 lin ##al ##g ▁linalg" in shown
    assert "1 word that A cuts and B keeps whole: 2 of the 11 words of B" in shown
    assert "punctuation 1 ▁." in shown


# Real tokenizers.


def counted(words: Words, texts: list[str]) -> tuple[Counter[bytes], Counter[bytes]]:
    """How often each known word, without a blank before it, is whole, and how often it is cut."""
    whole, cut = Counter[bytes](), Counter[bytes]()
    for word in chain.from_iterable(words.split(texts).to_pylist()):
        if word["known"] and word["word"].strip():
            side = whole if word["pieces"] == 1 else cut
            side[word["word"].removeprefix(b" ")] += 1
    return whole, cut


def test_real_tokenizers(shared: Path) -> None:
    """MiniLM beside RoBERTa: figures of ``oov``, and words kept whole by a Counter."""
    files = minilm() / "tokenizer.json", shared / "files" / "roberta" / "tokenizer.json"
    texts = [*docstrings("[a-c]*.py")]
    cuts = diff(*files, corpus=iter(texts)).cuts
    assert cuts is not None
    models = [Words.of(file) for file in files]
    counts = [counted(words, texts) for words in models]
    for side, words, (whole, _), (_, cut) in zip(
        (cuts.a, cuts.b), models, counts, counts[::-1], strict=True
    ):
        counter = OovCounter(words)
        counter.count([texts])
        report = counter.report()
        assert (side.tokens, side.fertility) == (report.tokens, report.fertility)
        assert (side.split_rate, side.unknown) == (report.split_rate(2), report.tokens_unknown)
        both = {word: min(whole[word], cut[word]) for word in whole.keys() & cut.keys()}
        wanted = sorted(both.items(), key=lambda row: (-row[1], row[0]))
        assert len(wanted) > 50
        assert [(row["word"], row["count"]) for row in side.kept.to_pylist()] == wanted


def test_the_same_entries_marked_in_two_ways(shared: Path) -> None:
    """MiniLM marks continuations with ``##``, the GGUF file of BGE starts with ``▁``."""
    found = diff(
        minilm() / "tokenizer.json", shared / "files" / "gguf" / "ggml-vocab-bert-bge.gguf"
    )
    assert (found.common, found.only_a, found.only_b) == (30_522, 0, 0)
