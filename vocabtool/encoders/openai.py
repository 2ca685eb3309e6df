"""Models behind ``URL/embeddings``, the HTTP endpoint of OpenAI and of many other servers.

Source: OpenAI's API reference, "Create embeddings". The first line shows a request with texts, and
the second line shows the answer with the vectors of these texts:

    {"model": …, "input": [text, …], "encoding_format": "float", "dimensions": …}
    {"model": …, "data": [{"index": 0, "embedding": [number, …]}, …], "usage": {"prompt_tokens": …}}

``dimensions`` is sent only if the option ``dim`` is given.
"""

from __future__ import annotations

import hashlib
import io
import os
import random
import re
from functools import cached_property, partial
from http.client import HTTPResponse
from pathlib import Path
from socket import socket
from threading import Semaphore
from time import monotonic
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import numpy as np
import orjson

from vocabtool.choices import MAX_DIM
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
from vocabtool.tokenization.lookup import WordLookup
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

DEFAULT_BATCH: Final = 32  # texts in a request; Text Embeddings Inference accepts no more
REQUESTS: Final = 8  # at once
TIMEOUT: Final = 120.0  # seconds for a whole answer; servers without a graphics card are slow
CONNECT_TIMEOUT: Final = 10.0
RETRIES: Final = 8
BACKOFF: Final = 0.5  # seconds at most before the first retry, doubled for each further one
MAX_BACKOFF: Final = 30.0
MAX_WAIT: Final = 120  # seconds; longer waits that a server asks for are cut
RETRIED: Final = (408, 429, *range(500, 600))  # status codes of failures that pass
UNREACHABLE: Final = (exceptions.NewConnectionError, exceptions.SSLError)  # if at the first request

MAX_NUMBER: Final = 48  # bytes of a number in an answer, with the blanks around it
MAX_TEXT_FACTS: Final = 1 << 10  # bytes around a vector
MAX_FACTS: Final = 1 << 16  # bytes around all vectors, and bytes of an error that are read
MAX_NAME: Final = 256  # characters of a model's name in an answer
MAX_SHOWN: Final = 300  # characters of an answer in a message
READ_BYTES: Final = 1 << 16

ADVICE: Final = {
    401: " Set the key in the environment variable {key}, or name another (--api-key-env)",
    403: " Check the key in the environment variable {key}, or name another (--api-key-env)",
    404: " Check the URL, to which /embeddings is added, and the name of the model",
    413: " Send fewer texts in a request (--batch-size)",
}


class Retries(urllib3.Retry):
    """Counts the attempts. Answers are read, within limits, before a request is repeated."""

    def is_retry(self, method: str, status_code: int, has_retry_after: bool = False) -> bool:
        return False  # urllib3 would read the whole answer first

    def parse_retry_after(self, retry_after: str) -> float:
        try:
            return float(super().parse_retry_after(retry_after))
        except (exceptions.InvalidHeader, ValueError, OverflowError):  # not a time
            return 0.0

    def get_backoff_time(self) -> float:
        delay = min(BACKOFF * 2.0 ** (len(self.history) - 1), MAX_BACKOFF)
        return delay * random.uniform(0.5, 1)  # noqa: S311 - not a secret


class _LimitedReader(io.RawIOBase):
    """Reads from a socket until a deadline: an answer may come in any number of small parts."""

    def __init__(self, file: io.RawIOBase, connection: socket, seconds: float | None) -> None:
        self._file, self._socket = file, connection
        self._end = None if seconds is None else monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if self._end is not None:
            left = self._end - monotonic()
            if left <= 0:
                raise TimeoutError("the answer is not complete")
            self._socket.settimeout(left)
        return self._file.readinto(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()


class LimitedResponse(HTTPResponse):
    """An answer whose headers and body together must come within the time limit of the socket."""

    def __init__(self, sock: socket, *arguments: Any, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        file: io.RawIOBase = self.fp.detach()
        self.fp = io.BufferedReader(_LimitedReader(file, sock, sock.gettimeout()))


class OpenAIEncoder(Encoder):
    """Asks a server for vectors, with several requests at once.

    Blank texts are not sent, because OpenAI refuses them: they get zero vectors. The key is read
    from the environment for each request and is never stored.
    """

    kind = "openai"
    threads = 2  # each sends several requests
    skips_blank = True

    def __init__(
        self,
        model: str | Path,
        options: EncoderOptions,
        served: tuple[str | None, int] | None = None,
    ) -> None:
        """Open ``MODEL@URL``. If ``served`` is ``None``, one request finds it.

        ``served``: the name that the server reports, if any, and the length of a vector.
        """
        self._address = str(model)
        self._model, self._url = parse_address(self._address)
        self.options = options
        self.max_batch = options.max_batch or DEFAULT_BATCH
        self._requests = options.requests or REQUESTS
        self._timeout = options.timeout or TIMEOUT
        self._retries = RETRIES if options.retries is None else options.retries
        self._slots = Semaphore(self._requests)
        self._pool = connections(self._url, self._requests)
        self._served = served
        self.dim = self._ask([PROBE]).shape[1] if served is None else served[1]

    @property
    def notes(self) -> tuple[str, ...]:
        key_name, host = self.options.api_key_env or KEY, urlsplit(self._url).hostname
        key = f", with the key in {key_name}" if os.getenv(key_name) else ""
        sends = f"texts are sent to {host}{key}"
        if self._url.startswith("http:") and host not in LOCAL:
            sends += ", unencrypted"
        notes = [sends, "blank texts are not sent: their vectors are zero"]
        served_name = self._served[0] if self._served else None
        if served_name not in (None, self._model):
            notes.append(f"the server calls the model {served_name!r}")
        return (*notes, *self._notes)

    @cached_property
    def fingerprint(self) -> str:
        name = self._served[0] if self._served else None
        facts = ["vocabtool openai 1", self._url, self._model, name, self.dim]
        return hashlib.sha256(orjson.dumps(facts)).hexdigest()

    def encode(self, texts: Texts) -> Vectors:
        batches = self.encode_batches(texts, self.max_batch)
        return np.concatenate([np.zeros((0, self.dim), np.float32), *batches])

    def encode_batches(
        self, texts: Texts, size: int, lookup: WordLookup | None = None
    ) -> list[Vectors]:
        def encode_batch(batch: list[str]) -> Vectors:
            is_sent = [bool(text.strip()) for text in batch]
            vectors = np.zeros((len(batch), self.dim), np.float32)
            if any(is_sent):
                vectors[is_sent] = self._ask([text for text in batch if text.strip()])
            return vectors

        decoded = decode_texts(texts)
        batches = (decoded[at : at + size] for at in range(0, len(decoded), size))
        return [*parallel_map(encode_batch, batches, workers=self._requests)]

    def __reduce__(self) -> tuple[Any, ...]:
        return OpenAIEncoder, (self._address, self.options, self._served)

    def _ask(self, texts: list[str]) -> Vectors:
        """Return the vectors that the server gives to texts: float32, shape (n, dim)."""
        request: dict[str, Any] = {"model": self._model, "input": texts, "encoding_format": "float"}
        if self.options.dim is not None:
            request["dimensions"] = self.options.dim
        # The first request finds out whether there is such a server: it does not wait for one.
        connect = 0 if self._served is None else self._retries
        retries = Retries(
            total=self._retries,
            connect=connect,
            other=connect,
            allowed_methods=None,
            retry_after_max=MAX_WAIT,
        )
        dim = self._served[1] if self._served else MAX_DIM
        limit = MAX_FACTS + len(texts) * (MAX_TEXT_FACTS + dim * MAX_NUMBER)
        try:
            with self._slots:
                status, answer = self._post(orjson.dumps(request), limit, retries)
        except exceptions.HTTPError as error:
            reason = error.reason if isinstance(error, exceptions.MaxRetryError) else error
            what = self._show(f"{type(reason).__name__}: {reason}".encode())
            if self._served is None and isinstance(reason, UNREACHABLE):
                raise NotFound(f"{self._url}: no such server, or unreachable: {what}") from error
            if reason is error:
                raise VocabtoolError(f"{self._url}: {what}") from error
            raise self._failure(what) from error
        if status == 200 and isinstance(answer, bytes):
            raise VocabtoolError(
                f"{self._url}: the answer for {len(texts):,} texts has more than {limit:,} bytes. "
                f"This is too long for vectors of {dim:,} numbers"
            )
        if status != 200:
            what = f"the server answered with status {status}: {self._show(answer)}"
            if status in RETRIED:
                raise self._failure(what)
            advice = ADVICE.get(status, "").format(key=self.options.api_key_env or KEY)
            raise VocabtoolError(f"{self._url}: {what}.{advice}")
        return self._vectors(answer, len(texts))

    def _failure(self, what: str) -> VocabtoolError:
        """Return the error after the last attempt. ``what``: why it failed."""
        return VocabtoolError(
            f"{self._url}: all attempts failed, the last so: {what}. Run the same command again "
            "later (--timeout, in Python retries)"
        )

    def _post(self, body: bytes, limit: int, retries: urllib3.Retry) -> tuple[int, Any]:
        """Send a request, and repeat it as ``retries`` allows. Return the status and the answer.

        The answer is decoded JSON, or bytes if it is an error or has more than ``limit`` bytes.
        """
        seconds = urllib3.Timeout(connect=min(CONNECT_TIMEOUT, self._timeout), read=self._timeout)
        headers = {"Content-Type": "application/json", **self._authorization()}
        url = f"{self._url}/embeddings"
        while True:
            response = self._pool.request(
                "POST",
                url,
                body=body,
                headers=headers,
                timeout=seconds,
                retries=retries,
                redirect=False,
                preload_content=False,
            )
            retries = response.retries or retries  # fewer if connections failed
            try:
                data, most = bytearray(), limit if response.status == 200 else MAX_FACTS
                for block in iter(partial(response.read1, READ_BYTES), b""):
                    data += block
                    if len(data) > most:
                        break
                if response.status not in RETRIED or not retries.total:
                    is_answer = response.status == 200 and len(data) <= limit
                    return response.status, orjson.loads(data) if is_answer else bytes(data)
                retries = retries.increment("POST", url, response=response)
            except (exceptions.ProtocolError, exceptions.TimeoutError) as error:
                retries = retries.increment("POST", url, error=error)
            except orjson.JSONDecodeError as error:
                broken = exceptions.ProtocolError(f"the answer is not JSON: {error}")
                retries = retries.increment("POST", url, error=broken)
            finally:
                response.close()
            retries.sleep(response)

    def _authorization(self) -> dict[str, str]:
        """Return the header with the key, checked here: an HTTP library's error would show it."""
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

    def _vectors(self, answer: Any, texts: int) -> Vectors:
        """Return an answer's vectors. The first one decides the model's name and the length."""
        rows = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(rows, list) or len(rows) != texts:
            got = f"{len(rows):,}" if isinstance(rows, list) else self._show_json(answer)
            raise VocabtoolError(f"{self._url}: wanted {texts:,} vectors in `data`, got {got}")
        by_index: dict[int, Any] = {
            row["index"]: row
            for row in rows
            if isinstance(row, dict) and type(row.get("index")) is int
        }
        if sorted(by_index) != list(range(texts)):
            raise VocabtoolError(
                f"{self._url}: `data` must contain each `index` from 0 to {texts - 1:,} once, got "
                f"{self._show_json(answer)}"
            )
        dim = self._served[1] if self._served else None
        embeddings = [by_index[number].get("embedding") for number in range(texts)]
        vectors = check_vectors(embeddings, texts, dim, f"{self._url}: {self._model}")
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
        name = answer.get("model")
        if name is not None and not (isinstance(name, str) and len(name) <= MAX_NAME):
            raise VocabtoolError(
                f"{self._url}: wanted the name of a model (at most {MAX_NAME} characters), got "
                f"{self._show(repr(name).encode('utf-8', 'replace'))}"
            )
        if self._served is None:
            self._served = (name, vectors.shape[1])
        if name != self._served[0]:
            raise VocabtoolError(
                f"{self._url}: the server changed its model: it was {self._served[0]!r} "
                f"and is now {name!r}; vectors of two models cannot be mixed"
            )
        return vectors

    def _show_json(self, answer: Any) -> str:
        try:
            return self._show(orjson.dumps(answer))
        except TypeError:  # orjson reads JSON of more levels than it writes
            return "JSON of too many levels"

    def _show(self, data: bytes) -> str:
        """Return the beginning of an answer. The key is replaced by ``***``."""
        text = data.decode("utf-8", "replace")
        key = os.getenv(self.options.api_key_env or KEY, "").strip()
        if key:
            escaped = r"\\*".join(map(re.escape, key))  # JSON may contain \\/ for /
            text = re.sub(escaped, "***", text)
        return printable(" ".join(text.split())[:MAX_SHOWN].encode())


def parse_address(address: str) -> tuple[str, str]:
    """Split ``MODEL@URL`` into the model and the URL. Slashes at the end of the URL are removed.

    A URL with credentials or a query is refused, because manifests store the URL.
    """
    match = ADDRESS.fullmatch(address)
    if match is None or not address.isprintable():
        raise VocabtoolError(f"this address is not valid: {FORM}")
    try:
        url = urlsplit(match[2])
        port, host = url.port, url.hostname
    except ValueError:
        port = host = None
    if not host:
        raise VocabtoolError(f"openai:{match[1]}: the URL has no valid host and port; {FORM}")
    if url.username is not None or url.password is not None or url.query or url.fragment:
        raise VocabtoolError(
            f"openai:{match[1]}: the URL must not contain credentials, a query or a fragment: "
            f"put the key into the environment variable {KEY}, or name another (--api-key-env)"
        )
    shown = f"[{host}]" if ":" in host else host
    if port is not None and port != {"http": 80, "https": 443}[url.scheme]:
        shown += f":{port}"
    return match[1], f"{url.scheme}://{shown}{url.path.rstrip('/')}"


def connections(url: str, count: int) -> urllib3.PoolManager:
    """Return a pool of connections, through the proxy that the environment names."""
    address = urlsplit(url)
    proxy = getproxies().get(address.scheme)
    if not proxy or proxy_bypass(address.hostname):  # type: ignore[arg-type, unused-ignore] # a host
        return _with_time_limit(urllib3.PoolManager(maxsize=count))
    try:
        credentials = urllib3.util.parse_url(proxy).auth
        headers = urllib3.make_headers(proxy_basic_auth=credentials)
        return _with_time_limit(urllib3.ProxyManager(proxy, maxsize=count, proxy_headers=headers))
    except exceptions.HTTPError:
        name = f"{address.scheme.upper()}_PROXY"
        raise VocabtoolError(
            f"{name}: this environment variable must be the URL of a proxy, http://HOST:PORT"
        ) from None  # its text contains the URL


def _with_time_limit(manager: urllib3.PoolManager) -> urllib3.PoolManager:
    """Let all connections of a manager read :class:`LimitedResponse`."""
    pools: dict[str, Any] = {}
    pool: Any
    for scheme, pool in manager.pool_classes_by_scheme.items():
        connection = type("Connection", (pool.ConnectionCls,), {"response_class": LimitedResponse})
        pools[scheme] = type("Pool", (pool,), {"ConnectionCls": connection})
    manager.pool_classes_by_scheme = pools
    return manager
