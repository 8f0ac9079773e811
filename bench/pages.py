# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Costs of recording resident memory: a page fault, and the CPU time in which a running program grows. Each way is measured in
turns: unrecorded, unrecorded again (A/A), recorded by `attach --domain pages`, each page and one in eight, and while another process
is. At last a program that nothing else sees, below a `record` without --domain that ran before.

    pages.py ALLOCSNAP BENCH-FOLDER      as root

Environment: BENCH_ROUNDS (7), BENCH_PROGRAMS ("sqlite3 python3"): some of the programs.
"""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import typing

sys.dont_write_bytecode = True
import rounds  # pylint: disable=wrong-import-position

ROUNDS = 7
PAGES = 32768
DEPTHS = (1, 10, 40)
BASE, AGAIN, RECORDED, SAMPLED, BESIDE = "unrecorded", "unrecorded again", "recorded", "one page in 8", "another is recorded"
WAYS = (BASE, AGAIN, RECORDED, SAMPLED, BESIDE)
OPTIONS = {SAMPLED: ("--sample", "32K")}
UNSEEN = {BASE: None, AGAIN: None, "by record": "unseen_target", BESIDE: "none"}  # {way: --comm}; None: no recorder
STATIC = "a static program"

# Each says "ready", grows at a line, says "done", and waits for another one.
SQL = ("CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b BLOB); WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c "
       "WHERE x<500000) INSERT INTO t SELECT x, 'name'||x, randomblob(400) FROM c; CREATE INDEX i ON t(a);\n.print done")
PYTHON = ("import json; print('ready', flush=True); input(); d = {str(i): [i] * 9 for i in range(600000)}; s = json.dumps(d); "
          "e = json.loads(s); print('done', flush=True); input()")
NODE = ("const fs = require('fs'), wait = () => fs.readSync(0, Buffer.alloc(1)); fs.writeSync(1, 'ready\\n'); wait(); const a = []; "
        "for (let i = 0; i < 2000000; i++) a.push({ i, s: 'x' + i, b: [i] }); fs.writeSync(1, 'done\\n'); wait();")
JAVA = """import java.util.*; public class Grow { public static void main(String[] a) throws Exception {
System.out.println("ready"); System.in.read(); Map<Integer, Object> m = new HashMap<>(); boolean arrays = a.length > 0;
for (int i = 0; i < (arrays ? 300000 : 2000000); i++) m.put(i, arrays ? new byte[1500] : new ArrayList<>(List.of("x" + i, i)));
System.out.println("done"); System.in.read(); } }"""


class Program(typing.NamedTuple):
    argv: list
    begin: str = ""  # what makes it say "ready"
    grow: str = ""


def programs(folder):
    pathlib.Path(folder, "Grow.java").write_text(JAVA, encoding="utf-8")
    rows = {
        "sqlite3": Program(["sqlite3", ":memory:"], ".print ready", SQL),
        "python3": Program(["/usr/bin/python3", "-c", PYTHON]),
        "node": Program(["node", "-e", NODE]),
        "java": Program(["java", "-XX:+UseSerialGC", "-Xmx2g", "-cp", folder, "Grow"]),
        "java-arrays": Program(["java", "-XX:+UseSerialGC", "-Xmx2g", "-cp", folder, "Grow", "arrays"]),
    }
    chosen = os.environ.get("BENCH_PROGRAMS", " ".join(rows)).split()
    found = {name: row for name, row in rows.items() if name in chosen and shutil.which(row.argv[0])}
    if {"java", "java-arrays"} & found.keys():
        subprocess.run(["javac", "-d", folder, f"{folder}/Grow.java"], check=True)
    return found


def cpu_seconds(pid):
    return time.clock_gettime(~pid << 3 | 2)  # clock_getcpuclockid(3)


def faults_of(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[7])


class Recording:
    """Records a process that waits; it has begun when this returns."""

    def __init__(self, allocsnap, folder, pid, options):
        out = tempfile.mkdtemp(dir=folder)
        self.popen = subprocess.Popen([allocsnap, "attach", str(pid), "--domain", "pages", *options, "-q", "-o", out, "-i", "1s"],
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.popen.stdout.readline()

    def end(self):
        self.popen.send_signal(signal.SIGINT)
        self.popen.communicate()


class Bench:
    def __init__(self, allocsnap, bench):
        self.allocsnap, self.bench = allocsnap, bench
        self.folder = tempfile.mkdtemp(prefix="pages.")
        self.other = subprocess.Popen(["sleep", "infinity"])
        self.faults_a_second = {}  # of CPU time, by program

    def recording(self, way, pid):
        watched = {RECORDED: pid, SAMPLED: pid, BESIDE: self.other.pid}.get(way)
        return watched and Recording(self.allocsnap, self.folder, watched, OPTIONS.get(way, ()))

    def faults(self, way):
        """{depth: ns a fault}"""
        target = subprocess.Popen([f"{self.bench}/fault_target"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        recording = self.recording(way, target.pid)
        found = {}
        for depth in DEPTHS:
            for _ in range(2):  # the first fills caches
                target.stdin.write(f"{depth} {PAGES}\n")
                target.stdin.flush()
                found[depth] = float(target.stdout.readline())
        target.communicate()
        if recording:
            recording.end()
        return found

    def note(self, name, way, seconds, faults):
        if way == BASE:
            self.faults_a_second[name] = faults / seconds
        return seconds

    def program(self, name, way, program):
        """CPU seconds of its growth."""
        target = subprocess.Popen(program.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

        def until(said, line):
            if line is not None:
                target.stdin.write(f"{line}\n")
            while target.stdout.readline().strip() != said:
                pass
            return cpu_seconds(target.pid), faults_of(target.pid)

        until("ready", program.begin or None)
        recording = self.recording(way, target.pid)
        before = cpu_seconds(target.pid), faults_of(target.pid)
        after = until("done", program.grow)
        target.kill()
        target.communicate()
        if recording:
            recording.end()
        return self.note(name, way, after[0] - before[0], after[1] - before[1])

    def unseen(self, name, way):
        """The program below a recorder."""
        comm = UNSEEN[way]
        if comm:
            argv = [self.allocsnap, "record", "--comm", comm, "-q", "-i", "1s", "-o", tempfile.mkdtemp(dir=self.folder)]
            recorder = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            recorder.stdout.readline()
        target = subprocess.Popen([f"{self.bench}/unseen_target", "2500000"])
        _, _, usage = os.wait4(target.pid, 0)
        seconds = self.note(name, way, usage.ru_utime + usage.ru_stime, usage.ru_minflt)
        if comm:
            recorder.send_signal(signal.SIGINT)
            recorder.communicate()
        return seconds

    def end(self):
        self.other.kill()
        self.other.wait()
        shutil.rmtree(self.folder)


def print_faults(samples):
    print("| ns a fault | " + " | ".join(WAYS) + " |\n|---|" + "---|" * len(WAYS))
    for depth in DEPTHS:
        cells = [f"{samples[depth].median(BASE):.0f}"]
        cells += ["{:+.0f} ({:+.0f} to {:+.0f})".format(*samples[depth].differences(way, BASE)) for way in WAYS[1:]]
        print(f"| {depth} frames | " + " | ".join(cells) + " |")


def print_programs(samples, ways, faults_a_second):
    print("\n| CPU time | faults in a CPU second | " + " | ".join(ways) + " |\n|---|---|" + "---|" * len(ways))
    for name, found in samples.items():
        cells = [f"{faults_a_second[name]:,.0f}", f"{found.median(BASE):.2f} s"]
        for way in ways[1:]:
            ratios = found.ratios(way, BASE)
            cells.append(f"×{found.ratio(way, BASE):.3f} ({min(ratios):.2f} to {max(ratios):.2f})")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def main():
    rounds.end_in_order()
    bench, wanted = Bench(*sys.argv[1:]), rounds.rounds_wanted(ROUNDS)
    faults = {depth: rounds.Samples() for depth in DEPTHS}
    measured = {}
    try:
        for _ in range(wanted):
            for way in WAYS:
                for depth, ns in bench.faults(way).items():
                    faults[depth].add(way, ns)
        for name, program in programs(bench.folder).items():
            measured[name] = rounds.Samples()
            rounds.in_turns(measured[name], {way: lambda _nr, name=name, way=way, program=program: bench.program(name, way, program)
                                             for way in WAYS}, wanted)
        unseen = rounds.Samples()
        rounds.in_turns(unseen, {way: lambda _nr, way=way: bench.unseen(STATIC, way) for way in UNSEEN}, wanted)
    finally:
        bench.end()
    print(f"Medians of {wanted} rounds; faults: how much more, median and quartiles; programs: paired ratios, median, least and "
          f"most. {rounds.load()}\n")
    print_faults(faults)
    print_programs(measured, WAYS, bench.faults_a_second)
    print_programs({STATIC: unseen}, list(UNSEEN), bench.faults_a_second)
    rounds.save(pathlib.Path(sys.argv[2]) / "pages.json", {"faults": {depth: found.of for depth, found in faults.items()},
                                                           "programs": {name: found.of for name, found in measured.items()}})


if __name__ == "__main__":
    main()
