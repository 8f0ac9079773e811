# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A snapshot shows one instant of a program that runs on; tests/workloads/instants.h defines the states."""
import json
import os
import subprocess

import harness
from harness import WORKLOADS, check_equal, environment

SNAPSHOTS = int(os.environ.get("INSTANTS", "50" if harness.runs_core() else "200"))


def check_instants(snapshots):
    run = subprocess.run([f"{WORKLOADS}/take_instants", f"{WORKLOADS}/instants",
                          str(snapshots)],
                         check=True, capture_output=True, text=True, timeout=600)
    found = json.loads(run.stdout)
    check_equal((found["snapshots"], found["violations"], found["doubled"]), (snapshots, 0, 0),
                f"snapshots, impossible ones, doubled blocks ({run.stderr})")


@harness.core
def test_snapshots_are_instants(_bench):
    check_instants(SNAPSHOTS)


def test_snapshots_are_instants_without_return_probes(_bench):
    with environment("ALLOCSNAP_NO_UPROBE_RETURN"):
        check_instants(SNAPSHOTS // 4)
