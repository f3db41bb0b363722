"""A run does what it was asked for, and checks and announces what it will measure, whatever the reason."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from clones import REPORT, TINY, Clone, make_clone
from test_claims import CLAIM

RECORD = "results/tiny/cells/disk/auto/slices.r1.json"
# Where a dry run begins to tell of a job, which may be part of a group.
JOB = re.compile(r"^ *(?=rule \S+:$)", re.MULTILINE)


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    return make_clone(tmp_path_factory.mktemp("asked") / "clone")


def refused(clone: Clone, *arguments: str) -> str:
    """The one line that a run says instead of running; it leaves results and test files as they are."""
    before = snapshot(clone)
    done = clone.run(*arguments)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("hyperslab: "))
    assert snapshot(clone) == before
    return line.removeprefix("hyperslab: ")


def snapshot(clone: Clone) -> dict[str, str]:
    """Every file and directory of a clone but Snakemake's own and Python's caches, with its content."""
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in sorted(clone.directory.rglob("*"))
        if not {".snakemake", "__pycache__"} & set(path.parts)
    }


def with_dataset(**changes: Any) -> dict[str, Any]:
    return {**TINY, "dataset": {**TINY["dataset"], **changes}}


# ---- --config and config.yaml


def test_measure_false_measures_nothing(clone: Clone) -> None:
    (clone.directory / RECORD).unlink()
    # One that Snakemake takes for a boolean, and one that it takes for a text.
    for word in ("false", "no"):
        plan = clone.planned("--config", f"measure={word}", "--", REPORT)
        assert not any(rule.startswith(("generate", "measure", "donor")) for rule in plan), plan
    assert clone.planned(REPORT)["measure_disk"] == 1


def test_a_wrong_configuration_is_one_line(fresh: Clone) -> None:
    said = refused(fresh, "--config", "measure=flase", "--", REPORT)
    assert said == "--config: measure: should be true or false, not 'flase'; did you mean false?"
    assert "given twice" in refused(
        fresh, "--config", "measure=false", "--config", "study=tiny", "--", REPORT
    )
    file = fresh.directory / "config" / "config.yaml"
    kept = file.read_bytes()
    try:
        for content, expected in (
            (b"study: \xff\n", "not valid YAML: 'utf-8' codec"),
            (b"study: tiny\nstyle: {heat: jet}\n", "style.heat: should be one of"),
        ):
            file.write_bytes(content)
            assert f"config/config.yaml: {expected}" in refused(fresh, REPORT)
        file.unlink()
        assert refused(fresh, REPORT).endswith("config/config.yaml: there is no such file")
    finally:
        file.write_bytes(kept)


# ---- targets


def test_a_target_is_of_its_own_study_however_it_is_spelt(clone: Clone) -> None:
    clone.keep_studies("quick", "tiny")
    (clone.directory / "results/tiny/summary.csv").unlink()
    for spelling in ("./results/tiny/summary.csv", "results//tiny/summary.csv"):
        said = clone.build("--dry-run", spelling)
        assert "hyperslab: tiny: " in said and "quick" not in said
    said = clone.build("--dry-run", "claims_page")
    assert "quick" not in said.split("Job stats")[0]


def test_a_target_that_there_cannot_be_is_one_line(clone: Clone) -> None:
    for target, said in {
        "results/tiny/cells/disk/4x4/slices.r0.json": "no layout '4x4' in this case; it has contiguous, auto",
        "results/tiny/figures/disk/session-slice.svg": "no figure 'session-slice' of this site",
        "results/tiny/layout/4x4.h5": "no layout '4x4'; there are contiguous, auto, 4x4x64, recommended",
        "summarise": "there is no such target",
        "resluts/tiny/report.html": "there is no such target",
    }.items():
        assert said in refused(clone, target)


def test_a_broken_study_of_a_users_own_leaves_the_others_on_the_page_of_claims(clone: Clone) -> None:
    clone.keep_studies("quick")
    clone.write_study("tiny", {**TINY, "claims": {"009.1": CLAIM}})
    clone.write_study("broken", {**TINY, "rund": 1})
    os.mkfifo(clone.directory / "config/studies/pipe.yaml")
    said = clone.build("results/claims.html")
    assert (
        "hyperslab: results/claims.html leaves out a study: " in said
        and "broken.yaml: rund: unknown key" in said
    )
    page = (clone.directory / "results/claims.html").read_text(encoding="utf-8")
    assert "tiny at disk (" in page
    assert re.search(r"Without results here: [^<]*broken, [^<]*pipe", page)


def test_a_mistake_in_the_default_study_stops_only_who_asks_for_it(clone: Clone) -> None:
    clone.write_study("broken", {**TINY, "rund": 1})
    default = ("--config", "study=broken", "--")
    assert not clone.planned(*default, REPORT)
    assert "broken.yaml: rund: unknown key" in refused(clone, *default, "all")
    (clone.directory / "config/studies/broken.yaml").unlink()
    assert not clone.planned(*default, REPORT)
    assert "broken.yaml: there is no such study" in refused(clone, *default, "all")


def test_a_mistake_among_the_untested_claims_is_said_before_anything_is_measured(clone: Clone) -> None:
    (clone.directory / RECORD).unlink()
    file = clone.directory / "config/claims/untested.yaml"
    file.write_text("claims: {x: {sentense: S.}}\n", encoding="utf-8")
    assert "untested.yaml: claims.x" in refused(clone, REPORT, "results/claims.html")


def test_records_that_were_kept_aside_are_used_when_the_study_is_changed_back(clone: Clone) -> None:
    record = clone.directory / RECORD
    content = record.read_bytes()
    record.rename(record.with_name(f".{record.name}.previous"))
    said = clone.build("--dry-run", REPORT)
    assert "tiny: a run uses 1 record of this very study, kept aside when it was another one" in said
    clone.write_study("tiny", {**TINY, "seed": 7})
    assert "kept aside" not in clone.build("--dry-run", REPORT)
    clone.write_study("tiny", TINY)
    # The root of its site cannot be used, and need not be.
    (clone.directory / "config/sites.local.yaml").write_text(
        "{file_systems: {disk: {root: testfiles, cap_bytes: 1000}}, sites: {disk: {file_system: disk}}}"
    )
    clone.build(REPORT)
    assert record.read_bytes() == content


def test_jobs_that_measure_nothing_ask_for_the_account_of_a_cluster(
    fresh: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sinfo").write_text("#!/bin/sh\necho regular\n", encoding="utf-8")
    (tmp_path / "sinfo").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    np.save(tmp_path / "donor.npy", np.zeros((8, 8, 256), "u2"))
    fresh.write_study(
        "given", {**with_dataset(donor={"path": str(tmp_path / "donor.npy")}), "sites": ["hpc"]}
    )
    (tmp_path / "sites.yaml").write_text(
        "platforms: {hpc: {executor: slurm, partition: regular, account: m636}}\n"
        f"file_systems: {{scratch: {{root: {tmp_path}/files}}}}\n"
        "sites: {hpc: {platform: hpc, file_system: scratch}}\n",
        encoding="utf-8",
    )
    said = fresh.build(
        "--dry-run", "--executor", "slurm", "--jobs", "2", "--config", f"sites={tmp_path}/sites.yaml",
        "aggregate=cluster", "--", "results/given/report.html",
    )  # fmt: skip
    jobs = {text.split()[1].rstrip(":"): text for text in JOB.split(said) if text.startswith("rule ")}
    assert {"batch_hpc", "donor", "summarise", "recommend", "report", "figures_given@hpc"} <= jobs.keys()
    # That one runs where Snakemake was started.
    assert [rule for rule, text in jobs.items() if "slurm_account=m636" not in text] == ["confirm"]


# ---- a dry run


def test_a_dry_run_writes_nothing(fresh: Clone) -> None:
    before = snapshot(fresh)
    for arguments in (
        ("--dry-run",),
        ("-n", "--quiet", "all", "--config", "remeasure=*", "--", REPORT),
        ("--list-rules",),
        ("--summary", REPORT),
        ("--dag", "dot", "--", REPORT),
    ):
        fresh.build(*arguments)
        assert snapshot(fresh) == before, arguments


# ---- what will be measured is checked and announced


def test_a_measured_study_that_changes_is_checked_before_it_is_measured_again(clone: Clone) -> None:
    clone.write_study("tiny", with_dataset(shape=[8, 8, 10**13]))
    assert " GB, but study tiny needs " in refused(clone, REPORT)
    clone.write_study("tiny", with_dataset(donor={"path": "nowhere.npy"}))
    assert "tiny.yaml: dataset.donor: nowhere.npy: there is no such file" in refused(clone, REPORT)
    said = refused(clone, "--config", "remeasure=*", "--", REPORT)
    assert "tiny.yaml: dataset.donor: nowhere.npy: there is no such file" in said
    # What needs no measurement needs no donor.
    assert "measure_disk" not in clone.planned("--config", "measure=false", "--", REPORT)


def test_what_is_measured_again_is_announced(clone: Clone) -> None:
    clone.write_study("tiny", with_dataset(dtype="float64"))
    said = clone.build("--dry-run", REPORT)
    assert "tiny: site disk: 12 cells to measure again because of what has changed since, 0.0 GB" in said
    assert re.search(r"^measure_disk +12$", said, re.MULTILINE)
    clone.write_study("tiny", {**TINY, "repeats": {**TINY["repeats"], "write": 3}})
    assert "site disk: 3 cells to measure again because" in clone.build("--dry-run", REPORT)
    clone.write_study("tiny", TINY)
    assert "to measure again because" not in clone.build("--dry-run", REPORT)


def test_results_of_another_machine_need_no_donor(clone: Clone, tmp_path: Path) -> None:
    """A donor that went away after everything was measured is not asked for."""
    with h5py.File(tmp_path / "donor.h5", "w") as file:
        file["counts"] = np.zeros((8, 8, 256), "u2")
    donor = {"path": str(tmp_path / "donor.h5"), "dataset": "counts"}
    small = {"layouts": {"contiguous": None}, "rounds": 1, "recommendation": {"confirm_rounds": 0}}
    cases = {"slices": {"read": {"z": 5}, "states": ["cold"]}}
    study = {**with_dataset(donor=donor), **small, "cases": cases, "score": None}
    table = "results/given/summary.csv"
    clone.write_study("given", study)
    clone.build(table)
    (tmp_path / "donor.h5").unlink()
    clone.build(table)
    clone.write_study("given", {**study, "seed": 2})
    assert "donor.h5: there is no such file" in refused(clone, table)
