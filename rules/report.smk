"""Report: figures from the tables, and one self-contained page that opens with the answer."""


rule figure:
    """One figure of one site; only the score's depends on the criteria."""
    input:
        measurements="results/{study}/measurements.parquet",
        summary="results/{study}/summary.csv",
        recommendation="results/{study}/recommendation.json",
        score=lambda wildcards: PLAN.inputs.score(wildcards),
    output:
        report(
            "results/{study}/figures/{site}/{figure}.svg",
            caption="../workflow/report/figure.rst",
            category="{study}",
            subcategory="{site}",
            labels={"figure": "{figure}"},
        ),
    log:
        "results/{study}/logs/figures/{site}/{figure}.log",
    group:
        PLAN.group("report")
    localrule: PLAN.aggregate_here
    conda:
        "../envs/report.yaml"
    # A group's job asks for the sum of what its figures need.
    resources:
        mem_mb=300,
    params:
        study=lambda wildcards: PLAN.study(wildcards.study).figure_meta,
        style=config["style"],
        caption=lambda wildcards: PLAN.inputs.caption(wildcards.figure),
    script:
        "../workflow/scripts/figure.py"


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
    params:
        study=lambda wildcards: PLAN.study(wildcards.study).report_meta,
        wanted=lambda wildcards: PLAN.inputs.wanted(wildcards.study),
    script:
        "../workflow/scripts/report.py"
