"""The page of an advice says what was measured, and never shows a prediction as a measurement."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pandas as pd
import pytest
from report_samples import MAIN, assert_headings_nest, assert_self_contained, inputs, measured, meta

from hyperslab.advising.prices import Storage
from hyperslab.report import copies, quoted, templates
from hyperslab.report.advice import AdvicePage, SiteAdvice, build
from hyperslab.report.data import Data, Inputs, gather
from hyperslab.report.model import Figure
from hyperslab.report.render import render
from hyperslab.rewriting import second_copy
from hyperslab.rewriting.progress import Progress

FIGURE = Figure("advice", "what is drawn", None, "not drawn")


def foretold(layout: str, seconds: float) -> dict[str, Any]:
    return {"layout": layout, "times": {"slices": seconds, "spectra": seconds}, "file_bytes": 1.5e6}


STORAGE = asdict(Storage(1e-4, 1e-9, 5e-10, 1e-10, 5e-6, 1e-3, 2**23, write_s=1e-9, chunk_cache_bytes=2**20))
PROBE = {
    "storage": STORAGE, "steal_s": None, "pressure_s": {"cpu": 0.0, "memory": None, "io": 0.1},
    "at_wall_s": 1001.0, "memory_bytes": 10**10,
}  # fmt: skip


def prediction(**changes: Any) -> dict[str, Any]:
    site = {
        "probes": [PROBE], "considered": 12345, "copies": None,
        "predicted": [foretold("9x9x9", 0.00777), foretold("auto", 0.00888)],
        "measured": [foretold("contiguous", 0.123), foretold("auto", 0.00888)],
    }  # fmt: skip
    found = {
        "array": "mine.h5::/RD/counts", "file": "/data/mine.h5", "shape": [10, 10, 10],
        "measured_shape": [10, 10, 10], "raw_bytes": 2000, "whole_bytes": 2000, "state": "cold",
        "limit_s": 60.0, "today": "contiguous", "unknown_layout": "", "stored_dtype": "",
        "guessed": False, "asked": {},
        "sites": {"disk": site}, "began_wall_s": 1000.0,
        "reads": [{"name": "slices", "extent": [10, 10, 1]}, {"name": "spectra", "extent": [1, 1, 10]}],
        "seconds": {"probe": 2.0, "read": 1.0, "predict": 3.0},
    }  # fmt: skip
    return {**found, **changes}


def at_disk(**changes: Any) -> dict[str, Any]:
    """What is told of the site, otherwise."""
    return {"disk": {**prediction()["sites"]["disk"], **changes}}


@cache
def gathered(times: tuple[tuple[str, tuple[float, float]], ...], floor_ms: float) -> Data:
    """What a page of these times is made from."""
    main = measured(dict(times), "main")
    main["began_wall_s"], main["ended_wall_s"], main["generate_s"] = 1010.0, 1040.0, 0.5
    return gather(Inputs(**inputs(main, None, floor_ms, study=meta())))


def page(times: Any = MAIN, floor_ms: float = 10.0, **changes: Any) -> AdvicePage:
    data = gathered(tuple(times.items()), floor_ms)
    return build(data, prediction(**changes), {"disk": FIGURE}, 1050.0)


def site_of(times: Any = MAIN, **changes: Any) -> SiteAdvice:
    (found,) = page(times, **changes).sites
    return found


def test_the_sentence_says_what_to_use_and_what_today_takes() -> None:
    found = site_of()
    assert found.sentence.startswith("Store it as chunks of 4x4x2")
    assert "slices in 11.0 ms (now 88.1 ms)" in found.sentence
    assert "The file is 2.0 times today's." in found.sentence


def test_it_says_when_not_to_bother() -> None:
    close = {**MAIN, "contiguous": (0.0104, 0.0104)}
    assert site_of(close).sentence.startswith(
        "Do not bother: today's layout is within a tenth of the best, 4x4x2."
    )
    assert site_of(today="4x4x2").sentence.startswith("Leave it as it is")
    short = {**dict.fromkeys(MAIN, (0.009, 0.009)), "4x4x2": (0.004, 0.005)}
    assert site_of(short).sentence.startswith(
        "Do not bother: in today's layout no read takes 10.0 ms, and what takes less counts as equal; 4x4x2"
    )
    # Of a tenth of the array, a tenth of that: the read of 8 ms would be one of 80 ms.
    part = {"contiguous": (0.0009, 0.008), "auto": (0.0009, 0.0081), "4x4x2": (0.0004, 0.0076)}
    assert site_of(part, floor_ms=1.0).sentence.startswith(
        "Do not bother: today's layout is within a tenth of the best, 4x4x2."
    )


def test_what_is_as_good_says_by_what_where_a_read_takes_longer() -> None:
    # Each is slower than the other in one of the reads, by 40 % and by 30 %.
    traded = {"contiguous": (0.14, 0.1), "auto": (0.3, 0.3), "4x4x2": (0.1, 0.13)}
    by = "(by its largest regret, though not in slices)"
    assert f"within a tenth of the best, 4x4x2 {by}. It reads slices in" in site_of(traded).sentence
    # Of what nobody notices nothing takes longer.
    short = {"contiguous": (0.008, 0.0104), "auto": (0.02, 0.02), "4x4x2": (0.002, 0.01)}
    assert "within a tenth of the best, 4x4x2. It reads slices in" in site_of(short).sentence
    main = measured(traded, "main")
    main.loc[main["layout"] == "4x4x2", "file_bytes"] = 3e5
    data = gather(Inputs(**inputs(main, None, study=meta())))
    (found,) = build(data, prediction(), {"disk": FIGURE}, 1050.0).sites
    assert f"within a tenth of it in time {by}, but the file would be" in found.sentence


def test_what_was_predicted_is_called_so() -> None:
    found = site_of()
    assert found.verified is not None
    notes = {row[0].text: row[1].note for row in found.verified.rows}
    assert notes == {"4x4x2": "", "auto": "predicted 8.88 ms", "contiguous": "predicted 123 ms"}
    assert "7.77 ms" not in str(found.verified) and "None of these times is measured" in found.predicted.note
    assert [row[0].note for row in found.predicted.rows] == ["", "measured"]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"guessed": True}, "these reads are guessed"),
        ({"grows": True}, "The dataset can grow, which needs chunks"),
        ({"rewritable": False}, "`make rewrite` cannot write this array"),
        (
            {"shape": [10, 10, 99], "whole_bytes": 10**14},
            "Measured was the first 10x10x10 of 10x10x99 (2.00 kB of 100 TB): as much as",
        ),
        (
            {"unknown_layout": "the dataset is virtual", "today": None},
            "Today's layout is not compared: the dataset is virtual.",
        ),
    ],
)
def test_what_limits_the_advice_is_said(changed: dict[str, Any], words: str) -> None:
    assert any(words in text for text in page(**changed).remarks)
    assert not any(words in text for text in page().remarks)


def test_the_page_has_the_time_of_each_step_and_stands_alone() -> None:
    found = page()
    told = {fact.term: fact.text for fact in found.timeline}
    assert told == {
        "Probe": "2.00 s", "Read the values": "1.00 s", "Predict": "3.00 s", "Write": "9.00 s",
        "Verify": "21.0 s", "From the command to this page": "50.0 s",
        "Meant to take, where nobody said": "1 min 0 s",
    }  # fmt: skip
    asked = {fact.term for fact in page(asked={"seconds": 60.0}).timeline}
    assert "Asked for" in asked and "Meant to take, where nobody said" not in asked
    assert_self_contained(render(found, templates.ADVICE))


def with_whole(one: dict[str, Any], times: float) -> dict[str, Any]:
    longer = {name: seconds * times for name, seconds in one["times"].items()}
    return {**one, "whole": {"times": longer, "file_bytes": 3e6}}


def test_a_part_is_told_from_the_whole_whose_times_are_called_estimates() -> None:
    measured = [with_whole(foretold("contiguous", 0.04), 10.0), with_whole(foretold("4x4x2", 0.02), 3.0)]
    found = site_of(sites=at_disk(measured=measured), shape=[10, 10, 100])
    (said,) = found.remarks
    # 11 ms of the part, where the model says that the whole takes three times as long.
    assert "about: slices in 33" in said and "(now 881 ms)" in said and "estimated, not measured" in said
    # Of its file the model says that it is twice as long.
    assert said.endswith("Its file would have about 4.00 MB (2.00 kB without filters).")
    measured[1]["whole"]["file_bytes"] *= 1e6
    (longer,) = site_of(sites=at_disk(measured=measured), shape=[10, 10, 100]).remarks
    assert longer.endswith("and takes at least 1 h 7 min to write at the speed probed.")
    assert found.whole is not None and "Not measured" in found.whole.note
    assert {row[0].text for row in found.whole.rows} == {"contiguous", "4x4x2"}
    # Where the model makes another layout better for the whole array, it is said.
    turned = [with_whole(foretold("contiguous", 0.04), 1.0), with_whole(foretold("4x4x2", 0.02), 90.0)]
    (said,) = site_of(sites=at_disk(measured=turned), shape=[10, 10, 100]).remarks
    assert "By these estimates contiguous would be better for the whole array." in said
    # Of an array of 100 TB reads take hours.
    hours = [with_whole(one, 10.0**6) for one in measured]
    (said,) = site_of(sites=at_disk(measured=hours), shape=[10, 10, 100], whole_bytes=10**14).remarks
    assert "(now 24 h " in said and "(100 TB without filters)" in said
    # Not where none of it takes as long as anybody notices.
    quick = {"contiguous": (0.004, 0.004), "auto": (0.002, 0.002), "4x4x2": (0.001, 0.001)}
    little = [with_whole(foretold("contiguous", 0.004), 0.5), with_whole(foretold("4x4x2", 0.001), 2.5)]
    (said,) = site_of(quick, sites=at_disk(measured=little), shape=[10, 10, 100]).remarks
    assert "would be better" not in said


@pytest.mark.parametrize("shares", [{}, {"slices cold": 0.5, "spectra cold": 0.5}])
def test_what_a_part_says_of_todays_layout_leaves_it_alone_only_where_the_whole_array_does(
    shares: dict[str, float],
) -> None:
    # Its chunks were cut to the part: in the whole array a read decodes much longer ones.
    quick = {"contiguous": (0.003, 0.003), "auto": (0.004, 0.004), "4x4x2": (0.002, 0.002)}
    alike = {"contiguous": (0.0104, 0.0104), "auto": (0.02, 0.02), "4x4x2": (0.01, 0.01)}
    for times in (quick, alike):
        given = inputs(measured(times, "main"), None, study=meta())
        (choice,) = given["recommendation"]["sites"]
        choice["pick"] = "4x4x2"
        if shares:
            choice |= {"rule": "mix", "shares": shares}
        data = gather(Inputs(**given))

        def said(today: str, longer: float, data: Data = data) -> str:
            told = [with_whole(foretold(today, 0.01), longer)]
            told += [with_whole(foretold(name, 0.01), 1.0) for name in ("4x4x2", "auto") if name != today]
            foreseen = prediction(sites=at_disk(measured=told), shape=[10, 10, 100], today=today)
            (found,) = build(data, foreseen, {"disk": FIGURE}, 1050.0).sites
            return found.sentence

        assert said("contiguous", 1.0).startswith("Do not bother")
        assert said("contiguous", 64.0).startswith("Store it as chunks of 4x4x2")
        assert "In the part that was measured today's layout is within a tenth" in said("contiguous", 64.0)
        assert said("4x4x2", 1.0).startswith("Leave it as it is")
        assert "in the whole array auto is estimated to be." in said("4x4x2", 64.0)


def test_no_read_is_said_to_be_short_whose_estimate_is_long() -> None:
    short = {"contiguous": (0.009, 0.009), "auto": (0.009, 0.009), "4x4x2": (0.004, 0.005)}
    told = [with_whole(foretold(name, 0.01), 64.0) for name in ("contiguous", "4x4x2")]
    # Both are as slow in the whole array, and the rest of the advice stands.
    told[1]["whole"]["times"] = dict.fromkeys(told[1]["times"], 1.28)
    said = site_of(short, sites=at_disk(measured=told), shape=[10, 10, 100]).sentence
    assert said.startswith("Do not bother: today's layout is within a tenth of the best, 4x4x2.")


def test_nobody_is_bothered_with_what_is_read_warm_and_quick_anyhow() -> None:
    quick = {"contiguous": (0.004, 0.004), "auto": (0.002, 0.002), "4x4x2": (0.001, 0.001)}
    said = site_of(quick, state="warm").sentence
    assert said.startswith("Do not bother: the array is read warm, and it fits in the page cache")
    assert "auto" not in said and "4x4x2" not in said
    # Not where it is cold, is slow all the same, or does not fit.
    assert "page cache" not in site_of(quick).sentence
    assert "page cache" not in site_of(MAIN, state="warm").sentence
    small = at_disk(probes=[{**PROBE, "memory_bytes": 10**6}])
    assert "page cache" not in site_of(quick, state="warm", sites=small).sentence
    # A part that was measured says nothing of whether the whole fits.
    assert "page cache" not in site_of(quick, state="warm", whole_bytes=2000 * 10**5).sentence


def test_what_is_read_warm_is_told_whether_it_fits_the_page_cache() -> None:
    (fits,) = site_of(MAIN, state="warm").remarks
    assert fits.startswith("In this layout the whole array fits in the page cache of disk (2.00 MB of")
    (swaps,) = site_of(MAIN, state="warm", whole_bytes=2000 * 10**5).remarks
    assert "does not stay in the page cache" in swaps
    assert not site_of(MAIN).remarks


def test_a_much_smaller_file_is_worth_it_where_times_are_alike() -> None:
    close = {**MAIN, "contiguous": (0.0104, 0.0104)}
    main = measured(close, "main")
    main.loc[main["layout"] == "4x4x2", "file_bytes"] = 3e5
    data = gather(Inputs(**inputs(main, None, study=meta())))
    (found,) = build(data, prediction(), {"disk": FIGURE}, 1050.0).sites
    assert found.sentence.startswith("Store it as chunks of 4x4x2") and "if space matters" in found.sentence
    assert "0.30 times today's" in found.sentence


def test_rounds_and_regrets_are_those_of_each_layout() -> None:
    found = site_of().verified
    assert found is not None and "in 3 rounds" in found.note
    regrets = {row[0].text: row[4] for row in found.rows}
    assert regrets["4x4x2"].text == "none" and regrets["auto"].text == "2.00x"
    assert regrets["contiguous"].text == "8.00x" and regrets["contiguous"].note in ("slices", "spectra")
    more = measured(MAIN, "main", 5)
    more = more[(more["layout"] != "contiguous") | (more["round"] < 3)]
    data = gather(Inputs(**inputs(more, None, study=meta())))
    (site,) = build(data, prediction(), {"disk": FIGURE}, 1050.0).sites
    assert site.verified is not None and "in 3 to 5 rounds" in site.verified.note


def test_probes_are_shown_with_their_spread_and_what_the_kernel_does_not_say() -> None:
    later = {**PROBE, "storage": {**STORAGE, "latency_s": 3e-4}, "steal_s": 0.02}
    main = measured(MAIN, "main")
    data = gather(Inputs(**inputs(main, None, study=meta(), rounds={"probes": {"disk": [later]}})))
    (site,) = build(data, prediction(), {"disk": FIGURE}, 1050.0).sites
    told = {fact.term: fact.text for fact in site.probed}
    assert told["A cold read begins after"] == "100 µs (100 µs to 300 µs in 2 probes)"
    assert told["One chunk looked up"] == "5.00 µs" and told["Stolen by the host meanwhile"] == "20.0 ms"
    assert "memory not known here" in told["Stalled meanwhile for want of"]
    beside = "100 µs (100 µs to 100 µs), the median (and lowest to highest) of 18 cells"
    assert told["A direct read of 4 KiB beside the cells"] == beside
    assert "zarr" not in " ".join(told)


def test_what_filters_made_of_the_data_stands_beside_the_probes() -> None:
    one = {"format": "hdf5", "filters": "shuffle-zstd3", "chunk_bytes": 2**14, "ratio": 0.25}
    tried = [{**one, "decode_s": 5e-10, "encode_s": 2e-9}]
    found = page(sites=at_disk(filters=tried))
    (site,) = found.sites
    assert site.filters is not None and site.filters.folded
    assert [[each.text for each in row] for row in site.filters.rows] == [
        ["shuffle-zstd3", "16 KiB", "0.25", "2,000 MB/s"]
    ]
    assert "shuffle-zstd3" in render(found, templates.ADVICE)
    # Nor does a page of a prediction of before lack anything else.
    assert site_of().filters is None


def test_what_is_slow_has_a_speed_all_the_same() -> None:
    slow = {**PROBE, "storage": {**STORAGE, "bytes_per_s": 4e5, "waited_s": 1 / 1.4e6}}
    (site,) = page(sites=at_disk(probes=[slow])).sites
    told = {fact.term: fact.text for fact in site.probed}
    assert told["Throttled to"] == "0.400 MB/s"
    assert told["Bytes waited for"] == "1.40 MB/s"


def test_what_many_files_take_is_shown_where_it_was_probed() -> None:
    words = "One of many files written and removed"
    before = {key: value for key, value in STORAGE.items() if key not in ("file_s", "evict_s")}
    for storage, said in (({**STORAGE, "file_s": 5e-5}, "50.0 µs"), (STORAGE, None), (before, None)):
        (site,) = page(sites=at_disk(probes=[{**PROBE, "storage": storage}])).sites
        told = {fact.term: fact.text for fact in site.probed}
        assert told.get(words) == said


def test_what_is_cold_in_memory_waits_for_no_storage() -> None:
    disk = measured(MAIN, "main")
    memory = disk.assign(site="memory", state="library-cold")
    for rows, at in ((disk, ["disk"]), (memory, ["memory"]), (pd.concat([disk, memory]), ["disk", "memory"])):
        told = prediction(sites=dict.fromkeys(at, prediction()["sites"]["disk"]))
        data = gather(Inputs(**inputs(rows, None, study=meta())))
        said = " ".join(build(data, told, dict.fromkeys(at, FIGURE), 1050.0).remarks)
        assert ("cold reads, which wait for the storage" in said) == ("disk" in at)
        assert ("fits in the memory of disk: whoever" in said) == ("disk" in at)
        assert ("memory lies in memory, so nothing is evicted: cold there is" in said) == ("memory" in at)


def test_an_equal_twin_is_tied() -> None:
    twins = {"contiguous": (0.08, 0.08), "auto": (0.01, 0.01), "4x4x2": (0.01, 0.01)}
    found = site_of(twins)
    assert found.verified is not None
    roles = {row[0].text: row[0].note for row in found.verified.rows}
    assert roles == {
        "auto": "tied with the best", "4x4x2": "tied with the best", "contiguous": "today's"
    }  # fmt: skip


def test_each_site_has_an_answer_of_its_own() -> None:
    main = pd.concat([measured(MAIN, "main"), measured({**MAIN, "auto": (0.001, 0.001)}, "main")])
    main["site"] = ["disk"] * (len(main) // 2) + ["memory"] * (len(main) // 2)
    main["began_wall_s"], main["ended_wall_s"], main["generate_s"] = 1010.0, 1040.0, 0.5
    data = gather(Inputs(**inputs(main, None, study=meta())))
    sites = prediction()["sites"]
    told = prediction(sites={"disk": sites["disk"], "memory": sites["disk"]})
    found = build(data, told, {"disk": FIGURE, "memory": FIGURE}, 1050.0)
    first, second = (one.sentence for one in found.sites)
    assert first.startswith("Store it as chunks of 4x4x2") and second.startswith(
        "Store it as chunks of 2x2x5"
    )
    text = render(found, templates.ADVICE)
    assert "Verified at disk" in text and "Verified at memory" in text
    assert_self_contained(text)
    assert_headings_nest(text)


def test_two_copies_are_a_second_answer_where_they_pay() -> None:
    times = {"contiguous": (0.08, 0.08), "4x4x2": (0.05, 0.06), "auto": (0.02, 0.01)}
    both = {"layout": "auto", "reads": {"2x2x5": ["slices"], "9x9x9": ["spectra"]}}
    main = measured(times, "main")
    main["began_wall_s"], main["ended_wall_s"], main["generate_s"] = 1010.0, 1040.0, 0.5
    given = inputs(main, None, study=meta())
    (choice,) = given["recommendation"]["sites"]
    choice["pick"] = "4x4x2"
    data, told = gather(Inputs(**given)), prediction(sites=at_disk(copies=both))
    (found,) = build(data, told, {"disk": FIGURE}, 1050.0).sites
    assert "two copies in one file: 2x2x5 for slices (22" in found.copies
    assert "Reads are 3.9 times as fast as in the best single layout for all of them, 4x4x2" in found.copies
    assert "`make rewrite STUDY=tiny LAYOUT=auto` writes your file so" in found.copies
    assert found.code == [
        "import h5py", "", 'with h5py.File("results/tiny/layout/auto.h5") as file:  # mine.h5 with both',
        '    slices = file["/RD/counts"][:, :, 0:1]', '    spectra = file["/RD/counts-second"][0:1, 0:1, :]',
    ]  # fmt: skip
    foretold = {**told, "file": None, "array": "an array of 10x10x10 uint16"}
    (found,) = build(data, foretold, {"disk": FIGURE}, 1050.0).sites
    assert "your file" not in found.copies and 'file["data"]' in found.code[3]
    # Of values that lie elsewhere no rewritten file is promised, which would be refused.
    elsewhere = {**told, "rewritable": False}
    (found,) = build(data, elsewhere, {"disk": FIGURE}, 1050.0).sites
    assert found.copies.startswith("Or keep two copies") and "make rewrite" not in found.copies
    # Where they are what is advised, how they are read is all that is left to say.
    choice["pick"] = "auto"
    (same,) = build(data, told, {"disk": FIGURE}, 1050.0).sites
    assert same.copies == "`make rewrite STUDY=tiny` writes your file with both. Both copies are read so:"
    assert 'h5py.File("results/tiny/layout/recommended.h5")' in same.code[2]
    (found,) = build(data, elsewhere, {"disk": FIGURE}, 1050.0).sites
    assert found.copies == "Both copies are read so:"


def test_two_copies_that_are_advised_may_be_those_of_another_site() -> None:
    main = pd.concat([measured(MAIN, "main")] * 2)
    main["site"] = ["disk"] * (len(main) // 2) + ["memory"] * (len(main) // 2)
    main["began_wall_s"], main["ended_wall_s"], main["generate_s"] = 1010.0, 1040.0, 0.5
    given, served = inputs(main, None, study=meta()), {"2x2x5": ["slices"], "9x9x9": ["spectra"]}
    pairs = {"disk": "auto", "memory": "4x4x2"}
    sites = {site: at_disk(copies={"layout": pair, "reads": served})["disk"] for site, pair in pairs.items()}

    data = gather(Inputs(**given))

    def at_first() -> SiteAdvice:
        figures = dict.fromkeys(sites, FIGURE)
        return build(data, prediction(sites=sites), figures, 1050.0).sites[0]

    found = at_first()
    assert found.copies.startswith("`make rewrite STUDY=tiny SITE=disk` writes your file with both.")
    assert found.code[-1] == '    spectra = file["/RD/counts-second"][0:1, 0:1, :]'
    # Nor are they the best single layout, against which a site's own are held.
    given["recommendation"]["sites"][0]["pick"] = "contiguous"
    assert "best single layout for all of them, contiguous" in at_first().copies


def test_the_lines_for_two_copies_read_them(tmp_path: Path) -> None:
    values = np.arange(1000, dtype="uint16").reshape(10, 10, 10)
    place = tmp_path / "results" / "tiny" / "layout" / "recommended.h5"
    place.parent.mkdir(parents=True)
    with h5py.File(place, "w") as file:
        file.create_dataset("RD/counts", data=values, chunks=(10, 10, 1), **hdf5plugin.Zstd(3))
    second = {"chunks": [1, 1, 10], "filters": [{"name": "zstd"}], "others": ["2d"], "cases": ["spectra"]}
    # However the dataset was named, its second copy stands beside it.
    second_copy.add(place, "RD/counts/", second, 2**20, Progress())
    told = prediction(plugins={"both": ["zstd"]})
    told["reads"][0]["name"] = "2d"
    both = {"layout": "both", "reads": {"a": ["2d"], "b": ["spectra"]}}
    code = copies.lines(told, both, "results/tiny/layout/recommended.h5")
    ended = ["print(read_2d.ravel().tolist() + spectra.ravel().tolist())"]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join([*code, *ended])], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.strip() == str([*range(0, 1000, 10), *range(10)]), done.stderr


def test_a_name_with_colons_is_that_of_the_array() -> None:
    told = prediction(array="mine.h5::/a::b")
    code = copies.lines(told, {"layout": "auto", "reads": {"a": ["slices"], "b": ["spectra"]}}, "new.h5")
    assert '    slices = file["/a::b"][:, :, 0:1]' in code


def test_what_readers_need_is_said_of_what_is_advised() -> None:
    zstd = {"4x4x2": ["zstd"], "auto": ["blosc"]}
    (said,) = site_of(plugins=zstd).remarks
    assert said.startswith("A file with zstd needs hdf5plugin") and "FILTERS=builtin" in said
    assert not site_of(plugins={"auto": ["blosc"]}).remarks
    # Who has such a file reads it already.
    assert not site_of(plugins=zstd, today="4x4x2").remarks


def test_two_copies_are_held_against_the_best_single_layout_and_not_against_the_pick() -> None:
    # By the largest regret 4x4x2 is the pick; by the geometric mean contiguous is better.
    times = {"contiguous": (0.012, 0.1), "4x4x2": (0.05, 0.05), "auto": (0.012, 0.05)}
    main = measured(times, "main")
    given = inputs(main, None, study=meta())
    (choice,) = given["recommendation"]["sites"]
    choice["pick"] = "4x4x2"
    found = quoted.times(gather(Inputs(**given)), "disk", "main")
    better, single = copies.pays(found, choice, "auto", {"auto"}, 2e6) or (0.0, "")
    assert single == "contiguous" and better == pytest.approx(2**0.5, rel=0.01)


def test_of_two_copies_only_reads_that_are_asked_are_timed() -> None:
    found = pd.DataFrame({"slices cold": [0.01, 0.03]}, index=["auto", "4x4x2"])
    both = {"layout": "auto", "reads": {"2x2x5": ["slices", "box"], "9x9x9": ["never"]}}
    said = copies.sentence(found, both, 3.0, "4x4x2", 4000, 2000, "")
    assert "two copies in one file: 2x2x5 for slices (10.0 ms). Reads are" in said


def test_an_interval_is_said_to_be_by_itself() -> None:
    found = site_of().verified
    assert found is not None and "by itself, not adjusted for the number of layouts" in found.note


def advised(file_bytes: float, times: Any = MAIN, **changes: Any) -> SiteAdvice:
    """The advice where today's layout has a file of so many bytes; at most 2 MB are allowed."""
    main = measured(times, "main")
    main.loc[main["layout"] == "contiguous", "file_bytes"] = file_bytes
    given = inputs(main, None, study=meta())
    (found,) = build(gather(Inputs(**given)), prediction(**changes), {"disk": FIGURE}, 1050.0).sites
    return found


def test_a_file_that_is_too_large_is_not_left_alone() -> None:
    close = {**MAIN, "contiguous": (0.0104, 0.0104)}
    assert advised(1e6, close).sentence.startswith("Do not bother")
    said = advised(3e6, close).sentence
    assert said.startswith("Store it as chunks of 4x4x2")
    assert "0.67 times today's, which is larger than the size bound allows." in said
    quick = {"contiguous": (0.004, 0.004), "auto": (0.002, 0.002), "4x4x2": (0.001, 0.001)}
    assert not advised(3e6, quick, state="warm").sentence.startswith("Do not bother")


def test_layouts_that_are_tied_are_counted_where_they_are_many() -> None:
    many = {f"{number}x{number}": (0.01, 0.01) for number in range(5)}
    said = site_of({"contiguous": (0.08, 0.08), "auto": (0.01, 0.01), **many}).sentence
    assert " and 3 more." in said


def test_what_chose_the_layout_is_told_as_it_was() -> None:
    main = measured(MAIN, "main")
    given = inputs(main, None, study=meta())
    (choice,) = given["recommendation"]["sites"]
    for steady, said in (
        ("4x4x2", "4x4x2 is the one whose times are best when"),
        ("auto", "between rounds; 4x4x2 is as good as that within 5 %, and its file is smaller; by measured"),
    ):
        choice["chosen_by"] = {"of": 3, "measured": "contiguous", "steady": steady}
        (found,) = build(gather(Inputs(**given)), prediction(), {"disk": FIGURE}, 1050.0).sites
        (remark,) = found.remarks
        assert said in remark and "it would be contiguous." in remark
        assert remark.endswith("A time that is not called predicted or estimated is a measured one.")


def test_it_is_said_where_fewer_selections_were_predicted_than_are_measured() -> None:
    (remark,) = site_of(sites=at_disk(drawn=[3, 7])).remarks
    assert remark.startswith("Predicted were the first 3 of 7 selections of each read in a round")
    assert not site_of(sites=at_disk(drawn=[7, 7])).remarks and not site_of().remarks


def test_where_another_layout_is_better_for_any_share_no_share_is_named() -> None:
    given = inputs(measured(MAIN, "main"), None, study=meta())
    (choice,) = given["recommendation"]["sites"]
    choice["alternatives"] = [{"layout": "auto", "case": "slices", "above": 0.0}]
    (found,) = build(gather(Inputs(**given)), prediction(), {"disk": FIGURE}, 1050.0).sites
    assert found.sentence.endswith("auto is better whatever share of your reads is slices.")
