"""Studies that ask for advice: which layouts they have is known once their sites have been probed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from hyperslab.planning.request import Request
from hyperslab.studies import advised
from hyperslab.validation.errors import ConfigurationError

PREFIX = "hyperslab.advise: "


def settle(request: Request, studies: Sequence[str]) -> None:
    """Have the sites of those studies probed that ask for advice and have none yet.

    Only the run that the user starts does, and no dry run, which says so when it loads the study. Raises
    ConfigurationError.
    """
    called = request.invocation
    if not called.main or called.dry_run or request.inner or not request.measuring:
        return
    for name in studies:
        file = request.directory / "config" / "studies" / f"{name}.yaml"
        if not file.exists() or not advised.asks(file) or advised.is_made(file):
            continue
        command = [sys.executable, "-m", "hyperslab.advise", "--study", str(file)]
        command += ["--sites", str(request.sites_file)]
        # With local=true either kind of site can be reached.
        command += ["--executor", called.executor] if not request.local else []
        # It says how far it is on standard error; its last line there is why it ends.
        process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )
        assert process.stderr is not None
        last = ""
        for line in process.stderr:
            print(last, end="", file=sys.stderr, flush=True)
            last = line
        if process.wait():
            raise ConfigurationError(file, advised.KEY, last.removeprefix(PREFIX) or "advice failed")
        print(last, end="", file=sys.stderr, flush=True)
