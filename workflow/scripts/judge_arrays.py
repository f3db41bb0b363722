"""Make the arrays of config/advice-judge.yaml, by which `judge_advice.py` judges advice; takes two minutes.

judge_arrays.py --waveforms FILE DIR      waveforms.npy, recording.npy and scan.npy in DIR, 680 MB in all

None had a part in anything that advice knows. FILE holds detector waveforms as /RD/sipmrwf (3 x 1,792 x 1,300
int16), such as next_6229_000_split_trigger.h5: its values are real, and repeated with sensors and moments
moved, so that no two events are equal. The recording (64 channels at 20 kHz for two minutes: noise that
drifts, and spikes) and the scan (48 x 48 diffraction patterns of 192 x 192 pixels: a disk and rings, counted)
are synthetic, and the same in every run.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

WAVEFORMS = "/RD/sipmrwf"
EVENTS = 36
CHANNELS, MOMENTS, SPIKES = 64, 2_400_000, 40_000
POSITIONS, PIXELS, MOST_COUNTS = 48, 192, 60.0


def waveforms(file: Path) -> npt.NDArray[Any]:
    """Return real waveforms (events x sensors x moments), repeated; raises OSError, KeyError."""
    rng = np.random.default_rng(1)
    with h5py.File(file, "r") as opened:
        real = opened[WAVEFORMS][...]
    return np.stack(
        [
            np.roll(real[number % len(real)], rng.integers(0, real.shape[1:]), axis=(0, 1))
            for number in range(EVENTS)
        ]
    )


def recording() -> npt.NDArray[np.int16]:
    """Return a recording (moments x channels): white noise, a drift, and spikes."""
    rng = np.random.default_rng(2)
    found = np.empty((MOMENTS, CHANNELS), np.int16)
    shape = -120 * np.exp(-np.arange(30) / 6) * np.sin(np.arange(30) / 3)
    for channel in range(CHANNELS):
        noise = rng.normal(0, 12, MOMENTS)
        drift = np.cumsum(rng.normal(0, 0.3, MOMENTS))
        drift -= np.convolve(drift, np.ones(4001) / 4001, "same")
        signal = noise + drift
        for start in rng.integers(0, MOMENTS - len(shape), SPIKES // CHANNELS):
            signal[start : start + len(shape)] += shape * rng.uniform(0.5, 3)
        found[:, channel] = np.round(signal)
    return found


def scan() -> npt.NDArray[np.uint16]:
    """Return diffraction patterns (y x x x ky x kx): a disk that wanders, rings, and their counting noise."""
    rng = np.random.default_rng(3)
    found = np.empty((POSITIONS, POSITIONS, PIXELS, PIXELS), np.uint16)
    ky, kx = np.mgrid[:PIXELS, :PIXELS] - PIXELS / 2
    for y, x in np.ndindex(POSITIONS, POSITIONS):
        radius = np.hypot(ky - 3 * np.sin(y / 7), kx - 3 * np.cos(x / 5))
        rings = np.exp(-(((radius - 45) / 3) ** 2)) + 0.5 * np.exp(-(((radius - 70) / 3) ** 2))
        mean = MOST_COUNTS * (radius < 14) + (2 + np.sin(y / 4) * np.cos(x / 6)) * rings + 0.02
        found[y, x] = rng.poisson(mean)
    return found


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--waveforms", required=True, type=Path, metavar="FILE", help="HDF5 with real ones")
    parser.add_argument("directory", type=Path, metavar="DIR")
    options = parser.parse_args()
    try:
        made = {"waveforms": waveforms(options.waveforms)}
    except (OSError, KeyError) as error:
        sys.exit(f"error: {options.waveforms}: {error}")
    made |= {"recording": recording(), "scan": scan()}
    options.directory.mkdir(parents=True, exist_ok=True)
    for name, array in made.items():
        file = options.directory / f"{name}.npy"
        np.save(file, array)
        print(f"{file}: {' x '.join(map(str, array.shape))} {array.dtype}, {array.nbytes / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
