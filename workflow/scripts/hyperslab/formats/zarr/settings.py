"""The settings of zarr-python and zarrs: how those of a layout are put in force, how they are read back."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import numcodecs
import zarr
from zarr.core.sync import cleanup_resources

from hyperslab.formats import Unavailable

PIPELINES = {
    "default": "zarr.core.codec_pipeline.BatchedCodecPipeline",
    "zarrs": "zarrs.ZarrsCodecPipeline",
}
# What bears on how an array is read and written, with the values of zarr-python and zarrs; None leaves it
# to them. Given here, they hold whatever a user's environment or configuration files say.
OWN = {
    "array.write_empty_chunks": False,
    "async.concurrency": 10,
    "threading.max_workers": None,
    "codec_pipeline.batch_size": 1,
    "codec_pipeline.chunk_concurrent_minimum": None,
    "codec_pipeline.chunk_concurrent_maximum": None,
    "codec_pipeline.validate_checksums": True,
    "codec_pipeline.direct_io": False,
    # zarrs raises what it cannot do, instead of leaving it to zarr-python without a word.
    "codec_pipeline.strict": True,
}
CONCURRENCY = {"default": "async.concurrency", "zarrs": "codec_pipeline.chunk_concurrent_maximum"}


def put(chosen: Mapping[str, Any]) -> None:
    """Put the settings of a layout in force for this process, unless they are; what is left out is OWN's.

    zarr-python makes its threads once, so another number of them ends those that there are. Raises
    Unavailable where the pipeline's package is not there.
    """
    wanted = {**OWN, "codec_pipeline.path": PIPELINES[chosen["pipeline"]]}
    wanted["threading.max_workers"] = chosen.get("threads")
    if "concurrency" in chosen:
        wanted[CONCURRENCY[chosen["pipeline"]]] = chosen["concurrency"]
    if wanted != _in_force:
        package = PIPELINES[chosen["pipeline"]].partition(".")[0]
        if find_spec(package) is None:
            raise Unavailable(f"the package {package} is not installed here")
        if wanted["threading.max_workers"] != _in_force.get("threading.max_workers"):
            cleanup_resources()
        zarr.config.set(wanted)
        _in_force.update(wanted)


# What `put` has last put in force.
_in_force: dict[str, Any] = {}


def effective() -> dict[str, Any]:
    """Return every setting as zarr.config has it now; None where the library decides."""
    found = {name: zarr.config.get(name) for name in ("codec_pipeline.path", *OWN)}
    # Blosc in numcodecs has threads of its own, which zarr-python turns off.
    return {**found, "numcodecs.blosc.use_threads": numcodecs.blosc.use_threads}
