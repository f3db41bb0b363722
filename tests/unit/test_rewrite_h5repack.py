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

from compare_with_h5repack import repack_command, storage_of
from hyperslab import rewrite
from hyperslab.rewrite import read_layout
from hyperslab.rewriting.differences import differences
from hyperslab.rewriting.progress import Progress

SCRIPT = Path(__file__).parents[2] / "workflow" / "scripts" / "compare_with_h5repack.py"
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


def test_the_comparison_of_times_is_printed(original: Path, tmp_path: Path) -> None:
    called = [sys.executable, str(SCRIPT), str(original), DATASET, LAYOUTS["gzip"], "--rounds", "1"]
    done = run([*called, "--directory", str(tmp_path)])
    assert done.returncode == 0, done.stderr
    first = [line.split()[0] for line in done.stdout.splitlines()[:3]]
    assert first == ["hyperslab.rewrite", "h5repack", "h5diff"]
    assert f"chunks, filters and stored bytes of {DATASET}: equal" in done.stdout
    assert not list(tmp_path.iterdir())
