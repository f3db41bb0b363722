"""Summarise: every record of a study into one tidy table, its summary, the score and the recommendation."""

# Summarise, score and recommend, as one job of Slurm where they are none of this machine.
FOR_TABLES = PLAN.batches.aside_for_pages(3)


rule add_rounds:
    """Rounds beyond the first, of cells whose comparisons are still open, and why there are no more."""
    input:
        lambda wildcards: PLAN.inputs.table(wildcards.study),
    output:
        "results/{study}/rounds.json",
    log:
        "results/{study}/logs/add-rounds.log",
    localrule: True
    conda:
        "../envs/workflow.yaml"
    threads: ALL_CORES
    resources:
        **PLAN.cells.slots,
    params:
        deciding=lambda wildcards: PLAN.study(wildcards.study).deciding,
    shell:
        "python -m hyperslab.add_rounds --study {wildcards.study:q} --log {log:q} --output {output:q}"


rule summarise:
    """One tidy table, one row a repeat, and its summary, one row a cell, state and round."""
    input:
        awaited=lambda wildcards: PLAN.inputs.table(wildcards.study),
        rounds=lambda wildcards: PLAN.inputs.added(wildcards.study),
    output:
        measurements="results/{study}/measurements.parquet",
        summary="results/{study}/summary.csv",
        context="results/{study}/context.json",
        sources="results/{study}/sources.json",
    log:
        "results/{study}/logs/summarise.log",
    group:
        PLAN.group("tables")
    localrule: PLAN.aggregate_here
    conda:
        "../envs/report.yaml"
    resources:
        **FOR_TABLES,
    params:
        records=lambda wildcards: PLAN.inputs.records(wildcards.study),
        hashes=lambda wildcards: PLAN.study(wildcards.study).hashes("main"),
        grid=lambda wildcards: PLAN.study(wildcards.study).grid_values,
    script:
        "../workflow/scripts/summarise.py"


rule score:
    """How many criteria each layout meets."""
    input:
        summary="results/{study}/summary.csv",
    output:
        "results/{study}/score.json",
    log:
        "results/{study}/logs/score.log",
    group:
        PLAN.group("tables")
    localrule: PLAN.aggregate_here
    conda:
        "../envs/report.yaml"
    resources:
        **FOR_TABLES,
    params:
        score=lambda wildcards: PLAN.study(wildcards.study).score_settings(),
    script:
        "../workflow/scripts/score.py"


rule recommend:
    """Which layout to use, and which cannot be told from it."""
    input:
        summary="results/{study}/summary.csv",
        context="results/{study}/context.json",
        # Of a study that advice has made what it predicted.
        prediction=lambda wildcards: PLAN.inputs.foretold(wildcards.study),
    output:
        "results/{study}/recommendation.json",
    log:
        "results/{study}/logs/recommend.log",
    group:
        PLAN.group("tables")
    localrule: PLAN.aggregate_here
    conda:
        "../envs/report.yaml"
    resources:
        **FOR_TABLES,
    params:
        asked=lambda wildcards: PLAN.study(wildcards.study).recommendation_asked(),
    script:
        "../workflow/scripts/recommend.py"


rule confirm:
    """Fresh rounds of the finalists: the speed-ups quoted come from these alone."""
    input:
        "results/{study}/recommendation.json",
    output:
        "results/{study}/confirmation.json",
    log:
        "results/{study}/logs/confirm.log",
    localrule: True
    conda:
        "../envs/workflow.yaml"
    threads: ALL_CORES
    resources:
        **PLAN.cells.slots,
    params:
        cases=lambda wildcards: PLAN.study(wildcards.study).read_cases(),
        rounds=lambda wildcards: PLAN.study(wildcards.study).study.recommendation.confirm_rounds,
    shell:
        "python -m hyperslab.confirm --recommendation {input:q}"
        " --study {wildcards.study:q} --cases {params.cases:q} --rounds {params.rounds}"
        " --log {log:q} --output {output:q}"


use rule summarise as summarise_confirmation with:
    input:
        "results/{study}/confirmation.json",
    output:
        measurements="results/{study}/confirmation.parquet",
        summary="results/{study}/confirmation.csv",
        context="results/{study}/confirmation-context.json",
        sources="results/{study}/confirmation-sources.json",
    log:
        "results/{study}/logs/summarise-confirmation.log",
    params:
        records=lambda wildcards, input: input[0],
        hashes=lambda wildcards: PLAN.study(wildcards.study).hashes("confirm"),
        grid=lambda wildcards: PLAN.study(wildcards.study).grid_values,


# `use rule` does not carry this over.
if PLAN.aggregate_here:

    localrules:
        summarise_confirmation,
