"""Where a model looks words up: each such op, with its vocabulary and its text input.

How the text becomes words on the way there is in ``infer_rule.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from vocabtool.errors import VocabtoolError
from vocabtool.formats.saved_model import tokenizers
from vocabtool.formats.saved_model.graph import PHRASE_OP, PIECE_OP, TABLE_OP, Body, Node, Reference
from vocabtool.formats.saved_model.linker import Linker
from vocabtool.formats.saved_model.tables import FINDS, WORDPIECES
from vocabtool.formats.saved_model.tensors import DT_STRING
from vocabtool.vocabulary import Vocabulary

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
