"""The vocabularies of a model: all of them, or one that is chosen by name or by its use."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from vocabtool.errors import NoVocabulary, reading
from vocabtool.formats import files
from vocabtool.formats.files import MARK, MAX_NAMED, split_name
from vocabtool.formats.reader import Model
from vocabtool.formats.saved_model import graph_files
from vocabtool.system.arguments import check_arguments
from vocabtool.vocabulary import Vocabulary


@check_arguments
def vocabularies(model: str | Path) -> tuple[Vocabulary, ...]:
    """Return all vocabularies of a model.

    The vocabularies in which the model looks up words come first, then all others. Each of the two
    groups is sorted by size, the largest first. No code of the model runs.

    ``model``: a folder, a file, or the handle of a TensorFlow Hub model in the local cache. Raises
    :class:`VocabtoolError` if the model cannot be read. :func:`inspect` shows which parts could not
    be read.
    """
    return inspect(model).vocabularies


@check_arguments
def inspect(model: str | Path, *, small: bool = False) -> Model:
    """Return the vocabularies of a model, its skipped lists, and the parts that cannot be read.

    ``small``: whether to include constants that are lists of fewer than ten strings, if no op uses
    them.
    """
    with reading(str(model)):
        path = files.find_model(model)
        if files.graphs_file_in(path) is not None:
            findings = graph_files.read(path)
        else:
            from vocabtool.formats import detection  # loads the readers of all formats

            path, findings = detection.read(path)
    return findings.model(path, small=small)


@check_arguments
def extract(model: str | Path, name: str | None = None) -> Vocabulary:
    """Return one vocabulary of a model. By default, it is the first of these that exists:

    - the largest vocabulary in which the model looks up words
    - the largest constant
    - the largest list of another kind

    A list of integers is returned only by name.

    ``name``: the name of the vocabulary, as :func:`inspect` shows it. Raises :class:`NoVocabulary`
    if there is no such vocabulary.
    """
    return choose(inspect(model, small=name is not None), name)


def pick(spec: str | Path) -> tuple[Vocabulary, list[str]]:
    """Return the vocabulary ``FILE#NAME``, and notes on unread parts and other vocabularies.

    For ``FILE``, the vocabulary is the one that :func:`extract` returns.
    """
    path, name = (spec, None) if isinstance(spec, Path) else split_name(spec)
    model = inspect(path, small=name is not None)
    vocabulary, count = choose(model, name), len(model.vocabularies)
    notes = [f"{path}: incomplete: {warning}" for warning in model.warnings]
    if name is None and count > 1:
        notes.append(
            f"{path}: using {vocabulary.name}, one of {count} vocabularies; select another with "
            f"{path}{MARK}NAME"
        )
    return vocabulary, notes


def choose(model: Model, name: str | None = None) -> Vocabulary:
    """Return the vocabulary of ``model`` that :func:`extract` returns for ``name``."""
    if name is not None:
        names = [vocabulary.name for vocabulary in model.vocabularies]
        if name in names:
            return model.vocabularies[names.index(name)]
        similar = [other for other in names if name.casefold() in other.casefold()]
        similar = similar or get_close_matches(name, names, MAX_NAMED)
        question = f"; did you mean {' or '.join(similar[:MAX_NAMED])}?" if similar else "."
        listed = "".join(f"\n  {other}" for other in names) or " none"
        raise NoVocabulary(
            f"{model.path}: no vocabulary named {name!r}{question} Available vocabularies:{listed}"
        )
    texts = [v for v in model.vocabularies if v.entry_type == "text" and len(v)]
    if texts:
        # Constants come before other unused lists.
        return next((v for v in texts if v.linked or v.kind == "constant"), texts[0])
    count = len(model.passed_over)
    lines = [f"{model.path}: no vocabulary found ({model.format}; {count} lists skipped)."]
    lines += (f"Not read: {warning}" for warning in model.warnings)
    if model.vocabularies:
        others = ", ".join(vocabulary.name for vocabulary in model.vocabularies)
        lines.append(f"It has only integers; select them with MODEL#NAME: {others}")
    if count:
        lines.append("`vocabtool inspect --all` lists skipped lists and the reasons.")
    raise NoVocabulary("\n".join(lines))
