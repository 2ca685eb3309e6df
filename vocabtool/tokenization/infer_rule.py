"""The way from a text to the words that a lookup gets, read backwards off a model's graph.

From the op's input through string ops, calls, captures, loops and branches to where the text comes
in. What each op does is in ``op_steps.py``, what stands around it in ``trail.py``. An op that is
not understood ends the way with its name: nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from vocabtool.formats.saved_model.graph import Body, Node, Reference
from vocabtool.formats.saved_model.linker import Linker
from vocabtool.tokenization.graph_trace import (
    BRANCHES,
    MAX_OPS,
    Place,
    Stop,
    Unclear,
    callers,
    entered,
    passed,
    value,
)
from vocabtool.tokenization.op import Op
from vocabtool.tokenization.op_steps import step_of
from vocabtool.tokenization.text_arrays import Step
from vocabtool.vocabulary import printable

__all__ = ["NO_TEXTS", "Unclear", "Way", "recover"]

MAX_WAYS: Final = 64  # a function may be called from many places
NO_TEXTS: Final = "a branch for a batch without texts"
SIZES: Final = frozenset((b"Size", b"Shape", b"StridedSlice", b"Cast", b"Identity", b"Prod"))


class Way(NamedTuple):
    """``steps``: from the text to the words. ``text``: what the model calls its input."""

    steps: tuple[Step, ...]
    text: str


class _Here(NamedTuple):
    """A place on the way back: ``steps``: those found so far, the last first."""

    place: Place
    steps: tuple[Step, ...]


def recover(linker: Linker, body: Body, reference: Reference) -> Way | Unclear:
    """The way to a string tensor, where all ways in to its function agree."""
    try:
        return _Recovery(linker).recover(Place(body, reference))
    except Stop as stop:
        return stop.unclear


class _Recovery:
    """One walk back."""

    def __init__(self, linker: Linker) -> None:
        self._linker = linker
        self._seen = 0

    def recover(self, place: Place) -> Way | Unclear:
        ways: dict[Way, None] = {}
        unclear: dict[Unclear, None] = {}
        for way in self._ways(_Here(place, ())):
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
                raise Stop(b"", f"texts reach it in more than {MAX_WAYS} ways")
            here = waiting.pop()
            try:
                following = self._back(here)
            except Stop as stop:
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
            raise Stop(b"", "the way does not end")
        place, node = here.place, here.place.node
        if node is None:
            return self._argument(here)
        inside = entered(self._linker, place, node)
        if inside is not None:
            return [here._replace(place=inside)]
        if node.op == b"Placeholder" and not place.body.name:
            return _end(here, node.name)
        steps, following = step_of(Op(self._linker, place, node))
        return [_Here(place._replace(reference=following), (*here.steps, *reversed(steps)))]

    def _argument(self, here: _Here) -> Way | list[_Here]:
        """From a function's argument to whoever calls it; the end where nobody does."""
        place = here.place
        calling = callers(self._linker, place)
        if not calling:
            if self._linker.is_captured(place.body, place.reference.name):
                raise Stop(b"Const", "its words are constants, not from a text")
            return _end(here, place.reference.name)
        return [here._replace(place=self._passed(place, *call)) for call in calling]

    def _passed(self, place: Place, caller: Body, node: Node) -> Place:
        if node.op in BRANCHES:
            self._check_taken(Place(caller, node.data_input(0), place.calls[:-1]), node, place.body)
        return passed(place, caller, node)

    def _check_taken(self, condition: Place, node: Node, body: Body) -> None:
        """Refuse a branch that is not the one for every batch that has texts in it."""
        test = condition.node
        wanted = {b"Greater": 0, b"NotEqual": 0, b"GreaterEqual": 1}
        if test is not None and test.op in wanted:
            least = value(self._linker, condition.input(test, 1))
            if least == wanted[test.op] and self._is_size(condition.input(test, 0)):
                if body.name in node.functions_of(b"then_branch"):
                    return
                raise Stop(node.op, NO_TEXTS)
        raise Stop(node.op, "it chooses by what it reads")

    def _is_size(self, number: Place) -> bool:
        """Whether a number is the size of the texts themselves, as they come in."""
        for _ in range(MAX_OPS):
            node = number.node
            if node is None or node.op not in SIZES:
                return False
            number = number.input(node, 0)
            if node.op in (b"Size", b"Shape"):
                texts = _Recovery(self._linker).recover(number)
                return isinstance(texts, Way) and not texts.steps
        return False


def _end(here: _Here, name: bytes) -> Way:
    return Way(tuple(reversed(here.steps)), printable(name).removeprefix("serving_default_"))
