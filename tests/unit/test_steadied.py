"""Measured times drawn towards a prediction: how far, and what a recommendation makes of them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from report_samples import NUMBERS

from hyperslab.results.columns import of_type
from hyperslab.results.recommend import recommend
from hyperslab.results.recommendation import answer
from hyperslab.results.statistics import summarise
from hyperslab.results.steadied import TAU, deviation, steadied
from hyperslab.results.tables import tidy

RNG = np.random.default_rng(3)
TRUTH = RNG.normal(0, 1, (2, 10))


def rounds(noise: float, count: int = 4) -> Any:
    """Logs of seconds, cases x layouts x rounds, that a round shares a drift of."""
    drift = RNG.normal(0, 0.5, (2, 1, count))
    return TRUTH[:, :, None] + drift + RNG.normal(0, noise, (2, 10, count))


def centred(values: Any) -> Any:
    return values - values.mean(axis=1, keepdims=True)


def test_without_noise_what_was_measured_counts_and_with_much_the_prediction() -> None:
    wrong = RNG.normal(0, 0.3, (2, 10, 1))
    quiet = rounds(1e-6)
    found = steadied(quiet, TRUTH[:, :, None] + wrong + np.zeros((2, 10, 4)), 0.1)
    assert np.allclose(centred(found), centred(TRUTH), atol=1e-3)
    noisy = rounds(3.0)
    found = steadied(noisy, np.repeat(TRUTH[:, :, None], 4, axis=2), 0.02)
    assert np.allclose(centred(found), centred(TRUTH), atol=0.05)


def test_steadied_times_are_nearer_to_the_truth_than_either() -> None:
    errors: dict[str, list[float]] = {"measured": [], "predicted": [], "steadied": []}
    for _ in range(200):
        measured, wrong = rounds(0.2, 3), RNG.normal(0, 0.12, (2, 10, 1))
        predicted = TRUTH[:, :, None] + wrong + np.zeros((2, 10, 3))
        tried = {"measured": measured.mean(axis=2), "predicted": predicted[:, :, 0]}
        tried["steadied"] = steadied(measured, predicted, 0.12)
        for name, each in tried.items():
            errors[name].append(float(((centred(each) - centred(TRUTH)) ** 2).mean()))
    means = {name: np.mean(each) for name, each in errors.items()}
    assert means["steadied"] < 0.8 * means["measured"] and means["steadied"] < 0.8 * means["predicted"]


def test_rounds_that_only_some_layouts_have_are_no_advantage() -> None:
    measured = rounds(0.05, 6)
    # What was added for half of the layouts fell into a slow hour.
    measured[:, :, 3:] += 1.0
    measured[:, 5:, 3:] = np.nan
    found = steadied(measured, np.repeat(TRUTH[:, :, None], 6, axis=2), 10.0)
    assert np.allclose(centred(found), centred(TRUTH), atol=0.1)


def test_boxes_of_a_round_that_are_hard_for_a_layout_are_not_held_against_it() -> None:
    hard = np.zeros((2, 10, 3))
    hard[:, 0, 0] = np.log(3)
    measured = np.repeat(TRUTH[:, :, None], 3, axis=2) + hard
    found = steadied(measured, measured - 0.4, TAU)
    usual = np.log(np.exp(measured).mean(axis=2))
    assert np.allclose(centred(found), centred(usual))


def test_how_wrong_a_prediction_is_is_not_taken_for_noise() -> None:
    many = np.zeros((30, 20, 5))
    noise, wrong = RNG.normal(0, 0.3, many.shape), RNG.normal(0, 0.2, (30, 20, 1))
    assert deviation(many + noise + wrong, many) == pytest.approx(0.2, rel=0.15)
    assert deviation(many + noise, many) < 0.08


# Two layouts that cannot be told apart, the first a little faster by luck, and one that is far behind.
TIMES = {"lucky": (0.026, 0.034, 0.030), "sure": (0.035, 0.028, 0.031), "slow": (0.3, 0.3, 0.31)}


def summary(**more: tuple[float, ...]) -> pd.DataFrame:
    rows = []
    for (layout, times), number in itertools.product({**TIMES, **more}.items(), range(3)):
        row: dict[str, Any] = dict.fromkeys(of_type("text"), "")
        row |= {"study": "tiny", "site": "disk", "layout": layout, "case": "image", "kind": "read"}
        row |= {"phase": "main", "round": number, "state": "cold", "repeat": 0}
        row |= {"time_s": times[number], "file_bytes": 1e6, "open_s": 0.0}
        rows.append(row | NUMBERS)
    return summarise(tidy(rows))


def foretold(**seconds: float) -> dict[str, Any]:
    return {"disk": {name: {"image": [each] * 3} for name, each in seconds.items()}}


def test_among_tied_layouts_the_steadied_times_choose_and_the_measured_ones_are_quoted() -> None:
    (plain,) = recommend(summary())
    assert plain.pick == "lucky" and set(plain.tied) == {"lucky", "sure"} and plain.chosen_by is None
    (found,) = recommend(summary(), foretold=foretold(lucky=0.040, sure=0.025, slow=0.001))
    assert found.pick == "sure"
    assert found.chosen_by == {"of": 2, "measured": "lucky", "steady": "sure"}
    assert found.ranking == plain.ranking and found.best == "lucky"
    # What is surely worse is never picked, whatever was predicted; and nor is anything by half a prediction.
    (half,) = recommend(summary(), foretold=foretold(sure=0.025))
    assert half.pick == "lucky" and half.chosen_by is None


def test_steadied_times_choose_by_what_is_asked() -> None:
    """The largest regret and a mix of the same predictions choose differently."""
    rows = pd.concat([summary(), summary().assign(case="spectrum")], ignore_index=True)
    told = {
        "disk": {
            "lucky": {"image": [0.02] * 3, "spectrum": [0.09] * 3},
            "sure": {"image": [0.04] * 3, "spectrum": [0.03] * 3},
        }
    }
    (regret,) = recommend(rows, foretold=told)
    (mix,) = recommend(rows, {"image": 9, "spectrum": 1}, foretold=told)
    assert regret.chosen_by and regret.chosen_by["steady"] == "sure"
    assert mix.chosen_by and mix.chosen_by["steady"] == "lucky"


def test_a_recommendation_is_told_how_it_was_chosen() -> None:
    asked = {
        "recommendation": {
            "mix": {}, "size_bound": 1000, "states": ["cold"], "imperceptible_ms": 10.0,
        },
        "contiguous": None, "automatic": None, "raw_bytes": 2000, "rounds": (3, 3),
    }  # fmt: skip
    (told,) = answer(summary(), [], asked, foretold(lucky=0.04, sure=0.025, slow=0.1))["sites"]
    assert told["pick"] == "sure" and told["chosen_by"]["measured"] == "lucky"
    assert told["alpha"] == 0.05
    # So many looks share the level.
    (told,) = answer(summary(), [], {**asked, "rounds": (3, 12)})["sites"]
    assert told["alpha"] == pytest.approx(0.05 / 4)


def test_a_smaller_file_is_picked_beside_the_one_that_steadied_times_choose() -> None:
    # As fast as "sure" in every round, by a hair.
    hair = zip((1.001, 0.9995, 1.0005), TIMES["sure"], strict=True)
    rows = summary(small=tuple(times * seconds for times, seconds in hair))
    rows["file_bytes"] = rows["file_bytes"].where(rows["layout"] != "small", 9e5)
    (found,) = recommend(rows, foretold=foretold(lucky=0.04, sure=0.025, small=0.025, slow=0.1))
    assert found.pick == "small"
    assert found.chosen_by == {"of": 3, "measured": "lucky", "steady": "sure"}


def test_a_site_of_confirming_rounds_alone_has_a_reason_of_its_own() -> None:
    again = summary().assign(phase="confirm")
    asked = {
        "recommendation": {
            "mix": {}, "size_bound": 1000, "states": ["cold"], "imperceptible_ms": 10.0,
        },
        "contiguous": None, "automatic": None, "raw_bytes": 2000, "rounds": (3, 3),
    }  # fmt: skip
    (told,) = answer(again, [], asked)["sites"]
    assert told["reason"] == "only confirming rounds were measured here, and none that choose a layout"
