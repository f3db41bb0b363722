"""Which layout a user's file gets, and what is refused before anything runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import yaml
from studies import BASE, load

from hyperslab.rewriting import RewriteError, choice
from hyperslab.rewriting.recommended import picked
from hyperslab.studies import advised
from hyperslab.studies.study import LoadedStudy
from hyperslab.validation.errors import ConfigurationError

SHAPE = (20, 30, 4000)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("counts", SHAPE, "u2", chunks=(1, 1, 4000))
        file["flat"] = np.arange(10)
    return path


def study(directory: Path, own: Path | str | None, **changed: Any) -> LoadedStudy:
    """The base study on a user's file, with other layouts or grids."""
    content = yaml.safe_load(BASE) | changed
    if own is not None:
        content["dataset"]["donor"] = {"path": str(own), "dataset": "counts"}
    return load(directory, content)


def test_a_named_layout_is_what_the_study_says(tmp_path: Path, own: Path) -> None:
    offered = choice.offered(study(tmp_path, own), "4x4x64")
    settings = {"libver": "earliest"}
    assert offered == {
        "4x4x64": {"chunks": [4, 4, 64], "filters": [], "compact": False, "settings": settings}
    }


DEEP = {"format": "zarr", "chunks": [4, 4, "all"], "shards": [8, 8, 400], "codecs": [{"zstd": 3}]}


def test_a_zarr_layout_is_for_a_directory(tmp_path: Path, own: Path) -> None:
    layouts = {"deep": DEEP, "4x4x64": {"chunks": [4, 4, 64]}}
    loaded = study(tmp_path, own, layouts=layouts, grids=[], tradeoff=[], score=None)
    with pytest.raises(ConfigurationError, match="layouts.deep: is stored as Zarr: .* ends in .zarr"):
        choice.check(loaded, "deep")
    with pytest.raises(ConfigurationError, match="layouts.4x4x64: is stored as HDF5: .* ends in .h5"):
        choice.check(loaded, "4x4x64", choice.ZARR)
    # 400 is no multiple of all 4,000 of the real dataset.
    with pytest.raises(ConfigurationError, match="layouts.deep: .*multiple of the chunks"):
        choice.check(loaded, "deep", choice.ZARR)


def test_of_recommended_layouts_those_of_another_format_are_left_out(tmp_path: Path, own: Path) -> None:
    layouts = {"deep": {**DEEP, "shards": None}, "4x4x64": {"chunks": [4, 4, 64]}}
    loaded = study(tmp_path, own, layouts=layouts, grids=[], tradeoff=[], score=None)
    offered = choice.offered(loaded, choice.RECOMMENDED, choice.ZARR)
    assert offered["deep"] == {
        "format": "zarr", "chunks": [4, 4, "all"], "shards": None, "codecs": [{"name": "zstd", "level": 3}],
        "settings": {}, "axes": ["x", "y", "z"],
    }  # fmt: skip
    assert offered["4x4x64"] == "is stored as HDF5: name a result that ends in .h5"
    said = choice.check(loaded, choice.RECOMMENDED, choice.ZARR)
    assert said is not None and "cannot get 4x4x64 (is stored as HDF5" in said


def test_all_of_an_axis_is_all_of_the_real_dataset(tmp_path: Path, own: Path) -> None:
    layouts = {"spectra": {"chunks": [2, 2, "all"], "filters": ["shuffle", {"gzip": 1}]}}
    grids = [{"name": "{m}", "over": {"m": [3]}, "chunks": ["m", "m", "all"]}]
    loaded = study(tmp_path, own, layouts=layouts, grids=grids, tradeoff=[], score=None)
    assert choice.offered(loaded, "spectra")["spectra"]["chunks"] == [2, 2, "all"]
    assert choice.offered(loaded, "3")["3"]["chunks"] == [3, 3, "all"]
    choice.check(loaded, "spectra")


def test_todays_layout_has_the_chunks_of_the_file_and_not_those_that_advice_measured(
    tmp_path: Path, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    layouts = {"as-it-is": {"chunks": [1, 1, 400]}, "4x4x64": {"chunks": [4, 4, 64]}}
    loaded = study(tmp_path, own, layouts=layouts, grids=[])
    told = advised.prediction(loaded.name)
    told.parent.mkdir(parents=True)
    for shorter, chunks in ((False, [1, 1, 400]), (True, [1, 1, 4000])):
        said = {"today": "as-it-is", "shorter_chunks": shorter, "own_chunks": [1, 1, 4000]}
        told.write_text(json.dumps(said))
        assert choice.offered(loaded, "as-it-is")["as-it-is"]["chunks"] == chunks
        assert choice.offered(loaded, choice.RECOMMENDED)["4x4x64"]["chunks"] == [4, 4, 64]


def test_settings_that_shape_files_come_along(tmp_path: Path, own: Path) -> None:
    layouts = {
        "new": {
            "chunks": [2, 2, 2],
            "settings": {"libver": "v110", "sieve_bytes": 4096, "alloc_time": "early"},
        }
    }
    loaded = study(tmp_path, own, layouts=layouts)
    assert choice.offered(loaded, "new")["new"]["settings"] == {"libver": "v110", "alloc_time": "early"}


LAYOUTS = {
    "other order": (
        {"chunks": [4, 4, 4], "order": ["z", "x", "y"]},
        "stores the axes as z, x, y; a rewritten",
    ),
    "changed values": (
        {"chunks": [4, 4, 4], "filters": [{"scaleoffset": {"bits": 4}}]},
        "scaleoffset may change values",
    ),
    "another release": ({"chunks": [4, 4, 4], "release": "1.12"}, "is written by HDF5 1.12"),
    "contiguous": ({}, None),
}


@pytest.mark.parametrize("what", LAYOUTS)
def test_layouts_that_a_file_cannot_get(tmp_path: Path, own: Path, what: str) -> None:
    layout, said = LAYOUTS[what]
    loaded = study(tmp_path, own, layouts={"a": layout, "4x4x64": {"chunks": [4, 4, 64]}})
    if said is None:
        choice.check(loaded, "a")
        return
    with pytest.raises(ConfigurationError, match=f"mine.yaml: layouts.a: {said}"):
        choice.check(loaded, "a")
    # Only where it is recommended does it matter.
    choice.check(loaded, choice.RECOMMENDED)
    assert str(choice.offered(loaded, choice.RECOMMENDED)["a"]).startswith(said[:20])


def test_what_does_not_fit_the_real_dataset(tmp_path: Path, own: Path) -> None:
    loaded = study(tmp_path, own)
    for wrong, said in (
        (own.with_name("none.h5"), "unable to open|Unable to"),
        (own, r"own.h5: counts: has 1 axes \(10,\), the chunk \[4, 4, 64\] has 3"),
    ):
        if wrong == own:
            with h5py.File(own, "r+") as file:
                del file["counts"]
                file["counts"] = file["flat"]
        loaded = study(tmp_path, wrong)
        with pytest.raises(ConfigurationError, match=said):
            choice.check(loaded, "4x4x64")


def test_a_study_without_a_file_of_the_users(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="dataset.donor: is missing; it names the file to rewrite"):
        choice.check(study(tmp_path, None), "4x4x64")
    other = tmp_path / "a.npy"
    np.save(other, np.arange(3))
    with pytest.raises(ConfigurationError, match="of an HDF5 file can be rewritten, not .*a.npy"):
        choice.check(study(tmp_path, other), "4x4x64")


@pytest.mark.parametrize("name", ["own.nxs", "own.he5", "own", "own.npy"])
def test_a_file_is_hdf5_by_its_content(tmp_path: Path, own: Path, name: str) -> None:
    choice.check(study(tmp_path, own.rename(tmp_path / name)), "4x4x64")


def test_an_unknown_layout(tmp_path: Path, own: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no layout '4x4'; there are .*4x4x64, .*recommended"):
        choice.check(study(tmp_path, own), "4x4")


def entry(site: str, pick: str | None, reason: str | None = None) -> dict[str, Any]:
    return {"site": site, "pick": pick, "reason": reason}


# Layouts that a file can get.
HAD: dict[str, Any] = {"a": {}, "b": {}}


def test_sites_that_agree_need_no_choice() -> None:
    recommendation = {"sites": [entry("disk", "a"), entry("memory", "a")]}
    assert picked(recommendation, None, "r.json", HAD) == ("a", None)


def test_sites_that_differ_need_one() -> None:
    recommendation = {"sites": [entry("disk", "a"), entry("memory", "b")]}
    with pytest.raises(RewriteError) as error:
        picked(recommendation, None, "r.json", HAD)
    assert str(error.value) == "r.json: recommends a at disk, b at memory; choose with --config site=NAME"
    assert picked(recommendation, "memory", "r.json", HAD) == ("b", None)


@pytest.mark.parametrize(
    ("sites", "site", "said"),
    [
        ([entry("disk", None, "no layout fits")], None, "r.json: recommends nothing at disk: no layout fits"),
        ([entry("disk", "a")], "moon", "r.json: has nothing on site moon; it has disk"),
        ([], None, "r.json: is empty"),
    ],
)
def test_where_nothing_is_recommended(sites: list[dict[str, Any]], site: str | None, said: str) -> None:
    with pytest.raises(RewriteError) as error:
        picked({"sites": sites}, site, "r.json", HAD)
    assert str(error.value) == said


def test_of_layouts_that_a_file_cannot_get_the_next_that_it_can_is_taken() -> None:
    ranking = [{"layout": name, "fits": name != "large"} for name in ("a", "large", "gone", "b", "c")]
    recommendation = {"sites": [entry("disk", "a") | {"ranking": ranking}]}
    layouts = {"a": "can grow", "large": {}, "b": {}, "c": {}}
    name, said = picked(recommendation, None, "r.json", layouts)
    assert name == "b"
    assert said == "a is recommended, which the file cannot get (can grow): b is the best of the others"
    with pytest.raises(RewriteError, match="recommends a, but can grow"):
        picked(recommendation, None, "r.json", {"a": "can grow"})


def growing(directory: Path, own: Path, layouts: dict[str, Any]) -> LoadedStudy:
    """A study on a dataset that can grow."""
    with h5py.File(own, "r+") as file:
        del file["counts"]
        file.create_dataset("counts", SHAPE, "u2", chunks=(1, 1, 4000), maxshape=(None, 30, 4000))
    return study(directory, own, layouts=layouts, grids=[], tradeoff=[], score=None)


def test_a_second_copy_without_a_place_is_refused_before_anything_runs(tmp_path: Path, own: Path) -> None:
    layouts = {
        "pair": {"chunks": [4, 4, 64], "second": {"chunks": [8, 8, 1], "cases": ["slices"]}},
        "4x4x64": {"chunks": [4, 4, 64]},
    }
    cases = {"slices": {"read": {"z": 25}, "states": ["cold"]}}
    loaded = study(tmp_path, own, layouts=layouts, cases=cases, grids=[], tradeoff=[], score=None)
    assert choice.check(loaded, "pair") is None
    with h5py.File(own, "r+") as file:
        file["counts-second"] = h5py.SoftLink("/gone")
    said = "has /counts-second already, where the second copy would stand; rename or delete that"
    with pytest.raises(ConfigurationError, match=f"layouts.pair: .*own.h5: counts: {said}"):
        choice.check(loaded, "pair")
    # Should it be recommended, the next best is taken.
    other = choice.check(loaded, choice.RECOMMENDED)
    assert other is not None and f"cannot get pair (counts: {said})" in other


def test_what_a_growing_dataset_cannot_get_is_said_before(tmp_path: Path, own: Path) -> None:
    loaded = growing(tmp_path, own, {"whole": None, "4x4x64": {"chunks": [4, 4, 64]}})
    said = choice.check(loaded, choice.RECOMMENDED)
    assert said == (
        "mine: the file cannot get whole (counts: can grow, which a contiguous layout cannot; choose a "
        "layout with chunks); should one of these win, the best of the others is taken"
    )
    assert isinstance(choice.offered(loaded, choice.RECOMMENDED)["4x4x64"], dict)
    assert choice.check(loaded, "4x4x64") is None
    with pytest.raises(ConfigurationError, match="layouts.whole: .*can grow"):
        choice.check(loaded, "whole")


def test_where_a_growing_dataset_can_get_no_layout_nothing_is_measured(tmp_path: Path, own: Path) -> None:
    turned = {"chunks": [4, 4, 64], "order": ["z", "x", "y"]}
    loaded = growing(tmp_path, own, {"whole": None, "turned": turned})
    said = "can get none of them: turned: stores the axes as z, x, y.*; whole: counts: can grow"
    with pytest.raises(ConfigurationError, match=said):
        choice.check(loaded, choice.RECOMMENDED)


def test_a_file_is_not_written_over_itself(
    tmp_path: Path, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier result that is given a new layout may be the only copy."""
    monkeypatch.chdir(tmp_path)
    earlier = tmp_path / "results" / "mine" / "layout" / "4x4x64.h5"
    earlier.parent.mkdir(parents=True)
    own.rename(earlier)
    loaded = study(tmp_path, earlier)
    with pytest.raises(ConfigurationError, match="dataset.donor: .*4x4x64.h5 would itself be written over"):
        choice.check(loaded, "4x4x64")
    assert choice.check(loaded, "contiguous") is None


def test_which_targets_may_measure(tmp_path: Path, own: Path) -> None:
    loaded = study(tmp_path, own)
    named, recommended = "results/mine/layout/4x4x64.h5", "results/mine/layout/recommended.h5"
    assert not choice.measures(loaded, [named, "results/other/report.html"])
    assert choice.measures(loaded, [named, recommended])
    assert choice.measures(loaded, [named, "results/mine/report.html"])
    assert choice.measures(loaded, [])
    assert choice.targets([named, "results/mine/report.html"]) == [("mine", "4x4x64", ".h5")]
    assert choice.targets(["results/mine/layout/deep.zarr"]) == [("mine", "deep", ".zarr")]
