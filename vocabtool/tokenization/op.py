"""One op on the way from words back to a text: its attributes and inputs, asked for with care.

What cannot be told ends the way. What the op does to words is in ``op_steps.py``.
"""

from __future__ import annotations

from typing import Final, NamedTuple, cast, get_args

from vocabtool.formats.saved_model.graph import Node, Reference
from vocabtool.formats.saved_model.linker import Linker
from vocabtool.formats.saved_model.tensors import Tensor
from vocabtool.tokenization.graph_trace import MAX_OPS, SAME, Place, Stop, constant, value
from vocabtool.tokenization.strings import Decoding, Errors
from vocabtool.vocabulary import printable

DECODES: Final = frozenset((b"UnicodeDecode", b"UnicodeDecodeWithOffsets"))


class Op(NamedTuple):
    """One op on the way: what it does, and which of its inputs to follow."""

    linker: Linker
    here: Place
    node: Node

    def gives(self, part: bytes, output: int) -> bool:
        """Whether the way leads over this output of the op."""
        reference = self.here.reference
        return reference.part == part if reference.part else reference.output == output

    def only(self, part: bytes, output: int) -> None:
        if not self.gives(part, output):
            raise Stop(self.node.op, "another output of it than the words")

    def told(self, position: int) -> bytes | int | None:
        """An input that is a constant of one string or integer, whoever calls."""
        return value(self.linker, self.here.input(self.node, position))

    def tensor(self, position: int) -> Tensor | None:
        """An input that is a constant."""
        return constant(self.linker, self.here.input(self.node, position))

    def constant(self, position: int) -> bytes | int:
        """An input that must be a constant of one string or integer."""
        found = self.told(position)
        if found is None:
            raise Stop(self.node.op, "an input that decides what it does is not a constant")
        return found

    def text_constant(self, position: int) -> bytes:
        found = self.constant(position)
        if not isinstance(found, bytes):
            raise Stop(self.node.op, "wanted a constant string")
        return found

    def pattern(self, text: bytes) -> str:
        try:
            return text.decode()
        except UnicodeDecodeError:
            raise Stop(self.node.op, "a pattern that is not UTF-8") from None

    def flag(self, key: bytes, default: bool) -> bool:
        return bool(self.node.integer_of(key, int(default)))

    def decoding(self) -> Decoding:
        node = self.node
        encoding = node.bytes_of(b"input_encoding")
        if encoding.upper() not in (b"UTF-8", b"UTF8"):
            raise Stop(node.op, f"its texts are {printable(encoding)}, not UTF-8")
        errors = node.bytes_of(b"errors").decode("ascii", "replace") or "replace"
        if errors not in get_args(Errors):
            raise Stop(node.op, f"errors={errors!r}")
        replacement = node.integer_of(b"replacement_char", 0xFFFD)
        if not 0 <= replacement <= 0x10FFFF:
            raise Stop(node.op, f"a replacement character {replacement}")
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

    def decoder(self, reference: Reference) -> tuple[Op, bool]:
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
        raise Stop(self.node.op, "code points that are not those of a text")
