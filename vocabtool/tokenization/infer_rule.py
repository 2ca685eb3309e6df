"""The way from a text to the words that a lookup gets, read backwards off a model's graph.

From the op's input through string ops, calls, captures, loops and branches to where the text comes
in. What each op does is in ``op_steps.py``, what stands around it in ``graph_trace.py``. An op that
is not understood ends the way with its name: nothing is guessed.

Every way in which a model looks words up, which of them a report is about, and its tokenizer.

A site, which is an op that looks words up, is joined to the steps of its text (``infer_rule.py``)
and to the vocabulary as ``inspect`` names it. Ways that are not understood are kept, with their
reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

from vocabtool.errors import InvalidFile, NoVocabulary, VocabtoolError, reading
from vocabtool.formats.reader import Model
from vocabtool.formats.saved_model import graph_files, tensors, tokenizers
from vocabtool.formats.saved_model.graph import PHRASE_OP, PIECE_OP, TABLE_OP, Body, Node, Reference
from vocabtool.formats.saved_model.graph_files import read_model, read_tables
from vocabtool.formats.saved_model.linker import Linker
from vocabtool.formats.saved_model.meta_graph import pick_serving
from vocabtool.formats.saved_model.tables import FINDS, WORDPIECES
from vocabtool.formats.saved_model.tensors import DT_BOOL, DT_STRING, INTEGERS
from vocabtool.tokenization.graph_trace import BRANCHES, MAX_OPS, NotUnderstood, TracePoint, Unclear
from vocabtool.tokenization.lookup import (
    RuleTokenizer,
    TableLexicon,
    Tokenizer,
    WordPiece,
    WordPieceLexicon,
    read_fast_wordpiece,
)
from vocabtool.tokenization.op_steps import OpOnWay, steps_of
from vocabtool.tokenization.rule import Rule
from vocabtool.tokenization.sentencepiece import SentencePieces, SentencePieceTokenizer
from vocabtool.tokenization.text_arrays import Step
from vocabtool.tokenization.text_steps import BertSplit
from vocabtool.vocabulary import Vocabulary, printable

MAX_WAYS: Final = 64  # a function may be called from many places
NO_TEXTS: Final = "a branch for a batch without texts"
SIZES: Final = frozenset((b"Size", b"Shape", b"StridedSlice", b"Cast", b"Identity", b"Prod"))
# The least number that a branch on the number of texts must be tested for.
LEAST_SIZES: Final = {b"Greater": 0, b"NotEqual": 0, b"GreaterEqual": 1}


class TextSteps(NamedTuple):
    """``steps``: from the text to the words. ``text``: what the model calls its input."""

    steps: tuple[Step, ...]
    text: str


class _Progress(NamedTuple):
    """A point on the way back. ``steps``: those found so far, the last first."""

    point: TracePoint
    steps: tuple[Step, ...]

    def end(self, name: bytes) -> TextSteps:
        text = printable(name).removeprefix("serving_default_")
        return TextSteps(tuple(reversed(self.steps)), text)


def infer_steps(linker: Linker, body: Body, reference: Reference) -> TextSteps | Unclear:
    """The way to a string tensor, where all ways in to its function agree."""
    try:
        return _Inference().infer(TracePoint(linker, body, reference))
    except NotUnderstood as error:
        return error.unclear


class _Inference:
    """One walk back."""

    def __init__(self) -> None:
        self._seen = 0

    def infer(self, point: TracePoint) -> TextSteps | Unclear:
        found: dict[TextSteps, None] = {}
        unclear: dict[Unclear, None] = {}
        for end in self._ends(_Progress(point, ())):
            if isinstance(end, TextSteps):
                found[end] = None
            else:
                unclear[end] = None
        if len({way.steps for way in found}) == 1 and not unclear:
            return next(iter(found))
        if found and not unclear:
            return Unclear("", "texts reach it in several ways")
        return next(iter(unclear), Unclear("", "no text reaches it"))

    def _ends(self, start: _Progress) -> Iterator[TextSteps | Unclear]:
        waiting = [start]
        ends = 0
        while waiting:
            if ends + len(waiting) > MAX_WAYS:
                raise NotUnderstood(b"", f"texts reach it in more than {MAX_WAYS} ways")
            here = waiting.pop()
            try:
                following = self._step_back(here)
            except NotUnderstood as error:
                ends += 1
                yield error.unclear
                continue
            if isinstance(following, TextSteps):
                ends += 1
                yield following
            else:
                waiting += following

    def _step_back(self, here: _Progress) -> TextSteps | list[_Progress]:
        """One op further back: the end of the way, or where to go on."""
        self._seen += 1
        if self._seen > MAX_OPS * MAX_WAYS:
            raise NotUnderstood(b"", "the way does not end")
        point, node = here.point, here.point.node
        if node is None:
            return self._leave_function(here)
        inside = point.inside(node)
        if inside is not None:
            return [here._replace(point=inside)]
        if node.op == b"Placeholder" and not point.body.name:
            return here.end(node.name)
        steps, source = steps_of(OpOnWay(point, node))
        return [_Progress(point._replace(reference=source), (*here.steps, *reversed(steps)))]

    def _leave_function(self, here: _Progress) -> TextSteps | list[_Progress]:
        """From a function's argument to whoever calls it; the end where nobody does."""
        point = here.point
        callers = point.callers()
        if not callers:
            if point.linker.is_captured(point.body, point.reference.name):
                raise NotUnderstood(b"Const", "its words are constants, not from a text")
            return here.end(point.reference.name)
        following = []
        for caller, node in callers:
            if node.op in BRANCHES:
                condition = TracePoint(point.linker, caller, node.data_input(0), point.calls[:-1])
                self._check_branch(condition, node, point.body)
            following.append(here._replace(point=point.outside(caller, node)))
        return following

    def _check_branch(self, condition: TracePoint, node: Node, body: Body) -> None:
        """Refuse a branch that is not the one for every batch that has texts in it."""
        test = condition.node
        if test is not None and test.op in LEAST_SIZES:
            least = condition.input(test, 1).scalar()
            if least == LEAST_SIZES[test.op] and self._is_size(condition.input(test, 0)):
                if body.name in node.functions_of(b"then_branch"):
                    return
                raise NotUnderstood(node.op, NO_TEXTS)
        raise NotUnderstood(node.op, "it chooses by what it reads")

    def _is_size(self, number: TracePoint) -> bool:
        """Whether a number is the size of the texts themselves, as they come in."""
        for _ in range(MAX_OPS):
            node = number.node
            if node is None or node.op not in SIZES:
                return False
            number = number.input(node, 0)
            if node.op in (b"Size", b"Shape"):
                texts = _Inference().infer(number)
                return isinstance(texts, TextSteps) and not texts.steps
        return False


LookupKind = Literal[
    "table", "wordpiece", "fast wordpiece", "sentencepiece", "fast sentencepiece", "phrase"
]
SENTENCEPIECE_OPS: Final = frozenset(
    (b"SentencepieceTokenizeOp", b"SentencepieceTokenizeWithOffsetsOp")
)
# Tokenizers that bring their own model as a buffer, and which input the text is.
TEXT_INPUTS: Final[dict[bytes, tuple[LookupKind, int]]] = {
    b"FastWordpieceTokenizeWithOffsets": ("fast wordpiece", 0),
    b"FastSentencepieceTokenize": ("fast sentencepiece", 1),
    b"PhraseTokenize": ("phrase", 0),
}


class LookupSite(NamedTuple):
    """One op that looks words up. ``text``: the tensor of words or texts that it gets."""

    body: Body
    node: Node
    kind: LookupKind
    vocabulary: Vocabulary
    text: Reference


def find_lookup_sites(linker: Linker, tables: dict[bytes, Vocabulary]) -> Iterator[LookupSite]:
    """Yield every op that looks strings up. ``tables``: vocabularies by the table's key."""
    for body in linker.graph.bodies:
        for node in body.nodes_with(TABLE_OP):
            if node.op in FINDS and node.integer_of(b"Tin") == DT_STRING:
                yield from _table_site(linker, tables, body, node, "table", 0)
        for mark in (PIECE_OP, PHRASE_OP):
            for node in body.nodes_with(mark):
                yield from _tokenizer_site(linker, tables, body, node)


def _table_site(
    linker: Linker,
    tables: dict[bytes, Vocabulary],
    body: Body,
    node: Node,
    kind: LookupKind,
    handle: int,
) -> Iterator[LookupSite]:
    table = linker.table(body, node.data_input(handle))
    vocabulary = tables.get(table.key) if table else None
    if vocabulary is not None:
        yield LookupSite(body, node, kind, vocabulary, node.data_input(1 - handle))


def _tokenizer_site(
    linker: Linker, tables: dict[bytes, Vocabulary], body: Body, node: Node
) -> Iterator[LookupSite]:
    op = node.op.removeprefix(b"TFText>")
    if op in WORDPIECES:
        yield from _table_site(linker, tables, body, node, "wordpiece", 1)
    elif op in SENTENCEPIECE_OPS:
        maker = maker_of(linker, body, node.data_input(0))
        if maker is not None:
            found = _tokenizer(linker, *maker)
            if found is not None:
                yield LookupSite(body, node, "sentencepiece", found, node.data_input(1))
    elif op in TEXT_INPUTS:
        kind, text = TEXT_INPUTS[op]
        found = _tokenizer(linker, body, node)
        if found is not None:
            yield LookupSite(body, node, kind, found, node.data_input(text))


def maker_of(linker: Linker, body: Body, handle: Reference) -> tuple[Body, Node] | None:
    """The node that makes a resource, also where it is a saved object with a creator."""
    origin = linker.origin(body, handle)
    if origin is not None and origin.object_id is not None:
        creator = linker.graph.functions.get(linker.graph.objects.creator(origin.object_id))
        made = creator.returns[0] if creator is not None and creator.returns else None
        origin = linker.origin(creator, made) if creator is not None and made else None
    return (origin.body, origin.node) if origin is not None and origin.node else None


def _tokenizer(linker: Linker, body: Body, node: Node) -> Vocabulary | None:
    """A tokenizer's own vocabulary; one that cannot be read is ``inspect``'s to tell of."""
    try:
        return tokenizers.read_tokenizer(linker, body, node, {})
    except (VocabtoolError, KeyError):
        return None


# A lookup of what these ops give looks up pieces of words: the op itself is the site.
PIECES_OF: Final = ("WordpieceTokenizeWithOffsets",)
UNDERSTOOD: Final[frozenset[LookupKind]] = frozenset(
    ("table", "wordpiece", "fast wordpiece", "sentencepiece")
)
RUN_IT: Final = "Exact words need TensorFlow: pip install '.[tensorflow]' and ask for --exact-words"


class LookupPath(NamedTuple):
    """One lookup of a model. ``rule``: how its words come from a text, or why that is not clear.

    ``sites``: the ops, several where a function is in the model more than once.
    """

    vocabulary: Vocabulary
    rule: Rule | Unclear
    text: str
    sites: tuple[LookupSite, ...]
    linker: Linker

    @property
    def is_understood(self) -> bool:
        """Whether :meth:`tokenizer` knows how texts are cut, and words into pieces."""
        return isinstance(self.rule, Rule) and self.sites[0].kind in UNDERSTOOD

    @property
    def places(self) -> frozenset[tuple[bytes, bytes]]:
        """The function and the node of each site."""
        return frozenset((site.body.name, site.node.name) for site in self.sites)

    def tokenizer(self) -> Tokenizer:
        """What cuts texts and looks words up in this way.

        Raises :class:`VocabtoolError` where its rule, or the tokenizer, is not understood.
        """
        rule, site, vocabulary = self._known_rule(), self.sites[0], self.vocabulary
        match site.kind:
            case "table":
                return RuleTokenizer(rule, TableLexicon(vocabulary))
            case "wordpiece":
                return RuleTokenizer(rule, WordPieceLexicon(vocabulary, self._wordpiece()))
            case "fast wordpiece":
                return self._fast_wordpiece(rule)
            case "sentencepiece":
                return SentencePieceTokenizer(rule, self.sentencepieces(), vocabulary)
            case _:
                raise VocabtoolError(
                    f"{vocabulary.name}: what the op {printable(site.node.op)} does is not "
                    f"understood. {RUN_IT}"
                )

    def _known_rule(self) -> Rule:
        if isinstance(self.rule, Rule):
            return self.rule
        op = f"the op {self.rule.op}: " if self.rule.op else ""
        raise VocabtoolError(
            f"{self.vocabulary.name}: how the model cuts texts is not understood: {op}"
            f"{self.rule.why}. {RUN_IT}"
        )

    def _wordpiece(self) -> WordPiece:
        """As the attributes of WordpieceTokenizeWithOffsets say."""
        node, vocabulary = self.sites[0].node, self.vocabulary
        return WordPiece(
            dict(zip(vocabulary.stored, vocabulary.id_array().tolist(), strict=True)),
            suffix_indicator=node.bytes_of(b"suffix_indicator"),
            max_bytes_per_word=node.integer_of(b"max_bytes_per_word"),
            max_chars_per_token=node.integer_of(b"max_chars_per_token"),
            unknown_token=(
                node.bytes_of(b"unknown_token") if node.integer_of(b"use_unknown_token") else None
            ),
            split_unknown_characters=bool(node.integer_of(b"split_unknown_characters")),
            unknown_id=vocabulary.unknown.id if vocabulary.unknown is not None else -1,
        )

    def _fast_wordpiece(self, rule: Rule) -> Tokenizer:
        """As the flatbuffer of FastWordpieceTokenizeWithOffsets says, which may cut texts, too."""
        site = self.sites[0]
        with reading(self.vocabulary.name):
            buffer = tokenizers.buffer_of(self.linker, site.body, site.node)
            wordpiece, end_to_end = read_fast_wordpiece(buffer)
        if wordpiece.max_bytes_per_word < 1:
            raise InvalidFile(f"words of at most {wordpiece.max_bytes_per_word} bytes")
        steps = (*rule.steps, BertSplit()) if end_to_end else rule.steps
        return RuleTokenizer(Rule(steps), WordPieceLexicon(self.vocabulary, wordpiece))

    def sentencepieces(self) -> SentencePieces:
        """The tokenizer of a SentencepieceTokenizeOp.

        Raises :class:`VocabtoolError` where it draws lots between several ways to cut.
        """
        site = self.sites[0]
        maker = maker_of(self.linker, site.body, site.node.data_input(0))
        if maker is None:
            raise VocabtoolError(f"{self.vocabulary.name}: its SentencePiece model is not found")
        nbest, bos, eos, reverse = map(self._constant, (2, 4, 5, 6))
        if nbest not in (0, 1):
            raise VocabtoolError(
                f"{self.vocabulary.name}: the model draws lots between ways to cut a text "
                f"(nbest_size {nbest}): its words differ from run to run"
            )
        _, node = maker
        return SentencePieces(node.bytes_of(b"model"), bool(bos), bool(eos), bool(reverse))

    def _constant(self, position: int) -> int | None:
        """An integer or bool that the op takes as a constant."""
        site = self.sites[0]
        origin = self.linker.origin(site.body, site.node.data_input(position))
        tensor = origin.node.tensor_of(b"value") if origin is not None and origin.node else None
        if tensor is None or tensor.elements != 1:
            return None
        if tensor.dtype == DT_BOOL:
            return int(tensors.boolean(tensor))
        return int(tensors.integers(tensor)[0]) if tensor.dtype in INTEGERS else None


def read_lookup_paths(model: str | Path) -> tuple[Model, tuple[LookupPath, ...]]:
    """Open a model: what it holds, and each way in which it looks words up, largest first."""
    opened = graph_files.open_graphs(model)
    found = read_model(opened).model(opened.path, small=True)
    linker = Linker(opened.graphs[pick_serving([graph.tags for graph in opened.graphs])])
    tables = read_tables(linker, opened)
    paths: dict[tuple[str, Rule | Unclear, str], LookupPath] = {}
    for path in _find(linker, tables, found):
        key = (path.vocabulary.name, path.rule, path.sites[0].kind)
        known = paths.get(key)
        sites = (known.sites if known else ()) + path.sites
        paths[key] = path._replace(sites=sites)
    return found, tuple(sorted(paths.values(), key=_order))


def _find(linker: Linker, tables: dict[bytes, Vocabulary], found: Model) -> Iterator[LookupPath]:
    named = {vocabulary.sha256: vocabulary for vocabulary in reversed(found.vocabularies)}
    for site in find_lookup_sites(linker, tables):
        way = infer_steps(linker, site.body, site.text)
        # A lookup that texts never reach is there for a batch without any.
        if isinstance(way, Unclear) and (way.op in PIECES_OF or way.why == NO_TEXTS):
            continue
        vocabulary = named.get(site.vocabulary.sha256, site.vocabulary)
        rule, text = (way, "") if isinstance(way, Unclear) else (Rule(way.steps), way.text)
        yield LookupPath(vocabulary, rule, text, (site,), linker)


def _order(path: LookupPath) -> tuple[bool, bool, int]:
    ngrams = isinstance(path.rule, Rule) and path.rule.ngrams
    return (ngrams, isinstance(path.rule, Unclear), -len(path.vocabulary))


def notes_on_unclear(paths: Sequence[LookupPath], chosen: LookupPath) -> tuple[str, ...]:
    """What to say of further lookups in the same vocabulary whose words are not told."""
    others = (path.rule for path in paths if path.vocabulary.name == chosen.vocabulary.name)
    return tuple(
        f"{chosen.vocabulary.name} is also looked up in a way that is not understood (the op "
        f"{rule.op}: {rule.why}); --exact-words tells those words, too"
        for rule in others
        if isinstance(rule, Unclear)
    )


def choose(paths: Sequence[LookupPath], found: Model, name: str | None) -> LookupPath:
    """The lookup of the vocabulary ``name``, or the first that is not of n-grams.

    Raises :class:`NoVocabulary` where there is none.
    """
    wanted = [path for path in paths if name is None or path.vocabulary.name == name]
    if wanted:
        return wanted[0]
    if name is not None:
        names = dict.fromkeys(path.vocabulary.name for path in paths)
        listed = "".join(f"\n  {known}" for known in names) or " nothing"
        raise NoVocabulary(
            f"{found.path}: no vocabulary named {name!r} that words are looked up in. "
            f"Looked up are:{listed}"
        )
    files = [v.places[0].file for v in found.vocabularies if v.kind == "sentencepiece" and v.places]
    model = next((Path(found.path, file) for file in files if file.endswith(".model")), None)
    rule = f"--rule tokenizer:{model}" if model else "--rule"
    raise NoVocabulary(
        f"{found.path}: no op of the model looks words up: it takes ids, or none of its "
        f"tokenizers is known. Name the rule that makes words of a text with {rule}, and with "
        "--name the vocabulary (`vocabtool inspect` lists them)"
    )
