"""A test artifact's directory: made and removed beside others, whose file system may vanish meanwhile."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hyperslab.measuring.artifact import make_directory, remove_directory
from hyperslab.sites.roots import MARKER


def test_what_is_empty_above_an_artifact_goes_with_it_but_not_the_root(tmp_path: Path) -> None:
    root = tmp_path / "root"
    one, other = root / "study/layout/case.r0", root / "study/another/case.r0"
    for directory in (one, other):
        make_directory(directory)
        (directory / "data.h5").touch()
    (root / MARKER).touch()
    remove_directory(one)
    assert not one.parent.exists()
    assert (other / "data.h5").exists()
    remove_directory(other)
    assert [path.name for path in root.iterdir()] == [MARKER]
    # What is not there is as well removed.
    remove_directory(other)


def test_nothing_is_tidied_where_the_file_system_has_vanished(tmp_path: Path) -> None:
    mount_point = tmp_path / "root"
    mount_point.mkdir()
    remove_directory(mount_point / "study/layout/case.r0")
    assert mount_point.is_dir()


def test_directories_come_and_go_side_by_side(tmp_path: Path) -> None:
    (tmp_path / MARKER).touch()

    def come_and_go(number: int) -> None:
        directory = tmp_path / "study/layout" / f"case.r{number}"
        for _ in range(200):
            make_directory(directory)
            assert directory.is_dir()
            remove_directory(directory)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(come_and_go, range(4)))
    assert [path.name for path in tmp_path.iterdir()] == [MARKER]
