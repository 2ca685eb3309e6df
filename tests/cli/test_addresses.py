"""The address of an index in PostgreSQL, where a command takes the folder of one.

The oracle of each command is the same command on a folder. The server asks for passwords.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import BytesIO, TextIOWrapper
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from tests.builders.postgres_server import running_server
from tests.builders.served import serve_process, until
from tests.cli.test_index_commands import MODEL
from vocabtool.cli.main import _run

PASSWORD = "correct%20horse-battery"
RULES = "local all keeper,reader scram-sha-256\n"
READ = ("--id-field", "key", "--keep", "year", "--keep", "lang")
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
        login = f"{user}:{given['password']}"
        return (
            f"postgresql://{login}@/{given['database']}?host={given['host']}&index={quote(index)}"
        )

    def run(self, *arguments: str | Path, code: int = 0) -> str:
        """What a command prints to standard output; all else is noted."""
        streams = [TextIOWrapper(BytesIO(), "utf-8", write_through=True) for _ in range(2)]
        with (
            pytest.MonkeyPatch.context() as patch,
            redirect_stdout(streams[0]),
            redirect_stderr(streams[1]),
        ):
            patch.setattr(sys, "argv", ["vocabtool", *map(str, arguments)])
            patch.chdir(Path.cwd())
            done = _run()  # main() would end this process
        told, errors = (each.buffer.getvalue().decode() for each in streams)
        self.said += [told, errors]
        assert done == code, errors
        return told if code == 0 else errors

    def execute(self, statement: str, database: str = "texts") -> list[tuple[str, ...]]:
        import psycopg

        with psycopg.connect(self.admin, dbname=database, autocommit=True) as connection:
            done = connection.execute(statement.encode())
            return done.fetchall() if done.description else []


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """The server; roles that may write and read, with a password."""
    with running_server() as server, pytest.MonkeyPatch.context() as patch:
        import psycopg

        patch.setenv("VOCABTOOL_CACHE", str(tmp_path_factory.mktemp("cache")))
        folder = server.handle.pgdata
        made = Place(
            str(psycopg.conninfo.conninfo_to_dict(server.address())["host"]), server.address()
        )
        for role in ("keeper", "reader"):
            made.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'", "postgres")
        made.execute("CREATE DATABASE texts OWNER keeper", "postgres")
        made.execute("CREATE DATABASE bare OWNER keeper", "postgres")
        made.execute("CREATE EXTENSION vector")
        rules = Path(folder) / "pg_hba.conf"
        rules.write_text(RULES + rules.read_text())
        made.execute("SELECT pg_reload_conf()")
        until(lambda: _is_refused(made))
        yield made


def _is_refused(place: Place) -> bool:
    import psycopg

    try:
        psycopg.connect(host=place.socket, user="keeper", password="no", dbname="texts").close()
    except psycopg.OperationalError:
        return True
    return False


def corpus(path: Path, texts: Sequence[str] = TEXTS) -> Path:
    rows = (
        {"key": f"d{at}", "text": text, "year": 2000 + at, "lang": "de" if at % 3 else "en"}
        for at, text in enumerate(texts)
    )
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def plain(told: str, places: Sequence[str]) -> str:
    """Output without what differs: the name, times, sizes, and digits after the third.

    A folder has the lengths of texts and sums of scores in less precision.
    """
    for each in places:
        told = told.replace(each, "DIR")
    told = re.sub(r"\d+\.\d+(e-?\d+)?", lambda found: f"{float(found[0]):.3g}", told)
    told = re.sub(r'"(seconds|time|updated)": ?[^,}\n]+', "", told)
    return re.sub(r"\d+(\.\d+)? (s|ms|MB|kB|bytes)\b", "", told)


@pytest.fixture(scope="module")
def both(place: Place, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, Path]:
    """The same documents indexed in a folder and at an address, and their file."""
    here = tmp_path_factory.mktemp("both")
    file = corpus(here / "corpus.jsonl")
    for target in (here / "folder", place.address()):
        place.run("index", file, "-o", target, "--model", MODEL, *READ)
    return here / "folder", place.address(), file


READING = (
    ("list", "--field", "year", "--where", "year > 2030"),
    ("get", "d3", "d1"),
    ("search", "love only7", "--format", "json", "--explain"),
    ("search", "ERR-12-X", "--format", "json"),
    ("search", "love -word3 lang:de", "-k", "5", "--facets", "lang", "--format", "json"),
    ("search", "--where", "year < 2005", "--sort", "year:desc"),
    ("similar", "d9", "--format", "json"),
    ("eval", "--self-check", "--format", "json"),
)


@pytest.mark.parametrize("command", READING, ids=lambda each: "-".join(each[:2]))
def test_a_command_that_reads(
    place: Place, both: tuple[Path, str, Path], command: tuple[str, ...]
) -> None:
    folder, address, _ = both
    name, *more = command
    told = [place.run(name, at, *more) for at in (folder, address)]
    shown = f"postgresql:///texts?host={place.socket}&port=5432&index=docs"
    assert plain(told[1], [shown]) == plain(told[0], [str(folder)])


def test_statistics(place: Place, both: tuple[Path, str, Path]) -> None:
    found = []
    for at in both[:2]:
        told = json.loads(place.run("stats", at, "--unknown", "--format", "json"))
        found.append(
            {name: told[name] for name in ("documents", "fields", "unknown") if name in told}
        )
    assert found[0] == found[1]
    assert found[0]["documents"] == len(TEXTS)


def test_exported_documents(place: Place, both: tuple[Path, str, Path], tmp_path: Path) -> None:
    for at, name in ((str(both[0]), "one"), (both[1], "two")):
        place.run("export", at, "-o", tmp_path / f"{name}.jsonl", "--vectors")
    for ending in ("jsonl", "vectors.npy"):
        assert (tmp_path / f"one.{ending}").read_bytes() == (
            tmp_path / f"two.{ending}"
        ).read_bytes()


def test_commands_that_write(place: Place, tmp_path: Path) -> None:
    """After each command, both have the same documents; an address is neither copied nor a copy."""
    address, folder = place.address("written"), tmp_path / "folder"
    file = corpus(tmp_path / "corpus.jsonl")
    for at in (address, folder):
        place.run("index", file, "-o", at, "--model", MODEL, *READ)
    assert place.run("list", address) == place.run("list", folder)
    changed = [*TEXTS[:3], "another text", *TEXTS[4:35], "a new one"]
    corpus(file, changed)
    steps: tuple[tuple[str, ...], ...] = (
        ("update", "--sync"),
        ("delete", "d7"),
        ("compact",),
        ("verify",),
        ("calibrate",),
    )
    for name, *more in steps:
        told = [place.run(name, at, *more) for at in (address, folder)]
        listed = [place.run("list", at, "--field", "text") for at in (address, folder)]
        assert listed[0] == listed[1]
        if name == "calibrate":
            assert plain(told[0], []) == plain(told[1], [])
    assert "another text" in listed[0]
    for source, new in ((address, tmp_path / "back"), (folder, place.address("again"))):
        assert "export DIR --vectors" in place.run("copy", source, new, code=3)
    answer = [place.run("search", at, "love", "--format", "json") for at in (folder, address)]
    assert [each["id"] for each in json.loads(answer[0])["hits"]] == [
        each["id"] for each in json.loads(answer[1])["hits"]
    ]


def test_settings_name_an_address(place: Place, tmp_path: Path) -> None:
    file = corpus(tmp_path / "corpus.jsonl")
    (tmp_path / "vocabtool.toml").write_text(
        f'[index.named]\nfolder = "{place.address("named")}"\nfiles = ["{file.name}"]\n'
        f'model = "{MODEL}"\nid-field = "key"\nkeep = ["year"]\n'
    )
    config = ("--config", tmp_path / "vocabtool.toml")
    place.run(*config, "index", "named")
    assert place.run(*config, "get", "named", "d4") == place.run(
        "get", place.address("named"), "d4"
    )
    place.run(*config, "update", "named")
    place.run(*config, "verify", "named")
    for unknown in ("other", "named/"):
        place.run(*config, "list", unknown, code=3)


def test_served(place: Place, both: tuple[Path, str, Path], tmp_path: Path) -> None:
    """Two servers on one index, one of which writes: the other sees its commits."""
    address = place.address("served")
    place.run("index", both[2], "-o", address, "--model", MODEL, *READ)
    with serve_process(f"docs={address}", "--writable") as one, serve_process(address) as two:
        for each in (one, two):
            each.until_ready()
        path, asked = "/v1/indexes/{}/search", {"query": "only7"}
        found = [
            each.client.post(path.format(name), json=asked).json()["hits"][0]["id"]
            for each, name in ((one, "docs"), (two, "served"))
        ]
        assert found == ["d7", "d7"]
        put = one.client.put(
            "/v1/indexes/docs/documents/new", json={"text": "brandnew", "fields": {"year": 1}}
        )
        assert put.status_code in (200, 201), put.text
        until(lambda: _hits(two.client, "brandnew") == ["new"])
        said = [one.client.get("/metrics").text, two.client.get("/v1/indexes").text]
        said.append(
            two.client.post(path.format("served"), json={"query": "x", "where": "a b"}).text
        )
    logs = [*one.lines, *two.lines]
    place.said += said + logs
    assert not [each for each in said if place.socket in each or "postgresql:" in each]


def _hits(client: httpx.Client, text: str) -> list[str]:
    found = client.post("/v1/indexes/served/search", json={"query": text}).json()["hits"]
    return [each["id"] for each in found][:1]


def test_a_server_without_its_database(place: Place) -> None:
    """It says that it is not ready, and not where the database should be."""
    with serve_process(f"docs={place.address(password='wrong')}") as served:
        until(lambda: "its engine did not open it" in served.client.get("/ready").text)
        told = served.client.get("/ready").text
    place.said += [*served.lines, told]
    assert place.socket not in told
    assert "keeper" not in told


ERRORS = (
    ({"password": "wrong"}, "password authentication failed"),
    ({"host": "/nowhere"}, "check that the server runs"),
    ({"database": "missing"}, "check the names of the database"),
    ({"index": "missing"}, "no index 'missing'"),
    ({"index": "it's \"; DROP TABLE x; --"}, "no index"),
    ({"index": ""}, "the address needs index=NAME"),
    ({"user": "nobody"}, "check the names of the database and the role"),
)


@pytest.mark.parametrize(("changed", "told"), ERRORS, ids=lambda each: str(each)[:40])
def test_errors(place: Place, changed: dict[str, str], told: str) -> None:
    message = place.run("search", place.address(**changed), "love", code=3)
    assert message.startswith("vocabtool: error: ")
    assert told in message


def test_a_database_without_the_extension(place: Place, tmp_path: Path) -> None:
    file = corpus(tmp_path / "corpus.jsonl")
    asked = ("index", file, "-o", place.address(database="bare"), "--model", MODEL, *READ)
    assert "CREATE EXTENSION vector" in place.run(*asked, code=3)


def test_a_role_that_only_reads(place: Place, both: tuple[Path, str, Path]) -> None:
    place.execute("GRANT USAGE ON SCHEMA vocabtool TO reader")
    place.execute("GRANT SELECT ON ALL TABLES IN SCHEMA vocabtool TO reader")
    address = place.address(user="reader")
    for command in (("search", "only7"), ("get", "d7"), ("stats",), ("similar", "d7")):
        name, *more = command
        place.run(name, address, *more)
    assert "permission denied" in place.run("delete", address, "d7", code=3)
    assert place.run("get", both[1], "d7")


def test_a_password_from_elsewhere(
    place: Place, both: tuple[Path, str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = place.address().replace(f":{quote(PASSWORD, safe='')}", "")
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    assert place.run("get", address, "d7")
    monkeypatch.delenv("PGPASSWORD")
    place.run("get", address, "d7", code=3)
    passwords = tmp_path / "pgpass"
    passwords.write_text(f"*:*:*:keeper:{PASSWORD}\n")
    passwords.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    assert place.run("get", address, "d7")


def test_no_password_anywhere(place: Place, both: tuple[Path, str, Path]) -> None:
    """Not in any output of the tests above, in a table, or in the folder of copies."""
    from vocabtool import Index

    index = Index.open(both[1])
    place.said += [repr(index), repr(vars(index)), index.name, str(index.manifest)]
    named = "SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = 'vocabtool'"
    tables = [name for (name,) in place.execute(named)]
    assert len(tables) > 10
    place.said += [
        str(place.execute(f"SELECT array_agg(t::text)::text FROM vocabtool.{name} t"))
        for name in tables
    ]
    secret = {PASSWORD, quote(PASSWORD, safe="")}
    secret |= {each.encode().hex() for each in secret}
    said = "\n".join(place.said)
    assert len(said) > 10_000
    assert not [each for each in secret if each in said]
    for file in index.path.parent.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            assert not [each for each in secret if each.encode() in content]
    shutil.rmtree(index.path)
    assert index.get("d7") == Index.open(both[1]).get("d7")
