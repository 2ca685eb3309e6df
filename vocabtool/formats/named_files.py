"""A file that a model names: looked for in one folder by a bare name, never through a link.

A model may name ``../../etc/passwd`` as its vocabulary, or hold a link to it: neither is opened.
"""

from __future__ import annotations

from pathlib import Path

from vocabtool.errors import InvalidFile
from vocabtool.vocabulary import printable


def named_file(folder: Path, name: bytes) -> Path:
    """The file of that name in ``folder``, whether it is there or not.

    Raises :class:`InvalidFile` where the name is a path, on any system, or no text.
    """
    if not _is_bare(name):
        raise InvalidFile(f"the model names the file {printable(name)!r}, a path: it is not opened")
    return folder / name.decode()


def _is_bare(name: bytes) -> bool:
    """Whether a name stays in its folder, on any system."""
    try:
        text = name.decode()
    except UnicodeDecodeError:
        return False
    return text not in ("", ".", "..") and not any(c in text for c in "/\\:\0")


def refuse_link(path: Path) -> None:
    """Raise :class:`InvalidFile` where ``path`` is a symbolic link."""
    if path.is_symlink():
        raise InvalidFile("a symbolic link: it is not opened; put what it points to in its place")
