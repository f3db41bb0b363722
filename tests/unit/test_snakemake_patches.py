"""What touches the inside of Snakemake stands in one module, and it is known when a version lacks a place."""

from __future__ import annotations

import ast
import importlib
import re
import threading
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
from test_environments import ROOT, module_files, nodes_of

from hyperslab.planning import slurm_patches, snakemake_patches, snakemake_places
from hyperslab.validation.errors import ConfigurationError

ONE_MODULE = "hyperslab.planning.snakemake_patches"


@pytest.mark.parametrize("touch", snakemake_places.TOUCHES, ids=lambda touch: str(touch.place))
def test_every_place_is_there_on_the_version_on_which_it_was_tried(touch: snakemake_places.Touch) -> None:
    assert metadata.version(touch.package) == snakemake_places.TRIED[touch.package]
    assert not touch.missing()


def test_a_version_that_lacks_a_needed_place_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    # Not by whoever only collects tests: it takes a second.
    from snakemake.api import Workflow

    monkeypatch.delattr(Workflow, "_prepare_dag")
    with pytest.raises(ConfigurationError) as refused:
        snakemake_places.check(slurm=False)
    said = str(refused.value)
    assert "\n" not in said
    assert "Workflow._prepare_dag: is not there, and a run could not measure cells again" in said
    assert "install snakemake==9.27.1, on which it was tried" in said


def test_a_version_that_lacks_what_only_makes_it_robust_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    importlib.import_module("snakemake.api")
    from snakemake.scheduling import job_scheduler

    workflow = SimpleNamespace(scheduler=SimpleNamespace(job_rate_limiter="as it was"))
    with monkeypatch.context() as lacking:
        lacking.delattr(job_scheduler, "JobRateLimiter")
        snakemake_places.check(slurm=True)
        snakemake_patches.rest_between_jobs(workflow)
    assert workflow.scheduler.job_rate_limiter == "as it was"
    snakemake_patches.rest_between_jobs(workflow)
    assert workflow.scheduler.job_rate_limiter is None


def test_a_job_that_was_chosen_when_the_run_was_stopped_does_not_begin() -> None:
    started, stopped = list[str](), False
    scheduler = SimpleNamespace(
        run=lambda jobs, executor: started.extend(jobs),
        running={"first"},
        _lock=threading.Lock(),
        _open_jobs=threading.Semaphore(0),
    )
    snakemake_patches.start_nothing_once(SimpleNamespace(scheduler=scheduler), lambda: stopped)
    scheduler.run(["first"])
    stopped = True
    scheduler.running.add("second")
    scheduler.run(["second"])
    assert started == ["first"] and scheduler.running == {"first"}
    # It looks again at whether to end.
    assert scheduler._open_jobs.acquire(blocking=False)


def test_an_executor_that_lacks_what_is_patched_is_refused_in_one_line() -> None:
    lacking = SimpleNamespace(run_uuid="1", _fallback_account_arg=None)
    workflow = SimpleNamespace(scheduler=SimpleNamespace(_executor=lacking))
    with pytest.raises(ConfigurationError) as refused:
        slurm_patches.begin(workflow, "study", "*.json", lambda *_: ("", True))
    assert "SimpleNamespace.next_seconds_between_status_checks: is not there" in str(refused.value)
    assert "install snakemake-executor-plugin-slurm==2.8.0, on which it was tried" in str(refused.value)


def test_a_plug_in_that_lacks_a_place_is_refused_where_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("snakemake_executor_plugin_slurm.is_query_tool_available")
    snakemake_places.check(slurm=False)
    with pytest.raises(ConfigurationError, match="^snakemake-executor-plugin-slurm 2.8.0: .*query_tool"):
        snakemake_places.check(slurm=True)


def imports_snakemake(file: Path) -> bool:
    nodes = nodes_of(file)
    named = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    named += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return any(name.split(".")[0] == "snakemake" for name in named)


def test_no_other_module_imports_snakemake() -> None:
    found = [name for name, file in module_files().items() if imports_snakemake(file)]
    assert found == [ONE_MODULE]


def test_rules_ask_the_workflow_only_for_what_is_documented() -> None:
    for file in (ROOT / "Snakefile", *(ROOT / "rules").glob("*.smk")):
        asked = re.findall(r"(?<!/)\bworkflow\.(\w+)", file.read_text(encoding="utf-8"))
        assert set(asked) <= {"basedir"}
