"""The page of an advice says what was measured, and never shows a prediction as a measurement."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from report_samples import MAIN, assert_self_contained, inputs, measured, meta

import replay_advice
from hyperslab.advising.candidates import Candidate, Filter
from hyperslab.report import templates
from hyperslab.report.advice import AdvicePage, SiteAdvice, build
from hyperslab.report.data import Inputs, gather
from hyperslab.report.model import Figure
from hyperslab.report.render import render

FIGURE = Figure("advice", "what is drawn", None, "not drawn")


def foretold(layout: str, seconds: float) -> dict[str, Any]:
    return {"layout": layout, "times": {"slices": seconds, "spectra": seconds}, "file_bytes": 1.5e6}


def prediction(**changes: Any) -> dict[str, Any]:
    probed: dict[str, Any] = {
        "latency_s": 1e-4,
        "waited_s": 1e-9,
        "ahead_s": 5e-10,
        "cached_s": 1e-10,
        "lookup_s": 5e-6,
    }
    probed |= {"open_s": 1e-3, "read_ahead_bytes": 2**23, "steal_s": 0.0, "pressure_io_s": 0.1}
    probed |= {"zarr_chunk_s": 0.0, "zarr_open_s": 0.0, "write_s": 1e-9, "bytes_per_s": None}
    site = {
        "probed": probed, "considered": 12345,
        "predicted": [foretold("9x9x9", 0.00777), foretold("auto", 0.00888)],
        "measured": [foretold("contiguous", 0.123), foretold("auto", 0.00888)],
    }  # fmt: skip
    found = {
        "array": "mine.h5::/counts", "shape": [10, 10, 10], "measured_shape": [10, 10, 10], "raw_bytes": 2000,
        "whole_bytes": 2000, "memory_bytes": 10**10, "state": "cold", "limit_s": 60.0, "copies": None,
        "today": "contiguous", "unnamed_filters": False, "guessed": False, "sites": {"disk": site},
        "reads": [{"name": "slices"}, {"name": "spectra"}], "began_wall_s": 1000.0,
        "seconds": {"probe": 2.0, "read": 1.0, "predict": 3.0},
    }  # fmt: skip
    return {**found, **changes}


def page(times: Any = MAIN, **changes: Any) -> AdvicePage:
    main = measured(times, "main")
    main["began_wall_s"], main["ended_wall_s"], main["generate_s"] = 1010.0, 1040.0, 0.5
    data = gather(Inputs(**inputs(main, None, study=meta())))
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
        ({"shape": [10, 10, 99]}, "Measured was the first 10x10x10 of 10x10x99"),
        ({"unnamed_filters": True, "today": None}, "Today's layout is not compared"),
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
        "Verify": "21.0 s", "From the command to this page": "50.0 s", "Asked for": "1 min 0 s",
    }  # fmt: skip
    assert_self_contained(render(found, templates.ADVICE))


def test_settings_and_other_filters_are_no_candidates_of_a_replay() -> None:
    plain = {"format": "hdf5", "chunks": [4, 4, 4], "filters": [], "order": ["x", "y", "z"]}
    gzip = {**plain, "filters": [{"name": "gzip", "level": 4}]}
    assert replay_advice.candidate_of(plain, 2) == Candidate((4, 4, 4))
    assert replay_advice.candidate_of(gzip, 2) == Candidate((4, 4, 4), (Filter("gzip", (("level", 4),)),))
    for other in ({"format": "zarr"}, {"filters": [{"name": "lzf"}]}, {"chunks": [1024, 1024, 1]}):
        assert replay_advice.candidate_of({**plain, **other}, 2) is None


def test_regret_is_nothing_where_the_prediction_is_right_and_much_where_it_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Study:
        cases = {"slices": {"kind": "read", "states": ["cold"], "shape": [1]}}
        dataset = type("Dataset", (), {"shape": [1], "model": "array"})

    names = [f"layout{number}" for number in range(8)]
    times = {name: (0.01 * 2**number, 0.01) for number, name in enumerate(names)}
    table = measured(times, "main")
    right = pd.DataFrame({"slices": [pair[0] for pair in times.values()]}, index=names)
    study: Any = Study()
    monkeypatch.setattr(replay_advice, "predictions", lambda *_: right)
    good = replay_advice.judge("good", study, table)
    assert (
        good is not None and good.spearman == pytest.approx(1) and max(good.verified) == 0 and all(good.small)
    )
    wrong = right.set_axis(names[::-1])
    monkeypatch.setattr(replay_advice, "predictions", lambda *_: wrong)
    bad = replay_advice.judge("bad", study, table)
    # The five that are predicted to be best leave out the three that are: 2 ** 3 times as long is the least.
    assert bad is not None and bad.spearman == pytest.approx(-1)
    assert np.allclose(bad.verified, 7, rtol=0.05) and not any(bad.small)


def with_whole(one: dict[str, Any], times: float) -> dict[str, Any]:
    longer = {name: seconds * times for name, seconds in one["times"].items()}
    return {**one, "whole": {"times": longer, "file_bytes": 3e6}}


def test_a_part_is_told_from_the_whole_whose_times_are_called_estimates() -> None:
    site = prediction()["sites"]["disk"]
    measured = [with_whole(foretold("contiguous", 0.04), 10.0), with_whole(foretold("4x4x2", 0.02), 3.0)]
    found = site_of(sites={"disk": {**site, "measured": measured}}, shape=[10, 10, 100])
    (said,) = found.remarks
    # 11 ms of the part, where the model says that the whole takes three times as long.
    assert "about: slices in 33" in said and "(now 881 ms)" in said and "estimated, not measured" in said
    assert found.whole is not None and "Not measured" in found.whole.note
    assert {row[0].text for row in found.whole.rows} == {"contiguous", "4x4x2"}
    # Where the model makes another layout better for the whole array, it is said.
    turned = [with_whole(foretold("contiguous", 0.04), 1.0), with_whole(foretold("4x4x2", 0.02), 90.0)]
    (said,) = site_of(sites={"disk": {**site, "measured": turned}}, shape=[10, 10, 100]).remarks
    assert "By these estimates contiguous would be better for the whole array." in said


def test_nobody_is_bothered_with_what_is_read_warm_and_quick_anyhow() -> None:
    quick = {"contiguous": (0.004, 0.004), "auto": (0.002, 0.002), "4x4x2": (0.001, 0.001)}
    said = site_of(quick, state="warm").sentence
    assert said.startswith("Do not bother: the array is read warm, and it fits in the page cache")
    assert "auto" not in said and "4x4x2" not in said
    # Not where it is cold, is slow all the same, or does not fit.
    assert "page cache" not in site_of(quick).sentence
    assert "page cache" not in site_of(MAIN, state="warm").sentence
    assert "page cache" not in site_of(quick, state="warm", memory_bytes=10**6).sentence


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


def test_two_copies_are_a_second_answer_where_they_pay() -> None:
    times = {"contiguous": (0.08, 0.08), "4x4x2": (0.05, 0.06), "auto": (0.02, 0.01)}
    copies = {"layout": "auto", "reads": {"2x2x5": ["slices"], "9x9x9": ["spectra"]}}
    main = measured(times, "main")
    main["began_wall_s"], main["ended_wall_s"], main["generate_s"] = 1010.0, 1040.0, 0.5
    given = inputs(main, None, study=meta())
    (choice,) = given["recommendation"]["sites"]
    choice["pick"] = "4x4x2"
    (found,) = build(gather(Inputs(**given)), prediction(copies=copies), {"disk": FIGURE}, 1050.0).sites
    assert "two copies in one file: 2x2x5 for slices (22" in found.copies
    assert "Reads are 3.9 times as fast" in found.copies and "layout/auto.h5" in found.copies
    assert found.code[0] == 'with h5py.File("mine.h5") as file:' and len(found.code) == 3
    assert 'file["counts"]' in found.code[1] and 'file["counts-second"]' in found.code[2]
    foretold = prediction(copies=copies, has_file=False, array="an array of 10x10x10 uint16")
    (found,) = build(gather(Inputs(**given)), foretold, {"disk": FIGURE}, 1050.0).sites
    assert "your file" not in found.copies and 'file["data"]' in found.code[1]
    choice["pick"] = "auto"
    (same,) = build(gather(Inputs(**given)), prediction(copies=copies), {"disk": FIGURE}, 1050.0).sites
    assert same.copies == "" and same.code == []
