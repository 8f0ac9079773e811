# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""nursery.py: starts programs in its own control group and with its own C library from the first instruction on.

A line of stdin is {"argv", "env", "in", "out"}, the last two are FIFOs or files; the answer is {"pid"}. {} starts
nothing. Before each answer, and between answers, it reports ended processes: {"ended", "at", "status"}, a PID,
CLOCK_MONOTONIC in ns and the exit status, which is negative after a signal.
"""
import json
import os
import select
import signal
import sys
import time


def open_input(path):
    """The other end of a FIFO is opened later; reading waits then as it does elsewhere."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(fd, True)
    return fd


def start(argv, env, **paths):
    into = open_input(paths["in"])
    out = os.open(paths["out"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    pid = os.posix_spawn(argv[0], argv, env, setsigmask=[], file_actions=[
        (os.POSIX_SPAWN_DUP2, into, 0), (os.POSIX_SPAWN_DUP2, out, 1), (os.POSIX_SPAWN_DUP2, out, 2)])
    os.close(into)
    os.close(out)
    return pid


def say(**what):
    print(json.dumps(what), flush=True)


def say_who_has_ended():
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        say(ended=pid, at=time.monotonic_ns(), status=os.waitstatus_to_exitcode(status))


def main():
    """Signals are left to the poll, which wakes up for the ends of children by a descriptor."""
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready = select.select([sys.stdin, wake], [], [])[0]
        if wake in ready:
            os.read(wake, 4096)
            say_who_has_ended()
        if sys.stdin in ready:
            line = sys.stdin.readline()
            if not line:
                return
            order = json.loads(line)
            say_who_has_ended()
            say(pid=start(**order) if order else 0)


if __name__ == "__main__":
    main()
