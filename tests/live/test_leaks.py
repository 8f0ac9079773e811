# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Which lines leak, of real programs: leaks are named, with their rates, and nothing else is called a leak."""
import json
import os
import pathlib
import re
import shutil
import signal
import threading
import time

import harness
from harness import ALLOCSNAP, NO_SESSIONS, Workload, check, check_equal, wait_for
from load import Redis

UNJUDGED, EXCEEDED = 3, 4
LEAKS = {"leak_plain", "leak_one_in_50", "leak_of_batch", "leak_late"}
SURE = {"leak_plain", "leak_one_in_50", "leak_of_batch"}


def leaks_of(bench, *args, status=0, seconds=90, **options):
    return json.loads(bench.run([ALLOCSNAP, "leaks", *args, "--json", "--top", "0"], status, seconds, **options)[0])


def rows_of(report):
    """[(verdict, functions of the traceback, row)] of all callers of all lines."""
    for bundle in report["leaks"]:
        for line in bundle["lines"]:
            for row in line.get("callers", [line]):
                yield row["verdict"], {frame.get("function") for frame in row["traceback"]}, row


def named(report, verdicts):
    return {name for verdict, functions, _ in rows_of(report) if verdict in verdicts
            for name in functions if name and name.startswith(("leak_", "ok_"))}


def check_zoo(report, shown=LEAKS, sure=SURE):
    check(sure <= named(report, ("leaks",)), f"called leaks: {named(report, ('leaks',))}, expected {sure}")
    check(shown <= named(report, ("leaks", "may-leak")), f"shown: {named(report, ('leaks', 'may-leak'))}")
    check(named(report, ("leaks",)) <= LEAKS, f"called leaks: {named(report, ('leaks',))}")


def check_plain_rate(report, low=0.9, high=1.1):
    """It leaks 200 bytes at each fourth step, all the time."""
    row = next(row for _, functions, row in rows_of(report) if "leak_plain" in functions)
    wanted = 200 * row["allocated"] / (report["observed_ns"] / 1e9)
    check(low * wanted < row["bytes_per_s"] < high * wanted, f"leak_plain: {row['bytes_per_s']} B/s of {wanted}")


@harness.core
def test_leaks_names_the_line_that_leaks(bench):
    """A plain leak and a ring, for a few seconds, from the PID to the exit status; nothing stays behind."""
    grow = bench.workload("grow", "600")
    own = bench.path("tmp")
    os.mkdir(own)
    report = leaks_of(bench, str(grow.pid), "--for", "6s", "--fail-above", "1K/s", status=EXCEEDED,
                      env=dict(os.environ, TMPDIR=own))
    verdict, functions, row = next(iter(rows_of(report)))
    check("grow_here" in functions and verdict == "leaks", f"first: {verdict} {functions}")
    check(row["bytes_per_s"] > 20000, f"rate {row['bytes_per_s']}, of up to 1021000")
    check(not named(report, ("leaks",)), "the workload has no leak_ and no ok_")
    others = [functions for verdict, functions, _ in rows_of(report) if verdict == "leaks" and "grow_here" not in functions]
    check(not others, f"called leaks, too: {others}")
    check_equal(os.listdir(own), [], "temporary folders")
    check(grow.popen.poll() is None, "the process has ended")


@harness.core
def test_leaks_leaves_nothing_behind(bench):
    """Its snapshots are temporary: they go whichever way the command ends."""
    grow = bench.workload("grow", "600")
    own = bench.path("tmp")
    os.mkdir(own)
    for end, status in (signal.SIGKILL, -9), (signal.SIGHUP, UNJUDGED), (signal.SIGTERM, UNJUDGED):
        leaks = bench.start([ALLOCSNAP, "leaks", str(grow.pid), "--for", "600s"], env=dict(os.environ, TMPDIR=own))
        wait_for(lambda: "observing" in leaks.stderr(), "it does not observe")
        check(os.listdir(own), "no temporary folder")
        leaks.popen.send_signal(end)
        check_equal(leaks.wait(), status, f"status after {end}")
        wait_for(lambda: not os.listdir(own), f"after {end} there is {os.listdir(own)}", kind=harness.Law)
    check(grow.popen.poll() is None, "the process has ended")


def test_leaks_of_recorded_snapshots_are_the_same(bench):
    """-o keeps the snapshots; the same question to the folder gets the same answer."""
    grow = bench.workload("grow", "600")
    folder = bench.path("kept")
    live = leaks_of(bench, str(grow.pid), "--for", "5s", "-o", folder, "--no-compact")
    files = sorted(pathlib.Path(folder).rglob("*.snap"))
    check_equal(len(files), 5, "snapshots")
    check_equal(leaks_of(bench, folder), live, "the answer from files")
    check_equal(leaks_of(bench, *map(str, reversed(files))), live, "the answer from files by name")
    single = leaks_of(bench, str(files[-1]), status=UNJUDGED)
    check_equal({verdict for verdict, _, _ in rows_of(single)} - {"may-leak"}, set(), "verdicts by one snapshot")


def test_leaks_begin_anew_when_traces_are_cleared(bench):
    grow = bench.workload("grow", "600")
    folder = bench.path("kept")
    recording = bench.attach([grow], folder=folder, interval="500ms")
    recording.path()
    begun_ns = bench.show(recording.path())["metadata"]["monotonic_ns"]
    recording.clear()
    cleared_ns = time.monotonic_ns()
    last_ns = [bench.show(recording.path())["metadata"]["monotonic_ns"] for _ in range(12)][-1]
    last_ns = max([last_ns, *(bench.show(path)["metadata"]["monotonic_ns"] for path in recording.end(signal.SIGINT))])
    report = leaks_of(bench, folder)
    # the clearing is done by the next snapshot, half a second later and more
    check(last_ns - cleared_ns - 2e9 < report["observed_ns"] <= last_ns - begun_ns, f"observed {report['observed_ns']} ns, "
          f"cleared {last_ns - cleared_ns} to {last_ns - begun_ns} ns before the end")
    verdict, functions, _ = next(iter(rows_of(report)))
    check(verdict == "leaks" and "grow_here" in functions, f"first: {verdict} {functions}")


def test_leaks_report_that_the_process_ended_early(bench):
    grow = bench.workload("grow", "600")
    leaks = bench.start([ALLOCSNAP, "leaks", str(grow.pid), "--for", "24s", "-o", bench.path("kept")])
    wait_for(lambda: len(harness.snapshots_below(bench.path("kept"))) >= 5, "five of twelve snapshots", 20)
    grow.kill()
    check_equal(leaks.wait(), 0, "exit status")
    check("only, not for 24 s: it ended" in leaks.stderr(), leaks.stderr())


def test_leaks_of_an_ended_process_name_its_snapshots(bench):
    program = shutil.copy(os.path.join(harness.WORKLOADS, "grow"), bench.path("ended-grow"))  # no other test has this name
    grow = bench.start([program, "600"], kind=Workload).ready()
    bench.attach([grow], folder=bench.path("allocsnap-data")).end(signal.SIGINT)
    grow.kill()
    err = bench.run([ALLOCSNAP, "leaks", "ended-grow"], 1, cwd=bench.folder)[1]
    check(f"there are snapshots of it: allocsnap leaks ./allocsnap-data/{os.uname().nodename}/ended-grow.{grow.pid}" in err, err)


def zoo_report(bench, *options, zoo=None):
    zoo = zoo or bench.workload("leaks", "23")
    return leaks_of(bench, str(zoo.pid), "--for", "20s", *options)


def test_leaks_of_a_zoo(bench):
    zoo, folder = bench.workload("leaks", "23"), bench.path("kept")
    report = zoo_report(bench, "-o", folder, zoo=zoo)
    check_zoo(report)
    check_plain_rate(report)
    late = next(row for _, functions, row in rows_of(report) if "leak_late" in functions)
    begun_ns = bench.show(harness.snapshots_below(folder)[-1])["metadata"]["monotonic_ns"] - report["observed_ns"]
    since_ns = json.loads(zoo.line())["late_ns"] - begun_ns
    check(abs(late["since_ns"] - since_ns) < 2e9, f"leak_late since {late['since_ns'] / 1e9} s, of {since_ns / 1e9}")


def test_leaks_of_a_zoo_with_births_to_the_second(bench):
    folder = bench.path("kept")
    report = zoo_report(bench, "-o", folder, "--compact")
    check_zoo(report)
    check_plain_rate(report, high=1.2)


def test_leaks_of_a_sampled_zoo(bench):
    """Samples of few blocks: what is shown is right, and the plain leak is shown."""
    report = zoo_report(bench, "--sample", "2K")
    check_zoo(report, shown={"leak_plain"}, sure=set())
    check_plain_rate(report, 0.4, 2)


def test_leaks_attached_late(bench):
    zoo = bench.workload("leaks", "40")
    time.sleep(12)  # at least, until all of it is warm
    report = leaks_of(bench, str(zoo.pid), "--for", "20s")
    check_zoo(report, shown=SURE)
    check_plain_rate(report)


# Keeps 20 KiB of small strings, a hundred times a second.
SMALL_OBJECTS = """
import time
kept = []
while True:
    kept.append([f"customer number {len(kept)} {i}" for i in range(200)])
    time.sleep(0.01)
"""


def python_answer(bench, *options, **environment):
    """(text, lines about small objects in it) of `leaks`, about small objects that are kept."""
    python = bench.start(["/usr/bin/python3", "-c", SMALL_OBJECTS], env=dict(os.environ, **environment))
    text = bench.run([ALLOCSNAP, "leaks", str(python.pid), "--for", "12s", *options], None, seconds=60)[0]
    python.kill()
    return text, [line for line in text.splitlines() if "small objects" in line]


def test_leaks_name_the_way_to_small_objects(bench):
    """They cannot be judged. Each way that the line names shows what makes the strings."""
    strings = re.compile(r"LEAKS .*(PyUnicode_\w+|unicode_\w+|<string>:5)")
    text, hints = python_answer(bench, "--domain", "malloc")
    check(len(hints) == 1 and hints[0].startswith("cannot be judged: ") and not strings.search(text),
          f"the way, and no strings: {text}")
    options = re.findall(r"'(--[^']+)'", hints[0])
    check_equal(options[0], "--domain python", "the first way")
    name, value = re.search(r"(PYTHON\w+)=(\w+)", hints[0]).groups()
    for answer, left in (*(python_answer(bench, *option.split()) for option in options[NO_SESSIONS:]),
                         python_answer(bench, "--domain", "malloc", **{name: value})):
        check(not left and strings.search(answer.replace("\n", " ")), f"the way was followed: {answer}")


class RedisLoad:
    """Keys that expire and a list that is trimmed; with a set that grows for ever, or without."""
    def __init__(self, redis, leaks):
        self.redis, self.leaks, self.ends = redis, leaks, False
        self.thread = threading.Thread(target=self.run)

    def run(self):
        i = 0
        while not self.ends:
            i += 1
            if self.leaks:
                self.redis.command(b"SADD", b"everybody", b"somebody with a long enough name %d" % i)
            self.redis.command(b"SET", b"session:%d" % i, b"v" * 300, b"EX", b"2")
            self.redis.command(b"LPUSH", b"log", b"l" * 150)
            if i % 25 == 0:
                self.redis.command(b"LTRIM", b"log", b"0", b"200")
            time.sleep(0.01)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends = True
        self.thread.join()


def redis_report(bench, leaks):
    redis = Redis.start_on(bench)
    with RedisLoad(redis, leaks):
        time.sleep(3)
        return leaks_of(bench, str(redis.pid), "--for", "20s")


def test_leaks_of_redis(bench):
    report = redis_report(bench, leaks=True)
    verdict, functions, _ = next(iter(rows_of(report)))
    check_equal(verdict, "leaks", "the first verdict")
    check("saddCommand" in functions or "setTypeAdd" in functions, f"first: {functions}")


def test_leaks_of_redis_without_any(bench):
    report = redis_report(bench, leaks=False)
    found = [functions for verdict, functions, _ in rows_of(report) if verdict == "leaks"]
    check(not found, f"called leaks: {found}")


def test_leaks_of_an_idle_redis(bench):
    redis = Redis.start_on(bench)
    report = leaks_of(bench, str(redis.pid), "--for", "12s")
    check(not [verdict for verdict, _, _ in rows_of(report) if verdict == "leaks"], "an idle redis leaks")
