# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Java virtual machines: which are asked, by what, and which are left as they are."""
import contextlib
import functools
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
              {path.parent.parent for path in pathlib.Path("/usr/lib/jvm").glob("*/bin/java") if not path.parent.parent.is_symlink()}) + HOMES


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
    wait_for(lambda: not left_in_tmp(process), "nothing is in /tmp: agents of other tests are for a moment")


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


# ---- recordings ----

LEAK_LINE = 1 + SOURCE.read_text(encoding="ascii").split("\n").index(
    "        session.data = new byte[4000]; // the leak")
CHURN_LINE = 1 + next(i for i, line in enumerate(SOURCE.read_text(encoding="ascii").split("\n")) if "// no leak" in line)
SESSION_BYTES = 4016  # an array of 4,000 bytes and its head
COLLECTORS = {"serial": "-XX:+UseSerialGC", "g1": "-XX:+UseG1GC", "parallel": "-XX:+UseParallelGC", "z": "-XX:+UseZGC",
              "shenandoah": "-XX:+UseShenandoahGC"}
VERSIONS = (17, 21, 25)
YOUNG_FOR_EVER = {name: (option, "-XX:MaxTenuringThreshold=16") for name, option in COLLECTORS.items() if name in ("serial", "g1")}


@functools.lru_cache(None)
def version_of(home):
    done = subprocess.run([home / "bin/java", "-version"], capture_output=True, text=True, check=False, timeout=120)
    found = re.search(r'version "(\d+)', done.stderr)
    return int(found[1]) if found else 0


def home_of(version):
    java()
    for home in JVMS:
        if version_of(home) == version:
            return home
    raise Skip(f"no Java {version}: it is not installed, and ALLOCSNAP_TEST_JAVAS does not name one")


def ask(process, text, answer):
    process.write(text + "\n")
    check_equal(process.line(), answer, "the answer of the program")


def attach(bench, process, *options, **more):
    return bench.attach([process], "--domain", "java", *options, **more)


def has_agent(process):
    """Whether the agent works: its thread, its memory file."""
    tasks = pathlib.Path(f"/proc/{process.pid}/task")
    names = []
    for task in tasks.iterdir():
        with contextlib.suppress(OSError):  # a thread that has ended
            names.append((task / "comm").read_text(encoding="utf-8").strip())
    return "allocsnap" in names, "/memfd:allocsnap-java" in pathlib.Path(f"/proc/{process.pid}/maps").read_text(encoding="ascii")


def check_quiet(process):
    check_equal(has_agent(process), (False, False), "the agent's thread, and its memory file")
    check_unharmed(process)


def rows_of(statistics):
    return {(row["traceback"][0]["filename"], row["traceback"][0]["lineno"]): row for row in statistics["statistics"]}


@harness.rows({f"{version}_{name}": (version, option) for version in VERSIONS for name, option in COLLECTORS.items()}, of_core=("17_g1",))
def test_leak_line_comes_first(bench, version, option):
    """Its size is the growth that the program has made, within 5 standard deviations; a class has what the virtual machine
    counts itself; garbage is in no row."""
    process = start(bench, option, home=home_of(version))
    recording = attach(bench, process, "--java-gc", "--sample", "16K")
    before = bench.json("census", "--java", "live", str(process.pid))
    for _ in range(4):
        ask(process, "churn 20000", "churned 20000")
        ask(process, "keep 1000", "kept 1000")
    path = recording.snapshot()
    after = bench.json("census", "--java", "live", str(process.pid))
    found = rows_of(bench.stats(path))
    check_equal(next(iter(found)), ("Leak.java", LEAK_LINE), "the first row")
    row = found["Leak.java", LEAK_LINE]
    check_equal(row["traceback"][0]["function"], "Leak.remember", "its function")
    sigma = (4000 * SESSION_BYTES * 16384) ** 0.5
    check(abs(row["size"] - 4000 * SESSION_BYTES) < 5 * sigma, f"{row['size']} bytes, not {4000 * SESSION_BYTES} ± {sigma:.0f}")
    churned = found.get(("Leak.java", CHURN_LINE), {"size": 0})["size"]
    check(churned < 256 * 8080 + 5 * (256 * 8080 * 16384) ** 0.5, f"{churned} bytes of garbage's line")
    grown = {row["class"]: row["bytes"] for row in after["classes"]}
    grown = {name: size - next((row["bytes"] for row in before["classes"] if row["class"] == name), 0) for name, size in grown.items()}
    by_class = {row["key"]: row["size"] for row in bench.stats(path, "-g", "object")["statistics"]}
    for name in ("byte[]", "Leak$Session", "java.lang.String"):
        sigma = (max(grown[name], 16384) * 16384) ** 0.5
        check(abs(by_class.get(name, 0) - grown[name]) < 5 * sigma, f"{name}: {by_class.get(name)}, the virtual machine has {grown[name]} more")
    recording.end(signal.SIGTERM)
    check_quiet(process)


def test_own_collections_show_what_lives(bench):
    """Without --java-gc nothing is shown before a collection of the whole heap, and what it has left afterwards."""
    process = start(bench, "-XX:+UseSerialGC")
    recording = attach(bench, process, "--sample", "16K")
    ask(process, "keep 1000", "kept 1000")
    first = recording.snapshot()
    check_equal(bench.stats(first)["statistics"], [], "rows before a collection")
    warned = bench.allocsnap("stats", first)[1]
    check("that no collection of the whole heap has seen yet" in warned and "--java-gc" in warned, f"no word of it: {warned}")
    latest = None

    def is_judged():
        nonlocal latest
        ask(process, "gc", "collected")
        latest = recording.snapshot()
        return rows_of(bench.stats(latest))
    wait_for(is_judged, "a collection of the whole heap that the agent notices", 120)
    check_equal(next(iter(rows_of(bench.stats(latest)))), ("Leak.java", LEAK_LINE), "the first row")
    check(int(dict(bench.show(latest)["metadata"])["java_whole_gc_count"]) > 0, "rows without a collection of the whole heap")
    recording.end(signal.SIGTERM)
    check_quiet(process)


@harness.rows({name: options for name, options in YOUNG_FOR_EVER.items()}, of_core=("serial",))
def test_young_collections_are_none_of_the_whole_heap(bench, *options):
    """An object that the virtual machine never counts as old goes with a young collection."""
    process = start(bench, *options, "-Xmn16m")
    recording = attach(bench, process, "--sample", "64K")
    check("only --java-gc shows what lives" in recording.stderr(), recording.stderr())

    def has_collected():
        ask(process, "churn 20000", "churned 20000")
        metadata = dict(bench.show(recording.snapshot())["metadata"])
        check_equal(int(metadata["java_whole_gc_count"]), 0, "collections of the whole heap")
        return int(metadata["java_gc_count"]) > 200
    wait_for(has_collected, "200 young collections", 120)
    check_equal(bench.stats(recording.snapshot())["statistics"], [], "rows before a collection of the whole heap")
    recording.end(signal.SIGTERM)
    check_quiet(process)


def test_a_sample_without_memory_is_left_out(bench):
    """The exception of a weak reference that fails does not reach the program."""
    headers = next((home / "include" for home in JVMS if (home / "include/jvmti.h").exists()), None)
    if not headers:
        raise Skip("no headers of a JDK are installed")
    library = bench.path("no_weak.so")
    bench.run([harness.tool("cc"), "-shared", "-fPIC", "-I", str(headers), "-I", str(headers / "linux"), "-o", library,
               str(SOURCE.parents[1] / "live/no_weak.c")])
    process = start(bench, f"-agentpath:{library}")
    recording = attach(bench, process, "--java-gc", "--sample", "16K")
    ask(process, "keep 1000", "kept 1000")
    path = recording.snapshot()
    check_equal(next(iter(rows_of(bench.stats(path)))), ("Leak.java", LEAK_LINE), "the first row")
    check(bench.show(path)["losses"]["samples_dropped"] > 0, "no sample was left out")
    recording.end(signal.SIGTERM)
    check_quiet(process)


ORDERED = {"where_the_program_may_make_none": ("-XX:+DisableExplicitGC",), "beside_the_program": ("-XX:+ExplicitGCInvokesConcurrent",)}


@harness.rows(ORDERED, of_core=())
def test_collections_are_made(bench, option):
    process = start(bench, "-XX:+UseG1GC", option)
    recording = attach(bench, process, "--java-gc", "--sample", "16K")
    ask(process, "keep 1000", "kept 1000")
    ask(process, "churn 20000", "churned 20000")
    found = rows_of(bench.stats(recording.snapshot()))
    check_equal(next(iter(found)), ("Leak.java", LEAK_LINE), "the first row")
    churned = found.get(("Leak.java", CHURN_LINE), {"size": 0})["size"]
    check(churned < 256 * 8080 + 5 * (256 * 8080 * 16384) ** 0.5, f"{churned} bytes of garbage's line")
    recording.end(signal.SIGTERM)
    check_quiet(process)


def test_leaks_names_the_line(bench):
    process = start(bench, "-XX:+UseSerialGC")
    ask(process, "work 4000 20", "works")
    answer = bench.json("leaks", str(process.pid), "--domain", "java", "--java-gc", "--sample", "64K", "--for", "12s")
    lines = [(line["traceback"][0]["filename"], line["traceback"][0]["lineno"]) for leak in answer["leaks"] for line in leak["lines"]]
    check_equal(lines[0], ("Leak.java", LEAK_LINE), "the first line")
    check_equal(answer["leaks"][0]["lines"][0]["class"], "byte[]", "its class")
    check(("Leak.java", CHURN_LINE) not in lines, "garbage leaks")


def test_leaks_does_not_judge_garbage(bench):
    process = start(bench, "-XX:+UseParallelGC")
    ask(process, "work 4000 20", "works")
    out = bench.run([harness.ALLOCSNAP, "leaks", str(process.pid), "--domain", "java", "--for", "5s"], status=3)[0]
    check("Java has never collected its whole heap while it was observed" in out, f"another reason: {out}")


def test_run_begins_with_the_virtual_machine(bench):
    folder = bench.path("out")
    process = bench.start([harness.ALLOCSNAP, "run", "--domain", "java", "--java-gc", "--sample", "16K", "-o", folder, "-i", "1h", "--",
                           "sh", "-c", f"exec {java()} -Xmx64m -cp {compiled(bench)} Leak"])
    check_equal(process.line(), "ready", "the first line")
    wait_for(lambda: "takes samples of allocations" in process.stderr(), "the agent")
    ask(process, "keep 2000", "kept 2000")
    target = next(pid for pid, name in harness.children_of(process.pid) if name == "java")
    os.kill(process.pid, signal.SIGUSR1)
    path = process.line()
    check_equal(next(iter(rows_of(bench.stats(path)))), ("Leak.java", LEAK_LINE), "the first row")
    os.kill(target, signal.SIGTERM)
    process.wait()


def test_another_user_in_a_container(bench):
    """Its /tmp and its PIDs are its own."""
    folder = compiled(bench)
    command = f"mount --bind {folder} /mnt && mount -t tmpfs -o mode=1777 tmpfs /tmp && exec {' '.join(NOBODY)} {java()} -Xmx64m -cp /mnt Leak"
    outer = bench.start(["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", command])
    check_equal(outer.line(), "ready", "the first line")
    inner = harness.children_of(outer.pid)[0][0]
    recording = bench.attach([inner], "--domain", "java", "--java-gc", "--sample", "16K")
    ask(outer, "keep 1000", "kept 1000")
    check_equal(next(iter(rows_of(bench.stats(recording.snapshot())))), ("Leak.java", LEAK_LINE), "the first row")
    recording.end(signal.SIGTERM)
    ask(outer, "alive", "alive")
    check_equal([name for name in os.listdir(f"/proc/{inner}/root/tmp") if "attach" in name or "allocsnap" in name], [], "files in its /tmp")


NOT_RECORDED = {
    "without_the_attach_mechanism": (("-XX:+DisableAttachMechanism",), "-XX:+DisableAttachMechanism"),
    "without_agents": (("-XX:-EnableDynamicAgentLoading",), "-XX:-EnableDynamicAgentLoading"),
}


@harness.rows(NOT_RECORDED, of_core=NOT_RECORDED)
def test_recording_is_refused(bench, options, words):
    process = start(bench, *options)
    out, said = bench.run([harness.ALLOCSNAP, "attach", str(process.pid), "--domain", "java", "-o", bench.path("out"), "-d", "1"], status=1)
    check(words in said, f"another reason: {out} {said}")
    doctor = bench.json("doctor", str(process.pid))["process"]["java"]
    check(not doctor["records"] and words in doctor["why"], f"the doctor: {doctor}")
    check("allocsnap" not in pathlib.Path(f"/proc/{process.pid}/maps").read_text(encoding="utf-8"), "it has an agent")
    check_unharmed(process)
    check_equal(process.stderr(), "", "what it prints")


def test_two_recordings_at_once_and_after_each_other(bench):
    process = start(bench)
    first = attach(bench, process)
    said = bench.run([harness.ALLOCSNAP, "attach", str(process.pid), "--domain", "java", "-o", bench.path("out"), "-d", "1"], status=1)[1]
    check("another recording takes samples" in said, f"another reason: {said}")
    first.end(signal.SIGTERM)
    check_quiet(process)
    mapped = pathlib.Path(f"/proc/{process.pid}/maps").read_text(encoding="utf-8").count(".allocsnap-java-")
    attach(bench, process).end(signal.SIGTERM)
    check_quiet(process)
    check_equal(pathlib.Path(f"/proc/{process.pid}/maps").read_text(encoding="utf-8").count(".allocsnap-java-"), mapped, "mappings of the agent")


def test_a_killed_recorder_leaves_the_agent_quiet(bench):
    process = start(bench)
    recording = attach(bench, process)
    check_equal(has_agent(process), (True, True), "the agent's thread, and its memory file")
    recording.kill()
    wait_for(lambda: has_agent(process) == (False, False), "the agent ends its work", 90)
    check_quiet(process)
    attach(bench, process).end(signal.SIGTERM)
    check_quiet(process)


def test_a_virtual_machine_that_ends_has_a_last_snapshot(bench):
    process = start(bench)
    recording = attach(bench, process, "--java-gc", "--sample", "16K")
    ask(process, "keep 1000", "kept 1000")
    recording.snapshot()
    process.write("end 3\n")
    check_equal(process.wait(), 3, "its exit status")
    recording.wait()
    path = recording.line()
    check_equal(next(iter(rows_of(bench.stats(path)))), ("Leak.java", LEAK_LINE), "the first row")
    bench.check_readable(path)


def test_domain_java_is_explicit(bench):
    process = start(bench)
    recording = bench.attach([process])
    recording.snapshot()
    recording.end(signal.SIGTERM)
    check_equal(has_agent(process), (False, False), "the agent's thread, and its memory file")
    check_unharmed(process)
