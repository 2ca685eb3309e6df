"""Texts past the model's limit: every output of ``oov``, and what ``embed`` and ``index`` tell."""

# own process: transformers

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.builders.word_piece import tokenizer_of
from tests.cli.running import on_terminal, run
from tests.html_page import Page
from vocabtool import Index, OovCounter, TokenLimit, Words, embed, open_encoder

tokenizers = pytest.importorskip("tokenizers", reason="the oracle")

ENTRIES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "i", "use", "lin", "##al", "##g", "num", "##py")
# Six tokens are read. Only the plus sign never stands among them; it and ü are not known.
TEXTS = ("i use numpy i use linalg + linalg", "use linalg ü use i i i numpy", "i use i", "linalg")
NOTE = "2 documents are longer than the 6 pieces that the model reads: 12 pieces are cut off"
SHOWN = [
    {
        **{"word": "+", "count": 1, "documents": 1},
        **{"known": False, "kind": "symbol", "example": TEXTS[0]},
    }
]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a ``model`` that reads 8 tokens, two of them special, and ``corpus.txt``."""
    folder = tmp_path_factory.mktemp("limited")
    (folder / "model").mkdir()
    tokenizer().save(str(folder / "model" / "tokenizer.json"))
    settings = {"model_max_length": 8}
    (folder / "model" / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "corpus.txt").write_text("\n".join(TEXTS) + "\n")
    return folder


def tokenizer(special: bool = True, entries: tuple[str, ...] = ENTRIES) -> Any:
    found = tokenizer_of(entries, strip_accents=False)
    if special:
        found.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return found


def test_json_and_page(here: Path, tmp_path: Path) -> None:
    """The limit, documents, tokens, and the words that the model never reads."""
    done = run(
        *("oov", "model", "corpus.txt", "--format", "json", "--html", tmp_path / "x.html"), cwd=here
    )
    found = json.loads(done.stdout)["cut"]
    assert found == {
        "limit": {
            "tokens": 8,
            "special": 2,
            "cuts_start": False,
            "source": "tokenizer_config.json: model_max_length",
        },
        **{"documents": 2, "tokens": 12, "all_tokens": 30, "cut_rate": 12 / 30},
        "words": SHOWN,
        "words_in_all": 1,
    }
    page = Page((tmp_path / "x.html").read_text())
    assert "only in the cut-off part" in page.text
    assert any(
        "limit: 8 tokens, with 2 special tokens (tokenizer_config.json: model_max_length)" in text
        for text in page.text
    )


def test_csv_and_parquet(here: Path, tmp_path: Path) -> None:
    """A column marks these words; without a limit there is none."""
    for name in ("x.csv", "x.parquet"):
        done = run("oov", "model", "corpus.txt", "-o", tmp_path / name, cwd=here)
        assert f"vocabtool: {NOTE} (40.00% of all pieces)\n" in done.stderr.decode()
    table = pq.read_table(tmp_path / "x.parquet")
    marked = dict(zip(table["word"].to_pylist(), table["cut"].to_pylist(), strict=True))
    assert marked == {"linalg": False, "numpy": False, "ü": False, "+": True}
    with (tmp_path / "x.csv").open(newline="") as file:
        rows = {row["word"]: row["cut"] for row in csv.DictReader(file)}
    assert rows == {word: str(int(cut)) for word, cut in marked.items()}
    model = here / "model" / "tokenizer.json"
    alone = tmp_path / "alone.json"
    alone.write_bytes(model.read_bytes())
    done = run("oov", alone, "corpus.txt", "--format", "csv", cwd=here)
    assert "cut" not in next(csv.reader(io.StringIO(done.stdout.decode())))
    assert b"longer than" not in done.stderr


def test_a_terminal(here: Path) -> None:
    """A section of its own; a limit that one gives counts instead of the stated one."""
    lines = on_terminal(here, "oov", "model", "corpus.txt").splitlines()
    assert f"{NOTE} (40.00% of all pieces)" in " ".join(lines)
    rows = [line.split() for line in lines]
    row = ["+", "1", "1", "punctuation", "or", "symbol", "i", "use", "numpy"]
    assert row in [words[: len(row)] for words in rows]
    lines = on_terminal(here, "oov", "model", "corpus.txt", "--limit", "100").splitlines()
    assert "no document is longer than the 98 pieces that the model reads" in lines
    assert not any("only in the cut-off part" in line for line in lines)


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        (["--fail-over=cut=39%"], 1, "above the limit of 39.00% (--fail-over cut)"),
        (["--fail-over=cut=0%", "--limit=15"], 0, "no document is longer than the 13 pieces that"),
        (["--fail-over=cut=40%", "--limit=0"], 2, "--limit"),
        (["--limit=2"], 2, "a limit of 2 is too low: the model adds 2 special tokens"),
        (["--limit=5", "--mask=known"], 2, "--mask cannot be combined"),
    ],
)
def test_fail_over(options: list[str], code: int, told: str, here: Path) -> None:
    """Exit code 1 if a larger share of the tokens is cut off."""
    done = run("oov", "model", "corpus.txt", *options, cwd=here)
    assert (done.returncode, told in done.stderr.decode()) == (code, True), done.stderr


def test_whole_words(here: Path, tmp_path: Path) -> None:
    """Words are counted; without a limit, none can be exceeded."""
    (tmp_path / "list.txt").write_text("i\nuse\n")
    command = ("oov", tmp_path / "list.txt", here / "corpus.txt", "--rule", "lower")
    done = run(*command, "--fail-over", "cut=1%")
    assert done.returncode == 2
    assert b"does not state how many tokens it reads" in done.stderr
    done = run(*command, "--limit", "5", "--format", "json")
    found = json.loads(done.stdout)["cut"]
    assert (found["documents"], found["tokens"]) == (2, 6)
    assert [(word["word"], word["count"]) for word in found["words"]] == [("+", 1)]
    done = run(*command, "--limit", "5", "--fail-over", "cut=0%")
    assert b"than the 5 tokens that the model reads: 6 tokens are cut off (" in done.stderr


def test_damaged_settings(here: Path, tmp_path: Path) -> None:
    """They are told, and the report is made all the same."""
    (tmp_path / "tokenizer.json").write_bytes((here / "model" / "tokenizer.json").read_bytes())
    (tmp_path / "config.json").write_text('{"max_position_embeddings": "many"}')
    done = run("oov", tmp_path, "corpus.txt", "--format", "json", cwd=here)
    assert done.returncode == 0
    assert "config.json: max_position_embeddings is 'many'" in done.stderr.decode()
    assert "cut" not in json.loads(done.stdout)
    done = run("oov", tmp_path, "corpus.txt", "--fail-over", "cut=1%", cwd=here)
    assert (done.returncode, b"is 'many'" in done.stderr) == (2, True)
    assert run("oov", tmp_path, "corpus.txt", "--limit", "8", cwd=here).returncode == 0


def test_beyond_the_memory_budget(here: Path) -> None:
    """Figures stay exact; of the words that are listed, exactly those that were not read."""
    words = Words.of(here / "model")
    limit = TokenLimit.of(here / "model", words)
    many = [f"w{number} use i i i i late{number}" for number in range(3_000)]
    exact, full = (OovCounter(words, budget=size, limit=limit) for size in (1 << 26, 100_000))
    for counter in (exact, full):
        counter.count([many[at : at + 100] for at in range(0, 3_000, 100)])
        counter.count([[f"late{number}" for number in range(100)]])
    found, some = (
        [word.word for word in counter.report().cut_words()] for counter in (exact, full)
    )
    assert sorted(found) == sorted(f"late{number}" for number in range(100, 3_000))
    report = full.report()
    assert report.cut is not None
    assert (report.cut.documents, report.cut.tokens) == (3_000, 3_000)
    assert 0 < len(some) < len(found)
    assert {*some} <= {*found}


# Vectors


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of model2vec that reads six tokens, of the first 6 x 18 characters."""
    entries = ENTRIES + tuple(f"aaaaaaaaaaaaaaaaa{letter}" for letter in "bcdefghijklmnop")
    library: Any = pytest.importorskip("model2vec", reason="the extra is not installed")
    folder = tmp_path_factory.mktemp("static") / "model"
    rows = np.random.default_rng(1).normal(size=(len(entries), 4)).astype(np.float32)
    library.StaticModel(rows, tokenizer(entries=entries), max_length=6).save_pretrained(folder)
    return folder


def test_embed(model: Path, here: Path, tmp_path: Path) -> None:
    """One line and a fact, the same after an interruption."""
    command = ("embed", here / "corpus.txt", "--model", model, "--shard-rows", "2")
    done = run(*command, "-o", tmp_path / "out")
    assert done.stderr.decode().count(NOTE) == 1
    assert b"UTF-8" not in done.stdout + done.stderr  # all texts are valid
    assert not any(told in done.stdout for told in (b"cut off", b"longer than"))  # told once
    (tmp_path / "out" / "shard-000001.parquet").unlink()
    (tmp_path / "out" / "_manifest.json").unlink()
    done = run(*command, "-o", tmp_path / "out", "--format", "json")
    report = json.loads(done.stdout)
    assert (report["resumed"], report["too_long"], report["tokens_cut"]) == (1, 2, 12)
    assert NOTE in report["notes"]
    short = embed([{"id": "1", "text": "use"}], model, tmp_path / "short")
    assert (short.counts.too_long, short.counts.tokens_cut) == (0, 0)
    assert not any("longer" in note for note in short.notes)


def test_index(model: Path, here: Path, tmp_path: Path) -> None:
    """The same line and figures; an update counts what it encodes."""
    command = ("index", here / "corpus.txt", "--model", model, "-o")
    done = run(*command, tmp_path / "one")
    assert done.stderr.decode().count(NOTE) == 1
    assert not any(told in done.stdout for told in (b"cut off", b"longer than"))  # told once
    done = run(*command, tmp_path / "two", "--format", "json")
    report = json.loads(done.stdout)
    assert (report["too_long"], report["tokens_cut"], NOTE in report["notes"]) == (2, 12, True)
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("i use i\n")
    index = Index.create(tmp_path / "three", model)
    assert index.load(corpus).too_long == 0
    corpus.write_text("i use i\nuse use use use use use use\n")
    changed = index.update()
    assert (changed.too_long, changed.tokens_cut, len(changed.notes)) == (1, 1, 1)
    # 27 tokens stand in the 108 characters that are read, 73 in the 292 others.
    corpus.write_text("use " * 100 + "\n")
    changed = index.update(force=True)
    assert (changed.too_long, changed.tokens_cut) == (1, 94)
    assert changed.notes[-1].endswith("the model reads: about 94 pieces are cut off")


@pytest.mark.parametrize("kind", ["model2vec", "sentence-transformers"])
def test_encoder(kind: str, model: Path, tmp_path: Path) -> None:
    """Vectors are the same, and the counts those of the tokenizer; a tokenizer cuts at words."""
    if kind == "model2vec":
        folder, words = model, tokenizer(special=False)
    else:
        pytest.importorskip("sentence_transformers", reason="the extra is not installed")
        from tests.builders.tiny_sentence_transformer import build

        folder = build(tmp_path / "model")
        (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 6}')
        words = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    encoder = open_encoder(folder)
    most = encoder.max_tokens
    assert most == (6 if kind == "model2vec" else 4)
    found = encoder.encode_counting([*TEXTS, ""])
    assert np.array_equal(found.vectors, encoder.encode([*TEXTS, ""]))
    lengths = [len(words.encode(text, add_special_tokens=False).ids) for text in TEXTS]
    cut = [length - most for length in lengths if length > most]
    assert found[1:] == (len(cut), sum(cut), 0)
