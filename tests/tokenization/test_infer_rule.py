"""Rules inferred from handmade graphs: supported ops, rejected ops, and hostile graphs.

``test_words_agree.py`` compares rules with TensorFlow. This file tests the reasons for rejecting,
and graphs made to harm.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.builders import saved_model_bytes as b
from vocabtool import NoVocabulary, VocabtoolError, Words

WORDS = (b"the", b"cat")
Nodes = Sequence[bytes]

TABLE = b.table_nodes(WORDS)[:7]
TEXT = b.node(b"text", b"Placeholder")
BLANK = b.const(b"blank", b.scalar_tensor(b""))
CALL = b"PartitionedCall"


def name(function: bytes) -> bytes:
    """Return an attribute that names a function."""
    return b.field(10, b.field(1, function))


def find(words: bytes) -> tuple[bytes, ...]:
    """Return a lookup in the table, which has a shared name."""
    return (
        b.node(b"table", b"HashTableV2", shared_name=b.field(2, b"shared")),
        b.const(b"default", b.scalar_tensor(-1)),
        b.node(
            b"find", b"LookupTableFindV2", b"table", words, b"default", Tin=b.number(6, b.STRING)
        ),
    )


def words_of(folder: Path, *nodes: bytes, functions: Sequence[bytes] = ()) -> Words:
    """Return the words of a model with these nodes and a table."""
    graph = b.graph(*TABLE, *nodes, functions=functions)
    (folder / "saved_model.pb").write_bytes(b.saved_model(graph))
    return Words.of(folder)


def refused(folder: Path, *nodes: bytes, functions: Sequence[bytes] = ()) -> str:
    """Return the reason why a rule cannot be inferred."""
    with pytest.raises(VocabtoolError, match="name a rule") as caught:
        words_of(folder, *nodes, functions=functions)
    told = str(caught.value)
    start = "words: the model does not show how it splits texts into words: "
    assert told.startswith(start)
    return told.removeprefix(start).partition("; name a rule")[0]


LOWER = b.node(b"lower", b"StringLower", b"text")
SPLIT = b.node(b"split", b"StringSplitV2", b"lower", b"blank")
LOWER_ARGUMENT = b.node(b"lower", b"StringLower", b"x")


def slice_of(value: bytes, **masks: int) -> tuple[bytes, ...]:
    keys = ("begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask", "ellipsis_mask")
    numbers: dict[str, Any] = {key: masks.get(key, 0) for key in keys}
    return (
        b.const(b"begin", b.int64_tensor([0])),
        b.const(b"end", b.int64_tensor([1])),
        b.const(b"step", b.int64_tensor([1])),
        y(*(b"StridedSlice", value, b"begin", b"end", b"step"), **numbers),
    )


def made(node: bytes, op: bytes, *inputs: bytes, **attributes: bytes | int | bool) -> bytes:
    """Return a node; its attributes are texts, numbers or flags."""
    written = {}
    for key, value in attributes.items():
        number = 5 if isinstance(value, bool) else 3
        written[key] = b.field(2, value) if isinstance(value, bytes) else b.number(number, value)
    return b.node(node, op, *inputs, **written)


def y(op: bytes, *inputs: bytes, **attributes: bytes | int | bool) -> bytes:
    """Return the op whose words are looked up."""
    return made(b"y", op, *inputs, **attributes)


# Reasons and the nodes that cause them; the op comes first.
UNKNOWN = "vocabtool does not support this op"
PART = "it might leave out words"
CONSTANTS = "its words are constants and do not come from a text"
UTF8 = {"output_encoding": b"UTF-8"}
ENDLESS = "the path from the lookup to the text does not end"
REFUSED: list[tuple[str, Nodes]] = [
    (f"Frobnicate: {UNKNOWN}", [y(b"Frobnicate", b"text")]),
    (rf"Fro\x1b[31m\xff: {UNKNOWN}", [y(b"Fro\x1b[31m\xff", b"text")]),
    ("StringJoin: it joins two texts", [y(b"StringJoin", b"text", b"text")]),
    (f"StringJoin: {CONSTANTS}", [y(b"StringJoin", b"blank", b"blank")]),
    (f"StridedSlice: {PART}", slice_of(b"text", end_mask=1)),
    (
        "StringSplitV2: it splits only a limited number of times",
        [
            made(b"split", b"StringSplitV2", b"text", b"blank", maxsplit=2),
            y(b"Identity", b"split:1"),
        ],
    ),
    (
        "StaticRegexReplace: it replaces only the first match",
        [y(b"StaticRegexReplace", b"text", pattern=b"a", replace_global=False)],
    ),
    (
        "StringNGrams: it pads texts, or keeps texts that are too short",
        [y(b"StringNGrams", b"text", b"range", pad_width=1)],
    ),
    (
        "UnicodeDecode: it does not replace exactly the invalid bytes, by U+FFFD",
        [
            made(b"codes", b"UnicodeDecode", b"text", errors=b"ignore", input_encoding=b"UTF-8"),
            y(b"UnicodeEncode", b"codes:1", b"codes", **UTF8),
        ],
    ),
    (
        "StringSplitV2: the lookup does not read the output that contains the words of the text",
        [*(LOWER, SPLIT), y(b"Identity", b"split")],
    ),
    (
        "StringSplitV2: one of its inputs must be a constant, but is computed",
        [b.node(b"split", b"StringSplitV2", b"text", b"text"), y(b"Identity", b"split:1")],
    ),
    (
        "StaticRegexReplace: its pattern is not UTF-8",
        [y(b"StaticRegexReplace", b"text", pattern=b"\xff")],
    ),
    (
        "StringLower: unsupported encoding latin-1",
        [y(b"StringLower", b"text", encoding=b"latin-1")],
    ),
    (
        "UnicodeEncode: its input was not made by an op that decodes text into code points",
        [y(b"UnicodeEncode", b"text", **UTF8)],
    ),
    (
        "NormalizeUTF8: unknown normalization form 'NFX'",
        [y(b"NormalizeUTF8", b"text", normalization_form=b"nfx")],
    ),
    (
        "SparseToDense: its padding is not an empty string",
        [
            b.const(b"pad", b.scalar_tensor(b"the")),
            y(b"SparseToDense", b"text", b"text", b"text", b"pad"),
        ],
    ),
    (
        "GatherNd: it selects a part of the texts that cannot be determined",
        [y(b"GatherNd", b"text", b"range/start")],
    ),
    ("no op produces this tensor", [y(b"StringLower", b"nowhere")]),
    (ENDLESS, [y(b"StringLower", b"z"), b.node(b"z", b"StringStrip", b"y")]),
]


@pytest.mark.parametrize(("reason", "nodes"), REFUSED, ids=[reason for reason, _ in REFUSED])
def test_ways_that_are_refused(reason: str, nodes: Nodes, tmp_path: Path) -> None:
    """The error names the op, and nothing is guessed."""
    told = refused(tmp_path, TEXT, BLANK, *nodes, *find(b"y"))
    assert told.removeprefix("the op ") == reason


def call(node: bytes, given: bytes, called: bytes) -> bytes:
    return b.node(node, CALL, given, f=name(called))


def loop(*body: bytes, returns: bytes) -> tuple[Nodes, Nodes]:
    """Return a loop with this body, and its functions."""
    node = b.node(b"loop", b"While", b"text", cond=name(b"test"), body=name(b"turn"))
    turn = b.function(b"turn", [b"x"], *body, *find(b"x"), returns=[returns])
    return [node], [b.function(b"test", [b"x"], returns=[b"x"]), turn]


def doubling() -> list[bytes]:
    """Forty functions, each called twice by the next: 2 ** 40 paths must not be followed."""
    calls = ((call(b"a", b"x", b"f%d" % i), call(b"b", b"x", b"f%d" % i)) for i in range(39))
    callers = [b.function(b"f%d" % at, [b"x"], *pair) for at, pair in enumerate(calls, 1)]
    return [b.function(b"f0", [b"x"], *find(b"x")), *callers]


def calling_each_other() -> list[bytes]:
    pairs = ((b"f", b"g"), (b"g", b"f"))
    return [
        b.function(one, [b"x"], call(b"a", b"x", other), call(b"b", b"x", other), *find(b"x"))
        for one, other in pairs
    ]


LOWERED = ("lower-case A to Z",)
RETURNED = b"lower:output:0"
LOWERING = b.function(b"lowering", [b"x"], LOWER_ARGUMENT, returns=[RETURNED])
FINDING = b.function(b"find", [b"x"], *find(b"x"))
BOTH = {"then_branch": name(b"find"), "else_branch": name(b"find")}
BRANCH = b.node(b"branch", b"If", b"text", b"text", **BOTH)
MANY = "more than 64 paths lead to the lookup"
LOOP = "the op While: the texts go through a loop"
AGAIN = call(b"again", b"x", b"f")
ODD = b.node(b"odd", b"Frobnicate", b"text")
FUNCTIONS: dict[str, tuple[Nodes, Nodes, tuple[str, ...] | str]] = {
    "a plain chain": ([LOWER, SPLIT, *find(b"split:1")], [], (*LOWERED, "split at whitespace")),
    "no steps": (find(b"text"), [], ("the whole text is one word",)),
    "a slice of everything": (
        [LOWER, *slice_of(b"lower", begin_mask=1, end_mask=1), *find(b"y")],
        [],
        LOWERED,
    ),
    "into one function and out of another": (
        [call(b"a", b"text", b"lowering"), call(b"b", b"a", b"find")],
        [LOWERING, FINDING],
        LOWERED,
    ),
    "a function that is served": (
        [],
        [b.function(b"served", [b"x"], LOWER_ARGUMENT, *find(RETURNED))],
        LOWERED,
    ),
    "a caller that passes too little": (
        [call(b"call", b"text", b"inner")],
        [b.function(b"inner", [b"x", b"y"], *find(b"x"))],
        "the op PartitionedCall: it passes too few arguments to its function",
    ),
    "an output that is not there": (
        [call(b"call", b"text", b"lowering"), *find(b"call:2")],
        [LOWERING],
        "the op PartitionedCall: it has no such output",
    ),
    "callers that agree": (
        [LOWER, *(call(b"call%d" % i, b"lower", b"find") for i in range(5))],
        [FINDING],
        LOWERED,
    ),
    "callers that disagree": (
        [LOWER, *(call(b"call" + x, x, b"find") for x in (b"text", b"lower"))],
        [FINDING],
        "texts reach the lookup by different rules",
    ),
    "a loop": (*loop(LOWER_ARGUMENT, returns=RETURNED), LOOP),
    "a branch": ([BRANCH], [FINDING], "the op If: the text may decide which branch runs"),
    "a function that calls itself": ([], [b.function(b"f", [b"x"], AGAIN, *find(b"x"))], ENDLESS),
    "functions that call each other": ([], calling_each_other(), MANY),
    "ways that double": ([], doubling(), MANY),
}


@pytest.mark.parametrize(("nodes", "functions", "wanted"), FUNCTIONS.values(), ids=[*FUNCTIONS])
def test_ways_through_functions(
    nodes: Nodes, functions: Nodes, wanted: tuple[str, ...] | str, tmp_path: Path
) -> None:
    """The steps in the order of processing, or the reason."""
    nodes = (TEXT, BLANK, *nodes)
    if isinstance(wanted, str):
        assert refused(tmp_path, *nodes, functions=functions) == wanted
    else:
        assert words_of(tmp_path, *nodes, functions=functions).describe() == wanted


@pytest.mark.parametrize("length", [600, 20_000, 33_000])
def test_long_chains(length: int, tmp_path: Path) -> None:
    """Long chains are followed without recursion, up to a limit."""
    names = [b"lower", *(b"n%d" % i for i in range(length))]
    chain = [b.node(name, b"Identity", before) for before, name in pairwise(names)]
    nodes = (TEXT, LOWER, *chain, *find(names[-1]))
    if length < 33_000:
        assert words_of(tmp_path, *nodes).describe() == LOWERED
    else:
        assert refused(tmp_path, *nodes) == ENDLESS


def test_two_lookups(tmp_path: Path) -> None:
    """The supported path is used."""
    second = (b"table", b"odd", b"default")
    lookup = b.node(b"find2", b"LookupTableFindV2", *second, Tin=b.number(6, b.STRING))
    words = words_of(tmp_path, TEXT, ODD, BLANK, LOWER, SPLIT, *find(b"split:1"), lookup)
    assert words.describe() == (*LOWERED, "split at whitespace")
    assert words.unknown("The Cat sat") == ["sat"]


@pytest.mark.parametrize(
    ("inputs", "op", "told"),
    [
        ({b"ids": 9, b"mask": 3}, b"Identity", "it takes ids, not texts (inputs: ids, mask)"),
        ({b"examples": 7}, b"ParseExampleV2", "it takes serialised tf.Examples, not texts"),
        ({b"text": 7}, b"Identity", "it takes strings (inputs: text)"),
        ({b"image": 1}, b"Identity", "it takes numbers, not texts (inputs: image)"),
        ({}, b"Identity", "it states no inputs"),
    ],
)
def test_without_a_lookup(inputs: dict[bytes, int], op: bytes, told: str, tmp_path: Path) -> None:
    """One message: what the inputs are, and what to pass instead."""
    tensors = [
        b.field(1, b.field(1, name) + b.field(2, b.number(2, dtype)))
        for name, dtype in inputs.items()
    ]
    default = b.field(5, b.field(1, b"serving_default") + b.field(2, b"".join(tensors)))
    other = b.field(5, b.field(1, b"x") + b.field(2, b.field(1, b.field(1, b"other"))))
    nodes = (TEXT, b.node(b"inner", op, b"text"))
    written = b.saved_model(b.graph(*nodes), tail=other + default if inputs else b"")
    (tmp_path / "saved_model.pb").write_bytes(written)
    with pytest.raises(NoVocabulary, match=re.escape(told)) as caught:
        Words.of(tmp_path)
    assert "contains no vocabulary; pass what its inputs were made with" in str(caught.value)
