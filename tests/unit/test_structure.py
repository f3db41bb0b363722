"""The house: every module stands in a room, each room imports what stands below it, and some never meet."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import chain as joined

import pytest
from test_environments import SCRIPTS, imported, mentioned, module_files, nodes_of, packages, reached, tree_of

# Floors, the ground floor first: a room imports rooms of lower floors only. "hyperslab" is the package's own
# __init__, "commands" are its modules with a main, "scripts" what lies beside it in workflow/scripts.
FLOORS = [
    ["validation", "text", "specifications", "states", "ragged", "hyperslab"],
    ["records"],
    ["layouts"],
    ["data"],
    ["studies", "sites"],
    ["measuring"],
    ["formats"],
    ["cases"],
    ["results"],
    ["claims"],
    ["figures"],
    ["report"],
    ["advising", "rewriting"],
    ["planning"],
    ["commands"],
    ["scripts"],
]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
ENTRANCES = {"commands", "scripts"}
# Rooms in the longest chain of imports.
STOREYS = 8

PLOTS = {"matplotlib", "seaborn"}
TABLES = {"pandas", "pyarrow"}
FORMAT_LIBRARIES = {"h5py", "hdf5plugin", "zarr", "numcodecs", "pyimzml"}
# room -> what none of its modules reaches, neither itself nor through what it imports
NEVER = {
    # What others copy: h5py and numpy are all that it needs.
    "ragged": (FORMAT_LIBRARIES - {"h5py"}) | TABLES | PLOTS | {"snakemake", "pydantic", "xxhash"},
    **dict.fromkeys(
        ("validation", "text", "specifications", "states", "records"),
        FORMAT_LIBRARIES | TABLES | PLOTS | {"snakemake"},
    ),
    **dict.fromkeys(("layouts", "data"), FORMAT_LIBRARIES | TABLES | PLOTS | {"snakemake"}),
    **dict.fromkeys(("studies", "sites"), FORMAT_LIBRARIES | TABLES | PLOTS | {"snakemake"}),
    # A format may be one of tables; what measures makes none.
    **dict.fromkeys(("measuring",), TABLES | PLOTS | {"snakemake", "pydantic"}),
    **dict.fromkeys(("formats", "cases"), {"pandas"} | PLOTS | {"snakemake", "pydantic"}),
    "results": FORMAT_LIBRARIES | PLOTS | {"snakemake"},
    **dict.fromkeys(("claims", "figures", "report"), FORMAT_LIBRARIES | {"snakemake"}),
    **dict.fromkeys(("advising", "rewriting"), {"pandas"} | PLOTS | {"snakemake"}),
    "planning": PLOTS,
}
# room -> what none of its modules imports itself; of a donor planning asks the format, which opens it
NEVER_ITSELF = {"planning": FORMAT_LIBRARIES}
SCRIPTS_OF_RULES = sorted(
    name
    for rules in (SCRIPTS.parents[1] / "rules").glob("*.smk")
    for name in re.findall(r'"\.\./workflow/scripts/(\w+)\.py"', rules.read_text(encoding="utf-8"))
)


@pytest.fixture(autouse=True, scope="module")
def trees_go_with_the_last_module() -> Iterator[None]:
    """Of those that look at syntax trees this is the last: what they are made of are millions of objects."""
    yield
    nodes_of.cache_clear()
    tree_of.cache_clear()


def room_of(module: str) -> str:
    """The room in which a module of the project stands."""
    package, *below = module.split(".")
    if package != "hyperslab":
        return "scripts"
    if not below:
        return package
    return below[0] if below[0] in FLOOR else "commands"


def modules_of(room: str) -> set[str]:
    return {name for name in module_files() if room_of(name) == room}


@cache
def packages_of(module: str) -> set[str]:
    found: set[str] = packages({module})
    return found


def importing(modules: set[str], unwanted: set[str]) -> dict[str, set[str]]:
    """module -> what it imports of the unwanted packages, of those modules that do."""
    return {name: found for name in sorted(modules) if (found := packages_of(name) & unwanted)}


@cache
def edges() -> dict[tuple[str, str], list[str]]:
    """(room, another room that it imports) -> the imports between their modules, in words."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, file in sorted(module_files().items()):
        for other in sorted(mentioned(file) & module_files().keys()):
            if (rooms := (room_of(name), room_of(other))) and rooms[0] != rooms[1]:
                found.setdefault(rooms, []).append(f"{name} imports {other}")
    return found


def test_every_room_is_there_and_every_other_module_is_a_command() -> None:
    assert [room for room in FLOOR if not modules_of(room)] == []
    for name in modules_of("commands"):
        top = tree_of(module_files()[name]).body
        assert "main" in {node.name for node in top if isinstance(node, ast.FunctionDef)}, (
            f"{name} is no command and stands in no room"
        )


def test_no_import_runs_upwards() -> None:
    upwards = [words for (room, other), words in edges().items() if FLOOR[other] >= FLOOR[room]]
    assert list(joined.from_iterable(upwards)) == []


def test_no_module_imports_itself_through_others() -> None:
    files = module_files()
    graph = {name: imported(file) & files.keys() - {name} for name, file in files.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" is imported by ".join(error.args[1]))


def test_no_chain_of_rooms_is_longer_than_the_house_is_high() -> None:
    @cache
    def chain(room: str) -> list[str]:
        below = [other for start, other in edges() if start == room and FLOOR[other] < FLOOR[room]]
        return [room, *max(map(chain, below), key=len, default=[])]

    longest = max((chain(room) for room in FLOOR if room not in ENTRANCES), key=len)
    assert len(longest) <= STOREYS, " imports ".join(longest)


@pytest.mark.parametrize("room", NEVER)
def test_a_room_never_reaches_what_is_not_for_it(room: str) -> None:
    assert importing(reached(modules_of(room)), NEVER[room]) == {}


@pytest.mark.parametrize("room", NEVER_ITSELF)
def test_a_room_leaves_to_others_what_is_not_for_it(room: str) -> None:
    assert importing(modules_of(room), NEVER_ITSELF[room]) == {}


@pytest.mark.parametrize("script", SCRIPTS_OF_RULES)
def test_what_is_made_of_results_reads_no_study(script: str) -> None:
    # Its models take longer to import than most tables to make, and every run makes many.
    assert "hyperslab.studies.schema" not in reached({script})
