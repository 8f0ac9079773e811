# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The doctor's statements are true of each kind of process, and agree with what attach does."""
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess

import doctor_kinds as kinds
from doctor_kinds import LIBRARIES, compiled, started
import harness
import unit_file
from harness import (ALLOCSNAP, NO_RETURNS, NO_SESSIONS, Skip, check, check_equal, check_unchanged, need_sessions,
                     private_mounts, tool)

FAILED, REFUSED = 1, 2


def doctor(bench, pid, status=0, has_text=False):
    """The doctor's JSON about a process; its text, which a second doctor writes, must agree with it."""
    answer = json.loads(bench.allocsnap("doctor", str(pid), "--json", status=status)[0])
    check_equal(answer["schema"], "allocsnap.doctor/1", "schema")
    check_equal(answer["records"], status == 0, "records")
    if has_text or not harness.runs_core():
        check_doctor_text(answer, bench.allocsnap("doctor", str(pid), "-v", status=status)[0])
    return answer["process"]


def check_doctor_text(answer, text):
    check("can be recorded" in text.splitlines()[0] if answer["records"] else
          "cannot be recorded" in text.splitlines()[0], f"its verdict: {text.splitlines()[0]!r}")
    for unseen in answer["process"]["unseen"]:
        for words in (unseen["what"] + ": ", unseen.get("todo", "")):
            check(words in text, f"the text does not say {words!r}")


def unseen(process):
    return {row["name"] for row in process["unseen"]}


def probes(rows):
    return {(row["object"], row["function"], row["offset"], row["placement"], row.get("instruction"))
            for row in rows}


def check_as_attach_does(bench, pid, process):
    """A recording starts, and has the probes that the doctor lists."""
    recording = bench.attach([pid])
    shown = bench.show(recording.snapshot())
    recording.end(signal.SIGINT)
    check_equal(probes(row for row in process["probes"] if row["placed"]), probes(shown["probes"]),
                "probes")
    check_equal(process["probe_kind"], shown["metadata"]["probe_kind"], "probe_kind")
    for note in process["notes"]:
        check(note in recording.stderr(), f"attach does not say {note!r}, but {recording.stderr()!r}")
    check_equal(any("without return probes" in note for note in process["notes"]),
                process["probe_kind"] == "uprobe_ret", "a note of why there are no return probes")
    check_equal(process["functions_unprobed"], shown["losses"]["functions_unprobed"] +
                shown["losses"]["functions_dropped"], "functions_unprobed")


def check_refused_by_attach(bench, pid):
    bench.run([ALLOCSNAP, "attach", str(pid), "-o", bench.path("none"), "--count", "1"], FAILED)


def file_of(process, path):
    found = [row for row in process["files"] if row["path"] == path]
    check_equal(len(found), 1, f"files that are {path}")
    return found[0]


def check_file(bench, process, path):
    """The doctor's row for a file must agree with binutils."""
    row, sections = file_of(process, path), kinds.sections(bench, path)
    check_equal(row.get("build_id"), kinds.build_id(bench, path), f"build-id of {path}")
    check_equal(row["stripped"], ".symtab" not in sections, f"{path} is stripped")
    check_equal("has call frame information" in row["has"], ".eh_frame" in sections,
                f"{path} has .eh_frame")
    functions = kinds.functions(bench, path)
    for probe in process["probes"]:
        if probe["object"] == path:
            check_equal(probe["offset"], functions[probe["function"]], f"where {probe['function']} is")


def check_program(bench, process, path, linking, allocators):
    """{name: number of the domain} of the allocators that are found."""
    check_equal(process["linking"], linking, "how it is linked")
    check_equal(linking, kinds.linking(bench, path), "the same, by readelf")
    check_equal({row["name"]: row["domain"] for row in process["allocators"]}, allocators,
                "allocators")
    check_file(bench, process, path)
    for row in process["allocators"]:
        check_file(bench, process, row["object"])


def check_recorded(bench, process, path, linking="dynamic", allocators=None):
    check_program(bench, process, path, linking, allocators or {"glibc": 0})
    check("older-memory" in unseen(process), "its older memory")
    check_equal("no-allocator" in unseen(process), False, "no allocator")
    check_as_attach_does(bench, process["pid"], process)


# ---- C -------------------------------------------------------------------------------------------

def test_doctor_describes_a_dynamic_program(bench):
    path = compiled(bench, "dynamic", "-g")
    process = doctor(bench, started(bench, [path]).pid, has_text=True)
    check_recorded(bench, process, path)
    check_equal(file_of(process, path)["unwinding"], "table", "how callers are found")
    check_equal(process["runtimes"], [], "runtimes")
    returns = {row["function"]: row.get("returns") for row in process["probes"]}
    check_equal(returns["malloc"], "ret" if NO_RETURNS else "return probe" if NO_SESSIONS else
                "session", "how malloc is seen to return")
    check_equal(returns["free"], None, "how free is seen to return")


def test_doctor_describes_a_stripped_program(bench):
    path = compiled(bench, "stripped", "-s")
    process = doctor(bench, started(bench, [path]).pid)
    check_recorded(bench, process, path)
    check("no-names" in unseen(process), "missing names are not reported")


def test_doctor_describes_a_static_program(bench):
    path = compiled(bench, "static", "-static")
    process = doctor(bench, started(bench, [path]).pid)
    check_recorded(bench, process, path, "static", {"program": 0})
    check("loader" not in unseen(process), "it has no loader")


def test_doctor_describes_a_stripped_static_program(bench):
    path = compiled(bench, "bare", "-static", "-s")
    process = doctor(bench, started(bench, [path]).pid, FAILED)
    check_program(bench, process, path, "static", {})
    check_equal(process["probes"], [], "probes")
    check("no-allocator" in unseen(process), "the reason is not reported")
    check("stripped" in process["unseen"][0]["why"], f"the reason: {process['unseen'][0]}")
    check_refused_by_attach(bench, process["pid"])


def test_doctor_describes_a_static_pie(bench):
    path = compiled(bench, "pie", "-static-pie")
    process = doctor(bench, started(bench, [path]).pid)
    check_recorded(bench, process, path, "static PIE", {"program": 0})


def test_doctor_describes_a_static_musl_program(bench):
    path = compiled(bench, "musl", "-static", compiler="musl-gcc")
    process = doctor(bench, started(bench, [path]).pid)
    check_recorded(bench, process, path, "static", {"program": 0})


def test_doctor_describes_a_program_without_unwind_tables(bench):
    path = compiled(bench, "tableless", "-fno-asynchronous-unwind-tables", "-nostartfiles",
                    "-Wl,--no-eh-frame-hdr", "-Wl,-e,main", "-fno-omit-frame-pointer")
    subprocess.run([tool("objcopy"), "--remove-section=.eh_frame", path], check=True,
                   capture_output=True)
    process = doctor(bench, started(bench, [path]).pid)
    check_file(bench, process, path)
    check_equal(file_of(process, path)["unwinding"], "frame pointers", "how callers are found")
    check("no-tables" in unseen(process), "it is not reported")


def test_doctor_describes_a_32_bit_program(bench):
    path = compiled(bench, "small", "-m32", "-static", "-nostdlib", "-ffreestanding", "-no-pie",
                    source=kinds.WAITS_32)
    kinds.need_32_bit(path)
    process = bench.start([path])
    found = doctor(bench, process.pid, FAILED)
    check_equal(found["linking"], "32-bit", "what it is")
    check_equal(kinds.linking(bench, path), "32-bit", "the same, by readelf")
    check("32-bit" in unseen(found), "the reason is not reported")
    check_refused_by_attach(bench, process.pid)


# ---- runtimes ------------------------------------------------------------------------------------

def test_doctor_describes_a_go_program(bench):
    process = doctor(bench, started(bench, [tool("gh"), "auth", "login", "--with-token"]).pid, has_text=True)
    path = process["exe"]
    check(".gopclntab" in kinds.sections(bench, path), f"{path} is no Go program")
    check_recorded(bench, process, path)
    check_equal(process["runtimes"], ["Go"], "runtimes")
    check_equal(process["unseen"][0]["name"], "go-heap", "what is first of what is not seen")


def test_doctor_describes_a_rust_program(bench):
    process = doctor(bench, started(bench, [tool("rg"), "x", "-"]).pid)
    check(b"/library/std/src/" in pathlib.Path(process["exe"]).read_bytes(), "it is not Rust")
    check_recorded(bench, process, process["exe"])
    check_equal(process["runtimes"], ["Rust"], "runtimes")


@harness.smoke
def test_doctor_describes_python(bench):
    argv = ["/usr/bin/python3", "-c", "import os; os.read(0, 1)"]
    target = started(bench, argv)
    with harness.environment("ALLOCSNAP_NO_UPROBE_SESSION"):
        process = doctor(bench, target.pid, has_text=True)
        check_recorded(bench, process, process["exe"])
        check_equal(process["runtimes"], ["Python"], "runtimes")
        obstacle = "uprobe sessions" if os.uname().machine == "x86_64" else "x86-64 only"
        check_equal((process["python"]["records"], obstacle in process["python"]["why"]), (False, True), "its objects")
        check("python-objects" in unseen(process), "small objects are not reported")
        other = doctor(bench, started(bench, argv, PYTHONMALLOC="malloc").pid)
        check("python-objects" not in unseen(other), "with PYTHONMALLOC=malloc they are seen")


def test_doctor_describes_python_whose_objects_would_be_recorded(bench):
    need_sessions()
    argv = ["/usr/bin/python3", "-c", "import os; os.read(0, 1)"]
    process = doctor(bench, started(bench, argv).pid, has_text=True)
    check_equal({row["name"]: row["domain"] for row in process["allocators"]}, {"python": 5}, "allocators")
    check_as_attach_does(bench, process["pid"], process)
    found = process["python"]
    check(found["records"] and found["places"] > 400 and found["places_unknown"] < 20, found)
    check(found["version"].startswith("3."), f"its version: {found}")
    check({"python-heap", "older-memory"} <= unseen(process) and "python-objects" not in unseen(process), unseen(process))


def test_doctor_describes_node(bench):
    """node is large, so the packages for the tests do not include it."""
    if not kinds.installed("node"):
        raise Skip("node is not installed")
    process = doctor(bench, started(bench, ["node", "-e", "process.stdin.resume()"]).pid)
    check_recorded(bench, process, process["exe"])
    check_equal(process["runtimes"], ["V8 (JavaScript)"], "runtimes")
    check({"v8-heap", "code-at-run-time"} <= unseen(process), "its heap, its compiled code")
    lines = pathlib.Path(f"/proc/{process['pid']}/maps").read_text().splitlines()
    check(any(line.split()[1][2] == "x" and len(line.split()) == 5 for line in lines),
          "no code lies outside files")


JAVA = """
public class Waits {
    public static void main(String[] arguments) throws java.io.IOException { System.in.read(); }
}
"""


def test_doctor_describes_java(bench):
    """Java is as large as node."""
    if not kinds.installed("javac"):
        raise Skip("javac is not installed")
    pathlib.Path(bench.path("Waits.java")).write_text(JAVA, encoding="ascii")
    bench.run(["javac", "-d", bench.folder, bench.path("Waits.java")], seconds=60)
    process = doctor(bench, started(bench, ["java", "-cp", bench.folder, "Waits"]).pid)
    check_equal(process["runtimes"], ["a Java virtual machine"], "runtimes")
    check({"java-heap", "code-at-run-time"} <= unseen(process), "its heap, its compiled code")
    check_as_attach_does(bench, process["pid"], process)


def test_doctor_counts_a_single_probe(bench):
    """A static musl program has only the functions that it calls."""
    source, program = bench.path("one.c"), bench.path("one")
    pathlib.Path(source).write_text("#include <stdlib.h>\n#include <unistd.h>\nint main(void) "
                                    "{ return read(0, malloc(9), 1) < 0; }\n", encoding="ascii")
    bench.run([tool("musl-gcc"), "-O2", "-fno-builtin", "-static", source, "-o", program])
    one = bench.start([program])
    text = bench.allocsnap("doctor", str(one.pid))[0]
    check(text.splitlines()[0].endswith(": 1 probe would be placed"), text.splitlines()[0])
    check(f"\n  program (domain 0): 1 probe in {program}\n" in text, "the allocators")
    one.write("x")
    check_equal(one.wait(), 0, "its exit status")


def test_doctor_describes_redis(bench):
    path = tool("redis-server")
    process = started(bench, [path, "--port", "0", "--save", "", "--unixsocket", bench.path("s")])
    found = doctor(bench, process.pid)
    check_recorded(bench, found, found["exe"], allocators={"jemalloc": 2, "glibc": 0})


# ---- allocators ----------------------------------------------------------------------------------

def test_doctor_describes_a_program_with_tcmalloc(bench):
    """tcmalloc's operator new throws, so its returns are not seen by return probes."""
    library = LIBRARIES / "libtcmalloc_minimal.so.4"
    path = compiled(bench, "dynamic")
    process = doctor(bench, started(bench, [path], library=library).pid)
    check_recorded(bench, process, path, allocators={"tcmalloc": 3, "glibc": 0})
    returns = {row["function"]: row["returns"] for row in process["probes"]
               if row["function"] == "_Znwm"}
    check_equal(returns, {"_Znwm": "ret"}, "how operator new is seen to return")


def test_doctor_describes_a_program_with_mimalloc(bench):
    path = compiled(bench, "dynamic")
    process = doctor(bench, started(bench, [path], library=LIBRARIES / "libmimalloc.so.2.0").pid)
    check_recorded(bench, process, path, allocators={"mimalloc": 4, "glibc": 0})


def test_doctor_reports_a_renamed_mimalloc(bench):
    """The doctor reports allocator functions under names that no table has."""
    source = kinds.WAITS + "void *_mi_malloc_generic(size_t size) { return malloc(size); }\n"
    path = compiled(bench, "renamed", source=source)
    check("renamed-allocator" in unseen(doctor(bench, started(bench, [path]).pid)), "it is not reported")


def test_doctor_recognizes_a_prefixed_jemalloc(bench):
    """Names that the table knows are probed, and there is nothing to say."""
    source = kinds.WAITS + "void *je_malloc(size_t size) { return malloc(size); }\n"
    process = doctor(bench, started(bench, [compiled(bench, "prefixed", source=source)]).pid)
    check("renamed-allocator" not in unseen(process), "it is reported")
    check("je_malloc" in [row["function"] for row in process["probes"]], "it is not probed")


# ---- elsewhere -----------------------------------------------------------------------------------

def test_doctor_describes_a_process_in_a_chroot(bench):
    process = kinds.chroot(bench)
    found = doctor(bench, process.pid)
    check(found["other_root"], "its root is another one")
    check_as_attach_does(bench, process.pid, found)


def test_doctor_describes_a_process_in_a_mount_namespace(bench):
    """The program's file is in a mount namespace that we do not see."""
    place = bench.path("place")
    os.mkdir(place)
    script = 'mount -t tmpfs none "$1" && cp "$0" "$1/waits" && exec "$1/waits"'
    process = started(bench, [*private_mounts(), "sh", "-c", script, compiled(bench, "dynamic"),
                              place])
    found = doctor(bench, process.pid)
    check(found["other_mount_namespace"], "its mounts are others")
    check_equal(file_of(found, f"{place}/waits")["stripped"], False, "its program can be read")
    check_as_attach_does(bench, process.pid, found)


def test_doctor_describes_a_process_in_a_pid_namespace(bench):
    outer = bench.start([tool("unshare"), "-p", "--fork", compiled(bench, "dynamic")])
    kinds.wait_for(lambda: pathlib.Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text(),
                   "its child")
    pid = int(pathlib.Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text())
    kinds.wait_for(lambda: kinds.waits_for_input(pid), "its child waiting")
    found = doctor(bench, pid)
    check(found["other_pid_namespace"], "its pid namespace is another one")
    check_as_attach_does(bench, pid, found)


# ---- nothing to record ---------------------------------------------------------------------------

def test_doctor_refuses_a_kernel_thread(bench):
    if pathlib.Path("/proc/2/comm").read_text().strip() != "kthreadd":
        raise Skip("PID 2 is no kernel thread here")
    process = doctor(bench, 2, FAILED)
    check(process["kernel_thread"] and "kernel thread" in process["why"], f"why: {process['why']!r}")
    check_refused_by_attach(bench, 2)


def test_doctor_refuses_a_zombie(bench):
    pid = kinds.zombie(bench)
    process = doctor(bench, pid, FAILED)
    check_equal(process["state"], "Z", "state")
    check("zombie" in process["why"], f"why: {process['why']!r}")
    check_refused_by_attach(bench, pid)


def test_doctor_refuses_a_process_without_main_thread(bench):
    path = compiled(bench, "leaderless", "-pthread", source=kinds.LEADERLESS)
    pid = started(bench, [path]).pid
    kinds.wait_for(lambda: pathlib.Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z",
                   "the end of its main thread")
    process = doctor(bench, pid, FAILED)
    check("main thread has ended" in process["why"], f"why: {process['why']!r}")
    check_refused_by_attach(bench, pid)


def test_doctor_refuses_a_missing_process(bench):
    process = bench.start(["true"])
    process.wait()
    found = doctor(bench, process.pid, FAILED)
    check("no process" in found["why"], f"why: {found['why']!r}")


# ---- the machine ---------------------------------------------------------------------------------

def machine(bench, prefix=(), status=0):
    out, _ = bench.run([*prefix, ALLOCSNAP, "doctor", "--json"], status)
    answer = json.loads(out)["machine"]
    return answer, {row["name"]: row for row in answer["checks"]}


@harness.core
def test_doctor_describes_the_machine(bench):
    answer, checks = machine(bench)
    check(answer["records"], f"why not: {answer}")
    check_equal(answer["kernel"], os.uname().release, "kernel")
    for name in ("BTF", "BPF programs", "uprobe", "pid namespace", "CAP_SYS_ADMIN"):
        check_equal(checks[name]["state"], "ok", name)
    text, _ = bench.allocsnap("doctor")
    check_equal(text.splitlines()[0], f"this machine can record: kernel {answer['kernel']}", "verdict")


def test_doctor_describes_the_machine_without_privilege(bench):
    """The doctor runs as user "nobody": it reports which facts of the machine and of a process it cannot find out."""
    os.chmod(bench.folder, 0o777)
    binary = bench.path("allocsnap")
    pathlib.Path(binary).write_bytes(pathlib.Path(ALLOCSNAP).read_bytes())
    os.chmod(binary, 0o755)
    nobody = [tool("setpriv"), "--reuid=65534", "--regid=65534", "--clear-groups"]
    out, err = bench.run([*nobody, binary, "doctor", "--json"], FAILED)
    answer = json.loads(out)["machine"]
    check_equal(err, "", "stderr")
    check("root" in answer["why"] and "with CAP_BPF, CAP_PERFMON, CAP_CHECKPOINT_RESTORE" in answer["why"] and
          "doctor" not in answer["why"], f"why: {answer['why']!r}")
    checks = {row["name"]: row["state"] for row in answer["checks"]}
    check_equal((checks["CAP_BPF"], checks["CAP_SYS_ADMIN"], checks["uprobe"]),
                ("no", "unknown", "unknown"), "what it may do")
    pid = started(bench, [compiled(bench, "dynamic")]).pid
    out, err = bench.run([*nobody, binary, "doctor", str(pid), "--json"], FAILED)
    process = json.loads(out)["process"]
    check(not process["records"] and "Permission denied" in process["why"], f"{process}")


def test_doctor_describes_a_machine_without_btf(bench):
    script = 'mount -t tmpfs none /sys/kernel/btf && exec "$@"'
    answer, checks = machine(bench, [*private_mounts(), "sh", "-c", script, "sh"], FAILED)
    check("BTF" in answer["why"], f"why: {answer['why']!r}")
    check_equal(checks["BTF"]["state"], "no", "BTF")


def test_doctor_names_a_user_namespace(bench):
    """Capabilities in it look as if they were enough; a rootless container has such ones."""
    answer, checks = machine(bench, [tool("unshare"), "--user", "--map-root-user"], FAILED)
    check("user namespace" in answer["why"], f"why: {answer['why']!r}")
    check_equal((checks["user namespace"]["state"], checks["CAP_BPF"]["state"]), ("no", "ok"), "states")


def test_doctor_names_a_filter_of_system_calls(bench):
    """As a container engine's profile that does not permit bpf."""
    steps = pathlib.Path(bench.path("filter"))
    steps.write_bytes(b"".join(struct.pack("HBBI", *step) for step in (
        (unit_file.LOAD, 0, 0, 0), (unit_file.IF_EQUAL, 0, 1, *unit_file.numbers(["bpf"])),
        (unit_file.RETURN, 0, 0, unit_file.REFUSE), (unit_file.RETURN, 0, 0, unit_file.ALLOW))))
    answer, checks = machine(bench, ["/usr/bin/python3", "-c", unit_file.ENTER, str(steps)], FAILED)
    check("seccomp" in answer["why"], f"why: {answer['why']!r}")
    check_equal(checks["seccomp"]["state"], "no", "seccomp")


def test_doctor_names_lockdown(bench):
    """On a kernel that was started with it: `make test-kernels`."""
    if "lockdown=confidentiality" not in pathlib.Path("/proc/cmdline").read_text():
        raise Skip("this kernel is not locked down")
    answer, checks = machine(bench, status=FAILED)
    check("lockdown" in answer["why"], f"why: {answer['why']!r}")
    check_equal(checks["lockdown"]["state"], "no", "lockdown")


# As the profiles of container engines: everything, but to look at a process with another label.
PROFILE = """
profile allocsnap-confined {
	capability, file, network, mount, umount, signal, unix,
	ptrace (trace, read) peer=allocsnap-confined,
}
"""


def test_doctor_names_a_security_label(bench):
    """AppArmor's, on a kernel that was started with it: `make test-kernels`. Outside of a profile nothing is hidden."""
    if not shutil.which("apparmor_parser") or "security=apparmor" not in pathlib.Path("/proc/cmdline").read_text():
        raise Skip("this kernel has no AppArmor, or there is no apparmor_parser")
    profile = pathlib.Path(bench.path("profile"))
    profile.write_text(PROFILE)
    bench.run(["mount", "-t", "securityfs", "securityfs", "/sys/kernel/security"])
    bench.run(["apparmor_parser", "--replace", "--skip-cache", str(profile)])
    _, checks = machine(bench)
    check_equal(checks["security label"]["state"], "ok", "an unconfined doctor")
    enter = 'echo "exec allocsnap-confined" >/proc/self/attr/exec && exec "$@"'
    answer, checks = machine(bench, ["sh", "-c", enter, "sh"], FAILED)
    check_equal(checks["security label"]["state"], "no", f"a confined doctor: {checks['security label']}")
    check("security label" in answer["why"] and "Unconfined" in answer["why"], f"why: {answer['why']!r}")


def test_doctor_leaves_no_probe(bench):
    """The doctor puts no probe into the process: its code does not change."""
    process = started(bench, [compiled(bench, "dynamic")])
    doctor(bench, process.pid)
    check_unchanged(process.pid, "after doctor")


def test_doctor_refuses_invalid_command_lines(bench):
    for arguments in (["0"], ["-1"], ["1", "2"], ["--no-such-option"]):
        out, err = bench.run([ALLOCSNAP, "doctor", *arguments], REFUSED)
        check_equal(out, "", "stdout")
        check(err.startswith("allocsnap: "), f"the line does not begin with allocsnap: {err!r}")
