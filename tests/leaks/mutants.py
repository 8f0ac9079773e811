# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Mistakes in the rule for leaks, which its unit tests must notice (tests/mutants)."""

JUDGE, TALLY, LINES = (f"src/engine/leak_{name}.c" for name in ("judge", "tally", "lines"))

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
    "births: those from before a part count": (TALLY, ("birth_ns + early_ns < begin", "false")),
    "births: the unknown ones are old": (TALLY, ("if (!birth_ns || ", "if (")),
    "sites: domains are not looked up": ("src/engine/leak_tally.c", (
        "domain };\n\n\treturn idmap_find(", "domain & 0 };\n\n\treturn idmap_find(")),
    "sites: names make places different": ("src/engine/leak_tally.c", ("return row->object && row->offset;", "return false && row;")),
    "lines: few blocks are not added up": (LINES, ("judged[i].verdict.kind == LEAK_FEW && same > 1", "false")),
    "bundles: all that leaks": (LINES, ("20 * apart <= sum", "apart <= 20 * sum")),
    "bundles: none": (LINES, ("20 * apart <= sum", "false")),
}
