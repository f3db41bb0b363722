"""Throttled sites: limits as cgroups tell them, enough repeats, bursts flagged, and means compared."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from report_samples import CONTEXT, MAIN, check_of, inputs, measured
from simulated_studies import study

from hyperslab.measuring import limits, throttling
from hyperslab.measuring.throttling import Limiter, recorded
from hyperslab.planning.site_checks import check_cgroups
from hyperslab.results.columns import MEASUREMENTS
from hyperslab.results.scoring import absolute_score
from hyperslab.results.statistics import bursts, compare, summarise
from hyperslab.sites import mounts
from hyperslab.validation.errors import ConfigurationError

MIB = 2**20
V1 = {
    "blkio.throttle.read_bps_device": f"7:0 {50 * MIB}\n8:16 1",
    "blkio.throttle.write_bps_device": f"7:0 {20 * MIB}",
    "blkio.throttle.read_iops_device": "",
    "blkio.throttle.write_iops_device": "7:0 120",
}
V2 = {"io.max": f"8:16 rbps=1 wbps=2\n7:0 rbps={50 * MIB} wbps={20 * MIB} riops=max wiops=120"}
FIRST = {
    "read_bytes_per_s": 50 * MIB,
    "write_bytes_per_s": 20 * MIB,
    "reads_per_s": None,
    "writes_per_s": 120,
}


def cgroup(directory: Path, files: dict[str, str]) -> Path:
    """A directory with the files of a cgroup."""
    for name, text in files.items():
        (directory / name).write_text(text, encoding="utf-8")
    return directory


@pytest.mark.parametrize("files", [V1, V2], ids=["version 1", "version 2"])
def test_both_versions_tell_the_limits_of_a_device(files: dict[str, str], tmp_path: Path) -> None:
    found = limits.limits_of(str(cgroup(tmp_path, files)), ["259:0", "7:0"])
    assert {name: found[name] for name in FIRST} == FIRST
    assert found["limits"] == {name: text.strip() for name, text in files.items()}


@pytest.mark.parametrize("devices", [["7:0", "8:16"], ["8:16", "7:0"]])
def test_of_devices_that_lie_on_each_other_the_least_limit_holds(devices: list[str], tmp_path: Path) -> None:
    found = limits.limits_of(str(cgroup(tmp_path, V2)), devices)
    assert (found["read_bytes_per_s"], found["write_bytes_per_s"], found["writes_per_s"]) == (1, 2, 120)


@pytest.mark.parametrize("files", [V1, V2, {"io.max": "7:1 rbps=max wbps=max riops=max wiops=max"}, {}])
def test_what_limits_another_device_is_refused_and_not_joined(files: dict[str, str], tmp_path: Path) -> None:
    members = cgroup(tmp_path, {**files, "cgroup.procs": ""}) / "cgroup.procs"
    with pytest.raises(OSError, match=r"limits no I/O of the file system under test \(7:1\)"):
        limits.join_cgroup(str(tmp_path), ["7:1"])
    with pytest.raises(OSError, match="no block device"):
        limits.join_cgroup(str(tmp_path), [])
    assert members.read_text() == ""
    with pytest.raises(FileNotFoundError, match="there is no cgroup"):
        limits.join_cgroup(str(tmp_path / "gone"), ["7:1"])


def test_a_process_joins_a_group_that_limits_it(tmp_path: Path) -> None:
    cgroup(tmp_path, {**V2, "cgroup.procs": ""})
    assert limits.join_cgroup(str(tmp_path), ["7:0"]) == limits.limits_of(str(tmp_path), ["7:0"])
    assert (tmp_path / "cgroup.procs").read_text() == str(os.getpid())
    assert limits.join_cgroup(None, ["7:0"]) is None


def test_a_cgroup_that_cannot_serve_is_said_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mounts, "block_devices", lambda _: ["7:0"])
    cgroup(tmp_path, {**V2, "cgroup.procs": ""})
    slow: dict[str, Any] = {"cgroup": str(tmp_path), "root": str(tmp_path / "root"), "file_system": "loop"}
    sites, file = {"slow": slow, "fast": {**slow, "cgroup": None}}, Path("sites.yaml")
    check_cgroups(["slow", "fast"], sites, file)

    def refused(said: str) -> None:
        with pytest.raises(ConfigurationError, match=f"^sites.yaml: file_systems.loop.cgroup: .*{said}"):
            check_cgroups(["slow", "fast"], sites, file)

    (tmp_path / "cgroup.procs").unlink()
    refused("cgroup.procs cannot be written$")
    (tmp_path / "io.max").write_text("8:16 rbps=1", encoding="utf-8")
    refused("limits no I/O of the file system under test")
    slow["cgroup"] = str(tmp_path / "gone")
    refused("there is no cgroup")
    check_cgroups(["fast"], sites, file)


def test_repeats_are_enough_after_two_seconds_at_the_limit() -> None:
    limiter = Limiter({"read_bytes_per_s": MIB, "write_bytes_per_s": None})
    limiter.begin()
    assert not limiter.enough("read", 2 * MIB - 1, 15)
    assert limiter.enough("read", 2 * MIB, 15)
    assert limiter.enough("read", 0, 15), "nothing reaches the device"
    assert limiter.enough("read", 1, throttling.MOST_REPEATS)
    assert limiter.enough("write", 1, 2), "no limit"
    assert Limiter().enough("read", 1, 2)


def test_repeats_end_where_the_limit_is_not_reached_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    limiter = Limiter({"read_bytes_per_s": MIB})
    limiter.begin()
    now[0] += throttling.MOST_SECONDS
    assert not limiter.enough("read", 1, 15)
    now[0] += 1
    assert limiter.enough("read", 1, 15)


def test_records_hold_seconds_at_the_limit_and_no_bytes_that_nobody_counted() -> None:
    throttle = {"read_bytes_per_s": 10 * MIB, "write_bytes_per_s": 5 * MIB}
    row = {"state": "cold", "device_bytes": 5 * MIB, "written_bytes": 7, "written_device_bytes": 0}
    assert recorded(row, throttle, True, True) == {**row, "throttled_s": 0.5}
    assert recorded(row, None, True, True) == row
    uncounted = {"device_bytes": None, "written_device_bytes": None}
    assert recorded(row, None, False, True) == row | uncounted
    # Nor are those of a server's processes.
    served = recorded({"state": "cold", "device_bytes": 0, "server_device_bytes": 0}, None, False, True)
    assert served == {"state": "cold", "device_bytes": None, "server_device_bytes": None}
    # A loop device is held back, whoever caches its image.
    assert recorded(row, throttle, False, True) == row | uncounted | {"throttled_s": 0.5}


@pytest.mark.parametrize(("asked", "dirtied", "seconds"), [(10, 1, 0.2), (1, 16, 0.2), (10, None, 2.0)])
def test_what_is_written_again_in_memory_is_held_back_once(
    asked: int, dirtied: int | None, seconds: float
) -> None:
    """Of a large page all is told to be dirty, however little of it is written."""
    device = {} if dirtied is None else {"written_device_bytes": dirtied * MIB}
    write = {"state": "write", "written_bytes": asked * MIB, **device}
    throttle = {"read_bytes_per_s": None, "write_bytes_per_s": 5 * MIB}
    assert recorded(write, throttle, True, True) == {**write, "throttled_s": seconds}


def test_where_the_kernel_counts_nothing_no_zeros_are_recorded() -> None:
    told = {"state": "write", "time_s": 1.0, "asked_bytes": 8, "requested_predicted_bytes": 8, "opens": 3}
    names = (
        "requested_bytes", "requested_reads", "requested_writes", "written_bytes", "written_device_bytes",
        "device_bytes", "first_requested_bytes", "first_device_bytes", "server_written_bytes",
    )  # fmt: skip
    row = {**told, **dict.fromkeys(names, 0), "written_by_rank": "0 0", "writes_by_rank": "0 0"}
    unknown = dict.fromkeys((*names, "written_by_rank", "writes_by_rank"))
    assert recorded(row, {"write_bytes_per_s": MIB}, True, False) == {**told, **unknown}


def held_back(state: str = "cold", each: float = 0.05, repeats: int = 40) -> pd.DataFrame:
    """Two layouts of equal medians; of the second, every other repeat waits long."""
    table = study(np.zeros((2, 3)), repeats=repeats, repeat_sd=0, state=state)
    slow = (table["layout"] == "l001") & (table["repeat"] % 2 == 1) & (table["repeat"] > 1)
    return table.assign(time_s=table["time_s"].where(~slow, 3.0), throttled_s=each)


@pytest.mark.parametrize(("state", "by_mean"), [("cold", True), ("write", True), ("session", False)])
def test_means_are_compared_where_a_limit_holds_back(state: str, by_mean: bool) -> None:
    summary = summarise(held_back(state))
    assert (summary["median_s"] == 1).all()
    # A session is a ramp: its geometric mean stands for it, whatever holds it back.
    waited = 3 ** (19 / 40)
    expected = summary["mean_s"] if by_mean else summary["layout"].map({"l000": 1.0, "l001": waited})
    assert summary["typical_s"].to_numpy() == pytest.approx(expected.to_numpy())
    ratio = compare(summary, "disk", "slices", state, "main", "l000")["ratio"].iloc[0]
    assert ratio == pytest.approx(1.95 if by_mean else waited)
    criteria = [{"case": "slices", "state": state, "statistic": "median_s", "below": 1.5}]
    scores = absolute_score(summary, criteria).set_index("layout")["score"]
    assert scores.to_dict() == {"l000": 1, "l001": 0 if by_mean else 1}


def test_a_mean_that_pauses_made_smaller_gives_way_to_the_limit() -> None:
    summary = summarise(held_back(each=1.5)).set_index("layout")
    assert (summary.loc["l000", "typical_s"] == 1.5).all() and (summary.loc["l000", "mean_s"] == 1).all()
    assert (summary.loc["l001", "typical_s"] == summary.loc["l001", "mean_s"]).all()


def test_only_medians_of_bursts_are_artefacts() -> None:
    for each, artefact in ((0.099, True), (0.1, False), (0.0, False), (np.nan, False)):
        table = held_back(each=each)
        assert (bursts(table) == artefact).all(), each
        assert (summarise(table)["throttle_artefact"] == artefact).all(), each
    # The median decides: a few large selections do not make the small ones right.
    table = held_back()
    table.loc[table["repeat"] < 15, "throttled_s"] = 1.0
    assert bursts(table).all()


def test_an_unthrottled_summary_is_of_medians() -> None:
    summary = summarise(study(np.zeros((2, 3))))
    assert (summary["typical_s"] == summary["median_s"]).all()
    assert not summary["throttle_artefact"].any() and summary["throttled_s"].isna().all()


def told(each: float, *throttles: Any) -> Any:
    """The report's check of a study whose repeats take `each` seconds at the limit; a context a throttle."""
    table = measured(MAIN, "main").assign(throttled_s=each)
    contexts = [{**CONTEXT, "throttle": throttle} for throttle in throttles]
    return check_of(inputs(table, None, context=contexts), "Throttled sites")


LIMITS = {"cgroup": "/g", "read_bytes_per_s": 50 * MIB, "write_bytes_per_s": None, "reads_per_s": 120}
LIMITED = {**CONTEXT, "throttle": LIMITS}


@pytest.mark.parametrize(
    ("each", "throttles", "tone", "words"),
    [
        (np.nan, [None], "good", ["None"]),
        (1.0, [LIMITS], "unknown", ["disk: read 50 MiB/s, 120 reads/s.", "0 of 6 results need less"]),
        (
            0.05,
            [LIMITS],
            "bad",
            ["6 of 6 results need less than 0.1 s", "18 of 18 means rest on less than 2 s"],
        ),
        (1.0, [LIMITS, None], "bad", ["disk: no limit or read 50 MiB/s"]),
    ],
)
def test_the_report_says_what_a_limit_does(
    each: float, throttles: list[Any], tone: str, words: list[str]
) -> None:
    check = told(each, *throttles)
    assert check.tone == tone
    for text in words:
        assert text in check.text
    if tone != "good":
        row = [cell.text for cell in check.details[0].rows[0]]
        assert row[:4] == ["disk", "4x4x2", "slices", "cold"] and row[-1] == ("yes" if each < 0.1 else "no")


def test_a_median_that_nothing_is_compared_by_is_not_counted_among_artefacts() -> None:
    table = measured(MAIN, "main").assign(throttled_s=0.05)
    both = pd.concat([table, table.assign(state="session")], ignore_index=True)
    check = check_of(inputs(both, None, context=[LIMITED]), "Throttled sites")
    assert "6 of 6 results need less than 0.1 s" in check.text
    assert "of cold reads and writes the mean" in MEASUREMENTS["throttle_artefact"].meaning


def test_a_limit_of_operations_leaves_medians() -> None:
    check = told(np.nan, {**LIMITS, "read_bytes_per_s": None})
    assert (check.tone, check.details) == ("unknown", [])
    assert check.text == (
        "disk: 120 reads/s. At disk a limit of operations is not turned into seconds: where no bytes are "
        "limited, results are compared by medians, which may be of bursts."
    )
    assert "limit of operations" not in told(1.0, LIMITS).text


def test_confirming_rounds_are_told_apart_from_those_that_chose() -> None:
    tables = (measured(MAIN, phase).assign(throttled_s=1.0) for phase in ("main", "confirm"))
    check = check_of(inputs(*tables, context=[LIMITED]), "Throttled sites")
    found = [[cell.text for cell in row[:5]] for row in check.details[0].rows]
    assert ["disk", "auto", "slices", "cold", "main"] in found
    assert ["disk", "auto", "slices", "cold", "confirm"] in found
