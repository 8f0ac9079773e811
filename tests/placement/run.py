#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Where probes sit in the allocators of three Debian suites, and whether each of them counts right.

    run.py [-l] [NAME…]     cases whose names contain one of NAME; -l lists them

Each case is a suite and an allocator: tests/workloads/allocators.c is run by that suite's own loader
(it is its program interpreter) with its libraries. For each function the place of its probe is printed, and why it is there, as doctor
says; then the program is recorded, attached to and from its start, and the account must be the
program's own, to the byte. Environment: ALLOCSNAP, WORKLOADS, PLACEMENT (where suites are kept).
"""
import os
import pathlib
import signal
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../live"), os.path.join(HERE, "..")]
import harness  # pylint: disable=wrong-import-position
import suites  # pylint: disable=wrong-import-position
import test_allocators as known  # pylint: disable=wrong-import-position

FOLDER = os.environ["PLACEMENT"]
CASE_SECONDS = 600  # a limit only
LIBRARY = {"jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4",
           "mimalloc": "libmimalloc.so.[0-9]"}
ALLOCATORS = ("glibc", "musl", *LIBRARY)


def find(root, name):
    """The one file of this name; /lib is not always a link to /usr/lib in a package."""
    for folder in ("usr/lib", "lib"):
        for path in sorted(pathlib.Path(root, folder).rglob(name)):
            if path.exists():
                return str(path)
    raise harness.Failure(f"{name} is not in the suite's packages")


def build(bench, root, allocator):
    """A program that the suite's own loader runs, with the suite's libraries and no others."""
    if allocator == "musl":
        return known.build_with(bench, "of_musl", "musl-gcc",
                                [f"-Wl,--dynamic-linker={find(root, 'libc.so')}"])
    folders = [os.path.join(root, name, suites.MULTIARCH) for name in ("usr/lib", "lib")]
    flags = [f"-Wl,--dynamic-linker={find(root, 'ld-linux-x86-64.so.2')}",
             f"-Wl,-rpath,{':'.join(folders)}", "-Wl,--disable-new-dtags",
             "-Wl,--allow-shlib-undefined", "-Wl,--no-as-needed"]
    if allocator in LIBRARY:
        flags.append(find(root, LIBRARY[allocator]))
    else:
        flags.append("-DONLY_GLIBC")
    return known.build_with(bench, f"of_{allocator}", "gcc", [*flags, "-lstdc++"])


# ---- places of probes ----

def print_table(process, case):
    """A row for each function of the allocator, and how many are single-stepped."""
    rows = [row for row in process["probes"] if row["placed"]]
    for row in rows:
        place = f"{row['function']}+{row['placement']}"
        instruction = row.get("instruction", "")
        print(f"   {case:17} {place:26} {instruction:34} {row['why']}")
    stepped = [row["function"] for row in rows if not row["emulated"]]
    print(f"   {case}: {len(rows)} probes, {len(stepped)} single-stepped", flush=True)
    return rows


def check_places(bench, argv, case, allocator):
    program = bench.start(argv, kind=harness.Workload).ready()
    process = bench.json("doctor", str(program.pid))["process"]
    rows = print_table(process, case)
    program.is_unharmed()
    names = {row["function"] for row in rows}
    harness.check({"malloc", "free", "realloc"} <= names or allocator == "mimalloc",
                  f"{case}: probes on {sorted(names)}")


# ---- cases ----

def check_case(bench, root, case, allocator):
    argv = [build(bench, root, allocator), *known.parts(allocator, "dynamic")]
    check_places(bench, argv, case, allocator)
    known.check_attached(bench, argv, allocator, case)
    known.check_run(bench, argv, allocator, case)


def out_of_time(_signal, _frame):
    raise harness.Failure(f"not done after {CASE_SECONDS} s")


def run_case(root, case, allocator):
    """"ok", "FAIL" or "skip", after its line is printed."""
    verdict, reason = "ok", ""
    bench = harness.Bench()
    try:
        if isinstance(root, suites.Missing):
            raise harness.Skip(str(root))
        signal.alarm(CASE_SECONDS)
        check_case(bench, root, case, allocator)
    except harness.Skip as skip:
        verdict, reason = "skip", f": because {skip}"
    except Exception as error:  # pylint: disable=broad-except
        verdict, reason = "FAIL", f": {error or type(error).__name__}"
    finally:
        signal.alarm(0)
        bench.close()
    print(f"{verdict} {case}{reason}", flush=True)
    return verdict


def main(arguments):
    signal.signal(signal.SIGALRM, out_of_time)
    cases = [(suite, allocator) for suite in suites.SUITES for allocator in ALLOCATORS]
    names = [word for word in arguments if word != "-l"]
    cases = [case for case in cases
             if not names or any(name in " ".join(case) for name in names)]
    if "-l" in arguments:
        print("\n".join(" ".join(case) for case in cases))
        return 0
    roots = suites.fetch_all(FOLDER)
    for suite, root in roots.items():
        if not isinstance(root, suites.Missing):
            print(f"   {suite}: " + ", ".join(f"{name} {version}" for name, version in
                                             suites.versions(FOLDER, suite).items()))
    found = [run_case(roots[suite], f"{suite} {allocator}", allocator) for suite, allocator in cases]
    print(f"placement: {found.count('ok')} passed, {found.count('FAIL')} failed, "
          f"{found.count('skip')} skipped")
    return "FAIL" in found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
