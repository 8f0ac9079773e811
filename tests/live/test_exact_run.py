# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""run --exact: a CPython that records its own blocks from its first object on."""
import collections
import contextlib
import os
import pathlib
import re
import signal

import harness
from harness import ALLOCSNAP, NEVER, Law, Process, check, check_equal, children_of, losses_of, need_sessions, tool, wait_for
import python_blocks
from test_exact import FREE_LISTED, TOLD, Told, injected, is_gone, kept, need_python
from test_python import ENVIRONMENT, FRAMES, OWN, PYTHON, PYTHONS, TARGET, Target, check_nothing_lost, some

Child = collections.namedtuple("Child", "pid")
OF_PYTHON = ("--domain", "python")


class Running(Process):
    """`allocsnap run --exact` of a program that answers lines."""

    def child(self):
        """The program, by what the recording says of it."""
        self.until(lambda: re.search(r"process (\d+) \(.*runs Python", self.stderr()), "the note of the program")
        return Child(int(re.search(r"process (\d+) \(.*runs Python", self.stderr())[1]))

    def snapshot(self):
        self.popen.send_signal(signal.SIGUSR1)
        path = self.line()
        check(path and path.endswith(".snap"), f"no snapshot but {path!r}; {self.stderr()!r}")
        return path


class RunningTold(Running, Told):
    pass


class RunningTarget(Running, Target):
    pass


def start(bench, *argv, kind=RunningTold, options=(), **environment):
    need_python()
    argv = argv or (PYTHON, "-S", str(TOLD))
    running = bench.start([ALLOCSNAP, "run", "--exact", *OF_PYTHON, "-o", bench.path("out"), "--interval", NEVER, *options, "--", *argv],
                          kind=kind, env=ENVIRONMENT | environment)
    check_equal(running.line(60), "ready", f"the program's first line; {running.stderr()!r}")
    return running


def end(running, status=0):
    """The last snapshot, after the end of the program's orders."""
    running.popen.stdin.close()
    paths = list(iter(running.line, None))
    check_equal(running.wait(), status, f"exit status; {running.stderr()!r}")
    return paths[-1]


def run(bench, *argv, status=0, options=(), domain=OF_PYTHON, **more):
    """Its snapshots, its own output, and the lines of stderr."""
    need_python()
    stdout, stderr = bench.run([ALLOCSNAP, "run", "--exact", *domain, "-o", bench.path("out"), *options, "--", *argv], status, **more)
    lines = stdout.splitlines()
    return [line for line in lines if line.endswith(".snap")], [line for line in lines if not line.endswith(".snap")], stderr



# ---- the truth ----

def compare_with_tracemalloc(bench, python=OWN, **environment):
    """tracemalloc begins later: blocks from before are ours only, and it has none that we do not have."""
    running = start(bench, *python.argv, "-S", "-X", f"tracemalloc={FRAMES}", str(TARGET), kind=RunningTarget,
                    options=("--traceback-limit", str(FRAMES), "--no-compact"), **python.environment, **environment)
    child = running.child()
    for shape in ("everything", "threads", "without_gil"):
        running.order(f"shape {shape}")
    python_blocks.wait_until_idle(child)
    path = running.snapshot()
    theirs = python_blocks.of_tracemalloc(child.pid)
    none = python_blocks.Tables({}, {}, set())
    found = python_blocks.compare(python_blocks.of_snapshot(path), theirs, none)
    check(len(found.both) > 1000, f"only {len(found.both)} blocks to compare")
    for name in ("sizes", "only_theirs"):
        check(not getattr(found, name), f"{name}: {some(getattr(found, name))}; in both: {len(found.both)}")
    others = {address: pair for address, pair in found.tracebacks.items() if pair[0][0] not in FREE_LISTED}
    check(not others, f"tracebacks: {some(others)}; in both: {len(found.both)}")
    check_nothing_lost(bench, path)
    end(running)
    return f"{len(found.both)} blocks in both, {len(found.only_ours)} from before tracemalloc"


@harness.core
def test_exact_run_has_each_block_of_tracemalloc(bench):
    need_python((3, 11))
    return compare_with_tracemalloc(bench)


@harness.rows({name: row[1:] for name, row in PYTHONS.items() if row[2] != 9 and row[2] != 10})
def test_exact_run_has_each_block_of_tracemalloc_of_python(bench, find, *which):
    return compare_with_tracemalloc(bench, find(*which))


# Sizes that nothing else has; the program says what it holds at its end.
LEDGER = """
import os, random, sys
kept, ledger = [], {}
for i in range(3000):
    block = bytes(7001 + 16 * (i % 50))
    if random.random() < 0.7:
        kept.append(block)
for block in kept:
    ledger[sys.getsizeof(block)] = ledger.get(sys.getsizeof(block), 0) + 1
print(ledger, flush=True)
os._exit(0)
"""


@harness.core
def test_exact_run_has_the_ledger_from_the_first_line_on(bench):
    """All blocks of its own code, and no object is older than the recording: if some are, it says so, and another start has none."""
    for _ in range(10):
        (path,), (said,), stderr = run(bench, PYTHON, "-c", LEDGER, options=("--no-compact",))
        shown = bench.show(path)
        check("every block is recorded, except from its first" in stderr, stderr)
        check_equal(losses_of(shown), {}, "losses")
        older = shown["metadata"]["unseen_start_count"]
        if older == 0:
            break
        check(f"{older} small objects" in stderr, stderr)
    ledger = {int(size): int(number) for size, number in re.findall(r"(\d+): (\d+)", said)}
    sizes = collections.Counter(size for size, frames, _ in python_blocks.of_snapshot(path).values() if size > 7000 and frames[0] == ("<string>", 5))
    check_equal(dict(sizes), ledger, "blocks by size")
    check_equal(older, 0, "older objects")
    check(0 < shown["metadata"]["unseen_start_ns"] < 60e9, shown["metadata"])
    for command in "show", "stats":
        check("before its Python began, are in no row" in "".join(bench.allocsnap(command, path)), f"{command} does not say it")


WORK = "import json, os; kept = [json.loads(json.dumps([{'a': list(range(i)), 'b': 'x' * i}])) for i in range(99)]; os._exit(0)"


@harness.core
def test_exact_run_has_the_blocks_of_probes(bench):
    """The same program in another process: probes see it from its first allocation on. Only these see some blocks
    of the interpreter, which have no line of Python. Without a domain a library is preloaded, as the program may be none:
    its variables would be objects, too."""
    need_python((3, 11))
    need_sessions()
    found = []
    for how in (["--exact", *OF_PYTHON], ["--domain", "python", "--no-retag"]):
        for number in range(10):  # a recording may see less of the start, and says so
            out = bench.path(f"{how[0]}.{number}")
            bench.run([tool("setarch"), "-R", ALLOCSNAP, "run", *how, "-o", out, "--no-compact", "--", PYTHON, "-S", "-c", WORK],
                      env=ENVIRONMENT)  # addresses decide on the order of sets
            path, = harness.snapshots_below(out)
            if int(bench.show(path)["metadata"].get("unseen_start_count", 0)) == 0:
                break
        found.append(collections.Counter(python_blocks.of_snapshot(path).values()))
    exact, probes = found
    check_equal(dict(exact - probes), {}, "blocks of hooks only")
    unseen = probes - exact
    check(unseen.total() < 2000 and {frames for _, frames, _ in unseen} <= {(("<unknown>", 0),)},
          f"blocks of probes only: {list(unseen.items())[:5]}")
    return f"{exact.total()} blocks in both, {unseen.total()} of probes only"


@harness.rows({"malloc": ("malloc",), "debug": ("debug",), "pymalloc_debug": ("pymalloc_debug",)})
def test_exact_run_with_other_allocators(bench, name):
    running = start(bench, PYTHONMALLOC=name)
    running.do("keep(kept, 500)\ndel kept[:200]")
    path = running.snapshot()
    check_equal((kept(bench, path), losses_of(bench.show(path))), (300, {}), "blocks, losses")
    check_equal("unseen_start_count" in bench.show(path)["metadata"], name != "malloc", "whether its older objects are known")
    end(running)


# ---- how it comes to be a CPython ----

def script(bench, text, name="start.sh"):
    path = pathlib.Path(bench.path(name))
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return str(path)


KEEPS = "import os; kept = [bytes(5000) for _ in range(500)]; os._exit(7)"


def through_shell(bench):
    return [script(bench, f"#!/bin/sh\nwhere=$(dirname \"$0\")\nexec {PYTHON} \"$@\"\n"), "-c", KEEPS]


def through_scripts(bench):
    """As pyenv's shims do it."""
    return [script(bench, "#!/usr/bin/env bash\nset -e\nexec \"$(dirname \"$0\")/start.sh\" \"$@\"\n", "shim"),
            *through_shell(bench)[1:]]


def through_shebang(bench):
    return [script(bench, f"#!{PYTHON}\n{KEEPS}\n", "program.py")]


def through_venv(bench):
    folder = bench.path("venv")
    bench.run([PYTHON, "-m", "venv", "--without-pip", folder])
    return [os.path.join(folder, "bin/python"), "-c", KEEPS]


@harness.rows({
    "a_launcher": (lambda bench: ["/usr/bin/env", "A=b", "nice", PYTHON, "-c", KEEPS],),
    "a_shell": (lambda bench: ["/bin/sh", "-c", 'exec "$@"', "sh", PYTHON, "-c", KEEPS],),
    "a_shell_script": (through_shell,),
    "scripts_in_a_row": (through_scripts,),
    "a_script_of_its_own": (through_shebang,),
    "a_virtual_environment": (through_venv,),
    "a_module": (lambda bench: [PYTHON, "-m", "timeit", "-n", "1", "-s", KEEPS],),
}, of_core=("a_launcher", "a_shell_script"))
def test_exact_run_of_what_becomes_python(bench, make):
    argv = make(bench)
    if argv[0].endswith("shim"):
        through_shell(bench)
    (path,), _, stderr = run(bench, *argv, status=7)
    shown, lines = bench.show(path), 2 + harness.NO_SESSIONS  # which libraries' blocks need
    check_equal((kept(bench, path), losses_of(shown), stderr.count("\n")), (500, {}, lines), f"blocks, losses, lines of {stderr!r}")
    check_equal((shown["metadata"]["exec_count"], shown["metadata"]["exe"]), (0, os.path.realpath(PYTHON)), "execs, exe")


@harness.core
@harness.rows({"by_default": ((), True), "with_domain_malloc": (("--domain", "malloc"), False)})
def test_exact_run_of_a_shell_records_the_heap_of_what_it_becomes(bench, options, has_note):
    """Also of a Python: a note names the way to its objects."""
    (path,), _, stderr = run(bench, "/bin/sh", "-c", 'exec "$@"', "sh", PYTHON, "-c", KEEPS, status=7, domain=options)
    metadata = bench.show(path)["metadata"]
    check_equal((kept(bench, path), metadata["domains"], metadata["exec_count"]), (500, "malloc", 1), "blocks, domains, execs")
    check_equal("has become a Python" in stderr and "'allocsnap run --exact --domain python'" in stderr, has_note, stderr)


def test_exact_run_as_another_user(bench):
    (path,), (user,), _ = run(bench, PYTHON, "-c", "import os; print(os.getuid(), flush=True); " + KEEPS.replace("7", "0"), options=("--user", "nobody"))
    check_equal((kept(bench, path), user != "0"), (500, True), "blocks, another user")


@harness.core
def test_exact_run_without_uprobe_sessions(bench):
    """As before Linux 6.13: a Python, and what may become one."""
    with harness.environment("ALLOCSNAP_NO_UPROBE_SESSION"):
        (path,), _, stderr = run(bench, "/usr/bin/env", PYTHON, "-c", KEEPS, status=7)
        check_equal((kept(bench, path), losses_of(bench.show(path))), (500, {}), "blocks, losses")
        check("'allocsnap run --domain python'" not in stderr, f"a way that does not work here: {stderr!r}")
        (path,), _, _ = run(bench, "/bin/sh", "-c", "exit 7", status=7, domain=())
        check_equal(bench.show(path)["metadata"]["domains"], "malloc", "domains")


# ---- without a domain ----

def run_by_default(bench, *argv, status=0):
    stdout, stderr = bench.run([ALLOCSNAP, "run", "--exact", "-o", bench.path("out"), "--", *argv], status)
    path, = [line for line in stdout.splitlines() if line.endswith(".snap")]
    return bench.show(path)["metadata"], stdout, stderr


@harness.core
def test_exact_run_without_a_domain_records_python_or_the_heap(bench):
    need_python()
    metadata, stdout, _ = run_by_default(bench, PYTHON, "-c", "import os; print(os.environ['ALLOCSNAP_EXACT'])")
    check_equal((metadata["domains"], stdout.splitlines()[0]), ("python", "0000000000"), "domains, what its library was asked for")
    metadata, _, _ = run_by_default(bench, "/bin/sh", "-c", "exit 7", status=7)
    check_equal(metadata["domains"], "malloc", "domains")


@harness.core
def test_exact_run_without_a_domain_refuses_what_loads_no_library(bench):
    harness.need_injection()
    stdout, stderr = bench.run([ALLOCSNAP, "run", "--exact", "-o", bench.path("out"), "--", os.path.join(harness.WORKLOADS, "own_sampler_static")], 125)
    check_equal((stdout, stderr.count("\n"), "is linked statically" in stderr), ("", 1, True), f"output, lines, words of {stderr!r}")


# ---- what is none ----

@harness.core
def test_exact_run_refuses_what_is_no_python(bench):
    """It cannot become one, and is not started."""
    mark = bench.path("mark")
    paths, _, stderr = run(bench, tool("touch"), mark, status=125)
    check_equal((paths, os.path.exists(mark), stderr.count("\n")), ([], False, 1), f"snapshots, was it started, lines of {stderr!r}")
    for words in "runs no CPython", "'allocsnap run --exact'", "was not started":
        check(words in stderr, stderr)


@harness.rows({
    "ends_before": (0, (PYTHON, "--version"), "before its Python began"),
    "fails_to_start": (127, ("/no/such/program",), "No such file"),
    "cannot_be_loaded": (127, ("/usr/bin/env", "LD_PRELOAD=", "/no/such/program"), "without starting another program"),
    "becomes_nothing": (7, ("/bin/sh", "-c", "exit 7"), "has not become a program that runs CPython"),
    "is_killed_before": (137, ("/bin/sh", "-c", "kill -9 $$"), "has not become a program that runs CPython"),
    "has_python_as_a_child": (3, ("/bin/sh", "-c", f"{PYTHON} -c pass; exit 3"), "--follow-forks"),
    "has_a_limit_on_addresses": (125, (tool("prlimit"), f"--as={4 << 30}", PYTHON, "-c", "print(1)"), "limit on addresses"),
}, of_core=("ends_before", "becomes_nothing"))
def test_exact_run_of_one_that(bench, status, argv, words):
    paths, _, stderr = run(bench, *argv, status=status)
    own = [line for line in stderr.splitlines() if line.startswith("allocsnap: ")]
    check_equal((paths, len(own), words in stderr), ([], 1, True), f"snapshots, lines, words of {stderr!r}")


def test_exact_run_waits_for_a_program_and_passes_signals_on(bench):
    """The shell does not become a Python: that is said, and SIGTERM reaches it."""
    need_python()
    shell = bench.start([ALLOCSNAP, "run", "--exact", *OF_PYTHON, "-o", bench.path("out"), "--", "/bin/sh", "-c",
                         "trap 'echo told; exit 5' TERM; echo ready; while :; do sleep 0.05; done"])
    check_equal(shell.line(), "ready", "its first line")
    wait_for(lambda: "nothing is recorded until it has become" in shell.stderr(), "a line about the wait")
    shell.popen.send_signal(signal.SIGTERM)
    check_equal((shell.line(), shell.wait()), ("told", 5), "its last line, exit status")


# ---- how it goes on, and ends ----

@harness.core
def test_exact_run_of_a_program_that_ends_at_once(bench):
    """Its last snapshot is there, unless it has ended before it was seen: on a busy machine. Then it is said."""
    recorded = 0
    for _ in range(5 if harness.runs_core() else 30):
        paths, _, stderr = run(bench, PYTHON, "-I", "-S", "-c", "pass")
        check(paths or "it was not seen: nothing was recorded" in stderr, stderr)
        if not paths:
            continue
        recorded += 1
        shown = bench.show(paths[0])
        check_equal((shown["metadata"]["end"], losses_of(shown)), ("exited 0", {}), "its end, losses")
        older = int(shown["metadata"].get("unseen_start_count", 0))  # on a busy machine the recording begins later, and says so
        check(shown["counters"]["allocations"] > 5000 or older, f"only {shown['counters']['allocations']} allocations")
    check(recorded, "it was never recorded")


@harness.rows({
    "an_exit": (9, "import sys; sys.exit(9)", "exited 9"),
    "an_error": (1, "raise OSError", "exited 1"),
    "a_signal": (137, "import os; os.kill(os.getpid(), 9)", "killed by signal 9"),
})
def test_exact_run_ends_with(bench, status, code, how):
    (path,), _, _ = run(bench, PYTHON, "-c", code, status=status)
    check_equal(bench.show(path)["metadata"]["end"], how, "its end")


def test_exact_run_passes_signals_on(bench):
    running = start(bench)
    child = running.child()
    running.do("import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: (print('told', flush=True), sys.exit(5)))\nkeep(kept, 500)")
    check_equal(kept(bench, running.snapshot()), 500, "blocks at SIGUSR1")
    running.popen.send_signal(signal.SIGTERM)
    check_equal(running.line(), "told", "the program's line")
    check(running.line().endswith(".snap"), "no last snapshot")
    check_equal((running.wait(), harness.is_running(child.pid)), (5, False), "exit status, whether it runs")


def test_exact_run_and_control_c(bench):
    """The terminal sends it to both: the program ends by it, and the recorder may look while Python frees what it held."""
    need_python()
    running = bench.start([tool("setsid"), "--wait", ALLOCSNAP, "run", "--exact", *OF_PYTHON, "-o", bench.path("out"), "--interval", NEVER, "--",
                           PYTHON, "-S", str(TOLD)], kind=RunningTold, env=ENVIRONMENT)
    check_equal(running.line(60), "ready", f"first line; {running.stderr()!r}")
    child = running.child()
    running.do("keep(kept, 500)")
    os.killpg(os.getpgid(child.pid), signal.SIGINT)
    paths = list(iter(running.line, None))
    check_equal((running.wait(), kept(bench, paths[-1]) <= 500), (130, True), "exit status, blocks at the end")
    check("KeyboardInterrupt" in running.stderr(), running.stderr())


def test_exact_run_ends_before_the_program(bench):
    """After --count the hooks go; the program goes on, and its exit status is still passed on."""
    running = start(bench, options=("--count", "1"))
    child = running.child()
    check(injected(child), "no hooks")
    running.do("keep(kept, 500)")
    check_equal(kept(bench, running.snapshot()), 500, "blocks")
    is_gone(child)
    running.do("del kept[:200]\nassert len(kept) == 300")
    running.popen.stdin.close()
    check_equal(running.wait(), 0, "exit status")


@harness.core
def test_exact_run_that_is_killed_leaves_the_program(bench):
    running = start(bench)
    child = running.child()
    running.popen.kill()
    running.popen.wait()
    is_gone(child)
    running.do("keep(kept, 500)\nassert len(kept) == 500")
    running.popen.stdin.close()
    wait_for(lambda: not harness.is_running(child.pid), "its end")


@harness.core
@harness.for_each(("recorder", "recorder_at_its_exec", "tracer"))
def test_exact_run_that_is_killed_amid_the_start(bench, killed):
    """The program goes on to its end: held at its exec, or while the tracer lets it run from call to call."""
    need_python()
    moment = "python3" if killed == "recorder_at_its_exec" else "allocsnap-trace"
    wanted, seen, tries = 3 if harness.runs_core() else 10, 0, 0
    while seen < wanted:  # the tracer's time is short
        seen += is_killed_amid_the_start(bench, moment, killed == "tracer")
        tries += 1
        check(tries < 20 * wanted, f"the moment was seen {seen} times in {tries} starts")
    return f"{seen} times in {tries} starts"


def is_killed_amid_the_start(bench, moment, is_tracer_meant):
    mark = pathlib.Path(bench.path("mark"))
    mark.unlink(missing_ok=True)
    starting = bench.start([ALLOCSNAP, "run", "--exact", *OF_PYTHON, "-o", bench.path("out"), "--", PYTHON, "-S", "-c",
                            f"open({str(mark)!r}, 'w').write('went on')"], env=ENVIRONMENT)
    found = None
    while not found and starting.popen.poll() is None:
        found = next((pid for pid, comm in children_of(starting.pid) if comm == moment), None)
    if found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(found if is_tracer_meant else starting.pid, signal.SIGKILL)
    starting.popen.wait()
    wait_for(lambda: mark.exists() and mark.read_text(encoding="utf-8") == "went on", "the program after our end", 30, Law)
    return found is not None


def test_exact_run_of_one_that_becomes_another_program(bench):
    """The next program has no hooks, and that is said."""
    running = start(bench)
    child = running.child()
    running.write(repr(f"import os\nos.execv({PYTHON!r}, [{PYTHON!r}, '-S', {str(TOLD)!r}])") + "\n")
    check_equal(running.line(), "ready", "the next program")
    check(not injected(child), "hooks in the next program", Law)
    wait_for(lambda: "went with the program" in running.stderr(), f"no note of the exec: {running.stderr()!r}")
    end(running)


def test_exact_run_leaves_forked_children_alone(bench):
    running = start(bench)
    running.do("import os\nchild = os.fork()\nif not child:\n keep(kept, 300)\n os._exit(len(kept) % 256)\n"
               "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 300 % 256\nkeep(kept, 500)")
    path = running.snapshot()
    check_equal((kept(bench, path), losses_of(bench.show(path))), (500, {}), "blocks, losses")
    end(running)


def test_exact_run_does_not_change_signals_descriptors_and_limits(bench):
    """As without allocsnap, but for the limits that its parent has."""
    code = ("import os, resource\nlines = dict(line.split(':', 1) for line in open('/proc/self/status'))\n"
            "own = 3 << 31  # signals 32 and 33 are the C library's, for its threads\n"
            "print([int(lines[name], 16) & ~own for name in ('SigBlk', 'SigIgn', 'TracerPid')], sorted(os.listdir('/proc/self/fd')), "
            "[resource.getrlimit(n) for n in range(16)])")
    plain = bench.run([PYTHON, "-c", code])[0].splitlines()
    _, seen, _ = run(bench, PYTHON, "-c", code)
    check_equal(seen, plain, "signals, descriptors and limits")
