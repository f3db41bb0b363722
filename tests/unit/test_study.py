"""Studies: what a file means, and that nothing but a study or one clear line comes of any file."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from studies import BASE, changed, load, mistake

from hyperslab.layouts.chunks import automatic_chunk
from hyperslab.studies.case_kinds.kind import REPEATS
from hyperslab.studies.study import LoadedStudy
from hyperslab.validation.errors import ConfigurationError

STUDIES = Path(__file__).parents[2] / "config" / "studies"


# ---- what a study means


def test_grid_expands_to_every_combination_after_the_layouts(tmp_path: Path) -> None:
    study = load(tmp_path, BASE)
    assert list(study.layouts) == ["contiguous", "auto", "4x4x64", "1by10", "1by100", "2by10", "2by100"]
    assert study.layouts["2by10"]["chunks"] == [2, 2, 10]
    assert study.grid_values == {
        "1by10": {"m": 1, "n": 10},
        "1by100": {"m": 1, "n": 100},
        "2by10": {"m": 2, "n": 10},
        "2by100": {"m": 2, "n": 100},
    }


def test_grid_passes_on_numbers_order_filters_and_settings(tmp_path: Path) -> None:
    grid = {"name": "g{n}", "over": {"n": [8, 16]}, "chunks": ["all", 3, "n"], "order": ["z", "x", "y"]}
    more = {"filters": ["shuffle", {"gzip": 2}], "settings": {"sieve_bytes": 512}}
    study = load(tmp_path, changed("grids.0", {**grid, **more}))
    assert study.layouts["g16"]["chunks"] == [20, 3, 16]
    assert study.layouts["g8"]["order"] == ["z", "x", "y"]
    assert study.layouts["g8"]["filters"] == [{"name": "shuffle"}, {"name": "gzip", "level": 2}]
    assert study.layouts["g8"]["settings"]["sieve_bytes"] == 512
    assert study.layouts["g8"]["settings"]["chunk_cache_bytes"] == 1048576


def test_layouts_with_every_default_filled_in(tmp_path: Path) -> None:
    study = load(tmp_path, BASE)
    settings_ = {
        "chunk_cache_bytes": 1048576,
        "chunk_cache_slots": 8191,
        "chunk_cache_w0": 0.75,
        "sieve_bytes": 65536,
        "libver": "earliest",
    }
    assert study.layouts["contiguous"] == {
        "format": "hdf5",
        "chunks": None,
        "order": ["x", "y", "z"],
        "filters": [],
        "settings": settings_,
        "label": None,
    }
    assert study.layouts["auto"]["chunks"] == list(automatic_chunk((20, 30, 400), 2))


def test_automatic_chunks_are_chosen_for_the_order_on_disk(tmp_path: Path) -> None:
    content = changed("layouts.auto", {"chunks": "auto", "order": ["z", "x", "y"]})
    content["dataset"]["shape"] = [1000, 30, 4000]
    z, x, y = automatic_chunk((4000, 1000, 30), 2)
    assert load(tmp_path, content).layouts["auto"]["chunks"] == [x, y, z]
    assert [x, y, z] != list(automatic_chunk((1000, 30, 4000), 2))


def test_compact_storage_is_not_the_contiguous_layout(tmp_path: Path) -> None:
    content = changed("layouts", {"inside": {"storage": "compact"}, "plain": None, "own": {"chunks": "auto"}})
    content["dataset"]["shape"] = [4, 4, 400]
    content["cases"] = {"read": {"read": {"z": 25}, "states": ["cold", "warm", "session"]}}
    study = load(tmp_path, {**content, "grids": [], "score": None, "recommendation": {}})
    assert (study.reference("contiguous"), study.reference("auto")) == ("plain", "own")


def test_a_file_with_two_copies_is_not_the_contiguous_layout(tmp_path: Path) -> None:
    both = {"second": {"chunks": [4, 4, 64], "cases": ["read"]}}
    content = changed("layouts", {"both": both, "guessed": {"chunks": "auto", **both}, "plain": None})
    content["cases"] = {"read": {"read": {"z": 25}, "states": ["cold"]}}
    study = load(tmp_path, {**content, "grids": [], "score": None, "recommendation": {}})
    assert (study.reference("contiguous"), study.reference("auto")) == ("plain", None)


def test_automatic_chunks_with_filters_only_are_compared_with(tmp_path: Path) -> None:
    layouts = {"packed": {"chunks": "auto", "filters": [{"gzip": 4}]}, "own": {"chunks": "auto"}}
    content = {**changed("layouts", layouts), "grids": [], "score": None, "recommendation": {}}
    assert load(tmp_path, content).reference("auto") == "own"
    del content["layouts"]["own"]
    study = load(tmp_path, content)
    assert (study.reference("contiguous"), study.reference("auto")) == (None, "packed")


def test_filters_in_their_short_forms(tmp_path: Path) -> None:
    filters = ["shuffle", {"gzip": 9}, {"szip": 8}, {"name": "gzip", "level": 1}, "fletcher32"]
    study = load(tmp_path, changed("layouts.4x4x64.filters", filters))
    assert study.layouts["4x4x64"]["filters"] == [
        {"name": "shuffle"},
        {"name": "gzip", "level": 9},
        {"name": "szip", "block": 8},
        {"name": "gzip", "level": 1},
        {"name": "fletcher32"},
    ]


def test_cases_with_every_default_filled_in(tmp_path: Path) -> None:
    content = changed(
        "cases.box", {"write": {"x": 1, "z": "all"}, "repeats": {"write": 2}, "layouts": ["*by10"]}
    )
    content["cases"]["short"] = {"read": {"x": "all", "z": 5}, "shape": {"z": 200}, "repeats": {"cold": 3}}
    cases = load(tmp_path, content).cases
    assert cases["slices"]["extent"] == [20, 30, 25]
    assert cases["slices"]["repeats"] == {"cold": 7, "warm": REPEATS["warm"], "session": REPEATS["session"]}
    assert cases["slices"]["title"] == "slices"
    assert (cases["write"]["strategy"], cases["write"]["block"]) == ("chunk", None)
    assert cases["write"]["repeats"] == {"write": REPEATS["write"]}
    assert (cases["box"]["strategy"], cases["box"]["block"]) == ("box", {"x": 1, "z": "all"})
    assert (cases["box"]["repeats"], cases["box"]["layouts"]) == ({"write": 2}, ["1by10", "2by10"])
    assert (cases["short"]["shape"], cases["short"]["extent"]) == ([20, 30, 200], [20, 30, 5])
    assert cases["short"]["repeats"] == {"cold": 3, "warm": REPEATS["warm"]}
    assert cases["short"]["states"] == ["cold", "warm"]


def test_what_the_recommendation_weighs_is_measured_again_and_bounds_its_file(tmp_path: Path) -> None:
    content = changed("cases.slices.shape", {"z": 200})
    found = []
    for mix in ({}, {"slices": 2}, {"slices": 2, "write": 0}, {"slices": 2, "write": 1}):
        study = load(tmp_path, {**content, "recommendation": {"mix": mix}})
        found.append((study.read_cases(), study.recommendation_asked()["raw_bytes"]))
    # The write is of the whole array.
    assert found == [*[(["slices"], 20 * 30 * 200 * 2)] * 3, (["slices", "write"], 20 * 30 * 400 * 2)]


def test_arrays_of_cases_are_told_where_sites_differ_in_them(tmp_path: Path) -> None:
    part: dict[str, Any] = {"read": {"z": 25}, "shape": {"z": 200}}
    whole, half = 20 * 30 * 400 * 2, 20 * 30 * 200 * 2
    for case, said in (
        ({**part, "sites": ["disk"]}, {"slices": whole, "part": half}),
        (part, None),
        ({**part, "shape": {}, "sites": ["disk"]}, None),
    ):
        study = load(tmp_path, {**changed("cases.part", case), "recommendation": {}})
        assert study.recommendation_asked().get("raw_bytes_of") == said


def test_one_and_five_dimensions(tmp_path: Path) -> None:
    for axes, shape in ((["t"], [50]), (list("abcde"), [3, 4, 5, 6, 7])):
        content = {
            "title": "t",
            "dataset": {"axes": axes, "shape": shape},
            "layouts": {"c": {"chunks": [2] * len(shape)}},
            "cases": {"r": {"read": {axes[-1]: 2}}},
        }
        assert load(tmp_path, content).cases["r"]["extent"] == [*shape[:-1], 2]


def test_labels_allow_a_layout_beside_itself(tmp_path: Path) -> None:
    study = load(tmp_path, changed("layouts.again", {"chunks": [4, 4, 64], "label": "A/A"}))
    assert study.layouts["again"]["chunks"] == study.layouts["4x4x64"]["chunks"]


def test_the_published_grid() -> None:
    study = LoadedStudy(STUDIES / "openmsi-chunking.yaml")
    assert len(study.grid_values) == 42
    assert study.layouts["32x32x8192"]["chunks"] == [32, 32, 8192]
    assert study.dataset.nbytes == 2 * 10**9


# ---- a study on top of another


def save(directory: Path, name: str, content: Any) -> Path:
    file = directory / f"{name}.yaml"
    file.write_text(content if isinstance(content, str) else yaml.safe_dump(content), encoding="utf-8")
    return file


def test_a_study_that_extends_another(tmp_path: Path) -> None:
    save(tmp_path, "base", BASE)
    middle = {"extends": "base", "dataset": {"shape": [20, 30, 500]}, "repeats": {"warm": 4}, "rounds": 5}
    save(tmp_path, "middle", middle)
    top = {"extends": "middle", "title": "top", "layouts": {"mine": {"chunks": [1, 1, 1]}}}
    study = LoadedStudy(save(tmp_path, "top", {**top, "settings": {"sieve_bytes": 99}}))
    assert (study.name, study.study.title, study.study.rounds) == ("top", "top", 5)
    # Merged key by key: dataset, settings and repeats. Replaced: everything else.
    assert (study.dataset.shape, study.dataset.axes) == ([20, 30, 500], ["x", "y", "z"])
    assert study.study.repeats == {"cold": 7, "warm": 4}
    assert list(study.layouts) == ["mine", "1by10", "1by100", "2by10", "2by100"]
    assert study.layouts["mine"]["settings"]["chunk_cache_bytes"] == 1048576
    assert study.layouts["mine"]["settings"]["sieve_bytes"] == 99


def test_a_fill_does_not_stand_beside_the_donor_of_another_study(tmp_path: Path) -> None:
    save(tmp_path, "base", changed("dataset.donor", {"path": "mine.npy"}))
    mine: dict[str, Any] = {"extends": "base", "dataset": {"fill": "counts"}}
    said = "dataset.fill: the donor of base fills the array all the same; `donor: null` leaves it out"
    assert mistake(tmp_path, mine) == said
    mine["dataset"]["donor"] = None
    dataset = load(tmp_path, mine).dataset
    assert (dataset.fill, dataset.donor) == ("counts", None)
    # A donor of one's own fills the array, whatever the other study says.
    save(tmp_path, "base", changed("dataset.fill", "counts"))
    assert load(tmp_path, {"extends": "base", "dataset": {"donor": {"path": "mine.npy"}}}).dataset.donor


@pytest.mark.parametrize("name", ["nothing", "../base", "", "a\x00b", "x" * 300, 7, ["base"], None])
def test_extending_what_is_not_another_study(tmp_path: Path, name: Any) -> None:
    save(tmp_path, "base", BASE)
    text = mistake(tmp_path, {"extends": name})
    assert text.startswith("extends: ")
    assert text.endswith("is not another study; there are base")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "expected a mapping of keys to values"),
        ("[1]", "expected a mapping of keys to values"),
        (BASE.replace("rounds", "rund"), "rund: unknown key"),
        ("a: [", "not valid YAML"),
    ],
)
def test_mistakes_of_the_other_study_name_its_file(tmp_path: Path, content: str, expected: str) -> None:
    save(tmp_path, "base", content)
    with pytest.raises(ConfigurationError, match=f"base.yaml: {expected}"):
        LoadedStudy(save(tmp_path, "mine", {"extends": "base", "title": "mine"}))


# ---- anything at all


def loads_or_says_why(directory: Path, content: str | bytes) -> None:
    """Nothing but a study or a ConfigurationError of one line may come of a file."""
    try:
        load(directory, content)
    except ConfigurationError as error:
        assert len(str(error).splitlines()) == 1
        assert str(error).startswith(str(directory / "mine.yaml") + ": ")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("any")


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 50)
    | st.integers()
    | st.floats()
    | st.sampled_from(["all", "auto", "x", "z", "{m}", "{m.a[0]}", "m", "cold", "gzip", "*", "[", "a\nb", ""])
    | st.text(max_size=5)
    | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["x", "y", "z", "gzip", "name", "m", "read", "write", "case"])
            | st.text(max_size=3),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)


def places(content: Any) -> list[tuple[Any, Any]]:
    """Every (mapping or list, key or position) in a nested content."""
    pairs = (
        content.items()
        if isinstance(content, dict)
        else enumerate(content)
        if isinstance(content, list)
        else []
    )
    return [place for key, value in pairs for place in [(content, key), *places(value)]]


@settings(max_examples=100)
@given(data=st.data())
def test_values_in_the_wrong_place(directory: Path, data: st.DataObject) -> None:
    content = copy.deepcopy(yaml.safe_load(BASE))
    for _ in range(data.draw(st.integers(1, 3))):
        container, key = data.draw(st.sampled_from(places(content)))
        if key in (container if isinstance(container, dict) else range(len(container))):
            container[key] = data.draw(VALUES)
    loads_or_says_why(directory, yaml.safe_dump(content, allow_unicode=True))


@settings(max_examples=100)
@given(data=st.data())
def test_mangled_text(directory: Path, data: st.DataObject) -> None:
    text = BASE
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        stop = data.draw(st.integers(start, min(len(text), start + 12)))
        insert = data.draw(st.text(st.sampled_from("{}[]:,#&*!|>'\"%@`\n\t- ?ax09.\x00é"), max_size=6))
        text = text[:start] + insert + text[stop:]
    loads_or_says_why(directory, text)


@given(content=st.binary(max_size=40))
def test_any_bytes(directory: Path, content: bytes) -> None:
    loads_or_says_why(directory, content)
