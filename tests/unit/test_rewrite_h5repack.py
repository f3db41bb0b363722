"""h5repack, the HDF5 tool for the same change, makes the same file."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from compare_with_h5repack import main, ratio_of, repack_command, storage_of, tiled
from hyperslab import rewrite
from hyperslab.rewriting.asking import read_layout
from hyperslab.rewriting.differences import differences
from hyperslab.rewriting.progress import Progress

DATASET = "/measured/counts"
LAYOUTS = {
    "gzip": "{chunks: [4, 4, all], filters: [{gzip: 4}]}",
    "shuffle and gzip": "{chunks: [3, 11, 17], filters: [shuffle, {gzip: 9}]}",
    "checksums": "{chunks: [16, 24, 40], filters: [fletcher32]}",
    "chunks alone": "{chunks: [5, 5, 5]}",
    "contiguous": "{}",
}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("original") / "mine.h5"
    rng = np.random.default_rng(5)
    with h5py.File(path, "w", userblock_size=512) as file:
        counts = file.create_dataset(
            DATASET, data=rng.poisson(0.1, (16, 24, 40)).astype("u2"), chunks=(7, 8, 9)
        )
        file["measured/energy"] = np.arange(40) * 0.25
        file["measured/energy"].make_scale("energy")
        counts.dims[2].attach_scale(file["measured/energy"])
        counts.attrs["unit"] = "1"
        file.attrs["title"] = "counts"
        # h5repack takes a dataset for the link that it meets first, by name.
        file["other link"] = counts
        file["soft"] = h5py.SoftLink(DATASET)
        file["references"] = np.array([counts.ref, file["measured"].ref], h5py.ref_dtype)
        file["strings"] = np.array(["a", "b"], h5py.string_dtype())
    return path


@pytest.fixture(autouse=True)
def tools(require: Callable[[str | None], None]) -> None:
    absent = [tool for tool in ("h5repack", "h5diff") if shutil.which(tool) is None]
    require(f"{', '.join(absent)} not installed" if absent else None)


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_results_are_equal(original: Path, tmp_path: Path, name: str) -> None:
    ours, theirs = tmp_path / "ours.h5", tmp_path / "theirs.h5"
    layout = read_layout(LAYOUTS[name])
    rewrite.rewrite(original, ours, DATASET, layout, 2**26, Progress())
    chunk = storage_of(ours, DATASET)[0]
    subprocess.run(repack_command(original, theirs, DATASET, chunk, layout), check=True)
    assert storage_of(ours, DATASET) == storage_of(theirs, DATASET)
    assert not list(differences(ours, theirs))
    for new in (ours, theirs):
        done = run(["h5diff", str(original), str(new)])
        # It does not compare what references lead to, and says so.
        assert done.returncode == 0 and "differences found" not in done.stdout


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_comparison_of_times_is_printed(
    original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(original), DATASET, LAYOUTS["gzip"], "--rounds", "1", "--directory", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["compare_with_h5repack.py", *words])
    # The command sets it for what it starts.
    monkeypatch.setenv("PYTHONPATH", "")
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    said = capsys.readouterr().out
    first = [line.split()[0] for line in said.splitlines()[:4]]
    assert first == ["hyperslab.rewrite", "h5repack", "h5diff", "hyperslab.rewrite"]
    assert f"chunks, filters and stored bytes of {DATASET}: equal" in said
    assert not list(tmp_path.iterdir())


def test_a_dataset_is_repeated_up_to_a_size(tmp_path: Path) -> None:
    original = tmp_path / "mine.h5"
    data = np.random.default_rng(2).integers(0, 9, (8, 30, 10)).astype("i2")
    with h5py.File(original, "w") as file:
        file.create_dataset("a/b", data=data, chunks=(4, 7, 10), compression="gzip")
    with h5py.File(tiled(original, "/a/b", 3.5 * data.nbytes, tmp_path / "large.h5")) as file:
        assert (file["a/b"][...] == np.concatenate([data] * 3)).all()
        assert (file["a/b"].chunks, file["a/b"].compression) == ((4, 7, 10), "gzip")


def test_the_ratio_is_that_of_the_rounds() -> None:
    times = {"ours": [1.0, 2.0, 4.0], "one": [1.5, 3.0, 6.0], "other": [0.5, 1.0, 2.0]}
    assert ratio_of(times) == "0.500 (0.500 to 0.500)"
    assert ratio_of({name: taken[:2] for name, taken in times.items()}) == "0.500"
