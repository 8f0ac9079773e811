# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Programs that check what the library reports, with each allocator behind it."""
import os
import re
import shutil
import subprocess

from harness import Law, check, check_sanitizer, core, runs_core
from harness.suite import for_each

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
CORE = "glibc", "musl", "jemalloc"
ROUNDS = os.environ.get("SAMPLER_ROUNDS") or ("50" if runs_core() else "200")
TIMEOUT_S = 600


class Place:
    """The library, copied: a recorder of another test may have probes in the file itself. When it ends, the kernel takes its
    probes out of all processes, and with them the traps that a program here has put in the same places."""

    def __init__(self, library, folder):
        os.chmod(folder, 0o755)
        self.library = shutil.copy(library, folder)
        self.own, self.folder = folder, os.environ["SAMPLER"]

    def with_operators(self):
        """With the library for allocators that have operators of their own."""
        return Place(os.environ["LIBRARY"].removesuffix(".so") + "-new.so", self.own)

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
        check_sanitizer(done.stderr, argv)
        check(done.returncode >= 0, f"{argv} is ended: {done.returncode}, {done.stderr}", Law)
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


@for_each(ALLOCATORS, of_core=CORE)
def test_functions(place, allocator):
    """All functions with each way to fail; every block is a sample."""
    place.exercise("functions", allocator, interval=1)


@for_each(ALLOCATORS, of_core=("glibc",))
def test_estimates(place, allocator):
    """The set of live blocks of each round; each round has new threads."""
    return place.exercise("estimates", allocator, interval=4096, ROUNDS=ROUNDS)


@for_each(ALLOCATORS, of_core=CORE)
def test_flags(place, allocator):
    out = place.exercise("idle", allocator, interval=4096)
    assert f"flags {FLAGS[allocator]} interval 4096\n" in out, out


def test_estimates_of_small_samples(place):
    return place.exercise("estimates", interval=1000, ROUNDS=ROUNDS)


def test_estimates_while_the_interval_changes(place):
    return place.exercise("estimates-changing", interval=8192, ROUNDS=ROUNDS)


def test_five_thousand_threads(place):
    return place.exercise("estimates", interval=4096, ROUNDS="1250")


def test_functions_of_an_allocator_that_calls_itself(place):
    place.exercise("functions", behind=os.path.join(place.folder, "next_nested.so"), interval=1)


@core
def test_signal_handlers(place):
    place.exercise("signals", behind=os.path.join(place.folder, "next_lockfree.so"), interval=500)


@core
def test_signal_handlers_of_an_allocator_that_calls_itself(place):
    place.exercise("signals", behind=os.path.join(place.folder, "next_nested.so"), interval=500)


@for_each(("lockfree", "nested"))
def test_signal_handlers_that_jump(place, name):
    place.exercise("jumps", behind=os.path.join(place.folder, f"next_{name}.so"), interval=1)


@for_each(ALLOCATORS, of_core=CORE)
def test_forks(place, allocator):
    place.exercise("forks", allocator, interval=20000)


def test_strict_seccomp(place):
    place.exercise("strict", behind=os.path.join(place.folder, "next_lockfree.so"), interval=2000)


def test_dlopen(place):
    place.exercise("dlopen", interval=1, PLUGIN=os.path.join(place.folder, "plugin.so"))


def test_no_room(place):
    place.exercise("full", interval=1)


def test_dlsym_that_allocates(place):
    behind = os.path.join(place.folder, "dlsym_allocates.so")
    place.exercise("functions", behind=behind, interval=1)
    place.exercise("estimates", behind=behind, interval=16384, ROUNDS="20")


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


def test_chosen_interval_returns(place):
    place.exercise("left", interval=4096)


def test_program_with_its_own_malloc(place):
    out = place.run(["own_malloc"], listed="1")
    assert out == f"flags {BYPASSED} events 0 samples 0\n", out


def test_operators(place):
    """They call malloc: each block is a sample once, whichever library is there."""
    place.run(["operators"], listed="1")
    place.with_operators().run(["operators"], listed="1")


@for_each(("jemalloc", "tcmalloc", "mimalloc"))
def test_own_operators(place, allocator):
    """The allocator has them itself. mimalloc is written in C: its operator new aborts and throws nothing."""
    more = {"NO_THROW": "1"} if allocator == "mimalloc" else {}
    place = place.with_operators()
    place.run(["operators"], behind=ALLOCATORS[allocator], listed="1", **more)
    out = place.exercise("idle", allocator, interval=4096)
    assert f"flags {FLAGS[allocator] & ~OPERATORS_UNSEEN} interval 4096\n" in out, out
    place.exercise("functions", allocator, interval=1)


def test_operators_without_a_cxx_library(place):
    """A program in C that is given the wrong library."""
    place.with_operators().exercise("functions", interval=1)
    place.with_operators().exercise("estimates", "musl", interval=4096, ROUNDS="20")


def test_set_of_samples_under_sanitizers(place):
    for program in ("set_races_tsan", "set_races_asan"):
        done = subprocess.run([os.path.join(place.folder, program)], capture_output=True, text=True,
                              timeout=TIMEOUT_S, check=False)
        check_sanitizer(done.stderr, program)
        assert done.returncode == 0 and "0 failed" in done.stdout, done.stderr + done.stdout


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


def test_files(place):
    check_file(place, set())
    check_file(place.with_operators(), OPERATORS)
