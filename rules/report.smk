"""Report: figures from the tables, and one self-contained page that opens with the answer."""

import re

from hyperslab.planning.drawings import most_together
from hyperslab.report import templates

# A report and its figures, as one job of Slurm where they are none of this machine.
FOR_PAGES = PLAN.batches.aside_for_pages(most_together(PLAN.drawings))

# One job draws all figures of a site, since a process of its own for each would cost more than the drawing. Only
# the score's depends on the criteria, so that it has a job of its own.
for drawing in PLAN.drawings:

    rule:
        name:
            drawing.rule
        input:
            measurements="results/{study}/measurements.parquet",
            summary="results/{study}/summary.csv",
            recommendation="results/{study}/recommendation.json",
            score="results/{study}/score.json" if drawing.scored else [],
        output:
            [
                report(
                    drawing.file(name),
                    caption=drawing.caption_file(name),
                    category="{study}",
                    subcategory=drawing.site,
                    labels={"figure": name},
                )
                for name in drawing.names
            ],
        log:
            f"results/{{study}}/logs/{drawing.rule}.log",
        wildcard_constraints:
            study=re.escape(drawing.study),
        group:
            PLAN.group("report")
        localrule: PLAN.aggregate_here
        conda:
            "../envs/report.yaml"
        resources:
            **FOR_PAGES,
            mem_mb=500,
        params:
            site=drawing.site,
            study=PLAN.study(drawing.study).figure_meta,
            style=PLAN.request.config["style"],
        script:
            "../workflow/scripts/figures.py"


rule report:
    """The answer, the figures, what was measured where, and how far it can be trusted."""
    input:
        unpack(lambda wildcards: PLAN.inputs.report(wildcards.study)),
    output:
        "results/{study}/report.html",
    log:
        "results/{study}/logs/report.log",
    group:
        PLAN.group("report")
    localrule: PLAN.aggregate_here
    conda:
        "../envs/report.yaml"
    resources:
        **FOR_PAGES,
    params:
        study=lambda wildcards: PLAN.inputs.meta(wildcards.study),
        wanted=lambda wildcards: PLAN.inputs.wanted(wildcards.study),
        front_door=templates.FRONT_DOOR if PLAN.request.website else "",
    script:
        "../workflow/scripts/report.py"
