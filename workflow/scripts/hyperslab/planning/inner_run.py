"""A run of Snakemake inside a job of another: for records that could not be planned before that job."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hyperslab.measuring.parent import end_with_parent
from hyperslab.records import cell_of
from hyperslab.validation.errors import ConfigurationError, name_mistake

if TYPE_CHECKING:
    from hyperslab.planning.planned_study import PlannedStudy

# What runs it; whoever asks the run around it to stop means it, too (planning/failures.py).
PROGRAMS = frozenset((b"hyperslab.confirm", b"hyperslab.add_rounds"))
# What has a job of such a run be made again whose result is there, as both profiles say it.
TRIGGERS = ("mtime", "params", "input", "code")


def name_of(phase: str) -> str:
    """Return what the rounds of a phase other than the main one are called."""
    return "confirming rounds" if phase == "confirm" else "added rounds"


def configured(config: Mapping[str, Any]) -> list[str]:
    """Return configuration as a command line has it after --config, so that every name stays text.

    Snakemake takes 002.3 and 2026_11_25 for numbers, also between quotation marks, but not with YAML's tag.
    """
    return [f"{key}={_value(value)}" for key, value in config.items()]


def _value(given: object) -> object:
    if isinstance(given, dict):
        return json.dumps(given)
    return f"!!str {given}" if isinstance(given, str) and not name_mistake(given) else given


def command(
    snakefile: str | Path,
    config: Mapping[str, Any],
    target: str,
    *options: str,
    triggers: Sequence[str] = TRIGGERS,
) -> list[str]:
    """Return a Snakemake for `target` inside another one, of whose profile only `triggers` may reach in."""
    return [
        sys.executable, "-m", "snakemake", "--snakefile", str(snakefile), "--nolock", "--profile", "none",
        "--workflow-profile", "none", *options, "--scheduler", "greedy", "--rerun-incomplete",
        "--rerun-triggers", *triggers,
        "--config", *configured(config), "--", target,
    ]  # fmt: skip


def planned(run: Mapping[str, Any], name: str) -> PlannedStudy:
    """Return the study of a run's project as it is now.

    Ends the process with one line where it is faulty: its author may go on writing while it is measured.
    """
    # What makes a batch be measured needs none, and to import this takes longer than all that it does.
    from hyperslab.planning.planned_study import PlannedStudy

    try:
        return PlannedStudy(Path(run["snakefile"]).parent / "config" / "studies" / f"{name}.yaml")
    except ConfigurationError as error:
        sys.exit(f"hyperslab: {error}")


def needed(study: PlannedStudy, records: Collection[str], config: Mapping[str, Any]) -> bool:
    """Return whether a run inside one of this configuration may have some of these records to measure."""
    if not records or not config.get("measure", True):
        return False
    there = all(study.is_todays(Path(record), cell_of(Path(record))) for record in records)
    return not there or bool(config.get("remeasure"))


def measure(target: str, phase: str, run: Mapping[str, Any], config: Mapping[str, Any], log: Path) -> int:
    """Run Snakemake for `target`, a rule, as `run` says and with `config` besides; returns the exit status.

    Its output goes into `log`, its progress to the terminal.
    """
    # What the profile says of submitting and awaiting jobs comes in through `executing`.
    options = ["--cores", "all", *run["executing"], "--keep-going", "--show-failed-logs"]
    asked = {**run["config"], **config}
    # How far a run is begins so (planning/progress.py).
    progress = f"hyperslab: {name_of(phase)}: "
    parent = os.getpid()
    # Line by line: who looks into it meanwhile sees how far it is.
    with log.open("a", buffering=1, encoding="utf-8") as kept:
        inner = subprocess.Popen(
            command(run["snakefile"], asked, target, *options, triggers=run["triggers"]),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=lambda: end_with_parent(parent, signal.SIGTERM),
        )
        with _outlasting(inner):
            assert inner.stdout is not None
            for line in inner.stdout:
                kept.write(line)
                if line.startswith(progress):
                    print(line.rstrip(), file=sys.stderr, flush=True)
            return inner.wait()


@contextmanager
def _outlasting(inner: subprocess.Popen[str]) -> Iterator[None]:
    """Have whoever stops this process wait for the inner run, whose cells lie in the results of the outer."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    signal.signal(signal.SIGTERM, lambda number, _: inner.send_signal(number))
    if before[signal.SIGINT] is signal.default_int_handler:
        # What the terminal sends reaches the inner run, too.
        signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        # Between two such runs a signal ends this process.
        for number, handler in before.items():
            signal.signal(number, handler)
