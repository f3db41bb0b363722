"""Advice before anything is measured: how reads are said, what is counted and predicted, what is refused."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import shutil
import subprocess
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest
from h5py import h5d, h5s
from hypothesis import given
from hypothesis import strategies as st
from rich_files import long_float
from test_donors import write_imzml

import replayed_packs
from hyperslab import advise
from hyperslab.advising import (
    at_sites,
    budget,
    choice,
    coding,
    foretold,
    model,
    probe,
    prospect,
    readahead,
    study_text,
    subject,
)
from hyperslab.advising import reads as reading
from hyperslab.advising.candidates import HDF5, Candidate, chunk_shapes, expected_touched, filter_chains
from hyperslab.advising.choice import Asked, choose
from hyperslab.advising.coding import (
    MOST_SAMPLED_BYTES,
    TRIED_BYTES,
    Chain,
    blocks_of,
    chain_of,
    coded,
    samples,
)
from hyperslab.advising.copies import TwoCopies
from hyperslab.advising.found import arrays, look
from hyperslab.advising.model import Array
from hyperslab.advising.prices import Coded, Counts, Storage, seconds, terms
from hyperslab.advising.probe import Probe
from hyperslab.advising.readahead import PAGE, traffic
from hyperslab.advising.requests import selection
from hyperslab.data.selections import Box, asked_boxes
from hyperslab.formats.donor_files import read_box
from hyperslab.formats.donor_opening import open_donor
from hyperslab.formats.hdf5 import filter_setters
from hyperslab.formats.hdf5.description import NO_VARIABLE
from hyperslab.formats.hdf5.filter_setters import of_plugins
from hyperslab.formats.hdf5.prediction import predict
from hyperslab.formats.hdf5.settings import BASIC
from hyperslab.layouts.chunks import touched_per_axis
from hyperslab.layouts.hdf5_filters import FILTERS
from hyperslab.measuring.machine import largest_memory_bytes
from hyperslab.planning.planned_study import PlannedStudy
from hyperslab.studies.advice_schema import Advise
from hyperslab.studies.specification import cell_specification
from hyperslab.validation.errors import ConfigurationError

AXES, SHAPE = ["x", "y", "z"], [20, 30, 400]
DISK = Storage(
    latency_s=100e-6, waited_s=1e-9, ahead_s=0.5e-9, cached_s=0.1e-9, lookup_s=5e-6, open_s=5e-4,
    read_ahead_bytes=2**17,
)  # fmt: skip


FREE = Coded(1.0, 0.0)
PROBE = Probe(replace(DISK, write_s=1e-9), 0.0, {"cpu": 0.0, "memory": None, "io": 0.1}, 1000.0, 8 * 10**9)


@pytest.fixture(autouse=True, scope="module")
def filters_are_tried_once_on_the_same_chunks() -> Iterator[None]:
    """To try them takes longer than all else, and most tests have chunks of the same array."""
    known: dict[Any, Coded] = {}

    def once(blocks: Sequence[Any], filters: Any) -> Coded:
        key = (filters, *((one.shape, one.dtype.str, zlib.crc32(one)) for one in blocks))
        if key not in known:
            known[key] = coded(blocks, filters)
        return known[key]

    with pytest.MonkeyPatch.context() as patched:
        for module in (coding, choice, prospect):
            patched.setattr(module, "coded", once)
        yield


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
        ("image: {x: 1, x: 2}", "image: x is given twice"),
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


def test_the_usual_reads_of_axes_with_long_names_have_names_that_can_be_said() -> None:
    axes = [letter * 60 for letter in "abc"]
    found = reading.usual(axes, SHAPE)
    assert [one.name for one in found] == [
        *(f"along-{axis}" for axis in axes), "plane-0-1", "plane-0-2", "plane-1-2", "small-box",
    ]  # fmt: skip
    assert [one.extent for one in reading.parse(reading.line(found, SHAPE), axes, SHAPE)] == [
        one.extent for one in found
    ]


def test_the_usual_reads_of_a_scan_have_its_plane_and_an_image_at_one_place() -> None:
    found = {one.extent for one in reading.usual(list("abcd"), [48, 48, 192, 192])}
    assert {(48, 48, 1, 1), (1, 1, 192, 192)} <= found


@given(st.data())
def test_the_expected_chunks_are_the_mean_over_all_places(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 40))
    extent, chunk = data.draw(st.integers(1, size)), data.draw(st.integers(1, size))
    places = range(size - extent + 1)
    counted = [len(touched_per_axis([place], [extent], [chunk])[0]) for place in places]
    found = expected_touched(np.array([[chunk]]), [size], [extent])
    assert found[0, 0] == pytest.approx(sum(counted) / len(places))


def test_of_a_very_long_axis_the_expected_chunks_are_what_arithmetic_says() -> None:
    # Half the square of the number of chunks is beyond 64 bits.
    found = expected_touched(np.array([[4096]]), [10**14], [5 * 10**12])
    assert found[0, 0] == pytest.approx(1 + (5 * 10**12 - 1) / 4096, rel=1e-3)


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
    asked = selection(Candidate(chunks), SHAPE, itemsize, stored, *box).requests
    known = predict(Box(*box), [0, 1, 2], spec, None)["requested"]
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


def test_a_file_of_any_size_is_followed_alike_and_takes_no_memory_where_nothing_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = [(at * 70_001 % (8 * 2**20), 9_000) for at in range(300)]
    small = traffic(asked, 8 * 2**20, 2**17)
    monkeypatch.setattr(readahead, "MANY_PAGES", 0)
    assert traffic(asked, 8 * 2**20, 2**17) == small
    # A petabyte has more pages than a machine has bytes of memory, of which none may be set aside.
    # From here on the most memory is counted anew.
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = largest_memory_bytes()
    assert traffic([(2**49, 4096), (2**40, 4096)], 2**50, 2**17).misses == 2
    assert largest_memory_bytes() - before < 2**28


def test_of_pages_beyond_counting_none_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "traffic", None)
    array, box = Array((10**6, 10**4, 10**4), 1), Box((0, 0, 0), (10**5, 10**4, 10**4))
    for candidate in (Candidate(None), Candidate((1000, 1000, 1000))):
        found = model.of_box(candidate, array, box, DISK, Coded(1.0, 0.0))
        assert found.waited_bytes + found.ahead_bytes == found.requested_bytes == 10**13


def test_very_many_pieces_of_chunks_that_pass_the_cache_are_told_about_as_those_that_are_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A few elements of each chunk of 16 MiB, of which no more than these is read.
    candidate, array = Candidate((1, 4096, 4096)), Array((64, 4096, 4096), 1)
    box, free = Box((0, 100, 100), (64, 4, 4)), Coded(1.0, 0.0)
    listed = model.of_box(candidate, array, box, DISK, free)
    monkeypatch.setattr(model, "MOST_LISTED", 100)
    told = model.of_box(candidate, array, box, DISK, free)
    assert (told.reads, told.chunks, told.requested_bytes) == (listed.reads, 64, 64 * 4 * 4)
    assert 0.2 < seconds(told, DISK, free) / seconds(listed, DISK, free) < 5


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


@cache
def counts() -> Any:
    return np.random.default_rng(0).poisson(1.0, SHAPE).astype("uint16")


class InMemory:
    """Values of an array in memory, as test files are filled with."""

    def __init__(self, array: Any) -> None:
        self.shape, self.dtype, self._array = array.shape, array.dtype, array

    def block(self, origin: Any, extent: Any) -> Any:
        return self._array[tuple(slice(o, o + e) for o, e in zip(origin, extent, strict=True))]


def test_filters_are_tried_on_chunks_of_the_data_itself() -> None:
    blocks = samples(InMemory(counts()), (4, 5, 50))
    assert all(block.shape == (4, 5, 50) for block in blocks)
    plain, *packed = [coded(blocks, chain) for chain in filter_chains("builtin", 2)]
    assert (plain.ratio, plain.decode_s) == (1.0, 0.0)
    assert all(0.05 < one.ratio < 0.7 and one.decode_s > 0 for one in packed)


def test_of_a_huge_chunk_a_part_is_sampled() -> None:
    values = InMemory(np.zeros((2, 9_000, 1_000), "int16"))
    taken = samples(values, [2, 9_000, 1_000], count=2)
    assert all(MOST_SAMPLED_BYTES / 2.5 <= one.nbytes <= MOST_SAMPLED_BYTES for one in taken)
    assert [one.shape for one in samples(values, [1, 90, 1_000], count=2)] == [(1, 90, 1_000)] * 2


def test_filters_are_tried_on_chunks_as_small_as_they_should_be_where_an_axis_is_short() -> None:
    """An axis of one element takes no share of a chunk's size; the others have it."""
    tried = blocks_of(InMemory(np.zeros((1, 2_048, 2_048), "float32")))
    for some, wanted in zip(tried, TRIED_BYTES, strict=True):
        assert all(wanted / 2.5 <= block.nbytes <= wanted for block in some)


def test_a_chain_of_filters_is_tried_on_chunks_of_several_sizes() -> None:
    tried = chain_of(blocks_of(InMemory(counts())), filter_chains("builtin", 2)[1])
    assert list(tried.sizes) == sorted(tried.sizes) and len(tried.sizes) >= 3
    # Between two that were tried, and of many at once as of each.
    middle = tried.of(round(math.sqrt(tried.sizes[0] * tried.sizes[1])))
    ratios = sorted(one.ratio for one in tried.codes[:2])
    assert ratios[0] <= middle.ratio <= ratios[1]
    many = tried.at(np.array(tried.sizes, float))
    assert np.allclose(many.ratio, [one.ratio for one in tried.codes])
    assert np.allclose(many.decode_s, [one.decode_s for one in tried.codes])


def chosen(text: str, storage: Storage = DISK, most: float = 1.15, **more: Any) -> Any:
    reads = reading.parse(text, AXES, SHAPE)
    raw = math.prod(SHAPE) * 2
    asked = Asked(Array(tuple(SHAPE), 2), reads, "builtin", most * raw, 3.0, **more)
    return choose(asked, InMemory(counts()), storage, Candidate((1, 1, 400)), 5, lambda text: None)


@cache
def of_all(text: str) -> Any:
    """What is chosen among as many as for a user, which takes seconds."""
    return chosen(text)


def test_what_is_measured_is_todays_contiguous_and_different_others() -> None:
    found = of_all("image: [all, all, 1]; spectrum: [1, 1, all]")
    candidates = [one.candidate for one in found.measured]
    assert candidates[:2] == [Candidate(None), Candidate((1, 1, 400))]
    assert len(set(candidates)) == len(candidates) == 7
    assert len({one.candidate.filters for one in found.measured}) > 1
    assert found.considered > 1000


def test_layouts_follow_what_is_read_and_the_storage() -> None:
    images, spectra = of_all("9 x image: [all, all, 1]"), of_all("9 x spectrum: [1, 1, all]")
    image, spectrum = (found.predicted[0].candidate.chunks for found in (images, spectra))
    assert image is not None and image[0] * image[1] > image[2]
    assert spectrum is None or spectrum[2] > spectrum[0] * spectrum[1]


def test_a_read_that_takes_no_time_in_any_layout_costs_none_that_serves_the_others() -> None:
    shape = [48, 48, 192, 192]
    reads = reading.parse("pattern: [1, 1, all, all]; detector: [all, all, 20, 20]", list("abcd"), shape)
    asked = Asked(Array(tuple(shape), 2), reads, "builtin", 1e9)
    shapes = chunk_shapes(asked.array.shape, 2, [read.extent for read in reads], ())
    filters, code = filter_chains("builtin", 2)[1], Coded(0.06, 1e-9)
    tried = Chain((2**12, 2**20), (code, code))

    def slowest(candidate: Candidate) -> float:
        times: Mapping[str, float] = model.predict(candidate, asked.array, reads, DISK, code).times
        return max(times.values())

    # A pattern takes a few milliseconds in most of them, so that what a detector takes decides.
    kept = choice._sieve(asked, shapes, HDF5, filters, tried, DISK)
    best = min(slowest(one) for one in itertools.islice(kept, choice.SIMULATED))
    assert best < 1.05 * slowest(Candidate((12, 12, 10, 20), filters))


def test_a_size_bound_holds() -> None:
    found = chosen("image: [all, all, 1]; spectrum: [1, 1, all]", most=0.5)
    assert found.predicted[0].file_bytes <= 0.5 * math.prod(SHAPE) * 2
    assert found.predicted[0].candidate.filters


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of two arrays, and of what is none."""
    path = tmp_path_factory.mktemp("filled") / "mine.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("counts", data=counts(), chunks=(1, 1, 400), compression="gzip")
        file["other"] = np.zeros((3, 4))
        file["words"] = "no numbers"
        file["rows"] = np.zeros(5, [("a", "i4"), ("b", "f8")])
        file["scalar"] = 1.0
    return path


@pytest.fixture
def here(tmp_path: Path, filled: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a file of two arrays, a site, and room for studies."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config" / "studies").mkdir(parents=True)
    (tmp_path / "config" / "sites.yaml").write_text(
        f"file_systems:\n  disk: {{root: {tmp_path}/testfiles}}\nsites:\n"
        "  disk: {platform: local, file_system: disk}\n  cluster: {platform: nodes, file_system: disk}\n"
        "platforms: {nodes: {executor: slurm}}\n"
    )
    monkeypatch.setattr(at_sites, "probed", lambda site, zarr, file=None, sites=None: PROBE)
    # What is written of a choice, and where, is the same however many candidates were simulated for it, by
    # however many of their requests.
    monkeypatch.setattr(choice, "SIMULATED", 6)
    monkeypatch.setattr(choice, "OF_A_READ", 1)
    monkeypatch.setattr(model, "BOXES", 1)
    monkeypatch.setattr(model, "MOST_LISTED", 100)
    shutil.copy(filled, "mine.h5")
    with h5py.File("empty.h5", "w") as file:
        file["words"] = "no numbers"
    return tmp_path


PROBED = at_sites.probed
# One read is predicted sooner than those that are guessed.
IMAGE = ["--reads", "image: [all, all, 1]"]


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
    assert prediction["own_chunks"] == [1, 1, 400] and not prediction["shorter_chunks"]
    (site,) = prediction["sites"].values()
    assert {one["layout"] for one in site["measured"]} == set(study.layouts)
    # Of every round that there may be it is said what its boxes were predicted to take.
    for one in site["measured"]:
        assert set(one["boxes"]) == {"image", "spectrum"}
        assert all(len(each) == study.study.most_rounds and min(each) > 0 for each in one["boxes"].values())
    assert {"shuffle-gzip4", "shuffle-zstd3"} <= {one["filters"] for one in site["filters"]}
    assert len({one["chunk_bytes"] for one in site["filters"]}) > 1
    assert all(one["ratio"] > 0 and one["decode_s"] > 0 for one in site["filters"])
    # A second time it is written anew, but for what the user had rewritten.
    rewritten = here / "results" / "advice-mine" / "layout" / "recommended.h5"
    rewritten.parent.mkdir()
    rewritten.write_bytes(b"hours of work")
    advise.main(["mine.h5::/counts"])
    assert rewritten.read_bytes() == b"hours of work"
    assert [path.name for path in (here / "results").iterdir()] == ["advice-mine"]
    assert json.loads((here / "results" / "advice-mine" / "prediction.json").read_text())["guessed"]


def test_boxes_are_simulated_for_as_long_as_there_is_time_and_as_many_of_each_cell(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulated: list[tuple[Candidate, Box]] = []

    def counted(candidate: Candidate, array: Array, box: Box, *more: Any) -> Counts:
        simulated.append((candidate, box))
        return model.of_box(candidate, array, box, *more)

    def told(step: float, took: float = 0.0) -> Any:
        simulated.clear()

        def choosing(question: Asked, *given: Any) -> choice.Choice:
            found = choose(question, *given)
            # Samples of the best take half as much again, at most.
            assert 1.5 * question.seconds < budget.PREDICTING_SHARE * budget.USUAL_S and found.took_s > 0
            return replace(found, took_s=took)

        monkeypatch.setattr(prospect, "choose", choosing)
        clock = itertools.count(0.0, step)
        monkeypatch.setattr(foretold, "monotonic", lambda: next(clock))
        advise.main(["mine.h5::/counts", *IMAGE])
        prediction = json.loads((here / "results" / "advice-mine" / "prediction.json").read_text())
        return prediction["sites"]["disk"]

    monkeypatch.setattr(foretold, "of_box", counted)
    every = told(0.0)
    drawn, count = every["drawn"]
    assert drawn == count > 1 and len(simulated) > len(every["measured"]) * count
    # They have what choosing candidates has left of the time to predict in.
    assert told(0.0, took=1e6)["drawn"] == [1, count]
    few = told(1e6)
    assert few["drawn"][0] == 1 < few["drawn"][1]
    study = PlannedStudy(here / "config" / "studies" / "advice-mine.yaml")
    assert len(simulated) <= len(few["measured"]) * study.study.most_rounds
    contiguous = next(one for one in few["measured"] if one["layout"] == "contiguous")
    spec = cell_specification(study, "contiguous", "image", "r1")
    asked_for = model.of_box(
        Candidate(None), Array(tuple(SHAPE), 2), next(asked_boxes(spec, "cold")), PROBE.storage, FREE
    )
    assert contiguous["boxes"]["image"][1] == pytest.approx(seconds(asked_for, PROBE.storage, FREE))


def test_todays_layout_is_not_measured_a_second_time_under_another_name(here: Path) -> None:
    # One small chunk layout is the best for its only read, and today's at once.
    found = chosen("9 x spectrum: [1, 1, all]")
    best = next(one.candidate for one in found.predicted if one.candidate.chunks)
    reads = reading.parse("9 x spectrum: [1, 1, all]", AXES, SHAPE)
    asked = Asked(Array(tuple(SHAPE), 2), reads, "builtin", 1.15 * math.prod(SHAPE) * 2, 3.0)
    today = subject.Named(best.chunks, best.filters)
    again = choose(asked, InMemory(counts()), DISK, today, 5, lambda text: None)
    stored = [(one.candidate.chunks, one.candidate.filters) for one in again.measured]
    assert len(set(stored)) == len(stored) == 7 and again.measured[1].candidate.name == "as-it-is"


def test_what_is_no_hdf5_has_no_layout_of_today_(here: Path) -> None:
    np.save("mine.npy", counts())
    advise.main(["mine.npy"])
    prediction = json.loads((here / "results" / "advice-mine" / "prediction.json").read_text())
    assert prediction["today"] is None and len(prediction["reads"]) > 3
    assert prediction["unknown_layout"] == "the file is not HDF5"
    (site,) = prediction["sites"].values()
    assert [one["layout"] for one in site["measured"]][0] == "contiguous" and len(site["measured"]) > 2
    assert look(Path(write_imzml(here)["path"]), None).unknown == "the file is not HDF5"


def files(directory: Path) -> set[Path]:
    return {path for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["mine.h5", *IMAGE], 'make advise FILE=mine.h5::/counts READS="along-x: [all, 1, 1]; '),
        (["empty.h5"], "empty.h5: holds no array of integers or floats"),
        (["mine.h5::/nothing"], "no dataset '/nothing'"),
        (["mine.h5::/words"], "not integers or floats"),
        (["mine.h5::/rows"], "not integers or floats"),
        (["mine.h5::/scalar"], "has no axis to be read along"),
        (["mine.h5::/counts", "--sites", "config/none.yaml"], "none.yaml"),
        (["none.h5"], "there is no such file"),
        (["mine.h5/counts"], "there is no such file; an array of mine.h5 is named mine.h5::/NAME"),
        (["mine.h5:/counts"], "there is no such file; an array of mine.h5 is named mine.h5::/NAME"),
        (["mine.h5:counts"], "there is no such file; an array of mine.h5 is named mine.h5::/NAME"),
        (["mine.h5::/counts", "--reads", "image: [1]"], "for each axis"),
        (["mine.h5::/counts", "--reads", "image: [1:10, all, all]"], "image: 1:10 is 70 in YAML (base 60)"),
        (["mine.h5::/counts", "--reads", "image: [010, all, all]"], "image: 010 is 8 in YAML (octal)"),
        (["mine.h5::/counts", "--reads", "image: 2020-13-45"], "image: '2020-13-45' is no list"),
        (["mine.h5::/counts", "--site", "moon"], "no site 'moon'"),
        (["mine.h5::/counts", "--site", "cluster"], "there is no srun here"),
        (["mine.h5::/counts", "--seconds", "3"], "seconds"),
        (["mine.h5::/counts", "--seconds", "0"], "seconds"),
        (["mine.h5::/counts", "--seconds", "5min"], "make advise: seconds: should be a valid number"),
        (["mine.h5::/counts", "--size-bound", "50%"], "make advise: size_bound: should be a valid number"),
        (["mine.h5::/counts", "--copies", "maybe"], "make advise: copies: should be yes or no"),
        (["mine.h5::/counts", "--size-bound", "0"], "size_bound"),
        (["mine.h5::/counts", "--seconds", "20"], "too short to measure"),
        (["mine.h5::/counts", "--formats", "tiff"], "formats"),
        (["mine.h5::/counts", "--state", "lukewarm"], "state"),
        (["mine.h5::/counts", "--name", "a/b"], "the name of a study"),
    ],
)
def test_what_cannot_be_advised_on_is_said_before_anything_is_written(
    here: Path, arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda program: None)
    before = files(here)
    with pytest.raises(SystemExit) as error:
        advise.main(arguments)
    assert str(error.value).startswith("hyperslab.advise: ") and words in str(error.value)
    assert files(here) == before


def test_help_says_what_is_taken_where_nothing_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        advise.main(["--help"])
    said = " ".join(capsys.readouterr().out.split())
    for words in ("otherwise any", "otherwise file", "otherwise cold", "otherwise 1.15", "otherwise 60 s"):
        assert words in said


def test_who_interrupts_an_advice_reads_one_line(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> Probe:
        raise KeyboardInterrupt

    monkeypatch.setattr(at_sites, "probed", interrupted)
    before = files(here)
    with pytest.raises(SystemExit, match="^hyperslab.advise: interrupted; what lay there before stays$"):
        advise.main(["mine.h5::/counts", *IMAGE])
    assert files(here) == before


def test_of_a_file_alone_the_arrays_are_listed_and_nothing_is_written(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files(here)
    advise.main(["mine.h5"])
    said, listed = capsys.readouterr()
    # What is printed would be taken for the name of a study.
    assert said == "" and 'make advise FILE=mine.h5::/counts READS="along-x: [all, 1, 1]; ' in listed
    assert files(here) == before


def test_a_site_that_cannot_be_written_is_probed_by_the_file_and_advised_on_from_prediction(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with h5py.File("long.h5", "w") as file:
        file["counts"] = np.zeros((40, 50, 2000), "uint16")
    monkeypatch.setattr(at_sites, "writable", lambda directory: False)
    monkeypatch.setattr(at_sites, "one_device", lambda file, directory: False)
    known: dict[Path, Probe] = {}

    def once(site: Mapping[str, Any], zarr: bool, file: Path) -> Probe:
        """Probe a file once: its storage takes the same whatever is considered."""
        if file not in known:
            known[file] = PROBED(site, zarr, file)
        return known[file]

    monkeypatch.setattr(at_sites, "probed", once)
    before = files(here)
    with pytest.raises(SystemExit) as error:
        advise.main(["long.h5::/counts", "--reads", "image: [all, all, 1]; spectrum: [1, 1, all]"])
    said = str(error.value)
    assert "cannot be written, so that nothing was measured; predicted from probes of" in said
    assert "which lies on another device" in said and "guessed" not in said
    assert "image in " in said and "spectrum in " in said and "\n" not in said
    asked = ["long.h5::/counts", *IMAGE, "--formats"]
    # Nothing was probed by which Zarr could be predicted.
    with pytest.raises(SystemExit, match="predicted from probes of") as error:
        advise.main([*asked, "hdf5", "zarr"])
    assert "zarr" not in str(error.value)
    with pytest.raises(SystemExit, match="hdf5 is among them"):
        advise.main([*asked, "zarr"])
    with pytest.raises(SystemExit, match="too short to probe its storage by it"):
        advise.main(["mine.h5::/counts", *IMAGE])
    assert files(here) == before


def test_of_several_sites_those_that_cannot_be_written_are_told_and_the_others_measured(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sites = here / "config" / "sites.yaml"
    text = sites.read_text().replace("file_systems:\n", f"file_systems:\n  old: {{root: {here}/old}}\n")
    sites.write_text(text.replace("\nsites:\n", "\nsites:\n  old: {platform: local, file_system: old}\n"))
    monkeypatch.setattr(at_sites, "writable", lambda directory: directory.name != "old")
    advise.main(["mine.h5::/counts", "--site", "old", "disk"])
    prediction = json.loads((here / "results" / "advice-mine" / "prediction.json").read_text())
    assert list(prediction["sites"]) == ["disk"]
    said = capsys.readouterr().err
    assert f"{here}/old cannot be written, so that nothing was measured" in said and "are guessed" in said


def test_the_sites_are_those_of_the_configuration(here: Path) -> None:
    sites = here / "config" / "sites.yaml"
    (here / "other.yaml").write_text(sites.read_text().replace("disk:", "mine:").replace("disk}", "mine}"))
    (here / "config" / "config.yaml").write_text("study: quick\nsites: other.yaml\n")
    with pytest.raises(SystemExit, match=r"other\.yaml: no site 'disk'; there are mine, cluster$"):
        advise.main(["mine.h5::/counts", *IMAGE, "--site", "disk"])
    with pytest.raises(SystemExit, match=r"sites\.yaml: no site 'mine'; there are disk, cluster$"):
        advise.main(["mine.h5::/counts", *IMAGE, "--site", "mine", "--sites", str(sites)])


def test_sites_that_cannot_be_measured_so_are_not_probed(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    probed: list[str] = []

    def probe(site: Any, *_: Any, **__: Any) -> Probe:
        probed.append(site["name"])
        return PROBE

    monkeypatch.setattr(at_sites, "probed", probe)
    monkeypatch.setattr(shutil, "which", lambda program: f"/bin/{program}")
    (here / "slurm").mkdir()
    (here / "slurm" / "config.yaml").write_text("jobs: 20\nexecutor: slurm\n")
    (here / "mine").mkdir()
    (here / "mine" / "config.v8+.yaml").write_text("cores: all\n")
    asked = ["mine.h5::/counts", *IMAGE]
    with pytest.raises(SystemExit, match="cluster: needs a cluster; say PROFILE=slurm"):
        advise.main([*asked, "--site", "cluster", "--profile", "mine"])
    with pytest.raises(SystemExit, match="cluster: needs a cluster; say PROFILE=slurm"):
        advise.main([*asked, "--site", "cluster", "--executor", "local"])
    with pytest.raises(SystemExit, match="disk: is of this machine, and slurm runs on a cluster"):
        advise.main([*asked, "--profile", "slurm"])
    assert not probed and not (here / "results").exists()
    # One of them is reached now, and the other by another run; of a profile elsewhere nothing is known.
    advise.main([*asked, "--site", "disk", "cluster", "--profile", "mine"])
    advise.main([*asked, "--site", "cluster", "--profile", "elsewhere"])
    assert probed == ["disk", "cluster", "cluster"]


def test_an_object_store_is_refused_before_it_is_probed(here: Path) -> None:
    stores = here / "config" / "stores.yaml"
    stores.write_text(
        f"file_systems:\n  bucket: {{root: {here}/objects, store: {{start: moto}}}}\n"
        "sites:\n  bucket: {file_system: bucket}\n"
    )
    before = files(here)
    with pytest.raises(SystemExit, match="site bucket is an object store, in which what is advised"):
        advise.main(["mine.h5::/counts", *IMAGE, "--sites", str(stores)])
    assert files(here) == before


def test_an_array_is_looked_at_once_before_its_site_is_probed_and_that_counts(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []

    def looked(file: Path, dataset: str | None = None) -> Any:
        looks.append(time.time())
        return open_donor(file, dataset)

    def probe(*_: Any, **__: Any) -> Probe:
        assert len(looks) == 1
        return PROBE

    # Of a virtual dataset each opens all files that hold its values.
    monkeypatch.setattr("hyperslab.advising.found.open_donor", looked)
    monkeypatch.setattr("hyperslab.formats.donor_files.open_donor", looked)
    monkeypatch.setattr(at_sites, "probed", probe)
    advise.main(["mine.h5::/counts", *IMAGE])
    prediction = json.loads((here / "results" / "advice-mine" / "prediction.json").read_text())
    assert prediction["began_wall_s"] < looks[0]


def test_a_probe_leaves_a_root_that_nobody_has_used_as_it_was(here: Path) -> None:
    site = {"name": "disk", "root": str(here / "new" / "root"), "executor": "local", "cgroup": None}
    found = PROBED({**site, "read_ahead_bytes": None}, zarr=False)
    assert not (here / "new").exists()
    storage = found.storage
    assert 0 < storage.run_s < storage.read_s < storage.lookup_s < storage.open_s
    assert storage.write_s and storage.zarr_chunk_s is None and storage.chunk_cache_bytes >= 2**20
    assert set(found.pressure_s) == {"cpu", "memory", "io"} and found.memory_bytes > 10**8


def test_of_slow_storage_less_is_read_to_probe_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size, preadv = 8 * 2**20, os.preadv
    (tmp_path / "long").write_bytes(bytes(size))
    read: list[int] = []

    def counted(descriptor: int, buffers: Sequence[bytearray], place: int) -> int:
        read.append(len(buffers[0]))
        return preadv(descriptor, buffers, place)

    monkeypatch.setattr(os, "preadv", counted)
    monkeypatch.setattr("hyperslab.measuring.pagecache.evict_file", lambda *_: None)
    with open(tmp_path / "long", "rb", buffering=0) as file:
        probe._reads(file.fileno(), size)
        assert sum(read) > 2 * size
        read.clear()
        monkeypatch.setattr(probe, "READING_S", 0.0)
        found = probe._reads(file.fileno(), size)
    # Once of every size, and one piece twice.
    assert read == [*probe.SIZES, 2**18, 2**18] and found["ahead_s"] >= found["cached_s"] > 0


def test_what_a_node_says_before_a_probe_is_passed_over(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = {"name": "disk", "root": str(here), "executor": "local", "cgroup": None, "read_ahead_bytes": None}

    def printed(text: str) -> Probe:
        done = subprocess.CompletedProcess([], 0, text, "")
        monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
        return PROBED(site, zarr=False)

    assert printed(f"Welcome to node 1\n{json.dumps(asdict(PROBE))}\n") == PROBE
    for text in ("", "Welcome to node 1\n", "[]"):
        with pytest.raises(at_sites.OutOfReach, match="site disk could not be probed: its node says"):
            printed(text)


def test_no_room_for_the_test_files_is_said_and_leaves_nothing(here: Path) -> None:
    sites = here / "config" / "sites.yaml"
    sites.write_text(sites.read_text().replace("testfiles}", "testfiles, cap_bytes: 1000}"))
    with pytest.raises(SystemExit, match="needs 0.0. GB for one test artifact"):
        advise.main(["mine.h5::/counts", *IMAGE])
    assert not list((here / "config" / "studies").iterdir()) and not list(here.glob("results/*"))


def test_no_room_for_the_values_beside_the_results_is_said_and_the_last_answer_stays(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    advise.main(["mine.h5::/counts", *IMAGE])
    before = {path: path.read_bytes() for path in files(here)}

    class Full:
        f_bavail, f_frsize, f_flag = 10, 4096, 0

    monkeypatch.setattr("os.statvfs", lambda place: Full)
    with pytest.raises(SystemExit, match="has no room for 0.48 MB of values"):
        advise.main(["mine.h5::/counts", "--reads", "spectrum: [1, 1, all]"])
    assert {path: path.read_bytes() for path in files(here)} == before


def test_an_array_without_a_file_may_be_filled_by_a_donor(here: Path) -> None:
    study = here / "config" / "studies" / "advice-plan.yaml"
    donor = {"path": str(here / "mine.h5"), "dataset": "/counts"}
    dataset = {"axes": ["x", "y", "z"], "shape": [60, 60, 400], "dtype": "uint16", "donor": donor}
    study.write_text(json.dumps({"advise": {"dataset": dataset, "reads": {"image": ["all", "all", 1]}}}))
    advise.main(["--study", str(study)])
    made = PlannedStudy(study)
    assert made.dataset.donor is not None and made.dataset.donor.dataset == "/counts"


def test_an_array_without_a_file_is_advised_on_by_its_shape_and_a_fill(here: Path) -> None:
    study = here / "config" / "studies" / "advice-plan.yaml"
    asked = {
        "dataset": {"axes": ["t", "y"], "shape": [300, 400], "dtype": "uint16", "fill": "counts"},
        "reads": {"row": {"t": 1}, "column": ["all", 1]}, "mix": {"row": 3, "column": 1},
    }  # fmt: skip
    study.write_text(json.dumps({"advise": asked}))
    with pytest.raises(ConfigurationError, match="its sites have not been probed"):
        PlannedStudy(study)
    advise.main(["--study", str(study)])
    made = PlannedStudy(study)
    assert made.dataset.fill == "counts" and made.study.recommendation.mix == {"row": 3.0, "column": 1.0}
    assert made.study.title == "How should an array of 300x400 uint16 be stored?"
    # Of what is asked otherwise there is none yet.
    study.write_text(json.dumps({"advise": {**asked, "size_bound": 0.9}}))
    with pytest.raises(ConfigurationError, match="its sites have not been probed"):
        PlannedStudy(study)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({}, "needs `file`, or `dataset`"),
        (
            {"file": "mine.h5::/counts", "reads": {"image": [1]}},
            "image: give an extent or `all` for each axis",
        ),
        ({"file": "mine.h5::/counts", "reads": {"a": {"x": 1}}, "mix": {"b": 1}}, "mix: no read 'b'"),
        ({"file": "mine.h5::/counts", "reads": {"a": {"x": 1}}, "mix": {"a": 0}}, "happens 0 times"),
        (
            {"file": "mine.h5::/counts", "mix": {"a": 1}},
            "mix: says how often reads happen, and there are no `reads`",
        ),
        (
            {"file": "mine.h5::/counts", "reads": {"a": {"x": 1}, "b": {"y": 1}}, "mix": {"a": 1}},
            "mix: says nothing of read 'b'; say how often it happens, 0 for never",
        ),
        ({"file": "mine.h5::/counts", "reads": {}}, "no read is named"),
        ({"file": "mine.h5::/counts", "reads": "a: [1, 1, 1]", "mix": {"a": 1}}, "in the line of reads"),
        ({"file": "$NOWHERE"}, "environment variable NOWHERE is not set"),
        ({"file": "mine.h5::/counts", "sites": ["disk", "disk"]}, "sites: each at most once"),
    ],
)
def test_a_study_that_asks_for_what_cannot_be_is_refused_in_one_line(
    here: Path, asked: Any, words: str
) -> None:
    study = here / "config" / "studies" / "advice-plan.yaml"
    study.write_text(json.dumps({"advise": asked}))
    before = files(here)
    with pytest.raises(SystemExit) as error:
        advise.main(["--study", str(study)])
    assert words in str(error.value) and "\n" not in str(error.value) and files(here) == before


def test_a_size_bound_that_nothing_meets_is_refused(here: Path) -> None:
    with pytest.raises(SystemExit, match="raise SIZE_BOUND"):
        advise.main(["mine.h5::/counts", "--size-bound", "0.001"])
    assert not list((here / "config" / "studies").iterdir()) and not (here / "results").exists()


def test_what_can_grow_is_refused_where_a_contiguous_file_alone_meets_the_size(here: Path) -> None:
    values = np.random.default_rng(0).integers(0, 2**16, (20, 500), "uint16")
    with h5py.File("own.h5", "w") as file:
        file.create_dataset("a", data=values, chunks=(5, 500), maxshape=(None, 500))
    with pytest.raises(SystemExit, match="raise SIZE_BOUND"):
        advise.main(["own.h5::/a", "--reads", "all: [all, all]"])
    assert not list((here / "config" / "studies").iterdir()) and not (here / "results").exists()


def test_a_study_of_the_users_own_is_never_written_over(here: Path) -> None:
    own = here / "config" / "studies" / "advice-mine.yaml"
    own.write_text("title: mine\n")
    with pytest.raises(SystemExit, match="is there already and yours"):
        advise.main(["mine.h5::/counts"])
    assert own.read_text() == "title: mine\n"


def test_advice_on_another_array_takes_no_place_of_the_first(here: Path) -> None:
    with h5py.File("mine.h5", "a") as file:
        file["more"] = counts()
    advise.main(["mine.h5::/counts", *IMAGE])
    before = {path: path.read_bytes() for path in files(here)}
    with pytest.raises(
        SystemExit, match=r"is there already, of .*mine.h5::/counts; give another name with NAME="
    ):
        advise.main(["mine.h5::/more", *IMAGE])
    assert {path: path.read_bytes() for path in files(here)} == before
    advise.main(["mine.h5::/more", "--name", "other", *IMAGE])
    assert (here / "results" / "advice-other").is_dir()


def test_the_same_array_is_known_under_other_names(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "link.h5").symlink_to("mine.h5")
    for name in ("mine.h5::/counts", "mine.h5::counts", "link.h5::counts"):
        advise.main([name, "--name", "mine", "--copies", "no", *IMAGE])
    study = here / "config" / "studies" / "advice-mine.yaml"
    assert "link.h5" in study.read_text() and "copies" not in study.read_text()


def test_advice_that_is_being_measured_is_not_exchanged(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    advise.main(["mine.h5::/counts", *IMAGE])
    lock = here / ".snakemake" / "locks" / "0.output.lock"
    lock.parent.mkdir(parents=True)
    lock.write_text("results/advice-other/advice.html\nresults/advice-mine/advice.html\n")
    before = {path: path.read_bytes() for path in files(here)}
    with pytest.raises(SystemExit, match="advice-mine is being made by another run; wait for it") as error:
        advise.main(["mine.h5::/counts", "--seconds", "90", *IMAGE])
    assert "\n" not in str(error.value)
    assert {path: path.read_bytes() for path in files(here)} == before
    # Or it begins while another is predicted.
    lock.unlink()
    del before[lock]

    def begun(*_: Any) -> None:
        lock.write_text("results/advice-mine/advice.html\n")

    with monkeypatch.context() as patched:
        patched.setattr(advise, "write_record", begun)
        with pytest.raises(SystemExit, match="is being made by another run"):
            advise.main(["mine.h5::/counts", "--seconds", "90", *IMAGE])
    lock.unlink()
    assert {path: path.read_bytes() for path in files(here)} == before
    lock.write_text("results/advice-other/advice.html\n")
    advise.main(["mine.h5::/counts", "--seconds", "90", *IMAGE])


def test_two_advices_of_one_name_are_not_made_at_once(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    probed = at_sites.probed
    said: list[str] = []

    def meanwhile(*given: Any, **more: Any) -> Any:
        # The second one would come here, too, if it probed before it is refused.
        assert not said
        said.append("")
        with pytest.raises(SystemExit) as error:
            advise.main(["mine.h5::/counts", *IMAGE])
        said[:] = [str(error.value)]
        return probed(*given, **more)

    # What a killed run has left holds nobody up.
    (here / "results").mkdir()
    (here / "results" / ".advice-mine.lock").touch()
    monkeypatch.setattr(at_sites, "probed", meanwhile)
    advise.main(["mine.h5::/counts", *IMAGE])
    (line,) = said
    assert "another advice of this name is being made; wait for it" in line and "\n" not in line
    assert [path.name for path in (here / "results").iterdir()] == ["advice-mine"]
    assert (here / "results" / "advice-mine" / "study.yaml").exists()


def test_the_pages_of_the_advice_before_stay_beside_what_may_never_be_measured(here: Path) -> None:
    results = here / "results" / "advice-mine"

    def pages() -> dict[str, str]:
        return {path.name: path.read_text() for path in results.glob("*.html")}

    for text in ("first", "second"):
        advise.main(["mine.h5::/counts", *IMAGE])
        for name in ("advice.html", "report.html"):
            (results / name).write_text(text)
    # Measured was neither the next one nor the one after that.
    for _ in range(2):
        advise.main(["mine.h5::/counts", *IMAGE])
        assert pages() == dict.fromkeys(("advice-before.html", "report-before.html"), "second")


@pytest.mark.parametrize("exchanged", [False, True])
def test_what_was_rewritten_survives_a_run_that_was_killed_in_its_last_moment(
    here: Path, exchanged: bool
) -> None:
    advise.main(["mine.h5::/counts", *IMAGE])
    results = here / "results" / "advice-mine"
    (results / "layout").mkdir()
    (results / "layout" / "recommended.h5").write_bytes(b"hours of work")
    # Between the two renamings, or behind both.
    results.rename(here / "results" / ".advice-mine.old")
    if exchanged:
        results.mkdir()
    advise.main(["mine.h5::/counts", *IMAGE])
    assert (results / "layout" / "recommended.h5").read_bytes() == b"hours of work"
    assert [path.name for path in (here / "results").iterdir()] == ["advice-mine"]


def predicted_of(here: Path, *arguments: str) -> dict[str, Any]:
    advise.main([f"own.h5::/{arguments[0]}", "--name", arguments[0], *IMAGE, *arguments[1:]])
    found: dict[str, Any] = json.loads(
        (here / "results" / f"advice-{arguments[0]}" / "prediction.json").read_text()
    )
    return found


def test_todays_layout_is_known_with_the_filters_of_plug_ins(here: Path) -> None:
    how = {"packed": hdf5plugin.Zstd(5), "blosc": hdf5plugin.Blosc("zstd", 9, 2)}
    with h5py.File("own.h5", "w") as file:
        for name, filters in how.items():
            file.create_dataset(name, data=counts(), chunks=(2, 3, 100), shuffle=name == "packed", **filters)
        file.create_dataset("lossy", data=counts(), chunks=(2, 3, 100), scaleoffset=8)
    packed = predicted_of(here, "packed")
    assert packed["today"] == "as-it-is" and packed["plugins"]["as-it-is"] == ["zstd"]
    study = PlannedStudy(here / "config" / "studies" / "advice-packed.yaml")
    assert study.layouts["as-it-is"]["filters"] == [{"name": "shuffle"}, {"name": "zstd", "level": 5}]
    assert predicted_of(here, "blosc")["today"] == "as-it-is"
    again = predicted_of(here, "blosc", "--filters", "builtin")["plugins"]
    assert set(itertools.chain(*again.values())) == {"blosc"}
    lossy = predicted_of(here, "lossy")
    assert lossy["today"] is None and "filters that a study cannot name" in lossy["unknown_layout"]


def test_the_filters_of_hdf5_itself_are_those_that_are_put_on_without_plug_ins() -> None:
    assert of_plugins([{"name": name} for name in FILTERS]) == list(filter_setters.PLUGINS)
    assert of_plugins([{"name": "shuffle"}, {"name": "zstd"}, {"name": "gzip"}]) == ["zstd"]


def test_what_lies_elsewhere_has_no_layout_of_today(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with h5py.File("own.h5", "w") as file:
        layout = h5py.VirtualLayout(counts().shape, counts().dtype)
        layout[:] = h5py.VirtualSource("mine.h5", "counts", counts().shape)
        file.create_virtual_dataset("virtual", layout)
        file.create_dataset("beside", data=counts(), external=[("values.bin", 0, h5py.h5f.UNLIMITED)])
        file["linked"] = h5py.ExternalLink("mine.h5", "counts")
        file["here"] = counts()
    virtual = predicted_of(here, "virtual")
    assert virtual["today"] is None and "the dataset is virtual" in virtual["unknown_layout"]
    beside = predicted_of(here, "beside")
    assert beside["today"] is None and "files beside it" in beside["unknown_layout"]
    # Nor is it rewritten.
    assert not virtual["rewritable"] and not beside["rewritable"]
    assert not look(Path("own.h5"), "/linked").rewritable and look(Path("mine.h5"), "/counts").rewritable
    # What is said of a device is said of the files that hold the values.
    for name, dataset, holder in (
        ("own.h5", "/virtual", "mine.h5"), ("own.h5", "/beside", "values.bin"),
        ("own.h5", "/linked", "mine.h5"),
        ("mine.h5", "/counts", "mine.h5"), ("own.h5", "/here", "own.h5"),
    ):  # fmt: skip
        assert [one.resolve() for one in look(Path(name), dataset).holders] == [(here / holder).resolve()]
    monkeypatch.setattr(at_sites, "one_device", lambda file, directory: file.name == "own.h5")
    assert predicted_of(here, "virtual")["sites"]["disk"]["elsewhere"]
    assert not predicted_of(here, "here")["sites"]["disk"]["elsewhere"]


def test_a_damaged_chunk_is_said_with_the_file_and_the_dataset(here: Path) -> None:
    with h5py.File("mine.h5") as file:
        chunk = file["counts"].id.get_chunk_info(7)
    with open("mine.h5", "r+b") as opened:
        opened.seek(chunk.byte_offset)
        opened.write(b"\xff" * chunk.size)
    before = files(here)
    with pytest.raises(SystemExit, match=r"^hyperslab.advise: .*mine\.h5::/counts: cannot be read: .+$"):
        advise.main(["mine.h5::/counts", *IMAGE])
    assert files(here) == before


def test_elements_that_are_measured_as_longer_ones_are_named(here: Path) -> None:
    with h5py.File("own.h5", "w") as file:
        file["half"] = counts().astype("float16")
        file["single"] = counts().astype("float32")
    assert predicted_of(here, "half")["stored_dtype"] == "float16"
    assert predicted_of(here, "single")["stored_dtype"] == ""


def test_a_file_on_another_device_than_the_test_files_is_noted(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    advise.main(["mine.h5::/counts", *IMAGE])
    monkeypatch.setattr(at_sites, "one_device", lambda file, directory: False)
    advise.main(["mine.h5::/counts", "--name", "far", *IMAGE])
    for name, elsewhere in (("mine", False), ("far", True)):
        prediction = json.loads((here / "results" / f"advice-{name}" / "prediction.json").read_text())
        assert [one["elsewhere"] for one in prediction["sites"].values()] == [elsewhere]


@pytest.mark.parametrize(
    ("labels", "axes"),
    [
        (["", "", ""], ["x", "y", "z"]),
        (["z", "", ""], ["z", "y", "a2"]),
        (["", "x", ""], ["a0", "x", "z"]),
        (["x", "x", ""], ["x", "y", "z"]),
        (["mz", "row", "column"], ["mz", "row", "column"]),
    ],
)
def test_an_axis_is_called_as_the_file_calls_it(here: Path, labels: list[str], axes: list[str]) -> None:
    with h5py.File("own.h5", "w") as file:
        file["a"] = np.zeros((2, 3, 4), "int16")
        for dimension, label in zip(file["a"].dims, labels, strict=True):
            dimension.label = label
    assert look(here / "own.h5", "/a").axes == axes


def test_an_axis_whose_name_is_not_utf_8_is_read_all_the_same(here: Path) -> None:
    with h5py.File("own.h5", "w") as file:
        own = file.create_dataset("a", data=np.zeros((2, 3), "int16"))
        h5py.h5ds.set_label(own.id, 0, "µm".encode("latin-1"))
        scale = file.create_dataset("Höhe".encode("latin-1"), data=np.arange(3))
        scale.make_scale()
        own.dims[1].attach_scale(scale)
    assert look(here / "own.h5", "/a").axes == ["m", "H-he"]


def test_a_damaged_array_does_not_hide_the_others(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with h5py.File("own.h5", "w") as file:
        for number in range(25):
            file[f"b{number:02}"] = np.zeros((2, 3), "int16")
        layout = h5py.VirtualLayout((2, 3), "int16")
        layout[:] = h5py.VirtualSource("gone.h5", "a", (2, 3))
        file.create_virtual_dataset("a", layout)
    advise.main(["own.h5"])
    lines = capsys.readouterr().err.splitlines()
    assert "gone.h5" in lines[1] and lines[2].strip() == "# /b00: 2x3 int16"
    assert lines[-1].strip() == "# and 6 more"
    # A line is copied as a whole, and not every shell takes what is behind a # for a comment.
    assert lines[3].startswith("    make advise FILE=") and "#" not in lines[3]


def test_a_float_that_numpy_has_not_does_not_hide_the_others(here: Path) -> None:
    with h5py.File("own.h5", "w") as file:
        file["a"] = np.zeros((2, 3), "int16")
        h5d.create(file.id, b"b", long_float(), h5s.create_simple((2, 3)))
    assert arrays(Path("own.h5")) == {"/a": (2, 3)}


def test_a_scale_that_is_gone_hides_no_array(here: Path) -> None:
    with h5py.File("own.h5", "w") as file:
        own = file.create_dataset("a", data=np.zeros((4, 5), "int16"))
        gone = h5py.Dataset(
            h5py.h5d.create(file.id, None, h5py.h5t.NATIVE_INT16, h5py.h5s.create_simple((4,)))
        )
        gone.make_scale("gone")
        own.dims[0].attach_scale(gone)
        own.dims[1].label = "column"
    assert look(here / "own.h5", "/a").axes == ["row", "column"]


def test_a_dimension_of_netcdf_that_is_no_variable_is_no_array(here: Path) -> None:
    with h5py.File("own.nc", "w") as file:
        file["height"] = np.zeros(4, "float32")
        for name, said in {"station": f"{NO_VARIABLE}         4", "time": "time"}.items():
            file[name] = np.zeros(4, "float32")
            file[name].make_scale(said)
            file["height"].dims[0].attach_scale(file[name])
    assert arrays(Path("own.nc")) == {"/height": (4,), "/time": (4,)}


def test_what_is_noticed_is_less_of_reads_that_are_cut_alone() -> None:
    whole = reading.parse("frame: [1, all, all]; pixel: [all, 1, 1]", ("t", "y", "x"), (20_000, 64, 64))
    asked = Advise.model_validate({"file": "mine.h5"})

    def noticed(one: Sequence[reading.Read]) -> float:
        cut = reading.cropped(one, (100, 64, 64))
        return float(dict(study_text._recommendation(cut, one, asked))["imperceptible_ms"])

    assert noticed(whole[:1]) == 10.0
    assert noticed(whole) == study_text.UNNOTICED_LEAST_MS
    assert noticed(reading.parse("half: [200, 1, 1]", ("t", "y", "x"), (20_000, 64, 64))) == 5.0


def test_of_layouts_that_fit_the_best_is_judged_by_those_that_fit() -> None:
    reads = reading.parse("slab: [all, all, 1]; pixel: [1, 1, all]", AXES, SHAPE)
    question = Asked(Array(tuple(SHAPE), 2), reads, "any", 100.0)

    def one(number: int, slab: float, pixel: float, size: float) -> model.Predicted:
        return model.Predicted(Candidate((number, 1, 1)), {"slab": slab, "pixel": pixel}, size)

    large, slabs, balanced = one(1, 0.06, 9.0, 200), one(2, 0.2, 0.035, 90), one(3, 0.23, 0.012, 90)
    ordered = choice._ordered(question, [large, slabs, balanced])
    assert [each.candidate.chunks[0] for each in ordered if each.candidate.chunks] == [3, 2, 1]


def test_sites_that_name_the_same_two_copies_are_told_the_same_of_what_each_is_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads = reading.parse("image: [all, all, 1]; spectrum: [1, 1, all]; box: [2, 2, 2]", AXES, SHAPE)
    one = model.Predicted(Candidate(None), {read.name: 0.1 for read in reads}, 480_000.0)
    served = iter([("spectrum",), ("spectrum", "box")])

    def pair(*_: Any) -> Any:
        return TwoCopies(Candidate((20, 30, 1)), Candidate((1, 1, 400)), next(served)), one

    monkeypatch.setattr(prospect, "choose", lambda *_: choice.Choice(1, [one], [one], {}, {}, 2))
    monkeypatch.setattr(prospect, "_pair", pair)
    spec = {"axes": AXES, "shape": SHAPE, "dtype": "uint16"}
    foreseen = prospect.foresee(
        subject.Subject("an array", spec), Advise.model_validate({"dataset": spec}), reads,
        prospect.Part(SHAPE, budget.Effort(1, 3), reads), InMemory(counts()),
        {"near": PROBE.storage, "far": PROBE.storage}, 1e9, lambda text: None,
    )  # fmt: skip
    # That is what the study measures, of which there is one layout of this name.
    assert [site.pair for site in foreseen.sites.values()] == 2 * list(foreseen.pairs)


def test_what_can_grow_is_never_advised_to_be_contiguous(here: Path) -> None:
    with h5py.File("mine.h5", "a") as file:
        file.create_dataset("growing", data=counts(), chunks=(1, 1, 400), maxshape=(None, 30, 400))
    assert look(here / "mine.h5", "/growing").grows and not look(here / "mine.h5", "/counts").grows
    asked = ["--reads", "slab: [5, all, all]; image: [all, all, 1]", "--orders", "any"]
    advise.main(["mine.h5::/growing", *asked])
    study = PlannedStudy(here / "config" / "studies" / "advice-mine.yaml")
    assert "contiguous" in study.layouts
    excluded = study.recommendation_settings()["excluded"]
    assert excluded["contiguous"] == "the dataset can grow, which needs chunks"
    prediction = json.loads((here / "results" / "advice-mine" / "prediction.json").read_text())
    told = [one["layout"] for one in prediction["sites"]["disk"]["predicted"]]
    assert prediction["grows"] and not [name for name in told[:10] if name.startswith("contiguous")]
    # However well it is predicted to do, alone or as one of two copies.
    reads = reading.parse("slab: [all, all, 1]; pixel: [1, 1, all]", AXES, SHAPE)

    def one(chunks: tuple[int, ...] | None, slab: float, pixel: float) -> model.Predicted:
        return model.Predicted(Candidate(chunks), {"slab": slab, "pixel": pixel}, 10.0)

    found = [one(None, 9.0, 0.1), one((9, 9, 1), 0.1, 9.0), one((5, 5, 5), 3.0, 3.0)]
    for grows in (False, True):
        question = Asked(Array(tuple(SHAPE), 2), reads, "any", 100.0, grows=grows)
        ordered = choice._ordered(question, [one(None, 0.1, 0.1), *found])
        assert (ordered[0].candidate.chunks is None) != grows
        best = choice.Choice(3, found, found, {}, {}, 2)
        pair, _ = prospect._pair(question, best, True) or (None, None)
        assert (pair is not None and pair.first.chunks is None) != grows


def test_candidates_have_names_and_layouts_that_a_study_can_say() -> None:
    chains = list(itertools.chain(filter_chains("builtin", 2), filter_chains("any", 2)))
    names = {Candidate((4, 5, 6), chain).name for chain in chains}
    assert len(names) == len(set(chains)) and "4x5x6-shuffle-gzip4" in names and "4x5x6" in names
    assert Candidate((4, 5, 6), chains[1]).layout() == {
        "chunks": [4, 5, 6],
        "filters": ["shuffle", {"gzip": {"level": 1}}],
    }


SLOW = replace(DISK, latency_s=4e-3, waited_s=8e-9, ahead_s=6e-9)


@cache
def by_the_truth(text: str, truth: Storage) -> Any:
    """What the test below chooses where it is not wrong, which is the same beside each wrong speed."""
    return chosen(text, truth)


@pytest.mark.parametrize("truth", [DISK, SLOW], ids=["disk", "slow"])
@pytest.mark.parametrize(
    "wrong",
    [
        lambda truth: replayed_packs.slower(truth, 2.0),
        lambda truth: replayed_packs.slower(truth, 0.5),
        lambda truth: replace(truth, read_ahead_bytes=2**23),
    ],
    ids=["twice", "half", "read-ahead"],
)
@pytest.mark.parametrize("text", ["image: [all, all, 1]; spectrum: [1, 1, all]", "9 x box: [5, 5, 100]"])
def test_wrong_speeds_survive_the_verification(
    truth: Storage, wrong: Callable[[Storage], Storage], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So few that no clock decides which are looked at; and filters that take the same time in every run.
    monkeypatch.setattr(choice, "SIMULATED", 12)
    same = Coded(0.4, 1.5e-9)
    monkeypatch.setattr(choice, "coded", lambda blocks, filters: same if filters else Coded(1.0, 0.0))
    chains = {False: Chain([1], [Coded(1.0, 0.0)]), True: Chain([1], [same])}
    monkeypatch.setattr(choice, "chain_of", lambda _, filters: chains[bool(filters)])
    right = by_the_truth(text, truth)
    believed = chosen(text, wrong(truth))
    reads = reading.parse(text, AXES, SHAPE)
    array = Array(tuple(SHAPE), 2)
    # What the truth makes of those that would be measured.
    verified = [
        model.predict(one.candidate, array, reads, truth, believed.codes[one.candidate]).times
        for one in believed.measured
    ]
    best = {read.name: min(one.times[read.name] for one in right.predicted) for read in reads}
    floor = 1e-4

    def score(times: Mapping[str, float]) -> float:
        return float(model.objective(times, best, reads, floor)[0])

    assert min(map(score, verified)) <= 1.10 * min(score(one.times) for one in right.predicted)


def test_what_is_warm_waits_for_no_storage() -> None:
    text = "image: [all, all, 1]; spectrum: [1, 1, all]"
    warm, slow = chosen(text, DISK, warm=True), chosen(text, SLOW, warm=True)
    first = {one.candidate: one.times["image"] for one in warm.predicted if not one.candidate.filters}
    again = {one.candidate: one.times["image"] for one in slow.predicted if not one.candidate.filters}
    assert all(again[one] == seconds for one, seconds in first.items() if one in again)


def test_zarr_is_considered_where_it_is_asked_for() -> None:
    zarr = replace(DISK, zarr_chunk_s=2e-4, zarr_open_s=2e-3)
    found = chosen("image: [all, all, 1]; spectrum: [1, 1, all]", zarr, formats=("hdf5", "zarr"))
    formats = {one.candidate.format for one in found.measured}
    assert formats == {"hdf5", "zarr"}
    layout = next(one.candidate for one in found.measured if one.candidate.format == "zarr").layout(AXES)
    assert layout["format"] == "zarr" and layout["chunks"] and "filters" not in layout
    assert all(one.candidate.format == "hdf5" for one in chosen("a: [1, 1, all]").predicted)


def test_other_orders_of_the_axes_are_considered_where_they_are_asked_for() -> None:
    images = "9 x image: [all, all, 1]"
    found = chosen(images, turned=True)
    turned = {one.candidate: one.times["image"] for one in found.predicted}
    # An image lies in one piece where the last axis comes first.
    assert turned[Candidate(None, order=(2, 0, 1))] < 0.9 * turned[Candidate(None)]
    assert Candidate(None, order=(2, 0, 1)).layout(AXES) == {"order": ["z", "x", "y"]}
    assert not any(one.candidate.order for one in of_all(images).predicted)


@given(st.permutations([0, 1, 2]))
def test_requests_of_turned_axes_are_those_of_a_turned_array(order: list[int]) -> None:
    shape, chunks, origin, extent = [20, 30, 400], (4, 5, 50), [3, 4, 7], [9, 1, 90]
    turned = selection(Candidate(chunks, order=tuple(order)), shape, 2, 2000, origin, extent)
    own = [[given[at] for at in order] for given in (shape, chunks, origin, extent)]
    assert turned == selection(Candidate(tuple(own[1])), own[0], 2, 2000, own[2], own[3])


def test_a_throttled_site_gives_no_more_than_its_rate() -> None:
    held, counts, free = replace(DISK, bytes_per_s=1e6), Counts(1, 2e6, 1e6, 0.0), Coded(1.0, 0.0)
    device = [terms(counts, held, free)[name] for name in ("waits", "waited", "ahead")]
    assert sum(device) == pytest.approx(3.0) and all(device)
    assert seconds(counts, held, free) == pytest.approx(3.0 + DISK.open_s)
    assert seconds(counts, DISK, free) < 0.01


def test_every_term_of_the_model_is_explained_in_its_docstring() -> None:
    assert model.__doc__
    explained = {line.split("  ")[0] for line in model.__doc__.splitlines() if re.match(r"\w+ {2,}\S", line)}
    assert explained == set(terms(Counts(1, 1, 1, 1), DISK, Coded(1.0, 0.0)))


def test_axes_that_no_read_takes_whole_are_cut_first() -> None:
    whole = [reading.Read("frame", (1, 1, 64, 64)), reading.Read("few", (1, 5, 64, 64))]
    part = subject.part_of([200, 300, 64, 64], 2, whole, 20e6)
    assert part[2:] == [64, 64] and math.prod(part) * 2 <= 20e6 and part[1] >= 8 * 5
    assert subject.part_of([200, 300, 64, 64], 2, whole, 1e12) == [200, 300, 64, 64]
    lines = [reading.Read("line", (1, 400)), reading.Read("row", (300, 1))]
    cut = subject.part_of([300, 400], 8, lines, 240_000)
    assert math.prod(cut) * 8 <= 240_000 and min(cut) > 50


def test_chunks_fit_the_part_by_which_their_size_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = [reading.Read("image", (1000, 1000, 1)), reading.Read("spectrum", (1, 1, 2000))]
    cut = subject.part_of([1000, 1000, 2000], 1, pixels, 95e6)
    even = subject.part_of([1000, 1000, 2000], 1, pixels, 95e6, (256, 64, 64))
    assert [one % chunk for one, chunk in zip(even, (256, 64, 64), strict=True)] == [0, 0, 0]
    assert all(0.5 * one < fitting <= one for one, fitting in zip(cut, even, strict=True)) and cut != even
    # What is longer than the part is cut to it; what is not cut may end within a chunk.
    assert subject.part_of([1000, 1000, 2000], 1, pixels, 95e6, (1000, 1000, 2000)) == cut
    assert subject.part_of([10, 10, 10], 1, [reading.Read("a", (1, 1, 1))], 1e9, (4, 4, 4)) == [10, 10, 10]
    shapes = chunk_shapes((1000, 1000, 2000), 1, [read.extent for read in pixels], (381, 500, 500))
    assert 334 not in shapes[:, 0] and (-(-381 // shapes[:, 0]) * shapes[:, 0] <= 1.1 * 381).all()
    # Nor by less than a tenth along each of three axes, and by more than is allowed in all.
    monkeypatch.setattr(choice, "OF_A_READ", 0)
    array, reads = Array((100, 100, 100), 2), [reading.Read("image", (100, 100, 1))]
    free, table = Chain((2**12,), (Coded(1.0, 0.0),)), np.array([[20, 20, 20], [25, 25, 25]])
    for part, kept in (((), 2), ((75, 75, 75), 1)):
        asked = Asked(array, reads, "any", 1.15 * 2e6, part=part)
        assert len(list(choice._sieve(asked, table, HDF5, (), free, DISK))) == kept


FRAMES = [reading.Read("image", (1, 4096, 4096)), reading.Read("series", (10_000, 1, 1))]


def test_of_chunks_that_take_long_to_be_decoded_a_part_has_fewer() -> None:
    shape, chunk = [10_000, 4096, 4096], (1, 4096, 4096)
    cube = subject.part_of(shape, 2, FRAMES, 148e6, chunk)
    few = subject.part_of(shape, 2, FRAMES, 148e6, chunk, 45)
    assert few[0] <= 45 < cube[0] and 0.5 * 148e6 < math.prod(few) * 2 <= 148e6
    # Where it has no more than that anyway it is cut as any other.
    assert subject.part_of(shape, 2, FRAMES, 148e6, chunk, 1000) == cube


def written(shape: tuple[int, ...], chunks: tuple[int, ...] | None) -> subject.Subject:
    """An array in a file here of which nothing is written but how it is stored."""
    with h5py.File("frames.h5", "w") as file:
        file.create_dataset("counts", shape, "uint16", chunks=chunks, compression="gzip" if chunks else None)
    return subject.subject_of(Advise.model_validate({"file": "frames.h5::/counts"}))


def spent_of(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that are gone whenever it is asked how large a part may be, from now on."""
    step, gone = budget.step, list[float]()

    def stepped(seconds: float, spent: float, *more: Any) -> Any:
        gone.append(spent)
        return step(seconds, spent, *more)

    monkeypatch.setattr(budget, "step", stepped)
    return gone


def test_what_the_chunks_of_a_part_take_to_be_decoded_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    array = written((10_000, 512, 512), (1, 512, 512))
    asked = Advise.model_validate({"file": "frames.h5::/counts", "seconds": 60})
    whole = reading.parse("image: [1, all, all]; series: [all, 1, 1]", array.axes, array.shape)
    monkeypatch.setattr(prospect, "_tried", lambda *_: Coded(0.5, 4e-9))
    gone = spent_of(monkeypatch)

    def chosen_of(each: float) -> prospect.Part:
        gone.clear()
        monkeypatch.setattr(prospect, "chunk_seconds", lambda *_: each)
        return prospect.part(array, asked, whole, {"disk": PROBE.storage}, 3.0)

    quick, slow = chosen_of(1e-6), chosen_of(0.2)
    assert slow.extents[0] <= budget.DECODING_SHARE * 60 / 0.2 < quick.extents[0]
    assert max(gone) >= 3.0 + 0.2 * slow.extents[0]
    # However long one takes, the part is as large as it has to be, which takes more time.
    asked = asked.model_copy(update={"seconds": None})
    slowest = chosen_of(2.0)
    assert math.prod(slowest.extents) * 2 > 0.9 * budget.LEAST_BYTES and slowest.seconds > 60


def test_a_file_is_opened_once_to_choose_a_part_of_it_and_later_openings_are_foreseen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    array = written((1000, 512, 512), (1, 512, 512))
    asked = Advise.model_validate({"file": "frames.h5::/counts", "seconds": 90})
    whole = reading.parse("image: [1, all, all]; series: [all, 1, 1]", array.axes, array.shape)
    gone, clock = spent_of(monkeypatch), [0.0]

    # As a virtual dataset of thousands of files.
    def opened(*given: Any) -> Any:
        clock[0] += 5.0
        return open_donor(*given)

    monkeypatch.setattr(prospect, "open_donor", opened)
    monkeypatch.setattr(prospect, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(prospect, "timed", lambda work: work() and 0.0)
    found = prospect.part(array, asked, whole, {"disk": PROBE.storage}, 3.0)
    # Once to copy its values, and once where the run that measures sees whether it is there.
    assert clock == [5.0] and set(gone) == {3.0 + 5.0 + 2 * 5.0} and found.opening_s == 5.0
    # And what has no file is opened by nobody.
    spec = {"axes": array.axes, "shape": array.shape, "dtype": "uint16", "fill": "counts"}
    found = prospect.part(subject.Subject("an array", spec), asked, whole, {"disk": PROBE.storage}, 3.0)
    assert clock == [5.0] and found.opening_s == 0.0


def test_chunks_of_a_donor_are_counted_as_those_of_a_file_as_far_as_it_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    donor = {"path": "frames.h5", "dataset": "/counts"}
    shape = [10_000, 512, 512]
    dataset = {"axes": ["t", "y", "x"], "shape": shape, "dtype": "uint16", "donor": donor}
    asked = Advise.model_validate({"dataset": dataset, "seconds": 60})
    whole = reading.parse("image: [1, all, all]; series: [all, 1, 1]", ["t", "y", "x"], shape)
    gone = spent_of(monkeypatch)
    monkeypatch.setattr(prospect, "time", SimpleNamespace(monotonic=lambda: 0.0))
    monkeypatch.setattr(prospect, "timed", lambda work: work() and 0.2)
    monkeypatch.setattr(prospect, "RUN_BYTES", 1)

    def filled_by(frames: int) -> prospect.Part:
        gone.clear()
        written((frames, 512, 512), (1, 512, 512))
        array = subject.subject_of(asked)
        assert array.used and array.used.shape == [frames, 512, 512]
        return prospect.part(array, asked, whole, {"disk": PROBE.storage}, 3.0)

    # A frame takes 0.2 s.
    long = filled_by(5_000)
    assert long.extents[0] <= budget.DECODING_SHARE * 60 / 0.2
    assert max(gone) >= 3.0 + 0.2 * long.extents[0]
    short = filled_by(10)
    assert short.extents[0] > long.extents[0] and max(gone) == pytest.approx(3.0 + 0.2 * 10)


def test_what_a_chunk_takes_is_timed_of_those_in_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    boxes: list[list[int]] = []

    def read(array: Any, box: tuple[slice, ...], *more: Any) -> Any:
        boxes.append([part.stop - part.start for part in box])
        return read_box(array, box, *more)

    def timed(work: Callable[[], object]) -> float:
        work()
        return 1.0

    def took(shape: tuple[int, ...], chunks: tuple[int, ...] | None) -> float:
        array = written(shape, chunks)
        with prospect.in_place(array) as own:
            return prospect.chunk_seconds(array, own)

    monkeypatch.setattr(prospect, "read_box", read)
    monkeypatch.setattr(prospect, "timed", timed)
    monkeypatch.setattr(prospect, "RUN_BYTES", 2 * 1200)
    assert took((20, 30, 400), (1, 5, 100)) == pytest.approx(1 / 2)
    assert took((20, 30, 400), (1, 1, 100)) == pytest.approx(1 / 12)
    assert took((20, 30, 400), (20, 30, 400)) == 1.0
    assert boxes == [[1, 5, 200], [1, 3, 400], [20, 30, 400]]
    assert took((20, 30, 400), None) == 0.0


def test_where_nothing_can_be_written_samples_are_taken_of_what_is_read_once(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[bool] = []

    def read(array: Any, *more: Any) -> Any:
        opened.append(isinstance(array, h5py.Dataset))
        return read_box(array, *more)

    monkeypatch.setattr(prospect, "read_box", read)
    monkeypatch.setattr(at_sites, "writable", lambda directory: False)
    with pytest.raises(SystemExit, match="predicted from probes of"):
        advise.main(["mine.h5::/counts", *IMAGE])
    # A run of chunks to see what they take, and the values.
    assert sum(opened) == 2 < len(opened)
    # Of chunks that take long, fewer.
    monkeypatch.setattr(prospect, "chunk_seconds", lambda *_: 1.0)
    monkeypatch.setattr(budget, "LEAST_BYTES", 1)
    array = subject.subject_of(Advise.model_validate({"file": "mine.h5::/counts"}))
    whole = reading.parse(IMAGE[1], array.axes, array.shape)
    assert math.prod(prospect.sampled(array, whole, 60.0).shape[:2]) <= budget.DECODING_SHARE * 60


def test_slow_filters_are_tried_on_fewer_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = [np.zeros((50, 400), "uint16"), counts()[0, :, :]]
    filters = filter_chains("builtin", 2)[1]
    first, both = coded(blocks[:1], filters).ratio, coded(blocks, filters).ratio
    monkeypatch.setattr(coding, "ENOUGH_S", 0.0)
    assert coded(blocks, filters).ratio == first < both


def test_of_candidates_beyond_the_size_none_is_looked_at_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Any] = []

    def sized(*given: Any) -> float:
        looked.append(given)
        return 0.0

    monkeypatch.setattr(choice, "file_bytes", sized)
    asked = Asked(Array(tuple(SHAPE), 2), [reading.Read("image", (20, 30, 1))], "any", 0.5 * 480_000)
    free = Chain((2**12,), (Coded(1.0, 0.0),))
    shapes = chunk_shapes(SHAPE, 2, [(20, 30, 1)])
    assert len(shapes) > 50 and not looked
    assert len(list(choice._sieve(asked, shapes, HDF5, (), free, DISK))) == choice.OF_A_READ
    assert not looked


# Of 2 GB.
GIGA = Array((1000, 1000, 1000), 2)


def test_more_time_measures_more_and_too_little_is_said() -> None:
    site = replace(DISK, write_s=1e-9)
    plain = [Coded(1.0, 0.0), Coded(1.0, 0.0)]
    short, long = (budget.step(seconds, 5.0, 2, plain, GIGA, site) for seconds in (60.0, 240.0))
    assert short[1] < long[1] <= 2e9 and long[0].layouts >= short[0].layouts
    quick = budget.step(60.0, 5.0, 2, plain, GIGA, replace(site, write_s=0.2e-9))
    # Today's filters may take longer to write than anything else.
    slow = budget.step(60.0, 5.0, 2, [plain[0], Coded(0.1, 1e-9, 1e-7)], GIGA, site)
    assert slow[1] < short[1] < quick[1]
    with pytest.raises(budget.TooShort, match=r"20 s are too short .* about \d+ s are needed"):
        budget.step(20.0, 5.0, 5, plain, GIGA, site)


def test_a_throttled_site_has_more_time_and_its_cells_are_counted_with_what_they_read_at_least() -> None:
    free = replace(DISK, write_s=1e-9)
    held = replace(free, bytes_per_s=50e6)
    plain = [Coded(1.0, 0.0)]
    found: dict[float, budget.Effort] = {}

    def find(seconds: float) -> None:
        found[seconds] = budget.step(seconds, 3.0, 2, plain, Array((20_000_000,), 2), held)[0]

    assert budget.limit(None, find, [free]) > budget.USUAL_S
    assert budget.limit(None, find, [free, held]) == budget.USUAL_THROTTLED_S
    effort = found[budget.USUAL_THROTTLED_S]
    cells = (effort.layouts + len(plain)) * 2 * budget.ROUNDS
    assert effort.layouts >= 3 and cells * 2.0 < budget.USUAL_THROTTLED_S
    with pytest.raises(budget.TooShort):
        budget.limit(45.0, find, [held])


def test_every_site_gets_the_time_that_the_least_takes_there() -> None:
    needs = {"near": 70.0, "far": 95.0}

    def find(seconds: float) -> None:
        for needed in needs.values():
            if seconds < needed:
                raise budget.TooShort("too short", needed)

    assert needs["far"] <= budget.limit(None, find, [replace(DISK, write_s=1e-9)]) < 1.1 * needs["far"]


def test_what_is_read_is_among_the_chunks_however_many_there_are() -> None:
    for shape, reads in (
        ((55_440, 40), [(1_109, 40)]),
        ((60,) * 5, [(7, 60, 1, 60, 13), (60, 1, 11, 17, 60)]),
    ):
        shapes = chunk_shapes(shape, 2, reads)
        for axis, size in enumerate(shape):
            assert {read[axis] for read in reads} <= set(shapes[:, axis]) | {size}
    assert len(chunk_shapes((6,) * 14, 2, [(1,) * 14])) < 2**20


def test_rounds_are_added_only_where_time_is_left() -> None:
    found = of_all("image: [all, all, 1]; spectrum: [1, 1, all]")
    reads = reading.parse("image: [all, all, 1]; spectrum: [1, 1, all]", AXES, SHAPE)
    codes = [found.codes[one.candidate] for one in found.measured]
    planned = budget.Effort(5, 7)
    site = replace(DISK, write_s=1e-9)
    turned = [budget.turning_seconds(code, 16) for code in codes]
    each = [budget.Planned(one, turning) for one, turning in zip(found.measured, turned, strict=True)]
    efforts = [
        budget.effort(left, each[:2], each[2:], reads, planned, 480_000, site)
        for left in (20.0, 30.0, 45.0, 400.0)
    ]
    assert not efforts[0][0].adaptive and efforts[0][0].layouts <= efforts[1][0].layouts
    # One or two are added where there is no time for more.
    effort, one = efforts[2]
    assert effort.most_rounds == 3 + int((45 - budget.OVERHEAD_S - budget.LOOK_S - 3 * one) / one) > 3
    assert efforts[3][0] == budget.Effort(5, 7, 3, 3 + budget.MOST_ADDED)


def test_chunks_that_are_files_are_counted_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = reading.parse("image: [all, all, 1]; spectrum: [1, 1, all]", AXES, SHAPE)
    plain = model.Predicted(Candidate(None), {read.name: 0.1 for read in reads}, 480_000.0)
    small = replace(plain, candidate=Candidate((1, 1, 4), format="zarr"))
    monkeypatch.setattr(prospect, "choose", lambda *_: choice.Choice(2, [small], [plain, small], {}, {}, 2))
    monkeypatch.setattr(prospect, "_pair", lambda *_: None)
    spec = {"axes": AXES, "shape": SHAPE, "dtype": "uint16"}

    def taking(**prices: Any) -> float:
        return prospect.foresee(
            subject.Subject("an array", spec), Advise.model_validate({"dataset": spec}), reads,
            prospect.Part(SHAPE, budget.Effort(2, 3), reads), InMemory(counts()),
            {"disk": replace(PROBE.storage, **prices)}, 1e9, lambda text: None,
        ).round_seconds  # fmt: skip

    # Each is written once, and dropped before each of four reads in either way.
    files, before = 20 * 30 * 100, taking()
    assert taking(file_s=1e-4) - before == pytest.approx(files * 1e-4)
    assert taking(evict_s=1e-5) - before == pytest.approx(files * 2 * 4 * 1e-5)


def test_what_one_of_many_files_takes_is_probed_where_zarr_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = {"latency_s": 1e-4, "waited_s": 1e-9, "ahead_s": 1e-9, "cached_s": 1e-10}
    monkeypatch.setattr(probe, "_write", lambda _: None)
    monkeypatch.setattr(probe, "_reads", lambda _: read)
    monkeypatch.setattr(probe, "_library", lambda _: {"lookup_s": 1e-6, "open_s": 1e-3})
    monkeypatch.setattr(probe, "_zarr", lambda _: {"zarr_chunk_s": 1e-4, "zarr_open_s": 1e-3})
    # However slow they are, one is written.
    for most in (probe.READING_S, 0.0):
        monkeypatch.setattr(probe, "READING_S", most)
        found = probe.storage(tmp_path, zarr=True).storage
        assert found.file_s and found.evict_s
    plain = probe.storage(tmp_path).storage
    assert plain.file_s is None and plain.evict_s is None and not list(tmp_path.iterdir())


def test_what_others_have_yet_to_write_is_no_time_of_many_small_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system is synced as a whole, with whatever anybody has written to it."""
    clock, waiting = [0], [100 * 10**9]

    def synced(_: str) -> None:
        clock[0] += waiting.pop() if waiting else 10**6

    monkeypatch.setattr(probe, "time", SimpleNamespace(perf_counter_ns=lambda: clock[0]))
    monkeypatch.setattr(probe, "FILES", 4)
    monkeypatch.setattr("hyperslab.measuring.pagecache.sync_file_system", synced)
    assert probe._files(tmp_path)["file_s"] == pytest.approx(1e-3 / 4)
