"""Generate: one new test artifact for each cell and round, on the file system under test, removed when measured."""

for site in PLAN.inventory.direct:

    rule:
        name:
            f"generate_{site['name']}"
        input:
            # A donor made again holds the same values, so it makes no file stale.
            donor=lambda wildcards: ancient(PLAN.cells.donor(wildcards.study)),
            # Another release of HDF5, where the layout names one; the process goes on in it by itself.
            environment=lambda wildcards: ancient(PLAN.cells.environment(wildcards)),
        output:
            temp(directory(f"{site['root']}/{{study}}/{{layout}}/{{case}}.{{round}}")),
        log:
            f"results/{{study}}/logs/{site['name']}/{{layout}}/{{case}}.{{round}}.generate.log",
        # Rounds run in order, and a written file is measured before the next is written.
        priority: lambda wildcards, site=site["name"]: PLAN.cells.generate_priority(wildcards, site)
        conda:
            "../envs/measure.yaml"
        threads: PLAN.cells.threads_of(site["name"])
        resources:
            **PLAN.cells.slots_of(site["name"]),
        params:
            spec=lambda wildcards: PLAN.cells.file_specification(wildcards),
        shell:
            "${{HYPERSLAB_WRITER:-}} python -IS {RUN_FORKED:q} hyperslab.generate --specification {params.spec:q}"
            " --artifact {output:q} --donor {input.donor:q} > {log:q} 2>&1"
