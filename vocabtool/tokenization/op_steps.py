"""What each op does to words, as steps: the ops that vocabtool understands, and no others.

Each handler gives the steps of one op and the input that the words come from. How the op was
reached is in ``recovery.py``, what stands around it in ``trail.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast, get_args

from vocabtool.errors import InvalidFile
from vocabtool.formats.saved_model import tensors
from vocabtool.formats.saved_model.graph import Node, Reference
from vocabtool.formats.saved_model.tensors import DT_INT8, DT_STRING, DT_UINT8
from vocabtool.tokenization.bert import read_bert_normalizer
from vocabtool.tokenization.graph_trace import (
    BRANCHES,
    LOOPS,
    SAME,
    Stop,
    takes_every_item,
    value,
)
from vocabtool.tokenization.ngrams import NGrams
from vocabtool.tokenization.normalizing import CaseFold, Form, NormalizeUtf8
from vocabtool.tokenization.op import Op
from vocabtool.tokenization.slices import takes_all, takes_the_row
from vocabtool.tokenization.strings import (
    Characters,
    DropEmpty,
    Join,
    Lower,
    RegexReplace,
    SplitAtAny,
    SplitOn,
    SplitWhitespace,
    Strip,
    Substr,
    Transcode,
    Unit,
    Upper,
    regex_fault,
)
from vocabtool.tokenization.text_arrays import Step
from vocabtool.tokenization.tokenizing import RegexSplit, ScriptSplit, WhitespaceSplit
from vocabtool.vocabulary import printable

MAX_WIDTH: Final = 1_000  # of n-grams
MAX_WIDTHS: Final = 100
MAX_JOINED: Final = 100

SCRIPT_TOKENIZER: Final = b"UnicodeScriptTokenizeWithOffsets"
CODE_POINT_TOKENIZERS: Final = frozenset((SCRIPT_TOKENIZER, b"WhitespaceTokenizeWithOffsets"))

Handled = tuple[tuple[Step, ...], Reference]


def step_of(op: Op) -> Handled:
    """The steps of an op, in order, and where their strings come from.

    Raises :class:`~vocabtool.tokenization.graph_trace.Stop` where it is not understood.
    """
    node = op.node
    if node.op in SAME:
        return (), node.data_input(op.here.reference.output if node.op == b"IdentityN" else 0)
    if node.op in BRANCHES | LOOPS:
        raise Stop(node.op, "what it gives depends on what it reads")
    handler = HANDLERS.get(node.op.removeprefix(b"TFText>"))
    if handler is None:
        raise Stop(node.op, "vocabtool does not know what it does to words")
    return handler(op)


def _case(make: Callable[[bool], Step]) -> Callable[[Op], Handled]:
    def handle(op: Op) -> Handled:
        encoding = op.node.bytes_of(b"encoding").lower()
        if encoding not in (b"", b"utf-8"):
            raise Stop(op.node.op, f"encoding {printable(encoding)}")
        return (make(encoding == b"utf-8"),), op.node.data_input(0)

    return handle


def _static_regex_replace(op: Op) -> Handled:
    pattern, rewrite = op.node.bytes_of(b"pattern"), op.node.bytes_of(b"rewrite")
    return _replacement(op, pattern, rewrite)


def _regex_replace(op: Op) -> Handled:
    return _replacement(op, op.text_constant(1), op.text_constant(2))


def _replacement(op: Op, pattern: bytes, rewrite: bytes) -> Handled:
    every = op.flag(b"replace_global", True)
    step = RegexReplace(op.pattern(pattern), op.pattern(rewrite), every)
    if fault := regex_fault(step.pattern, step.rewrite):
        raise Stop(op.node.op, fault)
    return (step,), op.node.data_input(0)


def _strip(op: Op) -> Handled:
    return (Strip(),), op.node.data_input(0)


def _split_v2(op: Op) -> Handled:
    op.only(b"values", 1)
    separator, most = op.text_constant(1), op.node.integer_of(b"maxsplit", -1)
    step = SplitOn(separator, most) if separator else SplitWhitespace(most)
    return (step,), op.node.data_input(0)


def _split_v1(op: Op) -> Handled:
    op.only(b"values", 1)
    step = SplitAtAny(op.text_constant(1), op.flag(b"skip_empty", True))
    return (step,), op.node.data_input(0)


def _join(op: Op) -> Handled:
    """Constants around one tensor; two tensors side by side are not understood."""
    separator = op.node.bytes_of(b"separator")
    if len(op.node.data_inputs) > MAX_JOINED:
        raise Stop(op.node.op, f"it joins more than {MAX_JOINED} strings")
    parts: list[bytes | None] = []
    text: Reference | None = None
    for position, reference in enumerate(op.node.data_inputs):
        found = op.told(position)
        if found is None and text is not None:
            raise Stop(op.node.op, "it joins two texts")
        text = reference if found is None else text
        parts.append(op.text_constant(position) if found is not None else None)
    if text is None:
        raise Stop(op.node.op, "its words are constants, not from a text")
    at = parts.index(None)
    before = b"".join(part + separator for part in parts[:at] if part is not None)
    after = b"".join(separator + part for part in parts[at + 1 :] if part is not None)
    return (Join(before, after),), text


def _substr(op: Op) -> Handled:
    unit = op.node.bytes_of(b"unit").decode("ascii", "replace") or "BYTE"
    start, length = op.constant(1), op.constant(2)
    if unit not in get_args(Unit) or isinstance(start, bytes) or isinstance(length, bytes):
        raise Stop(op.node.op, "parts of a string that are not told in numbers")
    if length < 0:
        raise Stop(op.node.op, "a negative length, of which TensorFlow's versions differ")
    return (Substr(start, length, cast(Unit, unit)),), op.node.data_input(0)


def _transcode(op: Op) -> Handled:
    if op.node.bytes_of(b"output_encoding").upper() not in (b"UTF-8", b"UTF8"):
        raise Stop(op.node.op, "it makes text that is not UTF-8")
    return (Transcode(op.decoding()),), op.node.data_input(0)


def _encode(op: Op) -> Handled:
    """Code points back to strings: of a character each, of a text each, or of a word each."""
    if op.node.bytes_of(b"output_encoding").upper() not in (b"UTF-8", b"UTF8"):
        raise Stop(op.node.op, "it makes text that is not UTF-8")
    made_by = op.behind(op.node.data_input(0))
    if made_by is not None and made_by.op in CODE_POINT_TOKENIZERS:
        return _code_point_words(op, made_by)
    decoder, apart = op.decoder(op.node.data_input(0))
    decoding = decoder.decoding()
    step: Step = Characters(decoding) if apart else Transcode(decoding)
    if not apart and not op.rows_of(decoder.node):
        raise Stop(op.node.op, "rows of code points that are not those of the texts")
    return (step,), decoder.node.data_input(0)


def _code_point_words(op: Op, tokenizer: Node) -> Handled:
    """Words as code points, which UnicodeEncode makes strings of."""
    decoder, apart = op.decoder(tokenizer.data_input(0))
    if apart or not op.rows_of(tokenizer):
        raise Stop(tokenizer.op, "rows of code points that are not those of its words")
    step: Step = WhitespaceSplit()
    if tokenizer.op == SCRIPT_TOKENIZER:
        step = ScriptSplit(bool(tokenizer.integer_of(b"keep_whitespace")))
    return (Transcode(decoder.decoding()), step), decoder.node.data_input(0)


def _ngrams(op: Op) -> Handled:
    op.only(b"ngrams", 0)
    node = op.node
    step = NGrams(
        separator=node.bytes_of(b"separator"),
        widths=node.integers_of(b"ngram_widths"),
        left_pad=node.bytes_of(b"left_pad"),
        right_pad=node.bytes_of(b"right_pad"),
        pad_width=node.integer_of(b"pad_width"),
        preserve_short=op.flag(b"preserve_short_sequences", False),
    )
    if len(step.widths) > MAX_WIDTHS or any(not 0 < w <= MAX_WIDTH for w in step.widths):
        raise Stop(node.op, f"n-grams of more than {MAX_WIDTH:,} words, or {MAX_WIDTHS} widths")
    return (step,), node.data_input(0)


def _normalize(op: Op) -> Handled:
    op.only(b"output", 0)
    form = op.node.bytes_of(b"normalization_form").decode("ascii", "replace").upper() or "NFKC"
    if form not in get_args(Form):
        raise Stop(op.node.op, f"normalization form {form!r}")
    return (NormalizeUtf8(cast(Form, form)),), op.node.data_input(0)


def _case_fold(op: Op) -> Handled:
    return (CaseFold(),), op.node.data_input(0)


def _bert_normalize(op: Op) -> Handled:
    op.only(b"output_values", 0)
    tensor = op.tensor(1)
    if tensor is None or tensor.dtype not in (DT_UINT8, DT_INT8):
        raise Stop(op.node.op, "its model is not a constant")
    try:
        step = read_bert_normalizer(tensors.raw_bytes(tensor))
    except InvalidFile as error:
        raise Stop(op.node.op, f"its model is damaged: {error}") from error
    return (step,), op.node.data_input(0)


def _regex_split(op: Op) -> Handled:
    op.only(b"tokens", 0)
    delimiter, keep = op.pattern(op.text_constant(1)), op.pattern(op.text_constant(2))
    return (RegexSplit(delimiter, keep),), op.node.data_input(0)


def _whitespace_split(op: Op) -> Handled:
    op.only(b"output_tokens", 0)
    return (WhitespaceSplit(version=2),), op.node.data_input(0)


def _padded(op: Op) -> Handled:
    """Rows of words filled up with empty strings; a fixed length would cut words off."""
    shape = op.tensor(0)
    if shape is None or bool((tensors.integers(shape) >= 0).any()):
        raise Stop(op.node.op, "it may cut off words")
    if op.constant(2) != b"":
        raise Stop(op.node.op, "padding that is not empty")
    return (DropEmpty(),), op.node.data_input(1)


def _from_sparse(op: Op) -> Handled:
    if op.constant(3) != b"":
        raise Stop(op.node.op, "padding that is not empty")
    return (DropEmpty(),), op.node.data_input(2)


def _gather_nd(op: Op) -> Handled:
    """What feature columns do: ``GatherNd(texts, Where(NotEqual(texts, "")))``."""
    body, texts = op.here.body, op.node.data_input(0)
    where = body.node(op.node.data_input(1).name)
    test = body.node(where.data_input(0).name) if where and where.op == b"Where" else None
    if test is None or test.op != b"NotEqual" or test.data_input(0) != texts:
        raise Stop(op.node.op, "which texts it takes is not known")
    if value(op.linker, op.here.input(test, 1)) != b"":
        raise Stop(op.node.op, "it leaves out other texts than empty ones")
    return (DropEmpty(),), texts


def _strided_slice(op: Op) -> Handled:
    """A slice that takes all: one that adds an axis, or the one row of a text cut by itself."""
    node = op.node
    if takes_all(op) or takes_the_row(op):
        return (), node.data_input(0)
    raise Stop(node.op, "it may take a part of the words only")


def _pack(op: Op) -> Handled:
    if len(op.node.data_inputs) != 1:
        raise Stop(op.node.op, "it puts several texts side by side")
    return (), op.node.data_input(0)


def _ngrams_join(op: Op) -> Handled:
    """tensorflow-text's n-grams of one width, joined along the last axis."""
    node = op.node
    if node.integer_of(b"axis", -1) != -1:
        raise Stop(node.op, "it joins words of different texts")
    width = node.integer_of(b"width")
    if not 0 < width <= MAX_WIDTH:
        raise Stop(node.op, f"n-grams of more than {MAX_WIDTH:,} words")
    step = NGrams(node.bytes_of(b"string_separator"), (width,))
    return (step,), node.data_input(0)


def _item(op: Op) -> Handled:
    if not takes_every_item(op.linker, op.here.body, op.node):
        raise Stop(op.node.op, "it may take some of the texts only")
    return (), op.node.data_input(0)


def _listed(op: Op) -> Handled:
    return (), op.node.data_input(0)


def _from_constant(op: Op) -> Handled:
    tensor = op.node.tensor_of(b"value")
    what = "words" if tensor is not None and tensor.dtype == DT_STRING else "numbers"
    raise Stop(op.node.op, f"its {what} are constants, not from a text")


HANDLERS: Final[dict[bytes, Callable[[Op], Handled]]] = {
    b"StringLower": _case(Lower),
    b"StringUpper": _case(Upper),
    b"StaticRegexReplace": _static_regex_replace,
    b"RegexReplace": _regex_replace,
    b"StringStrip": _strip,
    b"StringSplitV2": _split_v2,
    b"StringSplit": _split_v1,
    b"StringJoin": _join,
    b"Substr": _substr,
    b"UnicodeTranscode": _transcode,
    b"UnicodeEncode": _encode,
    b"StringNGrams": _ngrams,
    b"NormalizeUTF8": _normalize,
    b"CaseFoldUTF8": _case_fold,
    b"FastBertNormalize": _bert_normalize,
    b"RegexSplitWithOffsets": _regex_split,
    b"WhitespaceTokenizeWithOffsetsV2": _whitespace_split,
    b"RaggedTensorToTensor": _padded,
    b"SparseToDense": _from_sparse,
    b"GatherNd": _gather_nd,
    b"StridedSlice": _strided_slice,
    b"Pack": _pack,
    b"TensorListGetItem": _item,
    b"TensorListFromTensor": _listed,
    b"NgramsStringJoin": _ngrams_join,
    b"Const": _from_constant,
}
