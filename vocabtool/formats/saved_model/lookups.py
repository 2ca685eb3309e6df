"""What a model's lookups tell of a table: the id of unknown words, hash buckets, mask, pieces.

The entries of a table say nothing of words that it does not hold; the ops around the lookup do:
a default value, a hash beside it (``num_oov_buckets`` of TensorFlow, ``num_oov_indices`` of Keras),
a comparison with Keras' mask token, a WordPiece op. How a text becomes words is not asked here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from vocabtool.errors import InvalidFile
from vocabtool.formats.saved_model import tensors
from vocabtool.formats.saved_model.graph import PIECE_OP, TABLE_OP, Body, Node, Reference
from vocabtool.formats.saved_model.linking import COPIES, Linker, Origin, Table
from vocabtool.formats.saved_model.tensors import DT_STRING, INTEGERS
from vocabtool.vocabulary import printable

FINDS: Final = frozenset((b"LookupTableFind", b"LookupTableFindV2"))
HASHES: Final = frozenset(
    (b"StringToHashBucketFast", b"StringToHashBucketStrong", b"StringToHashBucket")
)
REMAINDERS: Final = frozenset((b"FloorMod", b"Mod"))
ADDITIONS: Final = frozenset((b"Add", b"AddV2"))
MAX_CHOICES: Final = 8
SELECTIONS: Final = frozenset((b"Select", b"SelectV2"))
WORDPIECES: Final = frozenset((b"WordpieceTokenizeWithOffsets",))


class Buckets(NamedTuple):
    """Unknown words are hashed to ``first .. first+size-1``; no ``first``: the table's size."""

    first: int | None
    size: int


class Mask(NamedTuple):
    """The id of Keras' mask token, which the layer compares with before it looks up."""

    id: int
    entry: bytes


class Wordpiece(NamedTuple):
    """The table holds WordPiece's pieces. ``unknown``: the piece for unknown words, if any."""

    suffix_indicator: bytes
    unknown: bytes | None


class Lookup(NamedTuple):
    """``default``: what the table answers for a key that it does not hold. ``scope``: the op's."""

    default: int | bytes | None
    buckets: Buckets | None
    mask: Mask | None
    scope: bytes


def scalar(origin: Origin | None) -> int | bytes | None:
    """The value of a constant with one string or integer; ``None`` for anything else."""
    if origin is None or origin.node is None or origin.op != b"Const":
        return None
    tensor = origin.node.tensor_of(b"value")
    if tensor is None or tensor.elements != 1:
        return None
    if tensor.dtype == DT_STRING:
        return tensors.strings(tensor)[0]
    return int(tensors.integers(tensor)[0]) if tensor.dtype in INTEGERS else None


def read_lookups(linker: Linker, warnings: list[str]) -> dict[bytes, Lookup]:
    """The first lookup of each table that says what an unknown word becomes, by table key.

    What cannot be read is said in ``warnings``.
    """
    lookups: dict[bytes, Lookup] = {}
    for body, node, table in _users(linker, TABLE_OP, FINDS, 0):
        known = lookups.get(table.key)
        if known is None or known.default is None:
            try:
                lookups[table.key] = _read_lookup(linker, body, node)
            except InvalidFile as error:
                warnings.append(f"the unknown id of table {printable(table.node.name)}: {error}")
    return lookups


def read_wordpieces(linker: Linker) -> dict[bytes, Wordpiece]:
    """The tables whose handle goes to a WordPiece op, by table key."""
    return {
        table.key: Wordpiece(
            node.bytes_of(b"suffix_indicator"),
            node.bytes_of(b"unknown_token") if node.integer_of(b"use_unknown_token") else None,
        )
        for _, node, table in _users(linker, PIECE_OP, WORDPIECES, 1)
    }


def _users(
    linker: Linker, mark: bytes, ops: frozenset[bytes], handle: int
) -> Iterator[tuple[Body, Node, Table]]:
    """Each node with one of ``ops``, and the table at its input ``handle``."""
    for body in linker.graph.bodies:
        for node in body.marked(mark):
            if node.op in ops:
                table = linker.table(body, node.data_input(handle))
                if table is not None:
                    yield body, node, table


def _read_lookup(linker: Linker, body: Body, find: Node) -> Lookup:
    """Follow the ids that a lookup finds through the choices that other ids may replace them by.

    TensorFlow's buckets: ``Select(NotEqual(found, default), found, hash + size)``; Keras' the other
    way round; Keras' mask: ``Select(Equal(key, token), id, found)``.
    """
    buckets: Buckets | None = None
    mask: Mask | None = None
    for choice, position in _choices(body, find.name):
        instead = choice.data_input(3 - position)
        buckets = buckets or _buckets(linker, body, instead)
        mask = mask or _mask(linker, body, choice.data_input(0), instead)
    default = scalar(linker.origin(body, find.data_input(2)))
    return Lookup(default, buckets, mask, find.name)


def _choices(body: Body, found: bytes) -> Iterator[tuple[Node, int]]:
    """The selections that hand on what was found, with its position among their inputs."""
    for _ in range(MAX_CHOICES):
        taker = next(
            (
                (node, position)
                for node, position in body.consumers(found)
                if node.op in COPIES or (node.op in SELECTIONS and position in (1, 2))
            ),
            None,
        )
        if taker is None:
            return
        if taker[0].op in SELECTIONS:
            yield taker
        found = taker[0].name


def _made_by(body: Body, reference: Reference) -> Node | None:
    """The node behind a reference in the same body, copies left out."""
    node = body.node(reference.name)
    for _ in range(MAX_CHOICES):
        if node is None or node.op not in COPIES:
            return node
        node = body.node(node.data_input(0).name)
    return node


def _buckets(linker: Linker, body: Body, instead: Reference) -> Buckets | None:
    made = _made_by(body, instead)
    if made is None:
        return None
    count = _hash_size(linker, body, made)
    if count is not None:
        return Buckets(0, count)
    for position in (0, 1) if made.op in ADDITIONS else ():
        hashing = _made_by(body, made.data_input(position))
        count = _hash_size(linker, body, hashing) if hashing else None
        if count is not None:
            return Buckets(_first(linker, body, made.data_input(1 - position)), count)
    return None


def _hash_size(linker: Linker, body: Body, node: Node) -> int | None:
    """How many different values a hash, or the remainder of a division, can have."""
    count: int | bytes | None = None
    if node.op in HASHES:
        count = node.integer_of(b"num_buckets")
    elif node.op in REMAINDERS:
        count = scalar(linker.origin(body, node.data_input(1)))
    return count if isinstance(count, int) and count > 0 else None


def _first(linker: Linker, body: Body, added: Reference) -> int | None:
    """What is added to the hash: a constant (Keras), or ``None``, the table's size (TensorFlow)."""
    value = scalar(linker.origin(body, added))
    return value if isinstance(value, int) else None


def _mask(linker: Linker, body: Body, condition: Reference, instead: Reference) -> Mask | None:
    """The token that the condition compares the key with, and the id that it gets."""
    compared = _made_by(body, condition)
    chosen = scalar(linker.origin(body, instead))
    if compared is None or compared.op != b"Equal" or chosen is None:
        return None
    for position in (1, 0):
        token = scalar(linker.origin(body, compared.data_input(position)))
        if isinstance(chosen, int) and token is not None:
            return Mask(chosen, token if isinstance(token, bytes) else b"%d" % token)
        if isinstance(chosen, bytes) and isinstance(token, int):  # an inverse table
            return Mask(token, chosen)
    return None
