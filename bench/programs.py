#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""How much slower real programs are while they are recorded: by allocsnap, and by other profilers.

    programs.py ALLOCSNAP SAMPLER BENCH PEERS   the binary and the library; a folder to work in; fetch-peers.sh's

A slowdown is the processor time of a program's work, divided by that time of the same work unprofiled in the
same round; the result is the median of the rounds. Profilers are attached while the program waits, and the
time to attach is left out. Each round begins with another way. "unprofiled again" is "unprofiled" once more: how
far a ratio can be trusted. Profilers that record every call are slow: they get a quarter of the work, compared with
a quarter unprofiled, fewer rounds, and a limit of processor time; "> N" is a program that reached the limit.
jemalloc's own profiler is compared with jemalloc without it. Needs root.
Environment: BENCH_ROUNDS, the rounds of the ways that cost little (31); BENCH_WORK, so many times as much work for them;
BENCH_PROGRAMS, names of programs; BENCH_WAYS=few, without the ways that take long, or exact, those that record each block
in the program, beside heaptrack; BENCH_PROGRESS.
"""
import atexit
import contextlib
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import peers  # pylint: disable=wrong-import-position
import rounds  # pylint: disable=wrong-import-position
import workloads  # pylint: disable=wrong-import-position

WHOLE, PART = 4 * int(os.environ.get("BENCH_WORK", "1")), 1
LIMIT_S = 15
MANY, SOME, FEW = 31, 5, 2  # rounds
SAMPLE = ("--sample", "512K")


class Way:
    """How it is profiled, in how many rounds, on how much work, and what that is compared with."""

    def __init__(self, profiler, wanted, factor, base=None):
        self.profiler = profiler
        self.name = profiler.name
        self.rounds = wanted
        self.factor = factor
        self.base = base or {WHOLE: "unprofiled", PART: "unprofiled, part"}[factor]


def ways(places, library):
    def allocsnap(*options):
        return peers.Allocsnap(places, " ".join(options) or "by traps", *options)

    many = int(os.environ.get("BENCH_ROUNDS", MANY))
    some, few = min(many, SOME), min(many, FEW)
    memleak, memleak_bpfcc, bpftrace = peers.ebpf_peers(places)
    plain = [
        Way(peers.Profiler("unprofiled"), many, WHOLE),
        Way(peers.Profiler("unprofiled again"), many, WHOLE),
    ]
    exact = [
        Way(peers.RunExact(), many, WHOLE),
        Way(allocsnap("--inject=exact"), many, WHOLE),
    ]
    sampled = [
        Way(peers.Sampler("sampler, not recorded", library), many, WHOLE),
        Way(peers.Sampler("sampler, recorded", library, allocsnap()), many, WHOLE),
        Way(peers.Allocsnap(places, "injected, recorded", "--inject"), many, WHOLE),
    ]
    others = [
        Way(peers.Profiler("unprofiled, part"), some, PART),
        Way(allocsnap(), some, PART),
        Way(allocsnap(*SAMPLE), some, WHOLE),
        Way(peers.Jemalloc("jemalloc", False), some, WHOLE),
        Way(peers.Jemalloc("jemalloc, profiled", True), some, WHOLE, "jemalloc"),
        Way(peers.Heaptrack(places), some, PART),
        Way(memleak, few, PART),
        *([Way(memleak_bpfcc, few, PART)] if memleak.missing else []),
        Way(bpftrace, few, PART),
    ]
    if os.environ.get("BENCH_WAYS") == "exact":
        return plain + exact + [Way(peers.Heaptrack(places), many, WHOLE)]
    return plain + exact + sampled + ([] if os.environ.get("BENCH_WAYS") == "few" else others)


def python_ways(places):
    """Python's objects, with Python's tracebacks, beside Python's own tracemalloc."""
    some = min(int(os.environ.get("BENCH_ROUNDS", MANY)), SOME)
    recorded = ("--domain", "python", "--traceback-limit")
    return [
        Way(peers.Profiler("unprofiled, part"), some, PART),
        Way(peers.Profiler("unprofiled again"), some, PART),
        Way(peers.Tracemalloc(1), some, PART),
        Way(peers.Tracemalloc(25), some, PART),
        Way(peers.Allocsnap(places, "--domain python, 1 frame", *recorded, "1"), some, PART),
        Way(peers.Allocsnap(places, "--domain python, 25 frames", *recorded, "25"), some, PART),
        Way(peers.Allocsnap(places, "--sample pools,large", "--sample", "pools,large"), some, PART),
        Way(peers.Allocsnap(places, "--sample pools", "--sample", "pools"), some, PART),
    ]


class Bench:
    """One program, by all ways."""

    def __init__(self, places, kind):
        self.places = places
        self.kind = kind
        self.samples = rounds.Samples()
        self.own = rounds.Samples()  # the profiler's own processor time over the target's
        self.told = rounds.Samples()  # the share of it that recording took, by the last snapshot
        self.traps = rounds.Samples()  # the processor time that its traps alone took, by the last snapshot
        self.too_long = set()
        self.broken = {}

    def measure(self, way, nr):
        if nr >= way.rounds or way.name in self.broken:
            return None
        if way.name in self.kind.cannot:
            self.broken[way.name] = self.kind.cannot[way.name]
            return None
        try:
            return self.profiled(way)
        except workloads.TooLong as late:
            self.too_long.add(way.name)
            return late.args[0]
        except (RuntimeError, OSError, subprocess.SubprocessError) as error:
            self.broken[way.name] = str(error)
            return None

    def profiled(self, way):
        """The processor time of its work, in ns."""
        program = self.kind(self.places.work)
        libraries = peers.copy_libraries(self.places.work / "lib", self.kind.libraries)
        self.places.more_options = self.kind.options
        attached = None
        try:
            pid = program.start({"LD_LIBRARY_PATH": str(libraries)} | way.profiler.environment(self.places),
                                way.profiler.command(self.places))
            attached = way.profiler.attach(self.places, pid, libraries / self.kind.malloc_is_in)
            if attached:
                attached.begin()
            found = program.run(way.factor, LIMIT_S)
            self.note(way, attached, found)
            return found
        finally:
            program.finish()
            if attached:
                attached.end()
                self.note_told(way, attached)

    def note(self, way, attached, found):
        if attached:
            self.own.add(way.name, attached.own_ns() / found)
        elif isinstance(way.profiler, peers.Heaptrack):
            self.own.add(way.name, peers.Heaptrack.interpret_ns(self.places) / found)

    def note_told(self, way, attached):
        """Adds the share that the last snapshot reports, if it reports one."""
        snapshots = attached.snapshots() if isinstance(attached, (peers.Recording, peers.Started)) else []
        if not snapshots:
            return
        done = subprocess.run([self.places.allocsnap, "show", "--json", snapshots[-1]], check=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        with contextlib.suppress(KeyError, TypeError):
            shown = json.loads(done.stdout)
            self.told.add(way.name, shown["cost"]["share"])
            self.traps.add(way.name, sum(shown["counters"][f"{kind}_traps"] * shown["cost"].get(f"{kind}_trap_ns", 0)
                                         for kind in ("entry", "stepped", "return")))

    def run(self, present):
        rounds.in_turns(self.samples, {way.name: lambda nr, way=way: self.measure(way, nr)
                                       for way in present}, max(way.rounds for way in present), rotates=True)

    def cell(self, way):
        if way.name in self.broken:
            return "-"
        found = self.samples.quartiles(way.name, way.base) if way.rounds > SOME else None
        if found:
            return "{:.3f} ({:.3f} to {:.3f})".format(*found)
        text = rounds.number(self.samples.ratio(way.name, way.base))
        return ("> " if way.name in self.too_long else "") + text

    def shares(self, way):
        """The share of the program's processor time that recording took: as reported, and as measured."""
        told, slowdown = self.told.median(way.name), self.samples.ratio(way.name, way.base)
        if told is None or not slowdown:
            return "-"
        return f"{told:.0%} ({1 - 1 / slowdown:.0%})"

    def over_traps(self, way):
        """The cost of recording, for each second that its traps alone take: the median of the rounds."""
        found = [(recorded - plain) / traps for recorded, plain, traps in
                 zip(self.samples.of.get(way.name, []), self.samples.of.get(way.base, []), self.traps.of.get(way.name, []))
                 if recorded and plain and traps]
        return rounds.number(statistics.median(found)) if found else "-"

    def raw(self):
        return {"ns": self.samples.of, "own": self.own.of, "told": self.told.of, "traps": self.traps.of,
                "too_long": sorted(self.too_long), "broken": self.broken}


def print_table(title, columns, benches, cell):
    print(f"\n{title}\n")
    print("| program | " + " | ".join(way.name for way in columns) + " |")
    print("|---|" + "---|" * len(columns))
    for bench in benches:
        print(f"| {bench.kind.name} | " + " | ".join(cell(bench, way) for way in columns) + " |")


def print_all(benches, present):
    compared = [way for way in present if way.name not in ("unprofiled", "unprofiled, part")]
    ours = [way for way in compared if isinstance(way.profiler, (peers.Allocsnap, peers.RunExact, peers.Sampler))]
    natives = [way for way in present if way not in compared]
    print_table("Slowdown: processor time over that of the same work unprofiled (jemalloc, profiled: over jemalloc): "
                f"median of the rounds' own ratios; with quartiles where there are more than {SOME} rounds.",
                compared, benches, lambda bench, way: bench.cell(way))
    print_table("Of the program's processor time recording took, as its snapshot tells (as measured).",
                ours, benches, lambda bench, way: bench.shares(way))
    print_table("The profiler's own processor time, for each second of the program's.", compared,
                benches, lambda bench, way: rounds.number(bench.own.median(way.name)))
    print_table("Seconds of processor time.", natives, benches,
                lambda bench, way: rounds.number(
                    (bench.samples.median(way.name) or 0) / 1e9))
    for bench in benches:
        for name, reason in bench.broken.items():
            print(f"{bench.kind.name}, {name}: {reason}")


def measure(places, kinds, all_ways, file):
    """Measures some programs by the ways that are here, and saves the samples. What there is to print."""
    present = [way for way in all_ways if not way.profiler.missing]
    wanted = os.environ.get("BENCH_PROGRAMS", "").split()
    benches = [Bench(places, kind) for kind in kinds if not wanted or kind.name.partition(",")[0] in wanted]
    for bench in benches:
        bench.run(present)
        rounds.save(places.bench / file, {b.kind.name: b.raw() for b in benches})
    return benches, present


def print_rounds(all_ways, present):
    print("\nRounds: " + ", ".join(f"{way.name} {way.rounds}" for way in present) + f". {rounds.load()}")
    for way in all_ways:
        if way.profiler.missing:
            print(f"{way.name}: missing: {way.profiler.missing}")


def main():
    rounds.end_in_order()
    allocsnap, library, *folders = sys.argv[1:]
    places = peers.Places(allocsnap, *folders, "programs.d")
    public = pathlib.Path(tempfile.mkdtemp(prefix="allocsnap-bench."))  # for programs of other users
    public.chmod(0o755)
    atexit.register(shutil.rmtree, public, ignore_errors=True)
    library = shutil.copy(library, public)
    kinds_of = [(workloads.PROGRAMS, ways(places, library), "programs.json")]
    if os.environ.get("BENCH_WAYS") != "exact":
        kinds_of.append((workloads.PYTHONS, python_ways(places), "pythons.json"))
    for kinds, all_ways, file in kinds_of:
        benches, present = measure(places, kinds, all_ways, file)
        if not benches:
            continue
        print_all(benches, present)
        if kinds is workloads.PYTHONS:
            recorded = [way for way in present if isinstance(way.profiler, peers.Allocsnap)]
            print_table("Seconds that recording has cost, for each second that its traps alone take.", recorded, benches,
                        lambda bench, way: bench.over_traps(way))
        print_rounds(all_ways, present)


if __name__ == "__main__":
    main()
