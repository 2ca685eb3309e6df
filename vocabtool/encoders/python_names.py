"""What ``python:package.module:attribute`` names: an encoder, or something to make one of.

Importing a module runs it: who names one trusts it.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any, Final, NamedTuple

from vocabtool.errors import NotFound, VocabtoolError

WANTED: Final = "wanted python:package.module:attribute"


class Named(NamedTuple):
    """``value``: what was named, or what it made; ``maker``: what made it, else ``None``."""

    value: Any
    maker: Callable[[], Any] | None


def named_object(name: str) -> Named:
    """Import ``package.module:attribute``, from the current folder, too.

    A class, or a function that can only be called without arguments, is called. The current folder
    stays at the end of ``sys.path``, where what is imported later is looked for.
    Raises :class:`NotFound` where nothing is called so; what the module itself raises.
    """
    module, colon, path = name.partition(":")
    if not (module and colon and path):
        raise VocabtoolError(f"python:{name}: {WANTED}")
    value = _attribute(_imported(module), path)
    if inspect.isclass(value) or (inspect.isfunction(value) and _takes_nothing(value)):
        return Named(value(), value)
    return Named(value, None)


def _imported(module: str) -> Any:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # something that the module itself wants
        raise NotFound(f"python:{module}: no module {error.name!r}; {WANTED}") from error


def _attribute(module: Any, path: str) -> Any:
    try:
        return reduce(getattr, path.split("."), module)
    except AttributeError as error:
        held = ", ".join(sorted(name for name in vars(module) if not name.startswith("_")))
        raise NotFound(
            f"python:{module.__name__}:{path}: no such attribute; the module has {held}"
        ) from error


def _takes_nothing(function: Callable[..., Any]) -> bool:
    return not inspect.signature(function).parameters
