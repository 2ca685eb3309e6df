"""All formats, in the order in which their readers are tried. The first that matches is used.

Formats are detected by content, never by file name. Graphs come first, then formats with magic
bytes, then JSON, then text. Word lists come last because nearly any text could be one. No code of a
model runs.

In a folder without a SavedModel, every recognised top-level file is read. A plain text file is read
only if its name is ``vocab*.txt``, ``words*.txt``, ``tokens*.txt``, ``dict*.txt`` or ``*.vocab``. A
``.vocab`` file is not read if there is a ``.model`` file of the same name. Pickles, weights and
subfolders are skipped. Links are followed only in a Hugging Face cache (``../../blobs/<name>``).

The last part finds the kind of encoder that a file or folder contains.
"""

from __future__ import annotations

import codecs
import os
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, NoReturn

from vocabtool.choices import MODEL_FORMS, EncoderKind
from vocabtool.errors import (
    NotFound,
    UnknownFormat,
    UnsupportedFormat,
    VocabtoolError,
    reading,
    refuse_pointer,
)
from vocabtool.formats import (
    binary_vectors,
    encoder_files,
    files,
    gguf,
    hf_tokenizer,
    json_file,
    keras,
    onnx,
    sentencepiece,
    tflite,
    tokenizer_folder,
    vocabulary_files,
    word_list,
    word_vectors,
)
from vocabtool.formats.binary_vectors import FASTTEXT, NUMPY, WORD2VEC
from vocabtool.formats.encoder_files import ALL_WEIGHTS, MODEL_FILES
from vocabtool.formats.files import MAX_FILES, leads_away
from vocabtool.formats.reader import HEAD, Finding, Findings, PassedOver, Reader, Source
from vocabtool.formats.saved_model import graph_files
from vocabtool.formats.saved_model.graph_files import GRAPH_FILE, OTHER_GRAPH
from vocabtool.vocabulary import Place, Vocabulary, printable

WORD_LISTS: Final = re.compile(
    r"(vocab|words|tokens|dict).*\.txt|.*\.vocab|.*vocab\.ya?ml", re.IGNORECASE
)
WEIGHTS: Final = re.compile(
    r".*\.(safetensors|h5|hdf5|msgpack|pt|pth|ckpt|npz|npy)|(pytorch|tf|flax)_model.*",
    re.IGNORECASE,
)
MAX_COUNT: Final = 9  # digits


# Readers of one JSON format each.
def _read_json(source: Source) -> Findings:
    document = json_file.read(source.file)
    reasons = []
    for reader in (
        hf_tokenizer.READER,
        json_file.TENSORFLOW_JS,
        keras.TOKENIZER,
        json_file.TEKKEN,
        json_file.IDS,
        json_file.WHITESPACE,
        json_file.PIECES,
        json_file.TEXTS,
    ):
        reason = reader.recognise(document)
        if reason is None:
            return replace(reader.read(document, source), format=reader.format)
        reasons.append(f"{reader.format}: {reason}")
    raise UnknownFormat(f"{source.name}: JSON in a format that vocabtool does not read", reasons)


JSON: Final = Reader("JSON", json_file.recognise, _read_json)

# Names of columns of a CSV file.
WORD_COLUMN: Final = rb"\"?(?:token|word|piece|subword|entry|term)s?\"?"
NUMBER_COLUMN: Final = (
    rb"\"?(?:[a-z_]{1,20}_)?(?:id|index|idx|rank|count|freq|frequency|score)s?\"?"
)

# Files that contain no words, or that only a program of another library reads: how they begin, and
# what is said of them. A pickle is a program, which would run when it is loaded.
REFUSALS: Final = (
    (
        re.compile(rb"(?s:.{4})\0{4}\{[\"}]"),
        "a safetensors file, which contains numbers but no words; pass the tokenizer's file beside "
        "it (tokenizer.json, vocab.txt, tokenizer.model), or the folder",
    ),
    (
        re.compile(
            rb"\x80[\x02-\x05]|\((?:[ld]|V[^\n]*\n)p[01]\n|c[\w.]+\n\w+\n(?:p[01]\n|\((?!\n))"
            rb"|(?s:PK\x03\x04.*?\.pkl)|(?s:\x93NUMPY.{0,4000})\|O'"
        ),
        "a pickle (of Python, PyTorch, gensim, scikit-learn or NumPy), which is a program: it is "
        "not run; pass the tokenizer's files beside it, or load it where you trust it and write "
        "its words in a text file, one on each line",
    ),
    (
        re.compile(rb"\x93NUMPY|(?s:PK\x03\x04.{26})[^/]{1,200}?\.npy"),
        "NumPy arrays other than words with their vectors: save these together with "
        "`numpy.savez(FILE, words=words, vectors=vectors)`",
    ),
    (
        re.compile(rb"\x89HDF\r\n\x1a\n"),
        "an HDF5 file, which is not read: load the Keras model, and save it with "
        '`model.save("model.keras")` or `model.export(FOLDER)`',
    ),
    (
        re.compile(rb"PAR1\x15"),  # the first field of any page header or footer
        "a Parquet file that was not written by vocabtool: write its words in a text file, one on "
        "each line",
    ),
    (
        re.compile(rb"(?:[0-9]{1,10} b?(?:'.*'|\".*\") [0-9]{1,9}\r?\n){3}"),
        "an RWKV vocabulary, which is not read: load it with the rwkv package, and write each "
        "token in base64, a space and its id on one line",
    ),
    (
        re.compile(rb'(?s:\s*\{.{0,60000}?"bpe_ranks")'),
        "tiktoken ranks in JSON (claude.json), which are not read: load them with tiktoken, and "
        "write each token in base64, a space and its rank on one line",
    ),
    (
        re.compile(rb"### SubwordTextEncoder|'<pad>_?'\r?\n'<EOS>_?'\r?\n"),
        "a list of subwords of TensorFlow Datasets or Tensor2Tensor (SubwordTextEncoder), which is "
        "not read: load it there, and write its subwords in a text file, one on each line",
    ),
    (
        re.compile(
            rb"(?i)(?:\xef\xbb\xbf)?(?:[^\n]{0,80}[,;\t])?%b[,;\t]%b[,;\t\r\n]"
            rb"|(?:\xef\xbb\xbf)?%b[,;\t]%b[,;\t\r\n]"
            rb"|(?:(?:\"(?:[^\"\n]|\"\")*\"|(?![0-9.]+[,;])[^\s,;\"]+)[,;][0-9]{1,18}\r?\n){3}"
            % (WORD_COLUMN, NUMBER_COLUMN, NUMBER_COLUMN, WORD_COLUMN)
        ),
        "a table of words and numbers (CSV), which is not read: write its words in a text file, "
        "one on each line, in the order of their ids",
    ),
    (
        re.compile(rb"(?s:.{0,2000}?)(?<![^\n])\\data\\[ \t]*\r?\nngram +1 *="),
        "an n-gram language model (ARPA), which is not read: write the words of its 1-grams in a "
        "text file, one on each line",
    ),
    (re.compile(rb"(?:[0-9]+ ){6}\S+ \S+\r?\n"), binary_vectors.FLORET),
)
HUNSPELL: Final = (
    "a Hunspell dictionary (.dic), whose words have forms that only the .aff file beside it "
    "describes: write all forms in a text file, one on each line (`unmunch FILE.dic FILE.aff`)"
)


def refusal(source: Source) -> str | None:
    """Return what is said of a file that is refused by name, otherwise ``None``."""
    # A Hunspell dictionary begins with the number of its words; some of them have flags.
    first, _, head = source.head.removeprefix(codecs.BOM_UTF8).partition(b"\n")
    number = first.strip()
    if number.isdigit() and len(number) <= MAX_COUNT and re.search(rb"\S/\S", head) is not None:
        lines = (head.count(b"\n") + 1) * max(1, source.size / HEAD)
        if 0.5 < int(number) / lines < 2:
            return HUNSPELL
    return next((why for begin, why in REFUSALS if begin.match(source.head)), None)


def _refuse(source: Source) -> NoReturn:
    raise UnsupportedFormat(str(refusal(source)))


REFUSED: Final = Reader(
    "refused file",
    lambda source: None if refusal(source) else "not a pickle, array, HDF5 file or other list",
    _refuse,
)


# The readers of all formats except TensorFlow graphs, in the order of the attempts.
READERS: Final = (
    gguf.READER,
    keras.ARCHIVE,
    binary_vectors.NUMPY,
    vocabulary_files.READER,
    REFUSED,
    tflite.READER,
    binary_vectors.FASTTEXT,
    sentencepiece.READER,
    onnx.READER,
    binary_vectors.WORD2VEC,
    JSON,
    word_vectors.READER,
    word_list.RANKS,
    word_list.READER,
)


def find(source: Source) -> Reader:
    in_order = (GRAPH_FILE, *READERS, OTHER_GRAPH)
    return next(reader for reader in in_order if reader.recognise(source) is None)


def read(path: Path) -> tuple[Path, Findings]:
    """Read a file, or a folder without a SavedModel, at the path that ``path_of`` returns."""
    source = Source.open(encoder_files.path_of(path))
    if source.file.is_dir():
        return source.file, _read_folder(source.file)
    reader = find(source)
    try:
        result = reader.read(source)
    except UnknownFormat as error:
        if reader is GRAPH_FILE:
            raise
        answers = ((other.format, other.recognise(source)) for other in READERS)
        reasons = (f"{format_}: {reason}" for format_, reason in answers if reason is not None)
        raise UnknownFormat(error.what, (*error.tried, *reasons)) from error
    return source.file, replace(result, format=result.format or reader.format)


def has_graphs(model: str | Path) -> bool:
    with reading(str(model)):
        path = encoder_files.path_of(model)
        if path.is_dir():
            return files.graphs_file_in(path) is not None
        return find(Source.open(path)) in (GRAPH_FILE, OTHER_GRAPH)


def _read_folder(folder: Path) -> Findings:
    """Read every recognised file of a folder; the vocabulary of its tokenizer comes first."""
    pipeline = binary_vectors.read_spacy(folder)
    if pipeline is not None:
        return pipeline
    words = encoder_files.find_word_embeddings(folder)
    if words is not None and words.parent != folder:
        source = replace(Source.open(words), name=f"{words.parent.name}/{words.name}")
        return JSON.read(source)
    paths = sorted(folder.iterdir())
    if len(paths) > MAX_FILES:
        raise UnsupportedFormat(f"a folder of more than {MAX_FILES:,} files; pass a single file")
    findings, formats, tokenizer = Findings(), dict[str, None](), None
    try:
        tokenizer = tokenizer_folder.read(folder)
    except tokenizer_folder.UnknownIds as error:
        findings.warnings.append(str(error))
    except VocabtoolError:
        pass  # each file is read all the same, and `words` says what is wrong
    if tokenizer is not None:
        findings.main = tokenizer.file
    for path in paths:
        if path.name.startswith(".") or WEIGHTS.fullmatch(path.name) or not path.is_file():
            continue
        name = printable(os.fsencode(path.name))
        try:
            with reading(name):
                result = _read_in_folder(path)
        except UnknownFormat as error:  # other JSON, for example settings or a weights index
            findings.lists.append(PassedOver(name, 0, Place(name, "whole file"), error.what))
            continue
        except VocabtoolError as error:
            if name == findings.main:
                raise  # the entries of another file would be those of another tokenizer
            findings.warnings.append(str(error))
            continue
        if result.format is None:
            continue
        formats[result.format] = None
        findings.warnings += (f"{name}: {warning}" for warning in result.warnings)
        if tokenizer is not None and path.name == tokenizer.file:
            result.lists = [
                tokenizer.correct(finding) if isinstance(finding, Vocabulary) else finding
                for finding in result.lists
            ]
        findings.lists += result.lists
    if not formats:
        skipped = (finding for finding in findings.lists if isinstance(finding, PassedOver))
        reasons = [*findings.warnings, *(f"{finding.name}: {finding.why}" for finding in skipped)]
        raise graph_files.no_model_in(folder, tuple(reasons))
    findings.lists = _name_by_file(findings.lists)
    findings.format = f"folder: {', '.join(formats)}"
    return findings


def _name_by_file(lists: list[Finding]) -> list[Finding]:
    """Put the file before each name that vocabularies of several files have."""
    files_of: dict[str, set[str]] = {}
    for finding in lists:
        if isinstance(finding, Vocabulary):
            files_of.setdefault(finding.name, set()).add(finding.places[0].file)
    return [
        replace(finding, name=f"{finding.places[0].file}/{finding.name}")
        if isinstance(finding, Vocabulary) and len(files_of[finding.name]) > 1
        else finding
        for finding in lists
    ]


def _read_in_folder(path: Path) -> Findings:
    """Read one file of a folder. The result has no format if the file is silently skipped."""
    if leads_away(path):
        raise UnknownFormat("symbolic links are not followed")
    source = Source.open(path)
    refuse_pointer(source.head)
    reader = next((reader for reader in READERS if reader.recognise(source) is None), None)
    if reader is REFUSED:
        raise UnknownFormat(str(refusal(source)))
    # SentencePiece writes its pieces to a .model, and again with scores to a .vocab
    scored = path.suffix == ".vocab" and path.with_suffix(".model").is_file()
    is_list = WORD_LISTS.fullmatch(path.name) is not None and not scored
    if reader is None or (reader is word_list.READER and not is_list):
        return Findings()
    result = reader.read(source)
    return replace(result, format=result.format or reader.format)


def encoder_kind(model: str | Path) -> EncoderKind:
    """Return the kind of an encoder by its content, or by its form if it is a Hub handle."""
    if isinstance(model, str) and files.HANDLE.match(model):
        return "tensorflow"
    path = Path(model)
    if path.is_file():
        return _encoder_kind_of_file(path)
    if not path.is_dir():
        raise NotFound(f"{model}: no such file or folder. If this is a name, {MODEL_FORMS}")
    if files.graphs_file_in(path) is not None:
        return "tensorflow"
    try:
        encoder_files.find_static(path)
    except UnknownFormat as error:
        no_embedding = f"model2vec: {error.what}"
    else:
        return "model2vec"
    has_modules = any((path / name).is_file() for name in MODEL_FILES)
    if has_modules and any((path / name).is_file() for name in ALL_WEIGHTS):
        return "sentence-transformers"
    try:
        encoder_files.find_onnx(path)
    except UnknownFormat as error:
        no_graph = f"onnx: {error.what}"
    else:
        return "onnx"
    if has_modules:
        return "sentence-transformers"
    raise UnknownFormat(
        f"{path}: not the folder of an embedding model. {MODEL_FORMS[0].upper()}{MODEL_FORMS[1:]}",
        (
            f"tensorflow: the folder contains none of {', '.join(files.SAVED_MODELS)}",
            f"sentence-transformers: the folder contains neither {' nor '.join(MODEL_FILES)}",
            no_embedding,
            no_graph,
        ),
    )


def _encoder_kind_of_file(file: Path) -> EncoderKind:
    """Return the kind of a model in one file. Raises :class:`UnknownFormat` for other files."""
    vector_readers = (NUMPY, word_vectors.READER, WORD2VEC, FASTTEXT)
    with reading(str(file)):
        source = Source.open(file)
        if source.head.startswith(files.NUMPY_MAGIC):
            return "static"  # if the file with its words is missing, opening raises an error
        if encoder_files.is_safetensors(source.head):
            return "model2vec"
        if refusal(source) is None and word_vectors.READER.recognise(source) is None:
            return "static"  # the usual text: no reader of another format is asked
        reader = find(source)
        if reader in vector_readers:
            return "static"
        if reader is GRAPH_FILE:
            return "tensorflow"
        if reader is onnx.READER:
            encoder_files.find_onnx(file)  # raises an error if this is no encoder
            return "onnx"
    tried = tuple(f"{reader.format}: {reader.recognise(source)}" for reader in vector_readers)
    if reader is not OTHER_GRAPH:
        form = reader.format
        if reader is JSON:
            with suppress(VocabtoolError):
                form = read(file)[1].format or form
        what = (
            f"its format is {form}, which has no vectors. Train word vectors on your texts "
            "(vocabtool train FILE... -o words.npz), or pass this file as the --vocabulary of "
            "your own vectors, of python:... or of openai:..."
        )
        raise UnknownFormat(f"{file}: neither word vectors nor a graph; {what}", tried)
    try:
        graph_files.open_graphs(file)
    except UnknownFormat as error:
        raise UnknownFormat(error.what, (*error.tried, *tried)) from error
    return "tensorflow"
