"""Mistakes in studies: one clear line each, with the file, the path in it, and what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from studies import BASE, changed, load, mistake

from hyperslab.studies.study import LoadedStudy
from hyperslab.validation import yaml_files
from hyperslab.validation.errors import ConfigurationError
from hyperslab.validation.yaml_files import read_yaml

LAYOUT_KEYS = (
    "format, label, files, chunks, order, filters, settings, storage, netcdf, release, pyramid, second"
)
CASE_KEYS = (
    "title, read, write, read_rows, write_rows, rewrite_rows, follow_rows, objects, reduce, parallel, "
    "subvolumes, resolution, summaries, open_all, clients, requests, processes, ranks, dask, split, "
    "fetch, ahead, node_memory_bytes, pattern, memory_dtype, level, picture, states, repeats, layouts, "
    "shape, sites"
)
CHUNKS = (
    "a list with an extent or 'all' for each axis, 'auto', 'unidata' or {unidata: BYTES}, the most of a chunk"
)
WRITES = (
    "one of whole, chunk, spectrum, spectra-block, or a mapping of axes to extents, 'all' or 'chunk', "
    "such as {x: 1, y: chunk, z: all}"
)
NAMES = "should begin with a letter or digit and consist of letters, digits and _ . + -"

MISSPELT = {
    "rund": "rund: unknown key; allowed are title, source, dataset, settings, layouts, grids, cases, sites, "
    "sites_file, rounds, repeats, seed, score, recommendation, tradeoff, claims, keep_claims, published, "
    "prices, shared_files, reader",
    "dataset.shap": "dataset.shap: unknown key; allowed are axes, shape, dtype, fill, donor, rows, "
    "missing, collection",
    "settings.chunk_cache": "settings.chunk_cache: unknown key; allowed are chunk_cache_bytes, "
    "chunk_cache_slots, chunk_cache_w0, sieve_bytes, libver, meta_block_bytes, metadata_cache, "
    "conversion_buffer_bytes, alloc_time, fill_time, alignment, driver, paging, garbage_collect_every",
    "layouts.4x4x64.chunk": f"layouts.4x4x64.chunk: unknown key; allowed are {LAYOUT_KEYS}",
    "grids.0.ovr": f"grids.0.ovr: unknown key; allowed are name, over, {LAYOUT_KEYS}",
    "cases.slices.reed": f"cases.slices.reed: unknown key; allowed are {CASE_KEYS}",
    # A case may be called like a key.
    "cases.write.wriet": f"cases.write.wriet: unknown key; allowed are {CASE_KEYS}",
    "score.targt": "score.targt: unknown key; allowed are criteria, published, target",
    "score.criteria.0.belw": "score.criteria.0.belw: unknown key; allowed are case, state, statistic, below, "
    "title",
    "recommendation.size_buond": "recommendation.size_buond: unknown key; allowed are mix, imperceptible_ms, "
    "states, size_bound, lossy, copies, mixed, confirm_rounds, quoted, excluded",
}


MEANT = {
    "rund": "rounds",
    "dataset.shap": "shape",
    "settings.chunk_cache": "chunk_cache_bytes",
    "layouts.4x4x64.chunk": "chunks",
    "grids.0.ovr": "over",
    "cases.slices.reed": "read",
    "cases.write.wriet": "write",
    "score.targt": "target",
    "score.criteria.0.belw": "below",
    "recommendation.size_buond": "size_bound",
}


@pytest.mark.parametrize("path", MISSPELT)
def test_misspelt_keys_at_each_level(tmp_path: Path, path: str) -> None:
    said, _, meant = mistake(tmp_path, changed(path, 1)).partition("; did you mean ")
    assert said == MISSPELT[path]
    assert meant.endswith(f"{MEANT[path]}?")


def test_misspelt_key_is_named_before_what_it_leaves_out(tmp_path: Path) -> None:
    content = changed("dataset.axis", ["x", "y", "z"])
    del content["dataset"]["axes"]
    assert mistake(tmp_path, content).startswith("dataset.axis: unknown key")


def test_misspelt_keys_of_inner_mappings(tmp_path: Path) -> None:
    content = changed("layouts.4x4x64.settings", {"sieve": 1})
    assert mistake(tmp_path, content).startswith(
        "layouts.4x4x64.settings.sieve: unknown key; allowed are chunk_ca"
    )
    content = changed("layouts.4x4x64.filters", [{"name": "gzip", "levl": 1}])
    assert mistake(tmp_path, content) == (
        "layouts.4x4x64.filters.0.levl: unknown key; allowed are name, level, block, coding, bits, digits, "
        "codec, shuffle, accuracy, precision, rate, reversible, absolute, psnr; did you mean level?"
    )
    content = changed("dataset.donor", {"path": "a.npy", "dtaset": "b"})
    assert mistake(tmp_path, content) == (
        "dataset.donor.dtaset: unknown key; allowed are path, dataset, window, offsets, lengths; "
        "did you mean dataset?"
    )


WRONG: list[tuple[str, Any, str]] = [
    # required
    ("title", ..., "title: this key is required"),
    ("dataset.axes", ..., "dataset.axes: this key is required"),
    ("score.criteria.0.below", ..., "score.criteria.0.below: this key is required"),
    ("cases", {}, "cases: Dictionary should have at least 1 item after validation, not 0"),
    # types
    ("title", 3, "title: should be a valid string, not 3"),
    ("rounds", "three", "rounds: should be a valid integer, not 'three'"),
    ("rounds", True, "rounds: should be a valid integer, not True"),
    ("rounds", 2.5, "rounds: should be a valid integer, not 2.5"),
    ("rounds", 0, "rounds: should be greater than 0, not 0"),
    ("seed", "one", "seed: should be a valid integer, not 'one'"),
    ("dataset", [1], "dataset: should be a mapping of keys to values"),
    ("dataset.shape", 3, "dataset.shape: should be a valid list, not 3"),
    ("dataset.shape.1", 0, "dataset.shape.1: should be greater than 0, not 0"),
    ("layouts", ["contiguous"], "layouts: should be a mapping of keys to values"),
    ("layouts.auto", "auto", "layouts.auto: should be a mapping of keys to values, not 'auto'"),
    ("cases.slices", None, "cases.slices: should be a mapping of keys to values"),
    ("score.criteria.0.below", "fast", "score.criteria.0.below: should be a valid number, unable to parse"),
    ("sites", "disk", "sites: expected a list of names of sites, or 'all', not 'disk'"),
    # one of a few words
    (
        "dataset.dtype",
        "uint17",
        "dataset.dtype: should be 'uint8', 'uint16', 'uint32', 'uint64', 'int8', 'int16', ",
    ),
    ("dataset.fill", "random", "dataset.fill: should be 'mixed', 'constant-per-spectrum', "),
    (
        "cases.slices.states",
        ["hot"],
        "cases.slices.states.0: should be 'cold', 'warm' or 'session', not 'hot'",
    ),
    ("repeats.hot", 3, "repeats.hot: should be 'cold', 'warm', 'session' or 'write', not 'hot'"),
    (
        "layouts.auto.format",
        "tiff",
        "layouts.auto.format: should be 'hdf5' or 'zarr' or 'idx' or 'hdf5-s3' or ",
    ),
    (
        "settings.libver",
        "v9",
        "settings.libver: should be 'earliest', 'v108', 'v110', 'v112', 'v114' or 'latest', n",
    ),
    # names
    ("layouts.a/b", None, f"layouts.a/b: {NAMES}, not 'a/b'"),
    ("cases", {"..": {"write": "whole"}}, f"cases...: {NAMES}, not '..'"),
    ("layouts", {7: None}, "layouts.7: should be a valid string, not 7"),
    ("grids.0.name", "{m}/{n}", f"grids.0.name: {NAMES}, not '1/10'"),
    # dataset
    (
        "dataset.axes",
        ["x", "y"],
        "dataset: axes ['x', 'y'] and shape [20, 30, 400] need one distinct name an axis",
    ),
    ("dataset.axes", ["x", "y", "x"], "dataset: axes ['x', 'y', 'x'] and shape"),
    (
        "dataset.shape",
        [10**12] * 3,
        "dataset: shape [1000000000000, 1000000000000, 1000000000000] is beyond any",
    ),
    ("dataset.donor", {"path": "a.npy", "window": [1]}, "dataset: donor.window needs 3 extents, one an axis"),
    # chunks, in each of the forms that they may have
    ("layouts.auto.chunks", "autos", f"layouts.auto.chunks: expected {CHUNKS}, not 'autos'"),
    ("layouts.auto.chunks", 4, f"layouts.auto.chunks: expected {CHUNKS}, not 4"),
    ("layouts.auto.chunks", {"x": 4}, f"layouts.auto.chunks.x: expected {CHUNKS}"),
    ("layouts.auto.chunks", [4, 4, "al"], f"layouts.auto.chunks.2: expected {CHUNKS}, not 'al'"),
    ("layouts.auto.chunks", [4, 0, 64], f"layouts.auto.chunks.1: expected {CHUNKS}, not 0"),
    (
        "layouts.auto.chunks",
        [4, 64],
        "layouts.auto.chunks: [4, 64] needs 3 extents, one for each of ['x', 'y', 'z']",
    ),
    (
        "layouts.auto.chunks",
        [4, 4, 401],
        "layouts.auto.chunks: [4, 4, 401] is larger than the array [20, 30, 400]",
    ),
    (
        "layouts.auto.order",
        ["x", "z"],
        "layouts.auto.order: ['x', 'z'] must name each of ['x', 'y', 'z'] once",
    ),
    ("layouts.auto.order", ["x", "x", "z"], "layouts.auto.order: ['x', 'x', 'z'] must name each of"),
    # filters
    (
        "layouts.auto.filters",
        ["gzp"],
        "layouts.auto.filters.0: should be 'gzip', 'shuffle', 'fletcher32', 'lzf', 'szip', 'nbit'",
    ),
    (
        "layouts.auto.filters",
        [{"gzip": 11}],
        "layouts.auto.filters.0: gzip's level should be 0 to 9, not 11",
    ),
    (
        "layouts.auto.filters",
        ["shuffle", {"lzf": 1}],
        "layouts.auto.filters.1: lzf has no level; it has no parameter",
    ),
    (
        "layouts.auto.filters",
        [{"szip": 5}],
        "layouts.auto.filters.0: szip's block should be even, 2 to 32, not 5",
    ),
    ("layouts.auto.filters", "gzip", "layouts.auto.filters: should be a valid list, not 'gzip'"),
    (
        "layouts.contiguous",
        {"filters": ["gzip"]},
        "layouts.contiguous.filters: filters need chunks; a contiguous",
    ),
    (
        "layouts.auto",
        {"chunks": [1, 1, 6], "filters": [{"szip": 8}]},
        "layouts.auto.filters: szip cannot treat chunks of [1, 1, 6]: they are smaller than its block, 8",
    ),
    (
        "layouts.auto",
        {"chunks": [1, 1, 15], "filters": ["szip"]},
        "layouts.auto.filters: szip cannot treat chunks of [1, 1, 15]: they are smaller than its block, 16",
    ),
    # duplicate layouts
    (
        "layouts.twin",
        {"chunks": [4, 4, 64]},
        "layouts.twin: duplicate layout: the same as '4x4x64' (give it a `label`",
    ),
    ("layouts.twin", None, "layouts.twin: duplicate layout: the same as 'contiguous' (give it a `label`"),
    (
        "layouts.1by10",
        {"chunks": [1, 2, 3]},
        "grids.0.name: duplicate layout '1by10'; every layout needs its own",
    ),
    ("grids.0.name", "grid", "grids.0.name: duplicate layout 'grid'; every layout needs its own name"),
    # grids
    ("grids.0.name", "{m}by{k}", "grids.0.name: only {m}, {n} can be filled in"),
    ("grids.0.name", "{m.real}{n[0]}{}", "grids.0.name: only {m}, {n} can be filled in"),
    ("grids.0.chunks", ["m", "m", "k"], "grids.0.chunks: unknown variable 'k'; `over` has m, n"),
    ("grids.0.chunks", ["m", "n"], "grids.0 (1by10).chunks: [1, 10] needs 3 extents"),
    ("grids.0.over", {"m": [1], "n": [500]}, "grids.0 (1by500).chunks: [1, 1, 500] is larger than the array"),
    ("grids.0.over.m", [], "grids.0.over.m: List should have at least 1 item"),
    ("grids.0.over.m", [1, "two"], "grids.0.over.m.1: should be a valid integer, not 'two'"),
    # settings
    ("settings.sieve_bytes", -1, "settings.sieve_bytes: should be greater than 0, not -1"),
    ("layouts.auto.settings", {"libver": 1}, "layouts.auto.settings.libver: should be 'earliest', 'v108'"),
    # selections
    ("cases.slices.read", {"w": 3}, "cases.slices.read.w: no such axis; the dataset has x, y, z"),
    ("cases.slices.read", {"z": 401}, "cases.slices.read.z: extent 401 does not fit: axis z has 400"),
    (
        "cases.slices.read",
        {"z": "al"},
        "cases.slices.read.z: expected a mapping of axes to extents, 'all' or {extent, step,",
    ),
    (
        "cases.slices.read",
        [25],
        "cases.slices.read: expected a mapping of axes to extents, 'all' or {extent, step,",
    ),
    ("cases.slices.shape", {"z": 401}, "cases.slices.shape.z: not an axis, or longer than the array's"),
    ("cases.slices.shape", {"w": 4}, "cases.slices.shape.w: not an axis, or longer than the array's"),
    ("cases.slices.shape", {"z": 24}, "cases.slices.read.z: extent 25 does not fit: axis z has 24"),
    (
        "cases.slices.shape",
        {"z": 63},
        "cases.slices.shape: the chunks [4, 4, 64] of 4x4x64 do not fit [20, 30, 63]",
    ),
    (
        "cases.slices.states",
        [],
        "cases.slices: states: each of cold, warm, session at most once, at least one",
    ),
    (
        "cases.slices.states",
        ["cold", "cold"],
        "cases.slices: states: each of cold, warm, session at most once",
    ),
    ("cases.slices.layouts", ["5*"], "cases.slices.layouts: '5*' matches no layout of this study"),
    (
        "cases.slices.write",
        "whole",
        "cases.slices: a case has either `read` (a selection), `write` (a strategy), `objects` (",
    ),
    (
        "cases.slices.read",
        ...,
        "cases.slices: a case has either `read` (a selection), `write` (a strategy), `objects` (",
    ),
    # write strategies
    ("cases.write.write", "hole", f"cases.write.write: expected {WRITES}, not 'hole'"),
    ("cases.write.write", "raw", f"cases.write.write: expected {WRITES}, not 'raw'"),
    ("cases.write.write", {"x": "hole"}, f"cases.write.write.x: expected {WRITES}, not 'hole'"),
    ("cases.write.write", ["x"], f"cases.write.write: expected {WRITES}"),
    ("cases.write.write", {"x": 21}, "cases.write.write.x: extent 21 does not fit: axis x has 20"),
    ("cases.write.write", {"w": 2}, "cases.write.write.w: no such axis; the dataset has x, y, z"),
    # names of cases
    ("score.criteria.0.case", "slice", "score.criteria.0.case: no case 'slice'; the study has slices, write"),
    (
        "score.criteria.0.state",
        "write",
        "score.criteria.0.case: case 'slices' is not measured in state 'write'",
    ),
    (
        "recommendation.mix",
        {"sices": 1},
        "recommendation.mix: no case 'sices'; the study has slices, write",
    ),
    (
        "recommendation.mix",
        {"slices": -1},
        "recommendation.mix.slices: should be greater than or equal to 0",
    ),
    (
        "recommendation.mix",
        {"slices": 0},
        "recommendation.mix: all are zero: nothing is left to judge by",
    ),
    ("tradeoff", ["slices"], "tradeoff: names two read cases, one for each axis of its figure"),
    ("tradeoff", ["slices", "write"], "tradeoff: 'write' is not a read case of this study"),
]


@pytest.mark.parametrize(("path", "value", "expected"), WRONG, ids=lambda part: str(part)[:40])
def test_mistakes_are_one_line_with_path_and_what_is_allowed(
    tmp_path: Path, path: str, value: Any, expected: str
) -> None:
    assert mistake(tmp_path, changed(path, value))[: len(expected)] == expected


def test_a_state_that_counts_is_measured(tmp_path: Path) -> None:
    content = changed("recommendation.states", ["cold", "warm"])
    content["cases"]["slices"]["states"] = ["cold", "session"]
    assert mistake(tmp_path, content) == "recommendation.states: no case is measured in state 'warm'"


def test_a_study_without_layouts(tmp_path: Path) -> None:
    content = changed("layouts", {})
    del content["grids"]
    assert (
        mistake(tmp_path, content)
        == "layouts: a study needs at least one layout (under `layouts` or `grids`)"
    )


def test_a_chunk_of_4_gib(tmp_path: Path) -> None:
    content = changed("dataset.shape", [2**16, 2**15, 400])
    content["layouts"] = {"large": {"chunks": ["all", "all", 1]}}
    assert mistake(tmp_path, content).startswith("layouts.large.chunks: [65536, 32768, 1] has 4 GiB or more")


def test_long_values_are_cut(tmp_path: Path) -> None:
    text = mistake(tmp_path, changed("rounds", "many " * 1000))
    assert text.startswith("rounds: should be a valid integer, not 'many many")
    assert len(text) < 120


def test_line_breaks_in_keys_and_values_stay_out_of_the_line(tmp_path: Path) -> None:
    assert mistake(tmp_path, changed("cases.slices.a\nb", 1)).startswith("cases.slices.a b: unknown key")
    assert mistake(tmp_path, changed("dataset.dtype", "a\nb")).endswith("not 'a\\nb'")


# ---- files that are no studies

FILES = {
    "": "expected a mapping of keys to values",
    "# nothing but a remark\n": "expected a mapping of keys to values",
    "- 1\n- 2\n": "expected a mapping of keys to values",
    "title": "expected a mapping of keys to values",
    "a: [": "not valid YAML: expected the node content, but found '<stream end>' (line 1, column 5)",
    "a: b: c\n": "not valid YAML: mapping values are not allowed here (line 1, column 5)",
    "a: *b\n": "not valid YAML: found undefined alias 'b' (line 1, column 4)",
    "a: 1\n--- \nb: 1\n": "not valid YAML: but found another document (line 2, column 1)",
    "a: !!python/object:os.system x": "not valid YAML: could not determine a constructor for the tag",
    "? [1]\n: 2": "not valid YAML: found unhashable key (line 1, column 3)",
    "a: 2001-13-45": "not valid YAML: month must be in 1..12",
    "a: !!bool perhaps": "not valid YAML: 'perhaps'",
    "a: !!int b": "not valid YAML: invalid literal for int()",
    "a: \x07": "not valid YAML: unacceptable character #x0007",
    # Two calls of PyYAML each, and Python allows a thousand.
    "[" * 600: "not valid YAML: nested too deeply",
    "a: &a [*a]": "a: unknown key",
    "dataset: &a {axes: *a, shape: *a}": "dataset.axes: should be a valid list",
}


@pytest.mark.parametrize("text", FILES, ids=lambda text: text[:20])
def test_files_that_are_not_studies(tmp_path: Path, text: str) -> None:
    content = text if "dataset" not in text else text + "\ntitle: t\ncases: {w: {write: whole}}"
    assert mistake(tmp_path, content).startswith(FILES[text])


# Scalars of every style and type, and nodes that are used twice.
TEXTS = (
    "a: 'it''s'\nb: \"\\u00e9 \\t\"\nc: plain # remark\nd: ~\ne:\nü: ß\n",
    "[0200, 1:30]",
    "[1, -1, +1, 0x1F, 1_000, 1e3, 1.5e3, .5, .inf, yes, No, null, 2026-11-28, '2']",
    "a: |\n  x\n   y\n\nb: >-\n  x\n  y\nc: x\n  y\n",
    '{a: b:c, http://d: e, ? f : g, h, "i":j}',
    "a: &x {b: [1, 2]}\nc: *x\nd: {<<: *x, e: 3}\n- \n",
    "a: &x {b: [1, 2]}\nc: *x\nd: {<<: *x, e: 3}\n",
    "%YAML 1.1\n---\n- !!str 1\n- !!float 2\n- - 3\n  - {}\n...\n",
    "\ufeffa: \U0001f600\n",
)


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_read_as_pyyaml_alone_reads_it(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def read() -> Any:
        yaml_files._content.cache_clear()
        try:
            return yaml_files.parsed(text, Path("mine.yaml"))
        except ConfigurationError as error:
            return str(error)

    assert yaml.__with_libyaml__
    found = read()
    monkeypatch.setattr(yaml, "__with_libyaml__", False)
    assert found == read()


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    assert mistake(tmp_path, b"title: \xff\xfe").startswith("not valid YAML: 'utf-8' codec can't decode")


def test_a_file_that_is_not_there_and_a_directory(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none\.yaml: there is no such file$"):
        LoadedStudy(tmp_path / "none.yaml")
    with pytest.raises(ConfigurationError, match="cannot be read: Is a directory$"):
        LoadedStudy(tmp_path)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("title: again\n", "title: this key is given twice, in lines 2 and 21"),
        ("zz: {a: 1, b: {c: 1, c: 2}}\n", "zz.b.c: this key is given twice, in lines 21 and 21"),
        ("zz: [1, {'a': 1, a: 2}]\n", "zz.1.a: this key is given twice, in lines 21 and 21"),
    ],
)
def test_keys_given_twice(tmp_path: Path, more: str, expected: str) -> None:
    assert mistake(tmp_path, BASE + more) == expected


def test_a_layout_given_twice(tmp_path: Path) -> None:
    text = BASE.replace("  auto: {chunks: auto}\n", "  auto: {chunks: auto}\n  auto: {chunks: [1, 1, 1]}\n")
    assert mistake(tmp_path, text) == "layouts.auto: this key is given twice, in lines 7 and 8"


def test_a_text_is_parsed_once_and_each_reader_has_its_own_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (("one", "a: [1, {b: 2}]  # of this test alone\n"), ("two", "a: 1\na: 2\n")):
        for copy in ("first", "second"):
            (tmp_path / f"{name}-{copy}.yaml").write_text(text)
    read_yaml(tmp_path / "one-first.yaml")["a"][1]["b"] = 3
    with monkeypatch.context() as patched:
        patched.setattr(yaml, "SafeLoader", None)
        assert read_yaml(tmp_path / "one-second.yaml") == {"a": [1, {"b": 2}]}
    # A mistake is one of the file in which it was found.
    for copy in ("first", "second"):
        file = tmp_path / f"two-{copy}.yaml"
        with pytest.raises(ConfigurationError, match="given twice") as error:
            read_yaml(file)
        assert error.value.file == file


def test_aliases_and_merges_are_not_keys_given_twice(tmp_path: Path) -> None:
    cases = "cases:\n  a: &a {read: {z: 5}, states: [cold]}\n  b: {<<: *a, states: [warm]}\n  c: *a\n"
    text = BASE.split("cases:")[0] + cases
    resolved = load(tmp_path, text).cases
    assert [resolved[name]["states"] for name in "abc"] == [["cold"], ["warm"], ["cold"]]


def test_a_mistake_at_an_inherited_key_says_where_it_comes_from(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(BASE, encoding="utf-8")
    (tmp_path / "middle.yaml").write_text("{extends: base, rounds: 5}", encoding="utf-8")
    mine = {"extends": "middle", "cases": {"spectra": {"read": {"x": 1, "y": 1}}}, "recommendation": {}}
    assert mistake(tmp_path, mine).endswith("(inherited from base; `score: null` leaves it out)")
    # As it says.
    assert load(tmp_path, {**mine, "score": None}).study.score is None
    # A key that has to be there, and one of its own.
    said = mistake(tmp_path, {"extends": "middle", "dataset": {"shape": [20, 30, 40]}})
    assert said.startswith("layouts.4x4x64") and said.endswith("(inherited from base)")
    own = mistake(tmp_path, {**mine, "score": {"criteria": [{"case": "slices", "below": 1}]}})
    assert own.startswith("score.criteria.0.case: no ") and "inherited" not in own
