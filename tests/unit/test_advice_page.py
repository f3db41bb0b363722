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
from hyperslab.report.advice import AdvicePage, build
from hyperslab.report.data import Inputs, gather
from hyperslab.report.model import Figure
from hyperslab.report.render import render

FIGURE = Figure("advice", "what is drawn", None, "not drawn")


def foretold(layout: str, seconds: float) -> dict[str, Any]:
    return {"layout": layout, "times": {"slices": seconds, "spectra": seconds}, "file_bytes": 1.5e6}


def prediction(**changes: Any) -> dict[str, Any]:
    probed = {"latency_s": 1e-4, "waited_s": 1e-9, "ahead_s": 5e-10, "cached_s": 1e-10, "lookup_s": 5e-6}
    probed |= {"open_s": 1e-3, "read_ahead_bytes": 2**23, "steal_s": 0.0, "pressure_io_s": 0.1}
    found = {
        "shape": [10, 10, 10], "measured_shape": [10, 10, 10], "raw_bytes": 2000, "site": "disk",
        "today": "contiguous", "unnamed_filters": False, "guessed": False, "probed": probed,
        "reads": [{"name": "slices"}, {"name": "spectra"}], "considered": 12345, "began_wall_s": 1000.0,
        "predicted": [foretold("9x9x9", 0.00777), foretold("auto", 0.00888)],
        "measured": [foretold("contiguous", 0.123), foretold("auto", 0.00888)],
        "seconds": {"probe": 2.0, "predict": 3.0},
    }  # fmt: skip
    return {**found, **changes}


def page(times: Any = MAIN, **changes: Any) -> AdvicePage:
    main = measured(times, "main")
    main["began_wall_s"], main["ended_wall_s"] = 1010.0, 1040.0
    data = gather(Inputs(**inputs(main, None, study=meta())))
    return build(data, prediction(**changes), FIGURE, 1050.0)


def test_the_sentence_says_what_to_use_and_what_today_takes() -> None:
    found = page()
    assert found.sentence.startswith("Store it as chunks of 4x4x2")
    assert "slices in 11.0 ms (now 88.1 ms)" in found.sentence
    assert "The file is 2.0 times today's." in found.sentence


def test_it_says_when_not_to_bother() -> None:
    close = {**MAIN, "contiguous": (0.0104, 0.0104)}
    assert page(close).sentence.startswith(
        "Do not bother: today's layout is within a tenth of the best, 4x4x2."
    )
    assert page(today="4x4x2").sentence.startswith("Leave it as it is")


def test_what_was_predicted_is_called_so() -> None:
    found = page()
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
        "Probe": "2.00 s", "Predict": "3.00 s", "Write and verify": "30.0 s",
        "From the command to this page": "50.0 s",
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
