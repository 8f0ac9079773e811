# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A sampler is put into running programs, and taken out, while the worst happens."""
import json
import os
import re
import shutil
import signal
import subprocess
import time

from bench import (ALLOCATORS, ALLOCSNAP, FOLDER, INJECTOR, PATIENCE_S, SAMPLER_FOLDER, Process, by_hooks, check_whole_way,
                   injector, stop_attach)
from harness import Failure, Law, Skip, check, check_equal, check_sanitizer, core, runs_core, wait_for
from harness.suite import for_each

STORMS = ("alloc", "spawn", "fork", "thread", "crowd", "signal", "dlopen", "coroutine", "calls", "float")

# ---- the way in and out ----

WAYS = ("glibc", "jemalloc", "tcmalloc", "mimalloc")


@by_hooks(of_core=WAYS)
@for_each(WAYS, of_core=WAYS)
def test_whole_way(bench, allocator):
    preload = ALLOCATORS[allocator]
    process = bench.storm("alloc", preload=preload)
    check_whole_way(process, os.path.basename(preload or "libc.so.6"))
    process.end()


@by_hooks(of_core=True)
@core
def test_static_program(bench):
    process = bench.storm("alloc", program="storm_static")
    check_whole_way(process, "storm_static")
    process.end()


@by_hooks(of_core=True)
@core
def test_seccomp(bench):
    """All calls but a few end the program, mmap and mremap with them."""
    process = bench.storm("seccomp")
    check_whole_way(process)
    process.end()


@core
def test_caller_that_ignores_its_children(bench):
    """A child does the work, and the kernel does not report its end."""
    process = bench.storm("alloc")
    for action in "inject", "eject":
        done = subprocess.run(["env", "--ignore-signal=CHLD", INJECTOR, action, str(process.pid), "5000"], capture_output=True,
                              env=os.environ | {"TRIES": "200"}, text=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == 0, done
    process.goes_on()
    process.end()


# ---- what the sampler reports: the programs of tests/sampler catch its probes themselves ----

def exercise(mode, allocator="glibc", behind=None, interval=4096, program=None, **environment):
    program = program or ("exercise_musl" if allocator == "musl" else "exercise")
    environment |= {"INTERVAL": str(interval), "INJECT": f"env -u LD_PRELOAD TRIES=200 {INJECTOR} inject",
                    "LD_PRELOAD": behind or ALLOCATORS[allocator]}
    if allocator == "jemalloc":
        environment["NO_PVALLOC"] = "1"
    done = subprocess.run([os.path.join(SAMPLER_FOLDER, program), mode], env=os.environ | environment,
                          capture_output=True, text=True, timeout=PATIENCE_S * 10, check=False)
    said = "\n".join(line for line in done.stderr.splitlines()
                     if not re.match("function |allocator |times ", line))
    check_sanitizer(done.stderr, mode)
    check(done.returncode >= 0, f"{mode} ends with {done.returncode}: {said}", Law)
    assert done.returncode == 0 and not said, f"{mode} ends with {done.returncode}: {said}{done.stdout}"
    return done.stdout


@for_each(ALLOCATORS)
def test_functions(_, allocator):
    """All functions with each way to fail; every block is a sample."""
    exercise("functions", allocator, interval=1)


@for_each(ALLOCATORS)
def test_estimates(_, allocator):
    """The live blocks of each round; each round has new threads."""
    return exercise("estimates", allocator, ROUNDS=os.environ.get("INJECT_ROUNDS", "100"))


def test_estimates_while_the_interval_changes(_):
    return exercise("estimates-changing", interval=8192, ROUNDS=os.environ.get("INJECT_ROUNDS", "100"))


def test_five_thousand_threads(_):
    """More than there are slots."""
    return exercise("estimates", ROUNDS="1250")


@for_each(("lockfree", "nested"))
def test_signal_handlers_that_allocate(_, name):
    exercise("signals", behind=os.path.join(FOLDER, name + ".so"), interval=500)


def test_calls_below_strict_seccomp(_):
    exercise("strict", behind=os.path.join(FOLDER, "lockfree.so"), interval=2000)


def test_full_set(_):
    exercise("full", interval=1)


def test_libraries_that_come_and_go(_):
    exercise("dlopen", interval=1, PLUGIN=os.path.join(SAMPLER_FOLDER, "plugin.so"))


# ---- the injector is killed ----

class Killed:
    """Injectors that are killed at a moment; 0: at none. One plan serves for all."""

    def __init__(self, bench, pid, order="serve", **environment):
        self.served = Process([INJECTOR, order, str(pid), "5000"], TRIES="200", **environment)
        bench.callback(self.served.kill)

    def order(self, action, moment=0):
        """Whether it was killed."""
        self.served.popen.stdin.write(f"{action} {moment}\n")
        said = [self.served.popen.stdout.readline()]
        while not re.match("killed|done|refused", said[-1]):
            assert said[-1], f"moment {moment}: {said}{self.served.popen.stderr.read()}"
            said.append(self.served.popen.stdout.readline())
        assert not said[-1].startswith("refused"), f"moment {moment}: {said}"
        return said[-1] == "killed\n"


EACH = 3 if runs_core() else 1  # so many moments at a time


def check_deaths(bench, process, action, step):
    """At each moment the process lives; then what was left is taken out."""
    maps, code, masks, files = (process.library("libc.so.6"), process.code("libc.so.6"), process.signal_masks(),
                                process.files())
    injectors, moment = Killed(bench, process.pid), 1

    def prepare():
        if action != "eject":
            return None
        injectors.order("inject")
        return process.sampler_room()
    room = prepare()
    while injectors.order(action, moment):
        process.goes_on()
        if action == "eject" and process.injected():
            assert process.sampler_room() == room, f"moment {moment}: the process could map something amid the sampler"
        injector("eject", process.pid, status=None, TRIES="200")
        process.goes_on()
        wait_for(lambda: (process.signal_masks(), process.files()) == (masks, files),
                 f"moment {moment}: its blocked signals and its descriptors", PATIENCE_S, Law)
        check(process.library("libc.so.6") == maps, f"moment {moment}: the mappings of libc have changed", Law)
        check(process.code("libc.so.6") == code, f"moment {moment}: the code has changed", Law)
        moment += step
        room = prepare()
    assert moment > 30, moment
    return f"{(moment - 1) // step} moments"


@by_hooks(of_core=True)
@core
def test_killed_at_each_moment_of_injecting(bench):
    process = bench.storm("alloc")
    said = check_deaths(bench, process, "inject", EACH)
    injector("eject", process.pid)
    process.end()
    return said


@by_hooks(of_core=True)
@core
def test_killed_at_each_moment_of_ejecting(bench):
    process = bench.storm("alloc")
    said = check_deaths(bench, process, "eject", EACH)
    process.end()
    return said


@by_hooks()
@core
def test_child_killed_at_each_moment_of_injecting(bench):
    """The injector itself goes on: it takes back what its child has left, and says what there is."""
    process = bench.storm("alloc")
    before = process.library("libc.so.6"), process.code("libc.so.6"), process.signal_masks(), process.files()
    moment, said = 1, "killed"
    while "killed" in said:
        done = subprocess.run([INJECTOR, "inject", str(process.pid), "5000"], env=os.environ | {"DIE_AT": str(moment), "CHILD": "1"},
                              capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        said = done.stderr
        if done.returncode == 0:
            injector("eject", process.pid)
        else:
            assert "refused EAGAIN" in done.stdout, (moment, done)
            check(not process.injected(), f"moment {moment}: the sampler is still there", Law)
        process.goes_on()
        after = process.library("libc.so.6"), process.code("libc.so.6"), process.signal_masks(), process.files()
        check(after == before, f"moment {moment}: the process is not as it was", Law)
        moment += EACH
    assert moment > 30, moment
    process.end()
    return f"{moment} moments"


@by_hooks()
def test_killed_while_threads_are_in_what_is_replaced(bench):
    """The thread that makes the injector's last call then makes it while the others run."""
    process = bench.storm("pairs")
    said = check_deaths(bench, process, "inject", 1)
    process.end()
    return said


@by_hooks()
@for_each(("inject", "eject"))
def test_killed_amid_the_functions(bench, action):
    """Some of them call the sampler: nothing is recorded, and that is said, until it is taken out."""
    process = bench.storm("alloc")
    if action == "eject":
        injector("inject", process.pid, 5000)
    moment = "a jump written" if action == "inject" else "at the end of a call"
    injector(action, process.pid, 5000, status=-signal.SIGKILL, DIE_AT=moment)
    process.goes_on()
    found = injector("find", process.pid)
    assert "active 1 unfinished 1" in found, found
    for command, stream in (("attach",), "stderr"), (("attach", "--inject"), "stderr"), (("doctor",), "stdout"):
        done = subprocess.run([ALLOCSNAP, *command, str(process.pid)], capture_output=True, text=True,
                              timeout=PATIENCE_S, check=False)
        said = getattr(done, stream)
        assert done.returncode == 1 and f"'allocsnap eject {process.pid}' takes it out" in said, done
        assert stream == "stdout" or said.count("\n") == 1, said
    injector("eject", process.pid)
    process.goes_on()
    check_whole_way(process)
    process.end()


@by_hooks()
def test_killed_at_any_time(bench):
    """Between the moments, too: 40 times."""
    process = bench.storm("alloc")
    for i in range(40):
        with subprocess.Popen([INJECTOR, "cycles", str(process.pid), "1000"], stdout=subprocess.DEVNULL) as killed:
            time.sleep(0.05 + i * 0.0053 % 0.1)
            killed.kill()
        process.goes_on()
        if process.injected():
            injector("eject", process.pid)
            process.goes_on()
    process.end()


@by_hooks()
@for_each(("calls", "float", "signal", "coroutine"))
def test_killed_while_the_program_does(bench, mode):
    """Every seventh moment."""
    process = bench.storm(mode)
    said = check_deaths(bench, process, "inject", 7)
    process.end()
    return said


# ---- storms ----

def run_storm(bench, mode, cycles, *argument):
    process = bench.storm(mode, *argument)
    maps = process.library("libc.so.6")
    said = injector("cycles", process.pid, cycles)
    process.goes_on()
    check(process.library("libc.so.6") == maps, "the mappings of libc have changed", Law)
    process.end()
    return said.strip()


@by_hooks(of_core=("alloc", "fork", "signal"))
@for_each(STORMS, of_core=("alloc", "thread", "calls"))
def test_storm(bench, mode):
    return run_storm(bench, mode, 20 if runs_core() else 1000)


@by_hooks()
def test_storm_of_six_thousand_threads(bench):
    return run_storm(bench, "crowd", 50, 6000)


# ---- others beside it ----

def test_probes_of_others_before(bench):
    """Uprobes lie in malloc, and stay there while the process is injected and ejected."""
    process = bench.storm("alloc")
    recorder, _ = bench.start_attach(process.pid)
    said = injector("inject", process.pid, 5000)
    assert "function malloc" in said and "probed 1" in said, said
    process.goes_on()
    stop_attach(recorder)
    process.goes_on()
    injector("eject", process.pid)
    process.end()


def test_probes_of_others_later(bench):
    """They come into the file when the pages are copies, and are still there when the pages are back."""
    process, other = bench.storm("alloc"), bench.storm("alloc")
    injector("inject", process.pid, 5000)
    recorder, _ = bench.start_attach(other.pid)
    process.goes_on()
    injector("eject", process.pid)
    process.goes_on()
    stop_attach(recorder)
    check_whole_way(process)
    process.end()
    other.end()


def test_recorder_that_is_killed(bench):
    """The kernel lowers the semaphores; what is left counts for no recording, and goes."""
    process = bench.storm("alloc")
    injector("inject", process.pid, 5000)
    recorder, _ = bench.start_attach(process.pid)
    recorder.popen.kill()
    recorder.popen.wait()
    process.goes_on()
    injector("eject", process.pid)
    process.goes_on()
    process.end()


def test_children_go_on(bench):
    """A child of a process with a sampler has it, too, with raised semaphores; both can be ejected."""
    process = bench.storm("fork")
    injector("inject", process.pid, 5000)
    recorder, _ = bench.start_attach(process.pid)
    process.goes_on()
    stop_attach(recorder)
    injector("eject", process.pid)
    process.end()


# ---- hooks ----
#
# The hooks of a sampler, in programs that look at all that a hook could change or count wrongly.

CYCLES = 20 if runs_core() else 100


def start(bench, *argv, **more):
    """A program that checks itself."""
    process = bench.start(*argv, **more)
    wait_for(lambda: process.ask()[0] > 0, "the first round", PATIENCE_S)
    return process


def cycle(process, interval):
    said = injector("cycles", process.pid, CYCLES, INTERVAL=str(interval))
    process.goes_on()
    return said.strip()


@by_hooks(of_core=("registers",))
@core
@for_each(("registers", "registers_lto"))
def test_registers(bench, program):
    """The compiler has seen the allocator and its callers together; each block is a sample, and nearly none."""
    process = start(bench, program)
    said = [cycle(process, interval) for interval in (1, 1 << 30)]
    process.end()
    return "; ".join(said)


@for_each(("lockfree", "nested"))
def test_signal_handlers_that_jump(_, name):
    """Out of calls of the allocator: the thread's next block is a sample again."""
    exercise("jumps", behind=os.path.join(FOLDER, name + ".so"), interval=1)


# ---- an allocator above another one: each block counts once ----

SHIMS = {"header": ("shim",), "carve": ("shim_carve",), "plain": ("shim_plain",), "partial": ("shim_partial",),
         "three": ("shim", "shim_plain"), "four": ("shim", "shim_carve", "shim_plain")}


def preloaded(names):
    return ":".join(os.path.join(FOLDER, name + ".so") for name in names)


@core
@for_each(SHIMS, of_core=("header", "plain"))
def test_functions_above_others(_, shims):
    """Each call reports its own block, and no other one."""
    exercise("functions", behind=preloaded(SHIMS[shims]), interval=1)


@for_each(SHIMS)
def test_estimates_above_others(_, shims):
    return exercise("estimates", behind=preloaded(SHIMS[shims]), ROUNDS=os.environ.get("INJECT_ROUNDS", "100"))


def test_above_jemalloc(_):
    exercise("functions", "jemalloc", behind=preloaded(("shim",)) + ":" + ALLOCATORS["jemalloc"], interval=1)


@by_hooks(of_core=("alloc",))
@for_each(("alloc", "thread", "fork"), of_core=("alloc",))
def test_ejection_above_others(bench, mode):
    """The samplers of both go together, while calls of one are in calls of the other."""
    process = bench.storm(mode, preload=preloaded(("shim",)))
    check_whole_way(process, "shim.so")
    said = cycle(process, 5000)
    process.end()
    return said


@for_each(("partial", "jemalloc", "tcmalloc", "mimalloc"))
def test_operators(_, allocator):
    """operator new of an allocator above another one, and of others. Two of them cannot throw."""
    more = {"NO_THROW": "1"} if allocator in ("partial", "mimalloc") else {}
    exercise("operators", program="operators", behind=ALLOCATORS.get(allocator) or preloaded(SHIMS[allocator]), interval=1, **more)


def test_operators_that_are_not_seen(_):
    """The operators of mimalloc, which is not the first allocator of the process: the sampler says so."""
    out = exercise("idle", "mimalloc")
    assert "flags 2 interval 4096\n" in out, out


# ---- other ways ----
#
# A refusal is one line, and names another way to record the process, if there is one; that way works.

RUN = "'allocsnap run --fast' at its next start"


def attach(bench, process, *options):
    """(exit status, stderr)"""
    done = subprocess.run([ALLOCSNAP, "attach", "--quiet", str(process.pid), "-o", os.path.join(bench.folder, "data"),
                           "--duration", "100ms", *options], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    return done.returncode, done.stderr


def check_way(bench, process, way, *others):
    """way: the options of attach; None: attach is no way."""
    status, said = attach(bench, process, "--inject")
    words = " ".join(["allocsnap attach", *(way or []), str(process.pid)])
    ways = [f"'{words}'"] * (way is not None) + list(others)
    check_equal((status, said.count("\n")), (1, 1), f"exit status and lines of {said!r}")
    check_equal(said.rpartition("; nothing was changed")[2], f"; instead: {', or '.join(ways)}\n" if ways else "\n", said)
    if way is not None:
        check_equal(attach(bench, process, *way)[0], 0, f"exit status of {words}")


@core
def test_another_way_is_probes(bench):
    check_way(bench, bench.refusing("hook"), ["--max-overhead", "10"], RUN)


@core
def test_another_way_is_its_own_sampler(bench):
    library = os.path.join(os.path.dirname(SAMPLER_FOLDER), "liballocsnap-sampler.so")
    check_way(bench, bench.refusing("plain", preload=library), [])


def test_another_way_is_not_to_preload_behind_a_sanitizer(bench):
    library = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True).stdout.strip()
    if not os.path.isabs(library):
        raise Skip("no libasan.so")
    process = bench.refusing("plain", preload=os.path.realpath(library), ASAN_OPTIONS="detect_leaks=0")
    check_way(bench, process, ["--max-overhead", "10"])


def test_there_is_no_other_way(bench):
    process = bench.start("bare")
    wait_for(lambda: os.path.realpath(f"/proc/{process.pid}/exe") == os.path.join(FOLDER, "bare"), "its start")
    check_way(bench, process, None)


# ---- containers ----
#
# Programs in containers: namespaces of their own, a read-only root, a C library that is in no other file system.
# Nothing of allocsnap is in there, neither its files nor its process ids.

def make_root(bench):
    """A folder with the program, and the libraries that it needs."""
    root = os.path.join(bench.folder, "root")
    if os.path.exists(root):
        return root
    needed = subprocess.run(["ldd", os.path.join(FOLDER, "storm")], capture_output=True, text=True, check=True).stdout
    os.makedirs(os.path.join(root, "proc"))
    os.mkdir(os.path.join(root, "dev"))
    shutil.copy(os.path.join(FOLDER, "storm"), root)
    for library in re.findall(r"(/\S+) \(", needed):
        os.makedirs(root + os.path.dirname(library), exist_ok=True)
        shutil.copy(os.path.realpath(library), root + library)
    return root


def by_unshare(_, root):
    mounts = (f"mount --bind {root} {root} && mount -t proc proc {root}/proc && mount -o remount,bind,ro {root} && "
              f"exec chroot {root} /storm alloc")
    return ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--net", "--ipc", "--uts", "--cgroup", "--fork",
            "--kill-child", "sh", "-c", mounts]


def by_bwrap(_, root):
    return ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", root, "/", "--proc", "/proc", "--dev", "/dev",
            "/storm", "alloc"]


def by_runc(bench, root):
    """The defaults of runc: few capabilities, masked paths."""
    bundle = os.path.join(bench.folder, "bundle")
    os.makedirs(bundle, exist_ok=True)
    subprocess.run(["runc", "spec"], cwd=bundle, check=True)
    with open(os.path.join(bundle, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    config["process"] |= {"terminal": False, "args": ["/storm", "alloc"], "user": {"uid": 1000, "gid": 1000}}
    config["root"] = {"path": root, "readonly": True}
    with open(os.path.join(bundle, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    name = f"inject-{os.getpid()}"
    bench.callback(subprocess.run, ["runc", "--root", bundle, "delete", "--force", name], capture_output=True, check=False)
    return ["runc", "--root", bundle, "run", "--bundle", bundle, name]


CONTAINERS = {"unshare": by_unshare, "bwrap": by_bwrap, "runc": by_runc}


def start_in_container(bench, kind):
    if not shutil.which(kind):
        raise Skip(f"no {kind}")
    process = Process(CONTAINERS[kind](bench, make_root(bench)))
    bench.callback(process.kill)
    try:
        wait_for(lambda: process.ask()[0] > 0, "the first round", PATIENCE_S)
    except Failure as error:
        raise Skip(f"{kind} starts nothing here: {error}") from None
    process.enter_container("storm")
    return process


@by_hooks()
@for_each(CONTAINERS)
def test_container(bench, kind):
    process = start_in_container(bench, kind)
    assert not os.path.exists(f"/proc/{process.pid}/root/usr/bin"), "it sees the machine's files"
    check_whole_way(process)
    process.end()


def test_recorder_of_a_container_that_is_killed(bench):
    """attach --inject; the link holder ejects, and the next recording injects again."""
    process = start_in_container(bench, "unshare")
    maps, code = process.library("libc.so.6"), process.code("libc.so.6")
    for killed in True, False:
        recorder, folder = bench.start_attach(process.pid, "--inject=4K")
        assert process.injected(), "nothing is mapped"
        process.goes_on()
        if killed:
            recorder.popen.kill()
        else:
            recorder.popen.terminate()
        recorder.popen.wait()
        wait_for(lambda: process.library("libc.so.6") == maps and process.code("libc.so.6") == code, "its own pages",
                 PATIENCE_S, Law)
        process.goes_on()
    names = [os.path.join(path, name) for path, _, files in os.walk(folder) for name in files if name.endswith(".snap")]
    said = subprocess.run([ALLOCSNAP, "show", "--json", max(names)], capture_output=True, text=True, check=True).stdout
    shown = json.loads(said)
    assert shown["counters"]["allocations"] > 0 and shown["metadata"]["sampler_kind"] == "injected", said
    if process.injected():  # a thread was in it
        injector("eject", process.pid)
    process.end()
