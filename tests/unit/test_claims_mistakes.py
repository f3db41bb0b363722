"""Mistakes in claims: one clear line each; and what patterns of layouts and cases match."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from claim_samples import BASE, CLAIM, GRID, resolved
from hypothesis import given
from hypothesis import strategies as st
from studies import load, mistake

from hyperslab.studies.claims.patterns import fill, matches, variables
from hyperslab.studies.claims.quantities import QUANTITIES

GOOD: dict[str, Any] = {
    "says": "a",
    "a": {"layouts": "{m}x{m}x10", "case": "slices"},
    "b": {"layouts": "contiguous"},
    "below": 1,
}
WHERE = "claims.000.1"
ATOM = f"{WHERE}.comparisons.0"


def changed(path: str, value: Any, base: dict[str, Any] = GOOD) -> dict[str, Any]:
    """The study with one comparison whose value at a dotted path is replaced, or taken away (value ...)."""
    comparison = copy.deepcopy(base)
    *parents, last = path.split(".")
    inner = comparison
    for part in parents:
        inner = inner[part]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    content: dict[str, Any] = yaml.safe_load(BASE)
    return {**content, "claims": {"000.1": {**CLAIM, "comparisons": [comparison]}}}


COMPARISONS: list[tuple[str, Any, str]] = [
    ("a.layouts", ..., f"{ATOM}.a.layouts: this key is required"),
    ("a.case", ..., f"{ATOM}.a.case: this key is required"),
    ("a.case", "slice", f"{ATOM}.a.case: no case 'slice'; the study has "),
    ("a.layouts", "5x5x5", f"{ATOM}.a.layouts: '5x5x5' matches no layout here; there are 10"),
    (
        "a.layouts",
        "{m}x{m}x11",
        f"{ATOM}.a.layouts: '{{m}}x{{m}}x11' matches no layout here; there are 10",
    ),
    ("a.layouts", "chunk-{1}", f"{ATOM}.a.layouts: 'chunk-{{1}}' matches no layout here; there are 10"),
    ("a.where", {"n": [10]}, f"{ATOM}.a.where.n: no variable {{n}} in {{m}}x{{m}}x10"),
    ("a.where", {"m": [16]}, f"{ATOM}.a.where: leaves no layout"),
    ("a.state", "write", f"{ATOM}.a.state: case 'slices' is not measured in state 'write'"),
    ("a.of", "speed", f"{ATOM}.a.of: unknown 'speed'; there are {len(QUANTITIES)}"),
    (
        "a.of",
        "durable",
        f"{ATOM}.a.state: this key is required; case 'slices' is measured in cold, warm, session",
    ),
    ("b.of", "chunks", f"{ATOM}.b: a time and a count cannot be compared"),
    ("b", {}, f"{ATOM}.b: the same rows as a"),
    ("kind", "slope", f"{ATOM}.over: this key is required by kind slope"),
    ("over", "m", f"{ATOM}.over: kind ratio has no over"),
    ("kind", "count", f"{ATOM}.counting: this key is required by kind count"),
    ("says", "{n}", f"{ATOM}.says: no value for {{n}}; `for_all` fills in nothing"),
    ("below", ..., f"{ATOM}: a bound is needed: above, at_least, below, at_most, equals or similar"),
    ("at_most", 2, f"{ATOM}: below and at_most cannot both bound one number"),
    ("above", 2, f"{ATOM}: nothing lies above 2 and below 1"),
    ("margin", 1.1, f"{ATOM}: only `similar` has a margin"),
    ("kind", "ration", f"{ATOM}.kind: "),
    ("a.layout", "x", f"{ATOM}.a.layout: unknown key; allowed are layouts, where, case, state, of, per"),
    ("below", "one", f"{ATOM}.below: should be a valid number"),
    ("for_all", {"m": []}, f"{ATOM}.for_all.m: List should have at least 1 item"),
]


@pytest.mark.parametrize(("path", "value", "line"), COMPARISONS)
def test_mistakes_in_a_comparison(tmp_path: Path, path: str, value: Any, line: str) -> None:
    assert mistake(tmp_path, changed(path, value)).startswith(line)


CLAIMS: list[tuple[dict[str, Any], str]] = [
    ({"testability": "Q"}, f"{WHERE}.testability: "),
    ({"section": ...}, f"{WHERE}.section: this key is required"),
    ({"comparisons": []}, f"{WHERE}: needs either comparisons, or the reason why it is `untestable`"),
    ({"untestable": "no"}, f"{WHERE}: needs either comparisons, or the reason why it is `untestable`"),
    ({"explains": "000.2"}, f"{WHERE}: `explains` and `explanation` come together"),
    ({"figure": "pie"}, f"{WHERE}.figure: no figure 'pie' in this study; there are "),
    (
        {"at": {"sites": ["a"]}, "across": {"a": {}, "b": {}}},
        f"{WHERE}: `at` and `across` cannot both say where",
    ),
    ({"comparisons": [{**GOOD, "judged": False}]}, f"{WHERE}: at least one comparison must be judged"),
    ({"sentense": "x"}, f"{WHERE}.sentense: unknown key; allowed are sentence, source, section"),
]


@pytest.mark.parametrize(("changes", "line"), CLAIMS)
def test_mistakes_in_a_claim(tmp_path: Path, changes: dict[str, Any], line: str) -> None:
    content: dict[str, Any] = yaml.safe_load(BASE)
    claim = {
        key: value for key, value in {**CLAIM, "comparisons": [GOOD], **changes}.items() if value is not ...
    }
    assert mistake(tmp_path, {**content, "claims": {"000.1": claim}}).startswith(line)


def test_kinds_ask_for_what_they_need(tmp_path: Path) -> None:
    whole = {"says": "a", "a": {"layouts": "{m}x{m}x{n}", "case": "slices"}, "below": 1}
    assert mistake(tmp_path, changed("kind", "fastest", whole)) == (
        f"{ATOM}.b: this key is required where `where` leaves nothing out"
    )
    slope = {**whole, "kind": "slope", "over": "k"}
    assert (
        mistake(tmp_path, changed("over", "k", slope))
        == f"{ATOM}.over: no variable {{k}} in the layouts or case of a"
    )
    paired = {**whole, "kind": "count", "counting": {"below": 1}, "b": {"layouts": "{n}x{m}x10*"}}
    assert "counterparts; it needs one" in mistake(tmp_path, changed("says", "b", paired))
    time = {"says": "a", "a": {"layouts": "2x2x10", "case": "slices"}, "below": 1}
    content = changed("equals", 2, time)
    del content["claims"]["000.1"]["comparisons"][0]["below"]
    assert (
        mistake(tmp_path, content) == f"{ATOM}.equals: no time equals a number; use `similar` with a margin"
    )
    across = changed("kind", "value", time)
    across["claims"]["000.1"]["across"] = {"a": {}, "b": {}}
    assert mistake(tmp_path, across) == f"{ATOM}.kind: a claim across sites compares by ratio"
    content = changed("kind", "full_marks", time)
    del content["score"]
    assert mistake(tmp_path, content) == f"{ATOM}.kind: kind full_marks needs a `score` in the study"
    outside = changed("kind", "matched_marks", {**time, "a": {"layouts": "contiguous"}})
    assert mistake(tmp_path, outside) == (
        f"{ATOM}.a.layouts: 'contiguous' is not of the grid, whose layouts are ranked"
    )


def test_a_name_of_a_claim_is_text_and_stands_once(tmp_path: Path) -> None:
    content = changed("says", "b")
    content["claims"] = {0.1: content["claims"]["000.1"]}
    assert mistake(tmp_path, content) == "claims: should be a valid string, not 0.1"


def test_claims_are_not_inherited(tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text(yaml.safe_dump(changed("says", "b")), encoding="utf-8")
    study = load(tmp_path, {"extends": "other"})
    assert study.claims == []
    assert set(GRID) <= set(study.layouts)


def test_claims_are_kept_where_they_are_named(tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text(yaml.safe_dump(changed("says", "b")), encoding="utf-8")
    study = load(tmp_path, {"extends": "other", "keep_claims": ["000.1"]})
    assert [claim["id"] for claim in study.claims] == ["000.1"]
    own = {"000.2": {**CLAIM, "comparisons": [GOOD]}}
    study = load(tmp_path, {"extends": "other", "keep_claims": ["000.1"], "claims": own})
    assert [claim["id"] for claim in study.claims] == ["000.1", "000.2"]
    wrong = mistake(tmp_path, {"extends": "other", "keep_claims": ["000.7"]})
    assert wrong.startswith(
        "keep_claims.0: '000.7' is no claim of the study that this one extends; it has 000.1"
    )
    for other in ({"000.1": "mine"}, ["000.1"]):
        wrong = mistake(tmp_path, {"extends": "other", "keep_claims": [other]})
        assert wrong.startswith(f"keep_claims.0: {other!r} is no claim of the study that this one extends")
    alone = mistake(tmp_path, {**changed("says", "b"), "keep_claims": ["000.1"]})
    assert alone.startswith("keep_claims: keeps claims of a study that this one extends, and there is none")


def test_instances_and_their_rows(tmp_path: Path) -> None:
    (claim,) = resolved(
        tmp_path,
        {"says": "{case} {of} {n}", "for_all": {"n": [10, 100], "of": ["first_access"], "case": ["slices"]},
         "a": {"layouts": "{m}x{m}x{n}", "where": {"m": [1, 4]}, "case": "{case}", "of": "{of}",
               "per": {"of": "median"}},
         "b": {"layouts": "contiguous", "state": "cold"}, "below": 1},
    )  # fmt: skip
    (comparison,) = claim["comparisons"]
    assert comparison["says"] == "slices first access n"
    assert [instance["says"] for instance in comparison["instances"]] == [
        "slices first access 10", "slices first access 100"
    ]  # fmt: skip
    first, second = comparison["instances"][0]["a"]
    assert (first["values"], second["values"]) == ({"m": 1}, {"m": 4})
    # A first access is cold, whatever it is compared with.
    assert first["terms"] == [[1.0, "slices", "1x1x10", "cold", "first_access"],
                              [-1.0, "slices", "1x1x10", "session", "median"]]  # fmt: skip
    (other,) = comparison["instances"][0]["b"]
    assert other["terms"] == [[1.0, "slices", "contiguous", "cold", "first_access"]]


def test_a_first_access_is_cold(tmp_path: Path) -> None:
    side = {"layouts": "2x2x10", "case": "slices", "of": "first_access"}
    comparison = {"says": "a", "a": {"layouts": "2x2x10", "case": "slices", "state": "session"}, "below": 1}
    (claim,) = resolved(tmp_path, {**comparison, "b": {"of": "first_access"}})
    (other,) = claim["comparisons"][0]["instances"][0]["b"]
    assert other["terms"] == [[1.0, "slices", "2x2x10", "cold", "first_access"]]
    assert (
        mistake(tmp_path, changed("a", {**side, "state": "session"}, comparison))
        == f"{ATOM}.a.state: 'first_access' is always of state 'cold'; leave the state out"
    )


def test_a_line_for_all_instances_names_words_and_stands_for_numbers(tmp_path: Path) -> None:
    side = {"layouts": "{m}x{m}x10", "case": "slices", "of": "{of}"}
    every = {"m": [1, 2], "of": ["first_access", "median"]}
    (claim,) = resolved(tmp_path, {"says": "{of} of {m}", "for_all": every, "a": side, "below": 1})
    (comparison,) = claim["comparisons"]
    assert comparison["says"] == "first access / median of m"


def test_the_other_side_is_of_the_same_state_where_its_case_knows_it(tmp_path: Path) -> None:
    def looked_at(b: dict[str, str]) -> list[list[str]]:
        asked = {"a": {"layouts": "2x2x10", "case": "slices", "state": "cold"}, "b": b, "below": 1}
        (claim,) = resolved(tmp_path, asked)
        (instance,) = claim["comparisons"][0]["instances"]
        return [cell["terms"][0][3:] for side in "ab" for cell in instance[side]]

    cold = ["cold", "median"]
    # Cold selections are never held against a session unless somebody says so.
    assert looked_at({"case": "spectra"}) == [cold, cold]
    assert looked_at({"case": "spectra", "state": "session"}) == [cold, ["session", "geometric_mean"]]
    # A write knows no state of reads.
    assert looked_at({"case": "spectrum"}) == [cold, ["write", "durable"]]


def test_times_of_writes_are_those_of_the_state_write(tmp_path: Path) -> None:
    asked = {"a": {"layouts": "2x2x10", "case": "chunk"}, "b": {"case": "slices", "of": "median"}, "below": 1}
    (claim,) = resolved(tmp_path, asked)
    (instance,) = claim["comparisons"][0]["instances"]
    assert instance["a"][0]["terms"] == [[1.0, "chunk", "2x2x10", "write", "durable"]]
    assert instance["b"][0]["terms"] == [[1.0, "slices", "2x2x10", "session", "median"]]


names = st.text("ax0123456789-.", min_size=1, max_size=8)


@given(st.integers(0, 10**6), st.integers(0, 10**6), names, names)
def test_a_filled_in_pattern_matches_with_its_values(m: int, n: int, before: str, between: str) -> None:
    pattern = f"{before}y{{m}}y{between}y{{m}}y{{n}}"
    name = fill(pattern, {"m": m, "n": n})
    assert matches(pattern, [name, name + "?", f"{before}y{m}y{between}y{m + 1}y{n}"]) == {
        name: {"m": m, "n": n}
    }
    assert variables(pattern) == ["m", "n"]
    assert fill(pattern, {"m": m}) == fill(fill(pattern, {"m": m}), {})


def test_globs_and_variables_go_together() -> None:
    assert matches("{m}x*", ["1x1", "12x3", "ax1"]) == {"1x1": {"m": 1}, "12x3": {"m": 12}}
    assert matches("[ab]", ["a", "b", "ab"]) == {"a": {}, "b": {}}
    # Whatever a variable is called, also as a group of fnmatch is.
    assert matches("*x*{g0}-{a²}", ["1x-2-3"]) == {"1x-2-3": {"g0": 2, "a²": 3}}
    # A number names no variable.
    assert variables("{1}x{n}") == ["n"]
    # What a name holds besides digits is no pattern.
    assert matches("a.b", ["a.b", "axb"]) == {"a.b": {}}
