"""Refuses arguments of wrong types before a public function does anything with them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from functools import cache, wraps
from inspect import Parameter, get_annotations, signature
from math import inf
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Concatenate, Final, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

import numpy as np

from vocabtool.choices import choices_in, options_of

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")
Allowed = tuple[tuple[type, ...], str]  # the types of an argument, and their names in a message
Types = Mapping[str, Allowed | None]  # of the arguments, in their order; None is not checked

# What a message wants instead of the names of the types.
WANTED: Final = {"where": "one text, for example \"year >= 2020 and lang = 'en'\""}
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
    def expected_types() -> Types:
        scope = function.__globals__
        return {
            name: _accepted_types(value.annotation, scope) if value.kind in CHECKED else None
            for name, value in signature(function).parameters.items()
        }

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        types = expected_types()
        _check_types({**dict(zip(types, args, strict=False)), **kwargs}, types)
        return function(*args, **kwargs)

    return call


def takes(
    kind: Callable[P, T],
) -> Callable[[Callable[[S, T], R]], Callable[Concatenate[S, P], R]]:
    """Give a method the fields of a dataclass as arguments. The method itself gets the dataclass.

    Editors complete the fields as keywords of the method, and mypy checks them. Raises
    ``TypeError`` for an unknown keyword.
    """

    def decorate(method: Callable[[S, T], R]) -> Callable[Concatenate[S, P], R]:
        of_method, fields = signature(method), signature(kind).parameters
        self_parameter, _ = of_method.parameters.values()

        @wraps(method)
        def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
            for name in kwargs:
                if name not in fields:
                    what = f"{method.__name__} has no argument {name!r}; its arguments are "
                    raise TypeError(what + ", ".join(fields))
            try:
                options = kind(*args, **kwargs)
            except TypeError:  # its message names the dataclass, which the caller does not know
                try:
                    signature(kind).bind(*args, **kwargs)
                except TypeError as error:
                    raise TypeError(f"{method.__name__}: {error}") from None
                raise
            return method(self, options)

        call.__signature__ = of_method.replace(parameters=[self_parameter, *fields.values()])  # type: ignore[attr-defined] # of help()
        return call

    return decorate


def check_options(record: Any) -> None:
    """Raise ``ValueError`` for a value that its :func:`vocabtool.choices.option` does not allow."""
    types, choices, ranges, defaults = _rules_of(record.__class__)
    # A default is valid.
    names = [name for name, default in defaults.items() if getattr(record, name) is not default]
    values = {name: getattr(record, name) for name in names}
    _check_types(values, types)
    for name, allowed in choices.items():
        value = values.get(name)
        if value is not None and value not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")
    for name, (least, most) in ranges.items():
        value = values.get(name)
        if value is not None and not least <= value <= most:
            wanted = f"at least {least}" if most == inf else f"from {least} to {most}"
            raise ValueError(f"{name} must be {wanted}, got {value!r}")


@cache
def _rules_of(
    kind: Any,
) -> tuple[Types, dict[str, tuple[str, ...]], dict[str, tuple[float, float]], dict[str, object]]:
    """Return the types, choices, ranges and defaults of the options of a dataclass."""
    owners = {name: base for base in reversed(kind.__mro__) for name in get_annotations(base)}
    scopes = {name: vars(sys.modules[owner.__module__]) for name, owner in owners.items()}
    types = {field.name: _accepted_types(field.type, scopes[field.name]) for field in fields(kind)}
    defaults = {field.name: field.default for field in fields(kind)}
    choices, ranges = {}, {}
    for name, option in options_of(kind).items():
        # Only options have hints that can be evaluated: other fields may have types that are
        # imported for type checkers alone.
        hint = eval(get_annotations(owners[name])[name], scopes[name])  # noqa: S307 - our own annotation
        if allowed := choices_in(hint):
            choices[name] = allowed
        if option.least is not None:
            ranges[name] = (option.least, inf if option.most is None else option.most)
    return types, choices, ranges, defaults


def _check_types(values: Mapping[str, object], types: Types) -> None:
    for name, value in values.items():
        allowed = types.get(name)
        if allowed is None:
            continue
        kinds, names = allowed
        if STRINGS in names and isinstance(value, list | tuple):
            wrong = [item for item in value if not isinstance(item, str)]
        elif not isinstance(value, kinds) or (type(value) is bool and bool not in kinds):
            wrong = [value]
        else:
            wrong = []
        if wrong:
            got = " ".join(repr(wrong[0]).split())
            raise ValueError(f"{name} must be {WANTED.get(name, names)}, got {got:.80}")


def _accepted_types(annotation: object, scope: dict[str, Any]) -> Allowed | None:
    if not isinstance(annotation, str):  # of self
        return None
    text = annotation
    while PARAMETERS.search(text):
        text = PARAMETERS.sub("", text)
    kinds: list[type] = []
    names: list[str] = []
    try:
        annotated = eval(text, scope)  # noqa: S307 - our own annotation
        is_union = get_origin(annotated) in (Union, UnionType)
        for member in get_args(annotated) if is_union else (annotated,):
            kind = str if get_origin(member) is Literal else member
            kind = NoneType if kind is None else kind
            isinstance(None, kind)  # raises TypeError for what is no class
            accepted, name = ACCEPTED.get(kind.__name__, ((kind,), f"a {kind.__name__}"))
            if name == "a list" and "[str]" in annotation:
                name = STRINGS
            kinds += accepted
            names.append(name)
    except (NameError, TypeError, AttributeError):
        return None
    return tuple(kinds), " or ".join(dict.fromkeys(names))
