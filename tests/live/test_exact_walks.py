# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The walks of run --exact over the stacks of programs that make it hard: each is compared with a walk without a memo, and one
of 64 with libunwind's (compared_exact.c)."""
import os
import re
import shutil

import harness
from harness import ALLOCSNAP, NEVER, WORKLOADS, Law, check, check_equal

WALKS = 3000 if harness.runs_core() else 100000
MODES = ("signals", "alternate", "coroutines", "plugins", "deep", "threads")
PLUGINS = [os.path.join(WORKLOADS, f"walks_plugin{nr}.so") for nr in (1, 2, 3)]


def allocsnap_that_compares(bench):
    """It preloads the library that lies beside it."""
    os.makedirs(bench.path("beside/.output"))
    os.symlink(os.path.join(WORKLOADS, "compared_exact.so"), bench.path("beside/.output/liballocsnap-exact.so"))
    return shutil.copy(ALLOCSNAP, bench.path("beside"))


@harness.for_each(MODES, of_core=("signals", "coroutines", "plugins", "deep"))
def test_exact_walks(bench, mode):
    harness.need_injection()
    _, stderr = bench.run([allocsnap_that_compares(bench), "run", "--exact", "-o", bench.path("out"), "--domain", "malloc", "--interval",
                           NEVER, "--", os.path.join(WORKLOADS, "walks"), mode, str(WALKS), *PLUGINS], 0, 150)
    found = re.search(r"compared (\d+) differ (\d+)", stderr)
    check(found and int(found[1]) >= WALKS, f"no {WALKS} walks were compared: {stderr}")
    check_equal(int(found[2]), 0, "walks that differ", Law)
    return found[0]
