#!/usr/bin/env python3
"""A real Slurm cluster on one machine, for tests: munged, slurmctld and several slurmd.

It needs neither systemd nor a database. Everything lies in one directory except the link
/etc/slurm/slurm.conf (SLURM_CONF alone does not reach into job steps); `down` puts back what it replaced.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from cluster_processes import end_processes, processes, wait_until

SYSTEM_CONF = Path("/etc/slurm/slurm.conf")
TEMPLATE = Path(__file__).with_name("slurm.conf.template")
INSTALL = "apt-get update && apt-get install -y --no-install-recommends slurm-wlm munge"
COMMANDS = ("munged", "slurmctld", "slurmd", "sinfo", "squeue", "scancel", "scontrol", "srun", "sbatch")
LONGEST_DIRECTORY = 70  # bytes: a step's socket DIR/spool/n1/n1_<job>.<step> must fit into 107
START_SECONDS = 180
EXPLANATION = f"""\
examples
  cluster.py up --dir /tmp/slurm                  nodes n1 and n2; partition main (both), first (n1 only)
  cluster.py up --dir /tmp/slurm --memory-limits  a job over its memory is killed (state FAILED)
  cluster.py status --dir /tmp/slurm              processes, nodes and jobs; status 1 if it does not answer
  cluster.py down --dir /tmp/slurm                cancel jobs, stop daemons, restore /etc/slurm/slurm.conf

once it is up, for causing faults
  scontrol update nodename=n1 state=down reason=test   its job is requeued under the same id
  scontrol update nodename=n1 state=resume             the node comes back
  scontrol requeue 7; scancel 7; squeue; sinfo -N

There is no accounting: sacct, where it is installed, has nothing to say.
Logs stay in DIR/log after `down`. Root is needed, and on Debian or Ubuntu
  {INSTALL}
"""
MEMORY_LIMITS = """\
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill"""


class ClusterError(Exception):
    """What is wrong, in one line for the user."""


@dataclass(frozen=True)
class Cluster:
    """A cluster in `directory`; `cpus` and `memory_mb` (MB) are what each of its nodes claims to have."""

    directory: Path
    nodes: int = 2
    cpus: int = os.cpu_count() or 1
    memory_mb: int = 4000
    base_port: int = 26817
    memory_limits: bool = False
    # Further lines of slurm.conf, such as a partition of some of the nodes.
    lines: tuple[str, ...] = ()

    @property
    def conf(self) -> Path:
        return self.directory / "slurm.conf"

    @property
    def name(self) -> str:
        """A name that no other directory's cluster has: it marks the processes and files that are ours."""
        return "hyperslab" + hashlib.sha256(bytes(self.directory)).hexdigest()[:8]

    @property
    def aside(self) -> Path:
        """Where an earlier /etc/slurm/slurm.conf waits until `down`."""
        return SYSTEM_CONF.with_name(f"slurm.conf.before-{self.name}")

    @property
    def node_names(self) -> list[str]:
        return [f"n{number}" for number in range(1, self.nodes + 1)]

    def processes(self, kind: str) -> list[int]:
        """Ids of the living processes of a kind: `daemon` or `job` of this cluster, or `foreign` daemons."""
        return processes(self.directory, self.name)[kind]

    def run(self, *command: str, timeout: float = 20) -> str:
        """Standard output of a command that talks to this cluster; ClusterError where it fails or hangs."""
        # settings of an outer Slurm job would be inherited by the daemons and override what is asked
        outer = ("SLURM", "SBATCH", "SRUN", "SQUEUE", "SINFO")
        env = {key: value for key, value in os.environ.items() if not key.startswith(outer)}
        env["SLURM_CONF"] = str(self.conf)
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=env)
        except subprocess.TimeoutExpired:
            raise ClusterError(f"{command[0]} gave no answer within {timeout:g} s") from None
        if done.returncode:
            raise ClusterError(f"{' '.join(command)}: {' '.join(done.stderr.split()) or done.returncode}")
        return done.stdout


def missing() -> str | None:
    """Why this machine cannot run a cluster, in one line; None where it can."""
    if os.geteuid() != 0:
        return "a Slurm cluster needs root"
    absent = [command for command in COMMANDS if shutil.which(command) is None]
    return f"Slurm is not installed ({', '.join(absent)} not found): {INSTALL}" if absent else None


def refusal(cluster: Cluster) -> str | None:
    """Why `cluster` must not be brought up now, in one line; None where it may."""
    directory = str(cluster.directory)
    if len(os.fsencode(directory)) > LONGEST_DIRECTORY or any(sign in " \t#,\"'%$" for sign in directory):
        return f"--dir: at most {LONGEST_DIRECTORY} bytes, no space, quote, '#', ',', '%' or '$': {directory}"
    if cluster.processes("daemon") or cluster.processes("job"):
        return f"a cluster is already up in {directory}: stop it with cluster.py down --dir {directory}"
    if cluster.processes("foreign") or controller_answers():
        return f"another Slurm cluster is already there, see {SYSTEM_CONF.resolve()}"
    for port in range(cluster.base_port, cluster.base_port + cluster.nodes + 1):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except (OSError, OverflowError):
                return f"port {port} is not free: choose another --base-port"
    return None


def controller_answers() -> bool:
    """Whether this machine's own configuration leads to a living controller, here or elsewhere."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        ping = subprocess.run(("scontrol", "ping"), capture_output=True, text=True, timeout=10)
        return " UP" in ping.stdout
    return False


def up(cluster: Cluster) -> float:
    """Start `cluster` and wait until every node is idle; returns the seconds taken, raises ClusterError."""
    start = time.monotonic()
    problem = missing() or refusal(cluster)
    if problem:
        raise ClusterError(problem)
    down(cluster)  # what an interrupted run may have left
    try:
        start_daemons(cluster)
        if not wait_until(lambda: all_idle(cluster), START_SECONDS):
            raise ClusterError(f"nodes not idle within {START_SECONDS} s, see {cluster.directory}/log")
    except BaseException:
        down(cluster)
        raise
    return time.monotonic() - start


def start_daemons(cluster: Cluster) -> None:
    top = cluster.directory
    for folder in ("munge", "state", "run", "log", *(f"spool/{node}" for node in cluster.node_names)):
        (top / folder).mkdir(parents=True, exist_ok=True)
    key = top / "munge/key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(1024))
    cluster.conf.write_text(configuration(cluster))
    SYSTEM_CONF.parent.mkdir(exist_ok=True)
    if os.path.lexists(SYSTEM_CONF):
        SYSTEM_CONF.rename(cluster.aside)
    SYSTEM_CONF.symlink_to(cluster.conf)
    files = {"socket": "munge/sock", "key-file": "munge/key", "pid-file": "run/munged.pid"}
    files |= {"log-file": "log/munged.log", "seed-file": "munge/seed"}
    # --force: the directory may be private to root, which munged otherwise refuses
    cluster.run("munged", "--force", *(f"--{option}={top / name}" for option, name in files.items()))
    cluster.run("slurmctld", "-f", str(cluster.conf))
    for node in cluster.node_names:
        cluster.run("slurmd", "-f", str(cluster.conf), "-N", node)


def configuration(cluster: Cluster) -> str:
    """The text of slurm.conf: the controller listens on the base port, node n<i> on the i-th after it."""
    host = socket.gethostname().split(".")[0]
    nodes = [
        f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={cluster.base_port + number}"
        f" CPUs={cluster.cpus} RealMemory={cluster.memory_mb} Feature={node} State=UNKNOWN"
        for number, node in enumerate(cluster.node_names, start=1)
    ]
    return Template(TEMPLATE.read_text()).substitute(
        name=cluster.name,
        host=host,
        port=cluster.base_port,
        dir=cluster.directory,
        accounting=MEMORY_LIMITS if cluster.memory_limits else "JobAcctGatherType=jobacct_gather/none",
        nodes="\n".join(nodes),
        lines="\n".join(cluster.lines),
    )


def all_idle(cluster: Cluster) -> bool:
    try:
        lines = cluster.run("sinfo", "-h", "-N", "-p", "main", "-o", "%N %T", timeout=5).splitlines()
    except ClusterError:
        return False  # the controller is not listening yet
    return sorted(lines) == sorted(f"{node} idle" for node in cluster.node_names)


def cancel_jobs(cluster: Cluster) -> None:
    """Cancel every job and wait until the queue is empty; what remains is ended by process id later."""
    with contextlib.suppress(ClusterError, FileNotFoundError):
        jobs = cluster.run("squeue", "-h", "-o", "%A", timeout=5).split()
        if jobs:
            cluster.run("scancel", *jobs, timeout=5)
            wait_until(lambda: not cluster.run("squeue", "-h", "-o", "%A", timeout=5).split(), 10)


def down(cluster: Cluster) -> bool:
    """Stop `cluster` and remove what it made except its logs; false where there was nothing to stop."""
    living = cluster.processes("daemon") + cluster.processes("job")
    if cluster.processes("daemon"):
        cancel_jobs(cluster)
    for kind in ("job", "daemon"):
        remaining = end_processes(functools.partial(cluster.processes, kind), seconds=5)
        if remaining:
            raise ClusterError(f"{kind} processes {remaining} do not end")
    linked = SYSTEM_CONF.is_symlink() and SYSTEM_CONF.readlink() == cluster.conf
    if linked:
        SYSTEM_CONF.unlink()
    if os.path.lexists(cluster.aside) and not os.path.lexists(SYSTEM_CONF):
        cluster.aside.rename(SYSTEM_CONF)
    if not (living or linked or cluster.conf.exists()):
        return False
    for folder in ("munge", "state", "spool", "run"):
        shutil.rmtree(cluster.directory / folder, ignore_errors=True)
    cluster.conf.unlink(missing_ok=True)
    return True


@contextlib.contextmanager
def running_cluster(directory: Path, **options: Any) -> Iterator[Cluster]:
    """A cluster in `directory` (`options` as in Cluster) for the length of a with block.

    Raises ClusterError where none can be had.
    """
    cluster = Cluster(directory.resolve(), **options)
    up(cluster)
    try:
        yield cluster
    finally:
        down(cluster)


def status(cluster: Cluster) -> str:
    """Processes, nodes and jobs; raises ClusterError where the cluster does not answer."""
    if not cluster.conf.exists():
        raise ClusterError(f"no cluster in {cluster.directory}")
    counts = ", ".join(f"{len(cluster.processes(kind))} {kind}s" for kind in ("daemon", "job"))
    table = cluster.run("sinfo", "-N", "-p", "main") + cluster.run("squeue")
    return f"{cluster.name} in {cluster.directory}, processes: {counts}\n{table.rstrip()}"


def arguments() -> argparse.Namespace:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, epilog=EXPLANATION, formatter_class=raw)
    actions = parser.add_subparsers(dest="action", required=True, metavar="up|status|down")
    for action, text in {"up": "start", "status": "show", "down": "stop (safe to repeat)"}.items():
        one = actions.add_parser(action, help=f"{text} the cluster in --dir")
        one.add_argument("--dir", type=Path, required=True, help="directory that holds the whole cluster")
        if action == "up":
            one.add_argument("--nodes", type=int, default=2, help="number of nodes, n1 ... (default 2)")
            one.add_argument("--cpus", type=int, default=Cluster.cpus, help="CPUs of a node (default: all)")
            one.add_argument("--memory-mb", type=int, default=4000, help="memory of a node (default 4000)")
            one.add_argument("--base-port", type=int, default=26817, help="first of nodes + 1 TCP ports")
            one.add_argument("--memory-limits", action="store_true", help="kill jobs over their memory")
    return parser.parse_args()


def main() -> int:
    options = vars(arguments())
    action = options.pop("action")
    cluster = Cluster(options.pop("dir").resolve(), **options)
    try:
        if action == "up":
            print(f"{cluster.nodes} nodes idle after {up(cluster):.1f} s, configuration {cluster.conf}")
        elif action == "down":
            print(f"{'stopped the cluster' if down(cluster) else 'nothing to stop'} in {cluster.directory}")
        else:
            print(status(cluster))
    except (ClusterError, OSError) as error:
        print(f"cluster.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
