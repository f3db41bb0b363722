"""MPI: cells whose work is done by ranks, started by mpirun on this machine or by srun in a Slurm job."""

import itertools
import re

from hyperslab.cases.mpi import environment as ranks
from hyperslab.planning import snakemake_patches

# With conda the ranks run in the rule's own environment, else in one that is compiled for the machine's MPI.
RANKS_ENVIRONMENT = [] if snakemake_patches.deployed(workflow) else [str(ranks.MADE)]


rule mpi_environment:
    """The Python of MPI ranks, or the reason why this machine has none; a new one makes nothing stale."""
    input:
        script=ancient(str(PLAN.directory / "envs" / "create-mpi")),
        locks=ancient(str(PLAN.directory / "envs" / "mpi")),
    output:
        str(ranks.MADE),
    log:
        f"{ranks.DIRECTORY}.log",
    localrule: True
    conda:
        "../envs/mpi/conda.yaml"
    shell:
        "sh {input.script:q} {input.locks:q} $(dirname {output:q}) > {log:q} 2>&1"


for site, (study, cases) in itertools.product(PLAN.inventory.direct, PLAN.of_ranks.items()):

    rule:
        name:
            f"measure_mpi_{site['name']}@{study}"
        input:
            donor=lambda wildcards: ancient(PLAN.cells.donor(wildcards.study)),
            environment=ancient(RANKS_ENVIRONMENT),
            # An environment of the layout's own, in which its library writes for a rank.
            library=lambda wildcards: ancient(PLAN.cells.environment(wildcards)),
        output:
            f"results/{{study}}/cells/{site['name']}/{{layout}}/{{case}}.{{round}}.json",
        log:
            f"results/{{study}}/logs/{site['name']}/{{layout}}/{{case}}.{{round}}.log",
        wildcard_constraints:
            study=re.escape(study),
            case="|".join(map(re.escape, cases)),
        priority: lambda wildcards, site=site["name"]: PLAN.cells.priority(wildcards, site)
        localrule: site["executor"] == "local"
        conda:
            "../envs/mpi/conda.yaml"
        threads: PLAN.cells.threads_of(site["name"])
        resources:
            **PLAN.cells.slots_of(site["name"]),
            mpi=lambda wildcards, site=site: ranks.launcher(site["executor"], PLAN.request.config["mpi"]),
            tasks=lambda wildcards: PLAN.cells.ranks(wildcards),
        params:
            written=lambda wildcards: PLAN.cells.written(wildcards),
            spec=lambda wildcards: PLAN.cells.cell_specification(wildcards),
            site=site["name"],
            # Of no import to Snakemake (output): another root is no reason to measure again.
            artifact=lambda wildcards, output, site=site["name"]: PLAN.cells.place(wildcards, site),
        shell:
            # These processes are no ranks; where their h5py knows MPI (conda), MPI must not start in them.
            "{{ export MPI4PY_RC_INITIALIZE=0;"
            ' [ -z {params.written:q} ] || ${{HYPERSLAB_WRITER:-}} python -IS "$RUN_FORKED" hyperslab.generate'
            " --specification {params.written:q} --artifact {params.artifact:q} --donor {input.donor:q};"
            ' exec python -IS "$RUN_FORKED" hyperslab.measure --specification {params.spec:q}'
            " --artifact {params.artifact:q} --site {params.site:q} --record {output:q} --donor {input.donor:q}"
            " --launcher '{resources.mpi} -n {resources.tasks}';"
            " }} > {log:q} 2>&1"

    # The rule of other cells would fit, too.
    snakemake_patches.prefer(workflow, f"measure_mpi_{site['name']}@{study}", f"measure_{site['name']}")
