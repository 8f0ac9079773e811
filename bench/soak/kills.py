# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""kills.py PID: tries to kill the process and all of its descendants, and a child of its own.

Exit status: 0: it has killed its child and nothing else; 1: it has killed another process; 2: the test is void,
since the process lives and has no descendants, or since kill() does not work at all.
"""
import os
import signal
import sys
import time


def family(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            children = [int(child) for child in file.read().split()]
    except OSError:  # it has ended
        children = []
    return [pid] + [member for child in children for member in family(child)]


def is_killed(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except (PermissionError, ProcessLookupError):
        return False
    return True


def has_ended(pid):
    """Within some seconds, in which its descendants are gone already."""
    for _ in range(50):
        if not os.path.exists(f"/proc/{pid}"):
            return True
        time.sleep(0.1)
    return False


def main():
    child = os.fork()
    if not child:
        time.sleep(60)
        os._exit(0)
    recorder = int(sys.argv[1])
    found = family(recorder)
    killed = [pid for pid in found if is_killed(pid)]
    can_kill = is_killed(child) and os.WIFSIGNALED(os.waitpid(child, 0)[1])
    is_test = can_kill and (len(found) > 1 or has_ended(recorder))
    sys.exit(1 if killed else 0 if is_test else 2)


if __name__ == "__main__":
    main()
