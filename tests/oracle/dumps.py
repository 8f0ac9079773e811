# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Dumps of real Python programs through scripts/tracemalloc-to-json, and pickles that are no dumps."""
import json
import os
import pathlib
import pickle
import subprocess
import sys
import tracemalloc

from generate import Snapshot
from program import ALLOCSNAP
from questions import KEYS, Rows, difference

FOLDER = pathlib.Path(__file__).parent
SCRIPT = FOLDER.parent.parent / "scripts" / "tracemalloc-to-json"

# Two snapshots of itself; the name of one source file holds a byte that is no text.
PROGRAM = r"""
import sys, tracemalloc
tracemalloc.start(int(sys.argv[1]))
def tree(depth):
    return [tree(depth - 1) for _ in range(3)] if depth else bytes(100)
held = [tree(5), {str(i): i * 1.5 for i in range(1000)}]
exec(compile("held.append([bytes(n) for n in range(50)])", "caf\udce9 \u20ac.py", "exec"))
tracemalloc.take_snapshot().dump(sys.argv[2])
import json, decimal
held.append(tree(4))
del held[0]
tracemalloc.take_snapshot().dump(sys.argv[3])
"""


def script(*words, stdin=b""):
    return subprocess.run([sys.executable, SCRIPT, *words], input=stdin, capture_output=True,
                          timeout=600, check=False)


def as_text(name):
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def oracle_of(path):
    """CPython's own reading of a dump, with the names as text."""
    loaded = tracemalloc.Snapshot.load(path)
    traces = tuple((domain, size, tuple((as_text(name), lineno) for name, lineno in frames), *total)
                   for domain, size, frames, *total in loaded.traces._traces)
    return Snapshot(tuple(trace if len(trace) == 4 else (*trace, None) for trace in traces),
                    loaded.traceback_limit)


def take(bench, path):
    """script | allocsnap convert - -o SNAP; what failed, or None."""
    snap = bench.path(".snap")
    made = script(path)
    taken = subprocess.run([ALLOCSNAP, "convert", "-", "-o", snap], input=made.stdout,
                           capture_output=True, timeout=600, check=False)
    if made.returncode or made.stderr or taken.returncode or taken.stderr:
        return None, f"script: {made.returncode} {made.stderr!r}, convert: {taken!r}"
    oracle = oracle_of(path)
    bench.paths[id(oracle)] = oracle, snap
    return oracle, None


def compare(bench, score, dumps, what):
    """The dumps, taken, agree with Python's own statistics of them."""
    snapshots = []
    for path in dumps:
        oracle, failure = take(bench, path)
        score.note(f"{what}, taken", failure)
        if failure:
            return
        snapshots.append(oracle)
    for question in [(each,) for each in snapshots] + [tuple(snapshots)] * (len(snapshots) == 2):
        for key_type, cumulative in KEYS:
            score.note(f"{what}, by {key_type}",
                       difference(Rows(question, key_type, cumulative), bench))


def real_programs(bench, score):
    for limit in (1, 25):
        dumps = bench.path(".dump"), bench.path(".dump")
        done = subprocess.run([sys.executable, "-c", PROGRAM, str(limit), *dumps],
                              stderr=subprocess.PIPE, timeout=600, check=False)
        score.note("a program that dumps", done.returncode and done.stderr.decode())
        compare(bench, score, dumps, f"a program's dump, limit {limit}")


def other_forms(bench, score):
    """Dumps of Python ≤ 3.8, of tuples instead of lists, of nothing, of every protocol since 2."""
    frames = (("a.py", 2), ("b\udcff.py", 4))
    for traces in ([(0, 10, frames), (1, 66, frames[:1])],
                   ((0, 10, frames, 3), (3, 7, frames, 2)), []):
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            path = bench.path(".dump")
            pathlib.Path(path).write_bytes(pickle.dumps(tracemalloc.Snapshot(traces, 2), protocol))
            oldest = traces and len(traces[0]) == 3
            if oldest:  # CPython's own engine needs four members; the test is about the reader only
                made = script(path)
                want = '{"traceback_limit": 2, "traces": [\n[0, 10, [["a.py", 2], ["b\\\\xff.py", 4]]],\n' \
                       '[1, 66, [["a.py", 2]]]\n]}\n'
                score.note("a dump without total_nframe",
                           None if made.stdout.decode() == want else repr(made))
            else:
                compare(bench, score, [path], f"a dump of {len(traces)} traces, protocol {protocol}")


def names_that_look_spelled(bench, score):
    """Names that would be equal if only bytes were spelled stay different."""
    names = "\udce9", "\\xe9", "\\x5cxe9", "\0", "\\x00", "\\x41", "\ud800", "\\xed\\xa0\\x80"
    want = r"\xe9", r"\x5cxe9", r"\x5cx5cxe9", r"\x00", r"\x5cx00", r"\x41", r"\xed\xa0\x80", r"\x5cxed\x5cxa0\x5cx80"
    path = bench.path(".dump")
    pathlib.Path(path).write_bytes(pickle.dumps(tracemalloc.Snapshot([(0, 1, ((name, 1),), 1) for name in names], 1)))
    found = [frames[0][0] for _, _, frames, _ in json.loads(script(path).stdout)["traces"]]
    score.note("names that look spelled", None if found == list(want) else repr(found))


def output_file(bench, score):
    dump, out = bench.path(".dump"), bench.path(".json")
    pathlib.Path(dump).write_bytes(pickle.dumps(tracemalloc.Snapshot([(0, 1, (("a", 1),), 1)], 1)))
    made = script(dump, "-o", out)
    same = pathlib.Path(out).read_bytes() == script("-", stdin=pathlib.Path(dump).read_bytes()).stdout
    score.note("-o FILE and standard input", None if same and not made.stdout else repr(made))


class Call:
    """Pickles as a call of a function."""

    def __init__(self, function, *args):
        self.reduced = function, args

    def __reduce__(self):
        return self.reduced


def hostile(mark):
    """(name, pickle): loaded by pickle.load(), some of them would make the file `mark`."""
    command = f"touch '{mark}'"
    yield "os.system", pickle.dumps(Call(os.system, command))
    yield "os.system, text protocol", pickle.dumps(Call(os.system, command), 0)
    yield "eval", pickle.dumps(Call(eval, f"open({mark!r}, 'w')"))
    yield "a call among the traces", pickle.dumps(tracemalloc.Snapshot([Call(os.system, command)], 1))
    yield "a dotted name", b"\x80\x04\x8c\x0btracemalloc\x8c\x0fpickle.os.mkdir\x93\x8c" + \
        bytes([len(mark)]) + mark.encode() + b"\x85R."
    yield "a persistent id", b"\x80\x02X\x01\x00\x00\x00aQ."
    yield "another class of tracemalloc", pickle.dumps(tracemalloc.Filter(True, "a"))
    yield "an extension", b"\x80\x02\x82\x01."
    yield "a table of 2^31 rows", b"\x80\x02]r\xff\xff\xff\x7f."
    yield "nothing", b""
    yield "text", b"hello\n"
    yield "the half of one", pickle.dumps(tracemalloc.Snapshot([(0, 1, (("a", 1),), 1)], 1))[:-20]
    yield "a dictionary", pickle.dumps({"traces": []})
    yield "a bare class", b"\x80\x04\x8c\x0btracemalloc\x8c\x08Snapshot\x93."
    for traces in (5, [5], [()], [(0, 1)], [(0, -1, (("a", 1),), 1)], [(0, 1, (("a",),), 1)],
                   [(0, 1, ((b"a", 1),), 1)], [(0, 1, (("a", 1.5),), 1)], [(0, True, (("a", 1),), 1)],
                   [(0, 1, (("a", 1),), "1")], [(0, 1, (("a", 1),), 1, 1)], ["abcd"], {"a": 1},
                   [(0, 2**63, (("a", 1),), 1)]):
        yield f"traces {traces!r}", pickle.dumps(tracemalloc.Snapshot(traces, 1))
    yield "a limit that is none", pickle.dumps(tracemalloc.Snapshot([], "1"))
    yield "numbers of 5,000 digits", \
        pickle.dumps(tracemalloc.Snapshot([(0, 10**5000, (("a", 10**5000),), 1)], 10**5000))


def refusals(bench, score):
    mark = bench.path(".ran")
    for name, content in hostile(mark):
        path, out = bench.path(".dump"), bench.path(".json")
        pathlib.Path(path).write_bytes(content)
        made = script(path, "-o", out)
        lines = made.stderr.decode().splitlines()
        said = len(lines) == 1 and lines[0].startswith(f"tracemalloc-to-json: {path}: ")
        right = made.returncode == 1 and said and not made.stdout
        score.note(f"a pickle that is refused, {name}", None if right else repr(made))
        left = [file for file in (mark, out) if os.path.exists(file)]
        score.note(f"a pickle that does nothing, {name}", f"made {left}" if left else None)
    missing = script(bench.path(".dump"))
    score.note("a dump that is not there",
               None if missing.returncode == 1 and b"No such file" in missing.stderr else repr(missing))


def run(bench, score):
    real_programs(bench, score)
    other_forms(bench, score)
    names_that_look_spelled(bench, score)
    output_file(bench, score)
    refusals(bench, score)
    bench.forget()
