# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Resident memory of ten programs under load: what `--domain pages` says of each process, beside the kernel's own sum."""
import contextlib
import os
import pathlib
import signal
import subprocess
import sys

import harness
from harness import ALLOCSNAP, NEVER, WORKLOADS, check, check_equal, children_of, cpu_seconds, is_running, tool, wait_for
from harness.processes import OURS
import loads
from load import Load, Sqlite
from terminal import PLANTED

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "report"))
import report_file  # pylint: disable=wrong-import-position,wrong-import-order

MOST_UNEXPLAINED = 0.01  # of RSS, in each process
KIB = 1024
# {part: its words in text}. Together the parts are RSS; the first ones have a name, and the last one says why it has none.
NAMED = {"traced": "by code", "older": "older than the recording", "inherited": "from before the fork",
         "by_kernel": "by the kernel's own threads", "files": "of files", "shared": "shared"}
PARTS = NAMED | {"unattributed": "not attributed"}


class RecordedBench:
    """A bench that starts its program by `allocsnap run`, so that it is recorded from its start."""

    def __init__(self, bench):
        self.bench, self.recorder = bench, None
        self.path, self.run, self.start_raw, self.folder = bench.path, bench.run, bench.start_raw, bench.folder
        self.data = bench.path("data")

    def start(self, argv, **options):
        run = [ALLOCSNAP, "run", "--follow-forks", "--domain", "pages", "-i", NEVER, "-o", self.data, "--", *argv]
        process = self.bench.start(run, **options)
        self.recorder = process.popen
        wait_for(lambda: programs_of(process), f"allocsnap starts {argv[0]}")
        process.pid, = programs_of(process)
        process.run_folder = None  # its output is the program's, without paths of snapshots
        end = process.kill
        process.kill = lambda: end_with_programs(end, process.pid)
        return process


def end_with_programs(end, first):
    """A program outlives `run` if that is killed."""
    pids = with_children(first)
    end()
    for pid in filter(is_running, pids):
        os.kill(pid, signal.SIGKILL)


def programs_of(run):
    return [pid for pid, comm in children_of(run.popen.pid) if comm not in (*OURS, "allocsnap")]


def with_children(pid):
    return [pid, *(pid for child, _ in children_of(pid) for pid in with_children(child))]


# ---- the programs: each gives the PID of its first process, which is under load meanwhile ----

def stat_of(pid):
    """The fields of /proc/PID/stat from the state on."""
    return pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()


def parent_of(pid):
    return int(stat_of(pid)[1])


@contextlib.contextmanager
def redis(bench):
    server = loads.GrowingRedis.start_on(bench)
    server.start_load(bench)
    with loads.EndlessLoad(server.step):
        yield server.pid


SESSIONS = 2  # of Postgres.start_bench()


@contextlib.contextmanager
def postgres(bench):
    server = loads.Postgres(bench)
    server.start_bench("SELECT abalance FROM pgbench_accounts WHERE aid = 1 + (random() * 99999)::int;\n")
    wait_for(lambda: sum(server.is_session(pid) for pid, _ in children_of(server.server.pid)) == SESSIONS, "pgbench's sessions")
    yield server.server.pid


@contextlib.contextmanager
def nginx(bench):
    worker, page = loads.start_nginx(bench)
    bench.start_raw([tool("ab"), "-q", "-k", "-c", "4", "-t", "600", "-n", "100000000", page], stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    yield parent_of(worker)


@contextlib.contextmanager
def sqlite3(bench):
    shell = Sqlite.start_on(bench)
    with Load(shell.step):
        yield shell.pid


@contextlib.contextmanager
def gunicorn(bench):
    workers, path = loads.start_gunicorn(bench, "visits", 2)
    with loads.EndlessLoad(lambda index: loads.visit(path, index)):
        yield parent_of(workers[0])


def loads_itself(start):
    """A program that works without being asked: start(bench) gives its process."""
    @contextlib.contextmanager
    def started(bench):
        yield start(bench).pid
    return started


def start_go(bench):
    loads.build(bench, ["go", "build", "-ldflags=-s -w", "-o", "listeners", str(PLANTED / "listeners.go")], CGO_ENABLED="1")
    return bench.start([bench.path("listeners")])


def start_static(bench):
    """own_pages without any symbols."""
    program = bench.path("own_pages")
    bench.run([tool("strip"), "-o", program, os.path.join(WORKLOADS, "own_pages")])
    return bench.start([program])


PROGRAMS = {
    "redis": redis, "postgres": postgres, "nginx": nginx, "sqlite3": sqlite3, "gunicorn": gunicorn,
    "python3": loads_itself(lambda bench: loads.start_python(bench, "small")),
    "node": loads_itself(loads.start_node),
    "java": loads_itself(lambda bench: loads.start_java(bench, "Sessions", "-Xmx256m")),
    "go": loads_itself(start_go),
    "static": loads_itself(start_static),
}


# ---- what is said of them ----

LEAST_FAULTS, LEAST_CPU_SECONDS = 500, 1


def work(pids):
    """Waits until they have got some memory, or worked with what they have."""
    def done():
        living = list(filter(is_running, pids))
        return sum(int(stat_of(pid)[7]) for pid in living), sum(map(cpu_seconds, living))

    faults, seconds = done()
    wait_for(lambda: done()[0] >= faults + LEAST_FAULTS or done()[1] >= seconds + LEAST_CPU_SECONDS, "the load goes on")


@contextlib.contextmanager
def stopped(pids):
    """The processes that have not ended stand still, so that no page comes or goes between the reading of allocsnap and ours."""
    pids = list(filter(is_running, pids))
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        wait_for(lambda: all(stat_of(pid)[0] == "T" for pid in pids), "the processes stand still")
        yield pids
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)



def kernels_sum(pid):
    """RSS, as the kernel adds up each mapping's pages."""
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1]) * KIB
    return 0


def check_process(bench, path, rss):
    """The parts are RSS, to the page, in each form of the answer; returns those without a name, in bytes."""
    shown = bench.show(path)
    pages = shown["pages"]
    check_equal(sum(pages[part] for part in PARTS), rss, f"RSS of {shown['metadata']['comm']} as the sum of {pages}")
    rows = bench.stats(path, "--group-by", "traceback")["statistics"]
    check_equal(sum(row["size"] for row in rows), pages["traced"], "the rows of stats")
    text = bench.allocsnap("show", path)[0]
    for part, words in PARTS.items():
        check(not pages[part] or f" {words}" in text, f"{pages[part]} bytes {words} are not in {text}")
    check(not pages["unattributed"] or pages["unseen"] in text, f"no reason in {text}")
    page = path + ".html"
    bench.allocsnap("report", path, "-o", page)
    reported, = report_file.read(page)["snapshots"]
    check_equal((reported["pages"], reported["traced"]["current"]), (pages, pages["traced"]), "the report")
    return pages, pages["unattributed"] + sum(row["size"] for row in rows if not row["traceback"])


def check_explained(bench, pids, paths, how):
    """A line for each process: what its RSS is made of. `paths`: {PID: its snapshot}."""
    lines = []
    for pid in pids:
        rss = kernels_sum(pid)
        pages, unexplained = check_process(bench, paths[pid], rss)
        parts = ", ".join(f"{pages[part] // KIB} KiB {words}" for part, words in PARTS.items() if pages[part])
        comm = pathlib.Path(f"/proc/{pid}/comm").read_text(encoding="ascii").strip()
        lines.append(f"{comm} {how}: RSS {rss // KIB} KiB = {parts}: {unexplained / rss:.2%} unexplained")
        check(unexplained <= MOST_UNEXPLAINED * rss, lines[-1])
    print("\n".join(lines), flush=True)


def pid_of(path):
    return int(pathlib.Path(path).parent.name.rpartition(".")[2])


def last_snapshots(folder):
    return {pid_of(path): str(path) for path in sorted(pathlib.Path(folder).glob("*/*.*/*.snap"))}


def snapshots_of(recording, pids):
    """New ones of these processes."""
    paths = {}
    recording.popen.send_signal(signal.SIGUSR1)
    while set(pids) - set(paths):
        path = recording.path()
        paths[pid_of(path)] = path
    return paths


@harness.rows({name: (start,) for name, start in PROGRAMS.items()})
def test_resident_memory_is_explained(bench, start):
    """Recorded from its start, and by a recording that attaches later: 99 % of RSS have a name in each process."""
    recorded = RecordedBench(bench)
    with start(recorded) as first:
        pids = with_children(first)
        attached = bench.attach(pids, "--domain", "pages")
        work(pids)
        with stopped(pids) as pids:
            recorded.recorder.send_signal(signal.SIGUSR1)
            wait_for(lambda: set(pids) <= set(last_snapshots(recorded.data)), "a snapshot of each process")
            check_explained(bench, pids, last_snapshots(recorded.data), "from its start")
            check_explained(bench, pids, snapshots_of(attached, pids), "attached")
        attached.end(signal.SIGINT)
