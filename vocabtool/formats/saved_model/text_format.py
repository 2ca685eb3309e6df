"""``saved_model.pbtxt``: a SavedModel in protobuf's text format, turned into the binary form.

Syntax: protobuf.dev/reference/protobuf/textformat-spec. Fields that are not in
``saved_model_schema.py`` are checked for their syntax and left out.

``google.protobuf.text_format`` is no way to read a stranger's file: 10 MB of blanks cost it 1.5 GB,
one string of 40,000 escaped backslashes 20 seconds, and it calls itself for every level of nesting.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import BinaryIO, Final, NamedTuple

from vocabtool.errors import InvalidFile
from vocabtool.formats import wire
from vocabtool.formats.saved_model.saved_model_schema import DATA_TYPES, IN_ANY, MESSAGES
from vocabtool.formats.wire import FIXED32, FIXED64, LEN, VARINT

MAX_FILE: Final = 512 << 20
MAX_DEPTH: Final = 100  # protobuf's own limit for nested messages
META_GRAPHS: Final = 2
MAP_KEY: Final = 1  # of a map's entry; its value is 2

_RANGES: Final = {
    "int32": range(-(2**31), 2**31),
    "int64": range(-(2**63), 2**63),
    "uint32": range(2**32),
    "uint64": range(2**64),
    "DataType": range(-(2**31), 2**31),
}
_WIRE_TYPES: Final = {
    **dict.fromkeys((*_RANGES, "bool"), VARINT),
    **{"float": FIXED32, "double": FIXED64},
}
_BOOLS: Final = {
    **dict.fromkeys((b"true", b"True", b"t", b"1"), b"\1"),
    **dict.fromkeys((b"false", b"False", b"f", b"0"), b"\0"),
}
_CLOSERS: Final = {b"{": b"}", b"<": b">"}
_LIST: Final = b"]"
_QUOTES: Final = (b'"', b"'")
_MAX_NUMBER: Final = 400  # characters; float() slows down with the square of more

# Possessive repeats (*+, ++) remember nothing, however long a string or a run of blanks is.
_TOKEN: Final = re.compile(
    rb"""[ \t\r\n\v\f]*+ (?:\#[^\n]*+\n?+)?+
    ( [\w.+-]++ | [\[\]{}<>:,;/] | "(?:[^"\\\n]++|\\.)*+" | '(?:[^'\\\n]++|\\.)*+' )?+""",
    re.VERBOSE,
)
_NAME: Final = re.compile(rb"\w++")
_WORD: Final = re.compile(rb"[\w.+-]++")
_INTEGER: Final = re.compile(rb"-?(?:0[xX][0-9a-fA-F]{1,16}|0[0-7]{0,22}|[1-9][0-9]{0,19})")
_ESCAPE: Final = re.compile(
    rb"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8}))|.)"
)
_ESCAPED: Final = {
    **{b"\\%03o" % byte: bytes([byte]) for byte in range(256)},
    **{
        f"\\{name}".encode(): byte.encode()
        for name, byte in zip("abfnrtv\\'\"?", "\a\b\f\n\r\t\v\\'\"?", strict=True)
    },
}


def to_binary(file: BinaryIO) -> bytes:
    """The binary form of a SavedModel in text format, read from the beginning of ``file``.

    Holds the schema's fields in the order of the file; repeated numbers are packed.
    Raises :class:`InvalidFile`, with the line, for anything that is not text format or does not
    fit the fields, and for a file without a MetaGraphDef.
    """
    file.seek(0)
    tokens = _Tokens(file)
    first = tokens.text
    levels = [_Level(b"", _Message(_fields("SavedModel")))]
    while tokens.text:
        if tokens.text == levels[-1].closer:
            _close(tokens, levels)
        elif levels[-1].closer == _LIST:
            _read_value(tokens, levels, levels[-1].element)
        else:
            _read_field(tokens, levels)
    if len(levels) > 1:
        raise tokens.wanted(f"'{levels[-1].closer.decode()}'")
    return _checked(levels[0].message.finished(), first)


def _checked(binary: bytes, first: bytes) -> bytes:
    if next(wire.messages(binary, (0, len(binary)), META_GRAPHS), None) is None:
        known = " (as a GraphDef does)" if first in _fields("GraphDef") else ""
        begins = f"it begins with {_shown(first)}{known}" if first else "nothing is in it"
        raise InvalidFile(f"no meta_graphs in it, so this is not a SavedModel: {begins}")
    return binary


class _Field(NamedTuple):
    """``tag``: what stands before each value, or before all that stand together (``packed``)."""

    number: int
    kind: str
    tag: bytes
    packed: bool

    @property
    def is_message(self) -> bool:
        return self.kind in MESSAGES

    @property
    def is_map(self) -> bool:
        return self.kind.endswith("Entry")


@cache
def _fields(message: str) -> dict[bytes, _Field]:
    found = {}
    for described in MESSAGES[message].split():
        name, _, rest = described.partition("=")
        number, _, kind = rest.partition(":")
        found[name.encode()] = _field(int(number), kind.rstrip("*"), packed=kind.endswith("*"))
    return found


def _field(number: int, kind: str, *, packed: bool = False) -> _Field:
    wire_type = LEN if packed else _WIRE_TYPES.get(kind, LEN)
    return _Field(number, kind, wire.varint_of(number << 3 | wire_type), packed)


class _Message:
    """A message being written. ``fields``: the names it knows; ``field``: its own, if known.

    The key of a map's entry comes first, wherever the text has it: TensorFlow writes it so, and
    readers search for it so.
    """

    __slots__ = ("_data", "_key", "_run", "_run_tag", "field", "fields")

    def __init__(self, fields: dict[bytes, _Field], field: _Field | None = None) -> None:
        self.fields = fields
        self.field = field
        self._data = bytearray()
        self._key = bytearray() if field is not None and field.is_map else self._data
        self._run = bytearray()  # values of a packed field that are not in _data yet
        self._run_tag = b""

    def put(self, field: _Field, payload: bytes) -> None:
        """Append one value: a number as it is encoded, anything else without its length."""
        if field.packed:
            if field.tag != self._run_tag:
                self._end_run()
                self._run_tag = field.tag
            self._run += payload
            return
        self._end_run()
        data = self._key if field.number == MAP_KEY else self._data
        data += field.tag
        if field.kind not in _WIRE_TYPES:
            data += wire.varint_of(len(payload))
        data += payload

    def finished(self) -> bytes:
        self._end_run()
        return bytes(self._data if self._key is self._data else self._key + self._data)

    def _end_run(self) -> None:
        if self._run:
            self._data += self._run_tag + wire.varint_of(len(self._run)) + self._run
            self._run.clear()


@dataclass(slots=True)
class _Level:
    """An open message, or the open list of values of its field ``element``."""

    closer: bytes
    message: _Message
    element: _Field | None = None


class _Tokens:
    """The tokens of a file, one at a time: ``text`` (empty at the end), in ``line`` (from 1)."""

    def __init__(self, file: BinaryIO) -> None:
        self._source = _tokens(file)
        self.line = 1
        self.text = b""
        self.advance()

    def advance(self) -> None:
        self.line, self.text = next(self._source, (self.line, b""))

    def take(self, text: bytes) -> bool:
        """Step over the token if it is this one."""
        if self.text != text:
            return False
        self.advance()
        return True

    def error(self, what: str) -> InvalidFile:
        return InvalidFile(f"line {self.line:,}: {what}")

    def wanted(self, what: str) -> InvalidFile:
        return self.error(f"wanted {what}, got {_shown(self.text)}")


def _tokens(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(_lines(file), 1):
        position = 0
        while position < len(line):
            match = _TOKEN.match(line, position)
            if match is None or (match[1] is None and match.end() < len(line)):
                raise _no_token(number, line[match.end() if match else position :])
            position = match.end()
            if match[1] is not None:
                yield number, match[1]


def _lines(file: BinaryIO) -> Iterator[bytes]:
    left = MAX_FILE
    while line := file.readline(left + 1):
        left -= len(line)
        if left < 0:
            raise InvalidFile(f"a text of more than {MAX_FILE >> 20} MB, which is not read")
        yield line


def _no_token(number: int, rest: bytes) -> InvalidFile:
    if rest[:1] in _QUOTES:
        what = "a string does not end on its line"
    else:
        what = f"{_shown(rest[:1])} stands where text format has nothing like it"
    return InvalidFile(f"line {number:,}: {what}")


def _shown(text: bytes) -> str:
    return repr(text[:40])[1:] if text else "the end of the file"


def _read_field(tokens: _Tokens, levels: list[_Level]) -> None:
    """Read a name and the value behind it, or up to where its message or list begins."""
    message = levels[-1].message
    name = tokens.text
    if name == b"[":
        known = _read_bracketed(tokens, message)
    elif _NAME.fullmatch(name):
        tokens.advance()
        known = message.fields.get(name)
    else:
        raise tokens.wanted("the name of a field")
    colon = tokens.take(b":")
    if tokens.take(b"["):
        levels.append(_Level(_LIST, message, known))
    elif colon or tokens.text in _CLOSERS:
        _read_value(tokens, levels, known)
    else:
        raise tokens.wanted(f"':' or '{{' behind {_shown(name)}")


def _read_bracketed(tokens: _Tokens, message: _Message) -> _Field | None:
    """Read ``[type URL]``, which opens the message in an Any, or the name of an extension."""
    parts = []
    while tokens.text not in (_LIST, b""):
        tokens.advance()
        parts.append(tokens.text)
    if not tokens.take(_LIST):
        raise tokens.wanted("']'")
    if message.fields is not _fields("Any"):
        return None
    url = b"".join(parts[:-1])
    message.put(_fields("Any")[b"type_url"], url)
    kind = IN_ANY.get(url.rpartition(b"/")[2])
    return _field(2, kind) if kind else None


def _read_value(tokens: _Tokens, levels: list[_Level], known: _Field | None) -> None:
    """Read one value of a field, ``None`` for one that is left out; open it if it is a message."""
    closer = _CLOSERS.get(tokens.text)
    if closer is not None:
        _open(tokens, levels, known, closer)
        return
    if known is None:
        _skip_scalar(tokens)
    elif known.is_message:
        raise tokens.wanted(f"'{{' of a {known.kind}")
    else:
        levels[-1].message.put(known, _scalar(tokens, known.kind))
    _separate(tokens, levels[-1])


def _open(tokens: _Tokens, levels: list[_Level], known: _Field | None, closer: bytes) -> None:
    if known is not None and not known.is_message:
        raise tokens.wanted(known.kind)
    if len(levels) >= MAX_DEPTH:
        raise tokens.error(f"more than {MAX_DEPTH} messages and lists inside one another")
    tokens.advance()
    fields = _fields(known.kind) if known is not None else {}
    levels.append(_Level(closer, _Message(fields, known)))


def _close(tokens: _Tokens, levels: list[_Level]) -> None:
    closed = levels.pop()
    tokens.advance()
    if closed.closer != _LIST and closed.message.field is not None:
        levels[-1].message.put(closed.message.field, closed.message.finished())
    _separate(tokens, levels[-1])


def _separate(tokens: _Tokens, level: _Level) -> None:
    """Step over what may stand between fields and must stand between the values of a list."""
    if level.closer != _LIST:
        _ = tokens.take(b",") or tokens.take(b";")
    elif tokens.text != _LIST and not tokens.take(b","):
        raise tokens.wanted("',' or ']'")


def _skip_scalar(tokens: _Tokens) -> None:
    if tokens.text[:1] in _QUOTES:
        _string(tokens)
    elif _WORD.fullmatch(tokens.text):
        tokens.advance()
    else:
        raise tokens.wanted("a value")


def _scalar(tokens: _Tokens, kind: str) -> bytes:
    """The encoded value of a field that is no message."""
    if kind == "bytes":
        return _string(tokens)
    encoded = _NUMBERS[kind](tokens.text)
    if encoded is None:
        raise tokens.wanted(kind)
    tokens.advance()
    return encoded


def _string(tokens: _Tokens) -> bytes:
    """The bytes of a string; strings that follow one another are one."""
    if tokens.text[:1] not in _QUOTES:
        raise tokens.wanted("a string")
    text = bytearray()
    while tokens.text[:1] in _QUOTES:
        try:
            _append_unescaped(text, tokens.text[1:-1])
        except ValueError as error:
            raise tokens.error(f"{error} in a string") from error
        tokens.advance()
    return bytes(text)


def _append_unescaped(text: bytearray, escaped: bytes) -> None:
    position = 0
    for match in _ESCAPE.finditer(escaped) if b"\\" in escaped else ():
        text += escaped[position : match.start()]
        text += _ESCAPED.get(match[0]) or _unescaped(match)
        position = match.end()
    text += escaped[position:]


def _unescaped(match: re.Match[bytes]) -> bytes:
    """The byte, or the UTF-8 of the character, that an escape stands for."""
    octal, hexadecimal, *characters = match.groups()
    if octal is not None or hexadecimal is not None:
        number = int(octal, 8) if octal is not None else int(hexadecimal, 16)
        if number < 256:
            return bytes([number])
    for character in filter(None, characters):
        number = int(character, 16)
        if number < 0x110000 and not 0xD800 <= number < 0xE000:
            return chr(number).encode()
    raise ValueError(f"no such escape: {_shown(match[0])}")


def _integer(text: bytes, allowed: range) -> bytes | None:
    if not _INTEGER.fullmatch(text):
        return None
    digits = text.lstrip(b"-").lower()
    base = 16 if digits.startswith(b"0x") else 8 if digits.startswith(b"0") else 10
    value = int(text, base)
    return wire.varint_of(value & 0xFFFF_FFFF_FFFF_FFFF) if value in allowed else None


def _data_type(text: bytes) -> bytes | None:
    number = DATA_TYPES.get(text)
    return _integer(text, _RANGES["DataType"]) if number is None else wire.varint_of(number)


def _real(text: bytes) -> float | None:
    if len(text) > _MAX_NUMBER or b"_" in text:  # Python's float() would take the underscore
        return None
    for digits in (text, text[:-1] if text[-1:] in (b"f", b"F") else b""):
        try:
            return float(digits)
        except ValueError:
            continue
    return None


def _float(text: bytes) -> bytes | None:
    value = _real(text)
    try:
        return None if value is None else struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", math.copysign(math.inf, value or 0.0))


def _double(text: bytes) -> bytes | None:
    value = _real(text)
    return None if value is None else struct.pack("<d", value)


_NUMBERS: Final[dict[str, Callable[[bytes], bytes | None]]] = {
    "int32": lambda text: _integer(text, _RANGES["int32"]),
    "int64": lambda text: _integer(text, _RANGES["int64"]),
    "uint32": lambda text: _integer(text, _RANGES["uint32"]),
    "uint64": lambda text: _integer(text, _RANGES["uint64"]),
    "DataType": _data_type,
    "bool": _BOOLS.get,
    "float": _float,
    "double": _double,
}
