"""What was measured where: node, processor, kernel, file system, versions, and the interval of a cell."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from hyperslab.measuring import pagecache
from hyperslab.measuring.processors import within_quota
from hyperslab.records import Moment
from hyperslab.sites import mounts, striping

# The kernel's directories of processors.
CPUS = Path("/sys/devices/system/cpu")


def describe_machine() -> dict[str, Any]:
    """Return the node, processor, memory and kernel."""
    return {
        "node": node_name(),
        "cpu": _first_value("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "reclaims_by_itself": _reclaim(),
        "residency": _residency(),
    }


def physical_cores() -> int:
    """Return the cores that this process may use, two hardware threads of one core counted once, and no more
    than its quota of time makes use of.
    """
    allowed = os.sched_getaffinity(0)
    # Not by number: cores of different clusters or dies may have the same one.
    siblings = (CPUS / f"cpu{number}" / "topology" / "thread_siblings" for number in allowed)
    try:
        cores = len({path.read_text() for path in siblings})
    except OSError:
        cores = len(allowed)
    return within_quota(cores)


def node_name() -> str:
    """Return Slurm's name of this node, else the machine's."""
    return os.environ.get("SLURMD_NODENAME") or platform.node()


def _first_value(file: str, key: str) -> str:
    try:
        for line in Path(file).read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == key:
                return value.strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def _residency() -> str:
    """Return how this kernel tells which pages of a file are in memory: "cachestat" or "mincore"."""
    descriptor = os.open(__file__, os.O_RDONLY)
    try:
        return pagecache.method(descriptor)
    finally:
        os.close(descriptor)


def _reclaim() -> bool:
    """Return whether the kernel reclaims cached pages without need (DAMON)."""
    module = Path("/sys/module/damon_reclaim/parameters/enabled")
    with suppress(OSError):
        if module.read_text().strip() == "Y":
            return True
    for state in Path("/sys/kernel/mm/damon/admin/kdamonds").glob("*/state"):
        with suppress(OSError):
            actions = {
                action.read_text().strip() for action in state.parent.glob("contexts/*/schemes/*/action")
            }
            if state.read_text().strip() == "on" and actions & {"pageout", "cold"}:
                return True
    return False


def describe_file_system(root: str) -> dict[str, Any]:
    """Return what is recorded of the file system of `root`: type, source, options,
    sizes in bytes, striping.
    """
    mount = mounts.mount_of(root)
    space = os.statvfs(root)
    return {
        "type": mount.type,
        "source": mount.source,
        "options": mount.options,
        "block_bytes": space.f_bsize,
        "free_bytes": space.f_bavail * space.f_frsize,
        "read_ahead_bytes": mounts.read_ahead_bytes(root),
        "memory_resident": mount.in_memory,
        "fuse": mount.fuse,
        "network": mount.network,
        "striping": striping.describe(root, mount.type),
        # Elsewhere another process or another machine reads from the device, or what memory has counts, too.
        "device_counted": not (mount.fuse or mount.network or mount.own_cache or mounts.cached_image(root)),
        # Caches beyond this node's (servers, hosts, a FUSE program) cannot be emptied from here.
        "server_cache": "not controlled",
        # To evict a file it is opened, which brings both into memory; they are not dropped in any state.
        "names_and_inodes": "cached",
    }


def describe_versions() -> dict[str, str]:
    """Return the versions of what every measurement runs on; a format adds its own."""
    return {
        "python": platform.python_version(),
        "numpy": metadata.version("numpy"),
        "executable": Path(sys.executable).name,
    }


def versions_of(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of those Python packages that there are: a release's environment may lack one."""
    found = {}
    for name in packages:
        # By the package's own name, which need not be that of a module.
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def available_memory_bytes() -> int:
    """Return how many bytes the kernel could give to programs now, page cache that it would drop included."""
    words = Path("/proc/meminfo").read_text(encoding="ascii").split()
    return int(words[words.index("MemAvailable:") + 1]) * 1024


def largest_memory_bytes(process: int | str = "self") -> int:
    """Return the largest resident memory of this program, or of another process, so far; 0 once it has ended.

    Not by getrusage: what a process inherits across fork and exec counts there, so that a small one started
    by a large one seems large.
    """
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    # A process that has ended and is not waited for has a status, and no memory.
    found = status.partition("VmHWM:")[2].split(maxsplit=1)
    return int(found[0]) * 1024 if found else 0


def now() -> Moment:
    """Return this moment on every clock that comparisons need."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = platform.node()
    return {"boot_id": boot, "boottime_s": time.clock_gettime(time.CLOCK_BOOTTIME), "wall_s": time.time()}
