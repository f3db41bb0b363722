"""Measure: one cell in one round, on the file system under test, checked against the truth.

A read case's test artifact is written first. Whoever writes and whoever measures are new processes, each with
a test artifact that only this job knows; the one who measures removes it.
"""

for site in PLAN.inventory.direct:

    rule:
        name:
            f"measure_{site['name']}"
        input:
            # A donor made again holds the same values, so it makes no record stale.
            donor=lambda wildcards: ancient(PLAN.cells.donor(wildcards.study)),
            # An environment of its own, where the layout has one; the processes go on in it by themselves.
            environment=lambda wildcards: ancient(PLAN.cells.environment(wildcards)),
        output:
            f"results/{{study}}/cells/{site['name']}/{{layout}}/{{case}}.{{round}}.json",
        log:
            f"results/{{study}}/logs/{site['name']}/{{layout}}/{{case}}.{{round}}.log",
        wildcard_constraints:
            study=PLAN.inventory.measured_pattern,
        # Rounds run in order.
        priority: lambda wildcards, site=site["name"]: PLAN.cells.priority(wildcards, site)
        # Of this machine, also where other sites' cells are jobs of a cluster.
        localrule: site["executor"] == "local"
        conda:
            "../envs/measure.yaml"
        threads: PLAN.cells.threads_of(site["name"])
        resources:
            **PLAN.cells.slots_of(site["name"]),
        params:
            # Nothing for a write case, which makes its own file.
            written=lambda wildcards: PLAN.cells.written(wildcards),
            spec=lambda wildcards: PLAN.cells.cell_specification(wildcards),
            site=site["name"],
            # Of no import to Snakemake (output): another root is no reason to measure again.
            artifact=lambda wildcards, output, site=site["name"]: PLAN.cells.place(wildcards, site),
        shell:
            # The shell becomes the measuring process: it would print the command of one that a signal ends.
            '{{ [ -z {params.written:q} ] || ${{HYPERSLAB_WRITER:-}} python -IS "$RUN_FORKED" hyperslab.generate'
            " --specification {params.written:q} --artifact {params.artifact:q} --donor {input.donor:q};"
            ' exec python -IS "$RUN_FORKED" hyperslab.measure --specification {params.spec:q}'
            " --artifact {params.artifact:q} --site {params.site:q} --record {output:q} --donor {input.donor:q};"
            " }} > {log:q} 2>&1"
