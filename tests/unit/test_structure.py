"""The walls of the package: what measures knows nothing of studies and results; these open no test file."""

from __future__ import annotations

import pytest
from test_environments import mentioned, module_files

MEASURED = {"formats", "cases", "mpi", "measuring"}
STUDIED = {"studies", "planning", "results", "claims", "figures", "report"}
PLOTS = {"matplotlib", "seaborn"}
# package -> what none of its modules imports: packages of the project, and others
WALLS = {
    **dict.fromkeys(MEASURED, STUDIED | PLOTS | {"pandas", "pyarrow", "snakemake", "pydantic"}),
    "studies": MEASURED - {"formats"} | PLOTS | {"planning", "h5py", "pandas", "snakemake"},
    "sites": {"planning", "results", "report", "figures", "h5py", "pandas", "snakemake"} | PLOTS,
    "results": {"planning", "figures", "report", "claims", "formats", "cases", "h5py", "snakemake"} | PLOTS,
    "figures": MEASURED | {"planning", "h5py", "snakemake"},
    "claims": MEASURED | {"h5py", "snakemake"},
    "report": {"cases", "formats", "mpi", "planning", "h5py", "snakemake"},
    "rewriting": MEASURED - {"formats"} | PLOTS | {"planning", "results", "report", "pandas", "snakemake"},
}


def imports(package: str) -> set[str]:
    """What the modules of a package import: packages of the project by their own names, and top packages."""
    found = set()
    for name, file in module_files().items():
        if name.startswith(f"hyperslab.{package}."):
            parts = (module.split(".") for module in mentioned(file))
            found |= {part[1] if part[0] == "hyperslab" and len(part) > 1 else part[0] for part in parts}
    return found - {package}


@pytest.mark.parametrize("package", sorted(WALLS))
def test_a_package_keeps_to_its_side(package: str) -> None:
    assert imports(package), "there is no such package"
    assert not imports(package) & WALLS[package]
