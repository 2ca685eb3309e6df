"""Problem documents (RFC 9457): which status an error gets, and what the answer says."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import orjson
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from vocabtool.errors import (
    ChangedModel,
    FolderInUse,
    InvalidCondition,
    InvalidFile,
    NotFound,
    NoVocabulary,
    OtherModel,
    VocabtoolError,
)

if TYPE_CHECKING:
    from starlette.requests import Request

RETRY_SECONDS: Final = 1
MEDIA_TYPE: Final = "application/problem+json"
PROBLEM: Final = "#/components/schemas/Problem"
MAX_SHOWN: Final = 10  # faults of a request that are shown
LOG: Final = logging.getLogger("vocabtool.serve")


class ServeError(VocabtoolError):
    """An error that only a server has; ``status``: its HTTP status."""

    status = HTTPStatus.BAD_REQUEST


class UnknownIndex(ServeError):
    """No index has the name of a request."""

    status = HTTPStatus.NOT_FOUND


class UnknownDocument(ServeError):
    """No document has the id of a request."""

    status = HTTPStatus.NOT_FOUND


class NotReady(ServeError):
    """An index or its model is not open yet, or cannot be opened."""

    status = HTTPStatus.SERVICE_UNAVAILABLE


class Busy(ServeError):
    """Too many requests run or wait."""

    status = HTTPStatus.TOO_MANY_REQUESTS


class TooLarge(ServeError):
    """The body of a request is longer than allowed."""

    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE


class Refused(ServeError):
    """A request that is refused before its body is read. ``headers``: of the answer."""

    def __init__(self, status: HTTPStatus, what: str, **headers: str) -> None:
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        super().__init__(what)


@contextmanager
def wrong_arguments() -> Iterator[None]:
    """Turn errors about the arguments of a request into :class:`ServeError`."""
    try:
        yield
    except VocabtoolError:  # its class says whose fault it is
        raise
    except (ValueError, TypeError) as error:
        raise ServeError(str(error)) from error


STATUSES: Final[dict[type[Exception], HTTPStatus]] = {
    **dict.fromkeys((FolderInUse, OtherModel, ChangedModel), HTTPStatus.CONFLICT),
    # Files of the server, not of the request.
    **dict.fromkeys((InvalidFile, NotFound), HTTPStatus.SERVICE_UNAVAILABLE),
    NoVocabulary: HTTPStatus.NOT_FOUND,
}


def problem(
    status: int, detail: str, headers: dict[str, str] | None = None, **more: Any
) -> Response:
    """Return a problem document."""
    status = HTTPStatus(status)
    given = {"type": "about:blank", "title": status.phrase, "status": status, "detail": detail}
    headers = dict(headers or {})
    if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        headers.setdefault("Retry-After", str(RETRY_SECONDS))
    content = orjson.dumps(given | more)
    return Response(content, status, headers, MEDIA_TYPE)


def of_error(request: Request, error: Exception) -> Response:
    """Return the problem document of an error. One that is no fault of the request is logged."""
    if isinstance(error, ServeError):
        return problem(error.status, str(error), getattr(error, "headers", None))
    if isinstance(error, InvalidCondition):
        return problem(HTTPStatus.BAD_REQUEST, str(error), position=error.position)
    for kind, status in STATUSES.items():
        if isinstance(error, kind):
            return problem(status, str(error))
    # The root itself is raised when the server or its encoder fails, and its kinds for requests.
    is_ours = isinstance(error, VocabtoolError)
    if is_ours and type(error) is not VocabtoolError:
        return problem(HTTPStatus.BAD_REQUEST, str(error))
    LOG.exception("%s %s failed", request.method, request.scope["path"], exc_info=error)
    if is_ours:
        return problem(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
    detail = "an error of the server; its log has the details"
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR, detail)


def of_refusal(_: Request, error: Exception) -> Response:
    """Return the problem document of what Starlette refuses: no such path, no such method."""
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for it
    return problem(error.status_code, error.detail, dict(error.headers or {}))


def of_invalid_request(_: Request, error: Exception) -> Response:
    """Return the problem document of a request that does not fit its description."""
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for it
    return problem(HTTPStatus.BAD_REQUEST, faults_told([*error.errors()]))


def faults_told(faults: list[Any]) -> str:
    """Return the faults of a request in words, as pydantic found them; of many, the first."""
    shown = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in faults[:MAX_SHOWN])
    told = "; ".join(shown)
    if len(faults) > MAX_SHOWN:
        told += f"; and {len(faults) - MAX_SHOWN:,} more"
    return told


def describe(document: dict[str, Any], *, has_keys: bool) -> None:
    """Put into an OpenAPI document that problems have a media type of their own, and the keys.

    FastAPI describes all answers as ``application/json``, and wrong requests as answered with 422.
    """
    parts = document.setdefault("components", {})
    for name in ("HTTPValidationError", "ValidationError"):
        parts.get("schemas", {}).pop(name, None)
    for path in document["paths"].values():
        for operation in path.values():
            answers = operation["responses"]
            if answers.get("422", {}).get("description") == "Validation Error":
                del answers["422"]
            for status, answer in answers.items():
                if status >= "400":
                    answer["content"] = {MEDIA_TYPE: {"schema": {"$ref": PROBLEM}}}
    if has_keys:
        parts["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"key": []}]
