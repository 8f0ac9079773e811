#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Tests of liballocsnap-sampler.so: programs that check what it tells, with each allocator behind it.

    run.py LIBRARY FOLDER [NAME…]   FOLDER has the programs; NAMEs choose among the tests; beside LIBRARY lies the one
                                    with C++'s operators
Environment: SAMPLER_ROUNDS (200), the recordings of each test of estimates.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

LIBRARIES = "/usr/lib/x86_64-linux-gnu/"
ALLOCATORS = {
    "glibc": "",
    "jemalloc": LIBRARIES + "libjemalloc.so.2",
    "tcmalloc": LIBRARIES + "libtcmalloc_minimal.so.4",
    "mimalloc": LIBRARIES + "libmimalloc.so.2",
    "musl": "",
}
BYPASSED, OPERATORS_UNSEEN, EXTENSIONS_UNSEEN, BAD_INTERVAL = 1, 2, 4, 8
FLAGS = {
    "glibc": 0,
    "jemalloc": OPERATORS_UNSEEN | EXTENSIONS_UNSEEN,
    "tcmalloc": OPERATORS_UNSEEN,
    "mimalloc": OPERATORS_UNSEEN,
    "musl": 0,
}
OPERATORS = {prefix + tag for prefix, tags in {
    "_Znwm": ("", "RKSt9nothrow_t", "St11align_val_t", "St11align_val_tRKSt9nothrow_t"),
    "_ZdlPv": ("", "m", "RKSt9nothrow_t", "St11align_val_t", "mSt11align_val_t", "St11align_val_tRKSt9nothrow_t"),
}.items() for tag in tags}
OPERATORS |= {name.replace("_Znw", "_Zna").replace("_Zdl", "_Zda") for name in OPERATORS}
ROUNDS = os.environ.get("SAMPLER_ROUNDS", "200")
TIMEOUT_S = 600
tests = {}


def test(function):
    tests[function.__name__.removeprefix("test_")] = function


class Place:
    def __init__(self, library, folder):
        self.library = library
        self.folder = folder

    def with_operators(self):
        """With the library for allocators that have operators of their own."""
        return Place(self.library.removesuffix(".so") + "-new.so", self.folder)

    def run(self, argv, behind="", interval=None, listed=None, **environment):
        """Output of a program below the library. `interval`: as a number; `listed`: as the variable has it."""
        environment["LD_PRELOAD"] = self.library + (":" + behind if behind else "")
        if interval:
            environment["INTERVAL"] = str(interval)
        if interval or listed is not None:
            environment["ALLOCSNAP_SAMPLE"] = listed if listed is not None else str(interval)
        plain = {name: value for name, value in os.environ.items() if not name.startswith("ALLOCSNAP_")}
        done = subprocess.run([os.path.join(self.folder, argv[0]), *argv[1:]], env=plain | environment,
                              capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert done.returncode == 0, f"{argv} exits with {done.returncode}: {done.stderr}{done.stdout}"
        assert not done.stderr, done.stderr
        return done.stdout

    def exercise(self, mode, allocator="glibc", **more):
        program = "exercise_musl" if allocator == "musl" else "exercise"
        if allocator == "jemalloc":
            more["NO_PVALLOC"] = "1"
        out = self.run([program, mode], behind=more.pop("behind", ALLOCATORS[allocator]), **more)
        checks = re.search(r"(\d+) checks, 0 failed", out)
        assert checks and (mode == "strict" or int(checks[1]) > 0), out
        return out


def for_each_allocator(function):
    def run(place, allocator):
        return function(place, allocator)
    for allocator in ALLOCATORS:
        tests[f"{function.__name__.removeprefix('test_')}_{allocator}"] = \
            lambda place, allocator=allocator: run(place, allocator)


@for_each_allocator
def test_functions(place, allocator):
    """All functions with each way to fail; every block is a sample."""
    place.exercise("functions", allocator, interval=1)


@for_each_allocator
def test_estimates(place, allocator):
    """The set of live blocks of each round; each round has new threads."""
    return place.exercise("estimates", allocator, interval=4096, ROUNDS=ROUNDS)


@for_each_allocator
def test_flags(place, allocator):
    out = place.exercise("idle", allocator, interval=4096)
    assert f"flags {FLAGS[allocator]} interval 4096\n" in out, out


@test
def test_estimates_of_small_samples(place):
    return place.exercise("estimates", interval=1000, ROUNDS=ROUNDS)


@test
def test_estimates_while_the_interval_changes(place):
    return place.exercise("estimates-changing", interval=8192, ROUNDS=ROUNDS)


@test
def test_five_thousand_threads(place):
    return place.exercise("estimates", interval=4096, ROUNDS="1250")


@test
def test_functions_of_an_allocator_that_calls_itself(place):
    place.exercise("functions", behind=os.path.join(place.folder, "next_nested.so"), interval=1)


@test
def test_signal_handlers(place):
    place.exercise("signals", behind=os.path.join(place.folder, "next_lockfree.so"), interval=500)


@test
def test_signal_handlers_of_an_allocator_that_calls_itself(place):
    place.exercise("signals", behind=os.path.join(place.folder, "next_nested.so"), interval=500)


@for_each_allocator
def test_forks(place, allocator):
    place.exercise("forks", allocator, interval=20000)


@test
def test_strict_seccomp(place):
    place.exercise("strict", behind=os.path.join(place.folder, "next_lockfree.so"), interval=2000)


@test
def test_dlopen(place):
    place.exercise("dlopen", interval=1, PLUGIN=os.path.join(place.folder, "plugin.so"))


@test
def test_no_room(place):
    place.exercise("full", interval=1)


@test
def test_dlsym_that_allocates(place):
    behind = os.path.join(place.folder, "dlsym_allocates.so")
    place.exercise("functions", behind=behind, interval=1)
    place.exercise("estimates", behind=behind, interval=16384, ROUNDS="20")


@test
def test_intervals(place):
    """Values of the variable, good and bad."""
    for listed, interval in (("1", 1), ("4096", 4096), ("512K", 512 << 10), ("3M", 3 << 20), ("1G", 1 << 30),
                             ("1024G", 1 << 40)):
        out = place.run(["exercise", "idle"], listed=listed, INTERVAL=str(interval))
        assert f"flags 0 interval {interval}\n" in out, (listed, out)
    for listed in ("", "0", "0K", "K", "-1", "12x", "512k", "5KK", "1025G", "99999999999999999999", " 1K", "1.5M"):
        out = place.run(["exercise", "idle"], listed=listed, INTERVAL=str(512 << 10))
        assert f"flags {BAD_INTERVAL} interval {512 << 10}\n" in out, (listed, out)
    assert f"flags 0 interval {512 << 10}\n" in place.run(["exercise", "idle"])


@test
def test_chosen_interval_returns(place):
    place.exercise("left", interval=4096)


@test
def test_program_with_its_own_malloc(place):
    out = place.run(["own_malloc"], listed="1")
    assert out == f"flags {BYPASSED} events 0 samples 0\n", out


@test
def test_operators(place):
    """They call malloc: each block is a sample once, whichever library is there."""
    place.run(["operators"], listed="1")
    place.with_operators().run(["operators"], listed="1")


def test_own_operators(place, allocator):
    """The allocator has them itself. mimalloc is written in C: its operator new aborts and throws nothing."""
    more = {"NO_THROW": "1"} if allocator == "mimalloc" else {}
    place = place.with_operators()
    place.run(["operators"], behind=ALLOCATORS[allocator], listed="1", **more)
    out = place.exercise("idle", allocator, interval=4096)
    assert f"flags {FLAGS[allocator] & ~OPERATORS_UNSEEN} interval 4096\n" in out, out
    place.exercise("functions", allocator, interval=1)


for name in ("jemalloc", "tcmalloc", "mimalloc"):
    tests[f"own_operators_{name}"] = lambda place, name=name: test_own_operators(place, name)


@test
def test_operators_without_a_cxx_library(place):
    """A program in C that is given the wrong library."""
    place.with_operators().exercise("functions", interval=1)
    place.with_operators().exercise("estimates", "musl", interval=4096, ROUNDS="20")


@test
def test_set_of_samples_under_sanitizers(place):
    for program in ("set_races_tsan", "set_races_asan"):
        done = subprocess.run([os.path.join(place.folder, program)], capture_output=True, text=True,
                              timeout=TIMEOUT_S, check=False)
        assert done.returncode == 0 and "0 failed" in done.stdout, done.stderr + done.stdout


@test
def test_programs_do_what_they_do_without_it(place):
    """Some have threads, children, many libraries, or run before libraries are ready."""
    for argv in (["/bin/sh", "-c", "for i in 1 2 3 4 5; do ls / | sort -r | head -3; done"],
                 ["/usr/bin/python3", "-c", "import subprocess, json, sqlite3, ctypes, decimal, threading\n"
                  "print(json.dumps([subprocess.run(['uname'], capture_output=True, text=True).stdout] * 3))"],
                 ["/usr/bin/git", "--version"],
                 ["/usr/bin/sqlite3", ":memory:", "select sum(value) from generate_series(1, 99)"],
                 ["/usr/bin/setpriv", "--reuid=65534", "--clear-groups", "id", "-u"]):
        plain = subprocess.run(argv, capture_output=True, check=True)
        for allocator in ("glibc", "jemalloc", "tcmalloc", "mimalloc"):
            preloaded = ":".join(filter(None, (place.library, ALLOCATORS[allocator])))
            below = subprocess.run(argv, env=os.environ | {"LD_PRELOAD": preloaded, "ALLOCSNAP_SAMPLE": "1000"},
                                   capture_output=True, check=False)
            assert (below.returncode, below.stdout, below.stderr) == (0, plain.stdout, plain.stderr), (argv, below)


def check_file(place, more_exported):
    """Nothing in it depends on a version of a C library, and each probe is there once."""
    def ask(*argv):
        return subprocess.run([*argv, place.library], capture_output=True, text=True, check=True).stdout
    assert "@" not in ask("nm", "-D"), "a symbol has a version"
    needed = re.findall(r"NEEDED.*\[(.*)\]", ask("readelf", "-dW"))
    assert needed == ["libdl.so.2"], needed
    notes = re.findall(r"Provider: otel_memory\s+Name: (\w+)", ask("readelf", "-nW"))
    assert sorted(notes) == ["alloc", "free"], notes
    exported = set(re.findall(r" [A-TV-Z] (\w+)", ask("nm", "-D")))
    assert exported == {"allocsnap_sampler", "malloc", "calloc", "realloc", "reallocarray", "free", "cfree", "memalign",
                        "aligned_alloc", "posix_memalign", "valloc", "pvalloc"} | more_exported, exported


@test
def test_files(place):
    check_file(place, set())
    check_file(place.with_operators(), OPERATORS)


def copies_of_libraries(library, folder):
    """A recorder of another test may have probes in the files themselves. When it ends, the kernel takes its probes out of
    all processes, and with them the traps that a program here has put in the same places."""
    for path in library, library.removesuffix(".so") + "-new.so":
        shutil.copy(path, folder)
    os.chmod(folder, 0o755)
    return os.path.join(folder, os.path.basename(library))


def main():
    with tempfile.TemporaryDirectory(prefix="allocsnap-sampler.") as folder:
        return run_all(Place(copies_of_libraries(sys.argv[1], folder), sys.argv[2]))


def run_all(place):
    unknown = [name for name in sys.argv[3:] if name not in tests]
    if unknown:
        sys.exit(f"run.py: no test {unknown[0]}")
    failed = skipped = passed = 0
    for name, function in tests.items():
        if sys.argv[3:] and name not in sys.argv[3:]:
            continue
        begun = time.monotonic()
        try:
            said = function(place)
            passed += 1
        except (AssertionError, OSError, subprocess.SubprocessError) as error:
            said = f"FAILED: {error}"
            failed += 1
        print(f"{name} ({time.monotonic() - begun:.1f} s)" + (f": {said.splitlines()[0]}" if said and failed == 0 else
                                                           f": {said}" if said else ""), flush=True)
    print(f"sampler: {passed} passed, {failed} failed, {skipped} skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
