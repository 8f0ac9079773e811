# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A refusal is one line, and names another way to record the process, if there is one; that way works."""
import os
import subprocess

from bench import ALLOCSNAP, FOLDER, PATIENCE_S, SAMPLER_FOLDER
from harness import Skip, check_equal, core, wait_for

RUN = "'allocsnap run --fast' at its next start"


def attach(bench, process, *options):
    """(exit status, stderr)"""
    done = subprocess.run([ALLOCSNAP, "attach", "--quiet", str(process.pid), "-o", os.path.join(bench.folder, "data"),
                           "--duration", "100ms", *options], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    return done.returncode, done.stderr


def check_way(bench, process, way, *others):
    """way: the options of attach; None: attach is no way."""
    status, said = attach(bench, process, "--inject")
    words = " ".join(["allocsnap attach", *(way or []), str(process.pid)])
    ways = [f"'{words}'"] * (way is not None) + list(others)
    check_equal((status, said.count("\n")), (1, 1), f"exit status and lines of {said!r}")
    check_equal(said.rpartition("; nothing was changed")[2], f"; instead: {', or '.join(ways)}\n" if ways else "\n", said)
    if way is not None:
        check_equal(attach(bench, process, *way)[0], 0, f"exit status of {words}")


@core
def test_another_way_is_probes(bench):
    check_way(bench, bench.refusing("hook"), ["--max-overhead", "10"], RUN)


@core
def test_another_way_is_its_own_sampler(bench):
    library = os.path.join(os.path.dirname(SAMPLER_FOLDER), "liballocsnap-sampler.so")
    check_way(bench, bench.refusing("plain", preload=library), [])


def test_another_way_is_not_to_preload_behind_a_sanitizer(bench):
    library = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True).stdout.strip()
    if not os.path.isabs(library):
        raise Skip("no libasan.so")
    process = bench.refusing("plain", preload=os.path.realpath(library), ASAN_OPTIONS="detect_leaks=0")
    check_way(bench, process, ["--max-overhead", "10"])


def test_there_is_no_other_way(bench):
    process = bench.start("bare")
    wait_for(lambda: os.path.realpath(f"/proc/{process.pid}/exe") == os.path.join(FOLDER, "bare"), "its start")
    check_way(bench, process, None)
