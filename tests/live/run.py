#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The live tests: allocsnap attached to real processes, as root.

    run.py [-l] [--long | --smoke] [NAME…]

NAME: only tests whose names contain one of these. -l lists the tests. --long also runs the tests marked with
harness.long, --smoke only the dozen of SMOKE. The ten slowest tests are printed at the end.

Environment: ALLOCSNAP, the binary; WORKLOADS, the folder of the compiled tests/workloads.
"""
import importlib
import os
import pathlib
import signal
import sys
import time
import traceback

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import harness  # pylint: disable=wrong-import-position

TEST_SECONDS = 180
ALL_SECONDS = 2400
SLOWEST = 10
SMOKE = ("test_known_totals_are_exact_per_call_site", "test_run_records_known_totals",
         "test_run_returns_the_exit_status", "test_follow_records_forked_children",
         "test_sample_estimates_are_right", "test_record_selects_by_comm",
         "test_record_handles_short_lived_processes", "test_doctor_describes_python",
         "test_symbolize_names_cxx_functions", "test_attach_refuses_a_missing_process",
         "test_ledger_of_redis_matches", "test_ledger_matches_after_attach", "test_clear_removes_earlier_blocks")


def find_tests():
    folder = pathlib.Path(__file__).parent
    for path in sorted(folder.glob("test_*.py")):
        module = importlib.import_module(path.stem)
        for name, function in vars(module).items():
            if name.startswith("test_"):
                yield name, function


def out_of_time(_signal, _frame):
    raise harness.Failure(f"not done after {TEST_SECONDS * harness.PATIENCE} s")


def reason_of(error):
    """The failure in one line; if an assertion has no message, the line that failed."""
    if isinstance(error, harness.Failure):
        return str(error)
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{os.path.basename(place.filename)}:{place.lineno}"
    return f"{where}: {str(error) or place.line} ({type(error).__name__})"


def run(name, function, deadline):
    """"ok", "FAIL" or "skip", after its line is printed; and the seconds that it took."""
    verdict, reason = "ok", ""
    begun = time.monotonic()
    bench = harness.Bench()
    try:
        try:
            if time.monotonic() > deadline:
                raise harness.Failure(f"no time left: all tests together have {ALL_SECONDS * harness.PATIENCE} s")
            signal.alarm(TEST_SECONDS * harness.PATIENCE)
            function(bench)
        finally:
            signal.alarm(0)
            bench.close()
    except harness.Skip as skip:
        verdict, reason = "skip", f": because {skip}"
    except Exception as error:  # pylint: disable=broad-except
        verdict, reason = "FAIL", f": {reason_of(error)}"
    seconds = time.monotonic() - begun
    print(f"{verdict} {name} ({seconds:.1f} s){reason}", flush=True)
    return verdict, seconds


def is_wanted(name, function, names):
    if "--smoke" in sys.argv:
        return name in SMOKE
    return bool(names) or "--long" in sys.argv or not getattr(function, "is_long", False)


def main():
    names = [arg for arg in sys.argv[1:] if not arg.startswith("-")]
    found = [(name, function) for name, function in find_tests()
             if not names or any(part in name for part in names)]
    tests = [(name, function) for name, function in found if is_wanted(name, function, names)]
    if "-l" in sys.argv:
        print(*(name for name, _ in tests), sep="\n")
        return 0
    if os.geteuid() != 0:
        sys.exit("live: these tests attach to processes: run them as root")
    signal.signal(signal.SIGALRM, out_of_time)
    return run_all(tests, len(found) - len(tests))


def run_all(tests, left_out):
    """The exit status."""
    deadline = time.monotonic() + ALL_SECONDS * harness.PATIENCE
    ended = [run(name, function, deadline) for name, function in tests]
    verdicts = [verdict for verdict, _ in ended]
    slowest = sorted(((seconds, name) for (name, _), (_, seconds) in zip(tests, ended)), reverse=True)[:SLOWEST]
    print("slowest: " + ", ".join(f"{name} {seconds:.1f} s" for seconds, name in slowest))
    if left_out:
        print(f"left to make check-long: {left_out} tests")
    print(f"live: {verdicts.count('ok')} passed, {verdicts.count('FAIL')} failed, "
          f"{verdicts.count('skip')} skipped")
    return 1 if "FAIL" in verdicts or not tests else 0


if __name__ == "__main__":
    sys.exit(main())
