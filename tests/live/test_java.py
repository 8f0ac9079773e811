# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Java virtual machines: which are asked, by what, and which are left as they are."""
import os
import pathlib
import re
import shutil
import signal
import subprocess

import harness
from harness import Skip, check, check_equal, wait_for

SOURCE = pathlib.Path(__file__).resolve().parent.parent / "workloads/Leak.java"
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
HOMES = [pathlib.Path(home) for home in os.environ.get("ALLOCSNAP_TEST_JAVAS", "").split(":") if home]
JVMS = sorted({path.parent.parent for path in (pathlib.Path(shutil.which("java") or "/nowhere").resolve(),) if path.exists()} |
              {path.parent.parent for path in pathlib.Path("/usr/lib/jvm").glob("*/bin/java") if not path.parent.parent.is_symlink()} | set(HOMES))


def compiler():
    return next((home / "bin/javac" for home in JVMS if (home / "bin/javac").exists()), None)


def java(home=None):
    if not JVMS or not compiler():
        raise Skip("no Java with a compiler is installed")
    return str((home or JVMS[0]) / "bin/java")


def compiled(bench):
    """The folder with the classes, which all users can read."""
    folder = pathlib.Path(bench.path("classes"))
    java()
    if not folder.exists():
        subprocess.run([compiler(), "-g", "--release", "11", "-d", folder, SOURCE], check=True)
        for path in (folder, *folder.parents):
            if str(path).startswith(os.environ.get("TMPDIR", "/tmp")) and path != pathlib.Path("/tmp"):
                path.chmod(path.stat().st_mode | 0o755)
    return folder


def start(bench, *options, home=None, before=(), args=()):
    process = bench.start([*before, java(home), "-Xmx256m", *options, "-cp", str(compiled(bench)), "Leak", *args])
    check_equal(process.line(), "ready", "the first line")
    return process


def left_in_tmp(process):
    return sorted(path.name for path in pathlib.Path("/tmp").glob(f".attach_pid{process.pid}")) + \
           sorted(path.name for path in pathlib.Path("/tmp").glob(".allocsnap*"))


def check_unharmed(process):
    process.write("alive\n")
    check_equal(process.line(), "alive", "the answer of the program")
    check_equal(left_in_tmp(process), [], "files in /tmp")


def test_census_counts_objects_by_class(bench):
    for before in ((), NOBODY):
        process = start(bench, before=before)
        process.write("keep 1000\n")
        check_equal(process.line(), "kept 1000", "the answer of the program")
        taken = bench.json("census", "--java", "live", str(process.pid))
        counts = {row["class"]: row["count"] for row in taken["classes"]}
        check_equal(counts["Leak$Session"], 1000, "sessions")
        check(taken["is_live"] and taken["count"] == sum(counts.values()), "the sums are wrong")
        check("Leak$Session" in bench.allocsnap("census", "--java", "all", "--top", "0", str(process.pid))[0], "no sessions in text")
        check_unharmed(process)


REFUSALS = {
    "without_the_attach_mechanism": (("-XX:+DisableAttachMechanism",), "it was started with -XX:+DisableAttachMechanism"),
}


@harness.rows(REFUSALS, of_core=REFUSALS)
def test_census_is_refused(bench, options, words):
    process = start(bench, *options)
    check(words in bench.allocsnap("census", "--java", "all", str(process.pid), status=1)[1], f"not {words}")
    check_unharmed(process)
    check("Full thread dump" not in process.stderr(), "it was sent SIGQUIT")


def test_census_of_a_process_without_a_virtual_machine(bench):
    process = bench.start(["sleep", "600"])
    check("no libjvm.so" in bench.allocsnap("census", "--java", "all", str(process.pid), status=1)[1], "another reason")
    check(process.popen.poll() is None, "sleep has ended")


def test_a_stopped_virtual_machine_is_refused(bench):
    process = start(bench)
    os.kill(process.pid, signal.SIGSTOP)
    wait_for(lambda: re.search(r"^State:\tT", pathlib.Path(f"/proc/{process.pid}/status").read_text(encoding="ascii"), re.M), "it stops")
    check("it is stopped" in bench.allocsnap("census", "--java", "all", str(process.pid), status=1)[1], "another reason")
    os.kill(process.pid, signal.SIGCONT)
    check_unharmed(process)
