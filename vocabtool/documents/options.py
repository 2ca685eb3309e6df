"""Options for reading documents, shared by ``oov``, ``embed``, ``index`` and ``stream``.

The command line imports the choices of its options from here, so this module imports nothing heavy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypedDict, get_args

from vocabtool.choices import SPLIT_SIZE, Split

Format = Literal[
    "lines", "jsonl", "csv", "tsv", "parquet", "arrow", "tfrecord", "json",
    "text", "markdown", "rst", "html", "python", "code", "notebook", "pdf", "docx", "epub",
]  # fmt: skip  # one name a line would be twenty lines
OnError = Literal["raise", "skip"]
OnDuplicate = Literal["error", "first", "last"]


RULES: Final = 2
WHOLE_ROWS: Final = frozenset(
    {"file", "line"}
)  # how ``split`` leaves rows of tables and JSON whole


class SplitArguments(TypedDict, total=False):
    """Arguments of :class:`ReadOptions` that choose files and split them into pieces."""

    split: Split | None
    split_size: int | None
    overlap: int
    include: Sequence[str]
    exclude: Sequence[str]
    gitignore: bool


class ReadArguments(SplitArguments, total=False):
    """The keyword arguments of :class:`ReadOptions`."""

    field: str | None
    format: Format | None
    id_field: str | None
    keep: Sequence[str]
    on_error: OnError
    on_duplicate: OnDuplicate | None
    vector_field: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadOptions:
    """Options for reading documents.

    ``field``: the field that contains the text. Default: ``text``, or else the only column.
    ``format``: the format of every file. Default: by the suffix of each file, else ``lines``.
    ``id_field``: the field that contains the id, a string or an integer; a row without it is
    invalid. Default: the location of a document is its id.
    ``keep``: other fields to keep, as columns of strings. A string is kept unchanged, any other
    value as JSON text; if a row lacks the field, the value is null.
    ``on_error``: for an invalid row, ``"raise"`` an error, or ``"skip"`` and count the row.
    ``on_duplicate``: if an id occurs again, raise an ``"error"``, or read only the ``"first"`` or
    the ``"last"`` document with the id (``"last"`` reads the sources twice). ``None``: ids are not
    compared.
    ``vector_field``: the field with the vector of a document, a list of numbers (Parquet, Arrow,
    JSON lines and Python objects). A row without it, or of another length, is invalid.
    ``split``: where a text is cut into pieces, each a document. Default: by the format of the file.
    Lines of ``.txt``, headings of texts with headings, definitions of Python, and blank lines of
    other code; rows of tables and JSON are not split.
    ``split_size``: how many words a piece has at most, or tokens if the caller of the reader counts
    those of a model. Default: 256, or what the model reads.
    ``overlap``: how many of these a piece repeats from the end of the previous piece.
    ``include``, ``exclude``: patterns of file names in folders, as in ``.gitignore``. Without
    ``include``, all files with known endings are read.
    ``gitignore``: whether files in folders that a ``.gitignore`` names are left out.
    ``rules``: the version of the rules by which files are found and read. Under 1 (before version
    0.2.0), Markdown, code, HTML and unknown formats were read line by line. Folders were read
    without them, and without regard to ``.gitignore``.

    Raises ``ValueError`` for an invalid value.
    """

    field: str | None = None
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
    rules: int = RULES

    def __post_init__(self) -> None:
        for name in ("keep", "include", "exclude"):
            if isinstance(value := getattr(self, name), str):
                what = "names" if name == "keep" else "patterns"
                raise ValueError(f"{name} must be a list of {what}, got a string; use [{value!r}]")
            object.__setattr__(self, name, tuple(value))
        if self.rules < RULES:
            object.__setattr__(self, "gitignore", False)
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
    def splits_rows(self) -> bool:
        """Whether rows of tables and JSON are cut into pieces."""
        return self.split is not None and self.split not in WHOLE_ROWS
