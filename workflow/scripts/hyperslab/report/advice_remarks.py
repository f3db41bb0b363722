"""Remarks beside the sentence of an advice: how the layout was chosen, what it needs, what limits it all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hyperslab import text as fmt
from hyperslab.report.advice_whole import in_cache
from hyperslab.report.data import Data
from hyperslab.results.requests import entry_of
from hyperslab.states import LIBRARY_COLD


def in_memory(prediction: Mapping[str, Any], site: str, pick: Mapping[str, Any]) -> str:
    """Return whether what is read warm stays in the page cache; "" for cold reads."""
    if prediction["state"] != "warm" or not pick:
        return ""
    stays, sizes = in_cache(prediction, site, pick["file_bytes"])
    if stays:
        return f"In this layout the whole array fits in the page cache of {site} {sizes}."
    return (
        f"In this layout the whole array does not stay in the page cache of {site} {sizes}: reads of it are "
        "cold, which STATE=cold asks for."
    )


def chosen_by(choice: Mapping[str, Any]) -> str:
    """Return by what one was chosen of those that cannot be told from the best."""
    how = choice.get("chosen_by")
    if not how or how["measured"] == choice["pick"]:
        return ""
    steady = how.get("steady", choice["pick"])
    smaller = f"; {choice['pick']} is as good as that within 5 %, and its file is smaller"
    return (
        f"Of {how['of']} layouts that cannot be told from the best, {steady} is the one whose times are best "
        "when each is drawn towards what was predicted, the more the more they varied between rounds"
        f"{smaller if steady != choice['pick'] else ''}; by measured times alone it would be "
        f"{how['measured']}. A time that is not called predicted or estimated is a measured one."
    )


def drawn(here: Mapping[str, Any]) -> str:
    """Return how many of the selections that were measured are predicted where these are not all."""
    # A prediction of before lacks it: all were.
    predicted, count = here.get("drawn", (1, 1))
    if predicted == count:
        return ""
    return (
        f"Predicted were the first {predicted} of {count} selections of each read in a round: all would have "
        "taken too long. These predictions help to choose among layouts that cannot be told from the best."
    )


def plug_ins(prediction: Mapping[str, Any], layouts: Sequence[str]) -> str:
    """Return what readers of these layouts need beside HDF5; "" for nothing, and for today's layout."""
    known = prediction.get("plugins", {})
    needed = {one for name in layouts if name != prediction["today"] for one in known.get(name, [])}
    if not needed:
        return ""
    return (
        f"A file with {fmt.listing(sorted(needed))} needs hdf5plugin, or HDF5's plug-ins, wherever it is "
        "read; FILTERS=builtin advises without."
    )


def _inside(data: Data, site: str) -> bool:
    """Return whether what is cold at a site is library-cold, since its file system is memory."""
    return any(entry_of(key)[1] == LIBRARY_COLD for key in data.choice(site).get("shares", {}))


def remarks(data: Data, prediction: Mapping[str, Any]) -> Iterator[str]:
    """Yield what limits the advice."""
    if prediction["guessed"]:
        yield "Nobody said how it is read: these reads are guessed from its shape. Name yours with READS."
    if prediction["shape"] != prediction["measured_shape"]:
        whole, part = (fmt.shape(prediction[key]) for key in ("shape", "measured_shape"))
        sizes = (fmt.volume(prediction[key]) for key in ("raw_bytes", "whole_bytes"))
        yield (
            f"Measured was the first {part} of {whole} ({' of '.join(sizes)}): as much as can be copied and "
            f"written {_often(prediction)} in {fmt.duration(prediction['limit_s'])} here. A read of all of "
            "an axis that was cut is shorter than yours, and so are its times. Sizes are those of this "
            "part: where the rest compresses otherwise, so does the file."
        )
    if prediction.get("shorter_chunks"):
        yield (
            "Chunks of today's layout are longer than what was measured, where they were cut to it: a read "
            "takes longer today than is said here, and the file may be larger."
        )
    if prediction.get("grows"):
        yield (
            "The dataset can grow, which needs chunks: one contiguous piece is measured for comparison alone,"
            " and never advised."
        )
    if why := prediction.get("unknown_layout"):
        yield f"Today's layout is not compared: {why}."
    if prediction.get("file") and not prediction.get("rewritable", True):
        yield (
            "`make rewrite` cannot write this array, since its values do not lie in an HDF5 file that is "
            "named: what is advised is for a copy of your own."
        )
    if wider := prediction.get("stored_dtype"):
        yield (
            f"The values are {wider} in the file and were measured as {prediction['dtype']}, so that sizes "
            "and times are those of elements of another length."
        )
    elsewhere = [site for site, one in prediction["sites"].items() if one.get("elsewhere")]
    if elsewhere and prediction["today"]:
        yield (
            f"Your file lies on another device than the test files of {fmt.listing(elsewhere)}: what stands "
            "for today's layout is what it takes there."
        )
    if prediction["state"] == "warm":
        yield "The times are of warm reads: all of the file lies in the page cache."
    else:
        sites, whole = prediction["sites"], prediction["whole_bytes"]
        inside = [site for site in sites if _inside(data, site)]
        beyond = [site for site in sites if site not in inside]
        if beyond:
            yield "The times are of cold reads, which wait for the storage, opening included."
        if inside:
            lies = "lies" if len(inside) == 1 else "lie"
            yield (
                f"{fmt.listing(inside)} {lies} in memory, so nothing is evicted: cold there is library-cold, "
                "which waits for the library alone, opening included."
            )
        fits = [site for site in beyond if in_cache(prediction, site, prediction["raw_bytes"])[0]]
        if fits:
            yield (
                f"The array ({fmt.volume(whole)}) fits in the memory of {fmt.listing(fits)}: whoever "
                "reads it there again and again reads it warm, where layouts differ less (STATE=warm says "
                "so)."
            )
    yield (
        "The rounds that chose the layout are those that are quoted, which flatters it a little; the full "
        "report measures the finalists again."
    )


def _often(prediction: Mapping[str, Any]) -> str:
    layouts = max(len(one["measured"]) for one in prediction["sites"].values())
    return f"for {layouts} layouts and {fmt.count(len(prediction['reads']), 'read')} in three rounds"
