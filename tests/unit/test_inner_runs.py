"""Runs of Snakemake inside another: what they are told, and how they submit and wait."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hyperslab import batch
from hyperslab.planning import asked_notes, failures, inner_run
from hyperslab.planning.invocation import Invocation, read
from hyperslab.planning.plan import Plan
from hyperslab.planning.request import ASKED_VARIABLE, Request
from hyperslab.planning.run_configuration import checked
from hyperslab.records import read_json, written_at
from hyperslab.validation.errors import ConfigurationError

TEXTS = (
    "002.3", "9.2", "1e5", "2026_11_25", "0x1F", "inf", "true", "True", "no", "null", "a_b.c+d-", "",
    "disk/*/slices.r0", "*", "[ab]/*", "it's.yaml", "my sites.yaml", "srun --overlap --mpi=pmix",
)  # fmt: skip
NAMES = ("002.3", "2026_11_25", "true")


def parsed(words: Sequence[str]) -> dict[str, Any]:
    """What Snakemake makes of words of its configuration."""
    # Not by whoever only collects tests: it takes a second.
    from snakemake.cli import parse_config

    found: dict[str, Any] = parse_config(words)
    return found


def told(command: list[str]) -> dict[str, Any]:
    """What the Snakemake of a command finds in its configuration."""
    return parsed(command[command.index("--config") + 1 : command.index("--")])


def triggers(command: list[str]) -> list[str]:
    """What has a job of the Snakemake of a command be made again."""
    return command[command.index("--rerun-triggers") + 1 : command.index("--config")]


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_reaches_a_run_inside_as_it_is(text: str) -> None:
    given = {"study": "mine", "claim": text, "measure": False, "stage": 2}
    found = checked(parsed(inner_run.configured(given)), ())
    assert {key: found[key] for key in given} == {**given, "stage": "2"}


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_is_of_the_study_that_it_is_asked_for(name: str) -> None:
    run = {"snakefile": "Snakefile", "config": {"measure": True, "study": "quick"}, "triggers": ["mtime"]}
    assert told(batch.command(name, "node", "r0of1", run)) == {
        "measure": True, "study": name, "batched": "node", "batch": "r0of1"
    }  # fmt: skip


def test_what_makes_a_batch_be_measured_plans_nothing() -> None:
    code = "import sys\nfrom hyperslab import batch\nsys.exit('hyperslab.studies.schema' in sys.modules)"
    scripts = str(Path(batch.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": scripts}, check=False
    )
    assert done.returncode == 0


@pytest.mark.parametrize("name", NAMES)
def test_rounds_are_added_for_the_claim_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    commands: list[list[str]] = []

    def start(command: list[str], **options: Any) -> Any:
        commands.append(command)
        raise InterruptedError

    monkeypatch.setattr(subprocess, "Popen", start)
    run = {"snakefile": "Snakefile", "config": {"study": "quick"}, "executing": (), "triggers": ["mtime"]}
    own = {"study": "mine", "stage": 1, "claim": name}
    with pytest.raises(InterruptedError):
        inner_run.measure("added_cells", "a1", run, own, tmp_path / "log")
    assert told(commands[0]) == own
    assert triggers(commands[0]) == ["mtime"]


def test_a_batch_of_rounds_for_a_claim_knows_the_claim() -> None:
    config = {"study": "mine", "measure": True, "claim": "002.3", "stage": "1"}
    forwarded = Request(config, Invocation(executor="slurm"), Path()).forwarded
    run = {"snakefile": "Snakefile", "config": forwarded, "triggers": ["mtime"]}
    assert told(batch.command("mine", "node", "a1r0of1", run))["claim"] == "002.3"


@pytest.mark.parametrize("name", NAMES)
def test_a_partial_report_is_of_the_study_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"results/{name}/cells/disk/auto").mkdir(parents=True)
    (tmp_path / f"results/{name}/cells/disk/auto/slices.r0.json").touch()
    commands: list[list[str]] = []

    def run(command: list[str], **options: Any) -> Any:
        commands.append(command)
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(subprocess, "run", run)
    pages = [f"results/{name}/report.html", f"results/{name}/advice.html"]
    failures.partial_results({name: pages}, Path("Snakefile"), {"remeasure": "*"})
    assert [told(command) for command in commands] == [{"study": name, "measure": False}] * 2
    assert [command[-1] for command in commands] == pages


def test_what_is_made_after_a_failure_looks_as_it_was_asked_for() -> None:
    style = {"dpi": 150, "font_size": 11.5, "ink": "#333333"}
    own = {"site": "far", "materialise": True, "website": True, "container": "mine.sif", "style": style}
    asked = checked({"study": "mine", **own}, ())
    forwarded = Request(asked, Invocation(), Path()).forwarded
    again = checked(parsed(inner_run.configured(forwarded)), ())
    assert again == asked and own.items() <= again.items()


def test_after_a_failure_every_page_that_was_asked_for_is_made_and_no_file_is_rewritten() -> None:
    rewritten = "results/mine/layout/recommended.h5"
    pages = ("results/mine/claims.json", "results/mine/report.html")
    asked = Request({}, Invocation(targets=(*pages, rewritten, "results/other/layout/a.h5")), Path())
    assert asked.made_of_records(["mine", "other"]) == {
        "mine": list(pages), "other": ["results/other/report.html"]
    }  # fmt: skip


def test_a_process_of_a_job_is_of_no_study_that_its_job_is_not_of() -> None:
    assert Request({"study": "quick"}, Invocation(main=False), Path()).studies == []
    assert Request({"study": "quick"}, Invocation(), Path()).studies == ["quick"]


def test_a_run_inside_submits_and_waits_as_the_one_around_it() -> None:
    called = ("--executor", "slurm", "--jobs", "3", "--retries", "2", "--latency-wait", "60")
    executing = read((*called, "--", "all")).executing
    pairs = dict(zip(executing[::2], executing[1::2], strict=False))
    assert (pairs["--executor"], pairs["--jobs"]) == ("slurm", "3")
    assert (pairs["--retries"], pairs["--latency-wait"]) == ("2", "60")
    # A run inside that one, too.
    assert read((*executing, "--", "all")).executing == executing


def test_a_run_inside_makes_again_what_the_one_around_it_would() -> None:
    assert read(("--rerun-triggers", "mtime", "input", "--", "all")).triggers == ("input", "mtime")
    run = {"snakefile": "Snakefile", "config": {}, "triggers": ["input", "mtime"]}
    assert triggers(batch.command("mine", "node", "r0of1", run)) == ["input", "mtime"]
    # Pages of what is there, after a failure, are made of whatever they show.
    assert set(triggers(inner_run.command("Snakefile", {}, "all"))) >= {"params", "code"}


def test_a_profile_that_is_not_found_from_the_directory_of_results_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = ("--profile", "profiles/local", "--directory", str(tmp_path), "--dry-run", "--", "all")
    monkeypatch.chdir(Path(__file__).parents[2])
    assert read(called).dry_run
    # As Snakemake, which has gone there when it reads the Snakefile.
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match="^--profile: beside --directory, name it by an absolute"):
        read(called)


@pytest.mark.parametrize(
    "option",
    ["--dry-run", "--summary", "--detailed-summary", "--list-rules", "--dag", "--rulegraph"],
)
def test_who_asks_to_be_shown_something_has_no_sites_probed(option: str) -> None:
    """Advice, which probes sites and writes a study, comes first in runs alone."""
    assert read(("--cores", "1", "results/mine/report.html", option)).dry_run
    assert not read(("--cores", "1", "results/mine/report.html", "--touch")).dry_run


def test_a_run_inside_knows_what_the_one_around_it_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = Request({"study": "mine", "batched": "far"}, Invocation(), tmp_path)
    outside = Request({"study": "mine"}, Invocation(), tmp_path)
    monkeypatch.delenv(ASKED_VARIABLE, raising=False)
    assert inside.noted is None
    note = tmp_path / "asked.json"
    monkeypatch.setenv(ASKED_VARIABLE, str(note))
    # It goes with the run that wrote it: then nothing is known to have been measured again.
    assert inside.noted is None
    note.write_text('{"one": [1795270025123456789, 20]}', encoding="utf-8")
    assert inside.noted == {"one": [1795270025123456789, 20]}
    assert outside.noted is None


@pytest.mark.usefixtures("own_locks")
def test_a_run_removes_what_killed_ones_noted_of_a_remeasure_and_no_note_of_a_living_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program = """
import os, signal
from hyperslab.planning import asked_notes
print(asked_notes.write({"one": [1, 20]}), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    dead, living = Path(done.stdout.strip()), asked_notes.write({"two": [2, 20]})
    assert read_json(dead) == {"one": [1, 20]}
    asked_notes.sweep()
    assert not dead.exists()
    assert read_json(living) == {"two": [2, 20]}


def test_what_a_failed_run_has_made_is_told_without_a_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """That of a file server may be minutes behind, and its new report older than the run."""
    monkeypatch.chdir(tmp_path)
    for name in ("old", "new"):
        Path(name).touch()
        os.utime(name, (1000, 1000))
    before = {name: written_at(name) for name in ("old", "new", "none")}
    os.utime("new", (1001, 1001))
    failures.say_not_made({"mine": list(before)}, before)
    assert capsys.readouterr().err.splitlines() == [
        "hyperslab: mine: old could not be made, and is still the one of before this run",
        "hyperslab: mine: new is made, something else is not",
        "hyperslab: mine: none could not be made",
    ]


def test_jobs_of_a_run_inside_another_find_the_interpreter_where_its_own_do(tmp_path: Path) -> None:
    """Their cells are forked by the same parent only where all variables are the same."""
    invocation = SimpleNamespace(executing=(), triggers=())
    plan: Any = SimpleNamespace(
        directory=tmp_path,
        request=SimpleNamespace(forwarded={}, invocation=invocation),
        inventory=SimpleNamespace(sites={}),
    )
    workflow = SimpleNamespace(deployment_settings=SimpleNamespace(deployment_method=set()))
    prefix = Plan.shell_prefix(plan, workflow, tmp_path).replace("{{", "{").replace("}}", "}")
    found = [
        subprocess.run(
            ["bash", "-c", f'{prefix * times}printf %s "$PATH"'],
            env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True,
        ).stdout
        for times in (1, 2)
    ]  # fmt: skip
    assert found == [f"{Path(sys.executable).parent}:/usr/bin:/bin"] * 2
