# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Return probes of other tools put their trampoline in the place of return addresses: tracebacks must be as
without them. See workloads/unwind_chain.c."""
from foreign import return_probes
import harness
from harness import check, environment
from unwinding import (BELOW_MAIN, NO_LINKS, NO_RETURN, NO_SESSION, chains, check_chain, check_ends,
                       needs_tables)

FROM_MAIN = ["obey_orders", "main", *BELOW_MAIN]
CHAIN = ["chain6", "chain4", "chain3", "chain2", "chain1", *FROM_MAIN]
DEEP = ["descend"] * 40 + ["deep", *FROM_MAIN]
EVERY_SECOND = ["chain1", "chain3", "chain5"]
# A function that jumps to a hijacked one, and several in a row.
IN_A_ROW = ["chain1", "chain2", "chain4", "chain5", "chain6"]
TRAMPOLINE = "[anonymous code]"


def check_storm(bench, path):
    """Signal handlers interrupted the program anywhere, also in the trampoline; each traceback has all callers."""
    found = [chain for chain, _ in chains(bench, path, 203)]
    for chain in found:
        check(chain[:2] == ["on_alarm", "__restore_rt"] and
              chain[2:] in (["storm", *FROM_MAIN], ["spun", "storm", *FROM_MAIN],
                            [TRAMPOLINE, "storm", *FROM_MAIN]), f"traceback of a handler: {chain}")
    check(any(TRAMPOLINE in chain for chain in found), "no signal came in the trampoline")


def check_hijacked(bench, mode):
    """Each order once with our probes only, then with other tools' probes: both give one traceback."""
    needs_tables()
    workload = bench.workload("unwind_chain")
    with environment(mode):
        recording = bench.attach([workload])
    workload.order("chain")
    workload.order("deep")
    for functions, order in ((EVERY_SECOND, "chain"), (IN_A_ROW, "chain"), (["descend"], "deep"),
                             (["spun"], "storm")):
        with return_probes(bench, workload, functions):
            workload.order(order)
    path = recording.snapshot()
    check_chain(bench, path, 201, CHAIN, 3)
    check_chain(bench, path, 202, DEEP, 2)
    check_storm(bench, path)
    check_ends(bench, path)
    workload.is_unharmed()


@harness.core
def test_unwind_restores_hijacked_return_addresses(bench):
    check_hijacked(bench, None)


@harness.core
def test_unwind_restores_hijacked_return_addresses_without_sessions(bench):
    check_hijacked(bench, NO_SESSION)


def test_unwind_restores_hijacked_return_addresses_with_perf_uprobes(bench):
    check_hijacked(bench, NO_LINKS)


@harness.core
def test_unwind_works_without_return_probes(bench):
    check_hijacked(bench, NO_RETURN)
