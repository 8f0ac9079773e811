# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Commands that read snapshots."""
import harness
from faults import Scenario, fill_disk, try_all

TWO = "old.snap", "new.snap"
ENDED = "fleet-ended",
FLEET = "fleet", "index", "fleet-ended"
STATS = "fleet", "stats"
FORGET = "fleet", "forget", "--where", "host=web-1"
COHORTS = "--baseline host=batch-1 --candidate host=web-1"


def reads(inputs, command, *before, after=()):
    return Scenario(inputs, tuple(command.split()), before, after),


@harness.rows({
    "stats": reads(TWO, "stats new.snap"),
    "stats_json": reads(TWO, "stats new.snap --json"),
    "stats_at_peak": reads(TWO, "stats --at-peak old.snap new.snap"),
    "diff": reads(TWO, "diff old.snap new.snap"),
    "diff_traceback": reads(TWO, "diff old.snap new.snap --group-by traceback --json"),
    "show": reads(TWO, "show new.snap"),
    "leaks": reads(("leaks",), "leaks leaks"),
    "leaks_in_folder": reads(("leaks-kinds",), "leaks leaks-kinds"),
    "leaks_json": reads(("leaks",), "leaks leaks --json"),
    "list": reads(("leaks-kinds",), "list leaks-kinds"),
    "top": reads(TWO, "top -b new.snap"),
    "json": reads(TWO, "convert new.snap -o made.json"),
    "pprof": reads(TWO, "convert new.snap --to pprof -o made.pb.gz"),
    "folded": reads(TWO, "convert new.snap --to folded -o made.folded"),
    "otlp": reads(TWO, "convert new.snap --to otlp -o made.otlp"),
    "compressed": reads(TWO, "convert new.snap -z -o made.snap"),
    "import_pprof": reads(TWO, "convert made.pb.gz -o made.snap", ("convert", "new.snap", "--to", "pprof", "-o", "made.pb.gz")),
    "import_json": reads(TWO, "convert made.json -o made.snap", ("convert", "new.snap", "-o", "made.json")),
    "report": reads(TWO, "report old.snap new.snap -o made.html"),
    "symbolize": reads(("without-names.snap",), "symbolize without-names.snap -o made.snap"),
    "fleet_index": reads(ENDED, "fleet index fleet-ended", after=(FLEET, STATS)),
    "fleet_stats": reads(ENDED, "fleet stats", FLEET),
    "fleet_hosts": reads(ENDED, "fleet hosts", FLEET),
    "fleet_diff": reads(ENDED, f"fleet diff {COHORTS}", FLEET),
    "fleet_leaks": reads(("leaks-fleet",), "fleet leaks", ("fleet", "index", "leaks-fleet")),
    "fleet_report": reads(ENDED, f"fleet report {COHORTS} -o made.html", FLEET),
    "fleet_export": reads(ENDED, "fleet export made.sqlite", FLEET),
    "fleet_forget": reads(ENDED, "fleet forget --where host=web-1", FLEET, after=(FORGET, STATS)),
})
def test_reader(_bench, scenario):
    return try_all(scenario)


@harness.rows({name: test_reader.rows[name][0] for name in (
    "json", "pprof", "folded", "otlp", "compressed", "report", "symbolize", "fleet_index", "fleet_report", "fleet_export", "fleet_forget")})
def test_disk(_bench, scenario):
    return fill_disk(scenario)
