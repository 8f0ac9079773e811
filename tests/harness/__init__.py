# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Shared by the suites of real programs: the runner (suite.py), processes that are ended, folders that are removed,
allocsnap's answers.

A test is a function test_NAME(bench). Everything it starts belongs to the bench and is ended, by its PID, when the test
is over.
"""
import contextlib
import os

from .bench import NEVER, WORKLOADS, Bench
from .checks import (PATH, PATIENCE, Failure, Law, Skip, check, check_equal, check_sanitizer, check_status, tool,
                     wait_for)
from .kernel import (bpf_ids, bpf_ids_in_kernel, breakpoints_of, changed_code, changed_places, check_unchanged,
                     executable_mappings, fdinfo, kill_and_check, need_overlays, preempts_itself, private_mounts, strangers_probes,
                     uprobe_events)
from .processes import (ALLOCSNAP, OURS, Process, Recording, Workload, children_of, cpu_seconds, folder_of_run,
                        is_missing, is_running, link_holder_of, pending_signals, reader_of, signal_masks, snapshots_below)
from .suite import alone, core, for_each, must_be_alone, rows, runs_core, smoke

MULTIARCH = f"{os.uname().machine}-linux-gnu"  # Debian's name of this machine, in paths

BY_FRAME_POINTERS = os.environ.get("ALLOCSNAP_UNWIND") == "fp"

# Features that a variable switches off in a recording: no feature; features that kernels before 6.13 lack; features
# that kernels before 6.6 lack; and return probes, which are not safe in some processes.
WITHOUT_SESSIONS = "ALLOCSNAP_NO_UPROBE_SESSION"
WITHOUT_LINKS = "ALLOCSNAP_NO_UPROBE_MULTI"
WITHOUT_RETURNS = "ALLOCSNAP_NO_UPROBE_RETURN"
MODES = (None, WITHOUT_SESSIONS, WITHOUT_LINKS, WITHOUT_RETURNS)


SWITCHED_OFF = {mode for mode in MODES[1:] if mode in os.environ}  # in the whole suite


def __getattr__(name):
    """NO_RETURNS, NO_LINKS, NO_SESSIONS: what recordings here lack, since the environment switches it off, or since the
    doctor's trial of it fails on this kernel. The suite passes in all modes and on all kernels."""
    if name == "NO_RETURNS":
        return WITHOUT_RETURNS in SWITCHED_OFF
    if name == "NO_LINKS":
        return WITHOUT_LINKS in SWITCHED_OFF or is_missing("many uprobes in a link")
    if name == "NO_SESSIONS":
        return bool(SWITCHED_OFF) or is_missing("uprobe session")
    raise AttributeError(name)


def need_sessions():
    if __getattr__("NO_SESSIONS"):
        raise Skip("the domain python needs uprobe sessions")


def need_injection():
    if __getattr__("NO_LINKS"):
        raise Skip("nothing is injected without links of many uprobes")


NAMED_MODES = {"with_sessions": MODES[:1], "with_links": MODES[1:2], "with_perf_uprobes": MODES[2:3],
               "without_return_probes": MODES[3:]}
in_modes = rows(NAMED_MODES, of_core=NAMED_MODES)  # a test in each mode: test(bench, mode)


def modes(of_core, every=MODES):
    """Each mode that a test attaches in: one in the gate."""
    return (of_core,) if runs_core() else every


# Losses that concern callers only, not the totals: code without call frame information, or that ran
# before its table was there.
UNWINDING = {"tracebacks_" + name for name in (
    "skipping", "broken", "guessed", "no_rule", "unsupported", "unreadable", "backwards", "no_fp",
    "no_table", "no_code", "busy")}


# These count events of any process: builds beside the tests can be too many for the kernel's rings, and a kernel that
# preempts a program skips its other runs on that CPU.
OF_ANY_PROCESS = {"mappings_missed"} | ({"process_events_missed"} if preempts_itself() else set())


def losses_of(shown, ignored=()):
    """The losses in a snapshot."""
    return {name: n for name, n in shown["losses"].items() if n and name not in OF_ANY_PROCESS and name not in ignored}


@contextlib.contextmanager
def environment(name, value="1"):
    """Programs started inside the `with` have NAME=VALUE in their environment; with None nothing changes."""
    before = os.environ.get(name) if name else None
    if name:
        os.environ[name] = str(value)
    try:
        yield
    finally:
        if before is not None:
            os.environ[name] = before
        elif name:
            del os.environ[name]


def top_frame(row):
    """The most recent call of a row."""
    return row["traceback"][0]


def frame_text(frame):
    """All places that a frame names, in one line to search in."""
    return " ".join(str(frame.get(key, "")) for key in ("function", "filename", "lineno", "object"))


def rows_of_file(statistics, name):
    """{(function, line): (count, size)} of the call sites in one source file."""
    rows = {}
    for row in statistics["statistics"]:
        frame = top_frame(row)
        if os.path.basename(frame["filename"]) == name:
            rows[frame.get("function"), frame["lineno"]] = row["count"], row["size"]
    return rows
