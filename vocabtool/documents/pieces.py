"""Cut texts into pieces. Each piece is a document with an id, short enough for a model.

A text is cut at headings first (or as ``ReadOptions.split`` says). A section that is too long is
cut further: at blank lines, line ends, ends of sentences and blanks. Pieces are filled from the
start, so an edit does not change the pieces before it.

    docs/install.md#Install > Linux      the first piece below these headings
    docs/install.md#Install > Linux#2    the second one
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vocabtool.choices import SPLIT_SIZE, Split
from vocabtool.documents.batch import (
    MAX_ROWS,
    SOURCE,
    BadRow,
    Batch,
    Count,
    Measure,
    Request,
    Row,
    gather,
    joined_text,
    kept_of,
)
from vocabtool.documents.files import Readable, read_up_to, refuse_utf16
from vocabtool.documents.headings import MAX_TITLE, Heading, MarkedText, markdown
from vocabtool.documents.options import BETWEEN, PATH_FIRST, TEXT
from vocabtool.errors import InvalidFile, UnsupportedFormat
from vocabtool.system.parallel import in_batches
from vocabtool.vocabulary import decode, text_bytes

MAX_FILE_BYTES: Final = 64 << 20  # of a file that is read as a whole; a longer one is invalid
WORD_CHARACTERS: Final = 16  # characters that count as a word, if there are fewer blanks
MAX_SECTION: Final = 1 << 19  # characters that are cut at once; each word of them needs 200 bytes
BATCH_CHARACTERS: Final = 1 << 18  # characters of sections that are cut together
CHARACTER_TOKENS: Final = 8  # at most; a text that may have too many tokens is counted
SHORT_TEXT: Final = 80  # characters; a shorter text is quicker to split than to translate
BOM: Final = "\ufeff"
LONE_CR: Final = re.compile(r"\r(?!\n)")  # a line end of old files
BETWEEN_HEADINGS: Final = " > "  # between the headings of a path
NOT_JOINED: Final = frozenset({SOURCE, "line", "start", "end"})  # fields that change with the place

# Where a text is cut, the best places first.
PLACES: Final = (
    re.compile(r"\n(?:[ \t\r]*+\n)++"),
    re.compile(r"\n"),
    re.compile(r"(?<=[.!?;。！？])\s+|(?<=[。！？])"),  # noqa: RUF001 - of Chinese and Japanese
    re.compile(r"\s+"),
)
PARAGRAPH, LINE = PLACES[:2]
BLANK: Final = re.compile(r"\s")

Span = tuple[int, int]

# Each byte of ASCII becomes an x or a blank.
LETTERS_OR_BLANKS: Final = bytes(b"x "[chr(code).isspace()] for code in range(256))


def count_words(texts: Sequence[str]) -> list[int]:
    """Count the words of each text: at least one per 16 characters, rounded up."""
    counts = []
    for text in texts:
        if len(text) > SHORT_TEXT and text.isascii():  # quicker than to split
            words = (b" " + text.encode().translate(LETTERS_OR_BLANKS)).count(b" x")
        else:
            words = len(text.split())
        counts.append(max(words, -(-len(text) // WORD_CHARACTERS)))
    return counts


class Piece(NamedTuple):
    """A piece of a text: its offsets in characters, and its path, such as ``Install > Linux``.

    ``top``: offset of the first heading of the path; -1 if this heading is not in the text.
    """

    start: int
    end: int
    path: str
    top: int = -1


@dataclass(frozen=True, slots=True)
class Sizes:
    """The maximum length of a piece, and its overlap, in what ``count`` counts."""

    size: int
    overlap: int
    count: Count


def sizes_of(request: Request) -> Sizes:
    """Return the sizes from the options, reduced to what the model reads."""
    read, measure = request.read, request.measure or Measure(count_words)
    size = read.split_size or SPLIT_SIZE
    if measure.most is not None:
        size = max(min(size, measure.most), 1)
    if read.overlap >= size:
        raise ValueError(
            f"overlap must be less than the length of a piece ({size:,}), got {read.overlap:,}"
        )
    return Sizes(size, read.overlap, measure.count)


def cut(marked: MarkedText, split: Split, sizes: Sizes) -> Iterator[Piece]:
    """Yield the pieces in order. Only front matter and blanks around pieces are left out."""
    text, begin, paths = marked.text, marked.begin, [(-1, "", -1), *_paths(marked.headings)]
    starts = [at for at, _, _ in paths]

    def path_at(at: int) -> tuple[str, int]:
        return paths[bisect_right(starts, at) - 1][1:]

    bounds: Iterable[int] = [begin, len(text)]
    if split == "heading":
        bounds = _sections(marked)
    elif split in ("paragraph", "line"):
        place = PARAGRAPH if split == "paragraph" else LINE
        ends = (match.end() for match in place.finditer(text, begin))
        bounds = chain([begin], ends, [len(text)])
    sections = (span for pair in pairwise(bounds) if (span := _trim(text, pair)))
    if split == "file":
        yield from (Piece(start, end, "") for start, end in sections)
        return
    # A section of several headings belongs to the last of them, the only one with a text.
    in_sections = (
        Piece(*span, *path_at(section[1] - 1))
        for section in sections
        for span in _cut_long(text, section)
    )
    for batch in in_batches(
        in_sections, MAX_ROWS, weight=lambda piece: piece.end - piece.start, most=BATCH_CHARACTERS
    ):
        spans = _fit(text, [(piece.start, piece.end) for piece in batch], sizes)
        for piece, of_piece in zip(batch, spans, strict=True):
            for start, end in of_piece:
                if split != "heading":
                    yield Piece(start, end, *path_at(start))
                else:
                    yield Piece(start, end, piece.path, piece.top)


def _cut_long(text: str, section: Span) -> Iterator[Span]:
    """Cut a section at the best places into spans of at most ``MAX_SECTION`` characters."""
    start, end = section
    while end - start > MAX_SECTION:
        middle, limit = start + MAX_SECTION // 2, start + MAX_SECTION
        places = (text.rfind(sign, middle, limit) for sign in ("\n\n", "\n", " "))
        at = next((place for place in places if place >= 0), limit)
        if span := _trim(text, (start, at)):
            yield span
        start = at
    if span := _trim(text, (start, end)):
        yield span


def _paths(headings: Sequence[Heading]) -> list[tuple[int, str, int]]:
    """Return the start, the path and the ``top`` (see :class:`Piece`) of each section."""
    paths, open_headings = [], list[Heading]()
    for heading in headings:
        while open_headings and open_headings[-1].level >= heading.level:
            open_headings.pop()
        open_headings.append(heading)
        with_title = [one for one in open_headings if one.title]
        top = -1
        if with_title and with_title[0].at < with_title[0].body:
            top = with_title[0].at
        paths.append((heading.at, BETWEEN_HEADINGS.join([one.title for one in with_title]), top))
    return paths


def _sections(marked: MarkedText) -> list[int]:
    """Return the offset of each section, and of the end. An empty section joins its subsection."""
    text, bounds = marked.text, [marked.begin]
    before: Heading | None = None
    for heading in marked.headings:
        has_text = before is not None and bool(text[before.body : heading.at].strip())
        if before is None or heading.level <= before.level or has_text:
            bounds.append(heading.at)
        before = heading
    return [*bounds, len(text)]


def _trim(text: str, span: Span) -> Span | None:
    """Cut blank lines off the start of a span, and blanks off its end. ``None``: all is blank."""
    start, end = span
    section = text[start:end].rstrip()
    if not section:
        return None
    blanks = len(section) - len(section.lstrip())
    line = section.rfind("\n", 0, blanks)
    is_whole = line >= 0 or not start or text[start - 1] == "\n"
    return start + (line + 1 if is_whole else blanks), start + len(section)


def _fit(text: str, sections: Sequence[Span], sizes: Sizes) -> list[list[Span]]:
    """Return the pieces of each section. All sections are measured together, which is faster."""
    pieces = [[section] for section in sections]
    # A word and its blank have two characters; a character may be several tokens.
    surely_fits = 2 * sizes.size if sizes.count is count_words else sizes.size // CHARACTER_TOKENS
    to_count = [at for at, (start, end) in enumerate(sections) if end - start > surely_fits]
    counts = sizes.count([text[slice(*sections[at])] for at in to_count])
    long = [at for at, count in zip(to_count, counts, strict=True) if count > sizes.size]
    if not long:
        return pieces
    atoms = _atoms(text, [sections[at] for at in long], sizes)
    bodies = [_pack(text, of_section, sizes) for of_section in atoms]
    shortened = iter(_shorten(text, _with_overlaps(text, bodies, sizes), sizes))
    for at, of_section in zip(long, bodies, strict=True):
        pieces[at] = [*chain.from_iterable(islice(shortened, len(of_section)))]
    return pieces


Atom = tuple[int, int, int]  # start, end, and number of tokens or words


def _atoms(text: str, sections: Sequence[Span], sizes: Sizes) -> list[list[Atom]]:
    """Cut each section into spans that fit into a piece, at the best places that do this.

    A span that has no such place is cut after a number of characters, and may be too long.
    """
    max_count = sizes.size - sizes.overlap
    fitting, too_long = list[Atom](), sections
    for place in (*PLACES, None):
        spans: list[Span] = []
        for start, end in too_long:
            if place is None:
                bounds = [*range(start, end, max(max_count // 4, 1)), end]
            else:
                bounds = [start, *(match.end() for match in place.finditer(text, start, end)), end]
            spans += pairwise(dict.fromkeys(bounds))
        counts = sizes.count([text[start:end] for start, end in spans])
        atoms = [(start, end, count) for (start, end), count in zip(spans, counts, strict=True)]
        is_last = place is None
        too_long = [(start, end) for start, end, n in atoms if n > max_count and not is_last]
        fitting += [atom for atom in atoms if atom[2] <= max_count or is_last]
        if not too_long:
            break
    fitting.sort()
    bounds = [0, *(bisect_left(fitting, (end,)) for _, end in sections)]
    return [fitting[first:last] for first, last in pairwise(bounds)]


def _pack(text: str, atoms: Sequence[Atom], sizes: Sizes) -> list[Span]:
    """Join the spans of a section into pieces that leave room for an overlap."""
    begins = [atoms[0][0]]
    total, max_count = 0, sizes.size  # the first piece has no overlap
    is_exact = sizes.count is count_words
    for start, end, count in atoms:
        if total and total + count > max_count:
            begins.append(start)
            total, max_count = 0, sizes.size - sizes.overlap
        # A line end between two parts may be a token of its own.
        total += count + (not is_exact and text[end - 1] == "\n")
    return [span for span in pairwise([*begins, atoms[-1][1]]) if not text[slice(*span)].isspace()]


def _with_overlaps(
    text: str, sections: Sequence[Sequence[Span]], sizes: Sizes
) -> list[tuple[int, Span]]:
    """Return the start of each piece's overlap, and its span without it; a first piece has none."""
    if not sizes.overlap:
        return [(span[0], span) for spans in sections for span in spans]
    words_before: list[list[str]] = []  # the last words before each piece
    for spans in sections:
        words_before.append([])
        for start, end in spans[:-1]:
            words = text[start:end].rsplit(None, sizes.overlap)
            if len(words) > sizes.overlap:
                words_before.append(words[1:])
            else:  # the piece has fewer words than an overlap
                words_before.append(text[start:end].split())
    distinct = [*dict.fromkeys(chain.from_iterable(words_before))]
    counts = dict(zip(distinct, sizes.count(distinct), strict=True))
    pieces = []
    for span, words in zip(chain.from_iterable(sections), words_before, strict=True):
        total, start = 0, span[0]
        for word in reversed(words):
            total += counts[word]
            if total > sizes.overlap:
                break
            start = text.rindex(word, 0, start)
        pieces.append((start, span))
    return pieces


def _shorten(text: str, pieces: Sequence[tuple[int, Span]], sizes: Sizes) -> list[list[Span]]:
    """Return the spans of each piece. A piece that is too long loses its overlap, or is halved."""
    spans = [_trim(text, (begin, body[1])) or body for begin, body in pieces]  # never blank
    if sizes.count is count_words and not sizes.overlap:  # then counts add up
        return [[span] for span in spans]
    counts = sizes.count([text[start:end] for start, end in spans])
    shortened = []
    for (begin, (start, end)), span, count in zip(pieces, spans, counts, strict=True):
        has_overlap = begin < start
        if count <= sizes.size or (not has_overlap and end - start == 1):
            shortened.append([span])
            continue
        bodies = [(start, end)]
        if not has_overlap:
            blank = BLANK.search(text, (start + end) // 2, end - 1)
            middle = (start + end) // 2 if blank is None else blank.end()
            bodies = [(start, middle), (middle, end)]
        without_overlaps = [(body[0], body) for body in bodies if _trim(text, body)]
        shortened.append([*chain.from_iterable(_shorten(text, without_overlaps, sizes))])
    return shortened


# ---- documents


def read_text(
    file: Readable,
    request: Request,
    mark: Callable[[str], MarkedText] = MarkedText,
    decode_bytes: Callable[[bytes], str] = decode,
) -> Iterator[Batch]:
    """Read a file of text as pieces; ``mark`` finds the headings of the text."""

    def mark_text(content: bytes, _: Path) -> MarkedText:
        refuse_utf16(content)
        text = LONE_CR.sub("\n", decode_bytes(content))
        if not text.startswith(BOM):
            return mark(text)
        # A line end takes the place of the byte order mark, so that offsets stay the same.
        return replace(mark(f"\n{text[1:]}"), source=text)

    return read_pieces(file, request, mark_text)


def read_pieces(
    file: Readable, request: Request, mark: Callable[[bytes, Path], MarkedText]
) -> Iterator[Batch]:
    """Read a file as pieces; ``mark`` returns the text and the headings of the file.

    If the options name several text fields, the field ``text`` contains only the text of the piece,
    without title and path.
    """
    for place in NOT_JOINED.intersection(request.read.fields):
        raise InvalidFile(
            f"field {place!r} tells where a piece is from, so it cannot be searched. Leave it out"
        )
    if (name := request.read.field_of_rows) is not None:
        raise InvalidFile(
            f"has no field {name!r}: the file is read as text, and vocabtool makes the ids of its "
            "pieces. Read the file in a separate run, without --field and --id-field"
        )
    try:
        content = read_up_to(file, MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise BadRow(
                f"the file has more than {MAX_FILE_BYTES:,} bytes, too many to cut it into pieces; "
                "--split line (split=) makes each line of a text a document"
            )
        marked = mark(content, Path(request.source))
    except (InvalidFile, UnsupportedFormat, ValueError) as bad:  # long numbers in HTML
        request.refuse(1, str(bad))
        return
    read = request.read
    has_path = bool(marked.headings) and not marked.is_paged and read.split in (None, "heading")
    path_first = read.path_first and read.field is None and has_path
    field = PATH_FIRST if path_first else read.field
    request = replace(request, read=replace(read, field=field, path_first=path_first))
    for batch in gather(_rows(marked, request), request, are_pieces=True):
        yield replace(batch, path_first=True) if path_first else batch


def _rows(marked: MarkedText, request: Request) -> Iterator[Row]:
    """Cut a text into pieces, and yield a row for each. Its number is the line of its start."""
    read, source = request.read, request.source
    content = marked.text if marked.source is None else marked.source
    title = marked.title or Path(source).stem
    text_fields, kept_fields = read.fields, read.kept_fields
    joins_path = "path" in text_fields and read.split in (None, "heading")
    starts = [heading.at for heading in marked.headings]
    counts = dict[str, int]()
    line, counted = 1, 0  # the line at the offset ``counted`` of the content
    for piece in cut(marked, read.split or "heading", _sizes_beside(title, marked, request)):
        start, end = piece.start, piece.end
        if marked.places is not None:
            start, end = _in_source(marked.places, start, end)
        if start > counted:
            line += content.count("\n", counted, start)
            counted = start
        fields: dict[str, object] = {"title": title, "path": piece.path, SOURCE: source}
        fields |= {"line": line, "start": start, "end": end}
        path, text = piece.path, marked.text[piece.start : piece.end]
        if joins_path:
            path, text = _without_repeated_headings(
                piece, marked, starts, path_first=read.path_first
            )
        if text_fields:
            row_text = joined_text(fields | {"path": path, TEXT: text}, text_fields)
        else:
            row_text = text_bytes(text)
        id_ = text_bytes(_end_of_id(piece.path, counts))
        values = kept_of(fields, kept_fields)
        yield Row(line, row_text, id_, values, fields if request.all_fields else {})


def _sizes_beside(title: str, marked: MarkedText, request: Request) -> Sizes:
    """Return the sizes of texts beside title and path, which get at most half of a piece."""
    sizes, fields = sizes_of(request), request.read.fields
    if not fields:
        return sizes
    titles = [title] if "title" in fields else []
    paths = [path for _, path, _ in _paths(marked.headings)] if "path" in fields else []
    left = sizes.size
    for texts in (titles, paths):
        left -= max(sizes.count([f"{text}{BETWEEN}" for text in texts]), default=0)
    left = max(left, (sizes.size + 1) // 2)
    return replace(sizes, size=left, overlap=min(sizes.overlap, left - 1))


def _without_repeated_headings(
    piece: Piece, marked: MarkedText, starts: Sequence[int], *, path_first: bool
) -> tuple[str, str]:
    """Return the path and the text of a piece, so that no heading is in both."""
    inside = marked.headings[bisect_left(starts, piece.start) : bisect_left(starts, piece.end)]
    if inside:
        body = min(inside[-1].body, piece.end)
        is_line = body == piece.end or "\n" in marked.text[body - 1 : body + 1]
        if is_line and all(len(heading.title) < MAX_TITLE for heading in inside):
            # The path has these headings, so the text begins after them.
            span = _trim(marked.text, (body, piece.end))
            return piece.path, "" if span is None else marked.text[slice(*span)]
        if path_first and piece.top >= piece.start:
            # The names of Python are in its code, and long titles in the text.
            return "", marked.text[piece.start : piece.end]
    return piece.path, marked.text[piece.start : piece.end]


def _end_of_id(path: str, counts: dict[str, int]) -> str:
    """Return ``#PATH``, and a number if ``counts`` has this id already. Count the piece."""
    id_ = f"#{path}" if path else ""
    number = counts.get(id_, 0) + 1
    unique = id_ if number == 1 else f"{id_}#{number}"
    while number > 1 and unique in counts:  # a path may itself end in #2
        number += 1
        unique = f"{id_}#{number}"
    counts[id_] = number
    counts.setdefault(unique, 1)
    return unique


def _in_source(places: NDArray[np.int64], start: int, end: int) -> tuple[int, int]:
    """Return the offsets in the source of a span of the text.

    In a part that was changed, such as an entity of HTML, an offset stands for the whole part.
    """
    rows = np.maximum(np.searchsorted(places[:, 0], (start, end - 1), "right") - 1, 0)
    first_part, last_part = places[rows].tolist()
    low, high, source_start, first_end = first_part
    last_low, last_high, last, source_end = last_part
    if high - low == first_end - source_start:
        source_start += min(start, high) - low
    if last_high - last_low == source_end - last:
        source_end = min(last + end - last_low, source_end)
    return source_start, source_end


def split_rows(batch: Batch, request: Request) -> Iterator[Batch]:
    """Cut the text of each row into pieces, whose ids are ``ID#1``, ``ID#2`` and so on."""
    split, sizes, names = request.read.split, sizes_of(request), request.read.kept_fields
    columns = [batch.columns[name].view(pa.binary()) for name in names]

    def rows() -> Iterator[Row]:
        for row, number in enumerate(batch.numbers.tolist()):
            text = decode(bytes(batch.texts[row].as_buffer()))
            try:
                marked = markdown(text) if split == "heading" else MarkedText(text)
            except BadRow as bad:
                request.refuse(number, str(bad))
                continue
            id_ = b":%d" % number if batch.ids is None else bytes(batch.ids[row].as_buffer())
            values_of_row = tuple([column[row].as_py() for column in columns])
            fields = batch.fields[row] if batch.fields else {}
            pieces = list(cut(marked, split or "heading", sizes))
            if not pieces:  # a row of only blanks or front matter stays one piece
                pieces = [Piece(marked.begin, len(text), "")]
            for count, piece in enumerate(pieces, 1):
                places: dict[str, object] = {"start": piece.start, "end": piece.end}
                values = values_of_row
                if None in values_of_row:  # a field that the row lacks may be one of the piece
                    values_of_piece = kept_of(places | {"path": piece.path}, names)
                    values = tuple(
                        of_piece if of_row is None else of_row
                        for of_row, of_piece in zip(values_of_row, values_of_piece, strict=True)
                    )
                content = text_bytes(text[piece.start : piece.end])
                yield Row(number, content, b"%b#%d" % (id_, count), values, places | fields)

    yield from gather(rows(), request, are_pieces=batch.ids is None)
