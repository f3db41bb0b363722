"""Claims: a verdict on every claim of a study, and one page over all studies that have results."""

from hyperslab.planning import claims_page
from hyperslab.report import templates
from hyperslab.studies import figures


rule claims:
    """A verdict on each claim of a study, at each site."""
    input:
        measurements="results/{study}/measurements.parquet",
        context="results/{study}/context.json",
    output:
        "results/{study}/claims.json",
    log:
        "results/{study}/logs/claims.log",
    localrule: PLAN.aggregate_here
    conda:
        "../envs/report.yaml"
    resources:
        **PLAN.batches.aside_for_pages(),
    params:
        claims=lambda wildcards: PLAN.study(wildcards.study).claims,
    script:
        "../workflow/scripts/claims.py"


rule add_rounds_of_claim:
    """Rounds beyond the first, of the cells that one claim compares as long as it is open."""
    input:
        lambda wildcards: PLAN.inputs.claim(wildcards.study, wildcards.claim),
    output:
        "results/{study}/claims/{claim}.rounds.json",
    log:
        "results/{study}/logs/claims/{claim}.rounds.log",
    localrule: True
    conda:
        "../envs/workflow.yaml"
    threads: ALL_CORES
    resources:
        **PLAN.cells.slots,
    params:
        deciding=lambda wildcards: PLAN.study(wildcards.study).deciding_of(wildcards.claim),
    shell:
        "python -m hyperslab.add_rounds --study {wildcards.study:q} --claim {wildcards.claim:q}"
        " --log {log:q} --output {output:q}"


rule claim:
    """The page of one claim, from the cells that it compares alone: for who doubts a verdict."""
    input:
        template=[templates.CLAIMS, *templates.SHARED],
        awaited=lambda wildcards: PLAN.inputs.claim(wildcards.study, wildcards.claim),
        rounds=lambda wildcards: PLAN.inputs.added(wildcards.study, wildcards.claim),
    output:
        "results/{study}/claims/{claim}.html",
    log:
        "results/{study}/logs/claims/{claim}.log",
    localrule: PLAN.aggregate_here
    conda:
        "../envs/report.yaml"
    resources:
        **PLAN.batches.aside_for_pages(),
    params:
        records=lambda wildcards: PLAN.inputs.records(wildcards.study),
        hashes=lambda wildcards: PLAN.study(wildcards.study).hashes("main"),
        claims=lambda wildcards: PLAN.study(wildcards.study).claims,
    script:
        "../workflow/scripts/claim.py"


rule claims_page:
    """Every claim with its verdict, over all studies that have results; nothing is measured for it alone."""
    input:
        unpack(lambda wildcards: claims_page.inputs(PLAN.inventory)),
        template=[templates.CLAIMS, *templates.SHARED, *figures.CAPTIONS.values()],
    output:
        claims_page.TARGET,
        claims_page.MARKDOWN,
    log:
        "results/claims.log",
    localrule: PLAN.aggregate_here
    conda:
        "../envs/report.yaml"
    resources:
        **PLAN.batches.aside_for_pages(),
    params:
        waiting=lambda wildcards: claims_page.waiting(PLAN.inventory),
        reports=lambda wildcards: claims_page.reports(PLAN.inventory) if PLAN.request.website else [],
    script:
        "../workflow/scripts/claims_page.py"
