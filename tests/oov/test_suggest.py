"""Words to add to a tokenizer: each saving is what the ``tokenizers`` library saves with them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders.word_piece import tokenizer_of
from tests.cli.running import on_terminal, run
from tests.html_page import Page
from tests.tokenization.test_hf_words import MAKERS
from vocabtool import VocabtoolError, Words, suggest
from vocabtool.oov import suggest as suggestions

tokenizers: Any = pytest.importorskip("tokenizers", reason="the oracle")

HASH = "4f2a9c0b7d1e8a6f3b5c"
TEXTS = [
    f"Gradient descent: the gradient, (gradient) of numpy/scipy arrays, {HASH} {HASH} {HASH}",
    "numpy arrays and scipy arrays; numpy.array, the_gradient gradient_descent 2023 2023 2023",
    "Gradients  of  gradient\tdescent\nand numpy? scipy! naïve CAFÉ, naïve café m² gradient²",
    "Привет мир, привет numpy-scipy; Привет gradient descent's descent…descent gradient",
    "", " ", "2023 2023, 2023", "हिन्दी में numpy और scipy, हिन्दी gradient",
    "日本語 numpy日本語 scipy",
    "numpy numpy numpy scipy scipy gradient\u200dx gradient\u0301 descent", "bad \udcff numpy",
    "[UNK] gradient [CLS]numpy[SEP] scipy", "a b c d e of the and arrays arrays", "numpy" * 3,
]  # fmt: skip
PRINTABLE = {letter for text in TEXTS for letter in text.lower() if letter.isprintable()}
LETTERS = sorted(PRINTABLE - {" "})


def word_piece() -> Any:
    pieces = ["[UNK]", "[CLS]", "[SEP]", "the", "and", "of", "grad", *LETTERS]
    pieces += [f"##{letter}" for letter in LETTERS]
    made = tokenizer_of(pieces)
    made.add_special_tokens(["[CLS]", "[SEP]"])
    made.enable_truncation(8)
    made.enable_padding()
    return made


TOKENIZERS = (
    *("byte-level BPE", "byte-level with a blank before", "Unigram, always a mark"),
    *("Unigram, a first mark", "Unigram without pre-tokenizer", "BPE with bytes"),
)
MADE: dict[str, Callable[[], Any]] = {
    **{name: MAKERS[name] for name in TOKENIZERS},
    "stripped, padded, truncated": word_piece,
}


def pieces_in(made: Any, texts: list[str]) -> int:
    shown = [text.encode("utf-8", "replace").decode() for text in texts]
    return sum(len(each.ids) for each in made.encode_batch(shown, add_special_tokens=False))


def opened(file: Path, tokens: list[dict[str, Any]]) -> Any:
    made = tokenizers.Tokenizer.from_file(str(file))
    made.no_truncation()
    made.no_padding()
    added = made.add_tokens([tokenizers.AddedToken(**each) for each in tokens])
    assert added == len(tokens)
    return made


def check(file: Path, found: Any, texts: list[str]) -> None:
    """The library saves, with the first words and with all, exactly what is promised."""
    tokens: list[dict[str, Any]] = [{"content": each.word} | found.flags for each in found.words]
    saved = [word.saved for word in found.words]
    assert found.before == pieces_in(opened(file, []), texts)
    for number in {1, len(tokens) // 2}:
        made = opened(file, tokens[:number])
        assert found.before - pieces_in(made, texts) == sum(saved[:number])
    made = opened(file, tokens)
    assert found.after == pieces_in(made, texts) == found.before - sum(saved)
    if not found.flags["lstrip"]:  # else a word may save more once its neighbour is added
        assert saved == sorted(saved, reverse=True)
    counts: Counter[str] = Counter()
    for text in texts:
        encoded = made.encode(text.encode("utf-8", "replace").decode(), add_special_tokens=False)
        counts.update(map(made.id_to_token, encoded.ids))
    assert [counts[word.word] for word in found.words] == [word.count for word in found.words]


@pytest.mark.parametrize("name", MADE)
def test_the_library_saves_what_is_promised(name: str, tmp_path: Path) -> None:
    """For each kind of tokenizer, also if it strips, pads, truncates or marks blanks."""
    file = tmp_path / "tokenizer.json"
    MADE[name]().save(str(file))
    words = Words.of(file)
    texts = [text.encode("utf-8", "replace").decode() for text in TEXTS] * 2 + TEXTS[:3]
    found = suggest(words, [texts[:5], texts[5:]], 20)
    check(file, found, texts)
    names = {word.word.lower() for word in found.words}
    assert {"gradient", "numpy", "scipy", "descent"} <= names
    assert not names & {HASH, "2023"}


def test_words_with_joiners(tmp_path: Path) -> None:
    """A zero width non-joiner is a part of its word, as in Persian."""
    MAKERS["byte-level BPE"]().save(str(tmp_path / "tokenizer.json"))
    found = suggest(Words.of(tmp_path / "tokenizer.json"), [["Auf\u200clage Auf\u200clage"]], 1)
    assert [word.word for word in found.words] == ["Auf\u200clage"]


def test_each_is_the_best_beside_those_before(tmp_path: Path) -> None:
    """By trial of every word of the texts with the library."""
    file = tmp_path / "tokenizer.json"
    word_piece().save(str(file))
    texts = TEXTS[:3]
    found = suggest(Words.of(file), [texts], 6)
    tokens: list[dict[str, Any]] = []
    candidates = {
        *("gradient", "descent", "numpy", "scipy", "arrays", "array", "the_gradient", "naive"),
        *("cafe", "gradient_descent", "gradients"),
    }
    before = pieces_in(opened(file, tokens), texts)
    for word in found.words:
        saved = {
            each: before
            - pieces_in(opened(file, [*tokens, {"content": each} | found.flags]), texts)
            for each in candidates
        }
        assert word.saved == saved[word.word] == max(saved.values())
        candidates.remove(word.word)
        tokens.append({"content": word.word} | found.flags)
        before -= word.saved
    assert found.words[0].parts[0] == "grad"


# Outputs and errors


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("suggest")
    word_piece().save(str(folder / "bert.json"))
    (folder / "corpus.txt").write_text("\n".join(TEXTS[:3] * 2))
    (folder / "words.txt").write_text("the\nof\n")
    return folder


def test_reports(here: Path, tmp_path: Path) -> None:
    """The same words and figures in JSON, on a page and on a terminal."""
    page = tmp_path / "x.html"
    arguments = ("oov", "bert.json", "corpus.txt", "--suggest", "3")
    done = run(*arguments, "--format", "json", "--html", page, cwd=here)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["suggested"]
    assert found["words"][0]["word"] == "gradient"
    assert found["flags"]["single_word"] is True
    assert found["documents"] == 8
    assert found["after"] < found["before"]
    shown = on_terminal(here, *arguments)
    text = Page(page.read_text()).text
    for each in found["words"]:
        assert each["word"] in text
        assert f" {each['saved']} " in shown
        assert " ".join(each["parts"])[:12] in shown
    assert f"8 documents: {found['before']} pieces, {found['after']} with these words" in shown


ERRORS: dict[str, tuple[list[str], int, str]] = {
    "zero": (["bert.json", "--suggest", "0"], 2, "--suggest"),
    "masked": (["bert.json", "--suggest", "2", "--mask", "known"], 2, "--mask cannot"),
    "a list": (["words.txt", "--suggest", "2", "--rule", "lower"], 3, "words can be added only to"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str, here: Path) -> None:
    """What is wrong, and where; before any document is read."""
    (model, *options), code, told = ERRORS[name]
    (here / "bad.jsonl").write_text("no JSON")
    done = run("oov", model, "bad.jsonl", *options, cwd=here)
    assert (done.returncode, told in done.stderr.decode()) == (code, True), done.stderr
    assert b"Traceback" not in done.stderr


def test_nothing_to_choose_from(here: Path) -> None:
    nothing = suggest(Words.of(here / "bert.json"), [], 2)
    assert (nothing.words, nothing.documents, nothing.before, nothing.after) == ((), 0, 0, 0)
    with pytest.raises(VocabtoolError, match="can be added only to"):
        suggest(Words.of("data/sentence_encoder"), [TEXTS], 2)


def test_texts_beyond_the_limit(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first ones are read, and a note says so."""
    monkeypatch.setattr(suggestions, "MAX_TEXT", 100_000)
    batches = [["numpy of"] * 5_000, ["scipy"] * 1_001, ["scipy"] * 9_000]
    found = suggest(Words.of(here / "bert.json"), batches, 5)
    assert "the first 6,001 documents" in found.notes[0]
    assert found.documents == 6_001
