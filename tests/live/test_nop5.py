# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Nops of five bytes, which some kernels turn into a call that a forked child cannot make."""
import signal

import harness
from harness import check, check_equal

SPEC = "name=pool,object=exe,alloc={}(size=1),alloc={}(size=1),free=give_back(ptr=1)"


@harness.core
def test_nop5_probe_survives_a_fork(bench):
    """The probe is behind the nop; or, if it cannot be moved, the kernel must not have the fault."""
    pool = bench.workload("nop5")
    recording = bench.attach([pool], "--probe", SPEC.format("nopped_alloc", "looped_alloc"))
    pool.order("go 1000")
    check_equal(pool.order("fork")[1]["status"], 0, "how the child ended")
    path = recording.snapshot()
    recording.end(signal.SIGINT)
    pool.is_unharmed()
    shown = bench.show(path)
    probes = {row["function"]: row["offset"] for row in shown["probes"]}
    unprobed = shown["losses"].get("functions_unprobed", 0)
    rows = {row["name"]: row["state"] for row in bench.json("doctor")["machine"]["checks"]}
    check_equal(unprobed, rows["probe on a 5-byte nop"] != "ok", "functions_unprobed, by doctor's trial")
    check("looped_alloc" not in probes or not unprobed, f"{probes}, {unprobed} unprobed")
    total = bench.stats(path, "--include", "domain=pool")["total"]
    check_equal(total["count"], 2000 - 1000 * unprobed, "objects")
    if unprobed:
        check_equal(unprobed, 1, "functions_unprobed")
        check("looped_alloc in " in recording.stderr() and "nop of five bytes" in recording.stderr(),
              f"not said: {recording.stderr()!r}")
