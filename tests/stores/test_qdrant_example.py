"""The worked example of a store fulfils the contract, in the local mode of Qdrant's client."""

from __future__ import annotations

import gc
import os
import signal
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.builders.small_indexes import DIM, add, answers, documents, ids, made, vectors
from tests.conftest import ROOT
from vocabtool import Document, Index, VocabtoolError
from vocabtool.errors import InvalidCondition, InvalidFile, NotFound
from vocabtool.index.engines import Engine
from vocabtool.keywords.bm25 import Clause, KeywordQuery, Term, stored_length
from vocabtool.testing import StoreContract
from vocabtool.testing.plain_bm25 import PlainBM25

pytest.importorskip("qdrant_client", reason="the example of a store needs qdrant-client")
from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.local.qdrant_local import QdrantLocal

if TYPE_CHECKING:
    from vocabtool_qdrant.engine import QdrantEngine

    _: type[Engine] = QdrantEngine

EXAMPLE = ROOT / "docs" / "examples" / "vocabtool-qdrant"


@pytest.fixture(scope="module", autouse=True)
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The package, as pip leaves it after ``pip install -e``."""
    folder = tmp_path_factory.mktemp("site")
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text("utf-8"))["project"]
    facts = folder / "vocabtool_qdrant-0.1.0.dist-info"
    facts.mkdir()
    head = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (facts / "METADATA").write_text(head)
    names = project["entry-points"]["vocabtool.stores"].items()
    lines = ["[vocabtool.stores]", *(f"{name} = {engine}" for name, engine in names)]
    (facts / "entry_points.txt").write_text("\n".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLE)
        patch.syspath_prepend(folder)
        paths = os.pathsep.join(map(str, (folder, EXAMPLE, ROOT)))
        patch.setenv("PYTHONPATH", paths)
        yield folder


@pytest.fixture(autouse=True)
def closed_databases(monkeypatch: pytest.MonkeyPatch) -> None:
    """The local mode does not close the database of a collection that it deletes."""
    delete = QdrantLocal.delete_collection

    def close_and_delete(self: QdrantLocal, collection_name: str, **more: Any) -> bool:
        if (collection := self.collections.get(collection_name)) is not None:
            collection.close()
        return delete(self, collection_name, **more)

    monkeypatch.setattr(QdrantLocal, "delete_collection", close_and_delete)


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"qdrant-local://{tmp_path}/qdrant/demo"


class TestQdrant(StoreContract):
    def new_address(self, tmp_path: Path) -> str:
        return f"qdrant-local://{tmp_path}/qdrant/demo"


class Killed(BaseException):
    """What a SIGKILL leaves: nothing after it runs that could tidy up."""


def filled(address: str, numbers: Any = range(6)) -> Index:
    index = Index.create(address, dim=DIM)
    add(index, documents(numbers), vectors(numbers))
    return index


def collection_of(index: Index) -> Any:
    engine: Any = index
    return engine._engine.collection


def change(index: Index) -> None:
    """A commit with all kinds of changes, in several requests."""
    with index.writer() as writer:
        writer.remember("key", b"digest", b"answer")
        writer.update([Document("d0", "violet sky", {"n": 7, "even": False})], vectors([8]))
        writer.add(documents(range(20, 23)), vectors(range(20, 23)))
        writer.set_source(np.array([*writer.find_existing(["d1", "d20"]).values()]), 3)
        writer.add([Document("new", "amber violet")], vectors([9]))
        writer.delete(["d4"])


class TestKilledWriters:
    def test_before_every_write(self, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """A commit is there as a whole or not at all; then it is repeated, and nothing is twice."""
        index = filled(address)
        for module in ("collection", "documents", "writer"):
            monkeypatch.setattr(f"vocabtool_qdrant.{module}.BATCH", 2)
        before, collection, left = answers(index), type(collection_of(index)), 0
        ask = collection.ask

        def counted(self: Any, method: str, **given: Any) -> Any:
            nonlocal left
            if method in ("upsert", "delete", "set_payload", "delete_payload"):
                left -= 1
                if left < 0:
                    raise Killed
            return ask(self, method, **given)

        monkeypatch.setattr(collection, "ask", counted)
        outcomes = []
        for allowed in range(30):
            left = allowed
            try:
                change(index)
            except Killed:
                left = 1_000
                found = Index.open(address)
                outcomes.append("new" in found)
                assert len(found) == found.verify().documents == (9 if outcomes[-1] else 6)
                if outcomes[-1]:
                    break
                assert answers(found) == before
                with found.writer() as writer:
                    assert writer.answer_for("key") is None
                    assert writer.rows == 6
        assert outcomes.index(True) > 9
        with found.writer() as writer:  # the end of the session was not written
            assert writer.answer_for("key") == (b"digest", b"answer")
        kept = ["d0", "d1", "d2", "d20", "d21", "d22", "d3", "d5", "new"]
        assert sorted(found.ids()) == kept
        with found.snapshot().contents() as held:
            rows = [(each.documents, each.sources) for each in held.rows]
        sources = {
            each.id: n for found_, numbers in rows for each, n in zip(found_, numbers, strict=True)
        }
        assert sources == dict.fromkeys(kept, 0) | {"d1": 3, "d20": 3}
        assert ids(found.search("violet")) == ["d0", "new"]
        assert found.compact() == 4
        assert found.verify().documents == 9
        assert collection_of(index).count(collection_of(index).read_record().changed("gone")) == 0

    def test_of_a_process(self, address: str) -> None:
        """What was acknowledged before a SIGKILL is there, once, and no half of a commit."""
        program = (
            "import sys\nfrom vocabtool import Index\n"
            "from tests.builders.small_indexes import documents, vectors\n"
            "index = Index.open(sys.argv[1])\n"
            "with index.writer() as writer:\n"
            "    for n in range(int(sys.argv[2]), 10_000, 4):\n"
            "        writer.add(documents(range(n, n + 4)), vectors(range(n, n + 4)))\n"
            "        writer.commit()\n"
            "        print(n + 4, flush=True)\n"
        )
        count = 0
        create = f"from vocabtool import Index; Index.create({address!r}, dim={DIM})"
        subprocess.run([sys.executable, "-c", create], check=True)
        for kill in range(2):
            command = [sys.executable, "-c", program, address, str(count)]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
            assert process.stdout is not None
            acknowledged = [int(process.stdout.readline()) for _ in range(3 + kill)][-1]
            process.send_signal(signal.SIGKILL)
            process.wait()
            process.stdout.close()
            read = f"from vocabtool import Index; index = Index.open({address!r})\n"
            read += "index.verify(); print(*sorted(index.ids()), sep=',')"
            told = subprocess.run(
                [sys.executable, "-c", read], check=True, capture_output=True, text=True
            )
            found, count = told.stdout.strip().split(","), len(told.stdout.split(","))
            assert count >= acknowledged
            assert sorted(found) == sorted(f"d{n}" for n in range(count))
            assert count % 4 == 0


class TestTwoWriters:
    def test_the_first_is_told(self, address: str) -> None:
        """What it added and deleted does not count, even if it arrives after a later commit."""
        index = filled(address)
        told = pytest.raises(VocabtoolError, match=r"another writer was opened.*Nothing of this")
        with told, index.writer() as one:
            one.add([Document("one", "amber")], vectors([7]))
            one.delete(["d1", "d2"])
            with Index.open(address).writer() as other:
                other.add([Document("two", "amber")], vectors([8]))
                other.delete(["d2"])
        index.refresh()
        assert sorted(index.ids()) == ["d0", "d1", "d3", "d4", "d5", "two"]
        with index.writer() as third:
            third.delete(["d1"])
        assert sorted(index.ids()) == ["d0", "d3", "d4", "d5", "two"]
        assert index.verify().documents == 5

    def test_who_only_asks(self, address: str) -> None:
        """A writer without a change stops no other one, as a copy to an index that is in use."""
        index = filled(address)
        with index.writer() as loading:
            loading.add([Document("one", "amber")], vectors([7]))
            with Index.open(address).writer() as asking:
                assert (asking.load_of(None), [*asking.find_existing(["d1", "one"])]) == (
                    None,
                    ["d1"],
                )
            engine: Any = index
            engine.remove(if_empty=True)
        assert len(index) == 7
        assert collection_of(index).read_record().writer == ""

    def test_a_commit_meanwhile(self, address: str) -> None:
        """It is not undone by a writer that read an earlier commit."""
        index = filled(address)
        with (
            pytest.raises(VocabtoolError, match="another writer was opened"),
            index.writer() as one,
        ):
            assert [*one.find_existing(["d1"])] == ["d1"]
            Index.open(address).delete(["d1"])
            one.delete(["d1"])
        assert (len(Index.open(address)), index.refresh()) == (5, True)

    def test_many_killed(self, address: str) -> None:
        """Writers that were killed one after the other leave one pair of stamps."""
        index = filled(address)
        collection = collection_of(index)
        for n in range(3):
            record = collection.open_session(collection.read_record())
            assert record.killed == (((1 << 20) + 1, (n + 2 << 20)),)[: min(n, 1)]
        add(index, documents([7]), vectors([7]))
        killed = collection.read_record().killed
        assert killed == (((1 << 20) + 1, 5 << 20),)
        record = collection.open_session(collection.read_record())
        assert record.killed == killed
        assert collection.open_session(record).killed == (*killed, ((5 << 20) + 1, 7 << 20))

    def test_deleted_twice(self, address: str) -> None:
        """By rows that were read before; they count once."""
        index = filled(address)
        reader: Any = index.snapshot()
        rows = np.array([reader.row_of("d1"), reader.row_of("d2")])
        for part in (rows[:1], rows):
            with index.writer() as writer:
                writer.delete_found(part)
        assert reader.ids(rows) == ["d1", "d2"]
        assert (len(index), index.verify().deleted) == (4, 2)

    def test_a_reader_keeps_its_commit(self, address: str) -> None:
        """All of an earlier commit is found until the index is compacted."""
        index = filled(address)
        reader = Index.open(address)
        before = answers(reader)
        change(index)
        assert answers(reader) == before
        assert (reader.refresh(), sorted(reader.ids())) == (True, sorted(index.ids()))


class TestKeywords:
    def test_collisions(self, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Terms of one dimension add candidates, and change no answer."""
        monkeypatch.setattr("vocabtool_qdrant.terms.DIMENSIONS", 1)
        wanted = answers(filled(address.replace("demo", "plain"), range(40)))
        monkeypatch.undo()
        assert answers(filled(address, range(40))) == wanted

    @pytest.mark.parametrize(
        ("lengths", "most"), [([(1, 4), (60, 90)], 300), ([(1, 2), (60, 90)], 64)]
    )
    def test_other_lengths_later(
        self,
        address: str,
        lengths: list[tuple[int, int]],
        most: int,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """The best are found although weights are by another mean length.

        One short document at first costs no search more candidates.
        """
        monkeypatch.setattr("vocabtool_qdrant.writer.ENOUGH", 100)
        draw, index = np.random.default_rng(5), Index.create(address, dim=2, language="none")
        words, counts = np.array([f"w{n}" for n in range(30)]), (1 if most < 300 else 150, 150)
        texts = []
        for (least, end), count in zip(lengths, counts, strict=True):
            part = [
                " ".join(draw.choice(words, length).tolist())
                for length in draw.integers(least, end, count).tolist()
            ]
            add(index, part, np.ones((count, 2)))
            texts += part
        snapshot: Any = index.snapshot()
        plain, collection = (
            PlainBM25(snapshot.cutter.terms(texts), stored_length),
            type(collection_of(index)),
        )
        ask, limits = collection.ask, list[int]()

        def counted(self: Any, method: str, **given: Any) -> Any:
            limits.append(given.get("limit", 0))
            return ask(self, method, **given)

        monkeypatch.setattr(collection, "ask", counted)
        for n in range(0, 30, 3):
            clauses = tuple(Clause((Term("words", f"w{n + at}"),), 1 + at) for at in range(3))
            query = KeywordQuery(clauses)
            scores = plain.search(query, 3).scores
            assert snapshot.search(query, 3, snapshot.live).scores == pytest.approx(scores, 1e-5)
        assert max(limits) <= most if most < 300 else max(limits) > most

    def test_limits(self, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """What Qdrant cannot answer exactly is refused for many documents, not answered in part."""
        index = filled(address)
        assert [*index.ids("not n > 1")] == ["d0", "d1"]
        assert [*index.ids("text like 'amber%'")] == ["d0"]
        assert ids(index.search('+"amber amber"')) == ["d0"]
        monkeypatch.setattr("vocabtool_qdrant.commit.MAX_COMPARED", 5)
        monkeypatch.setattr("vocabtool_qdrant.commit.MAX_CANDIDATES", 0)
        assert [*index.ids("n > 1 and n in (2, 3)")] == ["d2", "d3"]
        assert [*index.ids("id in ('d3', 'd1', 'none') and n > 1")] == ["d3"]
        with pytest.raises(VocabtoolError, match="at most 5 documents"):
            [*index.ids("not n > 1")]
        with pytest.raises(InvalidCondition, match="no field 'm'"):
            [*index.ids("m > 1")]
        with pytest.raises(VocabtoolError, match="at most 0 documents"):
            index.search('+"amber amber"')


class TestCopies:
    def test_there_and_back(self, address: str, tmp_path: Path) -> None:
        source = made(tmp_path / "one", range(30))
        source.delete(["d5"])
        source.compact()  # so that tantivy does not count it
        there = source.copy(address)
        back = there.copy(tmp_path / "two")
        assert len(there) == len(back) == there.verify().documents == 29
        for key, hits in answers(source).items():
            for copied in (there, back):
                found = answers(copied)[key]
                assert [id_ for id_, _ in found] == [id_ for id_, _ in hits], key
                assert [score for _, score in found] == pytest.approx(
                    [score for _, score in hits], rel=1e-3
                )

    def test_files(self, address: str, tmp_path: Path) -> None:
        """Documents that are in another FILE now stay, with its number, and each is there once."""
        for name in ("one", "two"):
            lines = (f'{{"id": "d{n}", "text": "love{n} to use"}}\n' for n in range(6))
            (tmp_path / f"{name}.jsonl").write_text("".join(lines))
        index = Index.create(address, ROOT / "data" / "small_glove.txt", weights="none")
        for number, name in enumerate(("one", "two"), 1):
            report = index.load(tmp_path / f"{name}.jsonl", id_field="id", on_existing="update")
            assert (report.added, report.unchanged) == ((6, 0) if number == 1 else (0, 6))
            with index.snapshot().contents() as held:
                rows = [*held.rows]
            assert [each for part in rows for each in part.sources] == [number] * 6
            assert [each.id for part in rows for each in part.documents] == sorted(index.ids())
        assert index.verify(model=True).documents == 6
        (tmp_path / "two.jsonl").write_text('{"id": "d3", "text": "love3 to use"}\n')
        assert index.update([tmp_path / "two.jsonl"], sync=True, force=True).removed == 5
        assert [*index.ids()] == ids(index.search("love3")) == ["d3"]


def test_command_line(address: str, tmp_path: Path) -> None:
    """An index is made, searched and copied by commands that know nothing of Qdrant."""
    (tmp_path / "docs.jsonl").write_text(
        '{"id": "a", "text": "green pump SKU-48007-H", "n": 1}\n{"id": "b", "text": "red pump"}\n'
    )
    np.save(tmp_path / "vectors.npy", np.eye(2))

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "vocabtool", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    given = ("--field", "text", "--id-field", "id", "--keep", "n", "--vectors", "vectors.npy")
    run("index", "docs.jsonl", *given, "-o", address)
    found = run("search", address, "SKU-48007-H pump", "--fusion", "keyword", "--format", "json")
    assert found.index("SKU-48007-H") < found.index("red pump")
    run("copy", address, "folder")
    assert [*Index.open(tmp_path / "folder").ids("n = 1")] == ["a"]


class TestDamage:
    def test_missing_document(self, address: str) -> None:
        index = filled(address)
        row = index.snapshot().row_of("d2")
        collection_of(index).ask("delete", points_selector=[row])
        with pytest.raises(InvalidFile, match="5 of 6 documents"):
            index.verify()

    @pytest.mark.parametrize("payload", [{"text": "other"}, {"words": ["a"]}, {"length": 3}, {}])
    def test_other_payload(self, address: str, payload: dict[str, Any]) -> None:
        """Also postings that are not of the text, and a point without text."""
        index = filled(address)
        rows, collection = [index.snapshot().row_of("d2")], collection_of(index)
        if payload:
            collection.ask("set_payload", payload=payload, points=rows)
        else:
            collection.ask("delete_payload", keys=["text"], points=rows)
        with pytest.raises(InvalidFile, match=r"(text|terms) of row"):
            index.verify()


class TestOtherCollections:
    """Collections of others in the same Qdrant are left alone."""

    def test_aliases(self, address: str) -> None:
        index = filled(address)
        collection = collection_of(index)
        vectors_config = {
            "vectors_config": models.VectorParams(size=1, distance=models.Distance.DOT)
        }
        collection.call("create_collection", "theirs", **vectors_config)
        collection.call("create_collection", "taken", **vectors_config)
        made = models.CreateAlias(collection_name="theirs", alias_name="alias")
        changes = [models.CreateAliasOperation(create_alias=made)]
        collection.call("update_collection_aliases", changes)
        before = {each.name for each in collection.call("get_collections").collections}
        for name in ("alias", "taken", collection.name):
            there = address.replace("demo", name)
            for force in (False, True):
                with pytest.raises(
                    VocabtoolError, match=r"is the collection .*, which is no index"
                ):
                    Index.create(there, dim=DIM, force=force)
            with pytest.raises(VocabtoolError, match=r"is the collection .*, which is no index"):
                Index.open(there)
        build: Any = Index.create(address, dim=DIM, force=True, in_place=False)
        assert collection_of(build).alias == "demo.new"
        made = models.CreateAlias(collection_name="theirs", alias_name="demo")
        changes = [models.CreateAliasOperation(create_alias=made)]
        collection.call("update_collection_aliases", changes)
        with pytest.raises(VocabtoolError, match="'demo' is the collection 'theirs'"):
            build.put_in_place()
        assert build.is_build
        build.remove()
        assert {each.name for each in collection.call("get_collections").collections} == before

    def test_failed_creation(self, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """It leaves nothing, and what failed is said."""
        collection = collection_of(filled(address))
        before = {each.name for each in collection.call("get_collections").collections}
        call = type(collection).call

        def failing(self: Any, method: str, *given: Any, **named: Any) -> Any:
            if method == "upsert":
                raise VocabtoolError("disk full")
            return call(self, method, *given, **named)

        monkeypatch.setattr(type(collection), "call", failing)
        with pytest.raises(VocabtoolError, match="disk full"):
            Index.create(address.replace("demo", "other"), dim=DIM)
        assert {each.name for each in collection.call("get_collections").collections} == before


class TestRequests:
    def test_sizes(self, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """A request has fewer bytes than a server takes, unless one document has more."""
        monkeypatch.setattr("vocabtool_qdrant.writer.MAX_BYTES", 10_000)
        index = Index.create(address, dim=DIM)
        collection, sizes = type(collection_of(index)), list[tuple[int, int]]()
        ask = collection.ask

        def measured(self: Any, method: str, **given: Any) -> Any:
            if method == "upsert":
                points = given["points"]
                sizes.append((len(points), sum(len(each.model_dump_json()) for each in points)))
            return ask(self, method, **given)

        monkeypatch.setattr(collection, "ask", measured)
        texts = ["amber " * 200] * 20 + ["birch " * 2_000, *["cedar"] * 20]
        add(index, texts, vectors(range(len(texts))))
        assert sum(count for count, _ in sizes) == len(texts) + 3  # and three times the record
        assert [count for count, size in sizes if size > 10_000] == [1]
        assert max(count for count, _ in sizes) > 10
        assert index.verify().documents == len(texts)

    def test_model_files(self, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Files come back in several requests of several pieces."""
        monkeypatch.setattr("vocabtool_qdrant.engine.PIECE", 100)
        index: Any = Index.create(address, ROOT / "data" / "small_glove.txt", weights="none")
        for name in index._engine.manifest().model_files:
            content = (index.path / name).read_bytes()
            assert index._engine.model_file(name) == content
            assert len(content) > 100

    def test_infinity(self, address: str) -> None:
        """JSON has none: it would come back as null."""
        with pytest.raises(VocabtoolError, match="the field 'n' contains inf, no JSON number"):
            add(
                Index.create(address, dim=DIM), [{"id": "a", "text": "b", "n": 1e999}], vectors([1])
            )

    @pytest.mark.parametrize(
        "error",
        [ResourceExhaustedResponse("too many", 3), OSError("too many"), sqlite3.Error("too many")],
    )
    def test_failures(
        self, address: str, error: Exception, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*given: Any, **named: Any) -> Any:
            raise error

        index = filled(address)
        monkeypatch.setattr(collection_of(index).client, "scroll", fail)
        with pytest.raises(VocabtoolError, match=r"qdrant/demo: Qdrant failed: .*too many"):
            [*index.ids()]


SECRETS = ("qdrant://:s3cret@host:6333", "qdrant://:s3cret@host/a?no=1", "qdrant://k:s3cret@host/a")
NAMES = ("x.new", "x" * 101, "a\nb", "", "-a")


@pytest.mark.parametrize(
    "address",
    [
        *(*SECRETS, *(f"qdrant://:s3cret@host/{name}" for name in NAMES)),
        *(*(f"qdrant-local://folder/{name}" for name in NAMES), "qdrant://host/a?https=false"),
        *("qdrant-local:///a", "qdrant-local://folder", "qdrant-local://f/a?https=true"),
    ],
)
def test_refused_addresses(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(VocabtoolError, match=r"qdrant(-local)?://\.\.\.: wanted") as caught:
        Index.open(address)
    assert "s3cret" not in str(caught.value)
    assert [*tmp_path.iterdir()] == []


class TestServer:
    """No server is there: its calls go to the local mode, which takes them."""

    @pytest.fixture
    def opened(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
        opened, local = list[Any](), QdrantClient(path=str(tmp_path / "server"))

        def client(*given: Any, **named: Any) -> QdrantClient:
            opened.append((given, named))
            return local

        monkeypatch.setattr("vocabtool_qdrant.engine.QdrantClient", client)
        monkeypatch.setenv("QDRANT_API_KEY", "s3cret")
        return opened

    @pytest.mark.filterwarnings("ignore:Payload indexes have no effect", "ignore:Local mode")
    def test_calls(self, opened: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
        collection = "vocabtool_qdrant.collection.Collection"
        asked: list[Any] = []

        def ask(self: Any, method: str, **given: Any) -> Any:
            asked.append((method, given))
            return self.call(method, self.name, **given)

        monkeypatch.setattr(f"{collection}.ask", ask)
        index = Index.create("qdrant://host:6333/demo?https=true", dim=DIM, exact_below=5)
        (given, named) = opened[0]
        assert (given, named["api_key"]) == (("https://host:6333",), "s3cret")
        add(index, documents(range(6)), vectors(range(6)))
        fields = [given for method, given in asked if method == "create_payload_index"]
        assert {each["field_name"]: each["field_schema"] for each in fields[-2:]} == {
            **{"field_0": "float", "field_1": "bool"}
        }
        assert index.search("amber", vector=vectors([1])[0])[0].id in [*index.ids()]
        searches = [given for method, given in asked if method == "query_points"]
        assert [each["search_params"].exact for each in searches if each["using"] == "vector"] == [
            True
        ]
        local = "qdrant://127.0.0.1:6333/demo"
        assert Index.open(local).name == local
        with pytest.raises(VocabtoolError, match="no encryption for QDRANT_API_KEY"):
            Index.open("qdrant://127.0.0.1.example.org:6333/demo")
        (created,) = (given for method, given in asked if method == "create_collection")
        assert created["vectors_config"]["vector"].hnsw_config.m == 0

    def test_older(self, opened: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("vocabtool_qdrant.engine.OLDEST", (99, 0))
        closed = list[str]()
        gc.collect()  # a client of another test is closed when it is collected
        monkeypatch.setattr(QdrantClient, "close", lambda self: closed.append("closed"))
        with pytest.raises(VocabtoolError, match=r"host/a: Qdrant .*, wanted 99\.0 or later"):
            Index.open("qdrant://host/a?https=true")
        with pytest.raises(VocabtoolError, match=r"host/a: Qdrant .*, wanted 99\.0 or later"):
            Index.create("qdrant://host/a?https=true", dim=DIM)
        monkeypatch.undo()
        assert closed == ["closed"] * 2

    def test_none(self) -> None:
        with pytest.raises(VocabtoolError, match=r"qdrant://127\.0\.0\.1:9/a: Qdrant failed"):
            Index.open("qdrant://127.0.0.1:9/a")


def test_no_index(address: str, tmp_path: Path) -> None:
    """To look for one makes no folder."""
    with pytest.raises(NotFound, match="no such folder"):
        Index.open(address)
    assert [*tmp_path.iterdir()] == []
    filled(address)
    with pytest.raises(NotFound, match="no index of this name"):
        Index.open(address.replace("demo", "other"))


def test_a_folder_in_use(address: str) -> None:
    """The local mode is of one process; another one is told."""
    filled(address)
    command = [sys.executable, "-m", "vocabtool", "stats", address]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, "already accessed by another" in done.stderr) == (3, True)
    assert "Traceback" not in done.stderr
