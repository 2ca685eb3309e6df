"""What helps where a file of an index is damaged, by the file's place alone.

Codes and keywords follow from vectors and documents, so ``compact`` makes them anew; nothing else
is there twice.
"""

from __future__ import annotations

from pathlib import Path
from shlex import quote

from vocabtool.index.folder import GENERATIONS, KEYWORDS, MANIFEST, OF_A_MODEL

MADE_ANEW = ("codes-", KEYWORDS)
AS_IT_WAS = "index the same FILEs as before, with the same options and --force"


def advice(file: str) -> str | None:
    """What to do about a damaged file; ``None`` where it is none of an index."""
    path = Path(file)
    for inside in (path, *path.parents[:2]):
        if GENERATIONS.fullmatch(inside.parent.name):
            if inside.name.startswith(MADE_ANEW):
                folder = quote(str(inside.parent.parent))
                return f"`vocabtool compact {folder}` makes it anew; where that fails, {AS_IT_WAS}"
            return f"nothing mends it: {AS_IT_WAS}"
    if path.name.startswith((MANIFEST, *OF_A_MODEL)) and _is_beside_a_generation(path):
        return f"nothing mends it: {AS_IT_WAS}"
    return None


def _is_beside_a_generation(path: Path) -> bool:
    try:
        return any(GENERATIONS.fullmatch(each.name) for each in path.parent.iterdir())
    except OSError:
        return False
