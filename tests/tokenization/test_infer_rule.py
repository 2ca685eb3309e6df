"""Ways from text to words on graphs written byte by byte: what is understood, and what is not.

Whether rules are those of TensorFlow is held in ``test_words_agree.py``; here are the reasons for
which a way is refused, and graphs made to harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.builders import saved_model_bytes as b
from vocabtool import VocabtoolError, Words

WORDS = (b"the", b"cat")
Nodes = Sequence[bytes]

TABLE = b.table_nodes(WORDS)[:7]
TEXT = b.node(b"text", b"Placeholder")
BLANK = b.const(b"blank", b.scalar_tensor(b""))
CALL = b"PartitionedCall"


def name(function: bytes) -> bytes:
    """An attribute that names a function."""
    return b.field(10, b.field(1, function))


def text_of(value: bytes) -> bytes:
    """A string attribute."""
    return b.field(2, value)


def find(words: bytes) -> tuple[bytes, ...]:
    """A lookup in the table, which is known by its shared name in any body."""
    return (
        b.node(b"table", b"HashTableV2", shared_name=text_of(b"shared")),
        b.const(b"default", b.scalar_tensor(-1)),
        b.node(
            b"find", b"LookupTableFindV2", b"table", words, b"default", Tin=b.number(6, b.STRING)
        ),
    )


def function(
    called: bytes, arguments: Sequence[bytes], *nodes: bytes, returns: Sequence[bytes] = ()
) -> bytes:
    """A FunctionDef; ``returns``: a tensor for each output."""
    outputs = [b"out%d" % i for i in range(len(returns))]
    signature = b.field(1, called)
    signature += b"".join(b.field(2, b.field(1, argument)) for argument in arguments)
    signature += b"".join(b.field(3, b.field(1, output)) for output in outputs)
    returned = zip(outputs, returns, strict=True)
    pairs = b"".join(b.field(4, b.field(1, key) + b.field(2, value)) for key, value in returned)
    return b.field(1, signature) + b"".join(b.field(3, node) for node in nodes) + pairs


def words_of(folder: Path, *nodes: bytes, functions: Sequence[bytes] = ()) -> Words:
    """The words of a model of these nodes beside the table."""
    graph = b.graph(*TABLE, *nodes, functions=functions)
    (folder / "saved_model.pb").write_bytes(b.saved_model(graph))
    return Words.of(folder)


def refused(folder: Path, *nodes: bytes, functions: Sequence[bytes] = ()) -> str:
    """The reason for which a model's way is not understood."""
    with pytest.raises(VocabtoolError, match=r"ask for --exact-words$") as caught:
        words_of(folder, *nodes, functions=functions)
    told = str(caught.value)
    start = "words: how the model cuts texts is not understood: "
    assert told.startswith(start)
    return told.removeprefix(start).partition(". Exact words need TensorFlow")[0]


LOWER = b.node(b"lower", b"StringLower", b"text")
SPLIT = b.node(b"split", b"StringSplitV2", b"lower", b"blank")
LOWER_ARGUMENT = b.node(b"lower", b"StringLower", b"x")


def test_a_plain_chain(tmp_path: Path) -> None:
    """The steps stand in the order in which a text goes through them."""
    words = words_of(tmp_path, TEXT, BLANK, LOWER, SPLIT, *find(b"split:1"))
    assert words.describe() == ("lower-case A to Z", "split at whitespace")
    assert words.unknown("The Cat sat") == ["sat"]


def test_no_steps(tmp_path: Path) -> None:
    """Where the text itself is looked up, it is one word."""
    assert words_of(tmp_path, TEXT, *find(b"text")).unknown("the cat") == ["the cat"]


def slice_of(value: bytes, **masks: int) -> tuple[bytes, ...]:
    keys = ("begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask", "ellipsis_mask")
    return (
        b.const(b"begin", b.int64_tensor([0])),
        b.const(b"end", b.int64_tensor([1])),
        b.const(b"step", b.int64_tensor([1])),
        b.node(
            b"y",
            b"StridedSlice",
            *(value, b"begin", b"end", b"step"),
            **{key: b.number(3, masks.get(key, 0)) for key in keys},
        ),
    )


def test_slices_that_take_all(tmp_path: Path) -> None:
    """A slice of everything, or one that only adds an axis, changes no word."""
    for masks in ({"begin_mask": 1, "end_mask": 1}, {"new_axis_mask": 1}):
        words = words_of(tmp_path, TEXT, LOWER, *slice_of(b"lower", **masks), *find(b"y"))
        assert words.describe() == ("lower-case A to Z",)


PART = "it may take a part of the words only"
REFUSED: dict[str, tuple[Nodes, bytes, str]] = {
    "an op of nobody": (
        [b.node(b"y", b"Frobnicate", b"text")],
        b"y",
        "the op Frobnicate: vocabtool does not know what it does to words",
    ),
    "an op whose name is not text": (
        [b.node(b"y", b"Fro\x1b[31m\xff", b"text")],
        b"y",
        r"the op Fro\x1b[31m\xff: vocabtool does not know what it does to words",
    ),
    "two texts": (
        [b.node(b"y", b"StringJoin", b"text", b"text")],
        b"y",
        "the op StringJoin: it joins two texts",
    ),
    "no text": (
        [b.node(b"y", b"StringJoin", b"blank", b"blank")],
        b"y",
        "the op StringJoin: its words are constants, not from a text",
    ),
    "constants": ([], b"words", "the op Const: its words are constants, not from a text"),
    "a slice": ([*slice_of(b"text")], b"y", f"the op StridedSlice: {PART}"),
    "a slice from the second on": (
        [*slice_of(b"text", end_mask=1)],
        b"y",
        f"the op StridedSlice: {PART}",
    ),
    "a slice that drops an axis": (
        [*slice_of(b"text", begin_mask=1, end_mask=1, shrink_axis_mask=1)],
        b"y",
        f"the op StridedSlice: {PART}",
    ),
    "several texts in a row": (
        [b.node(b"y", b"Pack", b"text", b"text")],
        b"y",
        "the op Pack: it puts several texts side by side",
    ),
    "row numbers of a split": (
        [LOWER, SPLIT],
        b"split",
        "the op StringSplitV2: another output of it than the words",
    ),
    "a separator that is no constant": (
        [b.node(b"y", b"StringSplitV2", b"text", b"text")],
        b"y:1",
        "the op StringSplitV2: an input that decides what it does is not a constant",
    ),
    "a pattern that is a number": (
        [b.node(b"y", b"RegexReplace", b"text", b"range/start", b"blank")],
        b"y",
        "the op RegexReplace: wanted a constant string",
    ),
    "a pattern that is not UTF-8": (
        [b.node(b"y", b"StaticRegexReplace", b"text", pattern=text_of(b"\xff"))],
        b"y",
        "the op StaticRegexReplace: a pattern that is not UTF-8",
    ),
    "letters of Latin-1": (
        [b.node(b"y", b"StringLower", b"text", encoding=text_of(b"latin-1"))],
        b"y",
        "the op StringLower: encoding latin-1",
    ),
    "UTF-16 in": (
        [
            b.node(
                b"y",
                b"UnicodeTranscode",
                b"text",
                input_encoding=text_of(b"UTF-16-BE"),
                output_encoding=text_of(b"UTF-8"),
            )
        ],
        b"y",
        "the op UnicodeTranscode: its texts are UTF-16-BE, not UTF-8",
    ),
    "UTF-16 out": (
        [b.node(b"y", b"UnicodeTranscode", b"text", output_encoding=text_of(b"UTF-16-BE"))],
        b"y",
        "the op UnicodeTranscode: it makes text that is not UTF-8",
    ),
    "code points from elsewhere": (
        [b.node(b"y", b"UnicodeEncode", b"text", output_encoding=text_of(b"UTF-8"))],
        b"y",
        "the op UnicodeEncode: code points that are not those of a text",
    ),
    "a normal form of nobody": (
        [b.node(b"y", b"NormalizeUTF8", b"text", normalization_form=text_of(b"nfx"))],
        b"y",
        "the op NormalizeUTF8: normalization form 'NFX'",
    ),
    "rows cut to a length": (
        [
            b.const(b"shape", b.int64_tensor([-1, 8])),
            b.node(b"y", b"RaggedTensorToTensor", b"shape", b"text", b"blank"),
        ],
        b"y",
        "the op RaggedTensorToTensor: it may cut off words",
    ),
    "padding that is a word": (
        [
            b.const(b"pad", b.scalar_tensor(b"the")),
            b.node(b"y", b"SparseToDense", b"text", b"text", b"text", b"pad"),
        ],
        b"y",
        "the op SparseToDense: padding that is not empty",
    ),
    "texts picked": (
        [b.node(b"y", b"GatherNd", b"text", b"range/start")],
        b"y",
        "the op GatherNd: which texts it takes is not known",
    ),
    "a tensor that nobody makes": (
        [b.node(b"y", b"StringLower", b"nowhere")],
        b"y",
        "a tensor that nothing makes",
    ),
    "an op without inputs": ([b.node(b"y", b"StringLower")], b"y", "a tensor that nothing makes"),
    "a circle": (
        [b.node(b"y", b"StringLower", b"z"), b.node(b"z", b"StringUpper", b"y")],
        b"y",
        "the way does not end",
    ),
    "an op that feeds itself": (
        [b.node(b"y", b"Identity", b"y")],
        b"y",
        "the way does not end",
    ),
}


@pytest.mark.parametrize(("nodes", "words", "reason"), REFUSED.values(), ids=[*REFUSED])
def test_ways_that_are_refused(nodes: Nodes, words: bytes, reason: str, tmp_path: Path) -> None:
    """What is not understood is said, with the op in the way, and nothing is guessed."""
    assert refused(tmp_path, TEXT, BLANK, *nodes, *find(words)) == reason


def test_inner_functions_are_followed(tmp_path: Path) -> None:
    """Into a call that makes the words, and out of a function that looks them up."""
    inner = function(b"inner", [b"x"], LOWER_ARGUMENT, returns=[b"lower:output:0"])
    outer = function(b"outer", [b"x"], *find(b"x"))
    nodes = (
        b.node(b"a", CALL, b"text", f=name(b"inner")),
        b.node(b"b", CALL, b"a", f=name(b"outer")),
    )
    words = words_of(tmp_path, TEXT, *nodes, functions=[inner, outer])
    assert words.describe() == ("lower-case A to Z",)


def test_a_function_that_nobody_calls(tmp_path: Path) -> None:
    """Its argument is the model's input: so functions are served."""
    served = function(b"served", [b"x"], LOWER_ARGUMENT, *find(b"lower:output:0"))
    assert words_of(tmp_path, functions=[served]).describe() == ("lower-case A to Z",)


def test_a_name_that_is_no_argument(tmp_path: Path) -> None:
    """In a function, too, a tensor must come from somewhere."""
    served = function(b"served", [b"x"], *find(b"y"))
    assert refused(tmp_path, functions=[served]) == "a tensor that nothing makes"


def test_a_caller_that_passes_too_little(tmp_path: Path) -> None:
    """A call with fewer inputs than the function has arguments passes nothing for the first."""
    inner = function(b"inner", [b"x", b"y"], *find(b"x"))
    call = b.node(b"call", CALL, b"text", f=name(b"inner"))
    told = refused(tmp_path, TEXT, call, functions=[inner])
    assert told == "the op PartitionedCall: it passes too few arguments"


def test_an_output_that_is_not_there(tmp_path: Path) -> None:
    """A call's third output, of a function with one."""
    inner = function(b"inner", [b"x"], LOWER_ARGUMENT, returns=[b"lower:output:0"])
    call = b.node(b"call", CALL, b"text", f=name(b"inner"))
    told = refused(tmp_path, TEXT, call, *find(b"call:2"), functions=[inner])
    assert told == "the op PartitionedCall: its output is not to be found"


def test_callers_that_agree(tmp_path: Path) -> None:
    """A function that is called from several places with the same way to it is understood."""
    inner = function(b"inner", [b"x"], *find(b"x"))
    calls = [b.node(b"call%d" % i, CALL, b"lower", f=name(b"inner")) for i in range(5)]
    words = words_of(tmp_path, TEXT, LOWER, *calls, functions=[inner])
    assert words.describe() == ("lower-case A to Z",)


def test_callers_that_disagree(tmp_path: Path) -> None:
    """One passes the text, one the text in lower case: which words are meant is not clear."""
    inner = function(b"inner", [b"x"], *find(b"x"))
    calls = [b.node(b"call" + x, CALL, x, f=name(b"inner")) for x in (b"text", b"lower")]
    told = refused(tmp_path, TEXT, LOWER, *calls, functions=[inner])
    assert told == "texts reach it in several ways"


def test_one_caller_that_is_not_understood(tmp_path: Path) -> None:
    """One unclear way makes all of them unclear, and it is the one that is told."""
    inner = function(b"inner", [b"x"], *find(b"x"))
    odd = b.node(b"odd", b"Frobnicate", b"text")
    calls = [b.node(b"call" + x, CALL, x, f=name(b"inner")) for x in (b"text", b"odd")]
    told = refused(tmp_path, TEXT, odd, *calls, functions=[inner])
    assert told.startswith("the op Frobnicate: ")


def test_a_loop(tmp_path: Path) -> None:
    """A loop that hands its texts on as they are is understood; one that changes them is not."""
    test = function(b"test", [b"x"], returns=[b"x"])
    loop = b.node(b"loop", b"While", b"text", cond=name(b"test"), body=name(b"turn"))
    same = function(b"turn", [b"x"], *find(b"x"), returns=[b"x"])
    assert words_of(tmp_path, TEXT, loop, functions=[test, same]).describe() == (
        "the whole text is one word",
    )
    changing = function(b"turn", [b"x"], LOWER_ARGUMENT, *find(b"x"), returns=[b"lower:output:0"])
    told = refused(tmp_path, TEXT, loop, functions=[test, changing])
    assert told == "the op While: a loop changes it from turn to turn"


def test_a_loop_that_returns_a_circle(tmp_path: Path) -> None:
    """A loop's result that leads nowhere does not hang."""
    circle = (b.node(b"a", b"Identity", b"b:output:0"), b.node(b"b", b"Identity", b"a:output:0"))
    loop = b.node(b"loop", b"While", b"text", cond=name(b"turn"), body=name(b"turn"))
    turn = function(b"turn", [b"x"], *circle, *find(b"x"), returns=[b"a:output:0"])
    assert refused(tmp_path, TEXT, loop, functions=[turn])


def test_a_branch(tmp_path: Path) -> None:
    """Which branch is taken is not known where the text decides."""
    then = function(b"then", [b"x"], *find(b"x"))
    branch = b.node(
        b"branch", b"If", b"text", b"text", then_branch=name(b"then"), else_branch=name(b"then")
    )
    told = refused(tmp_path, TEXT, branch, functions=[then])
    assert told == "the op If: it chooses by what it reads"


def test_recursion(tmp_path: Path) -> None:
    """A function that calls itself, in its argument or in what it returns, does not hang."""
    again = b.node(b"again", CALL, b"x", f=name(b"f"))
    told = refused(tmp_path, functions=[function(b"f", [b"x"], again, *find(b"x"))])
    assert told == "the way does not end"
    returning = function(b"f", [b"x"], again, returns=[b"again:output:0"])
    call = b.node(b"call", CALL, b"text", f=name(b"f"))
    told = refused(tmp_path, TEXT, call, *find(b"call"), functions=[returning])
    assert told == "the way does not end"


def test_mutual_recursion_that_grows(tmp_path: Path) -> None:
    """Two functions that call each other twice each: the ways double, and are cut off."""
    functions = [
        function(
            one,
            [b"x"],
            b.node(b"a", CALL, b"x", f=name(other)),
            b.node(b"b", CALL, b"x", f=name(other)),
            *find(b"x"),
        )
        for one, other in ((b"f", b"g"), (b"g", b"f"))
    ]
    assert refused(tmp_path, functions=functions) == "texts reach it in more than 64 ways"


def test_ways_that_double(tmp_path: Path) -> None:
    """Forty functions, each called twice by the next: 2 ** 40 ways are not walked."""
    functions = [function(b"f0", [b"x"], *find(b"x"))]
    for number in range(1, 40):
        call = {"f": name(b"f%d" % (number - 1))}
        calls = [b.node(key, CALL, b"x", **call) for key in (b"a", b"b")]
        functions.append(function(b"f%d" % number, [b"x"], *calls))
    assert refused(tmp_path, functions=functions) == "texts reach it in more than 64 ways"


@pytest.mark.parametrize("length", [600, 20_000])
def test_long_chains(length: int, tmp_path: Path) -> None:
    """A chain far longer than any real one is followed: it is no recursion of Python's."""
    nodes = [
        b.node(b"n%d" % i, b"Identity", b"n%d" % (i - 1) if i else b"lower") for i in range(length)
    ]
    words = words_of(tmp_path, TEXT, LOWER, *nodes, *find(b"n%d" % (length - 1)))
    assert words.describe() == ("lower-case A to Z",)


def test_a_chain_past_the_cap(tmp_path: Path) -> None:
    """At some length a chain is given up, not walked for ever."""
    nodes = [
        b.node(b"n%d" % i, b"Identity", b"n%d" % (i - 1) if i else b"text") for i in range(33_000)
    ]
    told = refused(tmp_path, TEXT, *nodes, *find(b"n32999"))
    assert told == "the way does not end"


def test_a_lookup_whose_table_is_not_there(tmp_path: Path) -> None:
    """Without a table that is filled there is nothing to look words up in."""
    (tmp_path / "saved_model.pb").write_bytes(b.saved_model(b.graph(TEXT, LOWER, *find(b"lower"))))
    with pytest.raises(VocabtoolError, match="no op of the model looks words up"):
        Words.of(tmp_path)


def test_two_lookups(tmp_path: Path) -> None:
    """The way that is understood is taken where another to the same table is not."""
    odd = b.node(b"odd", b"Frobnicate", b"text")
    second = b.node(
        b"find2", b"LookupTableFindV2", b"table", b"odd", b"default", Tin=b.number(6, b.STRING)
    )
    words = words_of(tmp_path, TEXT, odd, LOWER, *find(b"lower"), second)
    assert words.describe() == ("lower-case A to Z",)
