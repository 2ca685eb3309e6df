"""The folder of a sentence-transformers model: where it is, what it may hold, its fingerprint.

Looks at files only, and imports none of the libraries that load them but the one that owns the
cache of downloads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from vocabtool.errors import InvalidFile, NotFound, UnsupportedFormat, reading
from vocabtool.formats import json_parsing

MODULES: Final = "modules.json"
MARKS: Final = (MODULES, "config_sentence_transformers.json")
OWN: Final = "sentence_transformers."  # modules of the library itself
OWNER: Final = "sentence-transformers"  # of names that tell no owner
PICKLED: Final = frozenset((".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"))
# What the library reads instead of a pickle beside it.
SAFE: Final = ("model.safetensors", "model.safetensors.index.json")
MOST_MODULES: Final = 1 << 20  # bytes of modules.json
TRUST: Final = "--trust (in Python trust=True) does so"


def is_model(folder: Path) -> bool:
    """Whether a folder is that of a sentence-transformers model."""
    return any((folder / name).is_file() for name in MARKS)


def folder_of(model: str | Path) -> Path:
    """The folder itself, or that of a name in the local cache. Raises :class:`NotFound`."""
    folder = Path(model)
    if folder.is_dir():
        return folder
    if folder.exists():
        raise NotFound(f"{folder}: wanted a folder with {MODULES}, it is a file")
    name = str(model)
    tried = [name] if "/" in name else [f"{OWNER}/{name}", name]
    for candidate in tried:
        found = _cached(candidate)
        if found is not None:
            return found
    raise NotFound(
        f"{name}: no such folder, and {' or '.join(tried)} is not in the local cache. "
        f"To download it: hf download {tried[0]}"
    )


def _cached(name: str) -> Path | None:
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError
    except ModuleNotFoundError as error:
        raise UnsupportedFormat(
            "huggingface-hub is not installed: pip install '.[sentence-transformers]'"
        ) from error
    try:
        return Path(snapshot_download(name, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError):
        return None


def check_files(folder: Path) -> None:
    """Raise :class:`UnsupportedFormat` for a folder that only trust may load.

    That is one with modules that are not the library's own, and with weights that are pickled
    where no safetensors are beside them: unpickling runs what the file says.
    """
    for kind in _module_kinds(folder):
        if not kind.startswith(OWN) or ".." in kind:
            raise UnsupportedFormat(
                f"it brings a module of its own, {kind!r}, whose code would be run: {TRUST}",
                file=str(folder / MODULES),
            )
    for file in _files(folder):
        if file.suffix in PICKLED and not any((file.parent / name).is_file() for name in SAFE):
            raise UnsupportedFormat(
                "pickled weights, and no safetensors beside them; unpickling can run anything. "
                f"Save the model with safe_serialization=True, or trust it: {TRUST}",
                file=str(file),
            )


def _module_kinds(folder: Path) -> list[str]:
    """The classes of its modules. Raises :class:`InvalidFile`."""
    file = folder / MODULES
    if not file.is_file():
        return []
    with reading(str(file)), file.open("rb") as opened:
        told: Any = json_parsing.parse(opened.read(MOST_MODULES))
        if not isinstance(told, list) or not all(isinstance(each, dict) for each in told):
            raise InvalidFile("wanted a list of objects")
        return [str(each.get("type")) for each in told]


def files_fingerprint(folder: Path) -> str:
    """Hexadecimal sha256 of names and contents of all files but hidden ones and Markdown."""
    digest = hashlib.sha256(b"vocabtool sentence-transformers 1\n")
    for file in sorted(_files(folder)):
        if file.suffix.lower() == ".md":
            continue
        with reading(str(file)), file.open("rb") as opened:
            content = hashlib.file_digest(opened, "sha256").hexdigest()
        digest.update(
            f"{file.relative_to(folder).as_posix()}\n{content}\n".encode("utf-8", "surrogateescape")
        )
    return digest.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    """All files, but those that are hidden or in hidden folders."""
    for file in folder.rglob("*"):
        inside = file.relative_to(folder).parts
        if not any(part.startswith(".") for part in inside) and file.is_file():
            yield file
