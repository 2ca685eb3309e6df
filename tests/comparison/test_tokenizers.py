"""Two tokenizers compared: the oracle is the tokenizers library, with Python's sets and Counter."""

from __future__ import annotations

import json
import re
from collections import Counter
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
    one = vocabulary([entry.encode() for entry in ("<s>", the, ing, *more)], marker=marker)
    pieces = vocabulary([b"<s>", "▁the".encode(), b"ing"], marker="▁")
    found = diff(one, pieces)
    assert (found.common, found.only_a, found.only_b, found.a.distinct) == (3, 1, 0, 4)
    assert found.tokens.to_pylist() == [b"<s>", "▁the".encode(), b"ing", "▁ing".encode()]
    assert diff(one, vocabulary([b"the", b"ing"])).common == 2  # a list of words has words


def test_bytes_and_blanks_are_decoded() -> None:
    """Bytes are decoded; runs of ``▁`` and of ``Ġ`` are blanks; the character ``▁`` is no blank."""
    a = ["Ġcaf\u00c3\u00a9", "ĠĠ", "Ġ", "\u00c3", "<|end|>", "added 漢", "âĸģ", "Ġâĸģ"]
    b = ["▁café", "▁▁", "▁", "<0xC3>", "<|end|>", "a▁b"]
    found = diff(
        vocabulary([entry.encode() for entry in a], marker="Ġ"),
        vocabulary([entry.encode() for entry in b], marker="▁"),
    )
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
    for options in ({"as_stored": True}, {"rule": "keras"}):
        found = diff(a, b, corpus=iter(TEXTS), **options)
        assert found.cuts is None
        assert found.use is not None
        assert (found.use.rule_name, found.by_text) == ("keras", "rule" in options)
        if "as_stored" in options:
            assert (found.fold, found.common) == ((), 1)


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
        *(["markers"], None),
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

SPECIAL = re.compile(r"<[^<>\s]*[A-Za-z/][^<>\s]*>|\[[^\[\]\s]*[A-Za-z]{2}[^\[\]\s]*\]")

MODULES = "[a-f]*.py"


def opened(file: Path) -> Any:
    made = tokenizers.Tokenizer.from_file(str(file))
    made.no_padding()
    made.no_truncation()
    return made


def parts(made: Any) -> set[tuple[bool, str]]:
    """The entries of WordPiece or byte-level BPE: whether they begin a word, and their text."""
    found = set()
    byte_level = made.decoder is not None and "ByteLevel" in type(made.decoder).__name__
    for entry in made.get_vocab():
        if SPECIAL.fullmatch(entry):
            found.add((False, entry))
        elif byte_level:
            text = made.decoder.decode([entry])  # U+FFFD for a part of a character
            text = f"\ufffd{entry}" if "\ufffd" in text else text.removeprefix(" ")
            found.add((entry.startswith("Ġ"), text))
        else:
            found.add((not entry.startswith("##"), entry.removeprefix("##")))
    return found


def cut(made: Any, text: str) -> list[tuple[str, list[str]]]:
    """The words of a text as the tokenizer spells them, and their pieces."""
    if made.normalizer is not None:
        text = made.normalizer.normalize_str(text)
    words = [word for word, _ in made.pre_tokenizer.pre_tokenize_str(text)]
    return [(word, [piece.value for piece in made.model.tokenize(word)]) for word in words]


def checked(file: Path, cut_side: Any) -> dict[str, Any]:
    """The figures of one side equal those of the library with a Counter.

    Returns, for each text of a known word, how often it is whole and how often cut, and its pieces.
    """
    made = opened(file)
    counts: Counter[str] = Counter()
    pieces_of: dict[str, list[str]] = {}
    pieces = sum(
        len(e.ids) for e in made.encode_batch(docstrings(MODULES), add_special_tokens=False)
    )
    for text in docstrings(MODULES):
        for word, own in cut(made, text):
            counts[word] += 1
            pieces_of[word] = own
    blank = {word for word in counts if not word.strip("Ġ")}
    words = {word: n for word, n in counts.items() if word not in blank}
    assert cut_side.tokens == sum(words.values())
    assert cut_side.pieces == pieces
    assert cut_side.blanks == sum(counts[word] * len(pieces_of[word]) for word in blank)
    assert cut_side.split == sum(n for word, n in words.items() if len(pieces_of[word]) > 1)
    unknown = getattr(made.model, "unk_token", None)
    assert cut_side.unknown == sum(n for word, n in words.items() if unknown in pieces_of[word])
    spelled = made.decoder.decode if made.normalizer is None else "".join
    texts: dict[str, Counter[str]] = {}
    for word, count in words.items():
        if unknown not in pieces_of[word]:
            texts.setdefault(spelled([word]).removeprefix(" "), Counter())[word] += count
    return {
        text: (
            sum(n for word, n in found.items() if len(pieces_of[word]) == 1),
            sum(n for word, n in found.items() if len(pieces_of[word]) > 1),
            [pieces_of[word] for word in found],
        )
        for text, found in texts.items()
    }


def kept(one: dict[str, Any], other: dict[str, Any]) -> list[tuple[bytes, int]]:
    """The words that ``one`` keeps whole and ``other`` cuts, with the smaller count."""
    both = {text: min(one[text][0], other[text][1]) for text in one.keys() & other.keys()}
    found = [(text.encode(), count) for text, count in both.items() if count]
    return sorted(found, key=lambda row: (-row[1], row[0]))


def test_real_tokenizers(shared: Path) -> None:
    """MiniLM beside RoBERTa: entries as sets, words and pieces as the library with a Counter."""
    a, b = minilm() / "tokenizer.json", shared / "files" / "roberta" / "tokenizer.json"
    found = diff(a, b, corpus=iter(docstrings(MODULES)))
    one, other = parts(opened(a)), parts(opened(b))
    assert (found.common, found.only_a, found.only_b) == (
        *(len(one & other), len(one - other)),
        len(other - one),
    )
    assert found.cuts is not None
    assert found.cuts.documents == len(docstrings(MODULES))
    of_a, of_b = checked(a, found.cuts.a), checked(b, found.cuts.b)
    for side, expected in (("a", kept(of_a, of_b)), ("b", kept(of_b, of_a))):
        assert len(expected) > 50
        assert [row[:2] for row in rows(found, side)] == expected
        for word, _, *pieces in rows(found, side):
            for some, of_side in zip(pieces, (of_a, of_b), strict=True):
                assert [piece.decode() for piece in some] in of_side[word.decode()][2]
    counter = OovCounter(Words.of(b))
    counter.count([docstrings(MODULES)])
    report = counter.report()
    assert (report.tokens, report.fertility) == (found.cuts.b.tokens, found.cuts.b.fertility)


def test_the_same_entries_marked_in_two_ways(shared: Path) -> None:
    """MiniLM marks continuations with ``##``, the GGUF file of BGE starts with ``▁``."""
    found = diff(
        minilm() / "tokenizer.json", shared / "files" / "gguf" / "ggml-vocab-bert-bge.gguf"
    )
    assert (found.common, found.only_a, found.only_b) == (30_522, 0, 0)
