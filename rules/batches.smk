"""Batches: the cells of a Slurm site, measured one after another by a Snakemake inside one job on a node."""

for site in PLAN.inventory.submitted:

    rule:
        name:
            f"batch_{site['name']}"
        input:
            donor=lambda wildcards: ancient(PLAN.cells.donor(wildcards.study)),
            environments=lambda wildcards: ancient(PLAN.cells.environments(wildcards.study)),
            ranks=lambda wildcards: ancient(RANKS_ENVIRONMENT if PLAN.cells.of_ranks(wildcards.study) else []),
        output:
            f"results/{{study}}/batches/{site['name']}/{{batch}}.json",
        log:
            f"results/{{study}}/logs/{site['name']}/{{batch}}.log",
        conda:
            "../envs/workflow.yaml"
        resources:
            **PLAN.batches.resources(site["name"]),
            **PLAN.cells.slots_of(site["name"]),
            nodes=lambda wildcards, site=site["name"]: PLAN.batches.nodes(wildcards.study, site),
            # Slurm gives a job no more nodes than tasks.
            tasks=lambda wildcards, site=site["name"]: PLAN.batches.nodes(wildcards.study, site),
        params:
            site=site["name"],
            cells=lambda wildcards, site=site["name"]: PLAN.batches.digest(wildcards, site),
            reader=lambda wildcards: PLAN.batches.reader(wildcards.study),
        shell:
            "python -m hyperslab.batch --study {wildcards.study:q} --site {params.site:q}"
            " --batch {wildcards.batch:q} --reader {params.reader:q} --output {output:q} >> {log:q} 2>&1"


rule batch_cells:
    """What the Snakemake inside a batch's job is asked for."""
    input:
        PLAN.course.batch_records(),
    localrule: True


rule added_cells:
    """What the Snakemake of added rounds is asked for."""
    input:
        lambda wildcards: PLAN.inputs.table(PLAN.default, PLAN.request.phase),
    localrule: True


rule confirming_cells:
    """What the Snakemake of the confirming rounds is asked for."""
    input:
        lambda wildcards: PLAN.inputs.table(PLAN.default, "confirm"),
    localrule: True
