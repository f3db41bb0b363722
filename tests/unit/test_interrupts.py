"""SIGTERM ends a run, whatever its main thread is doing at that moment."""

from __future__ import annotations

import subprocess
import sys

from test_environments import ROOT

# Snakemake's own handler takes a lock that its main thread holds now and then.
PROGRAM = """
import os, signal, threading
from hyperslab.planning.failures import Interrupts
lock, done = threading.Lock(), threading.Event()
def graceful(*_):
    with lock:
        done.set()
signal.signal(signal.SIGTERM, graceful)
interrupts = Interrupts()
interrupts.watch(cluster=False)
with lock:
    os.kill(os.getpid(), signal.SIGTERM)
    assert interrupts.seen and not done.is_set()
assert done.wait(10)
"""


def test_sigterm_waits_for_no_lock_that_the_main_thread_holds() -> None:
    subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT / "workflow/scripts",
        timeout=30,
        check=True,
        capture_output=True,
    )
