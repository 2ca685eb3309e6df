"""Words in pieces: counts against the ``tokenizers`` library and a Counter, and every output."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.builders.word_piece import tokenizer_of
from tests.cli.running import on_terminal, run
from tests.html_page import Page
from vocabtool import OovCounter, OovReport, Words

tokenizers = pytest.importorskip("tokenizers", reason="the oracle")

WHOLE = ("[UNK]", "the", "cat", "in", "is", "of", "install", "lin", "##al", "##g", "num", "##py")
LETTERS = "abcdef0123456789"
HASH = hashlib.sha1(b"a text").hexdigest()
TEXTS = (
    "Install NumPy in the cat",
    "linalg is in numpy, the numpy",
    f"the {HASH} of 2023",
    "日 the cat of the cat",
    "",
)
NAMES = [*("word", "pieces", "count", "documents", "cost", "known", "kind", "parts", "example")]
NUMPY = "num ##py"
SHA = " ".join([HASH[0], *(f"##{c}" for c in HASH[1:])])
ROWS = [
    ("2023", 4, 1, 1, 3, True, "number", "2 ##0 ##2 ##3", TEXTS[2]),
    ("numpy", 2, 3, 2, 3, True, "code", NUMPY, TEXTS[0]),
    ("linalg", 3, 1, 1, 2, True, "other", "lin ##al ##g", TEXTS[1]),
    (HASH, 40, 1, 1, 39, True, "random", SHA, TEXTS[2]),
    (",", 1, 1, 1, 0, False, "symbol", "[UNK]", TEXTS[1]),
    ("日", 1, 1, 1, 0, False, "script", "[UNK]", TEXTS[3]),
]


def tokenizer() -> Any:
    return tokenizer_of([*WHOLE, *LETTERS, *(f"##{letter}" for letter in LETTERS)])


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``bert.json``, ``bpe.json``, a ``list.txt``, and ``corpus.txt``."""
    folder = tmp_path_factory.mktemp("here")
    tokenizer().save(str(folder / "bert.json"))
    byte_level = tokenizers.ByteLevelBPETokenizer()
    byte_level.train_from_iterator(TEXTS * 9, 300, show_progress=False)
    byte_level.save(str(folder / "bpe.json"))
    (folder / "list.txt").write_text("the\ncat\n")
    (folder / "corpus.txt").write_text("\n".join(TEXTS) + "\n")
    return folder


def reported(words: Words, texts: tuple[str, ...]) -> OovReport:
    counter = OovCounter(words)
    counter.count([pa.array(texts, pa.string())])
    return counter.report()


# Counts


def oracle(made: Any, texts: tuple[str, ...]) -> tuple[Counter[str], Counter[str], dict[str, int]]:
    """Counts, documents and pieces of all words, from the library alone."""
    counts: Counter[str] = Counter()
    documents: Counter[str] = Counter()
    pieces: dict[str, int] = {}
    for text in texts:
        shown = text if made.normalizer is None else made.normalizer.normalize_str(text)
        found = [word for word, _ in made.pre_tokenizer.pre_tokenize_str(shown)]
        counts.update(found)
        documents.update(set(found))
        for word in {*found} - pieces.keys():
            pieces[word] = len(made.model.tokenize(word))
    return counts, documents, pieces


def test_counts_are_those_of_the_library(here: Path) -> None:
    """Of every split word, by descending cost; random strings come after the others."""
    made, texts = tokenizer(), TEXTS
    report = reported(Words.of(here / "bert.json"), texts)
    counts, documents, pieces = oracle(made, texts)
    split = report.split
    assert split is not None
    found = split.words(0, split.listed + split.random)
    assert {w.word: (w.count, w.documents, w.pieces) for w in found} == {
        word: (counts[word], documents[word], pieces[word]) for word in counts if pieces[word] > 1
    }
    assert split.listed + split.random == sum(number > 1 for number in pieces.values())
    total = counts.total()
    assert report.tokens == total
    assert report.fertility == pytest.approx(sum(counts[w] * pieces[w] for w in counts) / total)
    every = sum(len(made.encode(text, add_special_tokens=False).ids) for text in texts)
    assert sum(language.pieces for language in split.languages) == every
    assert sum(language.tokens for language in split.languages) == total
    assert sum(language.documents for language in split.languages) == len(texts)
    for least in (2, 3, 4):
        some = sum(counts[word] for word in counts if pieces[word] >= least)
        assert report.split_rate(least) == some / total
    texts_split3 = sum(any(pieces[w] > 2 for w in oracle(made, (t,))[0]) for t in texts)
    assert split.documents_split3 == texts_split3
    for word in found[:10_000]:
        assert [*word.parts] == [piece.value for piece in made.model.tokenize(word.word)]
    names = [word.word for word in split.words()]
    assert names == ["2023", "numpy", "linalg", HASH, ",", "日"]
    assert (split.listed, split.random) == (3, 1)
    assert split.kinds == (
        ("random", 1, 1, 40),
        ("code", 1, 3, 6),
        ("number", 1, 1, 4),
        ("other", 1, 1, 3),
    )


# Languages

LANGUAGES = {
    "English": "The cat is in the house and it is not for sale.",
    "Polish": "Kot nie jest na sprzedaż, ale do domu wchodzi przez okno.",
    "German": "Die Katze ist nicht im Haus und das Haus ist von der Stadt.",
    "French": "Le chat est dans la maison et il ne sort pas de la rue.",
    "Spanish": "El gato está en la casa y no sale por la puerta de los vecinos.",
    "Cyrillic": "Кошка в доме, и она не выходит на улицу. The end.",
    "Greek": "ἡ γάτα είναι στο σπίτι",
    "Chinese characters": "猫在房子里",
    "Hangul": "고양이는 집에 있다",
    "Katakana": "\uff88\uff7a",  # halfwidth letters are of the same script
    "Latin, language not recognised": "do os no os: no do, no os as alpha",  # not Portuguese
    "no letters": "1 2 3 !",
}


@pytest.mark.parametrize(("name", "text"), LANGUAGES.items())
@pytest.mark.parametrize("file", ["bert.json", "bpe.json"])
def test_languages(name: str, text: str, file: str, here: Path) -> None:
    """By script, and by common words if the script is Latin; also without accents and case."""
    words = Words.of(here / file)
    split = reported(words, (text, text.upper(), *LANGUAGES.values())).split
    assert split is not None
    found = {each.name: each.documents for each in split.languages}
    assert found == dict.fromkeys(LANGUAGES, 1) | {name: 3}
    assert split.languages[0].name == name


# Outputs


def test_csv_and_parquet(here: Path, tmp_path: Path) -> None:
    """A row for each split word in order, then random strings, then unknown words."""
    for form in ("csv", "parquet"):
        done = run("oov", "bert.json", "corpus.txt", "-o", tmp_path / f"x.{form}", cwd=here)
        assert done.returncode == 0, done.stderr
    table = pq.read_table(tmp_path / "x.parquet").drop(["bytes"])
    assert table.column_names == NAMES
    assert [tuple(row.values()) for row in table.to_pylist()] == ROWS
    text = (tmp_path / "x.csv").read_bytes().decode()
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [tuple(row[name] for name in NAMES) for row in rows] == [
        tuple(str(int(cell) if isinstance(cell, bool) else cell) for cell in row) for row in ROWS
    ]
    shown = run("oov", "bert.json", "corpus.txt", cwd=here).stdout.decode()
    kept = [name for name in NAMES if name != "known"]
    cells = [[str(c) for name, c in zip(NAMES, row, strict=True) if name in kept] for row in ROWS]
    assert shown == "".join("\t".join(row) + "\n" for row in [kept, *cells])


def test_json_and_page(here: Path, tmp_path: Path) -> None:
    """The same words, and every figure; the page says what JSON says."""
    done = run(
        *("oov", "bert.json", "corpus.txt", "--format", "json", "--html", tmp_path / "x.html"),
        cwd=here,
    )
    found = json.loads(done.stdout)
    rows = [dict(zip(NAMES, row, strict=True)) for row in ROWS[:4]]
    rows = [row | {"parts": str(row["parts"]).split()} for row in rows]
    assert found["split_words"] == rows[:3]
    assert found["random_words"] == rows[3:]
    assert (found["split_words_listed"], found["split_words_in_all"]) == (3, 4)
    split = found["split"]
    assert split["rates"] == pytest.approx({"2": 3 / 22, "3": 1 / 22, "4+": 2 / 22, "3+": 3 / 22})
    assert found["tokens"]["all"] == 22
    assert split["documents_split3"] == 2
    assert [kind["kind"] for kind in split["kinds"]] == ["random", "code", "number", "other"]
    page = Page((tmp_path / "x.html").read_text())
    assert found["pieces"] == {"per_token": 69 / 22, "histogram": found["pieces"]["histogram"]}
    for row in rows:
        assert row["word"] in page.text


def test_a_terminal(here: Path) -> None:
    """Words with what they are split into, and the figures."""
    shown = on_terminal(here, "oov", "bert.json", "corpus.txt")
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert "2023 1 1 4 3 2 ##0 ##2 ##3 …82859c844baa14ef of 2023" in lines
    at = lines.index("pieces per token 3.14")
    assert lines[at + 1] == "distinct words that are split 33.33%"
    assert lines[at + 6] == "documents with a word of 3+ pieces 50.00%"


def test_whole_words_have_no_split_words(here: Path) -> None:
    """Their report is as before."""
    words = Words.of(here / "list.txt", rule="whitespace")
    report = reported(words, TEXTS)
    assert (report.split, report.fertility, report.split_rate()) == (None, 1, 0)
    assert words.split_words("numpy numpy") == []


def test_words_of_one_text(here: Path) -> None:
    """In order, with repeats; from three pieces if not said otherwise."""
    words = Words.of(here / "bert.json")
    text = "NumPy 2023, the linalg 2023"
    assert words.split_words(text) == ["2023", "linalg", "2023"]
    assert words.split_words(text.encode(), pieces=2) == ["numpy", "2023", "linalg", "2023"]
    assert words.split_words(text, pieces=4) == ["2023", "2023"]


# Options


@pytest.mark.parametrize(
    ("limits", "code", "told"),
    [
        (["split3=13%"], 1, "above the limit of 13.00% (--fail-over split3)"),
        (["fertility=3.1"], 1, "above the limit of 3.1 (--fail-over fertility)"),
        (["fertility=3.14"], 0, ""),
        (["unknown=1%"], 1, "above the limit of 1.00% (--fail-over)"),
        (["50%", "split3=50%", "fertility=2"], 1, "(--fail-over fertility)"),
        (["split3=2"], 2, "a share such as 2% or 0.02, got '2'"),
        (["fertility=0.9"], 2, "expected 1 or more pieces per token, such as 1.6, got '0.9'"),
        (["split4=2%"], 2, "unknown, split3, fertility, cut before '=', got 'split4'"),
    ],
)
def test_fail_over(limits: list[str], code: int, told: str, here: Path) -> None:
    """Exit code 1 above a limit, with the figure; 2 for what is no limit."""
    options = [f"--fail-over={limit}" for limit in limits]
    done = run("oov", "bert.json", "corpus.txt", *options, cwd=here)
    assert (done.returncode, told in done.stderr.decode()) == (code, True)
    if code < 2:
        assert b"3.14 pieces per token; 13.64% of tokens in 3 or more pieces" in done.stderr


def test_whole_words_refuse_limits_of_pieces(here: Path) -> None:
    """The message names the model."""
    options = ("--rule", "lower", "--fail-over=fertility=1.6")
    done = run("oov", "list.txt", "corpus.txt", *options, cwd=here)
    assert (done.returncode, b"list.txt knows whole words" in done.stderr) == (2, True)


def test_pieces_of_a_text(here: Path) -> None:
    """The command marks unknown pieces, and JSON gives their positions."""
    arguments = ("words", "bert.json", "Numpy, 日 of")
    done = run(*arguments, cwd=here)
    assert (done.returncode, done.stderr) == (0, b"")
    lines = [line.split("\t") for line in done.stdout.decode().splitlines()[-4:]]
    assert [(line[2], line[3]) for line in lines] == [
        *(("split in 2", "num ##py"), ("unknown", "[UNK](unknown)")),
        *(("unknown", "[UNK](unknown)"), ("known", "of")),
    ]
    found = json.loads(run(*arguments, "--format", "json", cwd=here).stdout)
    words = found["texts"][0]["words"]
    assert [word["unknown_pieces"] for word in words] == [[], [0], [0], []]
