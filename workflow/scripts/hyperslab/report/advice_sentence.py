"""The sentence of an advice: what to use, what it takes, what today's layout takes, and what is given up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from hyperslab import text as fmt
from hyperslab.report import advice_whole
from hyperslab.report.answer import layout_text, ranked
from hyperslab.report.data import Data
from hyperslab.report.quoted import OBJECTIVES, times
from hyperslab.results.requests import entry_of
from hyperslab.studies.criteria import IMPERCEPTIBLE_MS

# Within this factor of the advised layout today's is not worth the trouble of a rewrite.
WORTH = 1.10
# So much smaller a file is worth it all the same.
SMALLER = 0.8
# What takes less nobody notices.
UNNOTICED_S = IMPERCEPTIBLE_MS / 1e3
# So many layouts that cannot be told from the advised one are named.
MOST_TIED = 3


def _words(data: Data, layout: str) -> str:
    """Return how to store the array, in words."""
    words = layout_text(data.study, layout)
    return "one contiguous piece, without chunks or filters" if words.startswith("no chunks") else words


def sentence(
    data: Data, prediction: Mapping[str, Any], site: str, choice: Mapping[str, Any], estimated: pd.DataFrame
) -> str:
    """Return the advice as one says it: what to use, what it takes, what today's takes, what it gives up."""
    pick = choice.get("pick")
    if pick is None:
        return f"There is no advice for {site}: {choice.get('reason') or 'nothing was measured there'}."
    today, found = prediction["today"], times(data, site, "main")
    mine, old = ranked(choice, pick), ranked(choice, today)
    if cached := _cached(prediction, site, old, estimated):
        told = advice_whole.each(found, today, None)
        return f"Do not bother: the array is read warm, and {cached}. Today's layout: It reads {told}."
    told = f"It reads {advice_whole.each(found, pick, today if old else None)}."
    # A part may say little of the whole array, where chunks of today's layout are longer than it.
    lags = advice_whole.over_pick(estimated, choice, today) > WORTH
    if today == pick:
        if lags:
            better = advice_whole.better_than_pick(estimated, choice)
            return (
                "In the part that was measured none of the layouts can be told to be better than today's; in "
                f"the whole array {better} is estimated to be. {told}"
            )
        return f"Leave it as it is: none of the layouts measured can be told to be better. {told}"
    near = bool(old and old["fits"] and old["objective"] <= WORTH * mine["objective"])
    if near and not lags:
        apart = _apart(choice, mine, old)
        share = mine["file_bytes"] / old["file_bytes"]
        if share <= SMALLER:
            return (
                f"Store it as {_words(data, pick)} if space matters: today's layout is within a tenth of it "
                f"in time{apart}, but the file would be {fmt.significant(share, 2)} times today's. {told}"
            )
        slower = any(old["times"][read] > WORTH * mine["times"][read] for read in mine["times"])
        # Of a read that is cut, that part of what nobody notices of the whole.
        floor = choice["imperceptible_ms"] / 1e3
        unnoticed = max(old["times"].values()) <= floor and _slowest(old, estimated) <= UNNOTICED_S
        if slower and unnoticed:
            return (
                f"Do not bother: in today's layout no read takes {fmt.seconds(floor)}, and what takes "
                f"less counts as equal; {pick} is faster. {told}"
            )
        return f"Do not bother: today's layout is within a tenth of the best, {pick}{apart}. {told}"
    tied = ["today's layout" if row["layout"] == today else row["layout"] for row in choice["ranking"]
            if row["tied"] and row["layout"] != pick]  # fmt: skip
    noise = f" At this noise it cannot be told from {fmt.listing(tied, MOST_TIED)}." if tied else ""
    size = mine["file_bytes"] / (old["file_bytes"] if old else prediction["raw_bytes"])
    of_what = "today's" if old else "the raw array"
    # Why today's layout is not left alone, however good its times are.
    of_what += ", which is larger than the size bound allows" if old and not old["fits"] else ""
    part = (
        " In the part that was measured today's layout is within a tenth of it; in the whole array it is "
        "estimated not to be."
    )
    return (
        f"Store it as {_words(data, pick)}. {told} The file is {fmt.significant(size, 2)} times {of_what}."
        f"{part if near else ''}{noise}{_given_up(choice)}"
    )


def _apart(choice: Mapping[str, Any], mine: Mapping[str, Any], today: Mapping[str, Any]) -> str:
    """Return by what today's layout is as good as the pick where some of its reads take longer by what is
    worth the trouble; "" where none does that anybody would notice.
    """
    floor = choice["imperceptible_ms"] / 1e3
    longer = [
        entry_of(entry)[0]
        for entry, seconds in mine["times"].items()
        if max(floor, today["times"][entry]) > WORTH * max(floor, seconds)
    ]
    told = f"by its {OBJECTIVES[choice['rule']].lower()}, though not in {fmt.listing(longer)}"
    return f" ({told})" if longer else ""


def _slowest(today: Mapping[str, Any], estimated: pd.DataFrame) -> float:
    """Return the seconds of the slowest read in today's layout; where a part of the array was measured, what
    is estimated for the whole of it, if that is more.
    """
    whole = [float(estimated.loc[today["layout"]].max())] if today["layout"] in estimated.index else []
    return float(max([*today["times"].values(), *whole]))


def _cached(
    prediction: Mapping[str, Any], site: str, today: Mapping[str, Any], estimated: pd.DataFrame
) -> str:
    """Return why nobody would notice another layout: all lies in memory, where today's is quick; else ""."""
    if prediction["state"] != "warm" or not today or not today["fits"]:
        return ""
    stays, sizes = advice_whole.in_cache(prediction, site, today["file_bytes"])
    quick = _slowest(today, estimated) <= UNNOTICED_S
    return f"it fits in the page cache {sizes}" if stays and quick else ""


def _given_up(choice: Mapping[str, Any]) -> str:
    """Return what to take where the read that the pick gives up most is asked more often."""
    others = choice.get("alternatives") or []
    if not others:
        return ""
    layout, case, above = (others[0][key] for key in ("layout", "case", "above"))
    if above == 0:
        return f" By its expected time {layout} is better whatever share of your reads is {case}."
    return f" If more than {fmt.share_above(above)} of your reads are {case}, take {layout}."
