"""Advise: one page of what was predicted for an array and verified; `python -m hyperslab.advise` writes the study."""

from hyperslab.report import templates


rule advice:
    """The sentence, the picture, and what was probed, predicted and verified."""
    input:
        prediction="results/{study}/prediction.json",
        measurements="results/{study}/measurements.parquet",
        summary="results/{study}/summary.csv",
        context="results/{study}/context.json",
        recommendation="results/{study}/recommendation.json",
        rounds=lambda wildcards: PLAN.inputs.added(wildcards.study),
        template=[templates.ADVICE, *templates.SHARED],
    output:
        page="results/{study}/advice.html",
        figures=directory("results/{study}/advice-figures"),
    log:
        "results/{study}/logs/advice.log",
    localrule: PLAN.aggregate_here
    conda:
        "../envs/report.yaml"
    resources:
        **PLAN.batches.aside_for_pages(),
    params:
        study=lambda wildcards: PLAN.study(wildcards.study).report_meta,
        figure=lambda wildcards: PLAN.study(wildcards.study).figure_meta,
        style=PLAN.request.config["style"],
    script:
        "../workflow/scripts/advice.py"
