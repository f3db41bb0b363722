"""docs/index.md: every number is that of a pack, and every sentence has a figure and its evidence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import findings
from hyperslab.results.packs import PackError
from hyperslab.validation.errors import ConfigurationError

DOCS = findings.DOCS
MOST_BYTES = 60_000


@pytest.mark.slow
def test_the_page_is_made_of_the_packs() -> None:
    made = findings.page(findings.read(), findings.PROJECT / "packs", None)
    assert (DOCS / "index.md").read_text(encoding="utf-8") == made, "make it anew: make findings"


def test_there_are_ten_sentences_each_with_a_small_figure() -> None:
    names = [finding.name for finding in findings.read().findings]
    assert len(set(names)) == len(names) == 10
    drawn = {file.name: file.stat().st_size for file in (DOCS / "figures").iterdir()}
    assert set(drawn) == {f"{name}.svg" for name in names}
    assert max(drawn.values()) < MOST_BYTES


def logs() -> pd.DataFrame:
    """Three rounds of two layouts, the second of which takes twice as long."""
    times = np.array([[1.0, 1.1, 0.9], [2.0, 2.2, 1.8]])
    return pd.DataFrame(np.log(times), index=["a/slices/cold", "b/slices/cold"])


def finding(**changes: object) -> findings.Finding:
    """A sentence on them."""
    content = {
        "name": "twice", "heading": "Twice", "study": "mine", "sentence": "It takes {long} as long.",
        "numbers": {"long": {"over": "b/slices/cold", "under": "a/slices/cold"}},
        "series": {"images": "*/slices/cold"}, "rows": {"first": "a", "second": "b"}, **changes,
    }  # fmt: skip
    return findings.Finding.model_validate(content)


def test_a_sentence_says_numbers_intervals_and_which_rounds_they_are_of(tmp_path: Path) -> None:
    verdicts = tmp_path / "claims-2020-02-02.md"
    verdicts.write_text("### 000.1: cannot tell (other)\n### 000.1: holds (mine)\n", encoding="utf-8")
    text = findings.part_of(finding(claim="000.1"), 3, logs(), "main", verdicts)
    assert "## 3. Twice" in text
    assert "It takes 2.00 times (2.00 to 2.00) as long." in text
    assert "(../site/mine/report.html)" in text
    assert "(../site/index.html#claim-mine-000.1)" in text
    # Without the website, too, there is a way to the evidence.
    assert "[the verdict on 000.1](claims-2020-02-02.md#0001-holds-mine)" in text
    assert "(../packs/mine.tar.xz), whose report `make report PACK=packs/mine.tar.xz` makes" in text
    assert "its 3 rounds, which no other rounds confirm" in text
    confirmed = findings.part_of(finding(), 3, logs(), "confirm", verdicts)
    assert "its 3 confirming rounds after the choice. Evidence" in confirmed
    some = findings.part_of(finding(), 3, logs(), "confirm", verdicts, before=True)
    assert "its 3 confirming rounds after the choice, points from its rounds before. Evidence" in some
    assert "the verdict on" not in confirmed
    two = findings.part_of(finding(), 1, logs().iloc[:, :2], "main", verdicts)
    assert "takes 2.00 times as long" in two
    with pytest.raises(ConfigurationError, match="has no verdict on 000.2 of study mine"):
        findings.part_of(finding(claim="000.2"), 3, logs(), "main", verdicts)


def test_a_number_is_of_the_rounds_that_both_its_sides_have(tmp_path: Path) -> None:
    longer = logs()
    # To one side of it a round was added.
    longer[3] = [np.nan, 0.7]
    text = findings.part_of(finding(), 3, longer, "main", tmp_path)
    assert "numbers from its 3 rounds, which" in text


def test_verdicts_are_those_that_are_dated_last(tmp_path: Path) -> None:
    for day in ("2020-02-02", "2020-02-11", "2019-12-31"):
        (tmp_path / f"claims-{day}.md").touch()
    assert findings.newest_verdicts(tmp_path).name == "claims-2020-02-11.md"


def test_a_place_that_a_pack_does_not_hold_is_named() -> None:
    findings.check(finding(), findings.quoted(finding()) + findings.shown(finding()), logs())
    with pytest.raises(ConfigurationError, match=r"findings.yaml: twice: study mine has no c/slices/cold"):
        findings.check(finding(), findings.shown(finding(rows={"third": "c"})), logs())


def test_of_a_pack_of_several_sites_one_is_named() -> None:
    pack = findings.PROJECT / "packs" / "vl-sync.tar.xz"
    with pytest.raises(ConfigurationError, match="holds several sites .*; name one of them as site"):
        findings.logs_of(pack, "main")
    slow, sync = (findings.logs_of(pack, "main", f"local-loop-{name}") for name in ("slow", "sync"))
    assert slow.loc["vlen/write-64/write"].min() > sync.loc["vlen/write-64/write"].max()


def test_a_figure_shows_every_round_of_every_row() -> None:
    (axes,) = findings.drawn(finding(), logs()).axes
    points = [line.get_xdata() for line in axes.lines]
    assert [len(np.asarray(xs)) for xs in points] == [3, 3]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["first", "second"]
    assert axes.get_xlabel() == "time, one point a round"


def test_a_pack_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(PackError, match="there is no such file"):
        findings.page(findings.read(), tmp_path, None)
