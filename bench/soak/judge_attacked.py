# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Checks of a recording under constant attack: attackers may lose data, all others lose none without a count."""
import collections
import os

import attackers
import judge as honest
import ledger

INTERVALS_MAX = 10  # without a pass
SECONDS_TO_ANSWER_MAX = 2
SECONDS_TO_END_MAX = 30
TWINS_MAX = 300
STDERR_SHOWN = 15
# A minute. The attackers' own files and blocks come and go in minutes: they keep thousands of files mapped, and hold
# millions of blocks.
GROWTH_MAX = {"MiB": 4, "descriptors": 60}
GROWTH_INTERVALS = 18
# Losses that concern all processes together, or files: they explain no difference in the counts of one process.
NAMES = ledger.NAMES | {"mappings_missed", "mappings_skipped", "mappings_forgotten", "objects_changed",
                        "tracebacks_summed"}


# ---- passes ----

def ends_of(instants, lines):
    """For each pass, when the first line after its instant came."""
    return [next((ns for ns, _ in lines if ns > instant), None) for instant in instants]


def delays(began_ns, interval_ns, ends):
    """Seconds from the time that each pass was due at, as the recorder has it, to its end."""
    due = began_ns + interval_ns
    for end in ends:
        yield (end - due) / 1e9
        due = max(due + interval_ns, end + interval_ns if due + interval_ns < end else 0)


def judge_passes(verdict, soak, files):
    instants = [row["monotonic_ns"] for row in files.by_pid[soak.crowd.nursery.pid] if row["trigger"] == "interval"]
    ends = [end for end in ends_of(sorted(instants), soak.listener.lines) if end]
    late = list(delays(soak.recording_ns, int(soak.interval * 1e9), ends))
    gaps = [(b - a) / 1e9 for a, b in zip([soak.recording_ns, *ends], [*ends, soak.ended_ns])]
    most = INTERVALS_MAX * soak.interval
    print(f"   {len(ends)} passes when they were due, {len(soak.said) - len(ends)} others; ends after the due time: "
          f"median {sorted(late)[len(late) // 2] if late else 0:.2f} s")
    verdict.check(late and max(late) <= most, "worst end of a pass after its due time", f"{most:g} s at most",
                  f"{max(late, default=0):.2f} s")
    verdict.check(max(gaps) <= most, "longest time without the end of a pass", f"{most:g} s at most", f"{max(gaps):.2f} s")
    answered = (soak.manager.stopping_ns - soak.ended_ns) / 1e9
    verdict.check(0 < answered <= SECONDS_TO_ANSWER_MAX, "from SIGTERM to STOPPING=1",
                  f"{SECONDS_TO_ANSWER_MAX} s at most", f"{answered:.2f} s")
    verdict.check(soak.seconds_to_end - soak.end_waited <= SECONDS_TO_END_MAX,
                  "from SIGTERM to the end of the recorder, without waiting for a processor",
                  f"{SECONDS_TO_END_MAX} s at most", f"{soak.seconds_to_end:.2f} s, in which it ran for "
                  f"{soak.end_ran:.2f} s and waited for a processor for {soak.end_waited:.2f} s")


# ---- exact counts ----

def judge_ledger(verdict, name, account, row):
    wanted, found = honest.from_ledger(account), honest.from_snapshot(row)
    wrong = [key for key in wanted if wanted[key] != found[key]]
    lost = {key: nr for key, nr in row["lost"].items() if key not in NAMES}
    shown = wrong or ("allocations", "frees", "rows", "rows_bytes")
    verdict.check(not wrong or lost, name, honest.text_of(wanted, shown), f"{honest.text_of(found, shown)}; losses: {lost}")


def judge_ledgers(verdict, soak, files):
    for member in soak.ledgers:
        name, row = f"{member.kind}.{member.pid} and its ledger", files.last(member.pid)
        if row:
            judge_ledger(verdict, name, honest.read_ledger(ledger.ledger_of(soak.bench, member.pid)), row)
        else:
            verdict.check(False, name, "a snapshot", "none")


def functions_of(soak, row):
    rows = soak.bench.stats(row["path"], "--group-by", "traceback")["statistics"]
    return {frame.get("function") for one in rows for frame in one["traceback"]}


def judge_twins(verdict, soak, files):
    """Root's short programs have twins with the same paths and build-ids in mounts of their own: no names may mix."""
    rows = [row for row in files.rows if row["comm"] == "twin"]
    seen = [(row, functions_of(soak, row)) for row in rows[::len(rows) // TWINS_MAX + 1]]
    verdict.check(seen, "snapshots of programs with a twin", "1 at least", f"{len(rows)}, {len(seen)} of which were read")
    verdict.none("of these, those with names of the twin",
                 [row["path"] for row, functions in seen if attackers.FORGED_NAME in functions])
    unnamed = [row for row, functions in seen if attackers.HONEST_NAME not in functions]
    print(f"   of these, those without their own names: {len(unnamed)}")
    verdict.none("of these, those that do not say why", [row["path"] for row in unnamed if not row["lost"]])


# ---- attackers ----

def judge_attacks(verdict, soak):
    for name, end in soak.attackers.ends.items():
        verdict.check(not end["failed"] and sum(end["counts"]), f"attack {name}: those that did not exit with 0", "0",
                      f"{end['failed']} of {sum(end['counts'])} {'; '.join(end['failures'])}")
    verdict.none("twins that did not exit with 0", soak.attackers.twins_born["failures"])


def show_said(soak):
    lines = soak.recorder.stderr().splitlines()
    print(f"   lines that the recorder said to stderr: {len(lines)}")
    for line, nr in collections.Counter(lines).most_common(STDERR_SHOWN):
        print(f"      {nr} x {line[:200]}")
    print(f"   the recorder's CPU share: {100 * soak.vitals.cpu_share():.1f} % of one CPU; the honest group's: "
          f"{100 * soak.usage_share:.1f} %; load {os.getloadavg()[0]:.1f}")
    print(f"   its last words: {soak.said[-1] if soak.said else 'none'}")


def show_losses(files):
    """Prints the losses by program name, summed over the last snapshots."""
    by_name = collections.defaultdict(collections.Counter)
    for row in filter(None, map(files.last, list(files.by_pid))):
        by_name[row["comm"]].update(row["lost"])
    for name, lost in sorted(by_name.items()):
        print(f"   losses of {name}: {dict(lost)}")


def judge(verdict, soak, files):
    honest.judge_targets(verdict, soak)
    judge_attacks(verdict, soak)
    show_said(soak)
    honest.judge_files(verdict, soak, files)
    honest.judge_births(verdict, soak, files)
    show_losses(files)
    judge_passes(verdict, soak, files)
    judge_ledgers(verdict, soak, files)
    judge_twins(verdict, soak, files)
    honest.judge_growth(verdict, soak, GROWTH_MAX, GROWTH_INTERVALS)
