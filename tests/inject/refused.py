# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Processes into which nothing may be injected: there is one line that says why, and nothing has changed."""
import os
import re
import signal
import subprocess

from bench import FOLDER, SAMPLER_FOLDER, Skip, for_each, injector, read_text, test, wait_for


def check_refused(process, expected, pid=None, **more):
    def look():
        return process.maps(), process.code("libc.so.6"), process.files(), process.signal_masks()
    before = look()
    for action in ("plan", "inject"):
        said = injector(action, pid or process.pid, status=1, **more)
        if said.startswith("refused"):
            break
    assert re.match(f"refused {expected}", said), said
    assert said.count("\n") == 1, said
    assert look() == before, "something has changed"
    return said.strip()


REFUSALS = {
    "hook": "EOPNOTSUPP the code of .*: another tool has changed it",
    "copied": "EOPNOTSUPP the code of .* is not mapped as a file of code",
    "twice": "EOPNOTSUPP .* is mapped more than once",
    "shared": "EAGAIN process .* uses the same memory",
    "vfork": "EAGAIN process .* uses the same memory",
    "traced": "EAGAIN process .* traces it",
}
REFUSED_LATER = {
    "far": "EOPNOTSUPP no room for the sampler near",
    "sealed": "EOPNOTSUPP the pages of .* may not be exchanged",
    "files": "EOPNOTSUPP it may make no memory file",
    "memory": "EOPNOTSUPP it may not map the sampler",
}


@for_each(REFUSALS)
def test_refuses(bench, mode):
    return check_refused(bench.refusing(mode), REFUSALS[mode])


@for_each(REFUSED_LATER)
def test_refuses_when_it_begins(bench, mode):
    process = bench.refusing(mode)
    before = process.maps(), process.code("libc.so.6"), process.files()
    said = injector("inject", process.pid, status=1)
    assert re.match(f"refused {REFUSED_LATER[mode]}", said), said
    assert (process.maps(), process.code("libc.so.6"), process.files()) == before, "something has changed"
    process.popen.stdin.write("\n")
    process.end()
    return said.strip()


@test
def test_refuses_a_stopped_process(bench):
    process = bench.refusing("plain")
    os.kill(process.pid, signal.SIGSTOP)
    wait_for(lambda: "State:\tT" in read_text("/proc", process.pid, "status"), "the stop")
    check_refused(process, "EAGAIN process .* is stopped")
    assert "State:\tT" in read_text("/proc", process.pid, "status")
    os.kill(process.pid, signal.SIGCONT)
    process.end()


@test
def test_refuses_what_is_no_process(bench):
    process = bench.refusing("vfork")
    assert "ESRCH" in injector("inject", 2**22 - 1, status=1)
    assert "thread of the kernel" in injector("inject", 2, status=1)
    thread = max(map(int, os.listdir(f"/proc/{process.pid}/task")))
    check_refused(process, f"EOPNOTSUPP {thread} is a thread of process {process.pid}", pid=thread)


@test
def test_refuses_without_privileges(bench):
    check_refused(bench.refusing("plain"), "EPERM", as_user=65534)


@test
def test_refuses_an_entry_that_cannot_move(bench):
    check_refused(bench.refusing("plain", preload=os.path.join(FOLDER, "free_is_ret.so")),
                  "EOPNOTSUPP free of .*: an instruction at its entry cannot be moved: ret")


@test
def test_refuses_a_process_with_a_sampler(bench):
    library = os.path.join(os.path.dirname(SAMPLER_FOLDER), "liballocsnap-sampler.so")
    check_refused(bench.refusing("plain", preload=library), "EEXIST the process has a sampler already")


@test
def test_refuses_a_sanitizer(bench):
    library = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True).stdout.strip()
    if not os.path.isabs(library):
        raise Skip("no libasan.so")
    process = bench.refusing("plain", preload=os.path.realpath(library), ASAN_OPTIONS="detect_leaks=0")
    check_refused(process, "EOPNOTSUPP its allocator is that of AddressSanitizer")


@test
def test_refuses_a_program_without_malloc(bench):
    process = bench.start("bare")
    wait_for(lambda: "bare" in "".join(process.maps("bare")), "its start")
    check_refused(process, "EOPNOTSUPP no known allocator is in it")


@test
def test_memory_that_is_never_writable_and_executable(bench):
    """PR_SET_MDWE: it may be refused, but here it works, as no mapping has both or changes."""
    process = bench.refusing("mdwe")
    injector("inject", process.pid)
    injector("eject", process.pid)
    process.end()


@test
def test_owner_decides(bench):
    """While the process that injected runs, another one does not eject."""
    process = bench.storm("alloc")
    injector("inject", process.pid, OWNER=str(os.getpid()))
    said = injector("eject", process.pid, status=1)
    assert re.match(f"refused EAGAIN process {os.getpid()}, which is running, has injected it", said), said
    injector("eject", process.pid, OWNER=str(os.getpid()))
    process.end()
