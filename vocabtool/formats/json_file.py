"""Parse JSON within memory bounds, convert it to arrays, and read vocabularies in JSON.

The text is UTF-8, with or without a byte order mark (RFC 8259). If a key repeats, its last value is
used, as in the libraries that define these formats. A file may be a single JSON string that
contains JSON: many people save the result of Keras' ``Tokenizer.to_json()`` that way. The formats:

- ``vocab.json``, an object that maps entries to ids: ``save_vocabulary`` in
  huggingface/transformers.
- ``added_tokens.json``, tokens that are not in ``vocab.json``, in the layout of ``vocab.json``.
- ``strings.json``, a list of texts: ``StringStore.to_disk`` in explosion/spaCy, spacy/strings.pyx.
  Ids are positions, because spaCy's ids are hashes, which are not stored.
- ``whitespacetokenizer_config.json``, the words of a model that averages word vectors:
  ``WhitespaceTokenizer`` in huggingface/sentence-transformers. Ids are positions.
- Scored pieces, a list of [piece, score]: tensorflow/tfjs-models,
  universal-sentence-encoder/src/tokenizer. Ids are positions. A score may be null.
- ``tekken.json`` (``Tekkenizer`` in mistralai/mistral-common, tokens/tokenizers/tekken.py):
  ``vocab`` lists tokens and their ranks, from 0. The model uses only the first
  ``default_vocab_size - default_num_special_tokens`` of these tokens. Special tokens get the lowest
  ids. The id of any other token is its rank plus ``default_num_special_tokens``. Up to version 7,
  ``special_tokens`` may be missing. In this case, :data:`IMPLIED` lists them. A special token
  without a name is named by its number, such as ``<SPECIAL_20>``.
- ``model.json`` of TensorFlow.js: tensorflow/tfjs, tfjs-converter/src/data/compiled_api.ts. The
  graph is a GraphDef in protobuf's JSON, with bytes in base64. The strings in constants and weights
  are read, but are not assigned to lookup tables.
- Weight files of TensorFlow.js, listed in groups (``weightsManifest``,
  tfjs-core/src/io/io_utils.ts). The files of a group, concatenated, contain the weights of the
  group in order. The length of each string is stored before the string, in four bytes.
"""

from __future__ import annotations

import binascii
import gc
import json
import math
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any, Final, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, UnsupportedFormat, reading
from vocabtool.formats import files, wire, word_list
from vocabtool.formats.reader import Finding, Findings, JsonReader, Source, constant
from vocabtool.formats.wire import MAX_ELEMENTS, MAX_RANK
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Place, Unknown, Vocabulary, encode, guess_marker, printable

TOO_LARGE: Final = "JSON of more than {:,} bytes: save the words as text instead, one per line"

# The lines of a word list may be "[PAD]" or "{", so the bytes after a bracket must be JSON too.
BEGINS: Final = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*(?:\{\s*"|\[\s*["\[{]|(?:\{\s*\}|\[\s*\])\s*\Z|"\s*\{(?:\s|\\[nrt])*\\")'
)

# The most bytes of memory for an object or list with one value, and for each further value.
CONTAINER_COST: Final = 200
VALUE_COST: Final = 100
# Memory per byte of text. Scored pieces of two characters need 36; a malicious "[],[]," 100.
MAX_GROWTH: Final = 40
MAX_MEMORY: Final = 1 << 29  # bytes; the largest known tokenizer needs half of it
FREE: Final = 1 << 20  # bytes of memory that are always allowed

MAX_ID: Final = (1 << 32) - 1  # the tokenizers library stores ids in 32 bits
MAX_OBJECTS: Final = 1 << 18  # Mistral's tekken.json has one for each of 131,072 tokens
MAX_ADDED: Final = 80_000  # added tokens; models of speech have one for each of 65,536 sounds
MAX_SHOWN: Final = 40  # characters of a value in a message

T = TypeVar("T")

_NAMES: Final[dict[type, str]] = {
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


def recognise(source: Source) -> str | None:
    """Return ``None`` if a file begins like a JSON object or list, otherwise the reason why not."""
    return None if BEGINS.match(source.head) else "does not begin like a JSON object or list"


def read(file: Path) -> Any:
    """Return the value of a JSON file. If the value is a string, the string is parsed as JSON."""
    document = parse(files.read_file(file, files.MAX_FILE, TOO_LARGE))
    return parse_text(document) if isinstance(document, str) else document


def parse(data: bytes) -> Any:
    """Return the value of a JSON text.

    Raises :class:`InvalidFile` if the text is not JSON in UTF-8, is nested too deeply, or would
    take more memory than ``MAX_MEMORY``, too much for its size (``MAX_GROWTH``), or has more than
    ``MAX_OBJECTS`` objects.
    """
    if data.count(b"{") > MAX_OBJECTS:  # braces in texts count, too
        what = f"this JSON is not a vocabulary: it has more than {MAX_OBJECTS:,} opening braces"
        raise InvalidFile(what)
    most = min(FREE + MAX_GROWTH * len(data), MAX_MEMORY)  # bytes of memory
    signs = len(data) - len(data.translate(None, b"{[,"))
    if signs * CONTAINER_COST > most:  # rare, and faster than counting each sign
        containers = data.count(b"{") + data.count(b"[")
        cost = containers * CONTAINER_COST + data.count(b",") * VALUE_COST
        if cost > most:
            what = f"{cost >> 20:,} MB of memory, which is {cost // len(data)} times its size"
            raise InvalidFile(f"this JSON is not a vocabulary: it needs about {what}")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        what = "JSON that is not UTF-8: save it as UTF-8"
        raise InvalidFile(what, offset=error.start) from error
    collects_garbage = gc.isenabled()
    gc.disable()  # JSON has no cycles; the garbage collector takes a third of the time
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        offset = len(data) - len(text[error.pos :].encode())
        hint = ""
        if error.msg == "Extra data":
            hint = ", more than one value: JSON Lines files contain documents, not a model"
        raise InvalidFile(f"not JSON: {error.msg}{hint}", offset=offset) from error
    except ValueError as error:  # a number of thousands of digits
        raise InvalidFile(f"invalid JSON: {error}") from error
    except RecursionError as error:
        raise InvalidFile("JSON that is nested too deeply") from error
    finally:
        if collects_garbage:
            gc.enable()


def parse_text(text: str) -> Any:
    """Return the value of a JSON text, which may have lone surrogates; see :func:`parse`."""
    return parse(text.encode("utf-8", "surrogatepass"))


def kind(value: object) -> str:
    """Return the name of a value's type for messages, such as ``an object``."""
    return _NAMES.get(type(value), type(value).__name__)


def expect(value: object, wanted: type[T], what: str) -> T:
    """Return ``value`` if its type is ``wanted``. ``what``: its name in the error."""
    if not isinstance(value, wanted):
        raise InvalidFile(f"{what} is {kind(value)}, wanted {_NAMES[wanted]}")
    return value


def show(text: str) -> str:
    """Return the beginning of a text, escaped for messages."""
    return printable(text[:MAX_SHOWN].encode("utf-8", "backslashreplace"))


def show_value(value: object) -> str:
    """Return a value for messages; of an object or list, which may be nested deeply, its kind."""
    return kind(value) if isinstance(value, dict | list) else show(str(value))


def show_some(texts: Collection[str]) -> str:
    return ", ".join(map(show, files.first_few(texts)))


def strings(values: Collection[Any], what: str) -> ByteStrings:
    """Encode texts with ``vocabulary.encode``. ``what``: the name of a text in the error."""
    try:
        return ByteStrings.of(map(encode, values))
    except (AttributeError, UnicodeEncodeError):
        for number, value in enumerate(values):
            try:
                encode(expect(value, str, f"{what} {number:,}"))
            except UnicodeEncodeError:
                half = "a lone surrogate is not a character"
                raise InvalidFile(f"{what} {number:,} is {show(value)!r}: {half}") from None
        raise


def parse_ids(vocabulary: Mapping[str, Any], what: str) -> NDArray[np.int64]:
    """Return the checked ids of an object: int64. ``what``: the name of an id in the error."""
    values = vocabulary.values()
    if set(map(type, values)) <= {int}:  # true and false are not ids
        with suppress(OverflowError):
            ids = np.fromiter(values, np.int64, len(vocabulary))
            if not len(ids) or (ids.min() >= 0 and ids.max() <= MAX_ID):
                return ids
    entry, value = next(pair for pair in vocabulary.items() if not is_id(pair[1]))
    got = f"{value:,}" if type(value) is int and abs(value) < 1 << 99 else kind(value)
    wanted = f"wanted a whole number from 0 to {MAX_ID:,}"
    raise InvalidFile(f"{what} of {show(entry)!r} is {got}, {wanted}")


def is_id(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value <= MAX_ID


# An object of ids.

MERGES: Final = "merges.txt"
ADDED: Final = "added_tokens.json"
MAX_SETTINGS: Final = 100
# A name of several words, typical of settings.
SETTING: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+|[a-z]+(?:[A-Z][a-z0-9]*)+")
MAX_SPREAD: Final = 2  # higher ids than this many times their number may be counts


def _why_no_ids(document: object) -> str | None:
    if not isinstance(document, dict):
        return f"{kind(document)}, wanted an object of entries and their ids"
    if not document:
        return "an empty object"
    try:
        ids = np.sort(parse_ids(document, "the id"))
    except InvalidFile as error:
        return error.what
    same = ids[1:][ids[1:] == ids[:-1]]
    if len(same):
        return f"two keys have the value {same[0]:,}: these are not ids"
    # Settings, such as {"model_max_length": 512}, are guessed by their names and distant values.
    if len(document) == 1:  # a plain name and not the id 0
        are_settings = bool(ids[0]) and all(map(str.isidentifier, document))
    else:
        names = sum(SETTING.fullmatch(key) is not None for key in document)
        apart = len(ids) < MAX_SETTINGS and int(ids[-1] - ids[0]) >= len(ids)
        are_settings = all(key.endswith("_token_id") for key in document) or (
            apart and 2 * names >= len(ids)
        )
    why = "its keys look like names of settings, so its values are not ids"
    return why if are_settings else None


def _read_ids(document: Any, source: Source) -> Findings:
    ids = parse_ids(document, "the id")
    entries = strings(document, "key")
    beside = source.file.parent
    notes, has_merges = [], False
    if source.file.name == ADDED:
        notes.append("tokens that were added to the vocabulary in the files beside it")
    else:
        has_merges = (beside / MERGES).is_file()
        if has_merges:
            notes.append(f"BPE with the merges in {MERGES}")
        if (beside / ADDED).is_file():
            notes.append(f"more tokens are in {ADDED}")
        if int(ids.max()) + 1 > MAX_SPREAD * len(ids):
            notes.append(f"{len(ids):,} ids up to {ids.max():,}: these may be word counts")
    vocabulary = Vocabulary.from_ids(
        source.name,
        "bpe" if has_merges else "table",
        entries,
        ids,
        places=(Place(source.name, "whole object"),),
        notes=tuple(notes),
        marker=guess_marker(entries),
    )
    return Findings([vocabulary])


IDS: Final = JsonReader("JSON object of ids (Hugging Face vocab.json)", _why_no_ids, _read_ids)


# The words of WordEmbeddings.

WHITESPACE_TOKENIZER: Final = "whitespacetokenizer_config.json"


def why_no_whitespace_tokenizer(document: object) -> str | None:
    if not isinstance(document, dict):
        return f"{kind(document)}, wanted an object"
    if not isinstance(document.get("do_lower_case"), bool):
        return "do_lower_case is not true or false"
    for key in ("vocab", "stop_words"):
        listed = document.get(key)
        if not isinstance(listed, list) or not all(isinstance(text, str) for text in listed):
            return f"{key} is not a list of texts"
    return None


def _read_whitespace_tokenizer(document: Any, source: Source) -> Findings:
    if "ngram_separator" in document:
        raise UnsupportedFormat(
            "a PhraseTokenizer of sentence-transformers, which splits texts with nltk, is not "
            "read; write its words in a text file, one on each line"
        )
    words, places = strings(document["vocab"], "vocab: word"), (Place(source.name, "vocab"),)
    notes = (f"{len(document['stop_words']):,} stop words; unknown words are left out of a text",)
    return Findings([Vocabulary(source.name, "table", words, places=places, notes=notes)])


WHITESPACE: Final = JsonReader(
    "WordEmbeddings of sentence-transformers",
    why_no_whitespace_tokenizer,
    _read_whitespace_tokenizer,
)


# Lists of texts, and of pieces and scores.

POSITIONS: Final = "ids are positions in the list (spaCy's own ids are hashes of the strings)"
UNKNOWNS: Final = ("\N{REPLACEMENT CHARACTER}".encode(), b"<unk>")


def why_no_texts(document: object) -> str | None:
    if not isinstance(document, list):
        return f"{kind(document)}, wanted a list of texts"
    if not document:
        return "an empty list"
    for number, value in enumerate(document):
        if not isinstance(value, str):
            return f"item {number:,} is {kind(value)}, wanted a text"
    return None


def _read_texts(document: Any, source: Source) -> Findings:
    place, stored = Place(source.name, "whole list"), strings(document, "text")
    return Findings([Vocabulary(source.name, "list", stored, places=(place,), notes=(POSITIONS,))])


TEXTS: Final = JsonReader("JSON list of texts (spaCy strings.json)", why_no_texts, _read_texts)


def _why_no_scores(document: object) -> str | None:
    if not isinstance(document, list):
        return f"{kind(document)}, wanted a list of pieces and scores"
    if not document:
        return "an empty list"
    for number, pair in enumerate(document):
        if not isinstance(pair, list) or len(pair) != 2:
            return f"item {number:,} is {kind(pair)}, wanted a piece and its score"
        if not isinstance(pair[0], str) or type(pair[1]) not in (int, float, type(None)):
            got = f"{kind(pair[0])} and {kind(pair[1])}"
            return f"item {number:,} is a list of {got}, wanted a text and a number"
    return None


def _read_pieces(document: Any, source: Source) -> Findings:
    stored = strings([piece for piece, _ in document], "piece")
    scores = sum(score is not None for _, score in document)
    vocabulary = Vocabulary(
        source.name,
        "unigram",
        stored,
        unknown=Unknown(0) if stored[0] in UNKNOWNS else None,
        places=(Place(source.name, "whole list"),),
        notes=(f"{scores:,} pieces have a score",),
        marker=guess_marker(stored),
    )
    return Findings([vocabulary])


PIECES: Final = JsonReader(
    "JSON list of pieces and scores (TensorFlow.js)", _why_no_scores, _read_pieces
)


# Mistral's tekken.json.

IMPLIED: Final = (
    *("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"),
    *("[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]"),
    *("[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"),
    "[TOOL_CONTENT]",
)
IMPLIED_UP_TO: Final = 7  # version of tekken.json


def _recognise_tekken(document: object) -> str | None:
    if not isinstance(document, dict):
        return f"{kind(document)}, wanted an object"
    config = document.get("config")
    if not isinstance(document.get("vocab"), list) or not isinstance(config, dict):
        return "it has no list vocab or no object config"
    return None if "default_vocab_size" in config else "its config has no default_vocab_size"


def _read_tekken(document: Any, source: Source) -> Findings:
    """Read special tokens, which get the lowest ids, and the tokens that the model uses."""
    config, listed = document["config"], document["vocab"]
    room = _count(config, "default_num_special_tokens", MAX_ADDED)
    size = _count(config, "default_vocab_size", room + len(listed))
    if size < room:
        what = f"default_vocab_size is {size:,}, wanted at least default_num_special_tokens"
        raise InvalidFile(f"{what}, which is {room:,}")
    version = show_value(config.get("version"))
    if document.get("special_tokens") is not None:
        stated = expect(document["special_tokens"], list, "special_tokens")
        special = _in_order(stated, "special_tokens", "token_str")
    else:
        digits = version.removeprefix("v")
        if digits.isdecimal() and (len(digits) > 4 or int(digits) > IMPLIED_UP_TO):
            raise InvalidFile(f"special_tokens is missing, but version {version} requires it")
        special = list(IMPLIED)
    if len(special) > room:
        what = f"{len(special):,} special tokens, wanted at most default_num_special_tokens"
        raise InvalidFile(f"{what}, which is {room:,}")
    fillers = (f"<SPECIAL_{number}>" for number in range(len(special), room))
    names = strings([*special, *fillers], "special token")
    if names.distinct < room:
        raise InvalidFile("two special tokens are the same")
    texts = _in_order(listed[: size - room], "vocab", "token_bytes")
    tokens = list(names)
    for number, text in enumerate(texts):
        try:
            tokens.append(binascii.a2b_base64(text, strict_mode=True))
        except ValueError as error:
            what = f"vocab: token_bytes of item {number:,} is {show(text)!r}"
            raise InvalidFile(f"{what}, wanted base64: {error}") from error
        if not text:
            raise InvalidFile(f"vocab: token_bytes of item {number:,} is empty, wanted base64")
    notes = [f"byte-level BPE of Mistral, version {version}"]
    if special:
        notes.append(f"special tokens, {len(special):,}: {show_some(special)}")
    if len(special) < room:
        notes.append(f"special tokens from id {len(special):,} to {room - 1:,} have no name")
    if len(listed) > len(texts):
        notes.append(f"the model uses the first {len(texts):,} of its {len(listed):,} tokens")
    ids = np.arange(size, dtype=np.int64)
    place = "special_tokens and vocab"
    return word_list.byte_tokens(source, ByteStrings.of(tokens), ids, place, *notes)


def _count(config: dict[str, Any], key: str, most: int) -> int:
    count = config.get(key)
    if is_id(count) and count <= most:
        return count
    got = f"{count:,}" if is_id(count) else kind(count)
    raise InvalidFile(f"config: {key} is {got}, wanted a whole number from 0 to {most:,}")


def _in_order(listed: list[Any], what: str, key: str) -> list[Any]:
    """Return the text under ``key`` of each item. The items must be in the order of their ranks."""
    for number, item in enumerate(listed):
        if not isinstance(item, dict) or not isinstance(item.get(key), str):
            raise InvalidFile(f"{what}: item {number:,}: {key} is missing or not a text")
        if item.get("rank") != number:
            rank = show_value(item.get("rank"))
            raise InvalidFile(f"{what}: item {number:,} has rank {rank!r}, wanted {number}")
    return [item[key] for item in listed]


TEKKEN: Final = JsonReader("Mistral tekken.json", _recognise_tekken, _read_tekken)


# TensorFlow.js.

MANIFEST: Final = "weightsManifest"
SIZES: Final[dict[str, int]] = {  # bytes of one number
    **dict.fromkeys(("uint8", "bool"), 1),
    **dict.fromkeys(("float16", "uint16"), 2),
    **dict.fromkeys(("float32", "int32"), 4),
    "complex64": 8,
}
LENGTH: Final = 4  # bytes before a string


def _why_no_tfjs(document: object) -> str | None:
    if not isinstance(document, dict):
        return f"{kind(document)}, wanted an object"
    if isinstance(document.get("modelTopology"), dict) or isinstance(document.get(MANIFEST), list):
        return None
    return f"neither modelTopology nor {MANIFEST} in it"


def _read_tfjs(document: Any, source: Source) -> Findings:
    findings = Findings()
    topology = document.get("modelTopology")
    nodes = topology.get("node") if isinstance(topology, dict) else None
    if isinstance(nodes, list):
        _read_constants(nodes, source, findings)
    manifest = document.get(MANIFEST)
    listed = [] if manifest is None else expect(manifest, list, MANIFEST)
    groups = [expect(group, dict, f"{MANIFEST}: an item") for group in listed]
    files_of_groups = [expect(group.get("paths"), list, f"{MANIFEST}: paths") for group in groups]
    if sum(map(len, files_of_groups)) > files.MAX_FILES:
        raise InvalidFile(f"{MANIFEST}: more than {files.MAX_FILES:,} files")
    for group, paths in zip(groups, files_of_groups, strict=True):
        weights = expect(group.get("weights"), list, f"{MANIFEST}: weights")
        parsed = list(map(_weight, weights))
        string_weights = [repr(show(name)) for name, dtype, _ in parsed if dtype == "string"]
        if string_weights:
            with findings.warning(f"weights {', '.join(files.first_few(string_weights))}"):
                findings.lists += _string_weights(parsed, paths, source)
    return findings


TENSORFLOW_JS: Final = JsonReader("TensorFlow.js model.json", _why_no_tfjs, _read_tfjs)


def _read_constants(nodes: list[Any], source: Source, findings: Findings) -> None:
    for node in nodes:
        try:
            name, encoded = node["name"], node["attr"]["value"]["tensor"]["stringVal"]
            where = f"modelTopology node {show(name)}"
        except (KeyError, TypeError):
            continue
        if not encoded:
            continue  # a constant of numbers
        try:
            texts = [binascii.a2b_base64(text, strict_mode=True) for text in encoded]
        except (TypeError, ValueError) as error:
            findings.warnings.append(f"{where}: wanted a list of base64 strings: {error}")
        else:
            place = Place(source.name, where)
            findings.lists.append(constant(show(name), ByteStrings.of(texts), place))


def _weight(value: object) -> tuple[str, str, int]:
    """Return the name, the stored dtype and the number of values of a weight."""
    fields = expect(value, dict, f"{MANIFEST}: an item")
    name, quantization = fields.get("name"), fields.get("quantization")
    stored = (quantization if isinstance(quantization, dict) else fields).get("dtype")
    shape = expect(fields.get("shape"), list, f"{MANIFEST}: shape")
    if not isinstance(name, str) or not isinstance(stored, str):
        raise InvalidFile(f"{MANIFEST}: a weight without a name or a dtype")
    is_shape = len(shape) <= MAX_RANK and all(type(n) is int and n >= 0 for n in shape)
    count = math.prod(shape) if is_shape else 0
    if not is_shape or count > MAX_ELEMENTS:
        raise InvalidFile(f"{MANIFEST}: weight {show(name)!r}: invalid shape")
    return name, stored, count


def _string_weights(
    weights: list[tuple[str, str, int]], paths: list[Any], source: Source
) -> Iterator[Finding]:
    """Yield the weights of a group that are strings. ``paths``: the files of the whole group."""
    if not paths:
        raise InvalidFile("a group of weights contains strings, but lists no files")
    file_names = [expect(path, str, f"{MANIFEST}: the name of a file") for path in paths]
    contents = []
    for file_name in file_names:
        with reading(show(file_name)):
            file = files.named_file(source.file.parent, file_name.encode("utf-8", "surrogatepass"))
        contents.append(files.read_linkless(file, show(file_name)))
    first_file = PurePosixPath(source.name).with_name(show(file_names[0]))
    values = wire.Cursor(b"".join(contents), 0, f"the files of a group ({MANIFEST})")
    for name, dtype, count in weights:
        if dtype == "string":
            if count * LENGTH > values.rest:
                what = f"{count:,} strings do not fit into the remaining {values.rest:,} bytes"
                raise InvalidFile(what, offset=values.position)
            place = Place(str(first_file), f"weight {show(name)}")
            yield constant(show(name), values.strings(count, "<I"), place)
        elif dtype in SIZES:
            values.name = f"weight {show(name)!r} in the files of its group"
            values.skip(count * SIZES[dtype])
        else:
            raise InvalidFile(f"weight {show(name)!r} has the unknown dtype {show(dtype)!r}")
