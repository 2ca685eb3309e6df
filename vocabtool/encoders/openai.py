"""Models behind ``URL/embeddings``, the HTTP endpoint of OpenAI and of many other servers.

Source: OpenAI's API reference, "Create embeddings". The first line shows a request with texts, and
the second line shows the answer with the vectors of these texts:

    {"model": …, "input": [text, …], "encoding_format": "float", "dimensions": …}
    {"model": …, "data": [{"index": 0, "embedding": [number, …]}, …], "usage": {"prompt_tokens": …}}

``dimensions`` is sent only if the option ``dim`` is given. The retries of urllib3 are not used,
because urllib3 does not know the limits per minute.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
from email.utils import parsedate_to_datetime
from functools import cached_property
from threading import Lock, Semaphore
from time import monotonic, sleep, time
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import numpy as np
import orjson

from vocabtool.encoders.encoder import (
    PROBE,
    Encoder,
    EncoderOptions,
    Texts,
    Vectors,
    check_vectors,
    decode_texts,
)
from vocabtool.errors import NotFound, UnsupportedFormat, VocabtoolError
from vocabtool.system.parallel import parallel_map
from vocabtool.vocabulary import printable

try:
    import urllib3
    from urllib3 import exceptions
except ModuleNotFoundError as missing:
    raise UnsupportedFormat("urllib3 is not installed: pip install '.[http]'") from missing

KEY: Final = "OPENAI_API_KEY"
FORM: Final = (
    "wanted openai:MODEL@URL, for example openai:nomic-embed-text@http://localhost:11434/v1"
)
ADDRESS: Final = re.compile(r"((?:(?!://).)+)@(https?://[!-~]+)", re.IGNORECASE)
LOCAL: Final = ("localhost", "127.0.0.1", "::1")

MAX_BATCH: Final = 32  # texts in a request: Text Embeddings Inference accepts no more by default
REQUESTS: Final = 8  # at once
TIMEOUT: Final = 120.0  # seconds for a whole answer; servers without a graphics card are slow
CONNECT_TIMEOUT: Final = 10.0
RETRIES: Final = 8
BACKOFF: Final = 0.5  # seconds before the first retry, doubled for each further one
MAX_BACKOFF: Final = 30.0
MAX_WAIT: Final = 120.0  # seconds that a server may ask us to wait
RETRIED: Final = (408, 429)  # and 500 to 599

PASSING: Final = (exceptions.TimeoutError, exceptions.ProtocolError, exceptions.SSLError)
UNREACHABLE: Final = (exceptions.NewConnectionError, exceptions.SSLError)  # if at the first request

BYTES_PER_TOKEN: Final = 4  # a guess before the request; the answer counts the tokens
MAX_DIM: Final = 1 << 16
MAX_NUMBER: Final = 48  # bytes of a number in an answer, with the blanks around it
MAX_TEXT_FACTS: Final = 1 << 10  # bytes around a vector
MAX_FACTS: Final = 1 << 16  # bytes around all vectors, and bytes of an error that are read
MAX_NAME: Final = 256  # characters of a model's name in an answer
MAX_TOKENS: Final = 1 << 32  # that one answer may count
MAX_SHOWN: Final = 300  # characters of an answer in a message
READ_BYTES: Final = 1 << 16

ADVICE: Final = {
    401: " Set the key in the environment variable {key}, or name another (--api-key-env)",
    403: " Check the key in the environment variable {key}, or name another (--api-key-env)",
    404: " Check the URL, to which /embeddings is added, and the name of the model",
    413: " Send fewer texts in a request (--batch-size)",
}


class TryAgain(Exception):
    """A failure that may be temporary.

    ``wait``: how many seconds the server asks to wait before the next request, or ``None``.
    """

    def __init__(self, what: str, wait: float | None = None) -> None:
        self.wait = wait
        super().__init__(what)


class ModelFacts(NamedTuple):
    """What a server reported.

    ``model``: the name of the model, or ``None`` if the server reports no name.
    ``dim``: the length of a vector.
    """

    model: str | None
    dim: int


class OpenAIEncoder(Encoder):
    """Asks a server for vectors, with several requests at once.

    Blank texts are not sent, because OpenAI refuses them: they get zero vectors. The key is read
    from the environment for each request and is never stored.
    """

    kind = "openai"
    skips_blank = True

    def __init__(
        self, model: str, options: EncoderOptions, served: ModelFacts | None = None
    ) -> None:
        """Open ``MODEL@URL``. If ``served`` is ``None``, one request finds ``dim``."""
        self._address = model
        self._model, self._url = parse_address(model)
        self.options = options
        self.words = options.words
        self.max_batch = options.max_batch or MAX_BATCH
        self._requests = options.requests or REQUESTS
        self._timeout = options.timeout or TIMEOUT
        self._retries = RETRIES if options.retries is None else options.retries
        self._slots = Semaphore(self._requests)
        self._pace = Pace(options.requests_per_minute, options.tokens_per_minute)
        self._pool = connections(self._url, self._requests)
        self._served = served
        if served is None:
            self.dim = self._ask([PROBE]).shape[1]
        else:
            self.dim = served.dim

    @property
    def notes(self) -> tuple[str, ...]:
        name, host = self.options.api_key_env or KEY, urlsplit(self._url).hostname
        key = f", with the key in {name}" if os.getenv(name) else ""
        sends = f"texts are sent to {host}{key}"
        if self._url.startswith("http:") and host not in LOCAL:
            sends += ", unencrypted"
        told = self._served.model if self._served else None
        other = (f"the server calls the model {told!r}",) if told not in (None, self._model) else ()
        return (sends, "blank texts are not sent: their vectors are zero", *other, *self._notes)

    @cached_property
    def fingerprint(self) -> str:
        told = self._served.model if self._served else None
        parts = ["vocabtool openai 1", self._url, self._model, told, self.dim]
        return hashlib.sha256(orjson.dumps(parts)).hexdigest()

    def encode(self, texts: Texts) -> Vectors:
        parts = self.encode_batches(texts, self.max_batch)
        return np.concatenate([np.zeros((0, self.dim), np.float32), *parts])

    def encode_batches(self, texts: Texts, size: int) -> list[Vectors]:
        decoded = decode_texts(texts)
        batches = (decoded[at : at + size] for at in range(0, len(decoded), size))
        return [*parallel_map(self._encode_batch, batches, workers=self._requests)]

    def __reduce__(self) -> tuple[Any, ...]:
        return OpenAIEncoder, (self._address, self.options, self._served)

    def _encode_batch(self, texts: list[str]) -> Vectors:
        is_sent = [bool(text.strip()) for text in texts]
        vectors = np.zeros((len(texts), self.dim), np.float32)
        if any(is_sent):
            vectors[is_sent] = self._ask([text for text in texts if text.strip()])
        return vectors

    def _ask(self, texts: list[str]) -> Vectors:
        asked: dict[str, Any] = {"model": self._model, "input": texts, "encoding_format": "float"}
        if self.options.dim is not None:
            asked["dimensions"] = self.options.dim
        body = orjson.dumps(asked)
        tokens = len(body) // BYTES_PER_TOKEN
        with self._slots:
            attempt = 0
            while True:
                while (wait := self._pace.take(tokens)) > 0:
                    sleep(wait)
                try:
                    return self._vectors(self._post(body, len(texts)), len(texts), tokens)
                except TryAgain as failure:
                    if (failure.wait or 0) > MAX_WAIT:
                        raise VocabtoolError(
                            f"{self._url}: {failure}. The server asks to wait {failure.wait:,.0f} "
                            "seconds: run the same command again after that"
                        ) from failure
                    if attempt == self._retries:
                        raise VocabtoolError(
                            f"{self._url}: the last of {attempt + 1} attempts failed: {failure}. "
                            "Run the same command again later (--retries, --timeout)"
                        ) from failure
                    self._pace.pause(failure.wait or 0)
                delay = min(BACKOFF * 2 ** min(attempt, 16), MAX_BACKOFF)
                sleep(delay * random.uniform(0.5, 1))  # noqa: S311 - not a secret
                attempt += 1

    def _post(self, body: bytes, texts: int) -> bytes:
        dim = self._served.dim if self._served else MAX_DIM
        limit = MAX_FACTS + texts * (MAX_TEXT_FACTS + dim * MAX_NUMBER)
        response, data = self._send(body, limit)
        if response.status == 200:
            if len(data) <= limit:
                return data
            raise VocabtoolError(
                f"{self._url}: the answer for {texts:,} texts has more than {limit:,} bytes. This "
                f"is too long for vectors of {dim:,} numbers"
            )
        what = f"the server answered with status {response.status}: {self._show(data)}"
        if response.status in RETRIED or response.status >= 500:
            raise TryAgain(what, seconds_to_wait(response.headers.get("Retry-After")))
        advice = ADVICE.get(response.status, "").format(key=self.options.api_key_env or KEY)
        raise VocabtoolError(f"{self._url}: {what}.{advice}")

    def _send(self, body: bytes, limit: int) -> tuple[urllib3.BaseHTTPResponse, bytes]:
        seconds = urllib3.Timeout(connect=min(CONNECT_TIMEOUT, self._timeout), read=self._timeout)
        headers = {"Content-Type": "application/json", **self._authorization()}
        try:
            response = self._pool.request(
                "POST",
                f"{self._url}/embeddings",
                body=body,
                headers=headers,
                timeout=seconds,
                retries=False,
                redirect=False,
                preload_content=False,
            )
            try:
                most = limit if response.status == 200 else MAX_FACTS
                return response, self._read(response, most)
            finally:
                response.close()
        except exceptions.HTTPError as error:
            what = self._show(f"{type(error).__name__}: {error}".encode())
            if isinstance(error, UNREACHABLE) and self._served is None:
                raise NotFound(f"{self._url}: no such server, or unreachable: {what}") from error
            if isinstance(error, PASSING):
                raise TryAgain(what) from error
            raise VocabtoolError(f"{self._url}: {what}") from error

    def _read(self, response: urllib3.BaseHTTPResponse, limit: int) -> bytes:
        data, end = bytearray(), monotonic() + self._timeout
        while len(data) <= limit and (part := response.read1(READ_BYTES)):
            data += part
            if monotonic() > end:
                raise TryAgain(f"no complete answer within {self._timeout:g} seconds")
        return bytes(data)

    def _authorization(self) -> dict[str, str]:
        """Return the header with the key.

        The key is checked here, because the error message of an HTTP library would show the key.
        """
        name = self.options.api_key_env or KEY
        key = os.getenv(name, "").strip()
        if not key:
            if self.options.api_key_env:
                raise VocabtoolError(f"{name}: no such environment variable; set it to the key")
            return {}
        if not re.fullmatch("[!-~]+", key):
            raise VocabtoolError(
                f"{name}: the key in this environment variable contains blanks, or characters that "
                "are not ASCII; an HTTP header cannot contain these"
            )
        return {"Authorization": f"Bearer {key}"}

    def _vectors(self, data: bytes, texts: int, tokens: int) -> Vectors:
        try:
            answer = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise TryAgain(f"the answer is not JSON ({error}): {self._show(data)}") from error
        rows = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(rows, list) or len(rows) != texts:
            got = f"{len(rows):,}" if isinstance(rows, list) else self._show(data)
            raise VocabtoolError(f"{self._url}: wanted {texts:,} vectors in `data`, got {got}")
        found: dict[int, Any] = {
            row["index"]: row for row in rows if isinstance(row, dict) and is_count(row)
        }
        if len(found) != texts or max(found) >= texts:
            raise VocabtoolError(
                f"{self._url}: `data` must contain each `index` from 0 to {texts - 1:,} once, got "
                f"{self._show(data)}"
            )
        dim = self._served.dim if self._served else None
        given = [found[at].get("embedding") for at in range(texts)]
        vectors = check_vectors(given, texts, dim, f"{self._url}: {self._model}")
        if self.options.dim not in (None, vectors.shape[1]):
            raise VocabtoolError(
                f"{self._url}: asked for vectors of {self.options.dim:,} numbers (--dim), got "
                f"{vectors.shape[1]:,}: this server ignores `dimensions`; leave --dim out"
            )
        if vectors.shape[1] > MAX_DIM:
            raise VocabtoolError(
                f"{self._url}: the vectors have {vectors.shape[1]:,} numbers, wanted at most "
                f"{MAX_DIM:,}"
            )
        self._check_model(answer.get("model"), vectors.shape[1])
        usage = answer.get("usage")
        if isinstance(usage, dict) and is_count(usage, "prompt_tokens"):
            self._pace.correct(min(usage["prompt_tokens"], MAX_TOKENS) - tokens)
        return vectors

    def _check_model(self, name: Any, dim: int) -> None:
        if name is not None and not (isinstance(name, str) and len(name) <= MAX_NAME):
            raise VocabtoolError(
                f"{self._url}: wanted the name of a model (at most {MAX_NAME} characters), got "
                f"{self._show(repr(name).encode('utf-8', 'replace'))}"
            )
        if self._served is None:
            self._served = ModelFacts(name, dim)
        if name != self._served.model:
            raise VocabtoolError(
                f"{self._url}: the server changed its model: it was {self._served.model!r} "
                f"and is now {name!r}; vectors of two models cannot be mixed"
            )

    def _show(self, data: bytes) -> str:
        """Return the beginning of an answer. The key is replaced by ``***``."""
        text = data.decode("utf-8", "replace")
        if key := os.getenv(self.options.api_key_env or KEY, "").strip():
            escaped = r"\\*".join(map(re.escape, key))  # JSON may contain \\/ for /
            text = re.sub(escaped, "***", text)
        return printable(" ".join(text.split())[:MAX_SHOWN].encode())


class Pace:
    """Spaces requests evenly to respect limits of requests and tokens per minute. Thread-safe."""

    def __init__(self, requests: int | None, tokens: int | None) -> None:
        self._request_seconds = 60 / requests if requests else 0.0
        self._token_seconds = 60 / tokens if tokens else 0.0
        self._next_request = self._next_tokens = monotonic()
        self._lock = Lock()

    def take(self, tokens: int) -> float:
        """Return how many seconds to wait before a request with this number of tokens.

        If the result is 0, the request is counted as sent.
        """
        with self._lock:
            now = monotonic()
            wait = max(self._next_request, self._next_tokens) - now
            if wait > 0:
                return wait
            self._next_request = now + self._request_seconds
            self._next_tokens = now + tokens * self._token_seconds
            return 0.0

    def correct(self, tokens: int) -> None:
        """Add ``tokens``, which may be negative, to the number that :meth:`take` counted."""
        with self._lock:
            self._next_tokens += tokens * self._token_seconds

    def pause(self, seconds: float) -> None:
        with self._lock:
            self._next_request = max(self._next_request, monotonic() + seconds)


def parse_address(address: str) -> tuple[str, str]:
    """Split ``MODEL@URL`` into the model and the URL. Slashes at the end of the URL are removed.

    A URL with credentials or a query is refused, because manifests store the URL.
    """
    parts = ADDRESS.fullmatch(address)
    if parts is None or not address.isprintable():
        raise VocabtoolError(f"this address is not valid: {FORM}")
    try:
        url = urlsplit(parts[2])
        port, host = url.port, url.hostname
    except ValueError:
        port = host = None
    if not host:
        raise VocabtoolError(f"openai:{parts[1]}: the URL has no valid host and port; {FORM}")
    if url.username is not None or url.password is not None or url.query or url.fragment:
        raise VocabtoolError(
            f"openai:{parts[1]}: the URL must not contain credentials, a query or a fragment: "
            f"put the key into the environment variable {KEY}, or name another (--api-key-env)"
        )
    shown = f"[{host}]" if ":" in host else host
    if port is not None and port != {"http": 80, "https": 443}[url.scheme]:
        shown += f":{port}"
    return parts[1], f"{url.scheme}://{shown}{url.path.rstrip('/')}"


def connections(url: str, count: int) -> urllib3.PoolManager:
    """Return a pool of connections, through the proxy that the environment names."""
    parts = urlsplit(url)
    proxy = getproxies().get(parts.scheme)
    if not proxy or proxy_bypass(parts.hostname):  # type: ignore[arg-type, unused-ignore] # a host
        return urllib3.PoolManager(maxsize=count)
    try:
        credentials = urllib3.util.parse_url(proxy).auth
        headers = urllib3.make_headers(proxy_basic_auth=credentials)
        return urllib3.ProxyManager(proxy, maxsize=count, proxy_headers=headers)
    except exceptions.HTTPError:
        name = f"{parts.scheme.upper()}_PROXY"
        raise VocabtoolError(
            f"{name}: this environment variable must be the URL of a proxy, http://HOST:PORT"
        ) from None  # its text contains the URL


def seconds_to_wait(value: str | None) -> float | None:
    """Return the seconds that a ``Retry-After`` header asks to wait (RFC 9110, 10.2.3)."""
    if value is None:
        return None
    try:
        if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", value.strip()):
            return float(value)
        return max(parsedate_to_datetime(value).timestamp() - time(), 0.0)
    except (ValueError, OverflowError):
        return None


def is_count(values: dict[str, Any], name: str = "index") -> bool:
    value = values.get(name)
    return type(value) is int and value >= 0
