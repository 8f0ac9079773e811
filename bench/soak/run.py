#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""make soak: records all processes of one control group for minutes, and checks all that was written.

Environment: SOAK_SECONDS, SOAK_INTERVAL (seconds), SOAK_PROCESSES (long lives), SOAK_BIRTHS (a second),
SOAK_OPTIONS (more for record); SOAK, a folder for fetched and written files; ALLOCSNAP, WORKLOADS, LEDGER_FOLDER.
SOAK_ATTACK, programs of attackers.py (make soak-hostile): another user attacks the recorder meanwhile.
The programs use a copy of the C library, so that no other process of the machine meets a probe.
"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../../tests/live"), os.path.join(HERE, "../../tests")]
import harness  # pylint: disable=wrong-import-position
import ledger  # pylint: disable=wrong-import-position
from test_record import unified_group  # pylint: disable=wrong-import-position
import crowd as crowds  # pylint: disable=wrong-import-position
import attackers  # pylint: disable=wrong-import-position
import judge  # pylint: disable=wrong-import-position
import judge_attacked  # pylint: disable=wrong-import-position
import root  # pylint: disable=wrong-import-position
from listener import Listener, Manager  # pylint: disable=wrong-import-position
import vitals as vital  # pylint: disable=wrong-import-position
from verdict import Files, Verdict  # pylint: disable=wrong-import-position

SECONDS, INTERVAL, PROCESSES, BIRTHS = (
    float(os.environ.get(f"SOAK_{name}", default)) for name, default in
    (("SECONDS", 600), ("INTERVAL", 10), ("PROCESSES", 200), ("BIRTHS", 50)))
COMMUTERS = round(PROCESSES / 10)
ATTACK = os.environ.get("SOAK_ATTACK", "").split()


class Soak:
    """The world of one run."""

    seconds, interval, processes, births_wanted = SECONDS, INTERVAL, PROCESSES, BIRTHS

    def __init__(self, bench, group, folder, attacking):
        self.bench, self.group, self.folder = bench, group, folder
        self.out = os.path.join(folder, "out")
        shutil.rmtree(self.out, ignore_errors=True)
        self.crowd = crowds.Crowd(bench, group, root.copy_libraries(bench.path("lib")), root.make(folder),
                                  os.path.abspath(harness.WORKLOADS))
        self.outside = bench.start([*crowds.PYTHON, os.path.join(HERE, "worker.py"), "work"])
        self.work_ms = {"inside": [], "outside": []}
        self.recorder = self.vitals = self.births = self.listener = None
        self.manager = Manager(folder)
        self.attackers = attackers.Attackers(self.crowd, attacking, ATTACK) if attacking else None
        self.ledgers = []
        self.lived_most = 0

    # ---- beginning ----

    def record(self):
        argv = [harness.ALLOCSNAP, "record", "-o", self.out, "--interval", f"{INTERVAL:g}s", "--cgroup",
                f"/{self.group.name}", "--cgroup", f"/{self.group.name}/*", *os.environ.get("SOAK_OPTIONS", "").split()]
        print("   " + " ".join(argv), flush=True)
        self.recorder = self.bench.start(argv, env=dict(os.environ, ALLOCSNAP_NO_BEFOREHAND="1",
                                                        NOTIFY_SOCKET=self.manager.path))
        print("   " + self.recorder.line(120), flush=True)
        self.recording_ns = time.monotonic_ns()
        self.listener = Listener(self.recorder)
        self.vitals = vital.Vitals(self.recorder.pid)

    def with_ledger(self):
        own = ledger.environment_of(self.bench)
        return {name: own[name] for name in ("LD_PRELOAD", "LEDGER")}

    def start_ledgers(self):
        """Starts programs of several kinds, each with an independent ledger; they begin after the recording."""
        more = self.with_ledger()
        more["PYTHONMALLOC"] = "malloc"  # pools, which the recorder has, are in no ledger
        self.ledgers = [self.crowd.work(**more), self.crowd.work(**more), self.crowd.python(**more),
                        self.crowd.sqlite(**more), self.crowd.sqlite(**more), self.crowd.redis(**more),
                        self.crowd.storm(**more), self.crowd.bash(**more)]

    def begin(self):
        kinds = list(crowds.SHARES)
        self.crowd.start_share(kinds, PROCESSES / 2)
        self.crowd.bash(**self.with_ledger())  # its functions get probes before other programs bring them
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
        if self.attackers:
            self.attackers.begin(self.recorder.pid)

    # ---- load ----

    def work(self, index):
        """The same work outside and inside, one after the other; two programs with a ledger work at the same time."""
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
        """Stops the programs with a ledger, so that the last snapshot is of now. Attackers go on."""
        self.crowd.hear_of_ends()
        for member in self.ledgers:
            if not member.ended_ns:
                ledger.halt(self.bench, member.pid, 0)
        kept = harness.bpf_ids(self.recorder.pid)
        self.recorder.popen.send_signal(signal.SIGTERM if self.attackers else signal.SIGINT)
        self.ended_ns = time.monotonic_ns()
        self.status = self.wait_for_recorder()
        self.seconds_to_end = (time.monotonic_ns() - self.ended_ns) / 1e9
        self.left = self.left_of(kept)
        self.said = self.listener.texts()
        pathlib.Path(self.folder, "said").write_text("\n".join(self.said) + "\n" + self.recorder.stderr())
        pathlib.Path(self.folder, "vitals.json").write_text(json.dumps(self.vitals.series))
        self.broken = [f"{member.kind}.{member.pid}" for member in self.crowd.members
                       if member.kind != "commuter" and harness.is_running(member.pid)
                       and harness.changed_code(member.pid)]
        if self.attackers:
            self.attackers.end()
        self.crowd.hear_of_ends()
        self.dead = [f"{member.kind}.{member.pid}: {member.status}" for member in self.crowd.members
                     if member.kind not in ("commuter", "births", "twins") and member.ended_ns]

    def wait_for_recorder(self):
        """Its exit status; and of its end, how long it ran for and waited for a processor, in seconds."""
        before = last = vital.run_and_wait(self.recorder.pid)
        with contextlib.suppress(OSError, ValueError):
            while self.recorder.popen.poll() is None:
                last = vital.run_and_wait(self.recorder.pid)
                time.sleep(0.02)
        self.end_ran, self.end_waited = (b - a for a, b in zip(before, last))
        return self.recorder.wait(300)

    def left_of(self, kept):
        """The recorder's programs and links that stay in the kernel, and their holders. The kernel may need a
        moment."""
        def left():
            return {(kind, number) for kind, ids in harness.bpf_ids_in_kernel().items()
                    for number in ids & kept[kind]}

        with contextlib.suppress(harness.Failure):
            harness.wait_for(lambda: not left(), "programs and links are gone", 30)
        return [f"{kind} {number} of {vital.holders(kind, number)}" for kind, number in left()]


def soak_all(bench, group, attacking, folder):
    soak = Soak(bench, group, folder, attacking)
    print("   " + ", ".join(f"{name} {version}" for name, version in root.versions(folder).items()))
    soak.begin()
    print(f"   {len(soak.pids())} processes in the group; {SECONDS:g} s begin", flush=True)
    soak.run()
    soak.end()
    verdict = Verdict()
    files = Files(soak.out, os.path.join(folder, "survey"))
    (judge_attacked if attacking else judge).judge(verdict, soak, files)
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
        with contextlib.ExitStack() as stack:
            group = stack.enter_context(unified_group(bench, "allocsnap-soak"))
            attacking = stack.enter_context(attackers.group_below(group, "attackers")) if ATTACK else None
            return soak_all(bench, group, attacking, folder)
    except harness.Failure as failure:
        print(f"FAIL soak: {failure}\nsoak: 0 passed, 1 failed, 0 skipped")
        return 1
    finally:
        bench.close()


if __name__ == "__main__":
    sys.exit(main())
