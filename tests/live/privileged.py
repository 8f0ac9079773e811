# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""allocsnap with few capabilities, as root or as another user; and the capabilities of each process."""
import contextlib
import os
import pathlib
import shutil

from harness import ALLOCSNAP, NO_LINKS, children_of, tool

NUMBERS = {"dac_override": 1, "dac_read_search": 2, "kill": 5, "setgid": 6, "setuid": 7, "sys_ptrace": 19,
           "sys_admin": 21, "sys_nice": 23, "lease": 28, "perfmon": 38, "bpf": 39, "checkpoint_restore": 40}
# Capabilities that recording needs, as the unit grants them; perf uprobes need one more.
RECORDING = ("bpf", "perfmon", "sys_ptrace", "dac_read_search", "checkpoint_restore", "lease",
             *(("sys_admin",) if NO_LINKS else ()))
# Capabilities that a recorder started by root keeps when everything is loaded.
LEFT = ("bpf", "sys_ptrace", "dac_read_search", "checkpoint_restore",
        *(("sys_admin", "sys_nice", "lease") if NO_LINKS else ()))
# Capabilities of two helper processes: one opens files, the other keeps the probes and watches files for writers.
OPENING, KEEPING = ("dac_read_search",), ("dac_read_search", "lease")
SOMEBODY = 4242


def bits(names):
    return sum(1 << NUMBERS[name] for name in names)


def allocsnap_with(bench, capabilities, uid=SOMEBODY, by=()):
    """The command that runs it with these only, as a service manager would start it, by another command."""
    some = ",".join(["-all", *("+" + name for name in capabilities)])
    user = [f"--reuid={uid}", f"--regid={uid}", "--clear-groups"] if uid else []
    return [tool("setpriv"), *user, f"--inh-caps={some}", f"--ambient-caps={some}",
            f"--bounding-set={some}", "--no-new-privs", *by, copy_for_all(bench)]


def folder_of(bench, name, uid):
    """A folder that only this user can use."""
    path = bench.path(name)
    os.mkdir(path, 0o700)
    os.chown(path, uid, uid)
    return path


def copy_for_all(bench):
    """A path where another user can execute it."""
    path = bench.path("allocsnap")
    os.chmod(bench.folder, 0o755)
    if not os.path.exists(path):
        shutil.copy(ALLOCSNAP, path)
    return path


def status(pid, tid=None):
    """{"CapEff": number, …, "Uid": …} of a thread."""
    text = pathlib.Path(f"/proc/{pid}/task/{tid or pid}/status").read_text()
    lines = dict(line.split(":\t", 1) for line in text.splitlines())
    found = {name: int(value, 16) for name, value in lines.items() if name.startswith("Cap")}
    return {**found, "NoNewPrivs": int(lines["NoNewPrivs"]), "Seccomp": int(lines["Seccomp"]),
            "Uid": int(lines["Uid"].split()[0]), "Name": lines["Name"]}


def all_threads(pid):
    """status() of each thread of a recording, and of its children; some end meanwhile."""
    for process in (pid, *all_children(pid)):
        for task in os.listdir(f"/proc/{process}/task"):
            with contextlib.suppress(OSError):
                yield process, status(process, task)


def all_children(pid):
    for child, _ in children_of(pid):
        yield child
        yield from all_children(child)
