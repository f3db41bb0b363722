"""Measure a study's finalists again in fresh rounds: choosing the fastest of many flatters it.

Which cells these are is known only after the recommendation, so that Snakemake cannot plan them: this runs it
once more, for their records alone, unless all of them are there. Usage: python -m hyperslab.confirm --help
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from hyperslab.records import read_json, write_record


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recommendation", required=True, type=Path, help="recommendation.json")
    parser.add_argument("--study", required=True, help="name of the study")
    parser.add_argument("--cases", required=True, nargs="*", help="cases to measure again")
    parser.add_argument("--rounds", required=True, type=int, help="number of confirming rounds")
    parser.add_argument("--log", required=True, type=Path, help="where the inner run's output goes")
    parser.add_argument("--output", required=True, type=Path, help="the list of records, as JSON")
    options = parser.parse_args()
    records = _confirmed(options) if options.rounds else []
    present = [record for record in records if Path(record).exists()]
    write_record(options.output, {"wanted": records, "records": present})


def _confirmed(options: argparse.Namespace) -> list[str]:
    """Return the records that are wanted, once those that are missing have been measured."""
    # To import what plans takes longer than all else, and many studies have no such rounds.
    from hyperslab.planning import inner_run
    from hyperslab.planning.confirmation import CONFIRMING, RUN_VARIABLE, wanted_records

    run = json.loads(os.environ[RUN_VARIABLE])
    recommendation = read_json(options.recommendation)
    study = inner_run.planned(run, options.study)
    records = wanted_records(recommendation, study, options.cases, options.rounds)
    needed, own = inner_run.needed(study, records, run["config"]), {"study": options.study}
    if needed and inner_run.measure(CONFIRMING, "confirm", run, own, options.log):
        sys.exit(f"hyperslab.confirm: not every confirming round could be measured; see {options.log}")
    return records


if __name__ == "__main__":
    main()
