"""What each op does to words, as steps: the ops that vocabtool understands, and no others.

Each handler gives the steps of one op and the input that the words come from. What cannot be told
for sure ends the way. How the op was reached is in ``infer_rule.py``, what stands around it in
``graph_trace.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, cast, get_args

from vocabtool.errors import InvalidFile
from vocabtool.formats.saved_model import tensors
from vocabtool.formats.saved_model.graph import Body, Node, Reference
from vocabtool.formats.saved_model.tensors import DT_INT8, DT_STRING, DT_UINT8, Tensor
from vocabtool.tokenization.graph_trace import (
    BRANCHES,
    LOOPS,
    MAX_OPS,
    SAME,
    NotUnderstood,
    TracePoint,
    takes_every_item,
)
from vocabtool.tokenization.string_steps import (
    Characters,
    Decoder,
    DropEmpty,
    Errors,
    Join,
    Lower,
    NGrams,
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
from vocabtool.tokenization.text_steps import (
    BertNormalize,
    CaseFold,
    Form,
    NormalizeUtf8,
    RegexSplit,
    ScriptSplit,
    WhitespaceSplit,
)
from vocabtool.vocabulary import printable

MAX_NGRAM: Final = 1_000  # words of an n-gram
MAX_NGRAM_WIDTHS: Final = 100
MAX_JOINED: Final = 100  # inputs of a StringJoin
UTF8: Final = (b"UTF-8", b"UTF8")

DECODES: Final = frozenset((b"UnicodeDecode", b"UnicodeDecodeWithOffsets"))
SCRIPT_TOKENIZER: Final = b"UnicodeScriptTokenizeWithOffsets"
CODE_POINT_TOKENIZERS: Final = frozenset((SCRIPT_TOKENIZER, b"WhitespaceTokenizeWithOffsets"))
SPLITS: Final = frozenset((b"StringSplitV2", b"StringSplit"))
# What picks the bounds of a row, and what TensorFlow computes row splits of rows with.
PICKS: Final = frozenset(
    (b"Const", b"Identity", b"Cast", b"Reshape", b"Pack", b"ConcatV2", b"StridedSlice")
)
ROW_SPLITS: Final = PICKS | frozenset(
    (
        *(b"Bincount", b"DenseBincount", b"Size", b"Shape", b"Prod", b"Max"),
        *(b"Maximum", b"Minimum", b"Mul", b"AddV2", b"Greater"),
    )
)
SUMS: Final = frozenset((b"Cumsum",))

StepsOfOp = tuple[tuple[Step, ...], Reference]
"""The steps of an op, in order, and where their strings come from."""


class OpOnWay(NamedTuple):
    """One op on the way: its attributes and inputs, asked for with care."""

    here: TracePoint
    node: Node

    def refuse(self, why: str) -> NotUnderstood:
        """The way is not understood because of this op."""
        return NotUnderstood(self.node.op, why)

    def from_input(self, position: int, *steps: Step) -> StepsOfOp:
        """These steps, on an input of the op."""
        return steps, self.node.data_input(position)

    def only(self, part: bytes, output: int) -> None:
        """Refuse an op that the way leads over by another output."""
        reference = self.here.reference
        if not (reference.part == part if reference.part else reference.output == output):
            raise self.refuse("another output of it than the words")

    def scalar(self, position: int) -> bytes | int | None:
        """An input that is a constant of one string or integer, whoever calls."""
        return self.here.input(self.node, position).scalar()

    def tensor(self, position: int) -> Tensor | None:
        """An input that is a constant."""
        return self.here.input(self.node, position).constant()

    def constant(self, position: int) -> bytes | int:
        """An input that must be a constant of one string or integer."""
        found = self.scalar(position)
        if found is None:
            raise self.refuse("an input that decides what it does is not a constant")
        return found

    def text_constant(self, position: int) -> bytes:
        found = self.constant(position)
        if not isinstance(found, bytes):
            raise self.refuse("wanted a constant string")
        return found

    def pattern(self, text: bytes) -> str:
        try:
            return text.decode()
        except UnicodeDecodeError:
            raise self.refuse("a pattern that is not UTF-8") from None

    def flag(self, key: bytes, default: bool) -> bool:
        return bool(self.node.integer_of(key, int(default)))

    def read_decoding(self) -> Decoder:
        """How the op reads UTF-8."""
        node = self.node
        encoding = node.bytes_of(b"input_encoding")
        if encoding.upper() not in UTF8:
            raise self.refuse(f"its texts are {printable(encoding)}, not UTF-8")
        errors = node.bytes_of(b"errors").decode("ascii", "replace") or "replace"
        if errors not in get_args(Errors):
            raise self.refuse(f"errors={errors!r}")
        replacement = node.integer_of(b"replacement_char", 0xFFFD)
        if not 0 <= replacement <= 0x10FFFF:
            raise self.refuse(f"a replacement character {replacement}")
        controls = self.flag(b"replace_control_characters", False)
        return Decoder(cast(Errors, errors), replacement, controls)

    def only_utf8_out(self) -> None:
        if self.node.bytes_of(b"output_encoding").upper() not in UTF8:
            raise self.refuse("it makes text that is not UTF-8")

    def maker_of(self, reference: Reference) -> Node | None:
        """The node that makes a tensor, apart from changes of its shape."""
        node = self.here.body.node(reference.name)
        for _ in range(MAX_OPS):
            if node is None or node.op not in SAME:
                break
            node = self.here.body.node(node.data_input(0).name)
        return node

    def has_rows_of(self, node: Node) -> bool:
        """Whether the op's second input, where rows begin, is an output of ``node``."""
        maker = self.maker_of(self.node.data_input(1))
        return maker is not None and maker.name == node.name

    def decoder(self, reference: Reference) -> tuple[OpOnWay, bool]:
        """The op that made code points of a text; whether each stands in a row of its own."""
        apart = False
        for _ in range(MAX_OPS):
            node = self.here.body.node(reference.name)
            if node is None or (node.op not in DECODES and node.op not in SAME):
                break
            if node.op in DECODES:
                return self._replace(node=node), apart
            apart = apart or node.op == b"ExpandDims"
            reference = node.data_input(0)
        raise self.refuse("code points that are not those of a text")


def steps_of(op: OpOnWay) -> StepsOfOp:
    """The steps of an op. Raises :class:`NotUnderstood` where it is not understood."""
    node = op.node
    if node.op in SAME:
        return op.from_input(op.here.reference.output if node.op == b"IdentityN" else 0)
    if node.op in BRANCHES | LOOPS:
        raise op.refuse("what it gives depends on what it reads")
    handler = HANDLERS.get(node.op.removeprefix(b"TFText>"))
    if handler is None:
        raise op.refuse("vocabtool does not know what it does to words")
    return handler(op)


def _case(make: Callable[[bool], Step]) -> Callable[[OpOnWay], StepsOfOp]:
    def handle(op: OpOnWay) -> StepsOfOp:
        encoding = op.node.bytes_of(b"encoding").lower()
        if encoding not in (b"", b"utf-8"):
            raise op.refuse(f"encoding {printable(encoding)}")
        return op.from_input(0, make(encoding == b"utf-8"))

    return handle


def _static_regex_replace(op: OpOnWay) -> StepsOfOp:
    pattern, rewrite = op.node.bytes_of(b"pattern"), op.node.bytes_of(b"rewrite")
    return _replacement(op, pattern, rewrite)


def _regex_replace(op: OpOnWay) -> StepsOfOp:
    return _replacement(op, op.text_constant(1), op.text_constant(2))


def _replacement(op: OpOnWay, pattern: bytes, rewrite: bytes) -> StepsOfOp:
    every = op.flag(b"replace_global", True)
    step = RegexReplace(op.pattern(pattern), op.pattern(rewrite), every)
    if fault := regex_fault(step.pattern, step.rewrite):
        raise op.refuse(fault)
    return op.from_input(0, step)


def _split_v2(op: OpOnWay) -> StepsOfOp:
    op.only(b"values", 1)
    separator, most = op.text_constant(1), op.node.integer_of(b"maxsplit", -1)
    step = SplitOn(separator, most) if separator else SplitWhitespace(most)
    return op.from_input(0, step)


def _split_v1(op: OpOnWay) -> StepsOfOp:
    op.only(b"values", 1)
    step = SplitAtAny(op.text_constant(1), op.flag(b"skip_empty", True))
    return op.from_input(0, step)


def _join(op: OpOnWay) -> StepsOfOp:
    """Constants around one tensor; two tensors side by side are not understood."""
    separator = op.node.bytes_of(b"separator")
    if len(op.node.data_inputs) > MAX_JOINED:
        raise op.refuse(f"it joins more than {MAX_JOINED} strings")
    parts: list[bytes | None] = []
    text: Reference | None = None
    for position, reference in enumerate(op.node.data_inputs):
        found = op.scalar(position)
        if found is None and text is not None:
            raise op.refuse("it joins two texts")
        text = reference if found is None else text
        parts.append(op.text_constant(position) if found is not None else None)
    if text is None:
        raise op.refuse("its words are constants, not from a text")
    at = parts.index(None)
    before = b"".join(part + separator for part in parts[:at] if part is not None)
    after = b"".join(separator + part for part in parts[at + 1 :] if part is not None)
    return (Join(before, after),), text


def _substr(op: OpOnWay) -> StepsOfOp:
    unit = op.node.bytes_of(b"unit").decode("ascii", "replace") or "BYTE"
    start, length = op.constant(1), op.constant(2)
    if unit not in get_args(Unit) or isinstance(start, bytes) or isinstance(length, bytes):
        raise op.refuse("parts of a string that are not told in numbers")
    if length < 0:
        raise op.refuse("a negative length, of which TensorFlow's versions differ")
    return op.from_input(0, Substr(start, length, cast(Unit, unit)))


def _transcode(op: OpOnWay) -> StepsOfOp:
    op.only_utf8_out()
    return op.from_input(0, Transcode(op.read_decoding()))


def _encode(op: OpOnWay) -> StepsOfOp:
    """Code points back to strings: of a character each, of a text each, or of a word each."""
    op.only_utf8_out()
    made_by = op.maker_of(op.node.data_input(0))
    if made_by is not None and made_by.op in CODE_POINT_TOKENIZERS:
        return _code_point_words(op, made_by)
    decoder, apart = op.decoder(op.node.data_input(0))
    decoding = decoder.read_decoding()
    step: Step = Characters(decoding) if apart else Transcode(decoding)
    if not apart and not op.has_rows_of(decoder.node):
        raise op.refuse("rows of code points that are not those of the texts")
    return (step,), decoder.node.data_input(0)


def _code_point_words(op: OpOnWay, tokenizer: Node) -> StepsOfOp:
    """Words as code points, which UnicodeEncode makes strings of."""
    decoder, apart = op.decoder(tokenizer.data_input(0))
    if apart or not op.has_rows_of(tokenizer):
        raise NotUnderstood(tokenizer.op, "rows of code points that are not those of its words")
    step: Step = WhitespaceSplit()
    if tokenizer.op == SCRIPT_TOKENIZER:
        step = ScriptSplit(bool(tokenizer.integer_of(b"keep_whitespace")))
    return (Transcode(decoder.read_decoding()), step), decoder.node.data_input(0)


def _ngrams(op: OpOnWay) -> StepsOfOp:
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
    if len(step.widths) > MAX_NGRAM_WIDTHS or any(not 0 < w <= MAX_NGRAM for w in step.widths):
        raise op.refuse(f"n-grams of more than {MAX_NGRAM:,} words, or {MAX_NGRAM_WIDTHS} widths")
    return op.from_input(0, step)


def _normalize(op: OpOnWay) -> StepsOfOp:
    op.only(b"output", 0)
    form = op.node.bytes_of(b"normalization_form").decode("ascii", "replace").upper() or "NFKC"
    if form not in get_args(Form):
        raise op.refuse(f"normalization form {form!r}")
    return op.from_input(0, NormalizeUtf8(cast(Form, form)))


def _bert_normalize(op: OpOnWay) -> StepsOfOp:
    op.only(b"output_values", 0)
    tensor = op.tensor(1)
    if tensor is None or tensor.dtype not in (DT_UINT8, DT_INT8):
        raise op.refuse("its model is not a constant")
    try:
        step = BertNormalize.read(tensors.raw_bytes(tensor))
    except InvalidFile as error:
        raise op.refuse(f"its model is damaged: {error}") from error
    return op.from_input(0, step)


def _regex_split(op: OpOnWay) -> StepsOfOp:
    op.only(b"tokens", 0)
    delimiter, keep = op.pattern(op.text_constant(1)), op.pattern(op.text_constant(2))
    return op.from_input(0, RegexSplit(delimiter, keep))


def _whitespace_split(op: OpOnWay) -> StepsOfOp:
    op.only(b"output_tokens", 0)
    return op.from_input(0, WhitespaceSplit(version=2))


def _remove_padding(op: OpOnWay) -> StepsOfOp:
    """Rows of words filled up with empty strings; a fixed length would cut words off."""
    shape = op.tensor(0)
    if shape is None or bool((tensors.integers(shape) >= 0).any()):
        raise op.refuse("it may cut off words")
    if op.constant(2) != b"":
        raise op.refuse("padding that is not empty")
    return op.from_input(1, DropEmpty())


def _sparse_to_dense(op: OpOnWay) -> StepsOfOp:
    if op.constant(3) != b"":
        raise op.refuse("padding that is not empty")
    return op.from_input(2, DropEmpty())


def _gather_nd(op: OpOnWay) -> StepsOfOp:
    """What feature columns do: ``GatherNd(texts, Where(NotEqual(texts, "")))``."""
    body, texts = op.here.body, op.node.data_input(0)
    where = body.node(op.node.data_input(1).name)
    test = body.node(where.data_input(0).name) if where and where.op == b"Where" else None
    if test is None or test.op != b"NotEqual" or test.data_input(0) != texts:
        raise op.refuse("which texts it takes is not known")
    if op.here.input(test, 1).scalar() != b"":
        raise op.refuse("it leaves out other texts than empty ones")
    return (DropEmpty(),), texts


def _strided_slice(op: OpOnWay) -> StepsOfOp:
    """A slice that takes all: one that adds an axis, or the one row of a text cut by itself."""
    if _takes_all(op) or _takes_the_row(op):
        return op.from_input(0)
    raise op.refuse("it may take a part of the words only")


def _takes_all(op: OpOnWay) -> bool:
    tensor = op.tensor(3)
    if tensor is None:
        return False
    masks = [op.node.integer_of(key) for key in (b"begin_mask", b"end_mask", b"new_axis_mask")]
    begins, ends, axes = masks
    if op.node.integer_of(b"shrink_axis_mask") or op.node.integer_of(b"ellipsis_mask"):
        return False
    return all(
        axes >> i & 1 or (begins >> i & 1 and ends >> i & 1 and stride == 1)
        for i, stride in enumerate(tensors.integers(tensor).tolist())
    )


def _takes_the_row(op: OpOnWay) -> bool:
    """``tf.strings.split(text)`` of one text: row 0 of ragged words of which there is one row."""
    split = op.maker_of(op.node.data_input(0))
    if split is None or split.op not in SPLITS:
        return False
    text = op.here.body.node(split.data_input(0).name)
    if text is None or text.op != b"Pack" or len(text.data_inputs) != 1:
        return False
    bounds = [op.node.data_input(1), op.node.data_input(2)]
    return all(_is_row_bound(op.here.body, bound, split.name) for bound in bounds)


def _is_row_bound(body: Body, bound: Reference, split: bytes) -> bool:
    """Whether a number is made of the rows of ``split`` as TensorFlow computes row splits."""
    waiting, seen, rows = [(bound, PICKS | SUMS)], set[bytes](), False
    while waiting and len(seen) < MAX_OPS:
        reference, ops = waiting.pop()
        node = body.node(reference.name)
        if node is None or reference.name in seen:
            continue
        if node.name == split:
            if reference.part == b"values" or reference.output == 1 or ops != ROW_SPLITS:
                return False
            rows = True
            continue
        if node.op not in ops:
            return False
        seen.add(node.name)
        # Arithmetic belongs to the row splits: behind them it would take a part of the row.
        further = ROW_SPLITS if node.op in SUMS else ops
        waiting += [(source, further) for source in node.data_inputs]
    return rows and not waiting


def _pack(op: OpOnWay) -> StepsOfOp:
    if len(op.node.data_inputs) != 1:
        raise op.refuse("it puts several texts side by side")
    return op.from_input(0)


def _ngrams_join(op: OpOnWay) -> StepsOfOp:
    """tensorflow-text's n-grams of one width, joined along the last axis."""
    node = op.node
    if node.integer_of(b"axis", -1) != -1:
        raise op.refuse("it joins words of different texts")
    width = node.integer_of(b"width")
    if not 0 < width <= MAX_NGRAM:
        raise op.refuse(f"n-grams of more than {MAX_NGRAM:,} words")
    step = NGrams(node.bytes_of(b"string_separator"), (width,))
    return op.from_input(0, step)


def _list_item(op: OpOnWay) -> StepsOfOp:
    if not takes_every_item(op.here.linker, op.here.body, op.node):
        raise op.refuse("it may take some of the texts only")
    return op.from_input(0)


def _refuse_constant(op: OpOnWay) -> StepsOfOp:
    tensor = op.node.tensor_of(b"value")
    what = "words" if tensor is not None and tensor.dtype == DT_STRING else "numbers"
    raise op.refuse(f"its {what} are constants, not from a text")


HANDLERS: Final[dict[bytes, Callable[[OpOnWay], StepsOfOp]]] = {
    b"StringLower": _case(Lower),
    b"StringUpper": _case(Upper),
    b"StaticRegexReplace": _static_regex_replace,
    b"RegexReplace": _regex_replace,
    b"StringStrip": lambda op: op.from_input(0, Strip()),
    b"StringSplitV2": _split_v2,
    b"StringSplit": _split_v1,
    b"StringJoin": _join,
    b"Substr": _substr,
    b"UnicodeTranscode": _transcode,
    b"UnicodeEncode": _encode,
    b"StringNGrams": _ngrams,
    b"NormalizeUTF8": _normalize,
    b"CaseFoldUTF8": lambda op: op.from_input(0, CaseFold()),
    b"FastBertNormalize": _bert_normalize,
    b"RegexSplitWithOffsets": _regex_split,
    b"WhitespaceTokenizeWithOffsetsV2": _whitespace_split,
    b"RaggedTensorToTensor": _remove_padding,
    b"SparseToDense": _sparse_to_dense,
    b"GatherNd": _gather_nd,
    b"StridedSlice": _strided_slice,
    b"Pack": _pack,
    b"TensorListGetItem": _list_item,
    b"TensorListFromTensor": lambda op: op.from_input(0),
    b"NgramsStringJoin": _ngrams_join,
    b"Const": _refuse_constant,
}
