"""Find where a model looks words up, and infer the rule that splits texts into these words.

The search follows the graph backwards, from the lookup op to the text input. At an op that is not
supported, the search stops and reports the op.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, NamedTuple

from vocabtool.errors import NoVocabulary, VocabtoolError, reading
from vocabtool.formats.reader import Model
from vocabtool.formats.saved_model import graph_files, tokenizers
from vocabtool.formats.saved_model.graph import (
    DT_STRING,
    PIECE_OP,
    TABLE_OP,
    Body,
    Node,
    Reference,
)
from vocabtool.formats.saved_model.graph_files import read_model
from vocabtool.formats.saved_model.meta_graph import Linker, pick_serving
from vocabtool.formats.saved_model.tables import FINDS, WORDPIECES
from vocabtool.tokenization.lookup import (
    RuleTokenizer,
    SentencePieceTokenizer,
    Tokenizer,
    WordPiece,
    WordPieceTokenizer,
    read_fast_wordpiece,
)
from vocabtool.tokenization.op_steps import (
    BRANCHES,
    MAX_OPS,
    TracePoint,
    Unclear,
    steps_of,
)
from vocabtool.tokenization.rule import Rule
from vocabtool.tokenization.steps import BertSplit
from vocabtool.tokenization.text_arrays import Step
from vocabtool.vocabulary import Vocabulary, printable

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
UNDERSTOOD: Final[frozenset[LookupKind]] = frozenset(
    ("table", "wordpiece", "fast wordpiece", "sentencepiece")
)
NAME_IT: Final = "name a rule that makes the same words with --rule (in Python rule=)"
NAME_FILE: Final = (
    "its entries are subword pieces: name the file of their tokenizer, if you have it, with --rule "
    "tokenizer:FILE (in Python rule=)"
)
MAX_WAYS: Final = 64  # call paths to a function
NO_TEXTS: Final = "a branch for a batch without texts"
SIZES: Final = frozenset((b"Size", b"Shape", b"StridedSlice", b"Cast", b"Identity", b"Prod"))
# The smallest number of texts that a branch condition must accept.
LEAST_SIZES: Final = {b"Greater": 0, b"NotEqual": 0, b"GreaterEqual": 1}


TextSteps = tuple[tuple[Step, ...], str]  # and the name of the model's text input


def infer_steps(point: TracePoint) -> TextSteps | Unclear:
    """Return the steps from the text to a tensor.

    The result is :class:`Unclear` if an op is not supported, or if two paths from the text have
    different steps.
    """
    waiting: list[tuple[TracePoint, tuple[Step, ...]]] = [
        (point, ())
    ]  # steps: the last comes first
    seen = 0
    ways: list[TextSteps] = []
    unclear: list[Unclear] = []
    while waiting:
        if len(ways) + len(unclear) + len(waiting) > MAX_WAYS:
            return Unclear("", f"more than {MAX_WAYS} paths lead to the lookup")
        seen += 1
        if seen > MAX_OPS * MAX_WAYS:
            return Unclear("", "the path from the lookup to the text does not end")
        here, steps = waiting.pop()
        try:
            before = _step_back(here)
        except Unclear as error:
            unclear.append(error)
            continue
        if isinstance(before, bytes):
            text = printable(before).removeprefix("serving_default_")
            ways.append((steps[::-1], text))
        else:
            own, points = before
            waiting += [(source, (*steps, *reversed(own))) for source in points]
    if unclear or not ways:
        return next(iter(unclear), Unclear("", "no text reaches the lookup"))
    if len({steps for steps, _ in ways}) > 1:
        return Unclear("", "texts reach the lookup by different rules")
    return ways[0]


def _step_back(point: TracePoint) -> tuple[tuple[Step, ...], list[TracePoint]] | bytes:
    """Return the steps of the op that makes a tensor, and the tensors that the op may read.

    For an input of the model, return its name.
    """
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
            condition = TracePoint(point.linker, caller, call.data_input(0), point.calls[:-1])
            _check_branch(condition, call, point.body)
    return (), [point.outside(*call) for call in callers]


def _check_branch(condition: TracePoint, branch: Node, body: Body) -> None:
    """Raise :class:`Unclear` if a batch with texts might skip this branch."""
    test = condition.node
    if test is not None and test.op in LEAST_SIZES:
        least = condition.input(1).scalar()
        if least == LEAST_SIZES[test.op] and _is_size(condition.input(0)):
            if body.name in branch.functions_of(b"then_branch"):
                return
            raise Unclear(printable(branch.op), NO_TEXTS)
    raise Unclear(printable(branch.op), "the text may decide which branch runs")


def _is_size(number: TracePoint) -> bool:
    for _ in range(MAX_OPS):
        node = number.node
        if node is None or node.op not in SIZES:
            return False
        number = number.input(0)
        if node.op in (b"Size", b"Shape"):
            texts = infer_steps(number)
            return not isinstance(texts, Unclear) and not texts[0]
    return False


def maker_of(linker: Linker, body: Body, handle: Reference) -> tuple[Body, Node] | None:
    """Return the node that creates a resource, and the graph or function that contains the node."""
    origin = linker.origin(body, handle)
    return (origin.body, origin.node) if origin is not None and origin.node else None


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
        """Return the tokenizer that makes the words.

        Raises :class:`VocabtoolError` if the rule or the tokenizer is not supported.
        """
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
                    buffer = tokenizers.buffer_of(self.linker, self.body, node)
                    wordpiece, end_to_end = read_fast_wordpiece(buffer)
                steps = (*self.rule.steps, BertSplit()) if end_to_end else self.rule.steps
                return WordPieceTokenizer(Rule(steps), vocabulary, wordpiece)
            case "sentencepiece":
                maker = maker_of(self.linker, self.body, node.data_input(0))
                if maker is None:
                    raise VocabtoolError(
                        f"{vocabulary.name}: its SentencePiece model was not found"
                    )
                nbest = None
                with suppress(Unclear):
                    nbest = TracePoint(self.linker, self.body, node.data_input(2)).scalar()
                if nbest not in (0, 1):
                    raise VocabtoolError(
                        f"{vocabulary.name}: the model splits texts at random (nbest_size "
                        f"{nbest!r}), so its words differ from run to run"
                    )
                model = maker[1].bytes_of(b"model")
                return SentencePieceTokenizer(model, vocabulary, self.rule)
            case _:
                raise VocabtoolError(
                    f"{vocabulary.name}: the op {printable(node.op)} is not supported; {NAME_IT}"
                )


def _lookup_paths(linker: Linker, tables: dict[bytes, Vocabulary]) -> Iterator[LookupPath]:
    nodes = (
        (body, node)
        for body in linker.graph.bodies
        for mark in (TABLE_OP, PIECE_OP)
        for node in body.nodes_with(mark)
    )
    for body, node in nodes:
        op = node.op.removeprefix(b"TFText>")
        vocabulary: Vocabulary | None = None
        kind: LookupKind = "wordpiece" if op in WORDPIECES else "table"
        text = 0 if op in WORDPIECES else 1
        if op in WORDPIECES or (op in FINDS and node.integer_of(b"Tin") == DT_STRING):
            table = linker.table(body, node.data_input(1 - text))
            vocabulary = tables.get(table.key) if table else None
        elif op in TOKENIZERS:
            kind, text = TOKENIZERS[op]
            maker: tuple[Body, Node] | None = (body, node)
            if kind == "sentencepiece":
                maker = maker_of(linker, body, node.data_input(0))
            if maker is not None:
                with suppress(VocabtoolError, KeyError):
                    vocabulary = tokenizers.read_tokenizer(linker, *maker, {})
        if vocabulary is None:
            continue
        way = infer_steps(TracePoint(linker, body, node.data_input(text)))
        rule, name = (way, "") if isinstance(way, Unclear) else (Rule(way[0]), way[1])
        yield LookupPath(vocabulary, rule, name, kind, linker, body, node)


def read_lookup_paths(model: str | Path) -> tuple[Model, tuple[LookupPath, ...]]:
    """Read a model; return its contents and all its lookups.

    The order is: words with a supported rule, words with an unclear rule, n-grams. In each group,
    the largest vocabulary comes first.
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

    def order(path: LookupPath) -> tuple[bool, bool, int]:
        ngrams = isinstance(path.rule, Rule) and path.rule.ngrams
        return (ngrams, isinstance(path.rule, Unclear), -len(path.vocabulary))

    return contents, tuple(sorted(paths.values(), key=order))


def choose(paths: Sequence[LookupPath], model: Model, name: str | None) -> LookupPath:
    """Return the first of ``paths`` whose vocabulary has a given name.

    ``name``: The name of the vocabulary; ``None`` allows any vocabulary.
    """
    wanted = [path for path in paths if name is None or path.vocabulary.name == name]
    if wanted:
        return wanted[0]
    if name is not None:
        names = dict.fromkeys(path.vocabulary.name for path in paths)
        listed = "".join(f"\n  {known}" for known in names) or " none"
        raise NoVocabulary(
            f"{model.path}: the model looks up no words in a vocabulary named {name!r}; it looks "
            f"up words in:{listed}"
        )
    files = [v.places[0].file for v in model.vocabularies if v.kind == "sentencepiece" and v.places]
    file = next((Path(model.path, file) for file in files if file.endswith(".model")), None)
    rule = f"--rule tokenizer:{file}" if file else "--rule"
    raise NoVocabulary(
        f"{model.path}: no supported op of the model looks words up (the model takes ids, "
        f"or its tokenizer is not supported); use {rule} to name a rule that splits texts into "
        "words, and --name to name the vocabulary (`vocabtool inspect` lists the vocabularies)"
    )
