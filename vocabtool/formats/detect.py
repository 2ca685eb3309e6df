"""Which format a path holds, told by content and never by name; then the reader for it.

A SavedModel's folder and files of graphs are for ``graph_files.py``, any other file for the first
of ``readers.py`` that recognises it, any other folder for ``model_folder.py``. Nothing is unpacked
onto the disk and nothing is executed.
"""

from __future__ import annotations

from pathlib import Path

from vocabtool.errors import UnknownFormat, reading
from vocabtool.formats.model import Model, distinct
from vocabtool.formats.saved_model import graph_files
from vocabtool.formats.saved_model.graph_files import Opened
from vocabtool.formats.saved_model.model import read_model


def open_model(model: str | Path, *, small: bool = False) -> Model:
    """Read every vocabulary of a folder, a file or a TensorFlow Hub handle.

    ``small``: take string constants of fewer than ten entries for vocabularies too.
    Raises :class:`NotFound`, :class:`UnknownFormat`, :class:`UnsupportedFormat` or
    :class:`InvalidFile`.
    """
    with reading(str(model)):
        path = graph_files.path_of(model)
        if not path.is_dir():
            return _open_file(path, small=small)
        file = graph_files.graphs_file_in(path)
        if file is not None:
            return _in_graphs(graph_files.read_graphs(path, file), small=small)
        from vocabtool.formats.model_folder import read_folder

        return read_folder(path)


def has_graphs(model: str | Path) -> bool:
    """Whether :func:`open_model` takes a path for a model of graphs; raises as it does."""
    with reading(str(model)):
        path = graph_files.path_of(model)
        if path.is_dir():
            return graph_files.graphs_file_in(path) is not None
        if graph_files.begins_as_graphs(path):
            return True
        from vocabtool.formats import readers

        return readers.find(readers.source_of(path)) is None


def _open_file(file: Path, *, small: bool) -> Model:
    if graph_files.begins_as_graphs(file):
        return _in_graphs(graph_files.read_graphs(file, file), small=small)
    from vocabtool.formats import readers

    source = readers.source_of(file)
    reader = readers.find(source)
    try:
        if reader is None:
            return _in_graphs(graph_files.read_graphs(file, file), small=small)
        found = reader.read(source)
    except UnknownFormat as error:
        raise UnknownFormat(error.what, error.tried + readers.reasons(source)) from error
    vocabularies = distinct(found.vocabularies)
    format_ = found.format or reader.format
    return Model(str(file), format_, vocabularies, found.passed_over, found.warnings)


def _in_graphs(opened: Opened, *, small: bool) -> Model:
    with reading(str(opened.file)):
        return read_model(opened, small=small)
