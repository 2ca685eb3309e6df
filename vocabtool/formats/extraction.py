"""The public verbs: ``vocabularies`` lists what a model holds, ``extract`` takes one of them.

``split_name`` tells which one ``FILE#NAME`` means, ``pick`` takes it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple

from vocabtool.errors import NoVocabulary
from vocabtool.formats import registry
from vocabtool.formats.model import Model
from vocabtool.vocabulary import Vocabulary

MAX_NAMED: Final = 3
MARK: Final = "#"  # before the name of a vocabulary


class PickedVocabulary(NamedTuple):
    """What :func:`pick` takes. ``notes``: what was not read, which others there are."""

    vocabulary: Vocabulary
    notes: tuple[str, ...] = ()


def vocabularies(model: str | Path) -> tuple[Vocabulary, ...]:
    """Every vocabulary of a model: a folder, a file, or a TensorFlow Hub handle in the cache.

    Those that the model looks words up in come first, the largest first. Nothing of the model is
    run. Raises :class:`VocabtoolError`; what could be read only in part is told by
    :func:`inspect`.
    """
    return inspect(model).vocabularies


def inspect(model: str | Path, *, small: bool = False) -> Model:
    """Like :func:`vocabularies`, with what was passed over and what could not be read.

    ``small``: take unlinked string constants of fewer than ten entries for vocabularies too.
    """
    path, result = registry.read(model)
    return result.model(path, small=small)


def extract(model: str | Path, name: str | None = None) -> Vocabulary:
    """One vocabulary of a model: by the name that ``inspect`` gives it, or the most likely one.

    Without a name: the largest that words are looked up in, failing that the largest constant,
    failing that the largest list of another kind, but never stop words.
    Raises :class:`NoVocabulary` where there is none, or none of that name.
    """
    return choose(inspect(model, small=name is not None), name)


def pick(spec: str | Path) -> PickedVocabulary:
    """The vocabulary that ``FILE`` or ``FILE#NAME`` means: the one that :func:`extract` takes.

    Raises what :func:`extract` raises.
    """
    path, name = (spec, None) if isinstance(spec, Path) else split_name(spec)
    model = inspect(path, small=name is not None)
    vocabulary, among = choose(model, name), len(model.vocabularies)
    notes = [f"{path}: incomplete: {warning}" for warning in model.warnings]
    if name is None and among > 1:
        taken = f"took {vocabulary.name}, one of {among} vocabularies"
        notes.append(f"{path}: {taken}: {path}{MARK}NAME takes another")
    return PickedVocabulary(vocabulary, tuple(notes))


def split_name(model: str) -> tuple[str, str | None]:
    """``FILE#NAME`` as a path and the name of a vocabulary in it, ``None`` where none is named.

    A path that holds a ``#`` itself is tried as a whole first, then the longest part of it
    that is there.
    """
    if os.path.lexists(model):
        return model, None
    for at in range(len(model) - 1, 0, -1):
        path = model[:at]
        if model[at] == MARK and (os.path.lexists(path) or "://" in path):
            return path, model[at + 1 :]
    return model, None


def choose(model: Model, name: str | None = None) -> Vocabulary:
    """The vocabulary that :func:`extract` takes from what was found."""
    if name is not None:
        named = next((found for found in model.vocabularies if found.name == name), None)
        if named is None:
            raise NoVocabulary(_no_such_name(model, name))
        return named
    texts = [v for v in model.vocabularies if v.entry_type == "text" and len(v)]
    texts = [v for v in texts if v.kind != "stop words"]
    if not texts:
        raise NoVocabulary(_none_found(model))
    return min(texts, key=lambda v: (not v.linked, v.kind != "constant", -len(v)))


def _no_such_name(model: Model, name: str) -> str:
    from difflib import get_close_matches

    names = [found.name for found in model.vocabularies]
    close = [known for known in names if name.casefold() in known.casefold()]
    close = close or get_close_matches(name, names, MAX_NAMED)
    meant = f"; did you mean {' or '.join(close[:MAX_NAMED])}?" if close else "."
    listed = "".join(f"\n  {known}" for known in names) or " nothing"
    return f"{model.path}: no vocabulary named {name!r}{meant} It holds:{listed}"


def _none_found(model: Model) -> str:
    count = len(model.passed_over)
    lines = [f"{model.path}: no vocabulary found ({model.format}; {count} lists passed over)."]
    lines += (f"Not read: {warning}" for warning in model.warnings)
    if model.vocabularies:
        names = ", ".join(found.name for found in model.vocabularies)
        lines.append(f"It holds integers or stop words only; take them with --name: {names}")
    if count:
        lines.append("`vocabtool inspect --all` shows what was passed over and why.")
    return "\n".join(lines)
