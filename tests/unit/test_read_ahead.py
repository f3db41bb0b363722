"""The read-ahead of a site: set for as long as a cell is timed, and put back whatever ends the cell."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from samples import CELL, prepared, read_cell

import hyperslab
from hyperslab.generate import generate
from hyperslab.measure import measure
from hyperslab.measuring import read_ahead
from hyperslab.planning.site_checks import check_read_ahead
from hyperslab.sites import mounts, roots
from hyperslab.sites.configuration import load_sites
from hyperslab.validation.errors import ConfigurationError

# A process that sets it, says so, and goes on until it is ended.
HOLDER = """
import sys, time
from pathlib import Path
from hyperslab.measuring import read_ahead
from hyperslab.sites import mounts
setting, read_ahead.NOTES = Path(sys.argv[1]), Path(sys.argv[2])
mounts.read_ahead_setting = lambda path: setting
with read_ahead.kept("/", 131072):
    print("set", flush=True)
    time.sleep(60)
"""
SECONDS = 20


class Device:
    """A file in place of the kernel's, and a directory for notes."""

    def __init__(self, directory: Path) -> None:
        self.setting = directory / "7:9" / "read_ahead_kb"
        self.setting.parent.mkdir()
        self.setting.write_text("8192\n")
        self.notes = directory / "run"
        self.notes.mkdir()

    @property
    def kib(self) -> int:
        return int(self.setting.read_text())

    def left(self) -> list[str]:
        return [note.name for note in self.notes.iterdir()]

    def becomes(self, kib: int) -> None:
        """Wait until the setting is this, and nothing is left to be done."""
        for _ in range(SECONDS * 50):
            if self.setting.read_text().strip() == str(kib) and not self.left():
                return
            time.sleep(0.02)
        raise AssertionError(f"the read-ahead is still {self.setting.read_text()} KiB; notes: {self.left()}")


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Device:
    found = Device(tmp_path)
    monkeypatch.setattr(read_ahead, "NOTES", found.notes)
    monkeypatch.setattr(mounts, "read_ahead_setting", lambda path: found.setting)
    return found


def test_it_is_set_while_the_block_runs(device: Device) -> None:
    with read_ahead.kept("/", 131072) as bytes_:
        assert (device.kib, bytes_) == (128, 131072)
    assert (device.kib, device.left()) == (8192, [])
    with read_ahead.kept("/", 0) as bytes_:
        assert (device.kib, bytes_) == (0, 0)
    assert (device.kib, device.left()) == (8192, [])


def test_without_a_wish_it_is_only_read(device: Device) -> None:
    device.setting.chmod(0o400)
    with read_ahead.kept("/", None) as bytes_:
        assert bytes_ == 8192 * 1024
        assert not device.left()


def test_it_is_put_back_after_an_error(device: Device) -> None:
    with pytest.raises(ArithmeticError), read_ahead.kept("/", 131072):
        raise ArithmeticError
    assert (device.kib, device.left()) == (8192, [])


def holding(device: Device) -> subprocess.Popen[str]:
    """A process that has set it."""
    command = [sys.executable, "-c", HOLDER, str(device.setting), str(device.notes)]
    environment = {"PYTHONPATH": str(Path(hyperslab.__file__).parents[1]), "PATH": "/usr/bin:/bin"}
    holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "set\n"
    assert device.kib == 128
    return holder


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_it_is_put_back_when_the_process_is_killed(device: Device, number: int) -> None:
    with holding(device) as holder:
        holder.send_signal(number)
        holder.wait(SECONDS)
    device.becomes(8192)


def keeper_of(device: Device) -> int:
    """The process that waits to put back the setting of a device."""
    for _ in range(SECONDS * 50):
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                words = entry.read_bytes().split(b"\0")
                if words[0] == b"sh" and str(device.setting).encode() in words:
                    return int(entry.parent.name)
        # What has just been started has no words yet.
        time.sleep(0.02)
    raise AssertionError("nobody waits")


def test_the_next_cell_puts_back_what_a_machine_had_before_all_were_killed(device: Device) -> None:
    with holding(device) as holder:
        keeper = keeper_of(device)
        # As the kernel does with a whole group of processes that takes too much memory.
        subprocess.run(["kill", "-KILL", str(keeper), str(holder.pid)], check=True)
        holder.wait(SECONDS)
    assert (device.kib, len(device.left())) == (128, 1)
    with read_ahead.kept("/", 4096):
        assert device.kib == 4
    assert (device.kib, device.left()) == (8192, [])


def test_a_kernel_that_takes_another_value_is_told(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "read_ahead_bytes", lambda path: 65536)
    told = "reads 65536 bytes ahead, not the 131072 of read_ahead_bytes"
    with pytest.raises(OSError, match=told), read_ahead.kept("/", 131072):
        raise AssertionError
    assert (device.kib, device.left()) == (8192, [])


# ---- where it cannot be had


def sites_of(directory: Path, **file_system: Any) -> tuple[Path, Any]:
    file = directory / "sites.yaml"
    content = {
        "file_systems": {"fs": {"root": str(directory / "root" / "not" / "yet"), **file_system}},
        "sites": {"here": {"file_system": "fs"}},
    }
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    return file, load_sites(file)


def said(directory: Path, **file_system: Any) -> str:
    file, sites = sites_of(directory, **file_system)
    with pytest.raises(ConfigurationError) as error:
        check_read_ahead(["here"], sites, file)
    text = str(error.value)
    assert text.splitlines() == [text]
    return text.removeprefix(f"{file}: ")


def test_no_device_is_one_line_before_anything_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "read_ahead_setting", lambda path: None)
    line = said(tmp_path, read_ahead_bytes=131072)
    assert line.startswith(f"file_systems.fs.read_ahead_bytes: {tmp_path}: the device whose read-ahead")
    with pytest.raises(OSError, match="cannot be found"), read_ahead.kept(str(tmp_path), 131072):
        raise AssertionError
    file, sites = sites_of(tmp_path)
    check_read_ahead(["here"], sites, file)


def test_no_right_to_set_it_is_one_line_before_anything_runs(
    tmp_path: Path, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Root may write whatever its mode: a directory refuses even root.
    device.setting.unlink()
    device.setting.mkdir()
    line = said(tmp_path, read_ahead_bytes=131072)
    assert "read_ahead_bytes cannot be set" in line and line.endswith("only root may")
    with pytest.raises(OSError, match="only root may"), read_ahead.kept(str(tmp_path), 131072):
        raise AssertionError
    assert not device.left()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (-4096, "should be greater than or equal to 0"),
        (1000, "should be a multiple of 4096"),
        (2**40, "should be less than or equal to"),
        ("128K", "should be a valid integer"),
    ],
)
def test_what_no_kernel_takes_is_refused(tmp_path: Path, value: Any, expected: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        sites_of(tmp_path, read_ahead_bytes=value)
    assert f"file_systems.fs.read_ahead_bytes: {expected}" in str(error.value)


# ---- in a cell


def test_a_cell_is_measured_with_it_and_says_so(
    disk: Path, device: Device, own_locks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hyperslab.cases import read, timed_selections

    seen = []
    opened = timed_selections.timed_open

    def watched(context: Any) -> Any:
        seen.append(device.kib)
        return opened(context)

    monkeypatch.setattr(read, "timed_open", watched)
    spec = read_cell({"dataset": CELL["dataset"], "layout": CELL["layout"]}, (5, 5, 100), {"cold": 2})
    for wanted, kib in ((131072, 128), (None, 8192)):
        with prepared(disk) as root:
            roots.prepare(str(root), roots.Root(read_ahead_bytes=wanted))
            directory = root / "mine" / "a" / "box.r0"
            generate(spec, directory, None)
            record = measure(spec, directory, None)
        assert seen[-2:] == [kib, kib]
        assert record["file_system"]["read_ahead_bytes"] == kib * 1024
        assert record["file_system"]["read_ahead_set"] == (wanted is not None)
        assert record["root"]["read_ahead_bytes"] == wanted
        assert (device.kib, device.left()) == (8192, [])


def test_a_disk_of_this_machine_has_one(disk: Path, require: Callable[[str | None], None]) -> None:
    setting = mounts.read_ahead_setting(disk)
    if setting is None:
        require("the kernel does not say how far it reads ahead here")
        return
    assert mounts.read_ahead_bytes(disk) == int(setting.read_text()) * 1024
