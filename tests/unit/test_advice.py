"""Advice before anything is measured: how reads are said, what is counted and predicted, what is refused."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab import advise
from hyperslab.advising import reads as reading
from hyperslab.advising.candidates import Candidate, expected_touched, requests
from hyperslab.advising.choice import Asked, choose
from hyperslab.advising.model import Array
from hyperslab.advising.probe import Storage, coded, samples
from hyperslab.advising.readahead import PAGE, traffic
from hyperslab.data.selections import Box
from hyperslab.formats.hdf5.prediction import predict
from hyperslab.formats.hdf5.settings import BASIC
from hyperslab.layouts.chunks import touched_per_axis
from hyperslab.planning.planned_study import PlannedStudy

AXES, SHAPE = ["x", "y", "z"], [20, 30, 400]
DISK = Storage(
    latency_s=100e-6, waited_s=1e-9, ahead_s=0.5e-9, cached_s=0.1e-9, lookup_s=5e-6, open_s=5e-4,
    read_ahead_bytes=2**17, steal_s=0.0, pressure_io_s=0.0,
)  # fmt: skip


def test_a_line_says_several_reads_with_their_weights() -> None:
    found = reading.parse(
        "image: [all, all, 1]; 3 x spectrum: {x: 1, y: 1}; 0.5 x box: [2, 3, 4]", AXES, SHAPE
    )
    assert [(one.name, one.extent, one.weight) for one in found] == [
        ("image", (20, 30, 1), None),
        ("spectrum", (1, 1, 400), 3.0),
        ("box", (2, 3, 4), 0.5),
    ]
    assert reading.shares(found) == {"image": 1.0, "spectrum": 3.0, "box": 0.5}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("image", "should be a name and a box"),
        ("image: [all, 1]", "an extent or `all` for each axis of the array: x 20, y 30, z 400"),
        ("image: {w: 1}", "no axis 'w'"),
        ("image: [all, all, 401]", "401 elements along z are more than the axis has, 400"),
        ("image: [all, all, 0]", "0 along z should be a whole number from 1 on"),
        ("image: [all, all, true]", "True along z should be"),
        ("a: [1, 1, 1]; a: [2, 2, 2]", "'a' is read twice"),
        ("0 x a: [1, 1, 1]", "every read happens 0 times"),
        (" ; ", "no read is named"),
        ("a: [1, 1", "is no list"),
        ("a/b: [1, 1, 1]", "the name of read 'a/b'"),
    ],
)
def test_reads_that_cannot_be_meant_are_refused_in_one_line(text: str, words: str) -> None:
    with pytest.raises(reading.ReadMistake) as error:
        reading.parse(text, AXES, SHAPE)
    assert words in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("shape", [[50], [7, 9], [1, 7, 9], [20, 30, 400], [4, 5, 6, 7]])
def test_the_usual_reads_fit_the_array_and_differ(shape: list[int]) -> None:
    found = reading.usual([f"a{at}" for at in range(len(shape))], shape)
    assert len({one.extent for one in found}) == len(found) == len({one.name for one in found})
    assert all(1 <= one <= size for read in found for one, size in zip(read.extent, shape, strict=True))


@given(st.data())
def test_the_expected_chunks_are_the_mean_over_all_places(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 40))
    extent, chunk = data.draw(st.integers(1, size)), data.draw(st.integers(1, size))
    places = range(size - extent + 1)
    counted = [len(touched_per_axis([place], [extent], [chunk])[0]) for place in places]
    found = expected_touched(np.array([[chunk]]), [size], [extent])
    assert found[0, 0] == pytest.approx(sum(counted) / len(places))


@pytest.mark.parametrize("chunks", [None, (4, 5, 50), (20, 30, 1), (1, 1, 400), (3, 7, 33)])
@pytest.mark.parametrize("box", [((0, 0, 7), (20, 30, 1)), ((3, 4, 0), (1, 1, 400)), ((2, 2, 2), (9, 9, 99))])
def test_as_many_bytes_are_asked_for_as_hdf5_asks_for(chunks: Any, box: Any) -> None:
    itemsize = 2
    layout = {
        "chunks": list(chunks) if chunks else None,
        "filters": [],
        "settings": dict.fromkeys(BASIC, "default"),
    }
    spec: Any = {"dataset": {"shape": SHAPE, "dtype": "uint16"}, "layout": layout}
    stored = math.prod(chunks or ()) * itemsize
    asked = list(requests(Candidate(chunks), SHAPE, itemsize, stored, *box))
    known = predict(Box(*box), [0, 1, 2], spec, {})["requested"]
    assert sum(length for _, length in asked) == known
    assert all(offset >= 0 for offset, _ in asked)


def test_small_reads_far_apart_bring_in_themselves_alone() -> None:
    far = [(number * 2**20, 100) for number in (9, 3, 7, 1, 5)]
    found = traffic(far, 10 * 2**20, 2**17)
    assert (found.misses, found.waited_bytes, found.ahead_bytes) == (5, 5 * PAGE, 0)


def test_reading_on_and_on_is_read_ahead() -> None:
    size, step = 8 * 2**20, 2**14
    found = traffic(((at, step) for at in range(0, size, step)), size, 2**17)
    assert found.waited_bytes + found.ahead_bytes == size
    # Only the first reads wait.
    assert found.misses < 4 and found.ahead_bytes > 0.95 * size


@given(
    st.lists(st.tuples(st.integers(0, 2**20 - 1), st.integers(1, 2**16)), max_size=60),
    st.sampled_from([0, 2**17]),
)
def test_nothing_is_read_twice_and_all_that_is_asked_for_once(
    asked: list[tuple[int, int]], limit: int
) -> None:
    size = 2**20
    found = traffic(asked, size, limit)
    pages = {
        page for at, length in asked for page in range(at // PAGE, min(at + length - 1, size - 1) // PAGE + 1)
    }
    assert PAGE * len(pages) <= found.waited_bytes + found.ahead_bytes <= size
    assert found.misses <= len(asked) + len(pages)


def counts() -> Any:
    return np.random.default_rng(0).poisson(1.0, SHAPE).astype("uint16")


def test_filters_are_tried_on_chunks_of_the_data_itself() -> None:
    from hyperslab.advising.candidates import filter_chains

    values = counts()
    blocks = samples(values, (4, 5, 50))
    assert all(block.shape == (4, 5, 50) for block in blocks)
    plain, *packed = [coded(blocks, chain) for chain in filter_chains("builtin", 2)]
    assert (plain.ratio, plain.decode_s) == (1.0, 0.0)
    assert all(0.05 < one.ratio < 0.7 and one.decode_s > 0 for one in packed)


def chosen(text: str, storage: Storage = DISK, most: float = 1.15) -> Any:
    reads = reading.parse(text, AXES, SHAPE)
    raw = math.prod(SHAPE) * 2
    asked = Asked(Array(tuple(SHAPE), 2), reads, "builtin", most * raw, 3.0)
    return choose(asked, counts(), storage, Candidate((1, 1, 400)), 5, lambda text: None)


def test_what_is_measured_is_todays_contiguous_and_different_others() -> None:
    found = chosen("image: [all, all, 1]; spectrum: [1, 1, all]")
    candidates = [one.candidate for one in found.measured]
    assert candidates[:2] == [Candidate(None), Candidate((1, 1, 400))]
    assert len(set(candidates)) == len(candidates) == 7
    assert len({one.candidate.filters for one in found.measured}) > 1
    assert found.considered > 1000


def test_layouts_follow_what_is_read_and_the_storage() -> None:
    images, spectra = chosen("9 x image: [all, all, 1]"), chosen("9 x spectrum: [1, 1, all]")
    image, spectrum = (found.predicted[0].candidate.chunks for found in (images, spectra))
    assert image is not None and image[0] * image[1] > image[2]
    assert spectrum is None or spectrum[2] > spectrum[0] * spectrum[1]


def test_a_size_bound_holds() -> None:
    found = chosen("image: [all, all, 1]; spectrum: [1, 1, all]", most=0.5)
    assert found.predicted[0].file_bytes <= 0.5 * math.prod(SHAPE) * 2
    assert found.predicted[0].candidate.filters


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a file of two arrays, a site, and room for studies."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config" / "studies").mkdir(parents=True)
    (tmp_path / "config" / "sites.yaml").write_text(
        f"file_systems:\n  disk: {{root: {tmp_path}/testfiles}}\nsites:\n"
        "  disk: {platform: local, file_system: disk}\n"
    )
    with h5py.File("mine.h5", "w") as file:
        file.create_dataset("counts", data=counts(), chunks=(1, 1, 400), compression="gzip")
        file["other"] = np.zeros((3, 4))
        file["words"] = "no numbers"
    return tmp_path


def test_the_command_writes_a_study_that_loads_and_what_it_was_chosen_by(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    advise.main(["mine.h5::/counts", "--reads", "2 x image: [all, all, 1]; spectrum: {x: 1, y: 1}"])
    assert capsys.readouterr().out == "advice-mine\n"
    study = PlannedStudy(here / "config" / "studies" / "advice-mine.yaml")
    assert list(study.layouts)[:2] == ["contiguous", "as-it-is"] and len(study.layouts) == 7
    assert study.layouts["as-it-is"]["chunks"] == [1, 1, 400]
    assert study.layouts["as-it-is"]["filters"] == [{"name": "gzip", "level": 4}]
    assert study.cases["spectrum"]["extent"] == [1, 1, 400]
    assert study.study.recommendation.mix == {"image": 2.0, "spectrum": 1.0}
    prediction = json.loads((here / "results" / "advice-mine" / "prediction.json").read_text())
    assert prediction["today"] == "as-it-is" and not prediction["guessed"]
    assert {one["layout"] for one in prediction["measured"]} == set(study.layouts)
    # A second time it is written anew.
    advise.main(["mine.h5::/counts"])
    assert json.loads((here / "results" / "advice-mine" / "prediction.json").read_text())["guessed"]


def test_todays_layout_is_not_measured_a_second_time_under_another_name(here: Path) -> None:
    # One small chunk layout is the best for its only read, and today's at once.
    found = chosen("9 x spectrum: [1, 1, all]")
    best = next(one.candidate for one in found.predicted if one.candidate.chunks)
    reads = reading.parse("9 x spectrum: [1, 1, all]", AXES, SHAPE)
    asked = Asked(Array(tuple(SHAPE), 2), reads, "builtin", 1.15 * math.prod(SHAPE) * 2, 3.0)
    today = advise._Named(best.chunks, best.filters)
    again = choose(asked, counts(), DISK, today, 5, lambda text: None)
    stored = [(one.candidate.chunks, one.candidate.filters) for one in again.measured]
    assert len(set(stored)) == len(stored) == 7 and again.measured[1].candidate.name == "as-it-is"


def test_what_is_no_hdf5_has_no_layout_of_today_and_many_reads_measure_fewer(here: Path) -> None:
    np.save("mine.npy", counts())
    advise.main(["mine.npy"])
    prediction = json.loads((here / "results" / "advice-mine" / "prediction.json").read_text())
    assert prediction["today"] is None and len(prediction["reads"]) > 3
    assert len(prediction["measured"]) == 4


def files(directory: Path) -> set[Path]:
    return {path for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["mine.h5"], "make advise FILE=mine.h5::/counts"),
        (["mine.h5::/nothing"], "no dataset '/nothing'"),
        (["mine.h5::/words"], "not numbers"),
        (["none.h5"], "there is no such file"),
        (["mine.h5::/counts", "--reads", "image: [1]"], "for each axis"),
        (["mine.h5::/counts", "--site", "moon"], "no site 'moon'"),
        (["mine.h5::/counts", "--name", "a/b"], "the name of a study"),
    ],
)
def test_what_cannot_be_advised_on_is_said_before_anything_is_written(
    here: Path, arguments: list[str], words: str
) -> None:
    before = files(here)
    with pytest.raises(SystemExit) as error:
        advise.main(arguments)
    assert str(error.value).startswith("hyperslab.advise: ") and words in str(error.value)
    assert files(here) == before


def test_a_size_bound_that_nothing_meets_is_refused(here: Path) -> None:
    with pytest.raises(SystemExit, match="raise SIZE_BOUND"):
        advise.main(["mine.h5::/counts", "--size-bound", "0.001"])
    assert not list((here / "config" / "studies").iterdir()) and not (here / "results").exists()


def test_a_study_of_the_users_own_is_never_written_over(here: Path) -> None:
    own = here / "config" / "studies" / "advice-mine.yaml"
    own.write_text("title: mine\n")
    with pytest.raises(SystemExit, match="is there already and yours"):
        advise.main(["mine.h5::/counts"])
    assert own.read_text() == "title: mine\n"


def test_candidates_have_names_and_layouts_that_a_study_can_say() -> None:
    from hyperslab.advising.candidates import filter_chains

    chains = list(itertools.chain(filter_chains("builtin", 2), filter_chains("any", 2)))
    names = {Candidate((4, 5, 6), chain).name for chain in chains}
    assert len(names) == len(set(chains)) and "4x5x6-shuffle-gzip4" in names and "4x5x6" in names
    assert Candidate((4, 5, 6), chains[1]).layout() == {
        "chunks": [4, 5, 6],
        "filters": ["shuffle", {"gzip": {"level": 1}}],
    }
