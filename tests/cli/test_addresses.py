"""The address of an index in PostgreSQL, where a command takes the folder of one.

The oracle of each command is the same command on a folder. The server asks for passwords.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import httpx
import psycopg
import pytest

from tests.builders.postgres_server import running_server
from tests.builders.served import serve_process, until
from tests.cli.running import told
from tests.cli.test_index_commands import MODEL
from vocabtool import Index

PASSWORD = "correct%20horse-battery"
RULES = "local all keeper,reader scram-sha-256\n"
MAKE = ("--model", MODEL, "--id-field", "key", "--keep", "year", "--keep", "lang")
TEXTS = tuple(
    f"I love to use word{n % 7}. The error ERR-{n}-X came back again and again today. Nobody knows"
    f" only{n} so far, my friend."
    for n in range(40)
)


@dataclass
class Place:
    """A server that asks for passwords. ``said``: all output of all commands."""

    socket: str
    admin: str
    said: list[str] = field(default_factory=list)

    def address(self, index: str = "docs", user: str = "keeper", **changed: str) -> str:
        given = {"password": quote(PASSWORD, safe=""), "host": self.socket, "database": "texts"}
        given |= changed
        login, host = f"{user}:{given['password']}", given["host"]
        return f"postgresql://{login}@/{given['database']}?host={host}&index={quote(index)}"

    def run(self, *arguments: str | Path, code: int = 0) -> str:
        """What a command prints, or the message if it fails; both are noted."""
        printed, messages = told(*arguments, code=code, cwd=Path.cwd())
        self.said += [printed, messages]
        return printed if code == 0 else messages

    def execute(self, statement: str, database: str = "texts") -> list[tuple[str, ...]]:
        with psycopg.connect(self.admin, dbname=database, autocommit=True) as connection:
            done = connection.execute(statement.encode())
            return done.fetchall() if done.description else []

    def asks_for_passwords(self) -> bool:
        try:
            psycopg.connect(host=self.socket, user="keeper", password="no", dbname="texts").close()
        except psycopg.OperationalError:
            return True
        return False


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """The server; roles that may write and read, with a password."""
    with running_server() as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("VOCABTOOL_CACHE", str(tmp_path_factory.mktemp("cache")))
        socket = str(psycopg.conninfo.conninfo_to_dict(server.address())["host"])
        made = Place(socket, server.address())
        for role in ("keeper", "reader"):
            made.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'", "postgres")
        made.execute("CREATE DATABASE texts OWNER keeper", "postgres")
        made.execute("CREATE DATABASE bare OWNER keeper", "postgres")
        made.execute("CREATE EXTENSION vector")
        rules = Path(server.handle.pgdata) / "pg_hba.conf"
        rules.write_text(RULES + rules.read_text())
        made.execute("SELECT pg_reload_conf()")
        until(made.asks_for_passwords)
        yield made


def corpus(path: Path, texts: Sequence[str] = TEXTS) -> Path:
    rows = (
        {"key": f"d{at}", "text": text, "year": 2000 + at, "lang": "de" if at % 3 else "en"}
        for at, text in enumerate(texts)
    )
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def plain(printed: str, place: str) -> str:
    """Output without what differs: the name, times, sizes, and digits after the third.

    A folder has the lengths of texts and sums of scores in less precision.
    """
    printed = printed.replace(place, "DIR")
    printed = re.sub(r"\d+\.\d+(e-?\d+)?", lambda number: f"{float(number[0]):.3g}", printed)
    printed = re.sub(r'"(seconds|time|updated)": ?[^,}\n]+', "", printed)
    return re.sub(r"\d+(\.\d+)? (s|ms|MB|kB|bytes)\b", "", printed)


@pytest.fixture(scope="module")
def both(place: Place, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, Path]:
    """The same documents indexed in a folder and at an address, and their file."""
    here = tmp_path_factory.mktemp("both")
    file = corpus(here / "corpus.jsonl")
    for target in (here / "folder", place.address()):
        place.run("index", file, "-o", target, *MAKE)
    return here / "folder", place.address(), file


READING = (
    ("list", "--field", "year", "--where", "year > 2030"),
    ("get", "d3", "d1"),
    ("search", "love only7", "--format", "json", "--explain"),
    ("search", "love -word3 lang:de", "-k", "5", "--facets", "lang", "--format", "json"),
    ("similar", "d9", "--format", "json"),
    ("eval", "--self-check", "--format", "json"),
)


@pytest.mark.parametrize("command", READING, ids=lambda command: "-".join(command[:2]))
def test_a_command_that_reads(
    place: Place, both: tuple[Path, str, Path], command: tuple[str, ...]
) -> None:
    folder, address, _ = both
    printed = [place.run(command[0], at, *command[1:]) for at in (folder, address)]
    shown = f"postgresql:///texts?host={place.socket}&port=5432&index=docs"
    assert plain(printed[1], shown) == plain(printed[0], str(folder))


def test_commands_that_write(place: Place, tmp_path: Path) -> None:
    """After each command, both have the same documents; an address is neither copied nor a copy."""
    address, folder = place.address("written"), tmp_path / "folder"
    file = corpus(tmp_path / "corpus.jsonl")
    for at in (address, folder):
        place.run("index", file, "-o", at, *MAKE)
    corpus(file, [*TEXTS[:3], "another text", *TEXTS[4:35], "a new one"])
    commands: list[tuple[str, ...]] = [("update", "--sync"), ("delete", "d7"), ("compact",)]
    for name, *options in [*commands, ("verify",), ("list",)]:
        for at in (address, folder):
            place.run(name, at, *options)
        listed = [place.run("list", at, "--field", "text") for at in (address, folder)]
        assert listed[0] == listed[1]
    assert "another text" in listed[0]
    printed = [place.run("calibrate", at) for at in (address, folder)]
    assert plain(printed[0], "") == plain(printed[1], "")
    for source, new in ((address, tmp_path / "back"), (folder, place.address("again"))):
        assert "export DIR --vectors" in place.run("copy", source, new, code=3)


def test_settings_name_an_address(place: Place, tmp_path: Path) -> None:
    file = corpus(tmp_path / "corpus.jsonl")
    (tmp_path / "vocabtool.toml").write_text(
        f'[index.named]\nfolder = "{place.address("named")}"\nfiles = ["{file.name}"]\n'
        f'model = "{MODEL}"\nid-field = "key"\nkeep = ["year"]\n'
    )
    config = ("--config", tmp_path / "vocabtool.toml")
    place.run(*config, "index", "named")
    document = place.run("get", place.address("named"), "d4")
    assert place.run(*config, "get", "named", "d4") == document
    place.run(*config, "update", "named")
    for unknown in ("other", "named/"):
        place.run(*config, "list", unknown, code=3)


def test_served(place: Place, both: tuple[Path, str, Path]) -> None:
    """Two servers on one index, one of which writes: the other sees its commits."""
    address = place.address("served")
    place.run("index", both[2], "-o", address, *MAKE)
    with serve_process(f"docs={address}", "--writable") as one, serve_process(address) as two:
        for server in (one, two):
            server.until_ready()
        assert _hits(one.client, "docs", "only7") == _hits(two.client, "served", "only7") == ["d7"]
        document = {"text": "brandnew", "fields": {"year": 1}}
        put = one.client.put("/v1/indexes/docs/documents/new", json=document)
        assert put.status_code in (200, 201), put.text
        until(lambda: _hits(two.client, "served", "brandnew") == ["new"])
        said = [one.client.get("/metrics").text, two.client.get("/v1/indexes").text]
        wrong = {"query": "x", "where": "a b"}
        said.append(two.client.post("/v1/indexes/served/search", json=wrong).text)
        said += [*one.lines, *two.lines]
    place.said += said
    assert not [text for text in said if place.socket in text or "postgresql:" in text]


def _hits(client: httpx.Client, index: str, query: str) -> list[str]:
    hits = client.post(f"/v1/indexes/{index}/search", json={"query": query}).json()["hits"]
    return [hit["id"] for hit in hits][:1]


def test_a_server_without_its_database(place: Place) -> None:
    """It says that it is not ready, and not where the database should be."""
    with serve_process(f"docs={place.address(password='wrong')}") as served:
        until(lambda: "its engine did not open it" in served.client.get("/ready").text)
        answer = served.client.get("/ready").text
    place.said += [*served.lines, answer]
    assert place.socket not in answer
    assert "keeper" not in answer


ERRORS = (
    ({"password": "wrong"}, "password authentication failed"),
    ({"host": "/nowhere"}, "check that the server runs"),
    ({"database": "missing"}, "check the names of the database"),
    ({"index": "it's \"; DROP TABLE x; --"}, "no index"),
    ({"index": ""}, "the address needs index=NAME"),
)


@pytest.mark.parametrize(("changed", "message"), ERRORS, ids=lambda value: str(value)[:40])
def test_errors(place: Place, changed: dict[str, str], message: str) -> None:
    error = place.run("search", place.address(**changed), "love", code=3)
    assert error.startswith("vocabtool: error: ")
    assert message in error


def test_what_a_role_may_not(place: Place, both: tuple[Path, str, Path]) -> None:
    """An index needs the extension, and a change the right to write."""
    make = ("index", both[2], "-o", place.address(database="bare"), *MAKE)
    assert "CREATE EXTENSION vector" in place.run(*make, code=3)
    place.execute("GRANT USAGE ON SCHEMA vocabtool TO reader")
    place.execute("GRANT SELECT ON ALL TABLES IN SCHEMA vocabtool TO reader")
    address = place.address(user="reader")
    for command in (("search", "only7"), ("get", "d7"), ("stats",), ("similar", "d7")):
        place.run(command[0], address, *command[1:])
    assert "permission denied" in place.run("delete", address, "d7", code=3)
    assert place.run("get", both[1], "d7")


def test_no_password_anywhere(place: Place, both: tuple[Path, str, Path]) -> None:
    """Not in any output of the tests above, in a table, or in the folder of copies."""
    index = Index.open(both[1])
    place.said += [repr(index), repr(vars(index)), index.name, str(index.manifest)]
    named = "SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = 'vocabtool'"
    tables = [name for (name,) in place.execute(named)]
    assert len(tables) > 10
    for name in tables:
        content = place.execute(f"SELECT array_agg(t::text)::text FROM vocabtool.{name} t")
        place.said.append(str(content))
    secret = {PASSWORD, quote(PASSWORD, safe="")}
    secret |= {text.encode().hex() for text in secret}
    said = "\n".join(place.said)
    assert len(said) > 10_000
    assert not [text for text in secret if text in said]
    for file in index.path.parent.rglob("*"):
        if file.is_file():
            data = file.read_bytes()
            assert not [text for text in secret if text.encode() in data]
    shutil.rmtree(index.path)
    assert index.get("d7") == Index.open(both[1]).get("d7")
