"""What is checked of a study before anything runs: its sites, the room there, its donor."""

from __future__ import annotations

from hyperslab.planning import requirements
from hyperslab.planning.inventory import Inventory
from hyperslab.planning.planned_study import PlannedStudy
from hyperslab.planning.request import Request
from hyperslab.planning.site_checks import check_reader, check_roots
from hyperslab.sites.configuration import prepare_root
from hyperslab.validation.errors import ConfigurationError


def check_study(study: PlannedStudy, request: Request, inventory: Inventory) -> None:
    """Refuse a study that cannot be measured, and make ready the roots of one that can.

    Raises ConfigurationError.
    """
    sites, file = inventory.sites, inventory.sites_file
    names = inventory.sites_of(study)
    check_reader(study, [name for name in names if name in sites], sites)
    reached = [site for site in names if site not in inventory.left_out]
    if request.measuring and not reached and not any(inventory.present(study, site) for site in names):
        reasons = "; ".join(f"{site}: {inventory.left_out[site]}" for site in names)
        raise ConfigurationError(study.file, "sites", f"no site can be reached: {reasons}")
    # What only its node can see is checked there, when the batch starts.
    here = [
        site
        for site in reached
        if (site == inventory.batched or not sites[site]["node_local"] or sites[site]["executor"] == "local")
        and inventory.missing(study, site)
    ]
    if not here or not request.invocation.main:
        return
    beside = requirements.other_sites(study, sites, file)
    check_roots(study, list(dict.fromkeys([*here, *beside])), sites, file)
    if study.dataset.donor:
        from hyperslab.formats.donor_files import DonorError, check

        try:
            check(study.dataset.model_dump(exclude_none=True))
        except DonorError as error:
            raise ConfigurationError(study.file, "dataset.donor", str(error)) from None
    if not request.invocation.dry_run:
        for site in dict.fromkeys([*here, *beside]):
            prepare_root(sites, site, file, inventory.concurrency)
