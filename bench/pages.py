# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Costs of recording resident memory: a page fault, and the CPU time of programs that grow. Each way is measured in turns:
unrecorded, unrecorded again (A/A), recorded by `attach --domain pages`, each page and one in eight, and while another process is.
At last a program that nothing else sees, below a `record` without --domain that ran before.

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

SQL = ("CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b BLOB); WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c "
       "WHERE x<500000) INSERT INTO t SELECT x, 'name'||x, randomblob(400) FROM c; CREATE INDEX i ON t(a);")
PYTHON = "import json; d = {str(i): [i] * 9 for i in range(600000)}; s = json.dumps(d); e = json.loads(s)"
NODE = "const a = []; for (let i = 0; i < 2000000; i++) a.push({ i, s: 'x' + i, b: [i] });"
JAVA = """import java.util.*; public class Grow { public static void main(String[] a) { Map<Integer, byte[]> m = new HashMap<>();
for (int i = 0; i < 300000; i++) m.put(i, new byte[1500]); } }"""


def programs(folder):
    pathlib.Path(folder, "Grow.java").write_text(JAVA, encoding="utf-8")
    rows = {
        "sqlite3": ["sqlite3", "-batch", ":memory:", SQL],
        "python3": ["/usr/bin/python3", "-c", PYTHON],
        "node": ["node", "-e", NODE],
        "java": ["java", "-XX:+UseSerialGC", "-Xmx2g", "-cp", folder, "Grow"],
    }
    chosen = os.environ.get("BENCH_PROGRAMS", "sqlite3 python3 node java").split()
    found = {name: row for name, row in rows.items() if name in chosen and shutil.which(row[0])}
    if "java" in found:
        subprocess.run(["javac", "-d", folder, f"{folder}/Grow.java"], check=True)
    return found


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

    def spent(self, name, way, target):
        """CPU seconds of the program alone, at its end."""
        _, _, usage = os.wait4(target.pid, 0)
        seconds = usage.ru_utime + usage.ru_stime
        if way == BASE:
            self.faults_a_second[name] = usage.ru_minflt / seconds
        return seconds

    def program(self, name, way, argv):
        target = subprocess.Popen(["sh", "-c", 'read line; exec "$@"', "sh", *argv], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        recording = self.recording(way, target.pid)
        target.stdin.write(b"\n")
        target.stdin.close()
        seconds = self.spent(name, way, target)
        if recording:
            recording.end()
        return seconds

    def unseen(self, name, way):
        """The program below a recorder."""
        comm = UNSEEN[way]
        if comm:
            argv = [self.allocsnap, "record", "--comm", comm, "-q", "-i", "1s", "-o", tempfile.mkdtemp(dir=self.folder)]
            recorder = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            recorder.stdout.readline()
        target = subprocess.Popen([f"{self.bench}/unseen_target", "2500000"])
        seconds = self.spent(name, way, target)
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
        for name, argv in programs(bench.folder).items():
            measured[name] = rounds.Samples()
            rounds.in_turns(measured[name], {way: lambda _nr, name=name, way=way, argv=argv: bench.program(name, way, argv)
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
