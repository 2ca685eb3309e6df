"""Run a model and record the words that it looks up ("exact words"). Needs TensorFlow."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, pairwise
from pathlib import Path
from threading import RLock
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vocabtool.errors import UnsupportedFormat, reading
from vocabtool.formats.saved_model import graph_files
from vocabtool.tokenization.checked_model import (
    Entry,
    choose_entry,
    import_tensorflow,
    load_checked,
    reason_of,
)
from vocabtool.tokenization.infer_rule import LookupPath
from vocabtool.tokenization.instrumented_graph import OWN, TracedOp, instrument, shared_names
from vocabtool.tokenization.lookup import RuleTokenizer, SpelledWord, WordLookup, look_up_spelled
from vocabtool.tokenization.op_traces import (
    OpTrace,
    Pieces,
    RawTrace,
    Tensor,
    all_bounds,
    join_traces,
    raw_trace,
)
from vocabtool.tokenization.rule import Rule
from vocabtool.tokenization.sentencepiece import SentencePieces, group_by_word, readable_word
from vocabtool.tokenization.text_arrays import (
    Integers,
    TokenCodes,
    Tokens,
    as_bytes,
    starts_of,
    string_array,
)

T = TypeVar("T")
Rows: TypeAlias = NDArray[Any]
Read: TypeAlias = Callable[[Any, int], Rows]
"""A function of the model's output for n texts and n. Returns an array with a row per text."""

FAST_WORDPIECE: Final = "FastWordpieceTokenizeWithOffsets"
SUFFIX: Final = b"##"
BATCH_TEXTS: Final = 512  # texts per run
BATCH_BYTES: Final = 1 << 22  # per batch, with all texts padded to the longest
# Texts to find out how a model runs a batch, and whether texts influence each other.
PROBES: Final = (
    b"qzproba qzprobb qzprobc",
    b"qzprobd",
    b"Qzprobe, (qz-probf) QZ 'qz_probg'; qz/qz: qz.",
    "qz\u00fcrich \u6771\u4eac \u0421\u0430\u043c qz\u2019s \u00df".encode(),
    b"42",
    b"-7",
)

_loads: Final = itertools.count()


class TracedRun(NamedTuple):
    rows: Rows
    traces: tuple[OpTrace, ...]


class InstrumentedModel:
    """A loaded model that reports its lookups. Calls from several threads run one after another."""

    def __init__(self, loaded: Any, entry: Entry, ops: Sequence[TracedOp]) -> None:
        tensorflow = import_tensorflow()
        self.entry = entry
        self._loaded = loaded  # keep alive while its functions are called
        names = shared_names(entry.graph.as_graph_def())
        self.ops = tuple(op._replace(live=op.queue in names) for op in ops)
        self._live_ops = [op for op in self.ops if op.live]
        # Open the queues by shared name; tf.queue.FIFOQueue would create new ones.
        self._types = [list(map(tensorflow.dtypes.as_dtype, op.types)) for op in self._live_ops]
        with tensorflow.device("CPU"):
            self._queues = [
                tensorflow.raw_ops.FIFOQueueV2(
                    component_types=types,
                    shapes=[],
                    capacity=-1,
                    container="",
                    shared_name=names[op.queue],
                )
                for op, types in zip(self._live_ops, self._types, strict=True)
            ]
        self._lock = RLock()  # one call at a time fills and empties the queues
        self._runs_together: bool | None = None
        self._uncut = [False] * len(self._queues)  # whether an op gets each text unsplit
        self._neighbour: tuple[bytes, list[RawTrace]] | None = None  # for texts that fail alone

    @classmethod
    def load(
        cls,
        model: str | Path,
        *,
        trust: bool = False,
        choose: Callable[[Any], Entry] = choose_entry,
    ) -> InstrumentedModel:
        """Load a SavedModel.

        ``choose``: Selects which function of the loaded model is run.

        Raises :class:`UnsupportedFormat` if the model cannot be loaded, or if it has dangerous ops
        and ``trust`` is false.
        """
        import_tensorflow()
        opened = graph_files.open_graphs(model)
        ops: list[TracedOp] = []
        name = f"{OWN}{next(_loads)}"
        loaded = load_checked(
            opened, trust=trust, change=lambda graph: ops.extend(instrument(graph, name))
        )
        with reading(str(opened.path)):
            entry = choose(loaded)
        return cls(loaded, entry, ops)

    def run(self, texts: Sequence[bytes]) -> tuple[OpTrace, ...]:
        """Run the model on texts; return the traces of its ops, in the order of ``ops``.

        Ops that the entry function of the model cannot run are left out. Raises
        :class:`UnsupportedFormat` if the model fails on a text.
        """
        batches = list(_batches(texts))
        if batches:
            return self.run_batches(batches, _read_nothing).traces
        return self._traces_of_nothing(0)

    def run_batches(self, batches: Sequence[Sequence[bytes]], read: Read) -> TracedRun:
        """Run the model on batches of texts, none of them empty.

        ``read``: Converts the result of a run to one row for each text.
        """
        with self._lock:
            runs = []
            for batch in batches:
                found = None
                if self.runs_together and len(batch) > 1:
                    # The cause may be one text, or the number of texts.
                    with suppress(UnsupportedFormat):
                        found = self._run_together(batch, read)
                runs.append(found or self._run_one_by_one(batch, read))
            return _join_runs(runs)

    @property
    def runs_together(self) -> bool:
        with self._lock:
            if self._runs_together is None:
                self._runs_together = self._learn()
            return self._runs_together

    def call_untraced(self, call: Callable[[], T]) -> T:
        """Call ``call`` and return its result. Lookups made meanwhile are not recorded."""
        with self._lock:
            try:
                return call()
            finally:
                self._drain()

    def _feed(self, texts: Sequence[bytes]) -> Any:
        tensorflow = import_tensorflow()
        try:
            return self.entry.feed(texts)
        except (tensorflow.errors.OpError, UnicodeDecodeError) as error:
            # UnicodeDecodeError: a message of TensorFlow that is not UTF-8.
            self._drain()
            whom = f"the text {texts[0][:80]!r}" if len(texts) == 1 else f"{len(texts)} texts"
            raise UnsupportedFormat(f"the model fails on {whom}: {reason_of(error)}") from error

    def _queue_sizes(self) -> list[int]:
        size = import_tensorflow().raw_ops.QueueSizeV2
        return [int(size(handle=queue)) for queue in self._queues]

    def _drain(self) -> list[list[list[Tensor]]]:
        tensorflow = import_tensorflow()
        dequeue = tensorflow.raw_ops.QueueDequeueV2
        each = zip(self._queues, self._types, self._queue_sizes(), strict=True)
        with tensorflow.device("CPU"):
            return [
                [
                    dequeue(handle=queue, component_types=types, timeout_ms=-1)
                    for _ in range(waiting)
                ]
                for queue, types, waiting in each
            ]

    def _learn(self) -> bool:
        """Return whether a text has the same traces in a batch as in a run of its own."""
        texts, runs = [], []
        for text in PROBES:
            try:
                self._feed([text])
            except UnsupportedFormat:
                continue
            raw = self._read_traces()
            self._neighbour = self._neighbour or (text, raw)
            bounds = all_bounds(raw, [text])
            runs.append(None if bounds is None else self._traces_of_texts(raw, bounds))
            texts.append(text)
        self._uncut = [
            all(run is not None and len(run[i].tokens.values) == 1 for run in runs)
            for i in range(len(self._uncut))
        ]
        if self.entry.one_by_one or len(texts) < 2:
            return False
        for order in (texts, texts[::-1]):
            try:
                together = self._run_together(order, _read_nothing)
            except UnsupportedFormat:
                return False
            alone = self._run_one_by_one(order, _read_nothing)
            if together is None or not all(map(OpTrace.equals, together.traces, alone.traces)):
                return False
        return True

    def _run_one_by_one(self, texts: Sequence[bytes], read: Read) -> TracedRun:
        runs = []
        for is_blank, group in itertools.groupby(texts, lambda text: not text.strip()):
            if is_blank:
                runs += [self._run_blank(text, read) for text in group]
            else:
                runs.append(self._run_each(list(group), read))
        return _join_runs(runs)

    def _run_each(self, texts: Sequence[bytes], read: Read) -> TracedRun:
        rows, ends = [], [[0] * len(self._queues)]
        for text in texts:
            rows.append(read(self._feed([text]), 1))
            ends.append(self._queue_sizes())
        raw = self._read_traces()
        counts = zip(*ends, strict=True)
        bounds = [trace.bounds_of_runs(own) for trace, own in zip(raw, counts, strict=True)]
        return TracedRun(np.concatenate(rows), self._traces_of_texts(raw, bounds))

    def _run_blank(self, text: bytes, read: Read) -> TracedRun:
        """Run the model on a blank ``text``. If that fails, run it on a batch of two texts.

        The batch is a text that the model can read, and ``text``.
        """
        try:
            return self._run_each([text], read)
        except UnsupportedFormat:
            if self.entry.one_by_one or self._neighbour is None:
                raise
            neighbour, alone = self._neighbour
            answer = self._feed([neighbour, text])
            pairs = zip(self._read_traces(), alone, strict=True)
            if any(not pair.drop_empty().equals(other.drop_empty()) for pair, other in pairs):
                raise
        return TracedRun(read(answer, 2)[1:], self._traces_of_nothing(1))

    def _run_together(self, texts: Sequence[bytes], read: Read) -> TracedRun | None:
        """Run the model on all texts at once. Return ``None`` if the traces are inconsistent."""
        answer = self._feed(texts)
        raw = self._read_traces()
        bounds = all_bounds(raw, texts)
        if bounds is None:
            return None
        return TracedRun(read(answer, len(texts)), self._traces_of_texts(raw, bounds))

    def _read_traces(self) -> list[RawTrace]:
        return list(map(raw_trace, self._live_ops, self._drain()))

    def _traces_of_texts(
        self, raw: Sequence[RawTrace], bounds: Sequence[Integers]
    ) -> tuple[OpTrace, ...]:
        each = zip(self._live_ops, raw, bounds, self._uncut, strict=True)
        return tuple(trace.of_texts(op, ends, uncut=uncut) for op, trace, ends, uncut in each)

    def _traces_of_nothing(self, texts: int) -> tuple[OpTrace, ...]:
        nothing = Tokens(string_array([]), np.zeros(texts + 1, np.int64))
        return tuple(OpTrace(op, nothing) for op in self._live_ops)


def _read_nothing(answer: Any, texts: int) -> Rows:
    return np.empty((texts, 0))


def _join_runs(runs: Sequence[TracedRun]) -> TracedRun:
    rows = np.concatenate([run.rows for run in runs]) if len(runs) > 1 else runs[0].rows
    return TracedRun(rows, join_traces([run.traces for run in runs]))


def _batches(texts: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    batch: list[bytes] = []
    longest = 0
    for text in texts:
        longest = max(longest, len(text))
        if batch and (len(batch) == BATCH_TEXTS or (len(batch) + 1) * longest > BATCH_BYTES):
            yield batch
            batch, longest = [], len(text)
        batch.append(text)
    if batch:
        yield batch


class ExactTokenizer:
    """A tokenizer that runs a model, and returns the words it looks up in one vocabulary.

    ``graph``: A digest of the file that contains the model's graph.
    """

    def __init__(self, model: InstrumentedModel, paths: Sequence[LookupPath], graph: bytes) -> None:
        self._model = model
        self._vocabulary = paths[0].vocabulary
        self._places = frozenset[tuple[bytes, bytes]]().union(*(path.places for path in paths))
        self._graph = graph
        self._sentencepieces: SentencePieces | None = None
        if paths[0].sites[0].kind == "sentencepiece":
            self._sentencepieces = paths[0].sentencepieces()
        self._whole_words = RuleTokenizer(Rule(()), self._vocabulary)

    def look_up(self, texts: pa.StringArray) -> WordLookup:
        return self.look_up_traces(self._model.run(as_bytes(texts)))

    def look_up_traces(self, traces: Sequence[OpTrace]) -> WordLookup:
        own = [each for each in traces if (each.op.function, each.op.node) in self._places]
        first = own[0]
        if first.pieces is None:
            tokens = first.tokens
            if len(own) > 1:  # text by text, the words of one op after those of the other
                parts = [each.tokens for each in own]
                lengths = [np.diff(part.offsets) for part in parts]
                texts = np.concatenate([np.repeat(np.arange(len(each)), each) for each in lengths])
                values = pa.concat_arrays([part.values for part in parts])
                order = pa.array(np.argsort(texts, kind="stable"))
                tokens = Tokens(values.take(order), starts_of(np.sum(lengths, axis=0)))
            return self._whole_words.look_up_words(TokenCodes.encode(tokens))
        trace, pieces = trace_by_word(first, first.pieces)
        words, unknown = self._spell(trace, pieces)
        offsets = starts_of(list(map(len, words)))[trace.tokens.offsets]
        return look_up_spelled(chain.from_iterable(words), offsets, self._vocabulary, unknown)

    def _spell(self, trace: OpTrace, pieces: Pieces) -> tuple[Sequence[Sequence[SpelledWord]], int]:
        strings, vocabulary = as_bytes(trace.tokens.values), self._vocabulary
        unknown = vocabulary.unknown.id if vocabulary.unknown is not None else -1
        values = as_bytes(pieces.values) if pieces.values is not None else None
        if pieces.ids is not None:
            ids: list[int] = pieces.ids.tolist()
        else:
            known = dict(zip(vocabulary.stored, vocabulary.id_array().tolist(), strict=True))
            ids = [known.get(value, unknown) for value in values or ()]
        model = self._sentencepieces
        # If the op's own tokenizer gives the same ids, use its bytes and unknown pieces.
        if model is not None and ids == [i for text in model.pieces(strings) for _, i in text]:
            return model.words(strings), model.unknown_id
        if values is None:
            entries = dict(zip(vocabulary.id_array().tolist(), vocabulary.stored, strict=True))
            values = [entries.get(number, b"") for number in ids]
        numbered = list(zip(values, ids, strict=True))
        words: list[list[SpelledWord]] = []
        bounds = pairwise(pieces.offsets.tolist())
        for string, (start, end) in zip(strings, bounds, strict=True):
            cut = tuple(numbered[start:end])
            each = [(string, cut)]
            if vocabulary.kind == "sentencepiece":  # the pieces spell the words
                own = [word for word in group_by_word(cut) if word]
                each = [(readable_word(b"".join(piece for piece, _ in w)), w) for w in own]
            words.append(
                [SpelledWord(t, w, all(number != unknown for _, number in w)) for t, w in each]
            )
        return words, unknown

    def pieces(self, word: bytes) -> tuple[bytes, ...]:
        """Return ``()``: the pieces of a word may depend on the text around it."""
        return ()

    def describe(self) -> tuple[str, ...]:
        entry = self._model.entry.name
        return (f"the model itself is run ({entry}), and reports what it looks up",)

    @property
    def fingerprint(self) -> str:
        entry = self._model.entry.name
        facts = f"vocabtool tap 1\n{self._vocabulary.fingerprint}\n{entry}\n"
        return hashlib.sha256(facts.encode() + self._graph).hexdigest()


def trace_by_word(trace: OpTrace, pieces: Pieces) -> tuple[OpTrace, Pieces]:
    """Group the pieces of a FastWordpiece op by word, because this op splits whole texts.

    Traces of other ops are returned unchanged. A piece continues a word if it begins with ``##``
    and starts where the previous piece ends.
    """
    values, begins, ends = pieces.values, pieces.starts, pieces.ends
    if trace.op.op != FAST_WORDPIECE or values is None or begins is None or ends is None:
        return trace, pieces
    string_of = np.repeat(np.arange(len(trace.tokens.values)), np.diff(pieces.offsets))
    first = ~np.array(pc.starts_with(values.view(pa.binary()), SUFFIX), np.bool_)
    first[:1] = True
    first[1:] |= (begins[1:] != ends[:-1]) | (string_of[1:] != string_of[:-1])
    starts = np.append(np.flatnonzero(first), len(first)).astype(np.int64)
    texts = as_bytes(trace.tokens.values)
    places = zip(string_of[starts[:-1]], begins[starts[:-1]], ends[starts[1:] - 1], strict=True)
    words = string_array(texts[at][start:end] for at, start, end in places)
    offsets = starts_of(first)[pieces.offsets][trace.tokens.offsets]
    inside = begins[starts[:-1]].repeat(np.diff(starts))
    moved = Pieces(starts, values, pieces.ids, begins - inside, ends - inside)
    return trace._replace(tokens=Tokens(words, offsets), pieces=moved), moved
