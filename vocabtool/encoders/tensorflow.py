"""Vectors from a TensorFlow SavedModel or a module of TensorFlow Hub, of TF1 or TF2.

What it gives is what TensorFlow gives for the same batch, bit for bit. Which function and output
that is: ``saved_model_vectors.py``; what it is fed: ``saved_model_inputs.py``; how it is run:
``saved_model_run.py``; its files and their digest: ``saved_model_files.py``; its words:
``saved_model_words.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from vocabtool.encoders import saved_model_words
from vocabtool.encoders.encoder import Encoded, EncoderKind, Texts, Vectors
from vocabtool.encoders.piping import Piping
from vocabtool.encoders.saved_model_files import digest, local
from vocabtool.encoders.saved_model_inputs import IdInput, TextInput, fixed_size
from vocabtool.encoders.saved_model_run import Options, load
from vocabtool.encoders.saved_model_vectors import Source
from vocabtool.encoders.saved_model_words import Told
from vocabtool.errors import InvalidFile, UnsupportedFormat, VocabtoolError, reading
from vocabtool.formats import hub_cache
from vocabtool.formats.saved_model import graph_files
from vocabtool.tokenization.checked_model import import_tensorflow
from vocabtool.tokenization.exact_words import ExactTokenizer
from vocabtool.tokenization.instrumented_model import InstrumentedModel
from vocabtool.tokenization.lookup import WordLookup
from vocabtool.tokenization.model_functions import Entry, ModelFunction, sizes
from vocabtool.tokenization.options import RULE_NAMES
from vocabtool.tokenization.text_arrays import as_bytes, text_bytes, texts_array
from vocabtool.tokenization.words import Words

if TYPE_CHECKING:
    import pyarrow as pa

PROBES: Final = (b"a", b"42", b"")  # one of which a model takes, to see how long its vectors are


class TensorFlowEncoder(Piping):
    """The vectors that a SavedModel makes of texts; fields as in :class:`Encoder`.

    Threads may call it together; with exact words they wait for each other.
    """

    kind: EncoderKind = "tensorflow"

    def __init__(self, model: str | Path, folder: Path, options: Options) -> None:
        """Use :meth:`open`."""
        opened = graph_files.open_graphs(folder)  # what is no model is told at once
        import_tensorflow()
        self._model, self._folder, self._options = model, folder, options
        with reading(str(opened.path)):
            self._loaded = load(opened, options)
            self._input = self._input_of(self._source.function)
            self.max_batch = _at_once(self._input, options.max_batch)
            self._exact = self._exact_words()
            self.dim = self._find_dim()
            if isinstance(self._input, IdInput):
                self._input.by_length = self._loaded.is_changed_by_padding(self._input)
            self.fingerprint = digest(opened.file, self._decided_by())
        if options.rule is not None:
            _ = self._told  # a rule that is none is said now, not at the first word

    @classmethod
    def open(
        cls,
        model: str | Path,
        *,
        signature: str | None = None,
        output: str | None = None,
        name: str | None = None,
        rule: str | None = None,
        exact_words: bool = False,
        trust: bool = False,
        max_batch: int = 256,
    ) -> TensorFlowEncoder:
        """Open a SavedModel's folder or a handle of TensorFlow Hub, which is fetched if need be.

        ``signature``: the function, of several that give vectors (or a method's name);
        ``output``: the one of its outputs; ``name``: the vocabulary, as ``inspect`` prints it;
        ``rule``: how texts become words, where the model takes ids (see ``words/named.py``);
        ``exact_words``: let the model tell the words beside the vectors (:meth:`encode_judged`);
        ``trust``: run it though it may read or write files, use the network or run Python;
        ``max_batch``: texts run at once, at most.
        Raises :class:`NotFound`, :class:`UnsupportedFormat` where TensorFlow is missing or does
        not load it, where trust is needed, and where no function gives one vector for each text or
        several do, :class:`VocabtoolError` where its words are wanted and not told.
        """
        if max_batch < 1:
            raise ValueError(f"wanted at least one text in a batch, got max_batch={max_batch}")
        options = Options(signature, output, name, rule, exact_words, trust, max_batch)
        if isinstance(model, str) and hub_cache.is_handle(model):
            import_tensorflow()  # without it nothing is fetched
        folder = local(model)
        return cls(model if _is_handle(model, folder) else folder, folder, options)

    def __reduce__(self) -> tuple[Any, ...]:
        """Opened again where it is unpickled."""
        return _open_again, (self._model, self._options, self.fingerprint)

    @property
    def words(self) -> Words | None:
        """How the model cuts texts: as asked for, or as recovered from its graph."""
        return self._told.words

    @property
    def exact(self) -> bool:
        """Whether exact words were asked for."""
        return self._options.exact_words

    @property
    def notes(self) -> tuple[str, ...]:
        """The function and output, what becomes of numbers and texts, what words cost."""
        told = [str(self._source), *self._input.notes]
        if self._source.output.dtype != "float32":
            told.append(f"its numbers are {self._source.output.dtype} and become float32")
        if self._loaded.tap is not None:
            told.append(saved_model_words.cost(self._loaded.tap))
        if self._told.note is not None:
            told.append(self._told.note)
        return (*told, *(self._told.words.notes if self._told.words is not None else ()))

    def encode(self, texts: Texts) -> Vectors:
        """The vector of each text: float32, shape (n, dim).

        They are run in batches of ``max_batch``, each as TensorFlow is given it.
        Raises :class:`UnsupportedFormat` with the text that the model fails at, or whose vector
        is not finite.
        """
        given = _listed(texts)
        batches = [self._encoded(batch) for batch in self._batches(given)]
        return _joined(batches, self.dim)

    def encode_judged(self, texts: Texts) -> Encoded:
        """The vectors, and the words that the model itself looks up, out of one run.

        Vectors are those of :meth:`encode` to the bit, unless sentinel texts ride along or texts
        are run one by one (see ``notes``): then within 1e-6.
        Raises what :meth:`encode` raises, and :class:`VocabtoolError` where exact words were not
        asked for.
        """
        if not self.exact:
            raise VocabtoolError("opened without exact words: give exact_words=True")
        if isinstance(self._input, IdInput):
            return self._encoded_by_rule(texts, self._input)
        given = _listed(texts)
        if not given:
            return Encoded(_joined([], self.dim), self._judge.look_up(texts_array([])))
        ran = self._tap.run_batches(list(self._batches(given)), self._source.output.read)
        return Encoded(self._checked(ran.rows, given), self._judge.look_up_traces(ran.traces))

    # What was loaded.

    @property
    def _source(self) -> Source:
        return self._loaded.source

    @property
    def _tap(self) -> InstrumentedModel:
        assert self._loaded.tap is not None, "exact words of texts need the tap"  # noqa: S101 - for mypy
        return self._loaded.tap

    @property
    def _judge(self) -> ExactTokenizer:
        assert self._exact is not None, "the tap has a judge"  # noqa: S101 - for mypy
        return self._exact[1]

    @cached_property
    def _told(self) -> Told:
        if isinstance(self._input, IdInput):
            return Told(self._input.words)
        if self._exact is not None:
            return Told(self._exact[0])
        return saved_model_words.recovered(self._folder, self._options.name, self._options.rule)

    def _input_of(self, function: ModelFunction) -> TextInput | IdInput:
        shape = function.text_shape
        if shape is not None:
            return TextInput(Entry.of(function, shape))
        if self._options.rule is None:
            raise UnsupportedFormat(
                f"{function} takes ids, {function.wants}, and only the caller can say how texts "
                f"become words: give --rule ({', '.join(RULE_NAMES)}) and, "
                "where the model holds several vocabularies, --name"
            )
        words = Words.of(self._folder, name=self._options.name, rule=self._options.rule)
        (spec,) = function.inputs
        rows, length = sizes(spec.shape)
        return IdInput((rows, length), spec.dtype, words)

    def _exact_words(self) -> tuple[Words, ExactTokenizer] | None:
        if self._loaded.tap is None:
            return None
        return saved_model_words.exact(self._loaded.tap, self._folder, self._options.name)

    def _decided_by(self) -> list[str]:
        """What the vectors depend on besides the model's files."""
        told = [str(self._source.function), self._source.output.name]
        if isinstance(self._input, IdInput):
            words = self._input.words
            told += [words.fingerprint, words.vocabulary.fingerprint]
            told += [str(self._input.pad), str(self._input.unknown)]
        return told

    def _find_dim(self) -> int:
        """How many numbers a vector has; a text is run where the graph does not say."""
        dim = self._source.output.dim
        if dim is not None:
            return dim
        failed: VocabtoolError | None = None
        for probe in PROBES:
            try:
                return int(self._loaded.run(self._input, [probe]).shape[1])
            except UnsupportedFormat as error:
                failed = failed or error
        raise failed or UnsupportedFormat("it takes no text")

    # Running it.

    def _batches(self, texts: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
        size = self.max_batch
        return (texts[start : start + size] for start in range(0, len(texts), size))

    def _encoded(self, texts: Sequence[bytes]) -> Vectors:
        """One batch."""
        return self._checked(self._loaded.run(self._input, texts), texts)

    def _encoded_by_rule(self, texts: Texts, ids: IdInput) -> Encoded:
        """The words that are fed as ids are looked up once."""
        given = texts_array(texts)
        judged = ids.words.look_up(given)
        batches = [self._loaded.run_judged(ids, part) for part in _slices(judged, self.max_batch)]
        return Encoded(self._checked(_joined(batches, self.dim), as_bytes(given)), judged)

    def _checked(self, vectors: Vectors, texts: Sequence[bytes]) -> Vectors:
        """Raises :class:`UnsupportedFormat` for vectors of another length, or not finite."""
        if vectors.shape[1] != self.dim:
            raise UnsupportedFormat(
                f"the model gives vectors of {vectors.shape[1]:,} numbers; before, {self.dim:,}"
            )
        if not np.isfinite(vectors).all():
            first = int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
            what = vectors[first][~np.isfinite(vectors[first])][0]
            raise UnsupportedFormat(
                f"the model gives a vector with {what} for the text {texts[first][:80]!r}; "
                "leave such texts out, or choose another --output"
            )
        return vectors


def _at_once(given: TextInput | IdInput, wanted: int) -> int:
    """Texts run at once: as many as are wanted, unless the model takes so many and no fewer."""
    size = fixed_size(given.shape)
    return wanted if size is None or size == 1 else size


def _listed(texts: Texts) -> Sequence[bytes]:
    """Texts as a list of bytes."""
    if isinstance(texts, list | tuple):
        if set(map(type, texts)) <= {bytes}:  # in a tenth of the time
            return texts
        return [text_bytes(text) for text in texts]
    array: pa.StringArray = texts_array(texts)
    return as_bytes(array)


def _joined(batches: Sequence[Vectors], dim: int) -> Vectors:
    if len(batches) == 1:
        return batches[0]
    return np.concatenate(batches) if batches else np.empty((0, dim), np.float32)


def _slices(judged: WordLookup, size: int) -> Iterator[WordLookup]:
    """The words of so many texts at a time."""
    texts = len(judged.offsets) - 1
    for start in range(0, texts, size):
        offsets = judged.offsets[start : min(start + size, texts) + 1]
        codes = judged.codes[offsets[0] : offsets[-1]]
        yield judged._replace(codes=codes, offsets=offsets - offsets[0])


def _is_handle(model: str | Path, folder: Path) -> bool:
    """Whether a model is named by its address: another machine has it in another folder."""
    return isinstance(model, str) and Path(model).absolute() != folder


def _open_again(model: str | Path, options: Options, fingerprint: str) -> TensorFlowEncoder:
    """Open what was pickled. Raises :class:`InvalidFile` where the model is another by now."""
    opened = TensorFlowEncoder.open(model, **options._asdict())
    if opened.fingerprint != fingerprint:
        raise InvalidFile(
            "the model's files have changed since the encoder was opened", file=f"{model}"
        )
    return opened
