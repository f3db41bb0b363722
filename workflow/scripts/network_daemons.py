"""How each of the file systems of network_file_systems.py is started, and how its processes are ended."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from file_system_command import FileSystemError
from hyperslab.sites.mounts import mount_of
from loop_file_systems import run

# Debian's package of each command that a kind needs.
PACKAGES: dict[str, dict[str, str]] = {
    "bindfs": {"bindfs": "bindfs"},
    "sshfs": {"sshfs": "sshfs", "/usr/lib/openssh/sftp-server": "openssh-sftp-server"},
    "glusterfs": {"glusterd": "glusterfs-server", "glusterfs": "glusterfs-client"},
    "cephfs": {
        "ceph": "ceph-common", "ceph-mon": "ceph-mon", "ceph-mgr": "ceph-mgr", "ceph-osd": "ceph-osd",
        "ceph-mds": "ceph-mds", "ceph-fuse": "ceph-fuse",
    },
}  # fmt: skip
PLAIN_PATHS = ("glusterfs", "cephfs")
# GlusterFS takes no address of the network 127.
GLUSTER_ADDRESS = "10.77.0.1"
STRIPE_BYTES = 2**20
OSDS = 2
# A metadata server of Ceph takes a minute and more on a busy machine of two processors.
START_SECONDS = 180
END_SECONDS = 3


@dataclass
class Made:
    """What the record says of one file system: processes as [id, start in clock ticks since boot]."""

    kind: str
    processes: list[list[int]] = field(default_factory=list)
    address: bool = False


def started_at(process: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None where there is none,
    or only its remains.
    """
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return None if words[0] in "ZX" else int(words[19])
    return None


def wait_until(
    done: Callable[[], bool], what: str, seconds: float = START_SECONDS, pause: float = 0.1
) -> None:
    """Look until `done`, with a pause in between; FileSystemError after `seconds`."""
    last = time.monotonic() + seconds
    while not done():
        if time.monotonic() > last:
            raise FileSystemError(f"{what}: not within {seconds:g} s")
        time.sleep(pause)


class Place:
    """Where one file system lies, and the processes that serve it."""

    def __init__(self, directory: Path, name: str, made: Made, save: Callable[[], None]) -> None:
        self.name, self.made, self.save = name, made, save
        self.mount_point = directory / name
        self.data = directory / f"{name}.data"

    def log(self, command: str) -> Path:
        """Return where the output of a daemon goes."""
        return self.data / f"{Path(command).name}.output"

    def spawn(self, *command: str, channel: int | None = None) -> subprocess.Popen[bytes]:
        """Start a daemon that stays in the foreground; its output goes to a file among the data."""
        with self.log(command[0]).open("ab") as log:
            daemon = subprocess.Popen(
                command, stdin=channel or subprocess.DEVNULL, stdout=channel or log, stderr=log,
                start_new_session=True, cwd="/",
            )  # fmt: skip
        self.remember(daemon.pid)
        return daemon

    def remember(self, process: int) -> None:
        """Put a process into the record."""
        self.made.processes.append([process, started_at(process) or 0])
        self.save()

    def mounted(self) -> bool:
        """Return whether the mount point is one."""
        return mount_of(self.mount_point).point == str(self.mount_point)

    def mount(self, *command: str, channel: int | None = None) -> None:
        """Start the client and wait for its mount; FileSystemError where it ends or takes too long."""
        client = self.spawn(*command, str(self.mount_point), channel=channel)

        def there() -> bool:
            if client.poll() is not None:
                said = " ".join(self.log(command[0]).read_text(errors="replace").split())
                raise FileSystemError(f"{command[0]} ended: {said[-500:]}")
            return self.mounted()

        wait_until(there, f"{self.name} mounted")


def bindfs(place: Place) -> None:
    """Mount the directory `stored` through FUSE."""
    (place.data / "stored").mkdir()
    stored = str(place.data / "stored")
    place.mount("bindfs", "-f", stored)


def sshfs(place: Place) -> None:
    """Mount the directory `stored` through SFTP; client and server are joined by a pair of sockets."""
    (place.data / "stored").mkdir()
    client, server = socket.socketpair()
    with client, server:
        place.spawn("/usr/lib/openssh/sftp-server", channel=server.fileno())
        place.mount("sshfs", "-f", "-o", "passive", f":{place.data}/stored", channel=client.fileno())


def glusterfs(place: Place) -> None:
    """Mount a volume of two bricks, whose files are cut into shards."""
    for name in ("state", "run", "brick0", "brick1"):
        (place.data / name).mkdir()
    if GLUSTER_ADDRESS in run("ip", "-oneline", "address", "show"):
        raise FileSystemError(f"{GLUSTER_ADDRESS} is in use on this machine already")
    place.made.address = True
    place.save()
    run("ip", "address", "add", f"{GLUSTER_ADDRESS}/32", "dev", "lo")
    control = place.data / "run" / "glusterd.sock"
    options = {
        "working-directory": place.data / "state", "run-directory": place.data / "run",
        "glusterd-sockfile": control, "transport-type": "socket", "transport.address-family": "inet",
        "transport.socket.bind-address": GLUSTER_ADDRESS, "transport.socket.listen-port": 24007,
        "max-port": 60999, "event-threads": 1,
    }  # fmt: skip
    lines = [f"    option {name} {value}" for name, value in options.items()]
    configuration = place.data / "glusterd.vol"
    configuration.write_text(
        "\n".join(["volume management", "    type mgmt/glusterd", *lines, "end-volume\n"])
    )
    log = str(place.data / "glusterd.log")
    place.spawn("glusterd", "-N", "-f", str(configuration), "-p", str(place.data / "run/pid"), "-l", log)
    gluster = ("gluster", "--mode=script", f"--glusterd-sock={control}", f"--log-file={place.data}/cli.log")

    def answers() -> bool:
        with contextlib.suppress(FileSystemError):
            return bool(run(*gluster, "pool", "list"))
        return False

    wait_until(answers, "glusterd answers")
    bricks = [f"{GLUSTER_ADDRESS}:{place.data}/brick{number}" for number in range(2)]
    run(*gluster, "volume", "create", "hyperslab", *bricks, "force")
    run(*gluster, "volume", "set", "hyperslab", "features.shard", "on")
    run(*gluster, "volume", "set", "hyperslab", "features.shard-block-size", "4MB")
    run(*gluster, "volume", "start", "hyperslab")
    for file in (place.data / "run/vols/hyperslab").glob("*.pid"):
        place.remember(int(file.read_text()))
    server = (f"--volfile-server={GLUSTER_ADDRESS}", "--volfile-id=hyperslab")
    place.mount("glusterfs", "-N", *server, "-l", str(place.data / "client.log"))


def cephfs(place: Place) -> None:
    """Mount a Ceph of one monitor and two OSDs through ceph-fuse."""
    data, number = place.data, str(uuid.uuid4())
    with socket.create_server(("127.0.0.1", 0)) as free:
        monitor = f"[v2:127.0.0.1:{free.getsockname()[1]}/0]"
    for name in ("mon", "mgr", "mds", "run", *(f"osd.{osd}" for osd in range(OSDS))):
        (data / name).mkdir()
    settings = {
        "fsid": number, "mon host": monitor, "mon initial members": "a",
        "public addr": "127.0.0.1", "cluster addr": "127.0.0.1",
        "auth cluster required": "none", "auth service required": "none", "auth client required": "none",
        "osd pool default size": 1, "osd pool default min size": 1, "osd crush chooseleaf type": 0,
        "osd pool default pg num": 8, "mon allow pool size one": "true",
        # However full the disk is that carries all this.
        "mon data avail crit": 0, "mon data avail warn": 0,
        "mon data": data / "mon", "mgr data": data / "mgr", "mds data": data / "mds",
        "osd data": data / "osd.$id", "run dir": data / "run", "admin socket": data / "run/$name.sock",
        "crash dir": data / "run", "pid file": "", "log file": data / "$name.log",
        "mon cluster log file": data / "cluster.log",
        "bluestore block size": 2**30, "osd memory target": 939524096,
    }  # fmt: skip
    configuration = data / "ceph.conf"
    configuration.write_text("[global]\n" + "".join(f"{key} = {value}\n" for key, value in settings.items()))
    # Every command and daemon below is told this way.
    os.environ["CEPH_CONF"] = str(configuration)
    run("monmaptool", "--create", "--addv", "a", monitor, "--fsid", number, str(data / "monmap"))
    run("ceph-mon", "--mkfs", "-i", "a", "--monmap", str(data / "monmap"))
    place.spawn("ceph-mon", "-i", "a", "-f")
    ceph = ("ceph", "--connect-timeout", "60")
    run(*ceph, "config", "set", "mon", "auth_allow_insecure_global_id_reclaim", "false")
    place.spawn("ceph-mgr", "-i", "a", "-f")
    for osd in map(str, range(OSDS)):
        number = str(uuid.uuid4())
        run(*ceph, "osd", "new", number, osd)
        run("ceph-osd", "-i", osd, "--mkfs", "--osd-uuid", number)
        place.spawn("ceph-osd", "-i", osd, "-f")
    for pool in ("metadata", "data"):
        run(*ceph, "osd", "pool", "create", pool, "8")
    run(*ceph, "fs", "new", "hyperslab", "metadata", "data")
    place.spawn("ceph-mds", "-i", "a", "-f")
    # To ask takes most of a second of a processor, which the daemons need.
    wait_until(lambda: "up:active" in run(*ceph, "mds", "stat"), "the metadata server is active", pause=1.0)
    place.mount("ceph-fuse", "-f", "-n", "client.admin")
    # Free space is what the manager has counted, and a file system without any takes no test file.
    wait_until(lambda: os.statvfs(place.mount_point).f_bavail > 0, "the manager knows the free space")


KINDS = {"bindfs": bindfs, "sshfs": sshfs, "glusterfs": glusterfs, "cephfs": cephfs}


def end(process: int, start: int) -> None:
    """End a process and wait until it has gone; another one that has its id by now is left alone."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if started_at(process) != start:
            return
        os.kill(process, number)
        with contextlib.suppress(FileSystemError):
            wait_until(lambda: started_at(process) != start, f"process {process} ended", END_SECONDS)
