"""Options for reading documents, shared by ``oov``, ``embed``, ``index`` and ``stream``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, TypedDict, get_args

from vocabtool.choices import SPLIT_SIZE, Split

Format = Literal[
    "lines", "jsonl", "csv", "tsv", "parquet", "arrow", "tfrecord", "json",
    "text", "markdown", "rst", "html", "python", "code", "notebook", "pdf", "docx",
]  # fmt: skip  # one name a line would be twenty lines
OnError = Literal["raise", "skip"]
OnDuplicate = Literal["error", "first"]

TEXT: Final = "text"  # the default text field, and the one that contains the text of a piece
PATH_FIRST: Final = ("path", TEXT)  # the fields of a piece that begins with its path
BETWEEN: Final = "\n\n"  # between the texts of several fields
MAX_WEIGHT: Final = 9
WEIGHTED: Final = re.compile(rf"(?P<name>[^^]+)(?:\^(?P<weight>[1-{MAX_WEIGHT}]))?")
WHOLE_ROWS: Final = frozenset(
    {"file", "line"}
)  # how ``split`` leaves rows of tables and JSON whole


class SplitArguments(TypedDict, total=False):
    """The keyword arguments of :class:`ReadOptions` that choose, read and split files."""

    split: Split | None
    split_size: int | None
    overlap: int
    include: Sequence[str]
    exclude: Sequence[str]
    gitignore: bool
    quotes: bool


class ReadArguments(SplitArguments, total=False):
    """The keyword arguments of :class:`ReadOptions`."""

    field: str | Sequence[str] | None
    format: Format | None
    id_field: str | None
    keep: Sequence[str]
    on_error: OnError
    on_duplicate: OnDuplicate | None
    vector_field: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadOptions:
    """Options for reading documents.

    - ``field``: the field that contains the text. Default: ``text``, or else the only column.
      For a list of several fields, such as ``("title^2", "body")``, the text of a document is the
      texts of these fields, joined by blank lines in this order. These fields are also kept. A row
      may lack some of the fields, but not all. A weight ``NAME^W`` (W from 1 to 9) counts only in
      the keyword search of an index: each occurrence of a word in the field counts W times.
    - ``format``: the format of all files. Default: by the suffix of each file, else ``lines``.
    - ``id_field``: the field that contains the id, a string or an integer. A row without an id is
      invalid. Default: a document's location is its id, but a Python mapping with the key ``id``
      has this value as its id.
    - ``keep``: other fields to keep, as columns of strings. A string is kept unchanged, any other
      value as JSON text. If a row lacks the field, the value is null.
    - ``on_error``: for an invalid row, ``"raise"`` an error, or ``"skip"`` and count the row.
    - ``on_duplicate``: if an id occurs again, raise an ``"error"``, or read only the ``"first"``
      document with the id. ``None``: ids are not compared.
    - ``vector_field``: the field that contains the vector of a document, a list of numbers. It
      needs Parquet, Arrow, JSON lines or Python objects. A row is invalid if it has no vector, or
      a vector of another length.
    - ``split``: where a text is cut into pieces. Each piece is a document. Default: ``.txt`` is cut
      at lines, text with headings at headings, Python at definitions, and other code at blank
      lines; rows of tables and JSON are not cut.
    - ``split_size``: maximum length of a piece, in words, or in tokens if the reader gets a
      ``measure``. Default: 256. If ``measure.most``, the limit of the model, is less, it is the
      maximum. With ``split="file"``, a text is one piece of any length.
    - ``overlap``: the number of words or tokens that a piece repeats from the end of the previous
      piece.
    - ``include``, ``exclude``: patterns of file names in folders, as in ``.gitignore``. Without
      ``include``, all files with known endings are read.
    - ``gitignore``: whether to skip the files in folders that ``.gitignore`` excludes.
    - ``quotes``: whether quotes in CSV enclose values. TSV has no quotes.
    - ``path_first``: whether each piece begins with its path of headings, such as
      ``Install > Linux``. Applies only to texts that are cut at headings. Has no effect if
      ``field`` is given. An index sets this option, except when vectors are given.

    Raises ``ValueError`` for an invalid value.
    """

    field: str | Sequence[str] | None = None
    format: Format | None = None
    id_field: str | None = None
    keep: Sequence[str] = ()
    on_error: OnError = "raise"
    on_duplicate: OnDuplicate | None = "error"
    vector_field: str | None = None
    split: Split | None = None
    split_size: int | None = None
    overlap: int = 0
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    gitignore: bool = True
    quotes: bool = True
    path_first: bool = False

    def __post_init__(self) -> None:
        for name in ("keep", "include", "exclude"):
            if isinstance(value := getattr(self, name), str):
                what = "names" if name == "keep" else "patterns"
                raise ValueError(f"{name} must be a list of {what}, got a string; use [{value!r}]")
            object.__setattr__(self, name, tuple(value))
        if self.field is not None and not isinstance(self.field, str):
            names: Any = self.field
            if not isinstance(names, Sequence) or not all(isinstance(n, str) for n in names):
                raise ValueError(f"field: wanted a name or a list of names, got {self.field!r}")
            if len(names) > 1:  # weights of 1 are removed
                weights = weights_of((*names,)).items()
                names = tuple(name if n == 1 else f"{name}^{n}" for name, n in weights)
            object.__setattr__(self, "field", names if len(names) > 1 else next(iter(names), None))
        if self.split_size is not None and self.split_size < 1:
            raise ValueError(f"split_size must be at least 1, got {self.split_size}")
        if not 0 <= self.overlap < (self.split_size or SPLIT_SIZE):
            most = (self.split_size or SPLIT_SIZE) - 1
            raise ValueError(
                f"overlap must be from 0 to {most} (split_size - 1), got {self.overlap}"
            )
        if self.vector_field is not None and self.splits_rows:
            raise ValueError(
                f"split={self.split!r} cuts rows into pieces, but vector_field has one vector for "
                "each row; use one of them"
            )
        for name, choices, or_none in (
            ("format", Format, " or None"),
            ("on_error", OnError, ""),
            ("on_duplicate", OnDuplicate, " or None"),
            ("split", Split, " or None"),
        ):
            value, wanted = getattr(self, name), get_args(choices)
            if value not in wanted and not (or_none and value is None):
                raise ValueError(f"{name}: wanted one of {wanted}{or_none}, got {value!r}")

    @property
    def searched_fields(self) -> tuple[str, ...]:
        """If there are several text fields, their names with weights; otherwise empty."""
        return () if self.field is None or isinstance(self.field, str) else (*self.field,)

    @property
    def fields(self) -> tuple[str, ...]:
        """If there are several text fields, their names without weights; otherwise empty."""
        return (*weights_of(self.searched_fields),)

    @property
    def single_field(self) -> str | None:
        """The text field, if ``field`` is a single name; otherwise ``None``."""
        return self.field if isinstance(self.field, str) else None

    @property
    def kept_fields(self) -> tuple[str, ...]:
        """The fields to keep: ``keep``, and the text fields if there are several of them."""
        return (*self.keep, *(name for name in self.fields if name not in (TEXT, *self.keep)))

    @property
    def field_of_rows(self) -> str | None:
        """The first field that the options name but plain text lacks, or ``None``."""
        lacking = self.fields[:1] if TEXT not in self.fields else ()
        single = None if self.path_first and self.field == TEXT else self.single_field
        names = (*lacking, single, self.id_field)
        return next((name for name in names if name is not None), None)

    def hidden_fields(self, text: str) -> frozenset[str]:
        """Return the names of the fields that are left out of ``Document.fields``.

        ``text``: the name of the text field. Ignored if the options name several text fields.
        """
        return frozenset({TEXT}.intersection(self.fields) if self.fields else {text})

    def refuse_weights(self) -> None:
        """Raise ``ValueError`` if a field has a weight. Only an index uses weights."""
        for name, weight in weights_of(self.searched_fields).items():
            if weight > 1:
                raise ValueError(
                    f"field: a weight counts only in the keyword search of an index; use {name!r} "
                    f"instead of '{name}^{weight}'"
                )

    @property
    def splits_rows(self) -> bool:
        """Whether rows of tables and JSON are cut into pieces."""
        return self.split is not None and self.split not in WHOLE_ROWS


@lru_cache
def weights_of(searched: tuple[str, ...]) -> Mapping[str, int]:
    """Return the weight of each ``NAME`` or ``NAME^W``. Raises ``ValueError`` if invalid."""
    weights: dict[str, int] = {}
    for field in searched:
        if (match := WEIGHTED.fullmatch(field)) is None:
            wanted = f"NAME or NAME^W, W a whole number from 1 to {MAX_WEIGHT}"
            raise ValueError(f"field: wanted {wanted}, got {field!r}")
        name = match["name"]
        if name in weights:
            raise ValueError(f"field: a field may be named only once, got {name!r} again")
        weights[name] = int(match["weight"] or 1)
    return weights
