#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Do the unit tests notice a broken rule for leaks? Each mutant is the rule with one deliberate mistake; a test must fail.

    mutants.py [NAME…]     those whose names contain one of NAME

Environment: LEAKS_CC, LEAKS_CFLAGS, LEAKS_LIBS: how the tests are built; LEAKS_OBJ: their objects.
"""
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

JUDGE, TALLY, LINES, BUNDLES = (f"src/engine/leak_{name}.c" for name in ("judge", "tally", "lines", "bundles"))

# name: (file, (old text, new text)…)
MUTANTS = {
    "horizon: up to all of the time": (JUDGE, ("3u * halves[i] <= 4ull", "2u * halves[i] <= 4ull")),
    "horizon: one in ten may be freed": (JUDGE, ("19 * (wide)freed > alive", "9 * (wide)freed > alive")),
    "horizon: less than one in twenty": (JUDGE, ("19 * (wide)freed > alive", "19 * (wide)freed >= alive")),
    "horizon: two survivors are evidence": (JUDGE, ("alive < LEAK_SURVIVORS_LEAST", "alive < 2")),
    "survivors: eleven are sure": (JUDGE, ("survivors < LEAK_SURVIVORS_SURE", "survivors < 11")),
    "survivors: thirteen are sure": (JUDGE, ("survivors < LEAK_SURVIVORS_SURE", "survivors < 13")),
    "survivors: three late ones are sure": (JUDGE, ("verdict->late < 4)", "verdict->late < 3)")),
    "settled: never": (JUDGE, ("!verdict->late || is_slower(window, verdict, 1)", "!verdict->late")),
    "settled: below a half": (JUDGE, ("!verdict->late || is_slower(window, verdict, 1)",
                                      "!verdict->late || is_slower(window, verdict, 2)")),
    "settled: a quarter, too": (JUDGE, ("verdict->late * early_ns < (wide)numerator",
                                        "verdict->late * early_ns <= (wide)numerator")),
    "slowing: below a quarter": (JUDGE, ("if (is_slower(window, verdict, 2))", "if (is_slower(window, verdict, 1))")),
    "young: the last eighth": (JUDGE, ("16 * (wide)verdict->since_ns > 13", "16 * (wide)verdict->since_ns > 14")),
    "young: 13/16, too": (JUDGE, ("16 * (wide)verdict->since_ns > 13", "16 * (wide)verdict->since_ns >= 13")),
    "since: the first birth": (JUDGE, ("verdict->since_ns = evidence->block[verdict->survivors / 50].birth_ns;",
                                       "verdict->since_ns = evidence->block[0].birth_ns;")),
    "periods: half of them are enough": (JUDGE, ("5 * verdict->periods < 3 * verdict->span",
                                                 "5 * verdict->periods < 2 * verdict->span")),
    "rate: of all survivors": (JUDGE, ("if (2 * (wide)block->birth_ns < born_ns)\n\t\t\tcontinue;\n\t\tverdict->late++;",
                                       "verdict->late++;")),
    "rate: gaps count as recorded": (JUDGE, (
        "end_ns - begin_ns - (sum_gaps_until(window, end_ns) - sum_gaps_until(window, begin_ns))", "end_ns - begin_ns")),
    "rate: blocks without their weights": (JUDGE, ("blocks += block->weight;\n\t}\n\tverdict->early",
                                                   "blocks += 1;\n\t}\n\tverdict->early")),
    "confidence: by weights": (JUDGE, ("verdict->survivors < LEAK_SURVIVORS_SURE",
                                       "survivors_weight(evidence, verdict) < LEAK_SURVIVORS_SURE")),
    "batch: seven in ten": (JUDGE, ("5 * (wide)history->gone_most >= 4", "5 * (wide)history->gone_most >= 3.5")),
    "batch: whenever it was": (JUDGE, ("since_ns >= window->snapshot_ns[history->gone_most_at]", "true")),
    "gaps: twice the ghosts are sure": (JUDGE, ("< 3 * count_ghosts", "< 2 * count_ghosts")),
    "gaps: never too many ghosts": (JUDGE, ("survivors_weight(evidence, verdict) < count_ghosts", "0 > count_ghosts")),
    "gaps: as many ghosts as survivors are too many": (JUDGE, (
        "survivors_weight(evidence, verdict) < count_ghosts", "survivors_weight(evidence, verdict) <= count_ghosts")),
    "grows: after one step": (JUDGE, ("growth->ups >= 2", "growth->ups >= 1")),
    "grows: early, too": (JUDGE, (" && growth->is_late", "")),
    "grows: though it fell": (JUDGE, (" && !growth->has_fallen", "")),
    "grows: though there are more blocks": (JUDGE, ("growth->last_count == growth->first_count && ", "")),
    "births alone: three snapshots are enough": (JUDGE, ("window->snapshot_nr < LEAK_SNAPSHOTS_LEAST", "window->snapshot_nr < 3")),
    "births alone: seven blocks are enough": (JUDGE, ("if (verdict->survivors < 8)", "if (verdict->survivors < 7)")),
    "births alone: young blocks do not matter": (JUDGE, (" && quarters.young <= verdict->survivors + 4", "")),
    "births alone: never settled": (JUDGE, ("4 * verdict->late < verdict->early", "4 * verdict->late < 0")),
    "frees: not counted": (TALLY, ("history->freed[i] += before - now;", "history->freed[i] += 0;")),
    "births: those from before a part count": (TALLY, ("(tally->times->is_part && birth_ns < begin)", "false")),
    "births: the unknown ones are old": (TALLY, ("if (!birth_ns || ", "if (")),
    "sites: domains are not looked up": ("src/engine/leak_sites.c", (
        "const struct leak_site_key key = { sites->traceback[traceback], domain };",
        "const struct leak_site_key key = { sites->traceback[traceback], domain & 0 };")),
    "sites: names make places different": ("src/engine/leak_sites.c", ("return row->object && row->offset;", "return false && row;")),
    "lines: few blocks are not added up": (LINES, ("judged[i].verdict.kind == LEAK_FEW && same > 1", "false")),
    "bundles: all that leaks": (BUNDLES, ("20 * apart <= sum", "apart <= 20 * sum")),
    "bundles: none": (BUNDLES, ("20 * apart <= sum", "false")),
}


def build(folder, file, edits):
    """The tests with a changed source, or None if the text to change is gone."""
    text = pathlib.Path(file).read_text(encoding="utf-8")
    for old, new in edits:
        if old not in text:
            return None
        text = text.replace(old, new, 1)
    source, program = os.path.join(folder, os.path.basename(file)), os.path.join(folder, "tests")
    pathlib.Path(source).write_text(text, encoding="utf-8")
    words = [shlex.split(os.environ[name]) for name in ("LEAKS_CC", "LEAKS_CFLAGS", "LEAKS_OBJ", "LEAKS_LIBS")]
    subprocess.run([*words[0], *words[1], "-O0", "-w", source, *words[2], *words[3], "-o", program], check=True)
    return program


def main():
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, (file, *edits) in MUTANTS.items():
            if sys.argv[1:] and not any(word in name for word in sys.argv[1:]):
                continue
            program = build(folder, file, edits)
            noticed = program and subprocess.run([program], capture_output=True, check=False).returncode
            passed += bool(noticed)
            failed += not noticed
            if not noticed:
                print(f"{name}: {'not noticed' if program else f'its text is no longer in {file}'}", flush=True)
    print(f"leak-mutants: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
