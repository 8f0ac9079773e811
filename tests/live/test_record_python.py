# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""allocsnap record --domain python: several processes at once, each by probes of its own, against their own tracemalloc.
The programs are a copy of the machine's Python, which no other process runs."""
import json
import os
import pathlib
import shutil
import time

import harness
import pythons
from harness import ALLOCSNAP, Skip, changed_places, check, check_equal, check_unchanged, losses_of, need_sessions, tool, wait_for
from test_python import ENVIRONMENT, FRAMES, PYTHON, TARGET, Target, examples, traces_of_work
from test_record import World, check_held

MARKS = ("alone",)

SLACK = ("tracebacks_limited", "tracebacks_summed")  # no block lacks its traceback because of the latter
STARTER = "import subprocess, sys; input(); subprocess.call(sys.argv[1:])"


class Pythons(World):
    """Programs that are links to one file, so that they differ by name only."""

    def __init__(self, bench):
        need_sessions()
        if not os.path.exists(PYTHON):
            raise Skip(f"there is no {PYTHON}")
        super().__init__(bench)
        self.environment |= ENVIRONMENT | {"PYTHONHOME": "/usr", "LD_LIBRARY_PATH": self.libraries}
        shutil.copy(os.path.realpath(PYTHON), bench.path("python"))

    def link(self, name):
        path = self.bench.path(name)
        if not os.path.exists(path):
            os.link(self.bench.path("python"), path)
        return path

    def python(self, name, **more):
        return self.bench.start([self.link(name), "-S", str(TARGET)], kind=Target, env=self.environment | more).ready()

    def short(self, name, code):
        return self.bench.run([self.link(name), "-S", "-c", code], env=self.environment)


class Worker(Target):
    """A forked child of a target, which obeys by two named pipes."""

    def __init__(self, bench, parent):
        self.paths = bench.path(f"orders.{parent.pid}"), bench.path(f"answers.{parent.pid}")
        for path in self.paths:
            os.mkfifo(path)
        before = {pid for pid, _ in harness.children_of(parent.pid)}
        parent.order("fork " + " ".join(self.paths))
        self.pid, = {pid for pid, _ in harness.children_of(parent.pid)} - before
        self.orders = open(self.paths[0], "w", encoding="utf-8")
        self.answers = open(self.paths[1], encoding="utf-8")
        self.popen = parent.popen
        self.ready()

    def write(self, text):
        self.orders.write(text)
        self.orders.flush()

    def line(self, seconds=60):
        return self.answers.readline().rstrip("\n")

    def close(self):
        self.orders.close()
        self.answers.close()


def latest(recorder, process):
    """The path of its snapshot in a pass that is taken now, or None."""
    found = [path for path in recorder.pass_now() if path.split("/")[-2].endswith(f".{process.pid}")]
    return found[-1] if found else None


def has_python(bench, path):
    return path and any(probe["function"] == "CPython's free" for probe in bench.show(path)["probes"])


def wait_for_probes(bench, recorder, *processes):
    """Until Python's view of them has begun. A child that has allocated nothing has no snapshot."""
    def is_probed(process):
        process.order("collect")
        return has_python(bench, latest(recorder, process))
    for process in processes:
        wait_for(lambda: is_probed(process), f"probes in {process.pid}", 60)


def work(bench, recorder, processes):
    """Lets them work, and ends the recording: {PID: path of the snapshot after that}. A pass that the recorder takes by
    itself, when others have ended, may have begun before."""
    for number, process in enumerate(processes):
        process.order(f"start {FRAMES}")
        process.order("work threads" if number % 3 == 2 else "work few")
    found, since = {}, time.monotonic_ns()

    def is_found():
        for path in recorder.pass_now():
            if int(bench.show(path)["metadata"]["monotonic_ns"]) >= since:
                found.setdefault(int(path.split("/")[-2].split(".")[-1]), path)
        return all(process.pid in found for process in processes)
    wait_for(is_found, "snapshots after the work", 60)
    recorder.end()
    return found


def recorded_work(bench, path):
    """A newcomer's snapshot has much more."""
    filtered = "--include", "file=*/python_work.py,all-frames", "--keep-wrappers"
    return traces_of_work(json.loads(bench.allocsnap("convert", path, "-o", "-", *filtered)[0])["traces"])


def check_work(bench, processes, paths):
    """Each has in its snapshot what its own tracemalloc has, which says so faster without probes."""
    for process in processes:
        path = paths[process.pid]
        ours, theirs = recorded_work(bench, path), dumped_by(bench, process)
        check(sum(theirs.values()) > 500, f"tracemalloc has only {examples(theirs)}")
        missing = theirs - ours
        check(not missing, f"{process.pid}: only tracemalloc has {examples(missing)}; only we {examples(ours - theirs)}")
        check_equal(losses_of(bench.show(path), SLACK), {}, f"losses of {process.pid}")


def dumped_by(bench, process):
    path = bench.path(f"dump.{process.pid}")
    process.order("dump " + path)
    with open(path, encoding="utf-8") as file:
        return traces_of_work(json.load(file))


def domains_of(bench, path):
    return {row["key"] for row in bench.stats(path, "--group-by", "domain")["statistics"]}


def record_exactly(bench, number, others=()):
    """Some that run already, as many newcomers, and a child that the first one forks, which has an account of its own. One
    more of the same file matches no rule, and meets no probe."""
    world = Pythons(bench)
    other = world.python("other")
    before = changed_places(other.pid)
    processes = [world.python("snake") for _ in range(number)]
    rules = [word for path in (world.link("snake"), *others) for word in ("--exe", path)]
    recorder = world.record("--domain", "python", "--traceback-limit", str(FRAMES), "--min-bytes", "1", *rules)
    processes += [world.python("snake") for _ in range(number)]
    processes += [bench.start([path, "-S", str(TARGET)], kind=Target, env=ENVIRONMENT).ready() for path in others]
    worker = Worker(bench, processes[0])
    try:
        wait_for_probes(bench, recorder, *processes, worker)
        other.order("work few")
        check_unchanged(other.pid, "another Python", before)
        check_equal(recorder.bystander_traps(), 0, "traps of others")
        paths = work(bench, recorder, [*processes, worker])
        check_work(bench, [*processes, worker], paths)
    finally:
        worker.close()
    check(other.pid not in paths, "another Python is recorded")
    check("gaps" not in bench.show(paths[processes[0].pid]), "a gap in one that ran before")
    check_equal(len(bench.show(paths[processes[-1].pid])["gaps"]), 1, "gaps of a newcomer")
    of_worker = bench.show(paths[worker.pid])
    check_equal(len(of_worker["gaps"]), 1, "gaps of a forked child")
    check_equal(int(of_worker["metadata"]["parent_pid"]), processes[0].pid, "its parent")


def test_record_python_is_exact_for_several_at_once(bench):
    record_exactly(bench, 1)


def test_record_python_is_exact_for_many_and_several_versions(bench):
    """The environment names them. Those before 3.11 have free lists of frames, and are left out."""
    record_exactly(bench, 6, [path for version, path in pythons.named().items() if version and version >= (3, 11)])


def test_record_python_beside_the_heap_of_others(bench):
    """One C library serves both. A Python's blocks are Python's only, from before its view began, too."""
    world = Pythons(bench)
    world.holds("snake-not")  # so that the C library has its shared probes
    debug = world.python("snake-debug", PYTHONMALLOC="debug")
    recorder = world.record("--domain", "python,malloc", "--comm", "snake*", "--traceback-limit", str(FRAMES))
    python, later = world.python("snake"), world.holds("snake-later")
    wait_for_probes(bench, recorder, python)
    debug.order("work few")
    paths = work(bench, recorder, [python])
    check_work(bench, [python], paths)
    check_equal(domains_of(bench, paths[python.pid]), {"5"}, "domains of a Python")
    check_equal(domains_of(bench, paths[debug.pid]), {"5"}, "domains of a Python with debug hooks")
    check_held(bench, recorder, later)
    check_equal(domains_of(bench, paths[later.pid]), {"0"}, "domains of another program")


def check_recorded_after(bench, world, starter, arguments, is_exec=False):
    """`starter` is recorded, and then the Python that it starts, or becomes, as if there had been no starter."""
    process = bench.start([starter, *arguments, world.link("snake"), "-S", str(TARGET)], kind=Target, env=world.environment)
    recorder = world.record("--domain", "python", "--exe", starter, "--exe", world.link("snake"), "--traceback-limit", str(FRAMES),
                            "--min-bytes", "1")
    starter_pid = process.pid
    process.write("\n")
    process.ready()
    process.pid = starter_pid if is_exec else harness.children_of(starter_pid)[0][0]
    wait_for_probes(bench, recorder, process)
    paths = work(bench, recorder, [process])
    check_work(bench, [process], paths)
    check("python_not_recorded" not in bench.show(paths[process.pid])["metadata"], "its snapshot has a reason why it is not recorded")
    notes = pathlib.Path(recorder.stderr_path).read_text(encoding="utf-8")
    check(f"process {process.pid} (snake) are not recorded" not in notes, notes)
    return paths, notes


def test_record_python_of_a_program_that_another_python_starts(bench):
    """The starter is recorded, too, and its files are another Python's: the child has them until its exec."""
    world = Pythons(bench)
    starter = shutil.copy(bench.path("python"), bench.path("starter"))
    paths, notes = check_recorded_after(bench, world, starter, ["-S", "-c", STARTER])
    check_equal(len(paths), 2, "snapshots")
    check("are not recorded" not in notes, notes)


def test_record_python_of_a_program_that_an_old_python_starts(bench):
    """The shell has the name of Python 2.7. The note about that is not about its child."""
    starter = shutil.copy("/bin/sh", bench.path("python2.7"))
    check_recorded_after(bench, Pythons(bench), starter, ["-c", 'read go; "$@"; exit', "sh"])


def test_record_python_of_a_program_that_musl_becomes(bench):
    """The earlier program has another C library than Python."""
    world = Pythons(bench)
    source, starter = bench.path("becomes.c"), bench.path("becomes")
    pathlib.Path(source).write_text("#include <stdio.h>\n#include <unistd.h>\n"
                                    "int main(int argc, char **argv) { getchar(); return execv(argv[1], argv + 1); }\n",
                                    encoding="utf-8")
    bench.run([tool("musl-gcc"), source, "-o", starter])
    check_recorded_after(bench, world, starter, [], is_exec=True)


def test_record_python_of_many_short_ones(bench):
    """Code objects of processes that are gone leave their room to others."""
    world = Pythons(bench)
    recorder = world.record("--domain", "python", "--comm", "snake", "--traceback-limit", str(FRAMES), "--min-bytes", "1")
    for number in range(100):
        world.short("snake", "import json, re, gc, time; time.sleep(0.05)")
        if number % 20 == 0:
            recorder.pass_now()  # tracebacks stay until a process has had its last snapshot
    python = world.python("snake")
    wait_for_probes(bench, recorder, python)
    check_work(bench, [python], work(bench, recorder, [python]))


CHILDREN = """
import os
print("ready", flush=True)
while True:
    child = os.fork()
    if not child:
        kept = [[] for _ in range(200)]
        os.execv("/bin/true", ["true"])
    os.waitpid(child, 0)
"""


def test_record_python_says_nothing_of_programs_that_it_becomes(bench):
    """A child that is Python for some milliseconds only: its next program has no note about Python's objects."""
    need_sessions()
    parent = bench.start([tool("python3"), "-c", CHILDREN])
    parent.line()
    comm = pathlib.Path(f"/proc/{parent.pid}/comm").read_text(encoding="utf-8").strip()
    _, errors = bench.run([ALLOCSNAP, "record", "--domain", "python", "--comm", comm, "--comm", "true", "-d", "3s", "-i", "1h",
                           "-o", bench.path("becomes")])
    check("are not recorded" not in errors, errors)


def check_default(bench, path):
    """Its heap, and its pools at Python's lines."""
    shown = bench.show(path)
    check_equal((shown["metadata"]["domains"], shown["metadata"].get("sampler_kind")), ("python,malloc", "pools"), "views")
    check("unrecorded" not in shown["metadata"], shown["metadata"].get("unrecorded"))
    lines = {os.path.basename(row["traceback"][0]["filename"]) for row in bench.stats(path)["statistics"]}
    check("python_work.py" in lines and any(line.endswith(".c") or "python" in line for line in lines - {"python_work.py"}),
          f"files of its rows: {sorted(lines)}")


def test_record_by_default_has_pools_of_python_beside_its_heap(bench):
    """A program that runs, one that begins, and a forked worker; also with a budget."""
    world = Pythons(bench)
    for number, options in enumerate(((), ("--max-overhead", "100"))):
        early = world.python(f"python{number}early")
        recorder = world.record("--comm", f"python{number}*", *options)
        late = world.python(f"python{number}late")
        for process in (early, late):
            wait_for_probes(bench, recorder, process)
        worker = Worker(bench, early)
        wait_for_probes(bench, recorder, worker)
        for process in (early, late, worker):
            process.order("work threads")
        paths = {int(path.split("/")[-2].split(".")[-1]): path for path in recorder.pass_now()}
        for process in (early, late, worker):
            check_default(bench, paths[process.pid])
        recorder.end()
        worker.close()


def test_record_by_default_says_that_python_is_not_recorded(bench):
    """Where its pools cannot be: samples of the heap."""
    world = Pythons(bench)
    python = world.python("pythonsampled")
    recorder = world.record("--comm", "python*", "--sample", "4K")
    python.order("work few")
    metadata = bench.show(latest(recorder, python))["metadata"]
    check_equal((metadata["domains"], "Python's objects" in metadata.get("unrecorded", "")), ("malloc", True), "the metadata")
    recorder.end()
