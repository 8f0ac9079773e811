# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The screen: a status line while allocsnap records, the top rows at the end."""
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import time

import harness
from harness import ALLOCSNAP, PATIENCE, Skip, check, check_equal, snapshots_below, tool, wait_for


def read_terminal(master, until, seconds=60):
    """The text on the terminal. Reads until `until(text)` is true or the terminal is closed."""
    text, deadline = "", time.monotonic() + seconds * PATIENCE
    while not until(text) and time.monotonic() < deadline:
        if not select.select([master], [], [], 0.2)[0]:
            continue
        try:
            more = os.read(master, 65536)
        except OSError:  # closed
            break
        if not more:
            break
        text += more.decode(errors="replace")
    return text


def on_terminal(bench, argv):
    """(process, master): started with all three on a terminal."""
    master, slave = pty.openpty()
    process = bench.start_raw(argv, stdin=slave, stdout=slave, stderr=slave,
                              start_new_session=True, env=dict(os.environ, TERM="xterm"))
    os.close(slave)
    return process, master


@harness.core
def test_terminal_shows_a_status_line_and_the_top_rows(bench):
    """A status line, then the top rows, "traced … of RSS …"; Ctrl-C is a SIGINT."""
    grow = bench.workload("grow", "600")
    process, master = on_terminal(bench, [ALLOCSNAP, "attach", str(grow.pid), "-o",
                                          bench.path("out"), "--interval", "1h"])
    try:
        status = read_terminal(master, lambda text: len(re.findall(r"\r", text)) >= 3)
        check(re.search(r"recording grow.*\d+(\.\d+)? (B|KiB|MiB)", status),
              f"no status line: {status!r}")
        check("[Ctrl-C" in status or "Ctrl-C" in status, f"the line does not tell how to stop: {status!r}")
        process.send_signal(signal.SIGINT)
        end = read_terminal(master, lambda text: False)
    finally:
        os.close(master)
    check_equal(process.wait(60), 0, "exit status")
    check(re.search(r"grow\.c:\d+: size=.*, count=\d+, average=", end), f"no top rows: {end!r}")
    check(re.search(r"[Tt]raced .* of RSS ", end), f"no line 'traced … of RSS …': {end!r}")
    paths = re.findall(r"/[^\s\x1b]+\.snap", end)
    check(paths and os.path.exists(paths[0]), f"no path of a file: {end!r}")


def test_output_without_terminal_is_only_paths(bench):
    """No status line, no rows: stdout is the paths alone, stderr is empty."""
    grow = bench.workload("grow", "600")
    recording = bench.attach([grow], interval="300ms")
    paths = [recording.path() for _ in range(3)] + recording.end(signal.SIGINT)
    check_equal([path for path in paths if not os.path.isfile(path)], [], "lines that are no file")
    check_equal(recording.said(), [], "stderr")


def test_status_goes_to_a_terminal_on_stderr(bench):
    """stdout in a pipe, stderr on the terminal: the status there, the paths alone here."""
    grow = bench.workload("grow", "600")
    master, slave = pty.openpty()
    process = bench.start_raw([ALLOCSNAP, "attach", str(grow.pid), "-o", bench.path("out"),
                               "--duration", "2s"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=slave, env=dict(os.environ, TERM="xterm"))
    os.close(slave)
    status = read_terminal(master, lambda text: False)
    os.close(master)
    out = process.stdout.read().decode()
    check_equal(process.wait(60), 0, "exit status")
    check("recording grow" in status, f"no status line: {status!r}")
    check_equal([line for line in out.splitlines() if not os.path.isfile(line)], [],
                "lines that are no file")


def test_status_line_counts_snapshots_and_leaves_nothing(bench):
    """The line is rewritten in place, says how many snapshots there are, and is gone at the end."""
    grow = bench.workload("grow", "600")
    process, master = on_terminal(bench, [ALLOCSNAP, "attach", str(grow.pid), "-o", bench.path("out"),
                                          "--interval", "400ms", "--count", "3"])
    text = read_terminal(master, lambda text: False)
    os.close(master)
    check_equal(process.wait(60), 0, "exit status")
    check(re.search(r"recording grow, 0 lost: .* in \d+ blocks?, \d+ s, 2 snapshots", text), f"no count: {text!r}")
    lines = [line.split("\x1b[K")[-1].split("\r")[-1] for line in text.replace("\r\n", "\n").split("\n")]
    check_equal([line for line in lines if line.startswith("recording grow")], [], "status lines that stay")


def test_quiet_and_dumb_terminals_have_no_status_line(bench):
    """-q: the paths alone. A terminal that cannot move its cursor has no status line, either."""
    for words, term in ((["-q"], "xterm"), ([], "dumb")):
        grow = bench.workload("grow", "600")
        process, master = on_terminal(bench, ["env", f"TERM={term}", ALLOCSNAP, "attach", str(grow.pid), "-o",
                                              bench.path("out" + term), "--duration", "1s"] + words)
        text = read_terminal(master, lambda text: False)
        os.close(master)
        check_equal(process.wait(60), 0, "exit status")
        check("recording grow" not in text and "\x1b[K" not in text, f"{words} {term}: a status line: {text!r}")
        check(re.search(r"\S+\.snap", text), f"{words} {term}: no path: {text!r}")
        check_equal("grow.c" in text, not words, f"{words} {term}: rows at the end")


def test_run_draws_nothing_on_the_terminal_of_its_program(bench):
    """`run` leaves the terminal to the program, with and without --quiet."""
    process, master = on_terminal(bench, [ALLOCSNAP, "run", "-o", bench.path("out"), "--interval", "300ms", "--",
                                          "sh", "-c", "echo begun; sleep 1.5; echo ended"])
    text = read_terminal(master, lambda text: False)
    os.close(master)
    check_equal(process.wait(60), 0, "exit status")
    check(text.startswith("begun\r\nended\r\n"), f"the terminal has {text!r}")
    check("\x1b[K" not in text, f"a status line: {text!r}")


@harness.alone
def test_record_has_a_status_line(bench):
    """`record --pid` shows the same line, and clears it before the line of a pass."""
    grow = bench.workload("grow", "600")
    process, master = on_terminal(bench, [ALLOCSNAP, "record", "--pid", str(grow.pid), "-o", bench.path("out"),
                                          "--interval", "1s", "--duration", "2500ms"])
    text = read_terminal(master, lambda text: False)
    os.close(master)
    check_equal(process.wait(60), 0, "exit status")
    check(re.search(r"recording 1 process, 0 lost: .* in \d+ blocks?, \d+ s, \d+ snapshot", text), f"no line: {text!r}")
    check(re.search(r"\r\x1b\[Krecording used .*; \d+ snapshots? in ", text), f"the line of a pass stands behind the status: {text!r}")


def test_text_output_matches_tracemalloc(bench):
    """stats and diff print tracemalloc's text, show its facts; --top cuts, folded is folded."""
    known, recording = bench.recorded("known")
    known.order("go")
    old = recording.snapshot()
    known.order("free")
    new = recording.end(signal.SIGINT)[-1]
    out, err = bench.allocsnap("stats", old, "--top", "3")
    check_equal(err, "", "stderr of stats")
    rows = re.findall(r"known\.c:\d+: size=\d+(?:\.\d)? (?:B|KiB|MiB), count=\d+, average=", out)
    check_equal(len(rows), 3, f"rows in {out!r}")
    out, _ = bench.allocsnap("diff", old, new, "--top", "1")
    check(re.search(r"known\.c:\d+: size=0 B \(-\d+\.\d MiB\), count=0 \(-84\)", out), out)
    out, _ = bench.allocsnap("stats", old, "--group-by", "traceback", "--top", "1")
    check("leaf_grow" in out and "work_realloc" in out, f"no traceback: {out!r}")
    out, _ = bench.allocsnap("stats", old, "--format", "folded", "--group-by", "traceback")
    check(re.search(r"^\S*.*;work.*;leaf_a \d+$", out, re.M), f"no folded stacks: {out!r}")
    out, _ = bench.allocsnap("show", old)
    for word in ("known", "losses", "allocations", "RSS", "malloc"):
        check(word in out, f"show does not say '{word}': {out!r}")


# ---- short paths ----
#
# Names instead of PIDs and paths: attach NAME, snapshots of a PID, whose the files are, another user's program.

SOMEBODY = 4242


def sleeper(bench, name, seconds=600):
    """A process that is called so."""
    path = bench.path(name)
    if not os.path.exists(path):
        shutil.copy(tool("sleep"), path)
    process = bench.start([path, str(seconds)])
    wait_for(lambda: pathlib.Path(f"/proc/{process.pid}/comm").read_text().strip() == name[:15], name)
    return process


# ---- attach by name ----

@harness.core
def test_attach_finds_a_process_by_its_name(bench):
    for name in ("short_named", "a_name_of_more_than_15_bytes"):
        process = sleeper(bench, name)
        out, _ = bench.run([ALLOCSNAP, "attach", name, "-n1", "-i", "100ms", "-o", bench.path("out")])
        check(out.strip().endswith(".snap") and f".{process.pid}/" in out, out)


def test_attach_lists_processes_of_the_same_name(bench):
    """None of them is recorded; the PID or -p chooses one, and the same PID twice is one process."""
    one, two = sleeper(bench, "twin", 601), sleeper(bench, "twin", 602)
    out, err = bench.run([ALLOCSNAP, "attach", "twin", "-o", bench.path("out")], 1)
    check_equal(out, "", "stdout")
    check(re.search(rf"2 processes are called 'twin'.*\n.*  {min(one.pid, two.pid)}  .*twin 60[12]\n", err), err)
    check("all of them: 'allocsnap attach PID PID…', 'allocsnap leaks PID PID…'" in err, err)
    check(f"  {two.pid}  {bench.path('twin')} 602\n" in err, err)
    check(not os.path.exists(bench.path("out")), "a folder was made")
    for words in (["-p", str(two.pid)], ["--pid", str(two.pid)], ["-p", str(two.pid), str(two.pid)]):
        out, _ = bench.run([ALLOCSNAP, "attach", *words, "-n1", "-i", "100ms", "-o", bench.path("out")])
        check(re.fullmatch(rf".*/twin\.{two.pid}/[^/]*\.snap\n", out), out)


def test_attach_refuses_a_name_that_no_process_has(bench):
    for words, said, status in ((["no_such_name"], "no process has this name", 1), ([], "missing argument", 2),
                                (["99999999999"], "is no PID", 2),
                                (["12x"], "no process has this name", 1)):
        err = bench.run([ALLOCSNAP, "attach", *words, "-o", bench.path("out")], status)[1]
        check(said in err and err.count("\n") == 1, err)


def test_doctor_finds_a_process_by_its_name(bench):
    one = sleeper(bench, "ill_named")
    out, _ = bench.run([ALLOCSNAP, "doctor", "ill_named", "--json"])
    check_equal(json.loads(out)["process"]["pid"], one.pid, "the process")
    sleeper(bench, "ill_named")
    err = bench.run([ALLOCSNAP, "doctor", "ill_named"], 1)[1]
    check("2 processes are called 'ill_named'" in err, err)
    for words, said, status in (["no_such_name"], "no process has this name", 1), (["0"], "is no PID", 2):
        check(said in bench.run([ALLOCSNAP, "doctor", *words], status)[1], said)


# ---- one file ----

def test_a_single_snapshot_gets_the_name_of_the_user(bench):
    grow = bench.workload("grow", "600")
    path = bench.path("x.snap")
    out, err = bench.run([ALLOCSNAP, "attach", "-p", str(grow.pid), "-n1", "-i", "200ms", "-o", path])
    check_equal((out, err), (path + "\n", ""), "what it says")
    check_equal(bench.show(path)["metadata"]["pid"], grow.pid, "pid")
    check_equal(os.listdir(bench.folder).count("x.snap"), 1, "files")
    before = os.stat(path)
    err = bench.run([ALLOCSNAP, "attach", str(grow.pid), "-n1", "-i", "200ms", "-o", path], 1)[1]
    check("exists already" in err and err.count("\n") == 1, err)
    check_equal(os.stat(path), before, "the file from before")


def test_a_single_snapshot_of_run_is_taken_at_its_end(bench):
    path = bench.path("end.snap")
    _, err = bench.run([ALLOCSNAP, "run", "-o", path, "--", "/bin/ls", "/"])
    check_equal(bench.show(path)["metadata"]["end"], "exited 0", "end")
    check(f"snapshot: {path}\n" in err, err)


@harness.alone
def test_a_single_file_is_refused_for_several_snapshots(bench):
    grow = bench.workload("grow", "600")
    pid, path = str(grow.pid), bench.path("x.snap")
    for words in ([pid, "-n", "2"], [pid, "-f"], [pid, "--on-growth", "1M"], [pid, str(os.getpid())]):
        err = bench.run([ALLOCSNAP, "attach", *words, "-o", path], 2)[1]
        check("-o FILE.snap is for one" in err, err)
    err = bench.run([ALLOCSNAP, "record", "--pid", pid, "-o", path], 2)[1]
    check("-o DIR must be a folder" in err, err)
    check(not os.path.exists(path), "a file was made")


# ---- whose the files are ----

def owners(folder):
    return {str(path.relative_to(folder)): (path.lstat().st_uid, path.lstat().st_gid)
            for path in pathlib.Path(folder).rglob("*")}


def behind_sudo(uid=SOMEBODY, gid=SOMEBODY + 1):
    return dict(os.environ, SUDO_UID=str(uid), SUDO_GID=str(gid))


@harness.alone
def test_files_belong_to_the_user_behind_sudo(bench):
    """Without -o, and with -o in a folder of that user; both for one file and for folders."""
    grow = bench.workload("grow", "600")
    home = bench.path("home")
    os.mkdir(home)
    attach = [ALLOCSNAP, "attach", str(grow.pid), "-n", "2", "-i", "100ms"]
    bench.run(attach, cwd=home, env=behind_sudo())
    check_equal(set(owners(home).values()), {(SOMEBODY, SOMEBODY + 1)}, "owners in the current folder")
    check_equal(len(snapshots_below(home)), 2, "snapshots")
    bench.run([ALLOCSNAP, "record", "--pid", str(grow.pid), "-i", "200ms", "-d", "700ms", "--max-disk", "10M"], cwd=home,
              env=behind_sudo())
    check_equal(set(owners(home).values()), {(SOMEBODY, SOMEBODY + 1)}, "owners of what record wrote")
    check(len(snapshots_below(home)) > 2, "record wrote no snapshots")
    os.chown(home, SOMEBODY, SOMEBODY + 1)
    bench.run([*attach, "-o", os.path.join(home, "new/folder")], env=behind_sudo())
    bench.run([ALLOCSNAP, "attach", str(grow.pid), "-i", "100ms", "-o", os.path.join(home, "one.snap")], env=behind_sudo())
    bench.run([ALLOCSNAP, "run", "-o", os.path.join(home, "run"), "--", "/bin/true"], env=behind_sudo())
    found = owners(home)
    check_equal(set(found.values()), {(SOMEBODY, SOMEBODY + 1)}, "owners in that user's folder")
    check("one.snap" in found and any(name.startswith("run/") for name in found), f"{found}")


def test_files_of_other_folders_stay_with_root(bench):
    grow = bench.workload("grow", "600")
    attach = [ALLOCSNAP, "attach", str(grow.pid), "-n", "1", "-i", "100ms"]
    bench.run([*attach, "-o", bench.path("roots")], env=behind_sudo())
    check_equal(set(owners(bench.path("roots")).values()), {(0, 0)}, "owners below a folder of root")
    for environment in (behind_sudo(0), dict(os.environ, SUDO_UID="4242"), behind_sudo("x")):
        folder = bench.path("no_sudo")
        os.mkdir(folder)
        bench.run(attach, cwd=folder, env=environment)
        check_equal(set(owners(folder).values()), {(0, 0)}, "owners without a user behind sudo")
        shutil.rmtree(folder)


def test_links_in_a_folder_of_the_user_are_not_followed(bench):
    """A user who may start allocsnap by sudo cannot have it write, or give away, folders elsewhere."""
    grow = bench.workload("grow", "600")
    home, elsewhere = bench.path("home"), bench.path("elsewhere")
    os.mkdir(elsewhere)
    os.makedirs(os.path.join(home, "allocsnap-data"))
    os.symlink(elsewhere, os.path.join(home, "allocsnap-data", os.uname().nodename))
    err = bench.run([ALLOCSNAP, "attach", str(grow.pid), "-n", "1", "-i", "100ms"], 1, cwd=home, env=behind_sudo())[1]
    check("cannot make the directory" in err, err)
    check_equal(os.listdir(elsewhere), [], "what was written behind the link")
    check_equal(os.stat(elsewhere).st_uid, 0, "its owner")


def test_a_linked_data_folder_stays_with_root(bench):
    """./allocsnap-data may be a link to a folder of root: nothing in there is given away."""
    grow = bench.workload("grow", "600")
    home, elsewhere = bench.path("home"), bench.path("elsewhere")
    os.mkdir(elsewhere)
    os.mkdir(home)
    os.symlink(elsewhere, os.path.join(home, "allocsnap-data"))
    bench.run([ALLOCSNAP, "attach", str(grow.pid), "-n", "1", "-i", "100ms"], cwd=home, env=behind_sudo())
    found = [os.path.join(folder, name) for folder, folders, files in os.walk(elsewhere) for name in folders + files]
    check_equal(len(found), 3, "HOST, COMM.PID and a snapshot")
    check_equal({os.stat(path).st_uid for path in found}, {0}, "their owner")


# ---- run ----

def test_run_as_another_user(bench):
    """The ids, the groups and the four variables are the user's, and the recording is whole."""
    try:
        import pwd
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        raise Skip("there is no user nobody") from None
    script = "grep -E '^(Uid|Gid|Groups|CapEff|NoNewPrivs)' /proc/self/status; env"
    out, _ = bench.run([ALLOCSNAP, "run", "--user", "nobody", "-o", bench.path("out"), "--", "/bin/sh", "-c", script],
                       env=dict(os.environ, HOME="/root", KEPT="yes", SUDO_COMMAND="/bin/x", XDG_RUNTIME_DIR="/x"))
    uid, gid = nobody.pw_uid, nobody.pw_gid
    check(re.search(rf"^Uid:\s{uid}\s{uid}\s{uid}\s{uid}$", out, re.M), out)
    check(re.search(rf"^Gid:\s{gid}\s{gid}\s{gid}\s{gid}$", out, re.M), out)
    check(re.search(rf"^Groups:\s{gid} $", out, re.M), out)
    check(re.search(r"^CapEff:\s0+$", out, re.M), out)
    for line in (f"HOME={nobody.pw_dir}", "USER=nobody", "LOGNAME=nobody", f"SHELL={nobody.pw_shell}", "KEPT=yes"):
        check(f"\n{line}\n" in out, f"no {line} in {out}")
    check("SUDO_COMMAND" not in out and "XDG_RUNTIME_DIR" not in out, f"variables of root: {out}")
    out, _ = bench.run([ALLOCSNAP, "run", "--user", str(uid), "-o", bench.path("out"), "--", "/usr/bin/python3", "-Sc",
                        "print(sum(len(str(i)) for i in range(20000)))"])
    shown = bench.show(out.splitlines()[-1])
    check_equal(shown["counters"]["unknown_frees"], 0, "unknown frees")
    check(shown["counters"]["allocations"] > 10, "nothing was recorded")


def test_run_as_an_unknown_user_fails(bench):
    err = bench.run([ALLOCSNAP, "run", "--user", "no_such_user", "-o", bench.path("out"), "--", "/bin/true"], 125)[1]
    check_equal(err, "allocsnap: there is no user 'no_such_user'\n", "stderr")


SCRIPT = "/bin/echo one; /usr/bin/python3 -Sc 'x = [bytes(999) for i in range(20000)]; print(\"two\")'; exit 3"


def test_run_leaves_stdout_to_its_program(bench):
    """With --follow-forks, too: a table of processes follows on stderr, the one with the highest peak first."""
    out = bench.path("out")
    stdout, err = bench.run([ALLOCSNAP, "run", "-f", "--domain", "malloc", "-o", out, "--", "/bin/sh", "-c", SCRIPT], 3)
    said = [line for line in stdout.splitlines() if not line.endswith(".snap")]
    check_equal(said, ["one", "two"], "stdout")
    lines = err.splitlines()[harness.NO_SESSIONS:]  # without sessions it says first that it follows children in a slower way
    nr = len(snapshots_below(out))
    check_equal(lines[0], f"allocsnap: {nr} processes, {nr} snapshots in {out}/{os.uname().nodename}", "its summary")
    check_equal(lines[1].split(), ["PROCESS", "PEAK", "SNAPSHOTS", "END"], "the head of the table")
    check(re.match(r"python3[.\d]*\.\d+ +[\d.]+ [KM]iB +1  exited 0$", lines[2]), lines[2])
    check(any(re.match(r"sh\.\d+ .* 1  exited 3$", line) for line in lines), err)


def test_run_has_no_status_line_on_the_terminal_of_its_program(bench):
    master, slave = pty.openpty()
    process = bench.start_raw([ALLOCSNAP, "run", "-o", bench.path("out"), "--", "/bin/sh", "-c",
                               "printf 'begun '; sleep 1; echo ended"], stdin=slave, stdout=slave, stderr=slave,
                              start_new_session=True)
    os.close(slave)
    text = read_terminal(master, lambda text: False)
    os.close(master)
    check_equal(process.wait(60), 0, "exit status")
    check("begun ended\r\n" in text and "recording sh" not in text, f"{text!r}")
    check("snapshot: " in text, f"{text!r}")


# ---- reading ----

def test_snapshots_are_found_by_pid_and_name(bench):
    """In the current folder, as recordings leave them: list, stats, diff and leaks of a host need no path."""
    grow = bench.workload("grow", "600")
    folder = bench.path("work")
    os.mkdir(folder)
    bench.run([ALLOCSNAP, "attach", str(grow.pid), "-n", "3", "-i", "300ms"], cwd=folder)
    paths = snapshots_below(folder)
    for words in (["diff", str(grow.pid)], ["diff", "grow"], ["diff", "grow@first", "latest"]):
        out, err = bench.run([ALLOCSNAP, *words, "--json"], cwd=folder)
        check_equal(json.loads(out), bench.json("diff", paths[0], paths[-1]), " ".join(words))
    out, _ = bench.run([ALLOCSNAP, "stats", "grow@-2", "--json"], cwd=folder)
    check_equal(json.loads(out), bench.json("stats", paths[1]), "stats of the last but one")
    listed = json.loads(bench.run([ALLOCSNAP, "list", "--json"], cwd=folder)[0])["processes"]
    check_equal([(row["pid"], row["comm"], row["snapshots"], row["end"]) for row in listed],
                [(grow.pid, "grow", 3, "running")], "list")
    traced = [bench.show(path)["traced_memory"]["current"] for path in paths]
    check_equal(listed[0]["growth_bytes"], traced[-1] - traced[0], "growth")
    out, _ = bench.run([ALLOCSNAP, "diff", "grow"], cwd=folder)
    check(re.search(r"^RSS .* → .*; traced heap blocks \+", out, re.M), out)


def test_the_arguments_are_those_of_the_snapshot(bench):
    """A process that writes over its arguments, as postgres does for each connection."""
    program = ("import ctypes, sys, time\n"
               "libc = ctypes.CDLL(None)\n"
               "stat = open('/proc/self/stat').read().rpartition(')')[2].split()\n"
               "start, end = int(stat[45]), int(stat[46])\n"
               "print('ready', flush=True)\n"
               "sys.stdin.readline()\n"
               "ctypes.memset(start, 0, end - start)\n"
               "ctypes.memmove(start, b'renamed: idle', 13)\n"
               "print('done', flush=True)\n"
               "time.sleep(600)\n")
    process = bench.start(["/usr/bin/python3", "-SBc", program])
    process.line()
    recording = bench.attach([process])
    before = bench.show(recording.snapshot())["metadata"]["cmdline"]
    process.write("\n")
    process.line()
    after = bench.show(recording.snapshot())["metadata"]["cmdline"]
    recording.end(signal.SIGINT)
    check(before.startswith("/usr/bin/python3 -SBc"), before)
    check(after.startswith("renamed: idle"), after)
