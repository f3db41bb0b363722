"""Measure: every timed operation of one cell in one round, in a new process, checked against the truth."""

for site in PLAN.inventory.direct:

    rule:
        name:
            f"measure_{site['name']}"
        input:
            # The test artifact of a read case; a write case makes its own.
            artifact=lambda wildcards, site=site["name"]: PLAN.cells.artifact(wildcards, site),
            donor=lambda wildcards: ancient(PLAN.cells.donor(wildcards.study)),
            # Another release of HDF5, where the layout names one; the process goes on in it by itself.
            environment=lambda wildcards: ancient(PLAN.cells.environment(wildcards)),
        output:
            f"results/{{study}}/cells/{site['name']}/{{layout}}/{{case}}.{{round}}.json",
        log:
            f"results/{{study}}/logs/{site['name']}/{{layout}}/{{case}}.{{round}}.log",
        # What is written is measured next; a write case has none that waits.
        priority: lambda wildcards, site=site["name"]: PLAN.cells.measure_priority(wildcards, site)
        conda:
            "../envs/measure.yaml"
        threads: PLAN.cells.threads_of(site["name"])
        resources:
            **PLAN.cells.slots_of(site["name"]),
        params:
            spec=lambda wildcards: PLAN.cells.cell_specification(wildcards),
            site=site["name"],
            artifact=f"{site['root']}/{{study}}/{{layout}}/{{case}}.{{round}}",
        shell:
            "python -IS {RUN_FORKED:q} hyperslab.measure --specification {params.spec:q}"
            " --artifact {params.artifact:q} --site {params.site:q} --record {output:q}"
            " --donor {input.donor:q} > {log:q} 2>&1"
