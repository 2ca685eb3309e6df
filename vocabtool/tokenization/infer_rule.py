"""Find where a model looks words up, and infer the rule that splits texts into these words.

The search follows the graph backwards, from the lookup op to the text input, and translates ops
into steps. At an op that is not supported, it stops and reports the op. A value is a constant only
if no other value is possible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple, cast, get_args

from vocabtool.errors import InvalidFile, NoVocabulary, VocabtoolError, reading
from vocabtool.formats.reader import Model
from vocabtool.formats.saved_model import graph_files
from vocabtool.formats.saved_model.graph import (
    DT_BOOL,
    DT_INT8,
    DT_STRING,
    DT_UINT8,
    INTEGERS,
    PIECE_OP,
    TABLE_OP,
    Body,
    Node,
    Reference,
    Tensor,
)
from vocabtool.formats.saved_model.graph_files import read_model
from vocabtool.formats.saved_model.meta_graph import Linker, MetaGraph, Origin, pick_serving
from vocabtool.formats.saved_model.tables import FINDS, WORDPIECES
from vocabtool.tokenization import steps as text_steps
from vocabtool.tokenization.lookup import (
    RuleTokenizer,
    SentencePieceTokenizer,
    Tokenizer,
    WordPiece,
    WordPieceTokenizer,
    read_fast_wordpiece,
)
from vocabtool.tokenization.rule import Rule
from vocabtool.tokenization.text_arrays import Step
from vocabtool.vocabulary import Vocabulary, printable

MAX_OPS: Final = 500  # most ops to follow on one path
MAX_INPUTS: Final = 5  # inputs or vocabularies in a message

# Ops that change only the shape.
SAME: Final = frozenset(
    b"Identity IdentityN Reshape ExpandDims Squeeze StopGradient Snapshot PreventGradient "
    b"EnsureShape PlaceholderWithDefault".split()
)
BRANCHES: Final = frozenset((b"If", b"StatelessIf"))
LOOPS: Final = frozenset((b"While", b"StatelessWhile"))

Calls = tuple[tuple[Body, Node], ...]


@dataclass(unsafe_hash=True)
class Unclear(Exception):
    """Why a tensor cannot be traced back. ``op``: the op that is not supported, if it is one."""

    op: str
    why: str


class TracePoint(NamedTuple):
    """A tensor of a graph, and the function calls that lead into ``body``, the outermost first."""

    linker: Linker
    body: Body
    reference: Reference
    calls: Calls = ()

    @property
    def node(self) -> Node | None:
        """The node that makes the tensor; ``None`` for an argument of the function."""
        return self.body.node(self.reference.name)

    @property
    def maker(self) -> Node:
        """The node that makes the tensor. Raises :class:`Unclear` if there is none."""
        node = self.node
        if node is None:
            raise Unclear("", "no op produces this tensor")
        return node

    def input(self, position: int) -> TracePoint:
        return self._replace(reference=self.maker.data_input(position))

    def inside(self, node: Node) -> TracePoint | None:
        """Follow this tensor into the function that ``node``, its maker, calls; else ``None``."""
        called = self.linker.graph.functions.get(function_of(node))
        if called is None:
            return None
        if self.reference.output >= len(called.returns):
            raise Unclear(printable(node.op), "it has no such output")
        returned = called.returns[self.reference.output]
        return TracePoint(self.linker, called, returned, (*self.calls, (self.body, node)))

    def callers(self) -> list[tuple[Body, Node]]:
        """Return the calls that may supply this argument: only the last of ``calls``, if any."""
        if self.reference.name not in self.body.arguments:
            raise Unclear("", "no op produces this tensor")
        return [self.calls[-1]] if self.calls else self.linker.callers(self.body.name)

    def outside(self, caller: Body, node: Node) -> TracePoint:
        """Follow this argument of a function to the input of ``node``, its call in ``caller``."""
        body = self.body
        from_end = len(body.arguments) - body.arguments.index(self.reference.name)
        if from_end > len(node.data_inputs):
            raise Unclear(printable(node.op), "it passes too few arguments to its function")
        if node.op in LOOPS:
            raise Unclear(printable(node.op), "the texts go through a loop")
        if node.op not in BRANCHES and function_of(node) != body.name:
            raise Unclear(
                printable(node.op),
                "vocabtool does not know how this op passes arguments to a function",
            )
        return TracePoint(self.linker, caller, node.data_inputs[-from_end], self.calls[:-1])

    def constant(self) -> Tensor | None:
        """Return the tensor's value if it is the same constant for all callers, else ``None``."""
        values: dict[bytes, Tensor] = {}  # by the bytes of the value
        waiting, steps = [self], 0
        while waiting:
            point = waiting.pop()
            steps += 1
            node = point.node
            if steps > MAX_OPS:
                return None
            if node is None:
                waiting += [point.outside(*call) for call in point.callers()]
                if not waiting and not values:  # no callers: may be a captured constant
                    origin = point.linker.origin(point.body, point.reference)
                    return origin.node.constant() if origin and origin.node else None
                continue
            before = point.inside(node)
            if before is None and node.op in SAME:
                before = point.input(0)
            if before is not None:
                waiting.append(before)
                continue
            tensor = node.constant()
            if tensor is None:
                return None
            start, end = tensor.span
            values.setdefault(bytes(tensor.buffer[start:end]), tensor)
        return next(iter(values.values())) if len(values) == 1 else None

    def scalar(self) -> bytes | int | None:
        """Return the value if the tensor is one constant string or integer, else ``None``."""
        tensor = self.constant()
        if tensor is None:
            return None
        is_boolean = tensor.dtype == DT_BOOL and tensor.elements == 1
        return int(tensor.boolean()) if is_boolean else tensor.scalar()

    def behind_reshapes(self) -> TracePoint:
        """Follow this tensor back through the ops that change only its shape."""
        point = self
        for _ in range(MAX_OPS):
            node = point.node
            if node is None or node.op not in SAME:
                break
            point = point.input(0)
        return point

    def refuse(self, why: str) -> Unclear:
        """Return an error that names the op of this tensor."""
        return Unclear(printable(self.maker.op), why)

    def constant_input(self, position: int) -> bytes | int:
        """Return the value of an input. Raises :class:`Unclear` if it is not constant."""
        value = self.input(position).scalar()
        if value is None:
            raise self.refuse("one of its inputs must be a constant, but is computed")
        return value

    def text_constant(self, position: int) -> bytes:
        """Return the value of an input. Raises :class:`Unclear` if it is not a constant string."""
        value = self.constant_input(position)
        if not isinstance(value, bytes):
            raise self.refuse("one of its inputs must be a string, but is a number")
        return value

    def decode_pattern(self, text: bytes) -> str:
        try:
            return text.decode()
        except UnicodeDecodeError:
            raise self.refuse("its pattern is not UTF-8") from None

    def flag(self, key: bytes, default: bool) -> bool:
        return bool(self.maker.integer_of(key, int(default)))

    def check_decoding(self) -> None:
        """Refuse an op that does not decode UTF-8, or does not replace each invalid byte."""
        encoding = self.maker.bytes_of(b"input_encoding")
        if encoding.upper() not in UTF8:
            raise self.refuse(f"its texts are {printable(encoding)}, not UTF-8")
        if (
            self.maker.bytes_of(b"errors") not in (b"", b"replace")
            or self.maker.integer_of(b"replacement_char", 0xFFFD) != 0xFFFD
            or self.flag(b"replace_control_characters", False)
        ):
            raise self.refuse("it does not replace exactly the invalid bytes, by U+FFFD")

    def has_rows_of(self, node: Node) -> bool:
        """Return whether ``node`` makes the row splits, which are the op's second input."""
        maker = self.input(1).behind_reshapes().node
        return maker is not None and maker.name == node.name

    def decoder(self, reference: Reference) -> tuple[TracePoint, bool]:
        """Return the op that decoded the code points, and whether each of these has its own row."""
        own_rows = False
        for _ in range(MAX_OPS):
            node = self.body.node(reference.name)
            if node is None or (node.op not in DECODES and node.op not in SAME):
                break
            if node.op in DECODES:
                return self._replace(reference=reference), own_rows
            own_rows = own_rows or node.op == b"ExpandDims"
            reference = node.data_input(0)
        raise self.refuse("its input was not made by an op that decodes text into code points")


def function_of(node: Node) -> bytes:
    """Return the function that a ``PartitionedCall`` calls. For other nodes, return the op."""
    return node.function() if node.op.endswith(b"PartitionedCall") else node.op


# Ops.

MAX_NGRAM: Final = 1_000  # words per n-gram
MAX_NGRAM_WIDTHS: Final = 100
MAX_JOINED: Final = 100  # inputs of a StringJoin
UTF8: Final = (b"UTF-8", b"UTF8")

DECODES: Final = frozenset((b"UnicodeDecode", b"UnicodeDecodeWithOffsets"))
SCRIPT_TOKENIZER: Final = b"UnicodeScriptTokenizeWithOffsets"
StepsOfOp = tuple[tuple[Step, ...], Reference]
"""The steps of an op in order, and the source of their strings."""


def steps_of(op: TracePoint) -> StepsOfOp:
    """Return the steps of the op that makes a tensor, and the tensor to which they are applied.

    Raises :class:`Unclear` for an op or a setting that is not supported.
    """
    node, tensor = op.maker, op.reference
    if node.op in SAME:
        return (), node.data_input(tensor.output if node.op == b"IdentityN" else 0)
    if node.op in BRANCHES | LOOPS:
        raise op.refuse("its output depends on values that are only known when the model runs")
    name = node.op.removeprefix(b"TFText>")
    # Inside a function, an output is referred to by its name, elsewhere by its number.
    output = tensor.output_name or tensor.output
    if output not in OUTPUTS.get(name, (output,)):
        raise op.refuse("the lookup does not read the output that contains the words of the text")
    if name in STEPS:
        return (STEPS[name](op),), node.data_input(0)
    if name in SOURCES:
        return SOURCES[name](op)
    raise op.refuse("vocabtool does not support this op")


def _is_utf8(op: TracePoint) -> bool:
    """Return whether the op reads UTF-8. If false, it reads bytes."""
    encoding = op.maker.bytes_of(b"encoding").lower()
    if encoding not in (b"", b"utf-8"):
        raise op.refuse(f"unsupported encoding {printable(encoding)}")
    return encoding == b"utf-8"


def _replace(op: TracePoint, pattern: bytes, rewrite: bytes) -> Step:
    if not op.flag(b"replace_global", True):
        raise op.refuse("it replaces only the first match")
    step = text_steps.RegexReplace(op.decode_pattern(pattern), op.decode_pattern(rewrite))
    fault = text_steps.regex_fault(step.pattern, step.rewrite)
    if fault is not None:
        raise op.refuse(fault)
    return step


def _split(op: TracePoint) -> Step:
    if op.maker.integer_of(b"maxsplit", -1) >= 0:
        raise op.refuse("it splits only a limited number of times")
    separator = op.text_constant(1)
    return text_steps.SplitOn(separator) if separator else text_steps.SplitWhitespace()


def _ngrams(op: TracePoint) -> Step:
    node = op.maker
    if node.integer_of(b"pad_width") or op.flag(b"preserve_short_sequences", False):
        raise op.refuse("it pads texts, or keeps texts that are too short")
    if node.integer_of(b"axis", -1) != -1:
        raise op.refuse("it joins words of different texts")
    if node.op.endswith(b"NgramsStringJoin"):
        step = text_steps.NGrams(node.bytes_of(b"string_separator"), (node.integer_of(b"width"),))
    else:
        step = text_steps.NGrams(node.bytes_of(b"separator"), node.integers_of(b"ngram_widths"))
    if len(step.widths) > MAX_NGRAM_WIDTHS or any(not 0 < w <= MAX_NGRAM for w in step.widths):
        raise op.refuse(
            "its n-grams are too short, too long or of too many lengths (wanted 1 to "
            f"{MAX_NGRAM:,} words, and at most {MAX_NGRAM_WIDTHS} lengths)"
        )
    return step


def _normalize(op: TracePoint) -> Step:
    form = op.maker.bytes_of(b"normalization_form").decode("ascii", "replace").upper() or "NFKC"
    if form not in get_args(text_steps.Form):
        raise op.refuse(f"unknown normalization form {form!r}")
    return text_steps.NormalizeUtf8(cast(text_steps.Form, form))


def _bert_normalize(op: TracePoint) -> Step:
    tensor = op.input(1).constant()
    if tensor is None or tensor.dtype not in (DT_UINT8, DT_INT8):
        raise op.refuse("its normalization model is not a constant")
    try:
        return text_steps.BertNormalize.read(tensor.raw_bytes())
    except InvalidFile as error:
        raise op.refuse(f"its normalization model is damaged: {error}") from error


def _join(op: TracePoint) -> StepsOfOp:
    """Put constants before and after a text. No two texts may be joined."""
    separator = op.maker.bytes_of(b"separator")
    if len(op.maker.data_inputs) > MAX_JOINED:
        raise op.refuse(f"it joins more than {MAX_JOINED} strings")
    text: Reference | None = None
    before = after = b""
    for position, reference in enumerate(op.maker.data_inputs):
        if op.input(position).scalar() is not None:
            string = op.text_constant(position)
            if text is None:
                before += string + separator
            else:
                after += separator + string
        elif text is None:
            text = reference
        else:
            raise op.refuse("it joins two texts")
    if text is None:
        raise op.refuse("its words are constants and do not come from a text")
    return (text_steps.Join(before, after),), text


def _encode(op: TracePoint) -> StepsOfOp:
    """Repair texts, or split them into characters or where the script changes."""
    if op.maker.bytes_of(b"output_encoding").upper() not in UTF8:
        raise op.refuse("its output is not UTF-8")
    maker = op.input(0).behind_reshapes().node
    if maker is None or maker.op != SCRIPT_TOKENIZER:
        decoder, own_rows = op.decoder(op.maker.data_input(0))
        decoder.check_decoding()
        if not own_rows and not op.has_rows_of(decoder.maker):
            raise op.refuse("each of its rows must be the code points of one text")
        step: Step = text_steps.Characters() if own_rows else text_steps.Transcode()
        return (step,), decoder.maker.data_input(0)
    decoder, own_rows = op.decoder(maker.data_input(0))
    if own_rows or not op.has_rows_of(maker):
        raise Unclear(printable(maker.op), "each of its rows must be the code points of one word")
    step = text_steps.ScriptSplit(bool(maker.integer_of(b"keep_whitespace")))
    decoder.check_decoding()
    return (text_steps.Transcode(), step), decoder.maker.data_input(0)


def _sparse_to_dense(op: TracePoint) -> StepsOfOp:
    """Drop the padding with which a batch of texts of different lengths becomes a matrix."""
    if op.constant_input(3) != b"":
        raise op.refuse("its padding is not an empty string")
    return (text_steps.DropEmpty(),), op.maker.data_input(2)


def _gather_nd(op: TracePoint) -> StepsOfOp:
    """Drop empty strings. Only ``GatherNd(texts, Where(NotEqual(texts, "")))`` is accepted."""
    body, texts = op.body, op.maker.data_input(0)
    where = body.node(op.maker.data_input(1).name)
    test = body.node(where.data_input(0).name) if where and where.op == b"Where" else None
    if test is None or test.op != b"NotEqual" or test.data_input(0) != texts:
        raise op.refuse("it selects a part of the texts that cannot be determined")
    if op._replace(reference=test.data_input(1)).scalar() != b"":
        raise op.refuse("it might drop texts that are not empty")
    return (text_steps.DropEmpty(),), texts


def _strided_slice(op: TracePoint) -> StepsOfOp:
    """Accept a slice that keeps everything, or adds an axis."""
    node, strides = op.maker, op.input(3).constant()
    drops = node.integer_of(b"shrink_axis_mask") or node.integer_of(b"ellipsis_mask")
    if strides is None or drops:
        raise op.refuse("it might leave out words")
    # A set bit of ``begin_mask`` and ``end_mask`` means that the slice has no start and no end.
    unbounded_axes = node.integer_of(b"begin_mask") & node.integer_of(b"end_mask")
    new_axes = node.integer_of(b"new_axis_mask")
    for axis, stride in enumerate(strides.integers().tolist()):
        is_whole = bool(unbounded_axes >> axis & 1) and stride == 1
        if not is_whole and not new_axes >> axis & 1:
            raise op.refuse("it might leave out words")
    return (), node.data_input(0)


def _refuse_constant(op: TracePoint) -> StepsOfOp:
    tensor = op.maker.constant()
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
STEPS: Final[dict[bytes, Callable[[TracePoint], Step]]] = {
    b"StringLower": lambda op: text_steps.Lower(_is_utf8(op)),
    b"StaticRegexReplace": lambda op: _replace(
        op, op.maker.bytes_of(b"pattern"), op.maker.bytes_of(b"rewrite")
    ),
    b"RegexReplace": lambda op: _replace(op, op.text_constant(1), op.text_constant(2)),
    b"StringStrip": lambda op: text_steps.Strip(),
    b"StringSplitV2": _split,
    b"StringSplit": lambda op: text_steps.SplitAtAny(
        op.text_constant(1), op.flag(b"skip_empty", True)
    ),
    b"StringNGrams": _ngrams,
    b"NgramsStringJoin": _ngrams,
    b"NormalizeUTF8": _normalize,
    b"CaseFoldUTF8": lambda op: text_steps.CaseFold(),
    b"FastBertNormalize": _bert_normalize,
    b"RegexSplitWithOffsets": lambda op: text_steps.RegexSplit(
        op.decode_pattern(op.text_constant(1)), op.decode_pattern(op.text_constant(2))
    ),
    b"WhitespaceTokenizeWithOffsetsV2": lambda op: text_steps.WhitespaceSplit(),
}
# Ops with several steps or none, or whose words come from another input.
SOURCES: Final[dict[bytes, Callable[[TracePoint], StepsOfOp]]] = {
    b"StringJoin": _join,
    b"UnicodeEncode": _encode,
    b"SparseToDense": _sparse_to_dense,
    b"GatherNd": _gather_nd,
    b"StridedSlice": _strided_slice,
    b"Const": _refuse_constant,
}


# Lookups.

LookupKind = Literal["table", "wordpiece", "fast wordpiece", "sentencepiece", "fast sentencepiece"]
# Tokenizer ops that contain their own model, with the index of their text input.
TOKENIZERS: Final[dict[bytes, tuple[LookupKind, int]]] = {
    b"SentencepieceTokenizeOp": ("sentencepiece", 1),
    b"SentencepieceTokenizeWithOffsetsOp": ("sentencepiece", 1),
    b"FastWordpieceTokenizeWithOffsets": ("fast wordpiece", 0),
    b"FastSentencepieceTokenize": ("fast sentencepiece", 1),
}
# These ops output subword pieces. The op itself is the site, not the lookup of its pieces.
PIECES_OF: Final = ("WordpieceTokenizeWithOffsets",)
UNDERSTOOD: Final = frozenset(get_args(LookupKind)) - {"fast sentencepiece"}
NAME_IT: Final = "name a rule that makes the same words with --rule (in Python rule=)"
NAME_FILE: Final = (
    "its entries are subword pieces: name the file of their tokenizer, if you have it, with --rule "
    "tokenizer:FILE (in Python rule=)"
)
MAX_PATHS: Final = 64  # paths from a lookup to the text, through different calls
NO_TEXTS: Final = "a branch for a batch without texts"
SIZES: Final = frozenset((b"Size", b"Shape", b"StridedSlice", b"Cast", b"Identity", b"Prod"))
# The smallest number of texts that a branch condition must accept.
LEAST_SIZES: Final = {b"Greater": 0, b"NotEqual": 0, b"GreaterEqual": 1}


TextSteps = tuple[tuple[Step, ...], str]  # and the name of the model's text input


def infer_steps(point: TracePoint) -> TextSteps | Unclear:
    """Return the steps from the text; :class:`Unclear` if an op is unsupported or paths differ."""
    # Where to continue, and the steps from there to ``point``.
    waiting: list[tuple[TracePoint, tuple[Step, ...]]] = [(point, ())]
    ops = 0
    paths: list[TextSteps] = []
    unclear: list[Unclear] = []
    while waiting:
        if len(paths) + len(unclear) + len(waiting) > MAX_PATHS:
            return Unclear("", f"more than {MAX_PATHS} paths lead to the lookup")
        ops += 1
        if ops > MAX_OPS * MAX_PATHS:
            return Unclear("", "the path from the lookup to the text does not end")
        current, steps = waiting.pop()
        try:
            before = _step_back(current)
        except Unclear as error:
            unclear.append(error)
            continue
        if isinstance(before, bytes):
            text = printable(before).removeprefix("serving_default_")
            paths.append((steps, text))
        else:
            steps_of_op, sources = before
            waiting += [(source, (*steps_of_op, *steps)) for source in sources]
    if unclear:
        return unclear[0]
    if not paths:
        return Unclear("", "no text reaches the lookup")
    if len({steps for steps, _ in paths}) > 1:
        return Unclear("", "texts reach the lookup by different rules")
    return paths[0]


def _step_back(point: TracePoint) -> tuple[tuple[Step, ...], list[TracePoint]] | bytes:
    """Return the steps of a tensor's op, and what it may read; or the name of an input."""
    node = point.node
    if node is not None:
        inside = point.inside(node)
        if inside is not None:
            return (), [inside]
        if node.op == b"Placeholder" and not point.body.name:
            return node.name
        steps, source = steps_of(point)
        return steps, [point._replace(reference=source)]
    # An argument of a function: continue at its callers. Without callers it is the model's input.
    callers = point.callers()
    if not callers:
        if point.linker.capture(point.body, point.reference.name) is not None:
            raise Unclear("Const", "its words are constants and do not come from a text")
        return point.reference.name
    for caller, call in callers:
        if call.op in BRANCHES:
            # A branch is followed only if every batch with texts runs it.
            condition = TracePoint(point.linker, caller, call.data_input(0), point.calls[:-1])
            least = LEAST_SIZES.get(condition.node.op) if condition.node is not None else None
            is_least = least is not None and condition.input(1).scalar() == least
            if not is_least or not _is_size(condition.input(0)):
                raise Unclear(printable(call.op), "the text may decide which branch runs")
            if point.body.name not in call.functions_of(b"then_branch"):
                raise Unclear(printable(call.op), NO_TEXTS)
    return (), [point.outside(*call) for call in callers]


def _is_size(number: TracePoint) -> bool:
    """Return whether a number is the number of texts in the batch."""
    for _ in range(MAX_OPS):
        node = number.node
        if node is None or node.op not in SIZES:
            return False
        number = number.input(0)
        if node.op in (b"Size", b"Shape"):
            inferred = infer_steps(number)
            return not isinstance(inferred, Unclear) and inferred[0] == ()  # texts without a change
    return False


class LookupPath(NamedTuple):
    """A vocabulary in which a model looks words up, and the rule that splits texts into words.

    - ``text``: The name of the model's text input.
    - ``node``: The op in ``body`` that looks words up. It may be one of several copies.
    """

    vocabulary: Vocabulary
    rule: Rule | Unclear
    text: str
    kind: LookupKind
    linker: Linker
    body: Body
    node: Node

    def tokenizer(self) -> Tokenizer:
        """Return the tokenizer that makes the words; refuse a rule that is not supported."""
        node, vocabulary = self.node, self.vocabulary
        if isinstance(self.rule, Unclear):
            op = f"the op {self.rule.op}: " if self.rule.op else ""
            has_pieces = self.kind != "table" or vocabulary.marker is not None
            raise VocabtoolError(
                f"{vocabulary.name}: the model does not show how it splits texts into words: "
                f"{op}{self.rule.why}; {NAME_FILE if has_pieces else NAME_IT}"
            )
        match self.kind:
            case "table":
                return RuleTokenizer(self.rule, vocabulary)
            case "wordpiece":
                use_unknown = node.integer_of(b"use_unknown_token")
                wordpiece = WordPiece(
                    dict(zip(vocabulary.stored, vocabulary.id_array().tolist(), strict=True)),
                    suffix_indicator=node.bytes_of(b"suffix_indicator"),
                    max_bytes_per_word=node.integer_of(b"max_bytes_per_word"),
                    max_chars_per_token=node.integer_of(b"max_chars_per_token"),
                    unknown_token=node.bytes_of(b"unknown_token") if use_unknown else None,
                    split_unknown_characters=bool(node.integer_of(b"split_unknown_characters")),
                    unknown_id=vocabulary.unknown.id if vocabulary.unknown is not None else -1,
                )
                return WordPieceTokenizer(self.rule, vocabulary, wordpiece)
            case "fast wordpiece":
                with reading(vocabulary.name):
                    buffer = graph_files.buffer_of(self.linker, self.body, node)
                    wordpiece, end_to_end = read_fast_wordpiece(buffer)
                steps = (
                    (*self.rule.steps, text_steps.BertSplit()) if end_to_end else self.rule.steps
                )
                return WordPieceTokenizer(Rule(steps), vocabulary, wordpiece)
            case "sentencepiece":
                origin = self.linker.origin(self.body, node.data_input(0))
                model = origin.node.bytes_of(b"model") if origin and origin.node else b""
                nbest = None
                with suppress(Unclear):
                    nbest = TracePoint(self.linker, self.body, node.data_input(2)).scalar()
                if nbest not in (0, 1):
                    raise VocabtoolError(
                        f"{vocabulary.name}: the model splits texts at random (nbest_size "
                        f"{nbest!r}), so its words differ from run to run"
                    )
                return SentencePieceTokenizer(model, vocabulary, self.rule)
            case _:
                what = f"{vocabulary.name}: the op {printable(node.op)} is not supported; {NAME_IT}"
                raise VocabtoolError(what)


def _lookup_paths(linker: Linker, tables: dict[bytes, Vocabulary]) -> Iterator[LookupPath]:
    """Yield all lookups of a graph. ``tables``: The vocabulary of each table."""
    nodes = (
        (body, node)
        for body in linker.graph.bodies
        for mark in (TABLE_OP, PIECE_OP)
        for node in body.nodes_with(mark)
    )
    for body, node in nodes:
        op = node.op.removeprefix(b"TFText>")
        vocabulary: Vocabulary | None = None
        kind: LookupKind
        if op in WORDPIECES or (op in FINDS and node.integer_of(b"Tin") == DT_STRING):
            # The inputs are the text and the table; for a lookup, in the other order.
            kind, text_input = ("wordpiece", 0) if op in WORDPIECES else ("table", 1)
            table = linker.table(body, node.data_input(1 - text_input))
            vocabulary = tables.get(table.key) if table else None
        elif op in TOKENIZERS:
            kind, text_input = TOKENIZERS[op]
            maker: Origin | None = Origin(body, node)
            if kind == "sentencepiece":  # another node has its model
                maker = linker.origin(body, node.data_input(0))
            if maker is not None and maker.node is not None:
                with suppress(VocabtoolError, KeyError):
                    vocabulary = graph_files.read_tokenizer(linker, maker.body, maker.node, {})
        if vocabulary is None:
            continue
        inferred = infer_steps(TracePoint(linker, body, node.data_input(text_input)))
        if isinstance(inferred, Unclear):
            yield LookupPath(vocabulary, inferred, "", kind, linker, body, node)
        else:
            steps, text = inferred
            yield LookupPath(vocabulary, Rule(steps), text, kind, linker, body, node)


def read_lookup_paths(model: str | Path) -> tuple[Model, tuple[LookupPath, ...]]:
    """Read a model; return its contents and all its lookups. There is at least one.

    The order is: words with a supported rule, words with an unclear rule, n-grams. In each group,
    the largest vocabulary comes first. Raises :class:`NoVocabulary` if there is no lookup.
    """
    opened = graph_files.open_graphs(model)
    findings, graphs = read_model(opened)
    contents = findings.model(opened.path, small=True)
    linker, tables = graphs[pick_serving([graph.tags for graph in opened.graphs])]
    named = {vocabulary.sha256: vocabulary for vocabulary in reversed(contents.vocabularies)}
    paths: dict[tuple[str, Rule | Unclear, str], LookupPath] = {}
    for path in _lookup_paths(linker, tables):
        # Skip lookups of pieces, and lookups that only run for batches without texts.
        rule = path.rule
        if isinstance(rule, Unclear) and (rule.op in PIECES_OF or rule.why == NO_TEXTS):
            continue
        vocabulary = named.get(path.vocabulary.sha256, path.vocabulary)
        key = (vocabulary.name, rule, path.kind)
        paths.setdefault(key, path._replace(vocabulary=vocabulary))
    if not paths:
        raise _no_lookup(contents, linker.graph)

    def order(path: LookupPath) -> tuple[bool, bool, int]:
        ngrams = isinstance(path.rule, Rule) and path.rule.ngrams
        return (ngrams, isinstance(path.rule, Unclear), -len(path.vocabulary))

    return contents, tuple(sorted(paths.values(), key=order))


def choose(paths: Sequence[LookupPath], model: Model, name: str | None) -> LookupPath:
    """Return the first path to the vocabulary ``name``, or any; :class:`NoVocabulary` if none."""
    for path in paths:
        if name is None or path.vocabulary.name == name:
            return path
    names = dict.fromkeys(path.vocabulary.name for path in paths)
    listed = "".join(f"\n  {known}" for known in names)
    raise NoVocabulary(
        f"{model.path}: the model looks up no words in a vocabulary named {name!r}; it looks "
        f"up words in:{listed}"
    )


def _no_lookup(model: Model, graph: MetaGraph) -> NoVocabulary:
    """Return an error that says what the model takes instead of texts, and what to do."""
    names = ", ".join(printable(name) for name, _ in graph.inputs[:MAX_INPUTS])
    dtypes = {dtype for _, dtype in graph.inputs}
    files = "a tokenizer.json, a SentencePiece model, a vocab.txt or a word list"
    parsers = (node for body in graph.bodies for node in body.search(b"ParseExample"))
    if any(node.op.startswith(b"ParseExample") for node in parsers):
        takes = "it takes serialised tf.Examples, not texts"
        files = f"the transform_fn of tf.Transform, {files}"
    elif dtypes and dtypes <= INTEGERS.keys():
        takes = f"it takes ids, not texts (inputs: {names})"
    elif DT_STRING in dtypes:
        takes = f"it takes strings (inputs: {names}), but vocabtool cannot follow them"
    else:
        takes = f"it takes numbers, not texts (inputs: {names})" if names else "it states no inputs"
    of_text = [vocabulary for vocabulary in model.vocabularies if vocabulary.entry_type == "text"]
    sentencepieces = [entries for entries in of_text if entries.kind == "sentencepiece"]
    places = [entries.places[0].file for entries in sentencepieces if entries.places]
    file = next((Path(model.path, name) for name in places if name.endswith(".model")), None)
    if file is not None:
        advice = f"use --rule tokenizer:{file}"
    elif of_text:
        named = ", ".join(f"{model.path}#{entries.name}" for entries in of_text[:MAX_INPUTS])
        advice = f"name one of its vocabularies and a rule that splits texts: {named} with --rule"
    else:
        advice = f"it contains no vocabulary; pass what its inputs were made with instead: {files}"
    return NoVocabulary(
        f"{model.path}: no supported op of the model looks words up: {takes}; {advice}"
    )
