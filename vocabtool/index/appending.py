"""Rows added to one generation of an index: its files together, none of them committed yet.

What is added and what is deleted is ``writer.py``'s business.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

from vocabtool.encoders.encoder import Vectors
from vocabtool.index import folder, row_hashes
from vocabtool.index.document_rows import DocumentRows
from vocabtool.index.document_writer import DocumentWriter
from vocabtool.index.manifest import Manifest
from vocabtool.index.row_hashes import Hashes
from vocabtool.index.vector_file import NAME as VECTORS
from vocabtool.index.vector_file import AppendedFile
from vocabtool.index.vectors.metric import as_stored
from vocabtool.keywords import tantivy_files
from vocabtool.keywords.cutter import Cutter
from vocabtool.keywords.tantivy_index import TantivyWriter

# Where a million documents are one commit, they are one segment of tantivy's: sooner written, and
# searched, than three.
KEYWORD_MEMORY: Final = 512 << 20
KEYWORD_SHARE: Final = 8  # of the memory that building may take, the part that keywords do


class Appending:
    """The files of a generation, open at the end. ``rows``: how many they hold.

    What lies behind the manifest's rows is removed: a killed writer left it.
    """

    def __init__(self, path: Path, manifest: Manifest, cutter: Cutter) -> None:
        self._manifest = manifest
        self._cutter = cutter
        self.folder = folder.generation(path, manifest.generation)
        self.folder.mkdir(exist_ok=True)
        held = manifest.configuration
        memory = KEYWORD_MEMORY
        if held.memory is not None:
            memory = min(memory, held.memory // KEYWORD_SHARE)
        with ExitStack() as opened:
            self._vectors = AppendedFile(self.folder / VECTORS, manifest.vectors)
            opened.callback(self._vectors.close)
            self._hashes = AppendedFile(self.folder / row_hashes.NAME, manifest.hashes)
            opened.callback(self._hashes.close)
            self.keywords = TantivyWriter(self.folder / folder.KEYWORDS, memory=memory)
            opened.callback(self.keywords.close)
            self.keywords.remove_from(manifest.rows)
            self._begin(manifest)
            self._opened = opened.pop_all()

    def _begin(self, manifest: Manifest) -> None:
        self._documents = DocumentWriter(self.folder, manifest.documents)
        self.rows = manifest.rows
        self._words, self._surfaces = manifest.words, manifest.surfaces

    def append(self, documents: DocumentRows, vectors: Vectors, hashes: Hashes) -> None:
        """Add documents, their vectors: prepared, shape (n, dim), and their hashes.

        Raises ``ValueError`` for vectors that cannot be stored; nothing is to be added then.
        """
        if not documents.rows:
            return
        stored = as_stored(vectors, self._manifest.configuration.dtype)
        self._documents.add(documents)
        self._vectors.append(stored.tobytes())
        self._hashes.append(hashes.astype("<u8").tobytes())
        terms = self._cutter.terms(documents.texts.to_pylist())
        rows = range(self.rows, self.rows + documents.rows)
        self.keywords.add(rows, documents.ids.to_pylist(), terms)
        self.rows = rows.stop
        self._words += sum(each.count for each in terms)
        self._surfaces += sum(each.surface_count for each in terms)

    def flush(self) -> Manifest:
        """Put all onto the disk: the manifest as it will be, but for codes and deletions.

        Tantivy commits only where that adds a segment, so that its files tell which commit it is.
        """
        self._vectors.flush()
        self._hashes.flush()
        documents = self._documents.finish()
        keywords = self._manifest.keywords
        if self.rows > self._manifest.rows or not keywords:
            self.keywords.commit()
            keywords = tantivy_files.checksums(self.folder / folder.KEYWORDS, keywords)
        flushed = replace(
            self._manifest,
            rows=self.rows,
            words=self._words,
            surfaces=self._surfaces,
            documents=documents,
            vectors=self._vectors.written,
            hashes=self._hashes.written,
            keywords=keywords,
        )
        self._begin(flushed)
        return flushed

    def committed(self, manifest: Manifest) -> None:
        """Go on from a commit that was made of what :meth:`flush` gave."""
        self._manifest = manifest

    def close(self) -> None:
        """Let go of the files; what is not flushed is lost."""
        self._documents.close()
        self._opened.close()
