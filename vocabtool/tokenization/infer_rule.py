"""The way from a text to the words that a lookup gets, read backwards off a model's graph.

From the op's input through string ops, calls, captures, loops and branches to where the text comes
in. What each op does is in ``op_steps.py``, what stands around it in ``graph_trace.py``. An op that
is not understood ends the way with its name: nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from vocabtool.formats.saved_model.graph import Body, Node, Reference
from vocabtool.formats.saved_model.linker import Linker
from vocabtool.tokenization.graph_trace import (
    BRANCHES,
    MAX_OPS,
    NotUnderstood,
    TracePoint,
    Unclear,
)
from vocabtool.tokenization.op_steps import OpOnWay, steps_of
from vocabtool.tokenization.steps import Step
from vocabtool.vocabulary import printable

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
