"""The weight of the keyword leg: by judgements, or by queries made of the index's documents."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.builders.judged_collection import printed_json, write_judgements
from vocabtool import Index, calibrate, errors

Output = pytest.CaptureFixture[bytes]


def test_an_estimate_repeats_with_its_seed(index: Index, capsysbinary: Output) -> None:
    """To the last bit, the mean of the nearly best; a search takes it, but of no dry run."""
    found = calibrate(index, sample=12)
    assert found is not None and found == calibrate(index, sample=12)
    other = calibrate(index, sample=12, seed=1)
    assert other is not None and other.curve != found.curve
    assert [*found.curve] == [step / 20 for step in range(21)]
    lowest = min(found.curve.values())
    nearly_best = [a for a, loss in found.curve.items() if loss <= lowest + 0.02]
    assert found.a == pytest.approx(sum(nearly_best) / len(nearly_best))
    assert (found.sample, found.seed) == (12, 0)
    (note,) = found.notes
    assert note.startswith("an estimate")
    assert [(each.kind, each.fusion) for each in found.rates] == [
        ("title", "dense"), ("title", "keyword"), ("hard", "dense"), ("hard", "keyword"),
    ]  # fmt: skip
    assert all(0 <= each.first <= each.first_ten <= 1 for each in found.rates)
    kept = found.calibration
    assert (kept.a, kept.judged, kept.sample, kept.seed) == (found.a, 0, 12, 0)
    command = ("calibrate", index.path, "--sample", 12)
    dry = printed_json(capsysbinary, *command, "--dry-run")
    assert (len(dry["rates"]), dry["curve"]["0.15"]) == (4, found.curve[0.15])
    assert Index.open(index.path).calibration is None
    assert printed_json(capsysbinary, *command) == dry
    opened = Index.open(index.path)
    assert opened.search("bak").query.a == dry["a"]
    opened.store_calibration(None)


def numbers(folder: Path, texts: Sequence[str], encoded: list[str]) -> Index:
    """An index whose vectors count letters, and note what is encoded."""

    def letters(given: Sequence[str]) -> NDArray[np.float32]:
        encoded.extend(given)
        return np.array([[text.count(each) + 1 for each in "abde"] for text in given], np.float32)

    index = Index.create(folder / "index", letters, fingerprint="letters")
    with index.writer() as writer:
        writer.add(texts)
    encoded.clear()
    return index


def test_what_tells_nothing_is_no_estimate(
    own: Index, index: Index, tmp_path: Path, capsysbinary: Output
) -> None:
    """Short texts tell nothing, small samples are errors; all is encoded once, not for a weight."""
    assert calibrate(numbers(tmp_path, ["short text"] * 50, [])) is None
    with pytest.raises(ValueError, match="sample must be at least 10 documents, got 9"):
        calibrate(index, sample=9)
    with pytest.raises(errors.VocabtoolError, match=r"no encoder.*judged queries"):
        calibrate(own)
    (tmp_path / "queries").write_text("a b")
    with pytest.raises(Exception, match="--queries needs relevance judgements: pass --qrels"):
        printed_json(capsysbinary, "calibrate", index.path, "--queries", tmp_path / "queries")
    words, encoded = [f"w{number}" for number in range(40)], list[str]()
    texts = [
        ". ".join(" ".join(words[at % 37 : at % 37 + 6]) for at in range(n, n + 3))
        for n in range(30)
    ]
    assert calibrate(numbers(tmp_path / "once", texts, encoded), sample=12) is not None
    assert len(encoded) == 4 * 12


def test_judged_queries_choose_the_weight_that_finds_most(
    index: Index, tmp_path: Path, capsysbinary: Output
) -> None:
    """As searches with each weight find it."""
    import ir_measures
    from ir_measures import nDCG

    queries, qrels = write_judgements(tmp_path)
    judged = ("--queries", tmp_path / "queries", "--qrels", tmp_path / "qrels")
    tuned = printed_json(capsysbinary, "calibrate", index.path, *judged, "--dry-run")
    assert tuned == printed_json(capsysbinary, "calibrate", index.path, *judged, "--dry-run")
    curve = {float(a): gain for a, gain in tuned["curve"].items()}
    chosen = [name for name in queries if max(qrels.get(name, {"": 0}).values()) > 0]
    for a in (0.0, 0.35, tuned["a"], 1.0):
        run = {}
        for name in chosen:
            hits = index.search(queries[name], a=a)
            run[name] = {hit.id: float(-rank) for rank, hit in enumerate(hits)}
        part = {name: qrels[name] for name in chosen}
        wanted = ir_measures.calc_aggregate([nDCG @ 10], part, run)
        assert curve[a] == pytest.approx(wanted[nDCG @ 10])
    assert curve[tuned["a"]] == pytest.approx(max(curve.values()))
    assert tuned["fixed"] == curve[0.5]
    assert tuned["held_out"] <= max(curve.values()) + 1e-12
    assert (tuned["queries"], tuned["a"]) == (38, pytest.approx(tuned["a"]))


def test_tuning_wants_ten_judged_queries_and_vectors(
    own: Index, tmp_path: Path, capsysbinary: Output
) -> None:
    """Too few, and no vector at all; with vectors it is kept."""
    write_judgements(tmp_path)

    def tuned(*more: object) -> Any:
        judged = ("--queries", tmp_path / "queries", "--qrels", tmp_path / "qrels")
        return printed_json(capsysbinary, "calibrate", own.path, *judged, *more)

    with pytest.raises(errors.VocabtoolError, match="pass the vectors"):
        tuned()
    np.save(tmp_path / "v.npy", np.random.default_rng(0).normal(size=(40, 2)))
    found = tuned("--vectors", tmp_path / "v.npy")
    kept = Index.open(own.path).calibration
    assert kept is not None
    assert (kept.a, kept.judged) == (found["a"], 38)
    lines = (tmp_path / "queries").read_text().splitlines()
    (tmp_path / "queries").write_text("\n".join(lines[10:19]))
    with pytest.raises(errors.VocabtoolError, match=r"10 queries .* got 9"):
        tuned()
    with pytest.raises(Exception, match="--vectors needs relevance judgements"):
        printed_json(capsysbinary, "calibrate", own.path, "--vectors", tmp_path / "v.npy")
