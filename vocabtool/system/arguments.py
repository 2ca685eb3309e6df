"""Refuses arguments of wrong types before a public function does anything with them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, wraps
from inspect import Parameter, signature
from numbers import Integral, Real
from types import NoneType
from typing import Any, Final, ParamSpec, TypeVar, get_args

import numpy as np

P = ParamSpec("P")
R = TypeVar("R")
Allowed = tuple[tuple[type, ...], str]  # the types of an argument, and their names in a message

TOLD: Final = {"where": "one text, for example \"year >= 2020 and lang = 'en'\""}
STRINGS: Final = "a list of strings"
CHECKED: Final = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
PARAMETERS: Final = re.compile(r"\[[^\[\]]*\]")  # of a generic type
# What is accepted, and how a message calls it.
ACCEPTED: Final[Mapping[str, Allowed]] = {
    "int": ((Integral,), "a whole number"),
    "float": ((Real,), "a number"),
    "bool": ((bool, np.bool_), "True or False"),
    "str": ((str,), "a string"),
    "NoneType": ((NoneType,), "None"),
    "Path": ((os.PathLike,), "a path"),
    "Sequence": ((Iterable,), "a list"),
    "Iterable": ((Iterable,), "a list"),
}


def check_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function refuse arguments that its annotations do not allow.

    It raises ``ValueError`` with the name of the argument, and what was wanted. Annotations with
    names that do not exist at run time, and with other types than classes, are not checked.
    """

    @cache
    def expected_types() -> tuple[tuple[str, Allowed | None], ...]:
        scope = function.__globals__
        return tuple(
            (name, _accepted_types(each.annotation, scope) if each.kind in CHECKED else None)
            for name, each in signature(function).parameters.items()
        )

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for at, (name, allowed) in enumerate(expected_types()):
            if allowed is None or (at >= len(args) and name not in kwargs):
                continue
            value = args[at] if at < len(args) else kwargs[name]
            kinds, names = allowed
            if STRINGS in names and isinstance(value, list | tuple):
                value, kinds = (
                    next((each for each in value if not isinstance(each, str)), ""),
                    (str,),
                )
            if not isinstance(value, kinds) or (type(value) is bool and bool not in kinds):
                got = " ".join(repr(value).split())
                raise ValueError(f"{name} must be {TOLD.get(name, names)}, got {got:.80}")
        return function(*args, **kwargs)

    return call


def _accepted_types(annotation: object, scope: dict[str, Any]) -> Allowed | None:
    if not isinstance(annotation, str):  # of self
        return None
    text = annotation
    while PARAMETERS.search(text):
        text = PARAMETERS.sub("", text)
    kinds: list[type] = []
    names: list[str] = []
    try:
        found = eval(text, scope)  # noqa: S307 - our own annotation
        for kind in get_args(found) or (NoneType if found is None else found,):
            isinstance(None, kind)  # raises TypeError for what is no class
            accepted, name = ACCEPTED.get(kind.__name__, ((kind,), f"a {kind.__name__}"))
            name += " of strings" * (name == "a list" and "[str]" in annotation)
            kinds += accepted
            names.append(name)
    except (NameError, TypeError, AttributeError):
        return None
    return tuple(kinds), " or ".join(dict.fromkeys(names))
