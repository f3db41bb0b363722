"""What is checked of a study before anything runs: its sites, the room there, its donor."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from hyperslab.measuring import node_memory
from hyperslab.planning import requirements
from hyperslab.planning.inventory import Inventory
from hyperslab.planning.planned_study import PlannedStudy
from hyperslab.planning.reachability import check_minutes
from hyperslab.planning.request import Request
from hyperslab.planning.site_checks import (
    check_cgroups,
    check_read_ahead,
    check_reader,
    check_results,
    check_roots,
)
from hyperslab.planning.store_checks import check_kept, check_memory, check_stores
from hyperslab.records import DamagedRecord, parts_of, read_record, record_of
from hyperslab.sites import places, roots
from hyperslab.sites.configuration import VARIABLE, check_shared_roots, prepare_root
from hyperslab.studies.case_kinds.workers import NODE_MEMORY, on_all_nodes
from hyperslab.validation.errors import ConfigurationError

# Of so many records of a site it is asked where they were measured.
SAMPLE = 50


def check_study(study: PlannedStudy, request: Request, inventory: Inventory) -> None:
    """Refuse a study that cannot be measured where cells of it are missing; raises ConfigurationError."""
    names = inventory.sites_of(study)
    reached = [site for site in names if site not in inventory.left_out]
    if request.measuring and not reached and not any(inventory.present(study, site) for site in names):
        reasons = "; ".join(f"{site}: {inventory.left_out[site]}" for site in names)
        raise ConfigurationError(study.file, "sites", f"no site can be reached: {reasons}")
    short = [site for site in reached if inventory.missing(study, site)]
    if not request.invocation.main:
        return
    check_reader(study, reached, inventory.sites)
    check_kept(study, reached, inventory.sites)
    if short:
        check_room(study, short, inventory)
    elif reached:
        _check_changed_donor(study, reached, inventory)


def check_room(study: PlannedStudy, measured: Sequence[str], inventory: Inventory) -> None:
    """Refuse to measure without room or time, at another place than before, or with a donor that is unfit.

    Raises ConfigurationError.
    """
    check_results()
    in_batches = [site for site in measured if inventory.in_batches(site)]
    check_minutes(in_batches, inventory.sites, inventory.sites_file)
    if here := _seen_here(measured, inventory):
        beside = _beside(study, here, inventory)
        names = list(dict.fromkeys([*here, *beside]))
        seen = {name: inventory.sites[name] for name in names}
        check_shared_roots(seen, inventory.sites_file, os.path.realpath)
        at_once = {name: _at_once(study, name, inventory) for name in names}
        copied = _donor_bytes(study)
        if copied and Path(study.donor_copy).exists():
            copied = 0
        if copied:
            check_results(copied, f"values that {study.name} copies from its donor; free some")
        # Test files may lie on the file system of what is copied.
        check_roots(study, names, inventory.sites, inventory.sites_file, at_once, copied)
        timed = _timed_here(here, inventory)
        check_read_ahead(timed, inventory.sites, inventory.sites_file)
        check_cgroups(timed, inventory.sites, inventory.sites_file)
        _check_node_memory(study, timed)
        if not inventory.batched:
            # Inside a batch another one may be measuring there.
            check_stores(here, inventory.sites, inventory.sites_file)
            check_memory(study, here, inventory.sites, inventory.sites_file)
        for site in here:
            _check_throttled(study, site, site in timed, inventory)
            check_place(study, site, inventory)


def _at_once(study: PlannedStudy, site: str, inventory: Inventory) -> int:
    """Return how many test artifacts of a study may lie on a file system at once, seen from this machine."""
    if inventory.batched or inventory.sites[site]["node_local"]:
        # Inside a batch those of others are there already.
        return 1
    return max(1, min(inventory.concurrency(site), len(inventory.cells(study, site, "main"))))


def prepare_roots(study: PlannedStudy, measured: Sequence[str], inventory: Inventory) -> None:
    """Make ready the roots of sites that are about to be measured; raises ConfigurationError."""
    if here := _seen_here(measured, inventory):
        beside = _beside(study, here, inventory)
        for site in dict.fromkeys([*here, *beside]):
            identity = check_place(study, site, inventory) if site in here else ""
            prepare_root(inventory.sites, site, inventory.sites_file, inventory.concurrency, identity)


def _timed_here(names: Sequence[str], inventory: Inventory) -> list[str]:
    """Return the sites at which this node measures."""
    return [
        name for name in names if name == inventory.batched or inventory.sites[name]["executor"] == "local"
    ]


def _beside(study: PlannedStudy, here: Sequence[str], inventory: Inventory) -> list[str]:
    """Return the sites whose file systems take parts of test files of the sites `here`, and are seen here.

    Raises ConfigurationError where such a part is to be measured here, and nobody knows where it would lie.
    """
    beside = requirements.other_sites(study, inventory.sites, inventory.sites_file)
    if not _timed_here(here, inventory):
        return _seen_here(beside, inventory)
    for site in map(inventory.sites.__getitem__, beside):
        if unset := VARIABLE.search(site["root"]):
            said = f"{site['root']}: the environment variable {unset[1] or unset[2]} is not set here, where "
            path = f"file_systems.{site['file_system']}.root"
            raise ConfigurationError(inventory.sites_file, path, f"{said}parts of test files would lie there")
    return beside


def _check_node_memory(study: PlannedStudy, timed: Sequence[str]) -> None:
    """Raise ConfigurationError where a case holds workers to a memory of their own, and this node cannot.

    `timed` are the sites at which this node measures; what is measured only at others is no matter of it.
    """
    for name in dict.fromkeys(case for site in timed for _, case, _ in study.cells(site, "r0")):
        case = study.cases[name]
        if NODE_MEMORY in case and (wrong := node_memory.mistake()):
            raise ConfigurationError(study.file, f"cases.{case.get('family', name)}", wrong)


def _check_throttled(study: PlannedStudy, site: str, timed: bool, inventory: Inventory) -> None:
    """Raise ConfigurationError where workers would be outside of the group that throttles a site.

    `timed` is whether this node measures there.
    """
    described = inventory.sites[site]
    if described["cgroup"] is None:
        return
    for name in dict.fromkeys(case for _, case, _ in study.cells(site, "r0")):
        case, wrong = study.cases[name], None
        if described["executor"] == "slurm" and on_all_nodes(case):
            wrong = f"srun starts these workers outside of the cgroup that throttles site {site!r}"
        elif timed and NODE_MEMORY in case and node_memory.leaves_others():
            wrong = f"{NODE_MEMORY}: workers would leave the cgroup that throttles site {site!r}"
        if wrong:
            raise ConfigurationError(study.file, f"cases.{case.get('family', name)}", wrong)


def _seen_here(names: Sequence[str], inventory: Inventory) -> list[str]:
    """Return the sites whose file system this machine sees; others are checked when their batch starts."""
    sites = inventory.sites
    return [
        name
        for name in names
        if name == inventory.batched or not sites[name]["node_local"] or sites[name]["executor"] == "local"
    ]


def _donor_bytes(study: PlannedStudy) -> int:
    """Return how many bytes a study copies from its donor, 0 without one.

    Raises ConfigurationError for a donor that cannot fill its array.
    """
    if not study.dataset.donor:
        return 0
    from hyperslab.formats import donor_rows
    from hyperslab.formats.donor_files import check
    from hyperslab.formats.donor_opening import DonorError

    try:
        used = donor_rows.check if study.dataset.rows else check
        return used(study.dataset.model_dump(exclude_none=True))
    except DonorError as error:
        raise ConfigurationError(study.file, "dataset.donor", str(error)) from None


def _check_changed_donor(study: PlannedStudy, reached: Sequence[str], inventory: Inventory) -> None:
    """Refuse a donor that cannot serve where what was measured is of another; raises ConfigurationError.

    Snakemake would take each record as it is where what it is made of cannot be made. Results of another
    machine need no donor, as long as they count for today's study.
    """
    try:
        _donor_bytes(study)
    except ConfigurationError:
        if any(
            not study.counts(Path(record_of(study.name, site, cell)), cell)
            for site in reached
            for cell in inventory.cells(study, site, "main")
        ):
            raise


def check_place(study: PlannedStudy, site: str, inventory: Inventory) -> str | None:
    """Return the identity that the records of a site give its root, or ""; None where its node has to tell.

    Raises ConfigurationError where the root is another place than theirs, or has gone since the run began.
    """
    described = inventory.sites[site]
    root, key = described["root"], f"file_systems.{described['file_system']}.root"
    identity = roots.identity_of(root)
    if site == inventory.batched and not described["node_local"] and not roots.is_prepared(root):
        said = (
            f"{root} was there when the run began, and is not now: is its file system mounted on this node?"
        )
        raise ConfigurationError(inventory.sites_file, key, said)
    present = inventory.present(study, site)
    sample = present[:: max(1, len(present) // SAMPLE)]
    known = places.distinct(_places(sample))
    store = places.words_of_store(described["store"])
    now = places.place_of(root, identity, described["node_local"], store)
    submitted = described["executor"] == "slurm" and site != inventory.batched
    if submitted and identity and known:
        # The nodes may see another type and source than the machine where jobs are submitted.
        now = replace(known[0], identity=identity, store=store)
    found = next((place for place in known if place.same(now)), None)
    if found is None:
        # What is seen here says nothing for sure: a root that was emptied is judged on its node.
        if submitted and not identity and (known or roots.is_prepared(root)):
            return None
        if not known:
            return ""
        theirs = " and ".join(map(str, known))
        said = (
            f"{root} is {now} now, and the records of {study.name} at {site} were measured on {theirs}: "
            "mount that, or make this place a site with a name of its own"
        )
        raise ConfigurationError(inventory.sites_file, key, said)
    return found.identity


def _places(records: Sequence[str]) -> Iterator[places.Place]:
    """Yield where records were measured; of one that is damaged the tables will say so."""
    for record in records:
        with suppress(DamagedRecord):
            read = read_record(record)
            with parts_of(record):
                yield places.recorded(read)
