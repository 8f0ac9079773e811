# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The pager: which one, when, what it gets, and that the exit status does not depend on it."""
import contextlib
import os
import stat
import subprocess
import tempfile

from checks import ALLOCSNAP, SNAPSHOTS, check, check_equal
from terminal import Terminal

LONG = ["show", "new.snap"]
GROWN = ["diff", "old.snap", "new.snap", "--fail-above", "0"] # exits with status 4


@contextlib.contextmanager
def recording_pager(name="pager", last="cat"):
    """(path, text of what it got, its environment): a program that keeps what it reads, then runs `last` on it."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        path, got, env = (os.path.join(folder, part) for part in (name, "got", "env"))
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\nenv >{env}\ncat >{got}\n{last} {got}\n")
        os.chmod(path, 0o755)

        def read(file):
            with contextlib.suppress(FileNotFoundError), open(file, encoding="utf-8") as opened:
                return opened.read()
            return None
        yield path, lambda: read(got), lambda: (read(env) or "").splitlines()


def on_terminal(argv, **options):
    """(exit status, text) of the program on a terminal."""
    terminal = Terminal([ALLOCSNAP] + argv, cwd=SNAPSHOTS, **options)
    status = terminal.end()
    return status, terminal.text


def piped(argv, **env):
    return subprocess.run([ALLOCSNAP] + argv, cwd=SNAPSHOTS, capture_output=True, text=True, check=False,
                          env=dict(os.environ, TERM="xterm", **env))


def child_of(pid):
    """(program, environment) of the only child."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        child, = file.read().split()
    with open(f"/proc/{child}/environ", "rb") as file:
        return os.readlink(f"/proc/{child}/exe"), file.read().decode().split("\0")


def test_a_terminal_gets_the_pager():
    with recording_pager() as (pager, got, env):
        for variable in ("PAGER", "ALLOCSNAP_PAGER"):
            status, text = on_terminal(LONG, columns=5000, env={variable: pager, "NO_COLOR": "1"})
            check_equal(status, 0, variable)
            check(got() and piped(LONG).stdout in got(), f"{variable}: the pager got {got()!r}")
            check("metadata" in text, f"{variable}: the terminal shows {text!r}")
            check("LESS=FRX" in env(), f"{variable}: {env()}")
    with recording_pager() as (pager, got, _), recording_pager() as (other, got_other, _):
        on_terminal(LONG, env={"ALLOCSNAP_PAGER": pager, "PAGER": other})
        check(got() and not got_other(), "PAGER comes before ALLOCSNAP_PAGER")
        on_terminal(LONG, env={"PAGER": f"{other} 2>/dev/null"})
        check(got_other(), "a pager with a shell's words is not run")


def test_nothing_else_gets_it():
    with recording_pager() as (pager, got, _):
        run = piped(LONG, PAGER=pager)
        check_equal((run.returncode, got()), (0, None), "in a pipe")
        for argv, env in ((LONG + ["--no-pager"], {}), (["--no-pager"] + LONG, {}), (LONG, {"ALLOCSNAP_PAGER": ""}),
                          (LONG, {"ALLOCSNAP_PAGER": "cat"}), (LONG, {"TERM": "dumb"})):
            status, text = on_terminal(argv, env=dict({"PAGER": pager}, **env))
            check_equal((status, got()), (0, None), f"{argv} {env}")
            check("metadata" in text, f"{argv} {env}: {text!r}")


def test_the_exit_status_stays():
    for last in ("cat", "head -n 1", "false"):
        with recording_pager(last=last) as (pager, _, _):
            check_equal(on_terminal(GROWN, env={"PAGER": pager})[0], 4, f"exit status with {last}")
    for pager in ("true", "head -n 1", "sleep 0"):
        status, text = on_terminal(["stats", "many.snap", "--top", "0"], env={"PAGER": pager})
        check_equal(status, 0, f"exit status with the pager {pager}")
        check("cannot write" not in text and "pipe" not in text.lower(), f"{pager}: {text[-300:]!r}")
        check_equal(on_terminal(GROWN, env={"PAGER": pager})[0], 4, f"exit status with the pager {pager}")


def test_a_missing_pager_loses_nothing():
    status, text = on_terminal(LONG, env={"PAGER": "/nonexistent/pager"})
    check(status == 0 and "metadata" in text and "/nonexistent/pager cannot be run" in text, f"{status}: {text!r}")
    status, text = on_terminal(LONG, env={"PAGER": "/nonexistent/pager -x"})
    check(status == 1 and "cannot be run" in text, f"{status}: {text!r}")
    status, text = on_terminal(LONG, env={"PATH": "/nonexistent"})
    check(status == 0 and "metadata" in text and "allocsnap:" not in text.split("metadata")[1], f"{status}: {text!r}")


def test_less_ends_at_q_and_keeps_short_texts():
    terminal = Terminal([ALLOCSNAP] + LONG, cwd=SNAPSHOTS, env={"PATH": os.environ["PATH"]})
    shown = terminal.read(lambda text: text.rstrip("\x1b[Km").endswith(":"))
    check("traced memory" in shown and "metadata" not in shown, f"less shows {shown!r}")
    check(terminal.popen.poll() is None, "less has ended by itself")
    terminal.type("q")
    check_equal(terminal.end(), 0, "exit status after q")
    status, text = on_terminal(["stats", "empty.snap"])
    check(status == 0 and "total" in text, f"a short text: {status}, {text!r}")


def test_roots_pager_runs_nothing_else():
    if os.geteuid():
        raise RuntimeError("this test runs as root")
    with recording_pager() as (pager, got, env):
        on_terminal(LONG, env={"PAGER": pager, "LESSOPEN": "|id %s", "VISUAL": "id"})
        check("LESSSECURE=1" in env(), f"root's pager: {env()}")
        check(not [line for line in env() if line.startswith(("LESSOPEN", "VISUAL"))], f"root's pager: {env()}")
    for variable in ("SUDO_UID", "PKEXEC_UID", "DOAS_USER"):
        with recording_pager() as (pager, got, _), recording_pager("less") as (less, got_less, _):
            path = os.path.dirname(less) + ":" + os.environ["PATH"]
            terminal = Terminal([ALLOCSNAP] + LONG, cwd=SNAPSHOTS, env={"PAGER": pager, variable: "1000", "PATH": path})
            terminal.read(lambda text: text.rstrip("\x1b[Km").endswith(":"))
            program, settings = child_of(terminal.popen.pid)
            terminal.type("q")
            check_equal(terminal.end(), 0, f"{variable}: exit status after q")
            check_equal(program, os.path.realpath("/usr/bin/less"), f"{variable}: root's pager")
            check(not got_less() and not got(), f"{variable}: the user chose root's pager")
            check("LESSSECURE=1" in settings and "LESS=FRX" in settings, f"{variable}: {settings}")


def test_a_user_has_the_own_pager():
    if os.geteuid():
        raise RuntimeError("this test runs as root")
    with recording_pager() as (pager, got, env), tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "allocsnap")
        subprocess.run(["cp", ALLOCSNAP, os.path.join(SNAPSHOTS, "new.snap"), folder], check=True)
        os.chmod(folder, 0o755)
        os.chmod(folder + "/new.snap", os.stat(folder + "/new.snap").st_mode | stat.S_IROTH)
        terminal = Terminal([program, "show", "new.snap"], cwd=folder, env={"PAGER": pager}, user=65534, group=65534)
        check_equal(terminal.end(), 0, "exit status")
        check(got() and "LESSSECURE=1" not in env(), f"a user's pager: {env()}, {terminal.text!r}")
