"""Trace a tensor of a graph back, and translate ops into steps that split texts into words.

A value is a constant only if no other value is possible. A loop is followed only if it runs over
all texts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, cast, get_args

from vocabtool.errors import InvalidFile
from vocabtool.formats.saved_model import tensors
from vocabtool.formats.saved_model.graph import Body, Node, Reference
from vocabtool.formats.saved_model.linker import Linker
from vocabtool.formats.saved_model.tensors import DT_INT8, DT_STRING, DT_UINT8, INTEGERS, Tensor
from vocabtool.tokenization.steps import (
    BertNormalize,
    CaseFold,
    Characters,
    Decoder,
    DropEmpty,
    Errors,
    Form,
    Join,
    Lower,
    NGrams,
    NormalizeUtf8,
    RegexReplace,
    RegexSplit,
    ScriptSplit,
    SplitAtAny,
    SplitOn,
    SplitWhitespace,
    Strip,
    Substr,
    Transcode,
    Unit,
    Upper,
    WhitespaceSplit,
    regex_fault,
)
from vocabtool.tokenization.text_arrays import Step
from vocabtool.vocabulary import printable

MAX_OPS: Final = 500  # most ops to follow on one path

# Ops that change only the shape.
SAME: Final = frozenset(
    (
        *(b"Identity", b"IdentityN", b"Reshape", b"ExpandDims", b"Squeeze", b"StopGradient"),
        *(b"Snapshot", b"PreventGradient", b"EnsureShape", b"PlaceholderWithDefault"),
    )
)
BRANCHES: Final = frozenset((b"If", b"StatelessIf"))
LOOPS: Final = frozenset((b"While", b"StatelessWhile"))
ADDITIONS: Final = frozenset((b"Add", b"AddV2"))
COUNTING: Final = frozenset((b"Less", b"LogicalAnd", b"Identity"))

Calls = tuple[tuple[Body, Node], ...]


class Unclear(NamedTuple):
    op: str
    why: str


class NotUnderstood(Exception):
    """A tensor cannot be traced back, because an op is not supported."""

    def __init__(self, op: bytes, why: str) -> None:
        self.unclear = Unclear(printable(op), why)


class TracePoint(NamedTuple):
    """A tensor of a graph, and the function calls that lead to it.

    - ``body``: The graph or function that contains the tensor.
    - ``calls``: The calls that lead into ``body``, the outermost first.
    """

    linker: Linker
    body: Body
    reference: Reference
    calls: Calls = ()

    @property
    def node(self) -> Node | None:
        """The node that makes the tensor; ``None`` for an argument of the function."""
        return self.body.node(self.reference.name)

    def input(self, node: Node, position: int) -> TracePoint:
        return self._replace(reference=node.data_input(position))

    def inside(self, node: Node) -> TracePoint | None:
        """Follow this tensor back into the function that computes it.

        ``node``: The node that makes the tensor. If ``node`` calls a function, the tensor is one of
        the function's results, and this result is returned. Otherwise returns ``None``.
        """
        called = self.linker.graph.functions.get(function_of(node))
        if called is None:
            return None
        if self.reference.output >= len(called.returns):
            raise NotUnderstood(node.op, "it has no such output")
        returned = called.returns[self.reference.output]
        return TracePoint(self.linker, called, returned, (*self.calls, (self.body, node)))

    def callers(self) -> list[tuple[Body, Node]]:
        """Return the calls that may supply the value of this function argument.

        If the attribute ``calls`` is not empty, its last call is the only result.
        """
        if self.reference.name not in self.body.arguments:
            raise NotUnderstood(b"", "no op produces this tensor")
        return [self.calls[-1]] if self.calls else self.linker.callers(self.body.name)

    def outside(self, caller: Body, node: Node) -> TracePoint:
        """Follow this tensor, an argument of a function, to a call of the function.

        ``node``: The call, an op in ``caller``. Returns the input of ``node`` that becomes the
        argument.
        """
        body = self.body
        from_end = len(body.arguments) - body.arguments.index(self.reference.name)
        if from_end > len(node.data_inputs):
            raise NotUnderstood(node.op, "it passes too few arguments to its function")
        if node.op in LOOPS:
            at = len(body.returns) - from_end
            if at < 0 or _behind_copies(body, body.returns[at]) != body.arguments[-from_end]:
                raise NotUnderstood(node.op, "the loop changes the text in each iteration")
        elif node.op not in BRANCHES and function_of(node) != body.name:
            raise NotUnderstood(
                node.op, "vocabtool does not know how this op passes arguments to a function"
            )
        return TracePoint(self.linker, caller, node.data_inputs[-from_end], self.calls[:-1])

    def constant(self) -> Tensor | None:
        """Return the tensor's value if it is the same constant for all callers, else ``None``."""
        found: dict[bytes, Tensor] = {}  # by the bytes of the value
        waiting, seen = [self], 0
        while waiting:
            here = waiting.pop()
            seen += 1
            node = here.node
            if seen > MAX_OPS:
                return None
            if node is None:
                waiting += [here.outside(*call) for call in here.callers()]
                if not waiting and not found:  # no callers: may be a captured constant
                    origin = here.linker.origin(here.body, here.reference)
                    node = origin.node if origin is not None else None
                    return node.tensor_of(b"value") if node and node.op == b"Const" else None
                continue
            inside = here.inside(node)
            if inside is not None:
                waiting.append(inside)
            elif node.op in SAME:
                waiting.append(here.input(node, 0))
            elif node.op == b"Const" and (tensor := node.tensor_of(b"value")) is not None:
                found.setdefault(bytes(tensor.buffer[slice(*tensor.span)]), tensor)
            else:
                return None
        return next(iter(found.values())) if len(found) == 1 else None

    def scalar(self) -> bytes | int | None:
        """Return the value if the tensor is one constant string or integer, else ``None``."""
        tensor = self.constant()
        if tensor is None or tensor.elements != 1:
            return None
        if tensor.dtype == DT_STRING:
            return tensors.strings(tensor)[0]
        return int(tensors.integers(tensor)[0]) if tensor.dtype in INTEGERS else None

    def is_size_of(self, tensor: TracePoint) -> bool:
        number = self
        for _ in range(MAX_OPS):
            node = number.node
            if node is None:
                return False
            if node.op in (b"Size", b"Shape"):
                sized, rows = number.input(node, 0).behind_reshapes(), tensor.behind_reshapes()
                return (sized.body.name, sized.reference) == (rows.body.name, rows.reference)
            if node.op == b"StridedSlice" and number.input(node, 1).scalar() != 0:
                return False
            if node.op not in (b"StridedSlice", b"Cast", b"Identity"):
                return False
            number = number.input(node, 0)
        return False

    def behind_reshapes(self) -> TracePoint:
        point = self
        for _ in range(MAX_OPS):
            node = point.node
            if node is None or node.op not in SAME:
                break
            point = point.input(node, 0)
        return point


def function_of(node: Node) -> bytes:
    """Return the function that a ``PartitionedCall`` calls. For other nodes, return the op."""
    return node.function() if node.op.endswith(b"PartitionedCall") else node.op


def takes_every_item(linker: Linker, body: Body, item: Node) -> bool:
    """Return whether a loop such as ``tf.map_fn`` reads each row of a tensor once, in order.

    ``item``: The ``TensorListGetItem`` that reads a row.
    """
    loops = linker.callers(body.name)
    return bool(loops) and all(
        loop.op in LOOPS and _Loop(linker, body, caller, loop).runs_over(item)
        for caller, loop in loops
    )


class _Loop(NamedTuple):
    linker: Linker
    body: Body
    caller: Body
    node: Node

    def runs_over(self, item: Node) -> bool:
        listed, index = (_argument_at(self.body, item.data_input(i)) for i in (0, 1))
        if listed is None or index is None or not self._counts(index):
            return False
        made = self.caller.node(self.node.data_input(listed).name)
        if made is None or made.op != b"TensorListFromTensor":
            return False
        rows = TracePoint(self.linker, self.caller, made.data_input(0))
        names = list(self.node.functions_of(b"cond"))
        test = self.linker.graph.functions.get(names[0]) if names else None
        if test is None or any(node.op not in COUNTING for node in test):
            return False
        comparisons = [node for node in test if node.op == b"Less"]
        for node in comparisons:
            counter, bound = (_argument_at(test, node.data_input(i)) for i in (0, 1))
            if counter is None or bound is None or not self._counts(counter):
                return False
            if not self._input(bound).is_size_of(rows):
                return False
        return bool(comparisons)

    def _input(self, position: int) -> TracePoint:
        return TracePoint(self.linker, self.caller, self.node.data_input(position))

    def _counts(self, at: int) -> bool:
        """Return whether the loop variable at position ``at`` takes the values 0, 1, 2, ..."""
        body = self.body
        if at >= len(body.returns) or self._input(at).scalar() != 0:
            return False
        node = body.node(_behind_copies(body, body.returns[at]))
        if node is None or node.op not in ADDITIONS:
            return False
        step = TracePoint(self.linker, body, node.data_input(1)).scalar()
        return step == 1 and _argument_at(body, node.data_input(0)) == at


def _argument_at(body: Body, reference: Reference) -> int | None:
    name = _behind_copies(body, reference)
    return body.arguments.index(name) if name in body.arguments else None


def _behind_copies(body: Body, reference: Reference) -> bytes:
    for _ in range(MAX_OPS):
        node = body.node(reference.name)
        if node is None or node.op != b"Identity":
            break
        reference = node.data_input(0)
    return reference.name


# Ops.

MAX_NGRAM: Final = 1_000  # words per n-gram
MAX_NGRAM_WIDTHS: Final = 100
MAX_JOINED: Final = 100  # inputs of a StringJoin
UTF8: Final = (b"UTF-8", b"UTF8")

DECODES: Final = frozenset((b"UnicodeDecode", b"UnicodeDecodeWithOffsets"))
SCRIPT_TOKENIZER: Final = b"UnicodeScriptTokenizeWithOffsets"
CODE_POINT_TOKENIZERS: Final = frozenset((SCRIPT_TOKENIZER, b"WhitespaceTokenizeWithOffsets"))
SPLITS: Final = frozenset((b"StringSplitV2", b"StringSplit"))
# Ops that select the bounds of a row, and ops with which TensorFlow computes row splits.
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
"""The steps of an op in order, and the source of their strings."""


class OpOnWay(NamedTuple):
    """An op between the text input of a model and its lookup of words.

    The methods raise :class:`NotUnderstood` for inputs and attributes that are not supported.
    """

    here: TracePoint
    node: Node

    def refuse(self, why: str) -> NotUnderstood:
        return NotUnderstood(self.node.op, why)

    def scalar(self, position: int) -> bytes | int | None:
        """Return the value of an input that is always the same constant, else ``None``."""
        return self.here.input(self.node, position).scalar()

    def tensor(self, position: int) -> Tensor | None:
        return self.here.input(self.node, position).constant()

    def constant(self, position: int) -> bytes | int:
        found = self.scalar(position)
        if found is None:
            raise self.refuse("one of its inputs must be a constant, but is computed")
        return found

    def text_constant(self, position: int) -> bytes:
        found = self.constant(position)
        if not isinstance(found, bytes):
            raise self.refuse("one of its inputs must be a string, but is a number")
        return found

    def pattern(self, text: bytes) -> str:
        try:
            return text.decode()
        except UnicodeDecodeError:
            raise self.refuse("its pattern is not UTF-8") from None

    def flag(self, key: bytes, default: bool) -> bool:
        return bool(self.node.integer_of(key, int(default)))

    def read_decoding(self) -> Decoder:
        node = self.node
        encoding = node.bytes_of(b"input_encoding")
        if encoding.upper() not in UTF8:
            raise self.refuse(f"its texts are {printable(encoding)}, not UTF-8")
        errors = node.bytes_of(b"errors").decode("ascii", "replace") or "replace"
        if errors not in get_args(Errors):
            raise self.refuse(f"unsupported errors={errors!r}")
        replacement = node.integer_of(b"replacement_char", 0xFFFD)
        if not 0 <= replacement <= 0x10FFFF:
            raise self.refuse(f"invalid replacement character {replacement}")
        controls = self.flag(b"replace_control_characters", False)
        return Decoder(cast(Errors, errors), replacement, controls)

    def only_utf8_out(self) -> None:
        if self.node.bytes_of(b"output_encoding").upper() not in UTF8:
            raise self.refuse("its output is not UTF-8")

    def maker_of(self, position: int) -> Node | None:
        """Return the node that makes an input. Ops that only change its shape are skipped."""
        return self.here.input(self.node, position).behind_reshapes().node

    def has_rows_of(self, node: Node) -> bool:
        """Return whether ``node`` makes the row splits, which are the op's second input."""
        maker = self.maker_of(1)
        return maker is not None and maker.name == node.name

    def decoder(self, reference: Reference) -> tuple[OpOnWay, bool]:
        """Return the op that decoded the text, and whether each code point has its own row."""
        apart = False
        for _ in range(MAX_OPS):
            node = self.here.body.node(reference.name)
            if node is None or (node.op not in DECODES and node.op not in SAME):
                break
            if node.op in DECODES:
                return self._replace(node=node), apart
            apart = apart or node.op == b"ExpandDims"
            reference = node.data_input(0)
        raise self.refuse("its input was not made by an op that decodes text into code points")


def steps_of(op: OpOnWay) -> StepsOfOp:
    node, tensor = op.node, op.here.reference
    if node.op in SAME:
        return (), node.data_input(tensor.output if node.op == b"IdentityN" else 0)
    if node.op in BRANCHES | LOOPS:
        raise op.refuse("its output depends on values that are only known when the model runs")
    name = node.op.removeprefix(b"TFText>")
    part, output = OUTPUTS.get(name, (tensor.part, tensor.output))
    if not (tensor.part == part if tensor.part else tensor.output == output):
        raise op.refuse("the lookup does not read the output that contains the words of the text")
    if name in STEPS:
        return (STEPS[name](op),), node.data_input(0)
    if name in SOURCES:
        return SOURCES[name](op)
    raise op.refuse("vocabtool does not support this op")


def _is_utf8(op: OpOnWay) -> bool:
    encoding = op.node.bytes_of(b"encoding").lower()
    if encoding not in (b"", b"utf-8"):
        raise op.refuse(f"unsupported encoding {printable(encoding)}")
    return encoding == b"utf-8"


def _replace(op: OpOnWay, pattern: bytes, rewrite: bytes) -> Step:
    every = op.flag(b"replace_global", True)
    step = RegexReplace(op.pattern(pattern), op.pattern(rewrite), every)
    if fault := regex_fault(step.pattern, step.rewrite):
        raise op.refuse(fault)
    return step


def _split(op: OpOnWay) -> Step:
    separator, most = op.text_constant(1), op.node.integer_of(b"maxsplit", -1)
    return SplitOn(separator, most) if separator else SplitWhitespace(most)


def _substr(op: OpOnWay) -> Step:
    unit = op.node.bytes_of(b"unit").decode("ascii", "replace") or "BYTE"
    start, length = op.constant(1), op.constant(2)
    if unit not in get_args(Unit) or isinstance(start, bytes) or isinstance(length, bytes):
        raise op.refuse("its start or length is not a number")
    if length < 0:
        raise op.refuse("its length is negative; TensorFlow versions treat this differently")
    return Substr(start, length, cast(Unit, unit))


def _transcode(op: OpOnWay) -> Step:
    op.only_utf8_out()
    return Transcode(op.read_decoding())


def _ngrams(op: OpOnWay) -> Step:
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
        raise op.refuse(
            "its n-grams are too short, too long or of too many lengths (wanted 1 to "
            f"{MAX_NGRAM:,} words, and at most {MAX_NGRAM_WIDTHS} lengths)"
        )
    return step


def _ngrams_join(op: OpOnWay) -> Step:
    if op.node.integer_of(b"axis", -1) != -1:
        raise op.refuse("it joins words of different texts")
    width = op.node.integer_of(b"width")
    if not 0 < width <= MAX_NGRAM:
        raise op.refuse(f"its n-grams must have 1 to {MAX_NGRAM:,} words, but do not")
    return NGrams(op.node.bytes_of(b"string_separator"), (width,))


def _normalize(op: OpOnWay) -> Step:
    form = op.node.bytes_of(b"normalization_form").decode("ascii", "replace").upper() or "NFKC"
    if form not in get_args(Form):
        raise op.refuse(f"unknown normalization form {form!r}")
    return NormalizeUtf8(cast(Form, form))


def _bert_normalize(op: OpOnWay) -> Step:
    tensor = op.tensor(1)
    if tensor is None or tensor.dtype not in (DT_UINT8, DT_INT8):
        raise op.refuse("its normalization model is not a constant")
    try:
        return BertNormalize.read(tensors.raw_bytes(tensor))
    except InvalidFile as error:
        raise op.refuse(f"its normalization model is damaged: {error}") from error


def _join(op: OpOnWay) -> StepsOfOp:
    separator = op.node.bytes_of(b"separator")
    if len(op.node.data_inputs) > MAX_JOINED:
        raise op.refuse(f"it joins more than {MAX_JOINED} strings")
    text: Reference | None = None
    before = after = b""
    for position, reference in enumerate(op.node.data_inputs):
        if op.scalar(position) is not None:
            part = op.text_constant(position)
            if text is None:
                before += part + separator
            else:
                after += separator + part
        elif text is None:
            text = reference
        else:
            raise op.refuse("it joins two texts")
    if text is None:
        raise op.refuse("its words are constants and do not come from a text")
    return (Join(before, after),), text


def _encode(op: OpOnWay) -> StepsOfOp:
    op.only_utf8_out()
    made_by = op.maker_of(0)
    if made_by is None or made_by.op not in CODE_POINT_TOKENIZERS:
        decoder, apart = op.decoder(op.node.data_input(0))
        decoding = decoder.read_decoding()
        if not apart and not op.has_rows_of(decoder.node):
            raise op.refuse("each of its rows must be the code points of one text")
        step: Step = Characters(decoding) if apart else Transcode(decoding)
        return (step,), decoder.node.data_input(0)
    decoder, apart = op.decoder(made_by.data_input(0))
    if apart or not op.has_rows_of(made_by):
        raise NotUnderstood(made_by.op, "each of its rows must be the code points of one word")
    step = WhitespaceSplit()
    if made_by.op == SCRIPT_TOKENIZER:
        step = ScriptSplit(bool(made_by.integer_of(b"keep_whitespace")))
    return (Transcode(decoder.read_decoding()), step), decoder.node.data_input(0)


def _drop_padding(op: OpOnWay, padding: int, words: int) -> StepsOfOp:
    if op.constant(padding) != b"":
        raise op.refuse("its padding is not an empty string")
    return (DropEmpty(),), op.node.data_input(words)


def _ragged_to_tensor(op: OpOnWay) -> StepsOfOp:
    """Drop the padding. Refuse a tensor of fixed size, in which words may be missing."""
    shape = op.tensor(0)
    if shape is None or bool((tensors.integers(shape) >= 0).any()):
        raise op.refuse("it might drop words")
    return _drop_padding(op, 2, 1)


def _gather_nd(op: OpOnWay) -> StepsOfOp:
    """Drop empty strings. Only ``GatherNd(texts, Where(NotEqual(texts, "")))`` is accepted."""
    body, texts = op.here.body, op.node.data_input(0)
    where = body.node(op.node.data_input(1).name)
    test = body.node(where.data_input(0).name) if where and where.op == b"Where" else None
    if test is None or test.op != b"NotEqual" or test.data_input(0) != texts:
        raise op.refuse("it selects a part of the texts that cannot be determined")
    if op.here.input(test, 1).scalar() != b"":
        raise op.refuse("it might drop texts that are not empty")
    return (DropEmpty(),), texts


def _strided_slice(op: OpOnWay) -> StepsOfOp:
    """Accept a slice that keeps everything, adds an axis, or takes the row of a single text."""
    node, steps = op.node, op.tensor(3)
    begins, ends, axes = map(node.integer_of, (b"begin_mask", b"end_mask", b"new_axis_mask"))
    drops = node.integer_of(b"shrink_axis_mask") or node.integer_of(b"ellipsis_mask")
    if steps is not None and not drops:
        each = enumerate(tensors.integers(steps).tolist())
        if all(axes >> i & 1 or (begins >> i & ends >> i & 1 and by == 1) for i, by in each):
            return (), node.data_input(0)
    # ``tf.strings.split(text)`` of one text: row 0 of ragged words with one row.
    split = op.maker_of(0)
    if split is not None and split.op in SPLITS:
        text = op.here.body.node(split.data_input(0).name)
        single = text is not None and text.op == b"Pack" and len(text.data_inputs) == 1
        bounds = (node.data_input(1), node.data_input(2))
        if single and all(_is_row_bound(op.here.body, bound, split.name) for bound in bounds):
            return (), node.data_input(0)
    raise op.refuse("it might leave out words")


def _is_row_bound(body: Body, bound: Reference, split: bytes) -> bool:
    """Return whether a slice's bound is computed only from the row splits of the op ``split``."""
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
        # Arithmetic is part of the row splits. After them it would select a part of the row.
        further = ROW_SPLITS if node.op in SUMS else ops
        waiting += [(source, further) for source in node.data_inputs]
    return rows and not waiting


def _pack(op: OpOnWay) -> StepsOfOp:
    if len(op.node.data_inputs) != 1:
        raise op.refuse("it combines several texts")
    return (), op.node.data_input(0)


def _list_item(op: OpOnWay) -> StepsOfOp:
    if not takes_every_item(op.here.linker, op.here.body, op.node):
        raise op.refuse("it might leave out texts")
    return (), op.node.data_input(0)


def _refuse_constant(op: OpOnWay) -> StepsOfOp:
    tensor = op.node.tensor_of(b"value")
    what = "words" if tensor is not None and tensor.dtype == DT_STRING else "numbers"
    raise op.refuse(f"its {what} are constants and do not come from a text")


# The name and the number of the output with the words, for ops with several outputs.
OUTPUTS: Final = {
    b"StringSplitV2": (b"values", 1),
    b"StringSplit": (b"values", 1),
    b"StringNGrams": (b"ngrams", 0),
    b"NormalizeUTF8": (b"output", 0),
    b"FastBertNormalize": (b"output_values", 0),
    b"RegexSplitWithOffsets": (b"tokens", 0),
    b"WhitespaceTokenizeWithOffsetsV2": (b"output_tokens", 0),
}
# Ops that are one step on the words in their first input.
STEPS: Final[dict[bytes, Callable[[OpOnWay], Step]]] = {
    b"StringLower": lambda op: Lower(_is_utf8(op)),
    b"StringUpper": lambda op: Upper(_is_utf8(op)),
    b"StaticRegexReplace": lambda op: _replace(
        op, op.node.bytes_of(b"pattern"), op.node.bytes_of(b"rewrite")
    ),
    b"RegexReplace": lambda op: _replace(op, op.text_constant(1), op.text_constant(2)),
    b"StringStrip": lambda op: Strip(),
    b"StringSplitV2": _split,
    b"StringSplit": lambda op: SplitAtAny(op.text_constant(1), op.flag(b"skip_empty", True)),
    b"Substr": _substr,
    b"UnicodeTranscode": _transcode,
    b"StringNGrams": _ngrams,
    b"NgramsStringJoin": _ngrams_join,
    b"NormalizeUTF8": _normalize,
    b"CaseFoldUTF8": lambda op: CaseFold(),
    b"FastBertNormalize": _bert_normalize,
    b"RegexSplitWithOffsets": lambda op: RegexSplit(
        op.pattern(op.text_constant(1)), op.pattern(op.text_constant(2))
    ),
    b"WhitespaceTokenizeWithOffsetsV2": lambda op: WhitespaceSplit(version=2),
}
# Ops with several steps or none, or whose words come from another input.
SOURCES: Final[dict[bytes, Callable[[OpOnWay], StepsOfOp]]] = {
    b"StringJoin": _join,
    b"UnicodeEncode": _encode,
    b"RaggedTensorToTensor": _ragged_to_tensor,
    b"SparseToDense": lambda op: _drop_padding(op, 3, 2),
    b"GatherNd": _gather_nd,
    b"StridedSlice": _strided_slice,
    b"Pack": _pack,
    b"TensorListGetItem": _list_item,
    b"TensorListFromTensor": lambda op: ((), op.node.data_input(0)),
    b"Const": _refuse_constant,
}
