# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Errors: one line says why, and the exit status is right."""
import os
import pathlib
import shutil
import signal
import subprocess

import harness
from harness import ALLOCSNAP, NO_RETURNS, PATIENCE, Skip, check, check_equal, private_mounts, tool, wait_for

FAILED, REFUSED = 1, 2


def check_says(err, *words):
    """One line, ours, that holds one of each of the words (a|b is a or b)."""
    if NO_RETURNS:  # it prints a line about that, which is not the one under test
        err = "".join(line for line in err.splitlines(True) if "without return probes" not in line)
    err = "".join(line for line in err.splitlines(True) if " is recorded by traps and " not in line)
    check_equal(err.count("\n"), 1, f"lines on stderr ({err!r})")
    check(err.startswith("allocsnap: "), f"the line does not begin with allocsnap: {err!r}")
    for word in words:
        check(any(part.lower() in err.lower() for part in word.split("|")),
              f"{err!r} does not say '{word}'")


def attach_fails(bench, target, *words, prefix=(), options=("--duration", "500ms"), status=FAILED):
    pid = str(getattr(target, "pid", target))
    argv = [*prefix, ALLOCSNAP, "attach", pid, "-o", bench.path("out"), *options]
    out, err = bench.run(argv, status)
    check_equal(out, "", "stdout")
    check_says(err, *words)
    return err


def attach_refused(bench, *arguments):
    out, err = bench.run([ALLOCSNAP, "attach", *arguments], REFUSED)
    check_equal(out, "", "stdout")
    check(err.startswith("allocsnap: "), f"the line does not begin with allocsnap: {err!r}")
    return err


def ended_pid(bench):
    process = bench.start(["true"])
    process.wait()
    return process.pid


@harness.core
@harness.smoke
def test_attach_refuses_a_missing_process(bench):
    pid = ended_pid(bench)
    attach_fails(bench, pid, str(pid), "no process|no such process")
    check(not os.path.exists(bench.path("out")), "a directory was made for nothing")


@harness.core
def test_attach_refuses_a_kernel_thread(bench):
    if pathlib.Path("/proc/2/comm").read_text().strip() != "kthreadd":
        raise Skip("PID 2 is no kernel thread here")
    attach_fails(bench, 2, "kernel thread", "2")


@harness.core
def test_attach_without_privilege_explains_what_to_do(bench):
    """allocsnap runs as user "nobody"."""
    deep = bench.workload("deep")
    os.chmod(bench.folder, 0o777)
    binary = shutil.copy(ALLOCSNAP, bench.path("allocsnap"))
    argv = [tool("setpriv"), "--reuid=65534", "--regid=65534", "--clear-groups", binary, "attach",
            str(deep.pid), "-o", bench.path("out"), "--duration", "500ms"]
    _, err = bench.run(argv, FAILED)
    check_says(err, "root|CAP_BPF|privilege")
    deep.is_unharmed()


@harness.core
def test_attach_without_btf_is_refused(bench):
    deep = bench.workload("deep")
    script = 'mount -t tmpfs none /sys/kernel/btf && exec "$@"'
    attach_fails(bench, deep, "BTF", prefix=[*private_mounts(), "sh", "-c", script, "sh"])
    deep.is_unharmed()


def in_time_namespace(bench):
    argv = [tool("unshare"), "-T", "--monotonic", "100000", "--boottime", "100000", "--fork"]
    if subprocess.run([*argv, "true"], capture_output=True, check=False).returncode:
        raise Skip("no time namespaces here")
    return argv


@harness.core
def test_attach_in_a_time_namespace_is_refused(bench):
    attach_fails(bench, bench.start(["sleep", "100"]), "time namespace", "host", prefix=in_time_namespace(bench))


@harness.core
def test_run_recognizes_a_child_in_a_time_namespace(bench):
    """/proc gives the child's start time by the reader's clocks: the child is recognized as the same process."""
    bench.run([ALLOCSNAP, "run", "-f", "-o", bench.path("out"), "--", *in_time_namespace(bench), "cat", "/dev/null"], 0)
    found, = pathlib.Path(bench.path("out")).rglob("cat.*/*.snap")
    info, _ = bench.run([ALLOCSNAP, "show", str(found)], 0)
    check("exited 0" in info and "/dev/null" in info, f"what it was: {info}")


@harness.core
def test_attach_refuses_a_program_without_allocator(bench):
    """A static program without symbols."""
    source, program = bench.path("still.c"), bench.path("still")
    pathlib.Path(source).write_text("#include <unistd.h>\nint main(void) { return read(0, "
                                    "&(char){ 0 }, 1) < 0; }\n", encoding="ascii")
    compiled = subprocess.run([tool("gcc"), "-static", "-s", source, "-o", program],
                              capture_output=True, check=False)
    if compiled.returncode:
        raise Skip("gcc -static does not work")
    still = bench.start([program])
    attach_fails(bench, still, "still", "malloc|allocator")
    still.write("x")
    check_equal(still.wait(), 0, "its exit status")


@harness.core
def test_attach_refuses_a_program_without_the_chosen_domains(bench):
    known = bench.workload("known")
    attach_fails(bench, known, "known", "none of the chosen domains", "libc",
                 options=("--domain", "jemalloc,mimalloc", "--duration", "500ms"))


@harness.core
def test_attach_refuses_an_output_that_is_a_file(bench):
    deep = bench.workload("deep")
    pathlib.Path(bench.path("out")).write_text("not a directory\n", encoding="ascii")
    attach_fails(bench, deep, "Not a directory|File exists", bench.path("out"))
    deep.is_unharmed()


@harness.core
def test_attach_refuses_an_output_that_is_not_writable(bench):
    """A file system that is read-only, which stops root too."""
    deep = bench.workload("deep")
    os.mkdir(bench.path("out"))
    script = 'mount -t tmpfs -o ro none "$0" && exec "$@"'
    attach_fails(bench, deep, "Read-only", bench.path("out"),
                 prefix=[*private_mounts(), "sh", "-c", script, bench.path("out")])
    deep.is_unharmed()


@harness.core
def test_an_output_that_is_not_writable_is_refused_first(bench):
    """Before anything else is looked at: the process is none. A read-only file system, a folder to be made on it, /proc/sys."""
    pid = str(ended_pid(bench))
    os.mkdir(bench.path("out"))
    script = 'mount -t tmpfs -o ro none "$0" && exec "$@"'
    for command in (["attach", pid], ["leaks", pid], ["run"]):
        for place in (bench.path("out"), bench.path("out/a/b"), bench.path("out/one.snap")):
            if command[0] == "leaks" and place.endswith(".snap"):
                continue
            end = ["--", "true"] if command[0] == "run" else []
            argv = [*private_mounts(), "sh", "-c", script, bench.path("out"), ALLOCSNAP, *command, "-o", place, *end]
            _, err = bench.run(argv, 125 if command[0] == "run" else FAILED)
            check_says(err, "Read-only", "cannot write into")
    out, err = bench.run([ALLOCSNAP, "attach", pid, "-o", "/dev/null/a"], FAILED)
    check_says(err, "Not a directory")
    check_equal(os.listdir(bench.path("out")), [], "files of the recorder")


def test_attach_goes_on_when_the_disk_is_full(bench):
    """One line says so, and another one when there is room again. The status still says that it failed."""
    known = bench.workload("known")
    known.order("go")
    os.mkdir(bench.path("out"))
    script = ('mount -t tmpfs -o size=32k none "$0" || exit 99; head -c 28k /dev/zero >"$0/ballast"; '
              '"$@" & read line; mount -o remount,size=4m "$0"; rm "$0/ballast"; read line; kill -INT $!; wait $!')
    shell = bench.start([*private_mounts(), "sh", "-c", script, bench.path("out"), ALLOCSNAP, "attach", str(known.pid),
                         "-o", bench.path("out"), "-i", "100ms"])
    wait_for(lambda: "No space left on device; the recording goes on" in shell.stderr(), "the line about the disk")
    shell.write("\n")
    wait_for(lambda: "snapshots are written again: " in shell.stderr(), "the line about room")
    check(shell.line().endswith(".snap"), "a path of a snapshot")
    shell.write("\n")
    check_equal(shell.wait(), FAILED, f"exit status ({shell.stderr()!r})")
    known.is_unharmed()


@harness.core
def test_attach_on_a_full_disk_leaves_no_incomplete_snapshot(bench):
    """An error, exit status 1, and no incomplete snapshot is left."""
    known = bench.workload("known")
    known.order("go")
    os.mkdir(bench.path("out"))
    script = ('mount -t tmpfs -o size=32k none "$0" || exit 99; '
              'head -c 24k /dev/zero >"$0/ballast"; '
              '"$@"; status=$?; find "$0" -type f ! -name ballast; exit $status')
    argv = [*private_mounts(), "sh", "-c", script, bench.path("out"), ALLOCSNAP, "attach",
            str(known.pid), "-o", bench.path("out")]
    process = bench.start([*argv, "--duration", "3s"])
    while process.popen.poll() is None:
        known.order("free")
        known.order("go")
    check_equal(process.wait(), FAILED, f"exit status ({process.stderr()!r})")
    check_says(process.stderr(), "No space left")
    check_equal(process.line(), None, "files left")
    known.is_unharmed()


@harness.core
def test_invalid_command_lines_are_refused(bench):
    deep = bench.workload("deep")
    pid = str(deep.pid)
    for arguments, word in (
            ([], "PID"),
            (["0"], "0"),
            (["-5"], "-5"),
            ([pid, "--interval", "soon"], "soon"),
            ([pid, "--interval", "0"], "interval"),
            ([pid, "--duration", "-1s"], "-1s"),
            ([pid, "--duration", "5 parsecs"], "parsecs"),
            ([pid, "--duration", "99999999999999h"], "99999999999999h"),
            ([pid, "--count", "0"], "count"),
            ([pid, "--count", "many"], "many"),
            ([pid, "--traceback-limit", "0"], "traceback-limit"),
            ([pid, "--traceback-limit", "128"], "traceback-limit"),
            ([pid, "--max-blocks", "0"], "max-blocks"),
            ([pid, "--max-blocks", "10X"], "10X"),
            ([pid, "--max-blocks", "134217729"], "128M"),
            ([pid, "--max-memory", "0"], "max-memory"),
            ([pid, "--max-memory", "1M"], "too little"),
            ([pid, "--max-memory", "64M", "--max-blocks", "1M"], "in place of"),
            ([pid, "--max-memory", "64M", "--max-tracebacks", "9"], "in place of"),
            ([pid, "--label", "version"], "NAME=VALUE"),
            ([pid, "--label", "a b=1"], "a b=1"),
            ([pid, "--label", "=1"], "=1"),
            ([pid, "-o", ""], "-o"),
            ([pid, "--no-such-option"], "no-such-option"),
            ([pid, "-o"], "-o")):
        err = attach_refused(bench, *arguments)
        check(word in err, f"attach {' '.join(arguments)}: {err!r} does not name {word}")
    for argv in ([], ["attack", pid], ["--no-such-option"]):
        _, err = bench.run([ALLOCSNAP, *argv], REFUSED)
        check(err != "", f"allocsnap {' '.join(argv)} prints nothing")
    deep.is_unharmed()


@harness.core
def test_help_and_version_are_printed(bench):
    for argv in (["--help"], ["attach", "--help"], ["stats", "--help"], ["diff", "--help"],
                 ["show", "--help"], ["--version"]):
        out, err = bench.run([ALLOCSNAP, *argv])
        check(out and not err, f"{argv}: stdout {out!r}, stderr {err!r}")


@harness.core
def test_invalid_snapshot_files_are_refused(bench):
    """Damaged in any place: one line, exit 1, and never an answer."""
    deep, recording = bench.recorded("deep")
    deep.order("go")
    whole = pathlib.Path(recording.end(signal.SIGINT)[-1]).read_bytes()
    damaged = {"empty": b"", "text": b"hello\n" * 100, "short": whole[:-8], "half":
               whole[:len(whole) // 2], "long": whole + bytes(8)}
    for place in range(0, len(whole), max(1, len(whole) // 24)):
        flipped = bytearray(whole)
        flipped[place] ^= 0x10
        damaged[f"flipped-{place}"] = bytes(flipped)
    for name, content in damaged.items():
        path = bench.path(name + ".snap")
        pathlib.Path(path).write_bytes(content)
        out, err = bench.allocsnap("stats", path, status=FAILED)
        check_equal(out, "", f"stdout for {name}")
        check_says(err, path)
    os.mkdir(bench.path("no_snapshots"))
    for path in (bench.path("missing.snap"), bench.path("no_snapshots")):
        _, err = bench.allocsnap("show", path, status=FAILED)
        check_says(err, path)


@harness.core
def test_full_disk_behind_stdout_is_an_error(bench):
    """A full disk behind stdout is a failure, not a shorter answer."""
    deep, recording = bench.recorded("deep")
    deep.order("go")
    path = recording.end(signal.SIGINT)[-1]
    for command in ("stats", "show"):
        with open("/dev/full", "wb") as full:
            status = subprocess.run([ALLOCSNAP, command, path], stdout=full, timeout=20 * PATIENCE,
                                    stderr=subprocess.DEVNULL, check=False).returncode
        check_equal(status, FAILED, f"exit status of {command} into a full disk")


@harness.core
def test_closed_stdout_is_an_error(bench):
    """No probe and no snapshot file gets descriptor 1."""
    known = bench.workload("known")
    folder = bench.path("closed")
    argv = [ALLOCSNAP, "attach", str(known.pid), "-o", folder, "--duration", "500ms"]
    _, err = bench.run(["sh", "-c", 'exec "$@" >&-', "sh", *argv], status=FAILED)
    check_says(err, "standard output: Bad file descriptor")
    paths = list(pathlib.Path(folder).rglob("*.snap"))
    check_equal(len(paths), 1, "snapshots")
    check_equal(bench.show(str(paths[0]))["metadata"]["comm"], "known", "comm of the snapshot")


@harness.core
def test_run_writes_to_a_host_folder_of_another_user(bench):
    """The recorder keeps the capabilities that it needs to write there."""
    out = bench.path("out")
    host = os.path.join(out, os.uname().nodename)
    os.makedirs(host, 0o700)
    os.chown(host, 65534, 65534)
    lines, _ = bench.run([ALLOCSNAP, "run", "-o", out, "--", "/bin/ls", "/"])
    written = [line for line in lines.splitlines() if line.startswith(host) and line.endswith(".snap")]
    check_equal(len(written), 1, f"snapshots in {lines!r}")
