# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Checks of a recording, of its files and of its cost: each prints a line with its verdict."""
import re
import statistics
import struct

import ledger
import vitals as vital

# The first and last part of a life, in which a pass may or may not see the process: the recorder learns of a new
# process only after it has looked at all that came before.
BEGIN_NS, END_NS = 1_000_000_000, 200_000_000
LEDGER_COUNTERS = ("allocations", "allocated_bytes", "frees", "freed_bytes", "current_blocks", "current_bytes",
                   "peak_bytes", "unknown_frees", "failed_calls", "nested_calls", "most_in_flight",
                   "blocks_replaced", "blocks_dropped", "threads", "threads_ended")


def judge_load(verdict, soak):
    verdict.check(soak.lived_most >= soak.processes, "most live processes in the group",
                  f"{soak.processes:g} at least", soak.lived_most)
    born = sum(soak.born["counts"])
    verdict.check(born >= soak.births_wanted * soak.births_seconds, "births a second",
                  f"{soak.births_wanted:g} at least",
                  f"{born / soak.births_seconds:.1f} ({born} in {soak.births_seconds:.0f} s)")


def judge_targets(verdict, soak):
    verdict.none("short lives that did not exit with 0", soak.born["failures"])
    verdict.none("programs that have ended, though nobody told them to", soak.dead)
    verdict.none("programs with breakpoints left in them", soak.broken)
    verdict.equal("exit status of the recorder", 0, soak.status)
    verdict.none("programs and links that it left in the kernel", soak.left)


def judge_said(verdict, soak):
    """Where traps are slow, the recorder warns once about each of the crowd's programs that they slow."""
    slowed = re.compile(r"allocsnap: \S+ \(PID (\d+)\) is recorded by traps and .* slower")
    members = {member.pid for member in soak.crowd.members}
    said = [line for line in soak.recorder.stderr().splitlines()
            if not (found := slowed.match(line)) or int(found[1]) not in members]
    verdict.none("other lines on stderr than that traps slow a program", said)


def lives_of(soak):
    return [(member.kind, member.pid, member.started_ns + BEGIN_NS, (member.ended_ns or soak.ended_ns) - END_NS)
            for member in soak.crowd.members]


def without_the_cut_pass(soak, instants):
    """The signal to end cuts the pass that it comes in; the pass after it has what that one lacks."""
    return [instant for instant in instants
            if instant > soak.ended_ns or any(instant < ns < soak.ended_ns for ns, _ in soak.listener.lines)]


def judge_files(verdict, soak, files):
    instants = without_the_cut_pass(soak, files.instants(soak.crowd.nursery.pid))
    lives = lives_of(soak)
    wanted = sum(first < instant < last for _, _, first, last in lives for instant in instants)
    print(f"   {len(files.rows)} files of {len(files.by_pid)} PIDs, {files.bytes / vital.MIB:.0f} MiB on disk; "
          f"{len(instants)} passes")
    verdict.none("damaged files", files.damaged)
    verdict.none("files that are no snapshots", files.strange)
    verdict.none(f"missing of {wanted} files, one of each life at each pass", files.missing(lives, instants))
    verdict.none("second files of one process at one pass", files.doubles())
    print(f"   names: {', '.join(sorted({row['comm'] for row in files.rows}))}")
    print(f"   losses, in the last snapshots of all: {dict(files.losses())}")


def judge_sources(verdict, files):
    """Each source has recorded something: Go's profile, page faults, CPython's pools."""
    for comm, domain in (("heap", "go"), ("own_pages", "pages"), ("python3.11", "python")):
        found = sum(row["comm"].startswith(comm) and domain in row["domains"].split(",") and row["blocks"] > 0 for row in files.rows)
        verdict.check(found, f"files of {comm} with blocks of the domain {domain}", "one at least", found)


def judge_passes(verdict, soak, files):
    least, found = int(soak.seconds / soak.interval) - 1, len(files.instants(soak.crowd.nursery.pid))
    verdict.check(found >= least, "passes", f"{least} at least", found)


def judge_births(verdict, soak, files):
    last = [row for row in files.rows if row["comm"] == "big" and row["end"]]
    verdict.equal("last snapshots of short lives that held 100,003 bytes", soak.born["counts"][5], len(last))
    verdict.none("of these, those that lack the block",
                 [row["path"] for row in last if row["counted"].get("peak_bytes", 0) < 100003])
    verdict.none("last snapshots of short lives that held little", [
        row["path"] for row in files.rows if row["comm"] == "small" and row["end"]
        and row["counted"].get("peak_bytes", 0) < 65536 and len(files.by_pid[row["pid"]]) == 1])


def read_ledger(path):
    """{name: count} of tests/ledger/ledger.h"""
    with open(path, "rb") as file:
        numbers = struct.unpack(f"<QQIIQ{len(LEDGER_COUNTERS)}Q", file.read(32 + 8 * len(LEDGER_COUNTERS)))
    return dict(zip(LEDGER_COUNTERS, numbers[5:]))


def from_ledger(account):
    return {**{key: account[key] for key in ledger.EXACT}, "rows": account["current_blocks"],
            "rows_bytes": account["current_bytes"]}


def from_snapshot(row):
    """Its counters, and what its rows come to."""
    return {**{key: row["counted"].get(key, 0) for key in ledger.EXACT}, "rows": row["blocks"],
            "rows_bytes": row["bytes"]}


def text_of(counts, keys):
    return ", ".join(f"{key} {counts[key]}" for key in keys)


def judge_ledger(verdict, name, account, row):
    """Compares all counts; prints a few of them if they are equal, otherwise those that differ."""
    wanted, found = from_ledger(account), from_snapshot(row)
    wrong = [key for key in wanted if wanted[key] != found[key]]
    shown = wrong or ("allocations", "frees", "rows", "rows_bytes")
    verdict.check(not wrong, name, text_of(wanted, shown), text_of(found, shown))
    lost = {key: nr for key, nr in row["lost"].items() if key not in ledger.NAMES}
    verdict.equal(f"{name}: losses", {}, lost)
    verdict.equal(f"{name}: of the ledger itself", 0, account["blocks_replaced"] + account["blocks_dropped"])


def judge_ledgers(verdict, soak, files):
    """They stand still since before the last pass."""
    for member in soak.ledgers:
        name, row = f"{member.kind}.{member.pid} and its ledger", files.last(member.pid)
        if row:
            judge_ledger(verdict, name, read_ledger(ledger.ledger_of(soak.bench, member.pid)), row)
        else:
            verdict.check(False, name, "a snapshot", "none")


def judge_series(verdict, soak, name, series, most, intervals):
    """The slope of the lows of every `intervals` intervals. The same rule must find a leak that is added to the samples."""
    late = vital.after_warm_up(series, soak.seconds)
    slope = vital.slope_per_minute(late, intervals * soak.interval)
    verdict.check(slope <= most, f"{name}: growth after {soak.seconds / 4:.0f} s", f"{most} a minute at most",
                  f"{slope:+.3f} a minute; {series[0][1]:.1f} at first, "
                  f"{max(value for _, value in series):.1f} at most, {late[-1][1]:.1f} at the end")
    leak = vital.slope_per_minute(vital.leaking(late, 2 * most), intervals * soak.interval)
    verdict.check(leak > most, f"{name}: had it leaked {2 * most:g} a minute more", f"more than {most}",
                  f"{leak:+.3f}")


def judge_growth(verdict, soak, most=vital.GROWTH_MAX, intervals=2):
    """A process that does not live all the time has no slope; the sandbox ends when it is not needed."""
    judged = soak.seconds * 3 / 4
    for name, series in sorted(soak.vitals.series.items()):
        late = vital.after_warm_up(series, soak.seconds)
        if judged < vital.JUDGED_LEAST or len(late) < judged / 10:
            print(f"   {name}: {series[0][1]:.1f} at first, {max(value for _, value in series):.1f} at most; "
                  f"{len(late)} samples after the warm-up are too few to see growth: not judged")
        else:
            judge_series(verdict, soak, name, series, most[name.split()[-1]], intervals)


def judge_costs(verdict, soak):
    medians = {where: statistics.median(values) for where, values in soak.work_ms.items()}
    last = soak.said[-1] if soak.said else "none"
    traps = re.search(r"not recorded paid .* \((\d+) traps\)", last)
    print(f"   the recorder's CPU share: {100 * soak.vitals.cpu_share():.1f} % of one CPU; the group's: "
          f"{100 * soak.usage_share:.1f} %")
    print(f"   slowdown: x {medians['inside'] / medians['outside']:.2f}, a piece of work in "
          f"{medians['outside']:.0f} ms of CPU time outside, {medians['inside']:.0f} ms inside (medians of "
          f"{len(soak.work_ms['inside'])} each)")
    print(f"   its last words: {last}")
    verdict.check("recording used" in last and int(traps[1] if traps else 0) < 1000, "traps of bystanders", "fewer than 1000",
                  traps[1] if traps else "0")


def judge(verdict, soak, files):
    judge_load(verdict, soak)
    judge_targets(verdict, soak)
    judge_said(verdict, soak)
    judge_files(verdict, soak, files)
    judge_sources(verdict, files)
    judge_passes(verdict, soak, files)
    judge_births(verdict, soak, files)
    judge_ledgers(verdict, soak, files)
    judge_growth(verdict, soak)
    judge_costs(verdict, soak)
