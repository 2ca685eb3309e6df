"""The way from a text to the words that a lookup gets, read backwards off a model's graph.

From the op's input through string ops, calls, captures, loops and branches to where the text comes
in. What each op does is in ``strings.py``, ``normalizing.py`` and ``tokenizing.py``; here is only
which of them, in what order. An op that is not understood ends the way with its name: nothing is
guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, cast, get_args

from vocabtool.errors import InvalidFile
from vocabtool.formats import tensors
from vocabtool.formats.graph import Body, Node, Reference
from vocabtool.formats.linking import Linker
from vocabtool.formats.lookups import scalar
from vocabtool.formats.tensors import DT_INT8, DT_STRING, DT_UINT8
from vocabtool.vocabulary import printable
from vocabtool.words.bert import read_bert_normalizer
from vocabtool.words.cut import Step
from vocabtool.words.ngrams import NGrams
from vocabtool.words.normalizing import CaseFold, Form, NormalizeUtf8
from vocabtool.words.strings import (
    Characters,
    Decoding,
    DropEmpty,
    Errors,
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
)
from vocabtool.words.tokenizing import RegexSplit, ScriptSplit, WhitespaceSplit

MAX_OPS: Final = 500  # on one way
MAX_WAYS: Final = 64  # a function may be called from many places

# Ops whose first input is what they give, whatever they do to its shape.
SAME: Final = frozenset(
    (
        *(b"Identity", b"IdentityN", b"Reshape", b"ExpandDims", b"Squeeze", b"StopGradient"),
        *(b"Snapshot", b"PreventGradient", b"EnsureShape", b"PlaceholderWithDefault"),
        *(b"TensorListGetItem", b"TensorListFromTensor", b"TensorArrayReadV3"),
    )
)
SCRIPT_TOKENIZER: Final = b"UnicodeScriptTokenizeWithOffsets"
CODE_POINT_TOKENIZERS: Final = frozenset((SCRIPT_TOKENIZER, b"WhitespaceTokenizeWithOffsets"))
DECODES: Final = frozenset((b"UnicodeDecode", b"UnicodeDecodeWithOffsets"))
SPLITS: Final = frozenset((b"StringSplitV2", b"StringSplit"))
# What TensorFlow computes row splits of the row of each word with.
ROW_SPLITS: Final = frozenset(
    (
        *(b"Const", b"Identity", b"Cast", b"Reshape", b"Pack", b"ConcatV2", b"StridedSlice"),
        *(b"Cumsum", b"Bincount", b"DenseBincount", b"Size", b"Shape", b"Prod", b"Max"),
        *(b"Maximum", b"Minimum", b"Mul", b"AddV2", b"Greater"),
    )
)
BRANCHES: Final = frozenset((b"If", b"StatelessIf"))
LOOPS: Final = frozenset((b"While", b"StatelessWhile"))
SIZES: Final = frozenset((b"Size", b"Shape", b"StridedSlice", b"Cast", b"Identity", b"Prod"))


class Way(NamedTuple):
    """``steps``: from the text to the words. ``text``: what the model calls its input."""

    steps: tuple[Step, ...]
    text: str


class Unclear(NamedTuple):
    """Why a way is not understood. ``op``: the op that is in the way."""

    op: str
    why: str


class _Here(NamedTuple):
    """A place on the way back: ``steps``: those found so far, the last first."""

    body: Body
    reference: Reference
    calls: tuple[tuple[Body, Node], ...]
    steps: tuple[Step, ...]


class _Stop(Exception):
    def __init__(self, op: bytes, why: str) -> None:
        self.unclear = Unclear(printable(op), why)


def recover(linker: Linker, body: Body, reference: Reference) -> Way | Unclear:
    """The way to a string tensor, where all ways in to its function agree."""
    try:
        return _Recovery(linker).recover(body, reference)
    except _Stop as stop:
        return stop.unclear


class _Recovery:
    """One walk back."""

    def __init__(self, linker: Linker) -> None:
        self._linker = linker
        self._seen = 0

    def recover(self, body: Body, reference: Reference) -> Way | Unclear:
        ways: dict[Way, None] = {}
        unclear: dict[Unclear, None] = {}
        for way in self._ways(_Here(body, reference, (), ())):
            if isinstance(way, Way):
                ways[way] = None
            else:
                unclear[way] = None
        if len({way.steps for way in ways}) == 1 and not unclear:
            return next(iter(ways))
        if ways and not unclear:
            return Unclear("", "texts reach it in several ways")
        return next(iter(unclear), Unclear("", "no text reaches it"))

    def _ways(self, here: _Here) -> Iterator[Way | Unclear]:
        waiting = [here]
        found = 0
        while waiting:
            if found + len(waiting) > MAX_WAYS:
                raise _Stop(b"", f"texts reach it in more than {MAX_WAYS} ways")
            here = waiting.pop()
            try:
                following = self._back(here)
            except _Stop as stop:
                found += 1
                yield stop.unclear
                continue
            if isinstance(following, Way):
                found += 1
                yield following
            else:
                waiting += following

    def _back(self, here: _Here) -> Way | list[_Here]:
        """One op further back: the end of the way, or where to go on."""
        self._seen += 1
        if self._seen > MAX_OPS * MAX_WAYS:
            raise _Stop(b"", "the way does not end")
        node = here.body.node(here.reference.name)
        if node is None:
            return self._argument(here)
        called = self._linker.graph.functions.get(_function_of(node))
        if called is not None:
            if here.reference.output >= len(called.returns):
                raise _Stop(node.op, "its output is not to be found")
            returned = called.returns[here.reference.output]
            return [_Here(called, returned, (*here.calls, (here.body, node)), here.steps)]
        if node.op == b"Placeholder" and not here.body.name:
            return Way(tuple(reversed(here.steps)), _input_name(node.name))
        steps, following = _Op(self._linker, here, node).step()
        return [here._replace(reference=following, steps=(*here.steps, *reversed(steps)))]

    def _argument(self, here: _Here) -> Way | list[_Here]:
        """From a function's argument to whoever calls it; the end where nobody does."""
        body, name = here.body, here.reference.name
        if name not in body.arguments:
            raise _Stop(b"", "a tensor that nothing makes")
        callers = [here.calls[-1]] if here.calls else self._linker.callers(body.name)
        if not callers:
            if self._linker.captured(body, name):
                raise _Stop(b"Const", "its words are constants, not from a text")
            return Way(tuple(reversed(here.steps)), _input_name(name))
        return [self._passed(here, caller, node) for caller, node in callers]

    def _passed(self, here: _Here, caller: Body, node: Node) -> _Here:
        """The input of a call that becomes the argument; inputs and arguments match at the end."""
        body = here.body
        from_end = len(body.arguments) - body.arguments.index(here.reference.name)
        if from_end > len(node.data_inputs):
            raise _Stop(node.op, "it passes too few arguments")
        if node.op in LOOPS:
            _stays(body, here.reference.name, from_end)
        elif node.op in BRANCHES:
            self._is_taken(caller, node, body)
        elif _function_of(node) != body.name:
            raise _Stop(node.op, "what it passes to its function is not known")
        return here._replace(
            body=caller, reference=node.data_inputs[-from_end], calls=here.calls[:-1]
        )

    def _is_taken(self, caller: Body, node: Node, body: Body) -> None:
        """Whether a branch is the one for every batch that has texts in it."""
        condition = caller.node(node.data_input(0).name)
        asks = condition.op if condition else b""
        if condition is not None and asks in (b"Greater", b"GreaterEqual", b"NotEqual"):
            least = scalar(self._linker.origin(caller, condition.data_input(1)))
            wanted = {b"Greater": 0, b"NotEqual": 0, b"GreaterEqual": 1}[asks]
            if least == wanted and _is_size(caller, condition.data_input(0)):
                if body.name in node.functions_of(b"then_branch"):
                    return
                raise _Stop(node.op, "a branch for a batch without texts")
        raise _Stop(node.op, "it chooses by what it reads")


def _function_of(node: Node) -> bytes:
    return node.function() if node.op.endswith(b"PartitionedCall") else node.op


def _input_name(name: bytes) -> str:
    return printable(name).removeprefix("serving_default_")


def _stays(body: Body, argument: bytes, from_end: int) -> None:
    """Refuse an argument that a loop changes from one turn to the next."""
    at = len(body.returns) - from_end
    returned = body.returns[at] if at >= 0 else None
    for _ in range(MAX_OPS):
        if returned is None or returned.name == argument:
            break
        node = body.node(returned.name)
        returned = node.data_input(0) if node is not None and node.op == b"Identity" else None
    if returned is None:
        raise _Stop(b"While", "a loop changes its texts from turn to turn")


def _is_size(body: Body, reference: Reference) -> bool:
    """Whether a number is a tensor's size: more than none where there is text."""
    for _ in range(MAX_OPS):
        node = body.node(reference.name)
        if node is None or node.op not in SIZES:
            return False
        if node.op in (b"Size", b"Shape"):
            return True
        reference = node.data_input(0)
    return False


_Handled = tuple[tuple[Step, ...], Reference]


class _Op(NamedTuple):
    """One op on the way: what it does, and which of its inputs to follow."""

    linker: Linker
    here: _Here
    node: Node

    def step(self) -> _Handled:
        node = self.node
        if node.op in SAME:
            return (), node.data_input(self.here.reference.output if node.op == b"IdentityN" else 0)
        if node.op in BRANCHES | LOOPS:
            raise _Stop(node.op, "what it gives depends on what it reads")
        handler = HANDLERS.get(node.op.removeprefix(b"TFText>"))
        if handler is None:
            raise _Stop(node.op, "vocabtool does not know what it does to words")
        return handler(self)

    def gives(self, part: bytes, output: int) -> bool:
        """Whether the way leads over this output of the op."""
        reference = self.here.reference
        return reference.part == part if reference.part else reference.output == output

    def only(self, part: bytes, output: int) -> None:
        if not self.gives(part, output):
            raise _Stop(self.node.op, "another output of it than the words")

    def constant(self, position: int) -> bytes | int:
        """An input that must be a constant of one string or integer."""
        found = scalar(self.linker.origin(self.here.body, self.node.data_input(position)))
        if found is None:
            raise _Stop(self.node.op, "an input that decides what it does is not a constant")
        return found

    def text_constant(self, position: int) -> bytes:
        found = self.constant(position)
        if not isinstance(found, bytes):
            raise _Stop(self.node.op, "wanted a constant string")
        return found

    def pattern(self, text: bytes) -> str:
        try:
            return text.decode()
        except UnicodeDecodeError:
            raise _Stop(self.node.op, "a pattern that is not UTF-8") from None

    def flag(self, key: bytes, default: bool) -> bool:
        return bool(self.node.integer_of(key, int(default)))

    def decoding(self) -> Decoding:
        node = self.node
        encoding = node.bytes_of(b"input_encoding")
        if encoding.upper() not in (b"UTF-8", b"UTF8"):
            raise _Stop(node.op, f"its texts are {printable(encoding)}, not UTF-8")
        errors = node.bytes_of(b"errors").decode("ascii", "replace") or "replace"
        if errors not in get_args(Errors):
            raise _Stop(node.op, f"errors={errors!r}")
        replacement = node.integer_of(b"replacement_char", 0xFFFD)
        if not 0 <= replacement <= 0x10FFFF:
            raise _Stop(node.op, f"a replacement character {replacement}")
        controls = self.flag(b"replace_control_characters", False)
        return Decoding(cast(Errors, errors), replacement, controls)

    def behind(self, reference: Reference) -> Node | None:
        """The node that makes a tensor, apart from changes of its shape."""
        node = self.here.body.node(reference.name)
        for _ in range(MAX_OPS):
            if node is None or node.op not in SAME:
                break
            node = self.here.body.node(node.data_input(0).name)
        return node

    def rows_of(self, node: Node) -> bool:
        """Whether the op's second input, where rows begin, is an output of ``node``."""
        maker = self.behind(self.node.data_input(1))
        return maker is not None and maker.name == node.name

    def decoder(self, reference: Reference) -> tuple[_Op, bool]:
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
        raise _Stop(self.node.op, "code points that are not those of a text")


def _case(make: Callable[[bool], Step]) -> Callable[[_Op], _Handled]:
    def handle(op: _Op) -> _Handled:
        encoding = op.node.bytes_of(b"encoding").lower()
        if encoding not in (b"", b"utf-8"):
            raise _Stop(op.node.op, f"encoding {printable(encoding)}")
        return (make(encoding == b"utf-8"),), op.node.data_input(0)

    return handle


def _static_regex_replace(op: _Op) -> _Handled:
    pattern, rewrite = op.node.bytes_of(b"pattern"), op.node.bytes_of(b"rewrite")
    return _replacement(op, pattern, rewrite)


def _regex_replace(op: _Op) -> _Handled:
    return _replacement(op, op.text_constant(1), op.text_constant(2))


def _replacement(op: _Op, pattern: bytes, rewrite: bytes) -> _Handled:
    every = op.flag(b"replace_global", True)
    step = RegexReplace(op.pattern(pattern), op.pattern(rewrite), every)
    return (step,), op.node.data_input(0)


def _strip(op: _Op) -> _Handled:
    return (Strip(),), op.node.data_input(0)


def _split_v2(op: _Op) -> _Handled:
    op.only(b"values", 1)
    separator, most = op.text_constant(1), op.node.integer_of(b"maxsplit", -1)
    step = SplitOn(separator, most) if separator else SplitWhitespace(most)
    return (step,), op.node.data_input(0)


def _split_v1(op: _Op) -> _Handled:
    op.only(b"values", 1)
    step = SplitAtAny(op.text_constant(1), op.flag(b"skip_empty", True))
    return (step,), op.node.data_input(0)


def _join(op: _Op) -> _Handled:
    """Constants around one tensor; two tensors side by side are not understood."""
    separator = op.node.bytes_of(b"separator")
    parts: list[bytes | None] = []
    text: Reference | None = None
    for position, reference in enumerate(op.node.data_inputs):
        found = scalar(op.linker.origin(op.here.body, reference))
        if found is None and text is not None:
            raise _Stop(op.node.op, "it joins two texts")
        text = reference if found is None else text
        parts.append(op.text_constant(position) if found is not None else None)
    if text is None:
        raise _Stop(op.node.op, "its words are constants, not from a text")
    at = parts.index(None)
    before = b"".join(part + separator for part in parts[:at] if part is not None)
    after = b"".join(separator + part for part in parts[at + 1 :] if part is not None)
    return (Join(before, after),), text


def _substr(op: _Op) -> _Handled:
    unit = op.node.bytes_of(b"unit").decode("ascii", "replace") or "BYTE"
    start, length = op.constant(1), op.constant(2)
    if unit not in get_args(Unit) or isinstance(start, bytes) or isinstance(length, bytes):
        raise _Stop(op.node.op, "parts of a string that are not told in numbers")
    return (Substr(start, length, cast(Unit, unit)),), op.node.data_input(0)


def _transcode(op: _Op) -> _Handled:
    if op.node.bytes_of(b"output_encoding").upper() not in (b"UTF-8", b"UTF8"):
        raise _Stop(op.node.op, "it makes text that is not UTF-8")
    return (Transcode(op.decoding()),), op.node.data_input(0)


def _encode(op: _Op) -> _Handled:
    """Code points back to strings: of a character each, of a text each, or of a word each."""
    if op.node.bytes_of(b"output_encoding").upper() not in (b"UTF-8", b"UTF8"):
        raise _Stop(op.node.op, "it makes text that is not UTF-8")
    made_by = op.behind(op.node.data_input(0))
    if made_by is not None and made_by.op in CODE_POINT_TOKENIZERS:
        return _code_point_words(op, made_by)
    decoder, apart = op.decoder(op.node.data_input(0))
    decoding = decoder.decoding()
    step: Step = Characters(decoding) if apart else Transcode(decoding)
    if not apart and not op.rows_of(decoder.node):
        raise _Stop(op.node.op, "rows of code points that are not those of the texts")
    return (step,), decoder.node.data_input(0)


def _code_point_words(op: _Op, tokenizer: Node) -> _Handled:
    """Words as code points, which UnicodeEncode makes strings of."""
    decoder, apart = op.decoder(tokenizer.data_input(0))
    if apart or not op.rows_of(tokenizer):
        raise _Stop(tokenizer.op, "rows of code points that are not those of its words")
    step: Step = WhitespaceSplit()
    if tokenizer.op == SCRIPT_TOKENIZER:
        step = ScriptSplit(bool(tokenizer.integer_of(b"keep_whitespace")))
    return (Transcode(decoder.decoding()), step), decoder.node.data_input(0)


def _ngrams(op: _Op) -> _Handled:
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
    return (step,), node.data_input(0)


def _normalize(op: _Op) -> _Handled:
    op.only(b"output", 0)
    form = op.node.bytes_of(b"normalization_form").decode("ascii", "replace").upper() or "NFKC"
    if form not in get_args(Form):
        raise _Stop(op.node.op, f"normalization form {form!r}")
    return (NormalizeUtf8(cast(Form, form)),), op.node.data_input(0)


def _case_fold(op: _Op) -> _Handled:
    return (CaseFold(),), op.node.data_input(0)


def _bert_normalize(op: _Op) -> _Handled:
    op.only(b"output_values", 0)
    model = op.linker.origin(op.here.body, op.node.data_input(1))
    tensor = model.node.tensor_of(b"value") if model is not None and model.node else None
    if tensor is None or tensor.dtype not in (DT_UINT8, DT_INT8):
        raise _Stop(op.node.op, "its model is not a constant")
    try:
        step = read_bert_normalizer(tensors.raw_bytes(tensor))
    except InvalidFile as error:
        raise _Stop(op.node.op, f"its model is damaged: {error}") from error
    return (step,), op.node.data_input(0)


def _regex_split(op: _Op) -> _Handled:
    op.only(b"tokens", 0)
    delimiter, keep = op.pattern(op.text_constant(1)), op.pattern(op.text_constant(2))
    return (RegexSplit(delimiter, keep),), op.node.data_input(0)


def _whitespace_split(op: _Op) -> _Handled:
    op.only(b"output_tokens", 0)
    return (WhitespaceSplit(version=2),), op.node.data_input(0)


def _padded(op: _Op) -> _Handled:
    """Rows of words filled up with empty strings; a fixed length would cut words off."""
    tensor = op.linker.origin(op.here.body, op.node.data_input(0))
    node = tensor.node if tensor else None
    shape = node.tensor_of(b"value") if node is not None and node.op == b"Const" else None
    if shape is None or bool((tensors.integers(shape) >= 0).any()):
        raise _Stop(op.node.op, "it may cut off words")
    if op.constant(2) != b"":
        raise _Stop(op.node.op, "padding that is not empty")
    return (DropEmpty(),), op.node.data_input(1)


def _from_sparse(op: _Op) -> _Handled:
    if op.constant(3) != b"":
        raise _Stop(op.node.op, "padding that is not empty")
    return (DropEmpty(),), op.node.data_input(2)


def _gather_nd(op: _Op) -> _Handled:
    """What feature columns do: ``GatherNd(texts, Where(NotEqual(texts, "")))``."""
    body, texts = op.here.body, op.node.data_input(0)
    where = body.node(op.node.data_input(1).name)
    test = body.node(where.data_input(0).name) if where and where.op == b"Where" else None
    if test is None or test.op != b"NotEqual" or test.data_input(0) != texts:
        raise _Stop(op.node.op, "which texts it takes is not known")
    if scalar(op.linker.origin(body, test.data_input(1))) != b"":
        raise _Stop(op.node.op, "it leaves out other texts than empty ones")
    return (DropEmpty(),), texts


def _strided_slice(op: _Op) -> _Handled:
    """A slice that takes all: one that adds an axis, or the one row of a text cut by itself."""
    node = op.node
    if _takes_all(op) or _takes_the_row(op):
        return (), node.data_input(0)
    raise _Stop(node.op, "it may take a part of the words only")


def _takes_all(op: _Op) -> bool:
    strides = op.linker.origin(op.here.body, op.node.data_input(3))
    tensor = strides.node.tensor_of(b"value") if strides and strides.node else None
    if strides is None or strides.op != b"Const" or tensor is None:
        return False
    masks = [op.node.integer_of(key) for key in (b"begin_mask", b"end_mask", b"new_axis_mask")]
    begins, ends, axes = masks
    if op.node.integer_of(b"shrink_axis_mask") or op.node.integer_of(b"ellipsis_mask"):
        return False
    return all(
        axes >> i & 1 or (begins >> i & 1 and ends >> i & 1 and stride == 1)
        for i, stride in enumerate(tensors.integers(tensor).tolist())
    )


def _takes_the_row(op: _Op) -> bool:
    """``tf.strings.split(text)`` of one text: row 0 of ragged words of which there is one row."""
    split = op.behind(op.node.data_input(0))
    if split is None or split.op not in SPLITS:
        return False
    text = op.here.body.node(split.data_input(0).name)
    if text is None or text.op != b"Pack" or len(text.data_inputs) != 1:
        return False
    bounds = [op.node.data_input(1), op.node.data_input(2)]
    return all(_is_row_bound(op.here.body, bound, split.name) for bound in bounds)


def _is_row_bound(body: Body, bound: Reference, split: bytes) -> bool:
    """Whether a number is made of the rows of ``split`` as TensorFlow computes row splits."""
    waiting, seen, rows = [bound], set[bytes](), False
    while waiting and len(seen) < MAX_OPS:
        reference = waiting.pop()
        node = body.node(reference.name)
        if node is None or reference.name in seen:
            continue
        if node.name == split:
            if reference.part == b"values" or reference.output == 1:
                return False
            rows = True
            continue
        if node.op not in ROW_SPLITS:
            return False
        seen.add(node.name)
        waiting += node.data_inputs
    return rows and not waiting


def _pack(op: _Op) -> _Handled:
    if len(op.node.data_inputs) != 1:
        raise _Stop(op.node.op, "it puts several texts side by side")
    return (), op.node.data_input(0)


def _ngrams_join(op: _Op) -> _Handled:
    """tensorflow-text's n-grams of one width, joined along the last axis."""
    node = op.node
    if node.integer_of(b"axis", -1) != -1:
        raise _Stop(node.op, "it joins words of different texts")
    step = NGrams(node.bytes_of(b"string_separator"), (node.integer_of(b"width"),))
    return (step,), node.data_input(0)


def _from_constant(op: _Op) -> _Handled:
    tensor = op.node.tensor_of(b"value")
    what = "words" if tensor is not None and tensor.dtype == DT_STRING else "numbers"
    raise _Stop(op.node.op, f"its {what} are constants, not from a text")


HANDLERS: Final[dict[bytes, Callable[[_Op], _Handled]]] = {
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
    b"NgramsStringJoin": _ngrams_join,
    b"Const": _from_constant,
}
