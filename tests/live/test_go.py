# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The heap of Go programs, read from the profile that their runtime keeps, against the program's own reading of it: a row that is
the same in its own readings before and after must be the same in the reading from outside."""
import glob
import json
import math
import os
import pathlib
import re
import shutil
import signal
import urllib.request

import harness
from harness import ALLOCSNAP, WORKLOADS, Skip, check, check_equal, tool, wait_for
from harness.ports import reserve_ports
from test_record import Record

SOURCE = pathlib.Path(__file__).resolve().parents[1] / "workloads" / "heap.go"
KINDS = {"plain": (), "stripped": ("-ldflags=-s -w",), "pie": ("-buildmode=pie",), "stripped pie": ("-buildmode=pie", "-ldflags=-s -w")}
RUNTIME = re.compile(r"(runtime|internal/runtime/\w+)\.")


def go_tool(version):
    """The go of this version: Debian's packages lie beside each other, ALLOCSNAP_TEST_GOS has more roots."""
    roots = glob.glob("/usr/lib/go-*") + os.environ.get("ALLOCSNAP_TEST_GOS", "").split(":")
    for root in roots:
        if root.endswith("go-" + version) and os.path.exists(root + "/bin/go"):
            return root
    raise Skip(f"Go {version} is not installed (golang-{version})")


def build(bench, version="1.19", kind="plain", source=SOURCE):
    made = os.path.join(WORKLOADS, f"heap-{version}-{kind}")  # for a machine without Go
    if source == SOURCE and os.path.exists(made):
        return made
    root, program = go_tool(version), bench.path("heap")
    environment = dict(os.environ, GOROOT=root, GOCACHE=os.environ.get("GOCACHE", os.path.expanduser("~/.cache/go-build")), GO111MODULE="off", GOTOOLCHAIN="local", GOFLAGS="-p=1")
    bench.run([root + "/bin/go", "build", *KINDS[kind], "-o", program, str(source)], seconds=300, env=environment)
    return program


class Heap:
    """tests/workloads/heap.go."""

    def __init__(self, bench, program, *args, **environment):
        self.bench = bench
        self.process = bench.start([program, *args], env=dict(os.environ, **environment))
        self.pid = self.process.pid
        self.port = int(self.process.line())

    def order(self, text):
        self.process.write(text + "\n")
        check_equal(self.process.line(), "done", f"answer to {text}")

    def truth(self):
        return truth_of(self.port)


def truth_of(port):
    """{(size, PCs): (live samples, all samples)} and {PCs: [(function, file, line)]}, as of the last collection."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/debug/pprof/heap?debug=1", timeout=300) as answer:
        text = answer.read().decode()
    rows, names, stack = {}, {}, None
    for line in text.splitlines():
        row = re.match(r"(\d+): (\d+) \[(\d+): (\d+)\] @ ?(.*)", line)
        frame = re.match(r"#\t0x\S+\t+(\S+)\+0x\S+\t+(.*):(\d+)", line)
        if row:  # without samples of the last collection it has no frames of its own
            stack = tuple(int(pc, 16) for pc in row[5].split()) if int(row[3]) else None
        if row and stack is not None:
            rows[int(row[4]) // int(row[3]), stack] = int(row[1]), int(row[3])
            names[stack] = []
        elif frame and stack:
            names[stack].append((frame[1], frame[2], int(frame[3])))
    return rows, names, int(re.search(r"heap/(\d+)", text)[1]) // 2


def reading_of(bench, pid, times=1):
    """The same rows of a reading from outside; {(size, PCs): live samples now}; the rate; the walks."""
    lines = bench.run([os.path.join(WORKLOADS, "read_go"), str(pid), str(times)], seconds=120)[0].splitlines()
    _, version, rate, walks = lines[0].split()
    rows, now = {}, {}
    for line in lines[1:]:
        size, allocations, frees, now_allocations, now_frees, *stack = line.split()
        key = int(size), tuple(int(pc, 16) for pc in stack)
        if int(allocations):
            rows[key] = int(allocations) - int(frees), int(allocations)
        now[key] = int(now_allocations) - int(now_frees)
    return rows, now, int(rate), version


def check_rows(bench, pid, port, rounds=4, times=1):
    """How many rows were compared."""
    compared = 0
    for _ in range(rounds):
        before, _, rate = truth_of(port)
        found, _, found_rate, _ = reading_of(bench, pid, times)
        after, _, _ = truth_of(port)
        same = {key for key in before.keys() | after.keys() | found.keys() if key[0] and before.get(key) == after.get(key)}
        wrong = {key: (before.get(key), found.get(key)) for key in same if before.get(key) != found.get(key)}
        check(not wrong, f"{len(wrong)} of {len(same)} rows are not the program's own: {list(wrong.items())[:3]}")
        check_equal(found_rate, rate, "bytes from sample to sample")
        compared += len(same)
    return compared


VERSIONS = ("1.19", "1.22", "1.24", "1.27")


@harness.rows({**{f"{version} {kind}": (version, kind) for version in ("1.19",) for kind in KINDS},
               **{f"{version} stripped": (version, "stripped") for version in VERSIONS[1:]}}, of_core=("1.19 stripped",))
def test_go_rows_are_the_programs_own(bench, version, kind):
    """While it allocates and collects."""
    heap = Heap(bench, build(bench, version, kind))
    heap.order("leak 20000")
    heap.order("churn 200000")
    heap.order("collect")
    heap.order("loop 40")
    compared = check_rows(bench, heap.pid, heap.port)
    check(compared > 20, f"only {compared} rows stood still")


@harness.for_each(("1.19", "1.27"))
def test_go_is_read_while_it_collects_all_the_time(bench, version):
    """Many readings amid collections; each of them is of one moment, or is not taken."""
    heap = Heap(bench, build(bench, version, "stripped"), "8192", GOGC="1")
    heap.order("leak 2000")
    for _ in range(2):
        heap.order("loop 3")
    check(check_rows(bench, heap.pid, heap.port, rounds=10, times=50) > 0, "no row stood still")
    heap.order("collect")


def is_same_name(ours, theirs):
    """Go prints type arguments as "[...]"."""
    return ours == theirs or ("[" in theirs and ours.split("[")[0] == theirs.split("[")[0])


def without_runtime(frames):
    """As Go prints a stack: without goexit, and without the runtime's frames that its first other frame has called."""
    frames = [frame for frame in frames if frame[0] != "runtime.goexit"]
    own = next((i for i, frame in enumerate(frames) if not RUNTIME.match(frame[0])), 0)
    return frames[own:]


def frames_of(row):
    return tuple((frame.get("function"), frame["filename"], frame["lineno"]) for frame in row["traceback"])


def live_by_names(truth):
    """{frames that Go prints: live samples} of all sizes."""
    rows, names, _ = truth
    live = {}
    for (_, stack), (samples, _) in rows.items():
        if samples:
            live[tuple(names[stack])] = live.get(tuple(names[stack]), 0) + samples
    return live


def check_snapshot(bench, path, truth):
    """Each stack has its samples, and the frames that Go itself prints."""
    found = {}
    for row in bench.stats(path, "--group-by", "traceback", "--include", "domain=go", "--keep-wrappers")["statistics"]:
        frames = tuple(without_runtime(frames_of(row)))
        found[frames] = found.get(frames, 0) + row["samples"]
    for stack, live in live_by_names(truth).items():
        ours = [samples for frames, samples in found.items() if len(frames) == len(stack) and
                all(is_same_name(a[0], b[0]) and a[1:] == b[1:] for a, b in zip(frames, stack))]
        check_equal(ours, [live], f"samples of {stack}, among {list(found)}")
    check_equal(sum(found.values()), sum(live_by_names(truth).values()), "samples")


@harness.rows({f"{version} {kind}": (version, kind) for version, kind in
               (("1.19", "stripped"), ("1.19", "pie"), ("1.24", "stripped"), ("1.27", "stripped"))}, of_core=("1.19 stripped",))
def test_go_snapshot_has_the_samples_and_names(bench, version, kind):
    """The program stands still. Its samples are older than the recording, too."""
    heap = Heap(bench, build(bench, version, kind))
    heap.order("leak 30000")
    heap.order("churn 100000")
    heap.order("collect")
    recording = bench.attach([heap.process])
    path = recording.snapshot()
    truth = heap.truth()
    check_snapshot(bench, path, truth)
    check("main.remember" in str(live_by_names(truth)), "the leak has no samples")
    shown = bench.show(path)
    metadata = shown["metadata"]
    check_equal((metadata["sample_bytes"], metadata["go_rate"]), (truth[2], "read"), "the rate")
    check_equal(metadata["domains"].split(",")[0], "go", "domains")
    check_equal(metadata["go_version"].rpartition(".")[0], "go" + version, "its version")
    check_equal(shown["counters"]["entry_traps"], 0, "traps")
    allocated = sum(every / -math.expm1(-size / truth[2]) for (size, _), (_, every) in truth[0].items())
    check(abs(shown["counters"]["allocations"] / allocated - 1) < 0.001, f"{shown['counters']['allocations']} of {allocated} blocks")
    heap.order("leak 20000")
    heap.order("collect")
    check_snapshot(bench, recording.snapshot(), heap.truth())
    recording.end(signal.SIGINT)


def leaks_of(bench, pid, *options, status=0):
    return json.loads(bench.run([ALLOCSNAP, "leaks", str(pid), "--for", "10s", "--json", *options], status, 90)[0])


def has_freed(heap, function):
    """Whether its loop holds less than half of the samples that it has taken there, at least of ten."""
    rows, names, _ = heap.truth()
    found = [counts for (_, stack), counts in rows.items() if [frame[0] for frame in names[stack]][:2] == [function, "main.loop"]]
    every = sum(counts[1] for counts in found)
    return every > 10 and 2 * sum(counts[0] for counts in found) < every


def first_line(report):
    check(report["leaks"], f"nothing leaks: {report}")
    return report["leaks"][0]["lines"][0]


@harness.core
def test_go_leak_is_first(bench):
    """Also with what leaked before the recording."""
    heap = Heap(bench, build(bench, "1.19", "stripped"))
    heap.order("leak 40000")
    heap.order("churn 100000")
    heap.order("collect")
    heap.order("loop 4")
    wait_for(lambda: has_freed(heap, "main.churnHere"), "its ring is full")
    report = leaks_of(bench, heap.pid)
    line = first_line(report)
    rows = [(row["verdict"], row["bytes_per_s"], row["traceback"][0].get("function")) for each in report["leaks"] for row in each["lines"]]
    check_equal(line["traceback"][0]["function"], "main.remember", f"the first line of {rows}")
    check(line["verdict"] in ("leaks", "may-leak"), f"{line['verdict']}: a busy machine may give it few samples")
    check(line["allocated"] > 40000, f"{line['allocated']} blocks since the program's start")
    check(not any("main.churnHere" == row["traceback"][0].get("function") for bundle in report["leaks"] for row in bundle["lines"]
                  if row["verdict"] == "leaks"), "what is freed is called a leak")


def test_go_that_collects_nothing_is_not_judged(bench):
    """Blocks that no collection has looked at may be garbage."""
    heap = Heap(bench, build(bench, "1.19", "stripped"), GOGC="off")
    heap.order("churn 100000")
    report = leaks_of(bench, heap.pid, status=3)
    check("has collected garbage not once" in report["unjudged"], report["unjudged"])
    check(not report["leaks"], f"garbage is called a leak: {report['leaks']}")


PLAIN = """package main
import "os"
func main() { kept := make([][]byte, 0); for i := 0; i < 1000; i++ { kept = append(kept, make([]byte, 10000)) }
os.Stdout.WriteString("ready\\n"); os.Stdin.Read(make([]byte, 1)); os.Exit(len(kept) % 1000) }
"""


def test_go_without_a_profile_says_so(bench):
    pathlib.Path(bench.path("plain.go")).write_text(PLAIN, encoding="ascii")
    process = bench.start([build(bench, source=bench.path("plain.go"), kind="stripped")])
    process.line()
    for command in ("attach", "leaks"):
        said = bench.run([ALLOCSNAP, command, str(process.pid)], status=1)[1]
        check("linked without its heap profile" in said, f"{command}: {said!r}")


BUSY = """package main
import ("os"; "time")
var kept [][]byte
var ring [512][]byte
//go:noinline
func leak() { kept = append(kept, make([]byte, 10000)) }
//go:noinline
func churn(i int) { ring[i%512] = make([]byte, 9000) }
func main() {
	os.Stdout.WriteString("ready\\n")
	for i := 0; ; i++ {
		leak()
		for k := 0; k < 20; k++ { churn(i*20+k) }
		time.Sleep(time.Millisecond)
	}
}
"""


@harness.for_each(("1.19", "1.27"))
def test_go_profile_is_switched_on_and_off(bench, version):
    pathlib.Path(bench.path("busy.go")).write_text(BUSY, encoding="ascii")
    process = bench.start([build(bench, version, "stripped", bench.path("busy.go"))])
    process.line()
    recording = bench.attach([process], "--go-profile", "on")
    check_equal(bench.show(recording.snapshot())["metadata"]["go_profile"], "switched on by the recording", "who switched it on")

    def has_leak():
        rows = bench.stats(recording.snapshot())["statistics"]  # none as long as there is no sample
        return any(row["traceback"][0].get("function") == "main.leak" for row in rows)
    wait_for(has_leak, "the leak")
    check_equal(reading_of(bench, process.pid)[2], 512 << 10, "bytes from sample to sample")
    recording.end(signal.SIGINT)
    check_equal(reading_of(bench, process.pid)[2], 0, "bytes from sample to sample after the recording")
    check_equal(process.popen.poll(), None, "the program runs on")


def test_go_profile_that_a_killed_recording_has_left_on(bench):
    """It is read, and said; the option takes it back."""
    pathlib.Path(bench.path("busy.go")).write_text(BUSY, encoding="ascii")
    process = bench.start([build(bench, "1.19", "stripped", bench.path("busy.go"))])
    process.line()
    bench.attach([process], "--go-profile", "on").kill()
    check_equal(reading_of(bench, process.pid)[2], 512 << 10, "bytes from sample to sample after it was killed")
    recording = bench.attach([process])
    check("a recording that was killed has left it so" in recording.stderr(), recording.stderr())
    metadata = bench.show(recording.snapshot())["metadata"]
    check_equal((metadata["go_profile"], metadata["go_rate"]), ("was switched on before the recording", "read"), "who switched it on")
    recording.end(signal.SIGINT)
    bench.attach([process], "--go-profile", "on").end(signal.SIGINT)
    check_equal(reading_of(bench, process.pid)[2], 0, "bytes from sample to sample after the recording")
    check_equal(process.popen.poll(), None, "the program runs on")


def test_go_profile_that_the_program_has_switched_off(bench):
    heap = Heap(bench, build(bench, "1.19", "stripped"), "0")
    heap.order("leak 20000")
    recording = bench.attach([heap.process], "--domain", "go")
    path = recording.snapshot()
    check_equal(bench.show(path)["metadata"]["go_rate"], "off", "its rate")
    check("the program has set runtime.MemProfileRate to 0" in recording.stderr(), recording.stderr())
    check("since its program has set runtime.MemProfileRate to 0" in bench.allocsnap("stats", path)[1], "no warning")
    recording.end(signal.SIGINT)


def test_go_profile_is_not_switched_on_elsewhere(bench):
    """No Go program, and a program that has a profile: that one is read as it is."""
    target = bench.workload("known")
    said = bench.run([ALLOCSNAP, "attach", str(target.pid), "--go-profile", "on"], status=1)[1]
    check("it is no Go program" in said, said)
    heap = Heap(bench, build(bench, "1.19", "stripped"), "4096")
    recording = bench.attach([heap.process], "--go-profile", "on")
    check_equal(bench.show(recording.snapshot())["metadata"]["sample_bytes"], 4096, "bytes from sample to sample")
    recording.end(signal.SIGINT)
    check_equal(heap.truth()[2], 4096, "its own rate")


def test_go_begins_and_ends_while_it_is_recorded(bench):
    """run: from the first sample to the last reading; exec: the next program's heap, and nothing of the one before."""
    program = build(bench, "1.19", "stripped")
    orders = "leak 20000\ncollect\n"
    out = bench.path("out")
    os.mkdir(out)
    command = f"{ALLOCSNAP} run -o {out} --interval 1s -- {program} < {bench.path('orders')}"
    pathlib.Path(bench.path("orders")).write_text(orders + "churn 10\n" * 100000, encoding="ascii")
    bench.run([tool("sh"), "-c", command], seconds=120)
    last = sorted(glob.glob(f"{out}/**/*.snap", recursive=True))[-1]
    check_equal(bench.show(last)["metadata"]["end"], "exited 0", "its end")
    rows = bench.stats(last, "--include", "domain=go")["statistics"]
    check(any(row["traceback"][0].get("function") == "main.remember" for row in rows), f"rows of a program that has ended: {rows}")


def has_leak(bench, folder):
    last = max(glob.glob(f"{folder}/**/*.snap", recursive=True), default=None)
    return last and any(row["traceback"][0].get("function") == "main.remember" for row in bench.stats(last)["statistics"])


@harness.alone
def test_go_rows_of_record(bench):
    """By rules, for a program that begins while it is recorded, and by the PID of one that runs."""
    program = build(bench, "1.19", "stripped")
    heap = None
    for rule in ("--exe", "--pid"):
        folder = bench.path(f"out{rule}")
        recorder = bench.start([ALLOCSNAP, "record", "-o", folder, "--interval", "1s", rule, str(heap.pid) if heap else program],
                               kind=Record, folder=folder)
        recorder.line_of("recording")
        heap = heap or Heap(bench, program)
        heap.order("leak 20000")
        heap.order("collect")
        wait_for(lambda path=folder: has_leak(bench, path), "the leak in a snapshot")
        recorder.end()
        said = recorder.stderr()
        check("is off" not in said and "makes no sense" not in said, f"while its runtime begins: {said!r}")


@harness.rows({"prometheus": (["prometheus", "--config.file={}/empty.yml", "--storage.tsdb.path={}/data", "--web.listen-address=127.0.0.1:{}"],),
               "prometheus-node-exporter": (["prometheus-node-exporter", "--web.listen-address=127.0.0.1:{}"],),
               "etcd": (["etcd", "--data-dir={}/data", "--enable-pprof", "--listen-client-urls=http://127.0.0.1:{}",
                         "--advertise-client-urls=http://127.0.0.1:{}", "--listen-peer-urls=http://127.0.0.1:0"],)})
def test_go_rows_of_daemons_are_their_own(bench, command):
    """Debian's own builds, stripped."""
    if not shutil.which(command[0]):
        raise Skip(f"{command[0]} is not installed")
    pathlib.Path(bench.path("empty.yml")).write_text("", encoding="ascii")
    port, = reserve_ports(1)
    argv = [word.replace("{}/", bench.folder + "/").replace("{}", str(port)) for word in command]
    process = bench.start([tool(argv[0]), *argv[1:]], cwd=bench.folder)
    def answers():
        try:
            return truth_of(port)[0]
        except OSError:
            return None
    wait_for(answers, "its answer")
    check(check_rows(bench, process.pid, port, rounds=3) > 5, "no row stood still")
    recording = bench.attach([process])
    path = recording.snapshot()
    recording.end(signal.SIGINT)
    check_equal(bench.show(path)["metadata"]["domains"].split(",")[0], "go", "domains")
