"""Sites of a cluster: what a batch asks of Slurm, what room it needs, and which jobs are those of a run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from snakemake_executor_plugin_slurm_jobstep import get_cpu_setting
from studies import BASE

from hyperslab import probe_site
from hyperslab.advising import at_sites
from hyperslab.advising.prices import Storage
from hyperslab.advising.probe import Probe
from hyperslab.planning import slurm, slurm_patches
from hyperslab.planning.batch_jobs import BatchJobs
from hyperslab.planning.inventory import Inventory
from hyperslab.planning.site_checks import RESERVE_BYTES, largest_bytes
from hyperslab.planning.study_checks import check_room
from hyperslab.sites import roots
from hyperslab.sites.configuration import load_sites
from hyperslab.validation.errors import ConfigurationError


def inventory(
    directory: Path, platform: dict[str, Any], site: dict[str, Any], **file_system: Any
) -> Inventory:
    """A project with the study `mine` at a site `far` of a cluster."""
    (directory / "config/studies").mkdir(parents=True, exist_ok=True)
    study = {**yaml.safe_load(BASE), "sites": ["far"]}
    (directory / "config/studies/mine.yaml").write_text(yaml.safe_dump(study), encoding="utf-8")
    content = {
        "platforms": {"nodes": {"executor": "slurm", **platform}},
        "file_systems": {"shared": {"root": str(directory / "files")} | file_system},
        "sites": {"far": {"platform": "nodes", "file_system": "shared", **site}},
    }
    file = directory / "config/sites.yaml"
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    return Inventory(directory, load_sites(file), file, {}, "")


class Resources(dict[str, Any]):
    """Resources of a job as plug-ins read them."""

    __getattr__ = dict.__getitem__


@pytest.mark.parametrize(
    ("platform", "option"),
    [
        # All processors of the node: the plug-in asks for none, and the step of a job has what the job has.
        ({}, ""),
        ({"exclusive": False}, "--cpus-per-task=1"),
        ({"exclusive": False, "cpus": 8}, "--cpus-per-task=8"),
        ({"cpus": 8}, "--cpus-per-task=8"),
    ],
)
def test_a_batch_has_the_processors_of_its_node_or_those_that_are_asked_for(
    tmp_path: Path, platform: dict[str, Any], option: str
) -> None:
    asked = BatchJobs(inventory(tmp_path, platform, {})).resources("far")
    job: Any = SimpleNamespace(threads=1, resources=Resources(asked))
    assert get_cpu_setting(job, gpu=False) == option


def test_what_is_said_of_a_batch_whose_time_was_over_tells_if_it_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    jobs, study = BatchJobs(found := inventory(tmp_path, {}, {})), found.study("mine")
    (batch,) = jobs.of("mine", "far")
    jobs.note([study], "main")

    def said(attempt: int) -> tuple[str, bool]:
        wildcards = SimpleNamespace(study="mine", batch=batch.name)
        rule, params = SimpleNamespace(name="batch_far"), SimpleNamespace(site="far")
        job = SimpleNamespace(rule=rule, wildcards=wildcards, params=params, attempt=attempt, restart_times=1)
        return jobs.judge(job, "TIMEOUT")

    for attempt, words in ((1, "and goes on where it stopped"), (2, "and no attempt is left")):
        # It came further than the attempt before.
        record = Path(jobs.records(study, "far", batch.name)[attempt])
        record.parent.mkdir(parents=True, exist_ok=True)
        record.touch()
        text, again = said(attempt)
        assert again and words in text and "platforms.nodes.minutes" in text
    text, again = said(1)
    assert not again and "for one cell" in text


def test_batches_side_by_side_need_room_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wide = {"concurrency": 4}
    needed = 4 * largest_bytes(inventory(tmp_path, {}, wide).study("mine")) + RESERVE_BYTES
    for cap, fits in ((needed, True), (needed - 1, False)):
        found = inventory(tmp_path, {}, wide, cap_bytes=cap)
        if fits:
            check_room(found.study("mine"), ["far"], found)
            continue
        with pytest.raises(ConfigurationError, match="for 4 test artifacts at once"):
            check_room(found.study("mine"), ["far"], found)
        # Inside a batch the artifacts of others take their room already.
        roots.prepare(str(tmp_path / "files"), roots.Root())
        found.batched = "far"
        check_room(found.study("mine"), ["far"], found)


def executor() -> Any:
    """What the plug-in has before it is patched, as far as that is asked for."""
    return SimpleNamespace(
        run_uuid="1-2-3", _fallback_account_arg=None, next_seconds_between_status_checks=10, active_jobs=[],
        wait=False, check_active_jobs=None, run_jobs=None, report_job_success=None, report_job_error=None,
    )  # fmt: skip


def begun(name: str) -> str:
    """What the jobs of a run are named that begins now."""
    submits = executor()
    workflow = SimpleNamespace(scheduler=SimpleNamespace(_executor=submits))
    slurm_patches.begin(workflow, name, "*.json", lambda *_: ("", True))
    return slurm_patches.job_name(workflow)


def test_a_run_cancels_its_jobs_and_those_inside_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "has_accounting", lambda: True)
    monkeypatch.setenv(slurm_patches.OUTER_VARIABLE, "")
    outer = begun("mine")
    inner = begun("mine")
    assert (outer, inner) == ("mine_1-2-3", "mine_1-2-3_1-2-3")
    # A second run from the same directory measures the same study at other sites.
    queue = {"1": outer, "2": inner, "3": "mine_4-5-6", "4": f"{outer}4", "5": "another"}
    cancelled: list[str] = []

    def said(command: str, *options: str) -> str:
        if command == "scancel":
            cancelled.extend(options)
        return "\n".join(f"{job}|{name}" for job, name in queue.items())

    monkeypatch.setattr(slurm, "_said", said)
    slurm.cancel_jobs("")
    assert not cancelled
    slurm.cancel_jobs(outer)
    assert cancelled == ["1", "2"]


STORAGE = Storage(
    latency_s=100e-6, waited_s=1e-9, ahead_s=0.5e-9, cached_s=0.1e-9, lookup_s=5e-6, open_s=5e-4,
    read_ahead_bytes=2**17,
)  # fmt: skip
PROBE = Probe(STORAGE, 0.0, {"cpu": 0.0}, 1000.0, 8 * 10**9)


def test_a_root_that_only_its_node_knows_is_probed_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    site = {"root": "$ONLY_THERE/files", "node_local": True}
    found = inventory(tmp_path, {}, {}, **site)
    places: list[Path] = []

    def storage(place: Path, *_: Any) -> Probe:
        places.append(place)
        return PROBE

    def srun(command: list[str], **_: Any) -> Any:
        assert command[0] == "srun"
        monkeypatch.setattr(sys, "argv", command[command.index("hyperslab.probe_site") :])
        with monkeypatch.context() as node:
            node.setenv("ONLY_THERE", str(tmp_path))
            node.setattr(probe_site, "storage", storage)
            probe_site.main()
        return SimpleNamespace(returncode=0, stdout=capsys.readouterr().out)

    monkeypatch.setattr(subprocess, "run", srun)
    assert at_sites.probed(found.sites["far"], zarr=False, sites=found.sites_file) == PROBE
    assert places == [tmp_path / "files"]
    with pytest.raises(SystemExit, match="^hyperslab.probe_site: .* ONLY_THERE is not set$"):
        probe_site.main()
