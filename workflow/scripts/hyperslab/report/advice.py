"""The page of an advice: the sentence, the picture, then what was probed, predicted and verified."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from hyperslab import text as fmt
from hyperslab.report import advice_tables, advice_whole, copies
from hyperslab.report.answer import layout_text, ranked
from hyperslab.report.data import Data
from hyperslab.report.model import Fact, Figure, Table
from hyperslab.report.quoted import OBJECTIVES, times
from hyperslab.results.requests import entry_of
from hyperslab.states import LIBRARY_COLD
from hyperslab.studies.criteria import IMPERCEPTIBLE_MS

# Within this factor of the advised layout today's is not worth the trouble of a rewrite.
WORTH = 1.10
# So much smaller a file is worth it all the same.
SMALLER = 0.8
# As a share of the machine's memory, an array that stays in the page cache once it was read.
CACHED_SHARE = 0.5
# What takes less nobody notices.
UNNOTICED_S = IMPERCEPTIBLE_MS / 1e3
# So many layouts that cannot be told from the advised one are named.
MOST_TIED = 3


@dataclass(frozen=True)
class SiteAdvice:
    """The advice for one site, as texts; `code` is how two copies are read, [] where they do not pay."""

    site: str
    sentence: str
    remarks: Sequence[str]
    figure: Figure
    verified: Table | None
    whole: Table | None
    copies: str
    code: Sequence[str]
    probed: Sequence[Fact]
    filters: Table | None
    predicted: Table


@dataclass(frozen=True)
class AdvicePage:
    """Everything a reader sees, as texts."""

    title: str
    study: str
    sites: Sequence[SiteAdvice]
    remarks: Sequence[str]
    timeline: Sequence[Fact]


def build(
    data: Data, prediction: Mapping[str, Any], figures: Mapping[str, Figure], ended: float
) -> AdvicePage:
    """Return the page of a study's data and its prediction.json; `ended` is when it was there first, seconds
    since 1970.
    """
    return AdvicePage(
        title=str(data.study["title"]),
        study=str(data.study["name"]),
        sites=[_site(data, prediction, site, figures[site]) for site in prediction["sites"]],
        remarks=list(_remarks(data, prediction)),
        timeline=advice_tables.timeline(data, prediction, ended),
    )


def _site(data: Data, prediction: Mapping[str, Any], site: str, figure: Figure) -> SiteAdvice:
    """Return the advice for one site."""
    choice, here = data.choice(site), prediction["sites"][site]
    estimated, second, code = pd.DataFrame(), "", list[str]()
    remarks = []
    if choice.get("pick") is not None:
        found = times(data, site, "main")
        estimated = advice_whole.estimates(found, here)
        pair = _pair(prediction, site, str(choice["pick"]))
        second, code = _copies(data, prediction, site, found, pair)
        remarks = [
            advice_whole.sentence(estimated, choice, prediction, site),
            _chosen_by(choice),
            _in_memory(prediction, site, ranked(choice, choice["pick"])),
            _plug_ins(prediction, [choice["pick"], *([pair["layout"]] if pair and second else [])]),
        ]
    # Between passes of the verification sites are probed again (hyperslab.add_rounds).
    probes = [*here["probes"], *(data.rounds or {}).get("probes", {}).get(site, [])]
    return SiteAdvice(
        site=site,
        sentence=_sentence(data, prediction, site, choice, estimated),
        remarks=list(filter(None, remarks)),
        figure=figure,
        verified=advice_tables.verified(data, prediction, site, choice),
        whole=advice_whole.estimate_table(estimated, fmt.shape(prediction["shape"])),
        copies=second,
        code=code,
        probed=advice_tables.probed(probes, data.fresh[data.fresh["site"] == site]),
        filters=advice_tables.filters(here),
        predicted=advice_tables.predicted(prediction, here),
    )


def _pairs(prediction: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the two copies of every site, by the names of their layouts: all sites measure them."""
    found = (one["copies"] for one in prediction["sites"].values())
    return {pair["layout"]: pair for pair in found if pair}


def _pair(prediction: Mapping[str, Any], site: str, pick: str) -> Mapping[str, Any] | None:
    """Return the two copies that a site is told of: those advised, whichever site's, or its own, if any."""
    own: Mapping[str, Any] | None = prediction["sites"][site]["copies"]
    return _pairs(prediction).get(pick, own)


def _copies(
    data: Data,
    prediction: Mapping[str, Any],
    site: str,
    found: pd.DataFrame,
    pair: Mapping[str, Any] | None,
) -> tuple[str, list[str]]:
    """Return the second answer, two copies in one file, and how they are read; "" where these do not pay."""
    choice, rows = data.choice(site), data.main(site)
    if not pair or not (rows["layout"] == pair["layout"]).any():
        return "", []
    picked = choice["pick"] == pair["layout"]
    # Rewritten are HDF5 files alone, and values that lie in them.
    rewritten = "::" in prediction["array"] and prediction.get("rewritable", True)
    own = prediction["file"] if rewritten else ""
    study, layout = data.study["name"], "recommended" if picked else pair["layout"]
    file = f"results/{study}/layout/{layout}.h5" if own else ""
    code = copies.lines(prediction, pair, file)
    command = f"make rewrite STUDY={study}" + ("" if picked else f" LAYOUT={layout}")
    if picked:
        where = f" SITE={site}" if len(prediction["sites"]) > 1 else ""
        made = f"`{command}{where}` writes your file with both. " if own else ""
        return f"{made}Both copies are read so:", code
    size = float(rows[rows["layout"] == pair["layout"]]["file_bytes"].median())
    better = copies.pays(found, choice, pair["layout"], _pairs(prediction), size)
    if better is None:
        return "", []
    return copies.sentence(found, pair, *better, size, prediction["raw_bytes"], command if own else ""), code


def _words(data: Data, layout: str) -> str:
    """Return how to store the array, in words."""
    words = layout_text(data.study, layout)
    return "one contiguous piece, without chunks or filters" if words.startswith("no chunks") else words


def _sentence(
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


def _in_cache(prediction: Mapping[str, Any], site: str, file_bytes: float) -> tuple[bool, str]:
    """Return whether the file of the whole array stays in the page cache of the site's node, and in words how
    large both are; `file_bytes` are those of the part that was measured.
    """
    size = file_bytes * prediction["whole_bytes"] / prediction["raw_bytes"]
    memory = prediction["sites"][site]["probes"][0]["memory_bytes"]
    words = f"({fmt.volume(size)} of {fmt.volume(memory)} of memory)"
    return size <= CACHED_SHARE * memory, words


def _cached(
    prediction: Mapping[str, Any], site: str, today: Mapping[str, Any], estimated: pd.DataFrame
) -> str:
    """Return why nobody would notice another layout: all lies in memory, where today's is quick; else ""."""
    if prediction["state"] != "warm" or not today or not today["fits"]:
        return ""
    stays, sizes = _in_cache(prediction, site, today["file_bytes"])
    quick = _slowest(today, estimated) <= UNNOTICED_S
    return f"it fits in the page cache {sizes}" if stays and quick else ""


def _in_memory(prediction: Mapping[str, Any], site: str, pick: Mapping[str, Any]) -> str:
    """Return whether what is read warm stays in the page cache; "" for cold reads."""
    if prediction["state"] != "warm" or not pick:
        return ""
    stays, sizes = _in_cache(prediction, site, pick["file_bytes"])
    if stays:
        return f"In this layout the whole array fits in the page cache of {site} {sizes}."
    return (
        f"In this layout the whole array does not stay in the page cache of {site} {sizes}: reads of it are "
        "cold, which STATE=cold asks for."
    )


def _chosen_by(choice: Mapping[str, Any]) -> str:
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


def _plug_ins(prediction: Mapping[str, Any], layouts: Sequence[str]) -> str:
    """Return what readers of these layouts need beside HDF5; "" for nothing, and for today's layout."""
    known = prediction.get("plugins", {})
    needed = {one for name in layouts if name != prediction["today"] for one in known.get(name, [])}
    if not needed:
        return ""
    return (
        f"A file with {fmt.listing(sorted(needed))} needs hdf5plugin, or HDF5's plug-ins, wherever it is "
        "read; FILTERS=builtin advises without."
    )


def _given_up(choice: Mapping[str, Any]) -> str:
    """Return what to take where the read that the pick gives up most is asked more often."""
    others = choice.get("alternatives") or []
    if not others:
        return ""
    layout, case, above = (others[0][key] for key in ("layout", "case", "above"))
    if above == 0:
        return f" By its expected time {layout} is better whatever share of your reads is {case}."
    return f" If more than {fmt.share_above(above)} of your reads are {case}, take {layout}."


def _inside(data: Data, site: str) -> bool:
    """Return whether what is cold at a site is library-cold, since its file system is memory."""
    return any(entry_of(key)[1] == LIBRARY_COLD for key in data.choice(site).get("shares", {}))


def _remarks(data: Data, prediction: Mapping[str, Any]) -> Iterator[str]:
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
        fits = [site for site in beyond if _in_cache(prediction, site, prediction["raw_bytes"])[0]]
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
