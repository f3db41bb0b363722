"""The seam of kinds of cases: nobody outside it asks for a kind by its name, and both of its sides agree."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from test_environments import SCRIPTS, mentioned, module_files, nodes_of

from hyperslab import cases, formats, layouts
from hyperslab.studies import figures
from hyperslab.studies.case_kinds import KINDS
from hyperslab.studies.schema import Case

# Both sides of the seam: what a kind is like, and what measures it.
ROOMS = ("hyperslab.studies.case_kinds", "hyperslab.cases")
# Words for nothing but a kind; the others are also what a call does, a state or a column.
UNMISTAKABLE = {"reduce", "parallel"}


def constants(node: ast.AST) -> set[str]:
    """Every name of a kind in an expression, but for keys: a case keeps what it asks for under its name."""
    found = [one for one in ast.walk(node) if isinstance(one, ast.Constant) and one.value in KINDS]
    # Most have none, and a second walk takes as long as the first.
    keys = {id(one.slice) for one in ast.walk(node) if isinstance(one, ast.Subscript)} if found else ()
    return {str(one.value) for one in found if id(one) not in keys}


def of_kind(node: ast.AST) -> bool:
    """Whether an expression looks a kind up: x["kind"], x.kind, x.get("kind") or a variable of that name."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and inner.attr == "kind":
            return True
        if isinstance(inner, ast.Constant) and inner.value == "kind":
            return True
        if isinstance(inner, ast.Name) and inner.id == "kind":
            return True
    return False


def asked_by_name(nodes: Sequence[ast.AST]) -> Iterator[int]:
    """The lines on which a kind of case is compared with its name, looked up by it or listed with others."""
    # Where nothing is called as a kind is there is nothing to look for, and to look takes long.
    if not any(isinstance(node, ast.Constant) and node.value in KINDS for node in nodes):
        return
    for node in nodes:
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            named = set().union(*map(constants, sides))
            if (named and any(map(of_kind, sides))) or named & UNMISTAKABLE:
                yield node.lineno
        # Such as rows["kind"].isin(("read", "reduce")) and families(cases, "reduce").
        elif isinstance(node, ast.Call):
            named = set().union(*(constants(one) for one in node.args))
            if named & UNMISTAKABLE or (named and of_kind(node.func)):
                yield node.lineno
        elif isinstance(node, ast.Tuple | ast.List | ast.Set):
            listed = {one.value if isinstance(one, ast.Constant) else None for one in node.elts}
            if len(listed) > 1 and listed <= KINDS.keys() and listed & (UNMISTAKABLE | {"objects"}):
                yield node.lineno


@pytest.mark.parametrize(
    "text",
    [
        'case["kind"] == "read"',
        'if case.kind not in ("read", "write"): pass',
        'rows[rows["kind"] == "objects"]',
        'rows[rows["kind"].isin(GENERATED)]; GENERATED = ("read", "reduce")',
        'rows["kind"].isin(["write"])',
        'families(cases, "reduce")',
        'asked.get("kind") == "write"',
        'kind != "parallel"',
    ],
)
def test_every_way_to_ask_for_a_name_is_seen(text: str) -> None:
    assert list(asked_by_name(list(ast.walk(ast.parse(text)))))


@pytest.mark.parametrize(
    "text",
    [
        'row["state"] == "write"',
        'case["parallel"]["api"]',
        'rate(throttle, "write" if write else "read")',
        'table.sort_values("objects")',
        'claim["kind"] == "ratio"',
        "kind_of(case).reads_selections",
    ],
)
def test_other_uses_of_the_same_words_are_left_alone(text: str) -> None:
    assert not list(asked_by_name(list(ast.walk(ast.parse(text)))))


def outside() -> Iterator[Path]:
    """The files of scripts and rules outside the seam."""
    for name, file in module_files().items():
        if not name.startswith(ROOMS):
            yield file


def test_nobody_outside_asks_for_a_kind_by_its_name() -> None:
    files = list(outside())
    assert len(files) > 100
    found = [
        f"{file.relative_to(SCRIPTS)}:{line}" for file in files for line in asked_by_name(nodes_of(file))
    ]
    assert not found


def test_what_measures_knows_formats_by_their_seam_alone() -> None:
    seam = "hyperslab.formats.row_seam"
    libraries = {name for name in module_files() if name.startswith("hyperslab.formats.") and name != seam}
    measuring = [file for name, file in module_files().items() if name.startswith("hyperslab.cases")]
    assert len(measuring) > 10
    found = {(file.name, name) for file in measuring for name in set(mentioned(file)) & libraries}
    assert not found


ARRAYS = [name for name in sorted(formats.MODULES) if layouts.load(name).data_model == "array"]


@pytest.mark.parametrize("name", ARRAYS)
def test_a_format_keeps_what_its_layouts_promise(name: str) -> None:
    abilities = layouts.load(name).abilities
    assert (formats.load(name).many_arrays is not None) == abilities.many_arrays
    assert (formats.load(name).parallel is not None) == abilities.ranks


def test_every_kind_can_be_asked_for_and_is_measured() -> None:
    assert KINDS.keys() <= Case.model_fields.keys()
    assert {option for kind in KINDS.values() for option in kind.options} <= Case.model_fields.keys()
    assert KINDS.keys() == cases.CASES.keys()
    for name in KINDS:
        assert callable(cases.load(name))


def test_every_figure_of_a_kind_has_its_words() -> None:
    named = {figure for kind in KINDS.values() for figure in (kind.family_figure, *kind.study_figures)} - {""}
    assert named <= figures.CAPTIONS.keys()
    assert named == {"counts", "writes", "objects", "rows", "speedup", "parallel", "clients"}
