"""Sites with an object store: what may be said of one, what is refused, and what a gateway lets pass."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
import yaml
from studies import load, with_case

from hyperslab.measuring import machine, process
from hyperslab.measuring.counters import on_wire
from hyperslab.measuring.object_store.alias import Alias
from hyperslab.measuring.object_store.traffic import Counts, Line, foreign, kind_of
from hyperslab.planning import progress, study_checks
from hyperslab.planning.batch_jobs import BatchJobs
from hyperslab.planning.inventory import Inventory
from hyperslab.planning.invocation import Invocation
from hyperslab.planning.request import Request
from hyperslab.planning.reruns import Reruns
from hyperslab.planning.site_checks import sites_of
from hyperslab.planning.store_checks import check_kept, check_memory, check_stores
from hyperslab.planning.study_checks import check_study
from hyperslab.sites import places, roots
from hyperslab.sites.configuration import load_sites
from hyperslab.studies.study import LoadedStudy
from hyperslab.validation.errors import ConfigurationError

MOTO = {"start": "moto"}


def sites(tmp_path: Path, store: Any, **more: Any) -> Any:
    """Sites with one object store."""
    content = {
        "file_systems": {"disk": {"root": "disk"}, "bucket": {"root": "bucket", "store": store}, **more},
        "sites": {"disk": {"file_system": "disk"}, "bucket": {"file_system": "bucket"}},
    }
    file = tmp_path / "sites.yaml"
    file.write_text(yaml.safe_dump(content))
    return load_sites(file)


def test_a_store_is_started_or_named(tmp_path: Path) -> None:
    found = sites(tmp_path, {**MOTO, "latency_ms": 50, "bandwidth": 10**7})["bucket"]["store"]
    assert found == {
        "start": "moto", "endpoint": None, "region": "us-east-1", "bucket": "hyperslab",
        "prefix": "hyperslab/", "latency_ms": 50.0, "bandwidth": 10**7,
    }  # fmt: skip
    named = {"endpoint": "https://s3.example.org:9000", "bucket": "mine"}
    assert sites(tmp_path, named)["bucket"]["store"]["start"] is None


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "neither": ({"bucket": "mine"}, "needs either endpoint"),
    "both": ({**MOTO, "endpoint": "https://s3.example.org"}, "needs either endpoint"),
    "no bucket": ({"endpoint": "https://s3.example.org"}, "bucket: this key is required"),
    "password in the address": (
        {"endpoint": "https://me:secret-1@s3.example.org", "bucket": "mine"},
        "come from the environment",
    ),
    "no address": ({"endpoint": "s3.example.org", "bucket": "mine"}, "should be an address such as"),
    "bucket": ({**MOTO, "bucket": "Mine/secret-1"}, "3 to 63 lower-case"),
    "prefix": ({**MOTO, "prefix": ""}, "end with one"),
    "password": ({**MOTO, "secret_key": "secret-1"}, "unknown key"),
    "latency": ({**MOTO, "latency_ms": -1}, "latency_ms"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_what_is_wrong_with_a_store_is_one_line(tmp_path: Path, name: str) -> None:
    store, said = MISTAKES[name]
    with pytest.raises(ConfigurationError, match=said) as caught:
        sites(tmp_path, store)
    assert "file_systems.bucket.store" in str(caught.value) and "secret-1@s3" not in str(caught.value)


def test_a_store_whose_program_is_absent_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    described = sites(tmp_path, {"start": "versitygw"})
    assert described["bucket"]["store"]["bucket"] == "hyperslab"
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(ConfigurationError, match="versitygw is in no directory of PATH") as caught:
        check_stores(["bucket"], described, tmp_path / "sites.yaml")
    assert "file_systems.bucket.store.start" in str(caught.value) and "\n" not in str(caught.value)
    (tmp_path / "empty" / "versitygw").touch(mode=0o755)
    check_stores(["bucket"], described, tmp_path / "sites.yaml")


def test_a_store_in_memory_needs_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, described = study_of(tmp_path, "zarr-s3", read={"z": 1}, states=["cold"]), sites(tmp_path, MOTO)
    needed = 2 * study.dataset.nbytes
    monkeypatch.setattr(machine, "available_memory_bytes", lambda: needed - 1)
    with pytest.raises(ConfigurationError, match="moto keeps objects in memory, up to .* GB") as caught:
        check_memory(study, ["bucket", "disk"], described, tmp_path / "sites.yaml")
    assert "file_systems.bucket.store.start" in str(caught.value) and "\n" not in str(caught.value)
    monkeypatch.setattr(machine, "available_memory_bytes", lambda: needed)
    check_memory(study, ["bucket", "disk"], described, tmp_path / "sites.yaml")


def test_another_line_than_that_of_the_records_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    study, file = study_of(tmp_path, "zarr-s3", read={"z": 1}, states=["cold"]), tmp_path / "sites.yaml"
    found = Inventory(tmp_path, sites(tmp_path, {**MOTO, "latency_ms": 50}), file, {}, "")
    root = found.sites["bucket"]["root"]
    roots.prepare(root, roots.Root(identity="one"))

    def checked(latency_ms: float) -> str | None:
        """What is said of the site where its records were measured over such a line."""
        store = places.words_of_store({**MOTO, "latency_ms": latency_ms})
        monkeypatch.setattr(study_checks, "_places", lambda _: [places.place_of(root, "one", False, store)])
        return study_checks.check_place(study, "bucket", found)

    assert checked(50) == "one"
    with pytest.raises(ConfigurationError, match="at 50 ms now, .* store moto at 10 ms: ") as caught:
        checked(10)
    assert "file_systems.bucket.root" in str(caught.value) and "\n" not in str(caught.value)


def test_a_store_has_a_root_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="a store's root is its own"):
        sites(tmp_path, MOTO, other={"root": "bucket"})


def study_of(tmp_path: Path, format_: str, more: dict[str, Any] | None = None, /, **case: Any) -> Any:
    content = with_case(**case, layouts=["mine"])
    content["layouts"] = {"mine": {"format": format_, "chunks": "auto", **(more or {})}}
    content["cases"] = {"team": content["cases"]["team"]}
    for key in ("grids", "score", "recommendation"):
        del content[key]
    return load(tmp_path, content)


STORED_AT = [
    ("hdf5", "bucket"),
    *((format_, "disk") for format_ in ("hdf5-s3", "zarr-s3", "virtual", "hsds-s3")),
]


@pytest.mark.parametrize(("format_", "site"), STORED_AT)
def test_layouts_lie_where_they_can(tmp_path: Path, format_: str, site: str) -> None:
    study = study_of(tmp_path, format_, read={"z": 1}, states=["cold"])
    described = sites(tmp_path, MOTO)
    with pytest.raises(ConfigurationError, match=f"cannot lie at site '{site}'.*; name sites .* in `sites:`"):
        check_kept(study, [site], described)
    check_kept(study, ["disk" if site == "bucket" else "bucket"], described)


@pytest.mark.parametrize(("format_", "site"), STORED_AT)
def test_all_sites_are_those_that_can_hold_a_layout_of_the_study(
    tmp_path: Path, format_: str, site: str
) -> None:
    study = study_of(tmp_path, format_, read={"z": 1}, states=["cold"])
    described, file = sites(tmp_path, MOTO), tmp_path / "sites.yaml"
    assert study.study.sites == "all"
    assert sites_of(study, described, file) == ["disk" if site == "bucket" else "bucket"]
    # The run says so.
    found = Inventory(tmp_path, described, file, {}, "")
    found._studies["mine"] = study
    batches = BatchJobs(found)
    (line,) = progress.lines(found, batches, Reruns(found, batches, ""), ["mine"])
    assert line.startswith(f"mine: site {site} is left out (it is ")
    # Where none is left it is a mistake.
    alone = {site: described[site]}
    assert sites_of(study, alone, file) == [site]
    with pytest.raises(ConfigurationError, match="cannot lie at site"):
        check_kept(study, [site], alone)


def test_a_site_that_is_left_out_anyway_may_be_what_a_layout_cannot_lie_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    study = study_of(tmp_path, "hdf5", read={"z": 1}, states=["cold"])
    study.study = study.study.model_copy(update={"sites": ["disk", "bucket"]})
    request = Request({"measure": True}, Invocation(), tmp_path)
    found = Inventory(tmp_path, sites(tmp_path, MOTO), tmp_path / "sites.yaml", {}, "")
    with pytest.raises(ConfigurationError, match="cannot lie at site 'bucket'"):
        check_study(study, request, found)
    found.left_out["bucket"] = "needs a cluster"
    check_study(study, request, found)


def test_what_objects_cannot_be_asked_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is never warm"):
        study_of(tmp_path, "zarr-s3", read={"z": 1}, states=["cold", "warm"])
    with pytest.raises(ConfigurationError, match="is not asked for such cases"):
        study_of(tmp_path, "hdf5-s3", reduce={"z": 25}, processes=[1], states=["cold"])
    mixed: dict[str, Any] = {"clients": {"map": {"x": 1}}, "requests": 4, "processes": [1]}
    summed: dict[str, Any] = {"summaries": {"z": "all"}, "processes": [1], "states": ["cold"]}
    with pytest.raises(ConfigurationError, match="is never warm"):
        study_of(tmp_path, "hsds-s3", **mixed, states=["warm"])
    study_of(tmp_path, "hsds-s3", **mixed, states=["cold"])
    for format_ in ("hdf5-s3", "zarr-s3", "virtual"):
        study_of(tmp_path, format_, **summed, dask=[2])
    with pytest.raises(ConfigurationError, match="MPI ranks cannot open Zarr in an object store together"):
        study_of(tmp_path, "zarr-s3", **summed, ranks=[1])
    with pytest.raises(ConfigurationError, match="HSDS in an object store has an environment of its own"):
        study_of(tmp_path, "hsds-s3", **summed, dask=[1])
    study_of(tmp_path, "hdf5-s3", **summed, fetch=True)
    study_of(tmp_path, "zarr-s3", **summed, fetch="each")
    with pytest.raises(
        ConfigurationError, match="fetch: of HDF5 in an object store a worker cannot copy a part"
    ):
        study_of(tmp_path, "hdf5-s3", **summed, fetch="each")
    with pytest.raises(ConfigurationError, match="a copy of HDF5 in an object store, by reference is not"):
        study_of(tmp_path, "virtual", **summed, fetch=True)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"filters": [{"bitshuffle": {}}]}, "filters: without HDF5 bitshuffle is not undone"),
        (
            {"second": {"chunks": [4, 4, 4], "filters": ["lzf"], "cases": ["team"]}},
            "filters: without HDF5 lzf is not undone",
        ),
        ({"pyramid": {"levels": 1}}, "pyramid: a reference leads to the chunks of one dataset"),
        ({"storage": "compact", "chunks": None}, "storage: a reference leads"),
        ({"settings": {"driver": {"name": "core"}}}, "driver: a reference leads into one file"),
    ],
)
def test_a_reference_leads_where_it_can(tmp_path: Path, more: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        study_of(tmp_path, "virtual", more, read={"z": 1}, states=["cold"])


def test_a_study_tells_pages_from_the_cache_of_the_client(pytestconfig: pytest.Config) -> None:
    study = LoadedStudy(pytestconfig.rootpath / "config" / "studies" / "ncep-store-cloud.yaml")
    pairs: dict[str, list[bool]] = {}
    for layout in study.layouts.values():
        settings: Any = dict(layout["settings"])
        paged = settings.pop("paging", None) is not None
        pairs.setdefault(json.dumps({**layout, "settings": settings}, sort_keys=True), []).append(paged)
    # Two layouts differ in pages and in nothing else, with each cache.
    assert [sorted(pair) for pair in pairs.values()] == [[False, True]] * 3
    assert {json.loads(rest)["access"].get("cache") for rest in pairs} == {None, "blockcache", "none"}


OWN = ("mine", "runs/s/")


def test_a_gateway_lets_pass_what_is_the_cells_own() -> None:
    assert foreign("PUT", urlsplit("/mine/runs/s/data.h5"), OWN) is None
    assert foreign("GET", urlsplit("/mine?list-type=2&prefix=runs/s/"), OWN) is None
    for method, address in (
        ("GET", "/other/runs/s/data.h5"),
        ("PUT", "/mine/runs/other/data.h5"),
        ("DELETE", "/mine/data.h5"),
        ("GET", "/mine/runs/s/../other/data.h5"),
        ("GET", "/mine/runs/s/%2e%2e/other/data.h5"),
        ("PUT", "/mine"),
        ("POST", "/mine?delete="),
        ("GET", "/mine?prefix=runs/"),
        ("GET", "/mine?prefix=runs/s/&prefix=runs/"),
    ):
        assert foreign(method, urlsplit(address), OWN), (method, address)


ALIAS = Alias("its_own", "mine", "runs/s/data/")
# what a client asks for -> what the store is asked for
LED = {
    "/its_own/db/a.json": "/mine/runs/s/data/db/a.json",
    "//its_own/db/a%20b?x-id=GetObject": "/mine/runs/s/data/db/a%20b?x-id=GetObject",
    "/its_own?list-type=2": "/mine?prefix=runs/s/data/&list-type=2",
    "/its_own/?list-type=2&prefix=db/&start-after=db%2Fa": (
        "/mine?prefix=runs/s/data/db/&list-type=2&start-after=runs/s/data/db/a"
    ),
    "/its_own": "/mine?prefix=runs/s/data/",
}


@pytest.mark.parametrize("asked", LED)
def test_a_client_without_a_prefix_gets_what_is_the_cells_own(asked: str) -> None:
    assert ALIAS.names(asked)
    led = urlsplit(ALIAS.led(asked))
    wanted = urlsplit(LED[asked])
    assert (unquote(led.path), parse_qs(led.query)) == (unquote(wanted.path), parse_qs(wanted.query))
    assert foreign("GET", led, OWN) is None


def test_other_names_are_no_alias() -> None:
    assert not any(ALIAS.names(path) for path in ("/mine/its_own", "/its_owner/a", "/", "/?its_own"))
    # What climbs out of it is refused after that.
    assert foreign("GET", urlsplit(ALIAS.led("/its_own/../../other")), OWN)


@pytest.mark.parametrize("quoted", ["runs/s/data/", "runs%2Fs%2Fdata%2F"])
def test_a_listing_has_the_keys_that_a_client_knows(quoted: str) -> None:
    listing = f"<Prefix>{quoted}db/</Prefix><Key>{quoted}db/a</Key><Key>{quoted}{quoted}b</Key>"
    assert ALIAS.cut(listing) == f"<Prefix>db/</Prefix><Key>db/a</Key><Key>{quoted}b</Key>"


def test_requests_are_counted_by_kind() -> None:
    counts = Counts()
    for method, path in (("GET", "/b/k"), ("GET", "/b/k"), ("GET", "/b?list-type=2"), ("HEAD", "/b/k")):
        counts.began(kind_of(method, urlsplit(path)))
    counts.sent += 7
    counts.refused += 1
    assert counts.to_dict() == {
        "requests": 4, "sent": 7, "received": 0, "failed": 0, "refused": 1, "get_requests": 2,
        "list_requests": 1, "head_requests": 1,
    }  # fmt: skip
    before, after = Counts().to_dict(), counts.to_dict()
    passed = on_wire(before, after)
    assert passed is not None
    assert passed.columns() == {
        "wire_requests": 4, "wire_bytes": 7, "wire_gets": 2, "wire_heads": 1, "wire_lists": 1, "wire_puts": 0,
        "wire_failures": 0, "wire_refused": 1,
    }  # fmt: skip
    opened = {name for name in passed.columns(opening=True) if name.startswith("open_")}
    assert opened == {f"open_{name}" for name in ("requests", "wire_bytes", "gets", "heads", "lists", "puts")}
    assert on_wire({}, {}) is None


def test_a_line_is_no_faster_than_it_is_said_to_be() -> None:
    async def carried() -> float:
        line, loop = Line(0, 1_000_000), asyncio.get_running_loop()
        began = loop.time()
        await asyncio.gather(*(line.carry(10_000) for _ in range(20)))
        return loop.time() - began

    # 200,000 bytes, of which a burst may be ahead.
    assert asyncio.run(carried()) >= 0.19


def test_an_idle_line_saves_nothing_up() -> None:
    async def carried() -> float:
        line, loop = Line(0, 1_000_000), asyncio.get_running_loop()
        await line.carry(1_000)
        await asyncio.sleep(0.05)
        began = loop.time()
        await line.carry(4_000)
        return loop.time() - began

    assert asyncio.run(carried()) >= 0.0039


def test_a_store_is_asked_through_the_proxy_that_the_environment_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("https_proxy", "http://user:password@proxy.example:3128")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "inside.example")
    process.ask_itself_directly()
    assert process.proxy_of("https://s3.example:9000") == "http://user:password@proxy.example:3128"
    for address in ("https://inside.example", "https://127.0.0.1:9000", "http://s3.example"):
        assert process.proxy_of(address) is None
