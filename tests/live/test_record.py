# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""allocsnap record: which processes are admitted, now and later, and which snapshots they leave. The targets
have a C library of their own, so that no other process of the machine meets a probe.
"""
import collections
import contextlib
import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import subprocess

from cgroup import mounted, mounted_for_us
import harness
from harness import (ALLOCSNAP, NEVER, WORKLOADS, Process, Workload, changed_code, changed_places, check, check_equal,
                     check_unchanged, children_of, link_holder_of, strangers_probes, tool, wait_for)

MARKS = ("alone",)

HOLDS = os.path.join(WORKLOADS, "holds")


class Record(Process):
    """A running `allocsnap record`."""

    def __init__(self, argv, stderr_path, folder, **options):
        super().__init__(argv, stderr_path, **options)
        self.folder = folder

    def paths(self):
        return sorted(str(path) for path in pathlib.Path(self.folder).rglob("*.snap")
                      if not path.parent.name.startswith("warm-up."))

    def names(self):
        """{COMM.PID: snapshots}"""
        return collections.Counter(path.split("/")[-2] for path in self.paths())

    def pass_now(self):
        """The files of one pass."""
        before = set(self.paths())
        self.pass_line()
        return [path for path in self.paths() if path not in before]

    def pass_line(self):
        """Makes the recorder take a pass, and returns the line that it prints about it."""
        self.popen.send_signal(signal.SIGUSR1)
        return self.line_of("snapshot", 60)

    def bystander_traps(self):
        """The line of a pass begins with the cost for other processes, if there is any."""
        line = self.pass_line()
        found = re.match(r"processes that are not recorded paid \d+\.\d\d s for the probes so far \((\d+) traps?\); ", line)
        check(found or "paid" not in line, f"the line of a pass: {line!r}")
        return int(found[1]) if found else 0

    def line_of(self, word, seconds=60):
        line = self.line(seconds)
        check(line and word in line, f"record said {line!r}; stderr {self.stderr()!r}")
        return line

    def end(self):
        self.popen.send_signal(signal.SIGINT)
        check_equal(self.wait(60), 0, f"exit status of record (stderr {self.stderr()!r})")
        return self.names()


class World:
    """Programs with a C library of their own, and their recorder."""

    def __init__(self, bench):
        self.bench = bench
        self.libraries = bench.path("lib")
        os.mkdir(self.libraries)
        shutil.copy(f"/lib/{harness.MULTIARCH}/libc.so.6", self.libraries)
        self.environment = dict(os.environ, LD_LIBRARY_PATH=self.libraries)

    def program(self, name):
        """A copy of `holds` under another name."""
        path = self.bench.path(name)
        if not os.path.exists(path):
            shutil.copy(HOLDS, path)
        return path

    def warm(self):
        """One that is recorded, so that the library is probed before others use it: for `--comm warm-up`."""
        return self.holds("warm-up")

    def holds(self, name, size=100003, **options):
        path = self.program(name)
        return self.bench.start([path, str(size)], kind=Workload, env=self.environment,
                                **options).ready()

    def shell(self, script, **options):
        """A shell from a copy of the machine's file; its children also use the world's C library."""
        return self.bench.start(["/bin/sh", "-c", script], env=self.environment, **options)

    def record(self, *options, interval=NEVER, under=()):
        folder = self.bench.path(f"out.{len(self.bench.processes)}")
        argv = [*under, ALLOCSNAP, "record", "-o", folder, "--interval", interval, *options]
        recorder = self.bench.start(argv, kind=Record, folder=folder)
        recorder.line_of("recording")
        return recorder

    def record_warm(self, *options, **more):
        self.warm()
        return self.record("--comm", "warm-up", *options, **more)


def name_of(process):
    return f"{os.path.basename(process.popen.args[0])[:15]}.{process.pid}"


def check_held(bench, recorder, process, size=100003):
    """Each of its snapshots has the one block, which it had before the recording began or not at all."""
    for path in recorder.paths():
        if f"/{name_of(process)}/" in path:
            sizes = [row["size"] for row in bench.stats(path)["statistics"]]
            check(size in sizes, f"{path}: no block of {size}: {sizes}")


# ---- which processes are admitted ----

def admitted(bench, *options, programs=("qa", "qb", "rb"), **popen):
    """Which of the programs that run already leave a snapshot, and whether newcomers are treated alike."""
    world = World(bench)
    before = [world.holds(name, **popen) for name in programs]
    recorder = world.record(*[option.replace("FOLDER", bench.folder) for option in options])
    after = [world.holds(name, **popen) for name in programs]
    paths = recorder.pass_now()
    seen = {path.split("/")[-2] for path in paths}
    found = [[os.path.basename(process.popen.args[0]) for process in group if name_of(process) in seen]
             for group in (before, after)]
    check_equal(len(seen), len(found[0]) + len(found[1]), f"processes recorded: {seen}")
    check_equal(found[0], found[1], "recorded processes: running ones, and new ones")
    for process in after:
        check_held(bench, recorder, process)
    return found[0]


@harness.rows({
    "selects_by_comm": (["qa", "qb"], "--comm", "q?"),
    "selects_by_several_names": (["qa", "rb"], "--comm", "qa", "--comm", "rb"),
    "excludes_by_comm": (["qa", "rb"], "--exe", "FOLDER/*", "--exclude", "comm=q*b"),
    "selects_by_exe": (["qb", "rb"], "--exe", "FOLDER/*b"),
    "excludes_by_exe": (["rb"], "--exe", "FOLDER/*", "--exclude", "exe=FOLDER/q*"),
    "needs_one_matching_rule_of_each_kind": (["qb"], "--exe", "FOLDER/*", "--comm", "*b", "--exclude", "comm=rb"),
    "excludes_by_uid": ([], "--exe", "FOLDER/*", "--exclude", "uid=0"),
}, of_core=("selects_by_comm",), of_smoke=("selects_by_comm",))
def test_record(bench, expected, *options):
    check_equal(admitted(bench, *options), expected, "recorded")


def test_record_selects_by_uid(bench):
    """The user is given by name; processes of other users are not recorded."""
    os.chmod(bench.folder, 0o755)
    user = pwd.getpwnam("nobody")
    check_equal(admitted(bench, "--uid", "nobody", "--exe", "FOLDER/*", user=user.pw_uid), ["qa", "qb", "rb"],
                "recorded")
    check_equal(admitted_root(bench), [], "recorded of root's")


def admitted_root(bench):
    world = World.__new__(World)
    world.bench, world.environment = bench, dict(os.environ, LD_LIBRARY_PATH=bench.path("lib"))
    root = world.holds("cc")
    recorder = world.record("--uid", "65534", "--comm", "cc")
    recorder.pass_now()
    return [name for name in recorder.names() if name == name_of(root)]


@harness.core
def test_record_excludes_by_pid(bench):
    """A child of a process that is excluded by PID is another process, and is recorded."""
    world = World(bench)
    fork = copy_of_fork(world)
    recorder = world.record("--comm", "forks", "--exclude", f"pid={fork.pid}")
    _, done = fork.order("go")
    recorder.pass_now()
    check_equal(dict(recorder.names()), {f"forks.{done['child']}": 1}, "recorded")


def copy_of_fork(world):
    path = world.bench.path("forks")
    shutil.copy(os.path.join(WORKLOADS, "fork"), path)
    return world.bench.start([path], kind=Workload, env=world.environment).ready()


def is_removed(group):
    with contextlib.suppress(OSError):
        group.rmdir()
    return not group.exists()


def end_group(group):
    """Ends who is in it, and removes it."""
    for pid in (group / "cgroup.procs").read_text().split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    wait_for(lambda: is_removed(group), "the end of a group and who is in it")


@contextlib.contextmanager
def unified_group(bench, name):
    """A control group of version 2, as a folder; it goes with the test."""
    with contextlib.ExitStack() as stack:
        roots = [point for version, point, _ in mounted() if version == 2]
        root = roots[0] if roots else stack.enter_context(mounted_for_us(bench))
        folder = root / f"{name}.{os.getpid()}"
        folder.mkdir()
        try:
            yield folder
        finally:
            end_group(folder)


@harness.core
def test_record_selects_by_cgroup(bench):
    """Children born in the group and a process moved there later are recorded; a process outside is not."""
    world = World(bench)
    with unified_group(bench, "allocsnap-shop") as group:
        there, later, never = (world.holds(name) for name in ("there", "later", "never"))
        (group / "cgroup.procs").write_text(str(there.pid))
        recorder = world.record("--cgroup", "/allocsnap-shop*")
        (group / "cgroup.procs").write_text(str(later.pid))
        shell = world.shell(f"echo $$ >{group}/cgroup.procs; exec 3<&0; "
                            f"{world.program('born')} 100003 <&3 & wait")
        born = json.loads(shell.line())["ready"]
        names = {path.split("/")[-2] for path in recorder.pass_now()}
        expected = {name_of(there), name_of(later), f"born.{born}", f"sh.{shell.pid}"}
        check_equal(names, expected, "recorded")
        check(name_of(never) not in names, "a process outside the cgroup is recorded")
        recorder.end()


@contextlib.contextmanager
def group_below(parent, *names):
    """A group in one or several that are made for it; they go with the test, and who is in them."""
    group = parent.joinpath(*names)
    group.mkdir(parents=True)
    try:
        yield group
    finally:
        for gone in (group, *group.parents)[:len(names)]:
            end_group(gone)


def test_record_says_the_cgroup_that_its_rules_match(bench):
    """Also in a namespace of control groups, whose root is not the top: beside the recorder and below it, new and old, gone too."""
    world = World(bench)
    with unified_group(bench, "allocsnap-top") as parent, group_below(parent, "own") as own, group_below(parent, "other") as other:
        beside, within = world.holds("beside"), world.holds("within")
        (other / "cgroup.procs").write_text(str(beside.pid))
        (own / "cgroup.procs").write_text(str(within.pid))
        enter = f'echo $$ >{own}/cgroup.procs && exec unshare --cgroup -- "$@"'
        recorder = world.record("--cgroup", f"/{parent.name}/*", under=["sh", "-c", enter, "sh"])
        shell = world.shell(f"echo $$ >{other}/cgroup.procs; exec {world.program('born')} 100003")
        born = json.loads(shell.line())["ready"]
        shown = {path.split("/")[-2]: bench.show(path)["metadata"]["cgroup"] for path in recorder.pass_now()}
        check_equal(shown, {name_of(beside): f"/{parent.name}/other", name_of(within): f"/{parent.name}/own",
                            f"born.{born}": f"/{parent.name}/other"}, "groups")
        recorder.end()


# ---- names, execs and ends of processes ----

@harness.core
def test_record_follows_exec_chains(bench):
    """sh → exec → exec: recorded as long as the program is one that is admitted."""
    world = World(bench)
    first, second, third = (world.program(name) for name in ("first", "second", "third"))
    recorder = world.record_warm("--comm", "second", "--comm", "third")
    shell = bench.start(["/bin/sh", "-c", f"exec {first} 70001 {second} 80001 {third} 90001"],
                        kind=Workload, env=world.environment).ready()
    paths = recorder.pass_now()
    check_equal([path.split("/")[-2] for path in paths], [f"third.{shell.pid}"], "recorded")
    rows = [row["size"] for row in bench.stats(paths[0])["statistics"]]
    check(90001 in rows and 80001 not in rows, f"blocks: {rows}")


@harness.core
def test_record_ends_at_exec_of_a_program_that_is_not_admitted(bench):
    """A recorded program calls exec: its blocks until then are its last snapshot; the new program is not recorded."""
    world = World(bench)
    first, second = (world.program(name) for name in ("first", "second"))
    recorder = world.record_warm("--comm", "first")
    process = bench.start([first, "170001", second, "80001"], kind=Workload, env=world.environment).ready()
    paths = recorder.pass_now()
    check_equal([path.split("/")[-2] for path in paths], [f"first.{process.pid}"], "recorded")
    check_equal(bench.show(paths[0])["metadata"]["end"], "called exec of a program that is not recorded", "end")
    check(170001 in [row["size"] for row in bench.stats(paths[0])["statistics"]], "its block")
    check_equal(recorder.pass_now(), [], "recorded after that")


def is_named(bench, path):
    """Where its big block comes from is known."""
    row = bench.stats(path, "--group-by", "traceback")["statistics"][0]
    losses = bench.show(path)["losses"]
    return ("hold" in [frame.get("function") for frame in row["traceback"]]
            and not any(losses.get(name) for name in ("tracebacks_missing", "frames_unmapped")))


def check_named(bench, path):
    check(is_named(bench, path), f"{path}: {bench.stats(path, '--group-by', 'traceback')['statistics'][:1]}")


CHAINS = 6


def test_record_names_blocks_of_a_process_that_ran_other_programs_before(bench):
    """The process ran two unrecorded programs before, the last a moment ago: blocks of the recorded one have names."""
    world = World(bench)
    first, second, last = (world.program(name) for name in ("first", "second", "last"))
    recorder = world.record_warm("--comm", "last")
    chains = [bench.start([first, "70001", second, "80001", last, "190001"], kind=Workload,
                          env=world.environment).ready() for _ in range(CHAINS)]
    for _ in range(2):
        paths = recorder.pass_now()
        check_equal({path.split("/")[-2] for path in paths}, {f"last.{chain.pid}" for chain in chains},
                    "recorded")
        for path in paths:
            check_named(bench, path)


def test_record_names_blocks_of_a_process_that_is_admitted_again(bench):
    """One process that is admitted, left alone and admitted again: both have their own mappings."""
    world = World(bench)
    first, second, third = (world.program(name) for name in ("first", "second", "third"))
    recorder = world.record_warm("--comm", "first", "--comm", "third")
    chains = [bench.start([first, "170001", second, "80001", third, "190001"], kind=Workload,
                          env=world.environment).ready() for _ in range(CHAINS)]
    paths = recorder.pass_now()
    check_equal({path.split("/")[-2] for path in paths},
                {f"{name}.{chain.pid}" for chain in chains for name in ("first", "third")}, "recorded")
    for path in paths:
        if "/third." in path:
            check_named(bench, path)
    # A pass between the event of an exec and the kernel's own note of it takes the exec for the first program's.
    named = sum(is_named(bench, path) for path in paths if "/first." in path)
    check(2 * named >= CHAINS, f"only {named} of {CHAINS} last snapshots of the first programs have names")


LABELS = ("container_id", "label.container.runtime", "label.k8s.pod.uid", "label.k8s.pod.name", "label.k8s.namespace.name",
          "label.k8s.container.name")
POD = "0f5c3a9b-e1d2-4477-a8c6-d5e4f3b2a190"


def container_group(parent, container):
    """A group with the name that containerd gives it below systemd, in one with the name that the kubelet gives it."""
    return group_below(parent, f"kubepods-burstable-pod{POD.replace('-', '_')}.slice", f"cri-containerd-{container}.scope")


@contextlib.contextmanager
def kubelet_log(pod, namespace, container, container_id):
    """The names that the kubelet gives to a container's log."""
    log = pathlib.Path("/var/log/pods", f"{namespace}_{pod}_{POD}")
    link = pathlib.Path("/var/log/containers", f"{pod}_{namespace}_{container}-{container_id}.log")
    made = [folder for folder in (log.parent, link.parent, log) if not folder.exists()]
    for folder in made:
        folder.mkdir()
    try:
        link.symlink_to(log / "gone")
        yield
    finally:
        link.unlink()
        for folder in reversed(made):
            folder.rmdir()


def test_record_labels_what_runs_in_pods(bench):
    """The path of the control group names container, pod and runtime, the kubelet's logs have their names, and a fleet is selected by
    them."""
    container = "0f5c3a9be1d24477a8c6d5e4f3b2a1908f7e6d5c4b3a29181706f5e4d3c2b1a0"
    with kubelet_log("web-0", "shop", "server", container):
        check_labels_of_pods(bench, container)


def check_labels_of_pods(bench, container):
    inside, beside = bench.workload("known"), bench.workload("known")
    with unified_group(bench, "allocsnap-pods") as parent, container_group(parent, container) as group:
        (group / "cgroup.procs").write_text(str(inside.pid))
        recording = bench.attach([inside, beside])
        shown = {int(path.split("/")[-2].rsplit(".", 1)[1]): bench.show(path)["metadata"]
                 for path in recording.snapshots()}
        check_equal({key: shown[inside.pid].get(key) for key in LABELS}, dict(zip(LABELS, (container, "cri-containerd", POD, "web-0", "shop", "server"))),
                    "labels in the pod")
        check_equal(shown[beside.pid].keys() & set(LABELS), set(), "labels beside it")
        own, = bench.attach([inside], "--label", "container.runtime=mine").snapshots()
        check_equal(bench.show(own)["metadata"]["label.container.runtime"], "mine", "a label of the user's")
        listed, _ = bench.allocsnap("list", recording.folder)
        check("POD" in listed and "shop/web-0" in listed, f"no pod is listed: {listed}")
        catalogue = bench.path("pods.db")
        bench.allocsnap("fleet", "index", "--catalogue", catalogue, recording.folder)
        for where, status in ((f"label.k8s.pod.uid={POD}", 0), ("label.container.runtime=cri-*", 0), ("pod=web-*,namespace=shop", 0),
                              ("pod=web-1", 1), (f"container={container}", 0), ("label.k8s.pod.uid=0*1", 1)):
            bench.allocsnap("fleet", "stats", "--catalogue", catalogue, "--all-processes", "--where", where, status=status)


def test_record_names_blocks_of_a_process_that_joins_a_cgroup_and_calls_exec(bench):
    """The process joins the group and then calls exec, as a container's starter does."""
    world = World(bench)
    first, second = (world.program(name) for name in ("first", "second"))
    with unified_group(bench, "allocsnap-joined") as group:
        (group / "cgroup.procs").write_text(str(world.warm().pid))
        recorder = world.record("--cgroup", "/allocsnap-joined*")
        chains = [world.shell(f"exec 3>{group}/cgroup.procs; exec {first} 70001 /bin/sh -c "
                              f"'echo $$ >&3; exec {second} 190001'") for _ in range(CHAINS)]
        for chain in chains:
            check_equal(json.loads(chain.line())["ready"], chain.pid, "PID of the process that is ready")
        paths = [path for path in recorder.pass_now() if "/second." in path]
        check_equal({path.split("/")[-2] for path in paths}, {f"second.{chain.pid}" for chain in chains}, "recorded")
        for path in paths:
            check_named(bench, path)
        recorder.end()


def test_record_keeps_the_folder_of_a_process_that_renames_itself(bench):
    """A process that renames itself is still the same program: it stays recorded, its snapshots stay together."""
    world = World(bench)
    teller = bench.path("teller")
    shutil.copy("/bin/sh", teller)
    recorder = world.record_warm("--comm", "teller", "--exclude", "comm=secret*", "--min-bytes", "1")
    shell = bench.start([teller, "-c", "echo ready; read go; printf secret >/proc/self/comm; echo done; read go"],
                        env=world.environment)
    check_equal(shell.line(), "ready", "the shell")
    recorder.pass_now()
    shell.write("go\n")
    check_equal(shell.line(), "done", "the shell")
    check_equal(pathlib.Path(f"/proc/{shell.pid}/comm").read_text(), "secret\n", "its name")
    recorder.pass_now()
    shell.write("go\n")
    shell.wait()
    recorder.pass_now()
    check_equal(dict(recorder.names()), {f"teller.{shell.pid}": 3}, "snapshots")
    last = bench.show(recorder.paths()[-1])["metadata"]
    check_equal([last["comm"], last["end"]], ["teller", "exited 0"], "its last one: name, end")


@harness.core
def test_record_follows_forks_without_exec(bench):
    """Children of a process admitted by name are recorded from the fork on; children that exec other programs not."""
    world = World(bench)
    fork = copy_of_fork(world)
    recorder = world.record("--comm", "forks", "--min-bytes", "1")
    _, done = fork.order("go")
    names = {path.split("/")[-2] for path in recorder.pass_now()}
    check_equal(names, {f"forks.{fork.pid}", f"forks.{done['child']}"}, "recorded")
    fork.order("join")
    last = [path for path in recorder.pass_now() if f"forks.{done['child']}/" in path]
    check_equal([bench.show(path)["metadata"]["end"] for path in last], ["exited 0"], "its last snapshot")


# ---- snapshots ----

@harness.core
def test_record_takes_each_interval_as_one_instant(bench):
    """A file of each process at each interval, all of the same drain."""
    world = World(bench)
    processes = [world.holds(f"p{i}") for i in range(5)]
    recorder = world.record("--comm", "p?", interval="700ms")
    wait_for(lambda: min([recorder.names()[name_of(process)] for process in processes]) >= 3, "three intervals")
    recorder.end()
    times = collections.defaultdict(set)
    for path in recorder.paths():
        times[path.split("/")[-2]].add(bench.show(path)["metadata"]["monotonic_ns"])
    last = max(frozenset().union(*times.values()))  # the end may come amid an interval's pass
    check_equal(len({frozenset(found - {last}) for found in times.values()}), 1, f"instants: {times}")
    check_equal(set(times), {name_of(process) for process in processes}, "processes")


@harness.core
def test_record_ends_with_last_snapshots(bench):
    """SIGINT: snapshots of what is live now; no probe stays."""
    world, before = World(bench), strangers_probes()
    recorder = world.record_warm("--comm", "late")
    late = world.holds("late")
    check_equal(dict(recorder.end()), {name_of(late): 1}, "last snapshots")
    check_held(bench, recorder, late)
    check_unchanged(late.pid, "at the end", before)


@harness.core
def test_record_counts_bystanders(bench):
    """A process that only shares the library pays for traps: it is counted and not recorded."""
    world = World(bench)
    bystander = world.holds("other")
    recorded = world.holds("mine")
    recorder = world.record_warm("--comm", "mine")
    before = recorder.bystander_traps()
    for _ in range(20):
        subprocess.run([world.program("third"), "5000", "-"], env=world.environment, check=True)
    after = recorder.bystander_traps()
    check(after >= before + 20, f"traps of bystanders: {before}, {after}")
    check_equal(dict(recorder.end()), {name_of(recorded): 3}, "recorded")
    check(bystander.popen.poll() is None, "the bystander has ended")


@harness.core
def test_record_by_pid_probes_only_these_processes(bench):
    """Only these processes have probes; the recorder ends when they have ended."""
    world = World(bench)
    one, other = world.holds("one"), world.holds("other")
    before = changed_places(other.pid)
    recorder = world.record("--pid", str(one.pid))
    check(changed_code(one.pid) > 0, "no probes")
    check_unchanged(other.pid, "another process", before)
    one.popen.stdin.close()
    check_equal(recorder.wait(30), 0, "exit status")
    check_equal(dict(recorder.names()), {name_of(one): 1}, "recorded")


@harness.core
def test_record_never_records_itself(bench):
    """The recorder never records itself or its helper processes, even if a rule matches their program."""
    world = World(bench)
    copy = shutil.copy(ALLOCSNAP, bench.path("recorder"))
    recorder = bench.start([copy, "record", "-o", bench.path("out"), "--exe", f"{bench.folder}/*"],
                           kind=Record, folder=bench.path("out"))
    recorder.line_of("recording")
    other = world.holds("other")
    own = [recorder.pid, link_holder_of(recorder.pid)] + [pid for pid, _ in children_of(recorder.pid)]
    check(len(own) > 2, "it has no children")
    check_equal(dict(recorder.end()), {name_of(other): 1}, "recorded")


@harness.core
def test_record_refuses_invalid_rules(bench):
    for options, reason in ((["--comm", "a[bc]"], "no []"), (["--uid", "no-such-user"], "is no user"),
                            (["--pid", "0"], "is no PID"), (["--comm", "x" * 256], "1 to 255 bytes")):
        _, stderr = bench.allocsnap("record", "-o", bench.path("out"), *options, status=2)
        check(reason in stderr, f"{options}: {stderr!r}")


def test_record_distinguishes_processes_with_a_reused_pid(bench):
    """Two processes of one PID between two passes: two last snapshots, each with its own."""
    world = World(bench)
    program = world.program("again")
    recorder = world.record_warm("--comm", "again", "--min-bytes", "1")
    first = bench.start([program, "70001"], kind=Workload, env=world.environment).ready()
    first.popen.stdin.close()
    first.wait()
    second = bench.start([os.path.join(WORKLOADS, "as_pid"), str(first.pid), program],
                         env=world.environment)
    check(second.line(), "the second process")
    paths = recorder.pass_now()
    check_equal([path.split("/")[-2] for path in paths], [f"again.{first.pid}"] * 2, "recorded")
    sizes = sorted(max(row["size"] for row in bench.stats(path)["statistics"]) for path in paths)
    check_equal(sizes, [1, 70001], "their largest blocks")


# ---- record newcomers ----
#
# allocsnap record: programs whose allocator no process has mapped before, and which processes pay for that.

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../workloads")
BLOCKS, BYTES = 303, 4001


def build(bench, name, *flags):
    """A program that allocates at once, and then sleeps."""
    path = bench.path(name)
    bench.run([tool("gcc"), "-g", "-O1", os.path.join(SOURCES, "at_once.c"), "-o", path, *flags])
    return path


def with_loader_of(world):
    """Linked to the world's C library by the world's loader, so the environment does not name them."""
    loader = os.path.join(world.libraries, "ld-linux-x86-64.so.2")
    shutil.copy("/lib64/ld-linux-x86-64.so.2", loader)
    return [f"-Wl,--dynamic-linker={loader}", f"-Wl,-rpath,{world.libraries}"]


def begin(bench, program):
    return bench.start([program, str(BLOCKS), str(BYTES)], kind=Workload).ready()


def check_whole(bench, recorder, processes):
    """All blocks of each process, from the first on, though its file was new. Static C libraries allocate, too."""
    paths = recorder.pass_now()
    check_equal({path.split("/")[-2] for path in paths}, {name_of(process) for process in processes},
                "recorded")
    for path in paths:
        shown = bench.show(path)
        # The program's unwind table may be loaded in between: the blocks have two tracebacks then.
        check_equal(sum(count for count, size in rows(bench, path) if size == BYTES), BLOCKS, "its blocks")
        check_equal(shown["losses"].get("functions_late", 0), 0, "functions_late")
    return paths


def rows(bench, path):
    for row in bench.stats(path, "--group-by", "traceback")["statistics"]:
        yield row["count"], row["size"] // row["count"]


def probed_from_the_start(recorder):
    return set(re.findall(r"(/\S+) is probed from the start", recorder.stderr()))


@harness.core
def test_record_is_complete_for_a_new_process_selected_by_comm(bench):
    """The first process of its name, with the machine's C library: the recorder warns that others pay, too."""
    recorder = World(bench).record("--comm", "first-of-all")
    process = begin(bench, build(bench, "first-of-all"))
    check_whole(bench, recorder, [process])
    check_equal(probed_from_the_start(recorder), {os.path.realpath(f"/lib/{harness.MULTIARCH}/libc.so.6")}, "files")
    recorder.end()


def test_record_is_complete_for_a_new_process_selected_by_path(bench):
    """The loader that the program names leads to its C library; no other process hits a probe."""
    world = World(bench)
    program = build(bench, "linked", *with_loader_of(world))
    recorder = world.record("--exe", program)
    check_whole(bench, recorder, [begin(bench, program) for _ in range(2)])
    check_equal(probed_from_the_start(recorder), {os.path.join(world.libraries, "libc.so.6")}, "files")
    check_equal(recorder.bystander_traps(), 0, "traps of bystanders")


def test_record_is_complete_for_a_new_static_process(bench):
    """A static program contains its allocator."""
    world = World(bench)
    program = build(bench, "static", "-static")
    recorder = world.record("--exe", program)
    check_whole(bench, recorder, [begin(bench, program)])
    check_equal(probed_from_the_start(recorder), {program}, "files")


def test_record_counts_late_probes_of_a_program_that_did_not_exist(bench):
    """The recorder logs that the program is missing; blocks from before its probes are counted."""
    world = World(bench)
    recorder = world.record("--exe", bench.path("static"))
    check("static cannot be read" in recorder.stderr(), f"stderr: {recorder.stderr()!r}")
    process = begin(bench, build(bench, "static", "-static"))
    path, = recorder.pass_now()
    check_equal(path.split("/")[-2], name_of(process), "recorded")
    check(bench.show(path)["losses"].get("functions_late", 0) > 0, "nothing was late")


@harness.core
def test_record_of_a_new_process_does_not_probe_its_launcher(bench):
    """Mappings that the process made before it became the recorded program are not counted."""
    world = World(bench)
    program = build(bench, "launched", "-static")
    launcher, bystander = world.program("launcher"), world.holds("bystander")
    before = changed_places(bystander.pid)
    recorder = world.record("--exe", program)
    chains = [world.bench.start([launcher, "70001", launcher, "70001", program, str(BLOCKS), str(BYTES)],
                                kind=Workload, env=world.environment).ready() for _ in range(6)]
    names = {f"launched.{chain.pid}" for chain in chains}
    for _ in range(2):
        paths = recorder.pass_now()
        check_equal({path.split("/")[-2] for path in paths}, names, "recorded")
        for path in paths:
            shown = bench.show(path)
            check_equal({probe["object"] for probe in shown["probes"]}, {program}, "files with probes")
            check_equal(shown["losses"].get("functions_late", 0), 0, "functions_late")
    check_unchanged(bystander.pid, "the launcher", before)
    check_equal(recorder.bystander_traps(), 0, "traps of bystanders")


# ---- record short lived ----
#
# allocsnap record: processes that end soon, and what the kernel side keeps of them until a drain.

@harness.core
@harness.smoke
def test_record_handles_short_lived_processes(bench):
    """1,000 short-lived children: only one that once held more than --min-bytes leaves a file; nothing piles up."""
    world = World(bench)
    program = world.program("child")
    recorder = world.record_warm("--comm", "child")
    descriptors = len(os.listdir(f"/proc/{recorder.pid}/fd"))
    script = (f"i=0; while [ $i -lt 1000 ]; do if [ $((i % 50)) = 0 ]; then {program} 100003 -; "
              f"else {program} 1000 -; fi; i=$((i + 1)); done; echo done; read go")
    shell = world.shell(script)
    check_equal(shell.line(120), "done", "the shell")
    paths = recorder.pass_now()
    check_equal(len(paths), 20, "snapshots")
    for path in paths:
        rows = [row["size"] for row in bench.stats(path)["statistics"]]
        check(100003 in rows, f"{path}: {rows}")
        check_equal(bench.show(path)["metadata"]["end"], "exited 0", f"{path}: end")
    check_equal(recorder.pass_now(), [], "snapshots without a process")
    line = recorder.pass_line()
    check(line.endswith("; 1 process; 980 ended with little in them, without a snapshot"), f"the balance: {line}")
    more = len(os.listdir(f"/proc/{recorder.pid}/fd")) - descriptors  # some: without links, each probe has one
    check(more < 50, f"{more} more descriptors than before")


def test_record_takes_an_early_pass_when_slots_run_out(bench):
    """Ended processes fill a quarter of the room for processes: the recorder takes a pass without being asked."""
    world = World(bench)
    program = world.program("child")
    recorder = world.record_warm("--comm", "child", "--min-bytes", "1")
    shell = world.shell(f"i=0; while [ $i -lt 1100 ]; do {program} 1000 -; i=$((i + 1)); done; echo done; read go")
    check("snapshots" in recorder.line(90), "no early pass")
    check_equal(shell.line(60), "done", "the shell")
    recorder.end()
    check_equal(len(recorder.paths()), 1100, "snapshots")


def keeps_with_callers(bench, recorder, process):
    """Whether a block that `ways` keeps now has a traceback with callers."""
    process.order("keep 1")
    path, = recorder.pass_now()
    rows = bench.stats(path, "--group-by", "traceback")["statistics"]
    return any("main" in [frame.get("function") for frame in row["traceback"]] for row in rows)


def test_record_takes_early_passes_when_ended_processes_leave_many_tracebacks(bench):
    """Each of 40 processes, one after the other, leaves 500 tracebacks. There is room for 16,384."""
    world = World(bench)
    program = shutil.copy(f"{WORKLOADS}/ways", bench.path("ways"))
    recorder = world.record_warm("--comm", "ways", "--min-bytes", "1", "--max-tracebacks", "16384")
    # Until the program's unwind table is loaded, all of its blocks have one traceback. This process keeps it loaded.
    first = bench.start([program], kind=Workload, env=world.environment).ready()
    wait_for(lambda: keeps_with_callers(bench, recorder, first), "the unwind table")
    names = []
    for _ in range(40):
        process = bench.start([program], kind=Workload, env=world.environment).ready()
        process.order("go 500")
        process.order("keep 1")
        process.is_unharmed()
        names.append(name_of(process))
        wait_for(lambda: len(names) % 10 or set(names[-10:]) & set(recorder.names()), "an early pass")
    recorder.end()
    lost = [bench.show(path)["losses"].get("tracebacks_dropped", 0) for path in recorder.paths()]
    check_equal(sum(lost), 0, "tracebacks_dropped")
    check_equal(sorted(recorder.names()), sorted([name_of(first), *names]), "snapshots")
