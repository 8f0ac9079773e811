# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Hooks of an exact recording are put into a Python that allocates in several threads, and taken out."""
import os
import re
import select
import signal
import subprocess
import sys

from bench import FOLDER, INJECTOR, PATIENCE_S, Process, injector, read_text
from harness import Law, Skip, check, check_equal, core, runs_core, wait_for
from harness.suite import for_each, rows
from test_inject import Killed
from test_refused import refusal_of

HOOKED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hooked.py")
PYTHON = "/usr/bin/python3"


def start(bench, prefix=(), python=PYTHON, **environment):
    process = Process([*prefix, python, HOOKED], **environment)
    bench.callback(process.kill)
    wait_for(lambda: process.ask()[0] > 0, "the first round", PATIENCE_S)
    return process


def python_with_tracer():
    """From 3.13 on, CPython has a pointer to a function that sees its objects."""
    for path in os.environ.get("ALLOCSNAP_TEST_PYTHONS", "").split(":"):
        if re.search(r"3\.1[34]$", path):
            return path
    raise Skip("ALLOCSNAP_TEST_PYTHONS names no Python 3.13 or 3.14")


def words(process):
    """The pointers in the tables of its allocators, as they are in memory."""
    return injector("words", process.pid).split()


def inject(process):
    """The arguments of `injector books` for its books."""
    said = injector("hooks", process.pid)
    return re.match(r"books (\d+) (\d+) (\d+) (\d+)\n", said).groups()


def check_gone(process, before, what=""):
    check(not process.injected(), f"{what}: something is still mapped", Law)
    check_equal((words(process), process.files(), process.signal_masks()), before, f"{what}: what was there before", Law)


def look(process):
    return words(process), process.files(), process.signal_masks()


def on_of(pid, start):
    """Whether the hooks of a process are on: the word in the only page of the mapping below the books."""
    for line in read_text("/proc", pid, "maps").splitlines():
        end = int(line.split()[0].split("-")[1], 16)
        if end == int(start):
            with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
                memory.seek(int(line.split()[0].split("-")[0], 16))
                return int.from_bytes(memory.read(8), sys.byteorder)
    return None


# ---- the way in and out ----

@core
def test_hooks_come_and_go(bench):
    process = start(bench)
    before = look(process)
    books = inject(process)
    process.goes_on()
    found = injector("find", process.pid)
    assert re.match("found hooks of an exact recording .* active 1 unfinished 0 .* functions 12", found), found
    assert [line.split()[1] for line in process.maps("allocsnap-books")] == ["rw-s"], process.maps("allocsnap")
    assert on_of(process.pid, books[0]) == 1
    assert re.match("books asbooks version [0-9]+ epoch 0 off 0", injector("books", process.pid, *books, 0, 0)), "their head"
    for order in "hooks", "plan":
        said = injector(order, process.pid, status=1)
        assert "refused EEXIST" in said or "replaced by functions of another file" in said, said
    assert injector("eject", process.pid).startswith("ejected 12 functions, kept 0")
    check_gone(process, before)
    assert "refused ENOENT" in injector("find", process.pid, status=1)
    process.goes_on()
    process.end()


@core
def test_hooks_come_and_go_a_hundred_times(bench):
    process = start(bench)
    before = look(process)
    said = injector("hook-cycles", process.pid, 100 if runs_core() else 1000)
    process.goes_on()
    assert "kept 0" in said, said
    check_gone(process, before)
    process.end()
    return said.strip()


def test_hooks_in_a_namespace_of_processes(bench):
    """Its threads have other numbers there."""
    process = start(bench, prefix=("unshare", "--pid", "--fork", "--kill-child"))
    process.enter_container("python3")
    before = look(process)
    inject(process)
    process.goes_on()
    injector("eject", process.pid)
    check_gone(process, before)
    process.end()


@core
def test_hooks_that_pass_on_leave_no_return_address(_):
    """Each one that calls a function also jumps to it: the ejector counts on it."""
    code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", os.path.join(FOLDER, "../python_hooks.so")],
                          capture_output=True, text=True, check=True).stdout
    parts = {name: part for name, part in re.findall(r"<(hook_\w+)>:\n(.*?)(?:\n\n|$)", code, re.DOTALL)}
    calling = {name for name, part in parts.items() if re.search(r"call +\*", part)}
    assert calling, sorted(parts)
    check_equal({name for name in calling if not re.search(r"jmp +\*", parts[name])}, set(), "hooks that only call")


# ---- the injector is killed ----

def kill_at_each_moment(bench, action, process):
    before = look(process)
    injectors, moment = Killed(bench, process.pid, order="hook-serve"), 1
    if action == "eject":
        injectors.order("inject")
    while injectors.order(action, moment):
        process.goes_on()
        injector("eject", process.pid, status=None, TRIES="200")
        process.goes_on()
        wait_for(lambda: process.files() == before[1], f"moment {moment}: its descriptors", PATIENCE_S, Law)
        check_gone(process, before, f"moment {moment}")
        moment += 3 if runs_core() else 1
        if action == "eject":
            injectors.order("inject")
    assert moment > 20, moment
    injector("eject", process.pid, status=None)
    process.end()
    return f"{moment} moments"


@core
@rows({"inject": ("inject",), "eject": ("eject",), "inject_below_a_stack": ("inject", "DEEP"), "eject_below_a_stack": ("eject", "DEEP")})
def test_killed_at_each_moment_of_hooks(bench, action, *flags):
    """On a stack of which no part is unused, the call is made below what is in use."""
    return kill_at_each_moment(bench, action, start(bench, **dict.fromkeys(flags, "1")))


@for_each(("inject", "eject"))
def test_killed_at_each_moment_of_hooks_that_see_objects(bench, action):
    return kill_at_each_moment(bench, action, start(bench, python=python_with_tracer()))


def test_hooks_that_see_objects_come_and_go(bench):
    process = start(bench, python=python_with_tracer())
    before = look(process)
    assert len(before[0]) == 13 and before[0][12] == "0", before[0]
    inject(process)
    process.goes_on()
    assert "functions 13" in injector("find", process.pid)
    assert injector("eject", process.pid).startswith("ejected 13 functions, kept 0")
    check_gone(process, before)
    said = injector("hook-cycles", process.pid, 100)
    process.goes_on()
    assert "kept 0" in said, said
    check_gone(process, before)
    process.end()
    return said.strip()


def test_killed_amid_the_tables(bench):
    """Some pointers lead to hooks: that is said, and taken out."""
    process = start(bench)
    before = look(process)
    injector("hooks", process.pid, status=-signal.SIGKILL, DIE_AT="a word written")
    process.goes_on()
    assert "active 1 unfinished 1" in injector("find", process.pid)
    assert injector("eject", process.pid).startswith("ejected 1 functions, kept 0")
    check_gone(process, before)
    process.end()


@core
def test_child_killed_amid_hooks(bench):
    """The injector itself goes on, and takes back what its child has left."""
    process = start(bench)
    before = look(process)
    for moment in "at the end of a call", "a word written", "all go on":
        said = injector("hooks", process.pid, status=None, DIE_AT=moment, CHILD="1")
        assert "refused EAGAIN" in said, (moment, said)
        check_gone(process, before, moment)
        process.goes_on()
    process.end()


# ---- what the program does meanwhile ----

@core
def test_forked_children_pass_on(bench):
    """A child's hooks are off, and the books are its parent's: taking the hooks out of it leaves these alone."""
    process = start(bench)
    before = look(process)
    books = inject(process)
    child = process.ask("fork")[2]
    wait_for(lambda: on_of(child, books[0]) is not None, "the child", PATIENCE_S)
    assert (on_of(child, books[0]), on_of(process.pid, books[0])) == (0, 1)
    injector("books", process.pid, *books, 9, 4711)  # a thread of the parent is in a hook
    process.goes_on()
    assert injector("eject", child).startswith("ejected 12 functions, kept 0"), "the child"
    assert "off 0" in injector("books", process.pid, *books, 9, 0), "the parent's hooks are off"
    process.ask("reap")
    child = process.ask("fork")[2]
    process.ask("reap")  # with its hooks
    process.goes_on()
    injector("eject", process.pid)
    check_gone(process, before)
    process.end()


@core
def test_a_thread_in_a_hook_keeps_it(bench):
    process = start(bench)
    before = look(process)
    books = inject(process)
    injector("books", process.pid, *books, 4000, 4711)
    assert "kept 1" in injector("eject", process.pid)
    check_equal(words(process), before[0], "the pointers", Law)
    assert "off 1" in injector("books", process.pid, *books, 4000, 0)
    process.goes_on()
    assert injector("eject", process.pid).startswith("ejected 0 functions, kept 0")
    check_gone(process, before)
    process.end()


@core
@for_each(("threads", "programs"))
def test_hooks_while_the_program_begins(bench, what):
    """Others come and go meanwhile."""
    process = start(bench)
    before = look(process)
    process.ask(what)
    said = injector("hook-cycles", process.pid, 50 if runs_core() else 500)
    process.goes_on()
    assert "kept 0" in said, said
    check(not process.injected(), "something is still mapped", Law)
    check_equal(words(process), before[0], "the pointers", Law)
    process.end()
    return said.strip()


@core
def test_tracemalloc_between_look_and_injection(bench):
    process = start(bench)
    late = Process([INJECTOR, "late-hooks", str(process.pid)], TRIES="0")
    bench.callback(late.kill)
    assert select.select([late.popen.stdout], [], [], PATIENCE_S)[0] and late.popen.stdout.readline() == "ready\n"
    process.ask("trace")
    said, _ = late.popen.communicate("\n", timeout=PATIENCE_S)
    assert said.startswith("refused EAGAIN Python's allocators have just been replaced"), said
    check(not process.injected(), "something was injected", Law)
    process.goes_on()
    process.end()


@core
def test_tracemalloc_above_hooks(bench):
    """It keeps pointers to hooks, and puts them back at its end: they stay, and do nothing."""
    process = start(bench)
    before = look(process)
    inject(process)
    process.ask("trace")
    process.goes_on()
    assert injector("eject", process.pid).startswith("ejected 0 functions, kept 1")
    process.goes_on()
    process.ask("untrace")
    process.goes_on()
    assert "active 1" in injector("find", process.pid)
    assert injector("eject", process.pid).startswith("ejected 12 functions, kept"), "they were put back"
    check_equal(words(process), before[0], "the pointers", Law)
    process.goes_on()
    process.end()


# ---- what is refused ----

REFUSED = {
    "file": "EOPNOTSUPP the tables of Python's allocators are not in its own data",
    "tid": "EOPNOTSUPP its C library keeps no thread numbers where they are looked for",
    "key": "EOPNOTSUPP the key of Python's thread states is not where it is looked for",
}


def check_refused(process, expected, **more):
    before = look(process)
    said = refusal_of(process.pid, expected, order="hooks", **more)
    assert re.match(f"refused {expected}", said) and said.count("\n") == 1, said
    check_gone(process, before, expected)
    process.goes_on()


@core
def test_hooks_that_a_process_has_forged(bench):
    """They are taken out like any others, and harm no process; a file that makes no sense is none."""
    for step, said in (8, "ejected 1 functions, kept 0"), (0, "refused ENOENT"), (1 << 40, "refused ENOENT"):
        process = bench.start("hostile", "hooks", step)
        assert process.popen.stdout.readline() == "ready\n"
        found = injector("eject", process.pid, status=None, TRIES="200")
        assert found.startswith(said), (step, found)
        process.kill()


@core
@for_each(REFUSED)
def test_hooks_are_refused(bench, wrong):
    process = start(bench)
    check_refused(process, REFUSED[wrong], WRONG=wrong)
    process.end()


@core
def test_hooks_are_refused_below_a_limit_on_addresses(bench):
    process = start(bench, prefix=("prlimit", f"--as={8 << 30}"))
    check_refused(process, "EAGAIN .* KiB more would be more than its limit on addresses")
    process.end()


@core
def test_hooks_are_refused_where_all_memory_is_locked(bench):
    process = start(bench)
    process.ask("lock")
    check_refused(process, r"(EOPNOTSUPP it locks all of its memory \(mlockall\)|EAGAIN it may not map the hooks: it locks its memory)")
    process.end()
