#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""make soak: everybody in one control group, recorded for minutes, and all that was written checked.

Environment: SOAK_SECONDS, SOAK_INTERVAL (seconds), SOAK_PROCESSES (long lives), SOAK_BIRTHS (a second),
SOAK_OPTIONS (more for record); SOAK, a folder for what is fetched and written; ALLOCSNAP, WORKLOADS, LEDGER_FOLDER.
What the programs use of the C library is a copy, so that nobody else on the machine meets a probe.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import struct
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../live"))
import harness  # pylint: disable=wrong-import-position
import ledger  # pylint: disable=wrong-import-position
from test_record import unified_group  # pylint: disable=wrong-import-position
import crowd as crowds  # pylint: disable=wrong-import-position
import root  # pylint: disable=wrong-import-position
import vitals as vital  # pylint: disable=wrong-import-position
from verdict import Files, Verdict  # pylint: disable=wrong-import-position

SECONDS, INTERVAL, PROCESSES, BIRTHS = (
    float(os.environ.get(f"SOAK_{name}", default)) for name, default in
    (("SECONDS", 600), ("INTERVAL", 10), ("PROCESSES", 200), ("BIRTHS", 50)))
COMMUTERS = round(PROCESSES / 10)
EDGE_NS = 200_000_000  # of a life, in which a pass may or may not see it
LEDGER_COUNTERS = ("allocations", "allocated_bytes", "frees", "freed_bytes", "current_blocks", "current_bytes",
                   "peak_bytes", "unknown_frees", "failed_calls", "nested_calls", "most_in_flight",
                   "blocks_replaced", "blocks_dropped", "threads", "threads_ended")


class Soak:
    """The world of one run."""

    def __init__(self, bench, group, folder):
        self.bench, self.group, self.folder = bench, group, folder
        self.out = os.path.join(folder, "out")
        shutil.rmtree(self.out, ignore_errors=True)
        self.crowd = crowds.Crowd(bench, group, root.copy_libraries(bench.path("lib")), root.make(folder),
                                  os.path.abspath(harness.WORKLOADS))
        self.outside = bench.start([*crowds.PYTHON, os.path.join(HERE, "worker.py"), "work"])
        self.work_ms = {"inside": [], "outside": []}
        self.recorder = self.vitals = self.births = None
        self.ledgers = []
        self.lived_most = 0

    # ---- beginning ----

    def record(self):
        argv = [harness.ALLOCSNAP, "record", "-o", self.out, "--interval", f"{INTERVAL:g}s", "--cgroup",
                f"/{self.group.name}*", *os.environ.get("SOAK_OPTIONS", "").split()]
        print("   " + " ".join(argv), flush=True)
        self.recorder = self.bench.start(argv, env=dict(os.environ, ALLOCSNAP_CACHE_DIR=self.bench.path("cache")))
        print("   " + self.recorder.line(120), flush=True)
        self.vitals = vital.Vitals(self.recorder.pid)

    def with_ledger(self):
        own = ledger.environment_of(self.bench)
        return {name: own[name] for name in ("LD_PRELOAD", "LEDGER")}

    def start_ledgers(self):
        """Of several kinds, each with an independent count inside; they have begun after the recording."""
        more = self.with_ledger()
        self.ledgers = [self.crowd.work(PYTHONMALLOC="malloc", **more), self.crowd.work(**more),
                        self.crowd.python(PYTHONMALLOC="malloc", **more), self.crowd.python(**more),
                        self.crowd.sqlite(**more), self.crowd.sqlite(**more), self.crowd.redis(**more),
                        self.crowd.storm(**more), self.crowd.bash(**more)]

    def begin(self):
        kinds = list(crowds.SHARES)
        self.crowd.start_share(kinds, PROCESSES / 2)
        self.crowd.bash(**self.with_ledger())  # whose functions are probed then before others come with it
        self.record()
        self.crowd.start_share(kinds, PROCESSES / 2)
        self.start_ledgers()
        self.inside = self.crowd.work()
        for member in self.crowd.of("redis"):
            harness.wait_for(lambda path=member.socket_path: os.path.exists(path), "redis' socket", 60)
        for member in self.crowd.of("work") + self.crowd.of("storm"):
            member.line()
        harness.check_equal(self.outside.line(), "ready", "the work outside")
        self.births = self.crowd.births(BIRTHS + 2)
        self.births_ns = time.monotonic_ns()

    # ---- load ----

    def work(self, index):
        """The same outside and inside, one at a time; two of those with a ledger work along."""
        for member in self.ledgers[:2]:
            if index % 2:
                member.write("go\n")
        self.outside.write("go\n")
        self.work_ms["outside"].append(float(self.outside.line()))
        self.inside.write("go\n")
        self.work_ms["inside"].append(float(self.inside.line()))
        if index % 4 == 0:
            self.crowd.of("storm")[0].write("go\n")

    def tick(self, index):
        """Five times a second."""
        self.crowd.feed(index)
        if index % 5 == 0:
            self.vitals.sample()
            self.lived_most = max(self.lived_most, len(self.pids()))
        if index % 25 == 0:
            self.work(index // 25)
        if index % 10 == 0:
            self.crowd.send_commuters(COMMUTERS, INTERVAL)

    def pids(self):
        return (self.group / "cgroup.procs").read_text().split()

    def run(self):
        begun, index = time.monotonic(), 0
        usage = self.usage()
        while time.monotonic() < begun + SECONDS:
            self.tick(index)
            index += 1
            time.sleep(max(0, min(0.2, begun + index * 0.2 - time.monotonic())))
            if self.recorder.popen.poll() is not None:
                raise harness.Failure(f"the recorder has ended: {self.recorder.stderr()!r}")
        self.usage_share = (self.usage() - usage) / (time.monotonic() - begun)
        os.close(self.births.into)
        self.born = json.loads(self.births.line())
        self.births_seconds = (time.monotonic_ns() - self.births_ns) / 1e9

    def usage(self):
        """CPU seconds of the group."""
        return int(re.search(r"usage_usec (\d+)", (self.group / "cpu.stat").read_text())[1]) / 1e6

    # ---- end ----

    def end(self):
        """Those with a ledger stand still in the last snapshot, which is of now."""
        for member in self.ledgers:
            ledger.halt(self.bench, member.pid, 0)
        self.crowd.nursery.hear_of_ends()
        for member in self.crowd.of("commuter"):
            member.ended_ns = self.crowd.nursery.endings.get(member.pid)
        self.recorder.popen.send_signal(signal.SIGINT)
        self.ended_ns = time.monotonic_ns()
        self.status = self.recorder.wait(300)
        self.said = list(iter(self.recorder.line, None))
        self.broken = [f"{member.kind}.{member.pid}" for member in self.crowd.members
                       if member.kind != "commuter" and harness.is_running(member.pid)
                       and harness.changed_code(member.pid)]
        self.dead = [f"{member.kind}.{member.pid}" for member in self.crowd.members
                     if member.kind not in ("commuter", "births") and not harness.is_running(member.pid)]


# ---- what was found --------------------------------------------------------------------------------

def judge_crowd(verdict, soak):
    verdict.check(soak.lived_most >= PROCESSES, "most live processes in the group", f"{PROCESSES:g} at least",
                  soak.lived_most)
    born = sum(soak.born["counts"])
    verdict.check(born >= BIRTHS * soak.births_seconds, "births a second", f"{BIRTHS:g} at least",
                  f"{born / soak.births_seconds:.1f} ({born} in {soak.births_seconds:.0f} s)")
    verdict.equal("short lives that did not exit with 0", 0, soak.born["failed"])
    verdict.none("programs that have ended, though nobody told them to", soak.dead)
    verdict.none("programs with breakpoints left in them", soak.broken)
    verdict.equal("exit status of the recorder", 0, soak.status)
    verdict.none("lines that the recorder said to stderr", soak.recorder.stderr().splitlines())


def judge_files(verdict, soak, files):
    instants = files.instants(soak.crowd.nursery.pid)
    lives = [(member.kind, member.pid, member.started_ns + EDGE_NS, (member.ended_ns or soak.ended_ns) - EDGE_NS)
             for member in soak.crowd.members]
    wanted = sum(first < instant < last for _, _, first, last in lives for instant in instants)
    print(f"   {len(files.rows)} files of {len(files.by_pid)} PIDs, {files.bytes / vital.MIB:.0f} MiB on disk; "
          f"{len(instants)} passes")
    verdict.check(len(instants) >= int(SECONDS / INTERVAL) - 1, "passes",
                  f"{int(SECONDS / INTERVAL) - 1} at least", len(instants))
    verdict.none("damaged files", files.damaged)
    verdict.none("files that are no snapshots", files.strange)
    verdict.none(f"missing of {wanted} files, one of each life at each pass", files.missing(lives, instants))
    verdict.none("second files of one process at one pass", files.doubles())
    last = [row for row in files.rows if row["comm"] == "big" and row["end"]]
    verdict.equal("last snapshots of short lives that held 100,003 bytes", soak.born["counts"][5], len(last))
    verdict.none("of these, those that lack the block",
                 [row["path"] for row in last if row["counted"].get("peak_bytes", 0) < 100003])
    verdict.none("last snapshots of short lives that held little", [
        row["path"] for row in files.rows if row["comm"] == "small" and row["end"]
        and row["counted"].get("peak_bytes", 0) < 65536 and len(files.by_pid[row["pid"]]) == 1])
    print(f"   names: {', '.join(sorted({row['comm'] for row in files.rows}))}")
    print(f"   losses, in the last snapshots of all: {dict(files.losses())}")


def read_ledger(path):
    """{name: count} of tests/ledger/ledger.h"""
    with open(path, "rb") as file:
        numbers = struct.unpack(f"<QQIIQ{len(LEDGER_COUNTERS)}Q", file.read(32 + 8 * len(LEDGER_COUNTERS)))
    return dict(zip(LEDGER_COUNTERS, numbers[5:]))


def judge_ledgers(verdict, soak, files):
    for member in soak.ledgers:
        books, row = read_ledger(ledger.ledger_of(soak.bench, member.pid)), files.last(member.pid)
        name = f"{member.kind}.{member.pid} and its ledger"
        if not row:
            verdict.check(False, name, "a snapshot", "none")
            continue
        found = {key: row["counted"].get(key, 0) for key in ledger.EXACT}
        found.update(rows=row["blocks"], rows_bytes=row["bytes"])
        wanted = {key: books[key] for key in ledger.EXACT}
        wanted.update(rows=books["current_blocks"], rows_bytes=books["current_bytes"])
        wrong = [key for key in wanted if wanted[key] != found[key]]
        text = ", ".join(f"{key} {{}}" for key in wrong or ("allocations", "frees", "rows", "rows_bytes"))
        keys = wrong or ("allocations", "frees", "rows", "rows_bytes")
        verdict.check(not wrong, name, text.format(*(wanted[key] for key in keys)),
                      text.format(*(found[key] for key in keys)))
        verdict.equal(f"{name}: losses", {}, {key: nr for key, nr in row["lost"].items() if key not in ledger.NAMES})
        verdict.equal(f"{name}: of the ledger itself", 0, books["blocks_replaced"] + books["blocks_dropped"])


def judge_growth(verdict, soak):
    """Slopes of medians, one an interval; the same rule must find a leak that is added to what was measured."""
    judged = SECONDS * 3 / 4
    for name, series in sorted(soak.vitals.series.items()):
        kind = name.split()[-1]
        most = vital.GROWTH_MAX[kind]
        late = vital.after_warm_up(series, SECONDS)
        found = f"{series[0][1]:.1f} at first, {max(value for _, value in series):.1f} at most"
        if judged < vital.JUDGED_LEAST or len(late) < judged / 10:
            print(f"   {name}: {found}; {judged:.0f} s after the warm-up are too few to tell growth: not judged")
            continue
        slope = vital.slope_per_minute(late, INTERVAL)
        verdict.check(slope <= most, f"{name}: growth after {SECONDS / 4:.0f} s", f"{most} a minute at most",
                      f"{slope:+.3f} a minute; {found}, {late[-1][1]:.1f} at the end")
        if "RSS" not in name:
            leak = vital.slope_per_minute(vital.leaking(late, 2 * most), INTERVAL)
            verdict.check(leak > most, f"{name}: a leak of {2 * most:g} a minute would have been seen",
                          f"more than {most}", f"{leak:+.3f}")


def judge_costs(verdict, soak):
    medians = {where: statistics.median(values) for where, values in soak.work_ms.items()}
    said = [line for line in soak.said if "bystanders" in line]
    traps = re.search(r"bystanders: (\d+) traps", said[-1] if said else "")
    print(f"   the recorder's CPU share: {100 * soak.vitals.cpu_share():.1f} % of one CPU; the group's: "
          f"{100 * soak.usage_share:.1f} %")
    print(f"   slowdown: x {medians['inside'] / medians['outside']:.2f}, a piece of work in {medians['outside']:.0f} ms "
          f"of CPU time outside, {medians['inside']:.0f} ms inside (medians of {len(soak.work_ms['inside'])} each)")
    print(f"   its last words: {soak.said[-1] if soak.said else 'none'}")
    verdict.check(traps and int(traps[1]) < 1000, "traps of bystanders", "fewer than 1000",
                  traps[1] if traps else "no such line")


def soak_all(bench, group, folder):
    soak = Soak(bench, group, folder)
    print("   " + ", ".join(f"{name} {version}" for name, version in root.versions(folder).items()))
    soak.begin()
    print(f"   {len(soak.pids())} processes in the group; {SECONDS:g} s begin", flush=True)
    soak.run()
    soak.end()
    verdict = Verdict()
    files = Files(soak.out, os.path.join(folder, "survey"))
    judge_crowd(verdict, soak)
    judge_files(verdict, soak, files)
    judge_ledgers(verdict, soak, files)
    judge_growth(verdict, soak)
    judge_costs(verdict, soak)
    print(f"soak: {verdict.passed} passed, {verdict.failed} failed, 0 skipped")
    if not verdict.failed:
        shutil.rmtree(soak.out)
    return verdict.failed > 0


def main():
    if os.geteuid() != 0:
        sys.exit("soak: it records all processes of a control group: run it as root")
    folder = os.environ.get("SOAK", ".output/soak")
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    bench = harness.Bench()
    try:
        with unified_group(bench, "allocsnap-soak") as group:
            return soak_all(bench, group, folder)
    except harness.Failure as failure:
        print(f"FAIL soak: {failure}\nsoak: 0 passed, 1 failed, 0 skipped")
        return 1
    finally:
        bench.close()


if __name__ == "__main__":
    sys.exit(main())
