# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Processes into which nothing may be injected: there is one line that says why, and nothing has changed."""
import os
import re
import shutil
import signal
import subprocess

from bench import FOLDER, SAMPLER_FOLDER, by_hooks, has_hooks, injector, range_of, read_text
from harness import Law, Skip, check_equal, wait_for
from harness.suite import for_each, rows
from test_suspended import group, hold_up, let_go

MARKS = ("core",)

BUSY = "refused EAGAIN thread .* does not stop"  # on a busy machine a thread may have no processor for half a second


def refusal_of(pid, expected, order="inject", **more):
    for _ in range(50):
        said = injector("plan", pid, status=None, **more) if order == "inject" else ""
        if not said.startswith("refused"):
            said = injector(order, pid, status=1, **more)
        if re.match(f"refused {expected}", said) or not re.match(BUSY, said):
            break
    return said


def check_refused(process, expected, pid=None, is_still=True, **more):
    """is_still: the process opens and maps nothing by itself meanwhile."""
    def look():
        found = {"code": process.code("libc.so.6"), "blocked signals": process.signal_masks()}
        return found | {"mappings": process.maps(), "files": process.files()} if is_still else found
    before = look()
    said = refusal_of(pid or process.pid, expected, **more)
    assert re.match(f"refused {expected}", said), said
    assert said.count("\n") == 1, said
    changed = [name for name, now in look().items() if now != before[name]]
    check_equal(changed, [], "what has changed", Law)
    return said.strip()


REFUSALS = {
    "hook": "EOPNOTSUPP the code of .*: another tool has changed it",
    "copied": "EOPNOTSUPP the code of .* is not mapped as a file of code",
    "twice": "EOPNOTSUPP .* is mapped more than once",
    "shared": "EAGAIN process .* uses the same memory",
    "vfork": "EAGAIN process .* uses the same memory",
    "kernel": "EAGAIN thread .* does not stop: it waits in the kernel",
    "traced": "EAGAIN process .* traces it",
    "partly-traced": "EAGAIN process .* traces thread",
    "amid": "EAGAIN thread .* was interrupted amid what would be replaced",
    "far": "EOPNOTSUPP no room for the sampler near",
    "sealed": "EOPNOTSUPP the pages of .* may not be exchanged",
    "files": "EOPNOTSUPP it may make no memory file",
    "dispatch": "EOPNOTSUPP thread .* handles its system calls itself",
    "memory": "EAGAIN .* KiB more would be more than its limit on addresses",
}


@by_hooks()
@for_each(REFUSALS)
def test_refuses(bench, mode):
    process = bench.refusing(mode)
    said = check_refused(process, REFUSALS[mode])
    process.popen.stdin.write("\n")
    process.end()
    return said


@by_hooks()
def test_refuses_a_stopped_process(bench):
    process = bench.refusing("plain")
    os.kill(process.pid, signal.SIGSTOP)
    wait_for(lambda: "State:\tT" in read_text("/proc", process.pid, "status"), "the stop")
    check_refused(process, "EAGAIN process .* is stopped")
    assert "State:\tT" in read_text("/proc", process.pid, "status")
    os.kill(process.pid, signal.SIGCONT)
    process.end()


@by_hooks()
def test_refuses_a_zombie(bench):
    process = bench.refusing("plain")
    process.popen.stdin.close()
    wait_for(lambda: "State:\tZ" in read_text("/proc", process.pid, "status"), "its end")
    assert re.match("refused ESRCH process .* has ended", injector("inject", process.pid, status=1))


def test_refuses_what_is_no_process(bench):
    process = bench.refusing("vfork")
    assert "ESRCH" in injector("inject", 2**22 - 1, status=1)
    assert "thread of the kernel" in injector("inject", 2, status=1)
    thread = max(map(int, os.listdir(f"/proc/{process.pid}/task")))
    check_refused(process, f"EOPNOTSUPP {thread} is a thread of process {process.pid}", pid=thread)


@by_hooks()
def test_refuses_a_frozen_process(bench):
    """On the way out, too: it says why, and what to do."""
    process = bench.refusing("plain")
    with group("freeze") as folder:
        (folder / "cgroup.procs").write_text(str(process.pid))
        for order in "inject", "eject":
            hold_up(folder)
            wait_for(lambda: "frozen 1" in (folder / "cgroup.events").read_text(), "the freeze")
            check_refused(process, r"EAGAIN thread .* does not run \(its control group is frozen, .*: try again", order=order)
            let_go(folder)
            injector(order, process.pid)
    process.end()


@by_hooks()
def test_refuses_without_privileges(bench):
    check_refused(bench.refusing("plain"), "EPERM", as_user=65534)


def test_refuses_an_entry_that_cannot_move(bench):
    check_refused(bench.refusing("plain", preload=os.path.join(FOLDER, "free_is_ret.so")),
                  "EOPNOTSUPP free of .*: an instruction at its entry cannot be moved: ret")


def test_refuses_code_that_may_be_copied(bench):
    check_refused(bench.refusing("plain", preload=os.path.join(FOLDER, "copies_text.so")),
                  "EOPNOTSUPP .*copies_text.so may copy its code while it runs")


def test_refuses_functions_on_many_pages(bench):
    check_refused(bench.refusing("plain", preload=os.path.join(FOLDER, "many_pages.so")),
                  "EOPNOTSUPP the functions of .*many_pages.so lie on more than 32 pages")


@by_hooks()
def test_refuses_many_allocators(bench):
    most = 3 if has_hooks() else 4
    copies = [os.path.join(bench.folder, f"lockfree{i}.so") for i in range(most)]
    for copy in copies:
        shutil.copy(os.path.join(FOLDER, "lockfree.so"), copy)
    check_refused(bench.refusing("libraries", *copies), f"EOPNOTSUPP it has more than {most} allocators")


def test_refuses_a_process_with_a_sampler(bench):
    """Preloaded; of the program's own; injected, which stays as it is."""
    for library in os.path.join(os.path.dirname(SAMPLER_FOLDER), "liballocsnap-sampler.so"), os.path.join(FOLDER, "own_sampler.so"):
        check_refused(bench.refusing("plain", preload=library), "EEXIST the process has a sampler already")
    process = bench.refusing("plain")
    injector("inject", process.pid)
    check_refused(process, "EEXIST the process has an injected sampler already, of process .*, which has ended")
    injector("eject", process.pid)
    process.end()


@by_hooks()
def test_refuses_seccomp_without_the_privilege_to_suspend_it(bench):
    process = bench.storm("seccomp")
    check_refused(process, "EPERM thread .* is under seccomp: suspending that needs CAP_SYS_ADMIN",
                  without="sys_admin")
    process.goes_on()
    process.end()


def own_sysctl(name, value):
    """A prefix for programs in a PID namespace of their own, with a sysctl of it."""
    unshared = ["unshare", "--pid", "--mount-proc", "--fork", "--kill-child"]
    set_it = f"echo {value} > /proc/sys/{name}"
    if subprocess.run([*unshared, "sh", "-c", set_it], capture_output=True, check=False).returncode:
        raise Skip(f"this kernel has no {name}")
    return [*unshared, "sh", "-c", set_it + ' && exec "$@"', "sh"]


@by_hooks()
def test_refuses_where_memory_files_may_not_be_code(bench):
    """vm.memfd_noexec, at 1 (may, if asked for) and 2 (may not)."""
    for value in 1, 2:
        prefix = own_sysctl("vm/memfd_noexec", value)
        process = bench.refusing("plain", prefix=prefix)
        process.enter_container("refusals")
        if value == 1:
            injector("inject", process.pid)
            injector("eject", process.pid)
        else:
            check_refused(process, "EOPNOTSUPP it may make no memory file: Permission denied")
        process.end()


HOOKS_NEED = {  # the mode of refusals, a prefix, what is said
    "addresses": ("plain", ("prlimit", f"--as={8 << 30}"), "EAGAIN .* KiB more would be more than its limit on addresses"),
    "memory_that_is_not_locked": ("locked", (), "EOPNOTSUPP it locks all of its memory|EAGAIN it may not map the hooks: it locks"),
}


@rows(HOOKS_NEED)
def test_refuses_hooks_without(bench, mode, prefix, said):
    os.environ["EXACT"] = "1"
    bench.callback(os.environ.pop, "EXACT")
    process = bench.refusing(mode, prefix=prefix)
    check_refused(process, f"({said})")
    process.end()


def test_refuses_heaptrack(bench):
    library = "/usr/lib/heaptrack/libheaptrack_preload.so"
    if not os.path.exists(library):
        raise Skip("no heaptrack")
    process = bench.refusing("plain", preload=library, DUMP_HEAPTRACK_OUTPUT="/dev/null")
    check_refused(process, "EEXIST its allocator belongs to heaptrack", is_still=False)  # it has a thread of its own


def test_refuses_a_sanitizer(bench):
    library = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True).stdout.strip()
    if not os.path.isabs(library):
        raise Skip("no libasan.so")
    process = bench.refusing("plain", preload=os.path.realpath(library), ASAN_OPTIONS="detect_leaks=0")
    check_refused(process, "EEXIST its allocator belongs to AddressSanitizer")


@by_hooks()
def test_refuses_a_program_without_malloc(bench):
    process = bench.start("bare")
    wait_for(lambda: "bare" in "".join(process.maps("bare")), "its start")
    check_refused(process, "EOPNOTSUPP no known allocator is in it")


def test_room_below_the_stack(bench):
    process = bench.refusing("far-below")
    injector("inject", process.pid)
    injector("eject", process.pid)
    process.end()


@by_hooks()
def test_memory_that_is_never_writable_and_executable(bench):
    """PR_SET_MDWE: it may be refused, but here it works, as no mapping has both or changes."""
    process = bench.refusing("mdwe")
    injector("inject", process.pid)
    injector("eject", process.pid)
    process.end()


def test_refuses_to_give_back_what_is_no_page_of_the_allocator(bench):
    process = bench.refusing("overmapped")
    injector("inject", process.pid)
    process.popen.stdin.write("\n")
    begun, end = process.sampler_room()
    wait_for(lambda: any(begun < range_of(line)[0] < end for line in process.maps("inject/refusals")), "other code in the room")
    check_refused(process, "EOPNOTSUPP the process has unmapped a page of its allocator", order="eject")
    process.popen.stdin.write("\n")
    process.end()


@by_hooks()
def test_owner_decides(bench):
    """While the process that injected runs, another one does not eject."""
    process = bench.storm("alloc")
    injector("inject", process.pid, OWNER=str(os.getpid()))
    said = injector("eject", process.pid, status=1)
    assert re.match(f"refused EAGAIN process {os.getpid()}, which is running, has injected it", said), said
    injector("eject", process.pid, OWNER=str(os.getpid()))
    process.end()
