"""A root is known again by its identity; another file system in its place is told from it."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hyperslab.results.recommendation import mixtures
from hyperslab.sites import places, roots
from hyperslab.sites.places import Place

DISK = Place("ext4", "/dev/sda1", "one")


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (DISK, True),
        # Mounted again, a loop device or a disk may have another number.
        (replace(DISK, source="/dev/sdb1"), True),
        # Emptied, or measured before roots had an identity.
        (replace(DISK, identity=""), True),
        (replace(DISK, identity="", source="/dev/sdb1"), False),
        (replace(DISK, identity="two"), False),
        # Copied with its marker.
        (replace(DISK, type="tmpfs"), False),
        # Each node has its own.
        (replace(DISK, identity="two", source="/dev/sdb1", node_local=True), True),
        (replace(DISK, type="tmpfs", node_local=True), False),
    ],
)
def test_what_is_the_same_place(other: Place, same: bool) -> None:
    assert DISK.same(other) == other.same(DISK) == same


def test_places_are_counted_once_each() -> None:
    others = [replace(DISK, identity=""), replace(DISK, source="/dev/sdb1"), Place("tmpfs", "tmpfs", "two")]
    assert places.distinct([others[0], DISK, *others]) == [DISK, others[2]]


def at_store(**store: Any) -> Place:
    """Where a record says that it was measured, whose data went to an object store."""
    described = {"start": "moto", "endpoint": None, "latency_ms": 10, "bandwidth": None, **store}
    root = {"identity": "one", "store": described}
    return places.recorded({"root": root, "file_system": {"type": "ext4", "source": "/dev/sda1"}})


@pytest.mark.parametrize(
    "changed",
    [{"latency_ms": 50.0}, {"bandwidth": 10**7}, {"start": None, "endpoint": "https://s3.example.org"}],
)
def test_another_line_to_a_store_or_another_store_is_another_place(changed: dict[str, Any]) -> None:
    one, other = at_store(), at_store(**changed)
    assert not one.same(other) and not other.same(one)
    # Whether a number was written as a whole one is no matter, nor what tables from before do not say.
    assert one.same(at_store(latency_ms=10.0)) and one.same(DISK) and DISK.same(other)
    assert places.distinct([DISK, one, other, one]) == sorted([one, other], key=lambda place: place.store)
    context = [{"site": "bucket", "place": place.to_dict()} for place in (one, other)]
    assert "the object store moto at 10 ms" in mixtures(context)["bucket"]
    assert mixtures(context[:1]) == {}


def test_a_root_keeps_its_identity_and_a_cell_finds_out_about_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    first = roots.prepare(str(root), roots.Root())
    assert roots.prepare(str(root), roots.Root(concurrency=2, identity="another")) == first
    assert roots.identity_of(str(root)) == first
    monkeypatch.setenv(roots.VARIABLE, json.dumps({str(root): first}))
    assert roots.read(str(root)).concurrency == 2
    (root / roots.MARKER).unlink()
    assert roots.identity_of(str(root)) == ""
    # What was prepared in its place is not it.
    roots.prepare(str(root), roots.Root())
    with pytest.raises(OSError, match="is not the file system that was there when the run began"):
        roots.read(str(root))


def test_an_emptied_root_gets_the_identity_that_its_records_have(tmp_path: Path) -> None:
    assert roots.prepare(str(tmp_path), roots.Root(identity="known")) == "known"


def test_any_user_may_read_the_marker_that_another_has_written(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        roots.prepare(str(tmp_path), roots.Root())
    finally:
        os.umask(before)
    assert (tmp_path / roots.MARKER).stat().st_mode & 0o777 == 0o644
