# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Reports to open: written by `allocsnap report`, or of data made here in the form of docs/report-format.md."""
import base64
import gzip
import json
import pathlib
import random
import subprocess

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = TOP / "src/report/page/page.html"
EVIL = "</script><img src=x onerror=alert(1)>"


def embed(data, path):
    """a page with the data; returns the path"""
    text = base64.b64encode(gzip.compress(json.dumps(data).encode())).decode()
    pathlib.Path(path).write_text(PAGE.read_text(encoding="utf-8").replace("@DATA@", text), encoding="utf-8")
    return path


def ask(allocsnap, *words):
    """the JSON of a command"""
    done = subprocess.run([allocsnap, *map(str, words), "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def write_report(allocsnap, path, *words):
    """a report by the program under test; returns the path"""
    subprocess.run([allocsnap, "report", *map(str, words), "-o", str(path)], capture_output=True, text=True, check=True)
    return path


def record_compiler(allocsnap, folder):
    """the report of clang++ (which builds allocsnap, too) at its end, after the headers of the standard library"""
    source, snapshots = folder / "headers.cpp", folder / "snapshots"
    source.write_text("#include <bits/stdc++.h>\n", encoding="utf-8")
    subprocess.run([allocsnap, "run", "-o", snapshots, "--", "clang++", "-std=c++17", "-c", source, "-o", "/dev/null"],
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    last = sorted(snapshots.rglob("*.snap"))[-1]
    return write_report(allocsnap, folder / "compiler.html", last)


class Builder:
    """Data of a report, a traceback at a time; frames are (function, file, line, is_library)."""

    def __init__(self, snapshots, **process):
        self.strings, self.string_of = [], {}
        self.frames = {name: [] for name in "function file line object offset library kind".split()}
        self.frame_of, self.nodes, self.node_of = {}, [(0, -1)], {}
        self.blocks = {}  # (node, key): [(size, count) by snapshot]
        self.snapshots = snapshots
        self.process = {"comm": "shop", "pid": 4711, "host": "h1", "attached": 0, **process}

    def string(self, text):
        if text not in self.string_of:
            self.string_of[text] = len(self.strings)
            self.strings.append(text)
        return self.string_of[text]

    def frame(self, frame):
        if frame not in self.frame_of:
            function, file, line, library = frame
            self.frame_of[frame] = len(self.frame_of)
            row = (self.string(function), self.string(file), line, self.string("/usr/bin/shop"),
                   16 * len(self.frame_of), library, 0)
            for name, value in zip(self.frames, row):
                self.frames[name].append(value)
        return self.frame_of[frame]

    def add(self, traceback, values, key=(1, 0, 0)):
        """traceback: oldest frame first; values: (size, count) at each snapshot; key: thread, size class, birth"""
        at = 0
        for frame in traceback:
            step = (at, self.frame(frame))
            if step not in self.node_of:
                self.node_of[step] = len(self.nodes)
                self.nodes.append(step)
            at = self.node_of[step]
        self.blocks[at, key] = values

    def traceback(self, frames):
        """the number of a traceback that was added"""
        at = 0
        for frame in frames:
            at = self.node_of[at, self.frame(frame)]
        return self.leaves().index(at)

    def leaves(self):
        return sorted({node for node, _ in self.blocks})

    def data(self, **more):
        leaves = self.leaves()
        keys = sorted({key for _, key in self.blocks})
        traceback, key_at = {node: i for i, node in enumerate(leaves)}, {key: i for i, key in enumerate(keys)}
        rows = sorted((traceback[node], key_at[key], node) for node, key in self.blocks)
        columns = [self.blocks[node, keys[key]] for _, key, node in rows]
        out = []
        for s, snapshot in enumerate(self.snapshots):
            changed = [i for i, values in enumerate(columns) if values[s] != (values[s - 1] if s else (0, 0))]
            out.append({"name": f"{s}.snap", "trigger": "interval", "blocks": sum(v[s][1] for v in columns),
                        "traced": {"current": sum(v[s][0] for v in columns)}, "losses": {}, "counters": {},
                        "row": differences(changed), "size": [columns[i][s][0] for i in changed],
                        "count": [columns[i][s][1] for i in changed], **snapshot})
        return {
            "schema": "allocsnap.report/1", "allocsnap": "test", "process": self.process, "warnings": [], "gaps": [],
            "question": {"kind": "history", "filters": [], "given": len(out)},
            "strings": self.strings, "frames": self.frames,
            "nodes": {"up": [i - up for i, (up, _) in enumerate(self.nodes)],
                      "frame": [frame for _, frame in self.nodes]},
            "tracebacks": {"node": differences(leaves), "passed": [self.passed(n) for n in leaves],
                           "cut": [0] * len(leaves)},
            "births_ns": sorted({s["monotonic_ns"] for s in self.snapshots}), "domains": [],
            "keys": dict(zip(("thread", "size_class", "birth"), map(list, zip(*keys)))) if keys else {},
            "rows": {"traceback": differences([row[0] for row in rows]), "key": [row[1] for row in rows]},
            "snapshots": out, **more}

    def passed(self, node):
        passed = 0
        while node and self.frames["library"][self.nodes[node][1]]:
            node, passed = self.nodes[node][0], passed + 1
        return passed if node else 0


def differences(numbers):
    return [number - before for number, before in zip(numbers, [0, *numbers])]


def moments(nr, interval=5):
    """snapshots every few seconds"""
    times = [interval * i for i in range(nr)]
    return [{"wall_ms": 1795349100000 + 1000 * t, "monotonic_ns": 10**9 * (100 + t)} for t in times]


MALLOC = ("malloc", "malloc.c", 1, 1)
MAIN = ("main", "/src/main.cc", 10, 0)


def leak(traceback, verdict, rate, since, reason="1200 of 1200 blocks older than 10.0 s are live"):
    """a line of verdicts, and the row that has only this line"""
    rates = {"verdict": verdict, "bytes_per_s": rate, "least_bytes_per_s": 0.95 * rate, "since_ns": since * 10**9}
    return {**rates, "lines": [{**rates, "reason": reason, "traceback": traceback, "tracebacks": 1, "callers": 1}]}


def verdicts(*rows, seconds=95, **more):
    """the judgement of a recording that began with the first snapshot"""
    numbers = {kind: sum(len(row["lines"]) for row in rows if row["verdict"] == kind) for kind in ("leaks", "may-leak")}
    return {"judged": True, "begin_ns": 100 * 10**9, "observed_ns": seconds * 10**9, "snapshots": 12, "gaps_ns": 0,
            "growth": {"time_ns": seconds * 10**9, "traced": 4800000}, "lines": numbers, "rows": list(rows), **more}


def shop(nr=20):
    """a service that leaks in Cache::put from the 8th snapshot on, in thread 2, beside a busy site and a full cache"""
    builder = Builder(moments(nr))
    serve, fill = ("shop::Server::serve(int)", "/src/server.cc", 20, 0), ("shop::Index::fill()", "/src/index.cc", 40, 0)
    put, parse = ("shop::Cache::put(int)", "/src/cache.cc", 30, 0), ("shop::parse(char const*)", "/src/parse.cc", 50, 0)
    builder.add([MAIN, fill, MALLOC], [(6000000, 50)] * nr, (1, 17, 0))
    for i in range(nr):  # what was born between two snapshots is a row
        leaked = [(400000, 100) if s >= i > 7 else (0, 0) for s in range(nr)]
        builder.add([MAIN, serve, put, MALLOC], leaked, (2, 12, i))
        busy = [(100000 + 1000 * (i * 7 % 5), 70) if s == i else (0, 0) for s in range(nr)]
        builder.add([MAIN, serve, parse, MALLOC], busy, (2, 11, i))
    leaked = builder.traceback([MAIN, serve, put, MALLOC])
    return builder.data(leaks=verdicts(leak(leaked, "leaks", 80000, 35.5)))


def settled(first):
    """a line that grew by 1 MB and leaks nothing, and one that shrank by so many bytes to nothing"""
    builder = Builder(moments(20))
    grew, shrank = (("shop::" + name, "/src/shop.cc", line, 0) for name, line in (("grew", 60), ("shrank", 70)))
    builder.add([MAIN, grew, MALLOC], [(0, 0)] + [(1000000, 20)] * 19)
    builder.add([MAIN, shrank, MALLOC], [(first, 20 if first else 0)] * 10 + [(0, 0)] * 10)
    return builder.data(leaks=verdicts(leak(builder.traceback([MAIN, grew, MALLOC]), "settled", 0, 0)))


def hostile():
    """names that would be markup, would move the cursor, or turn the text"""
    builder = Builder(moments(2), comm="<b>evil</b>", host="web\u202e01</title><img src=x onerror=alert(1)>",
                      labels={"v": "\"><script>alert(1)</script>"}, cmdline=EVIL)
    names = [EVIL, "\u001b[31mred\u202e gnp.exe", "a<b>::operator<<(std::ostream&)", "__proto__", "constructor",
             "@DATA@ $& $1"]
    for i, name in enumerate(names, 1):
        frame = (name, "../../etc/<script>alert(2)</script>.c", i, 0)
        builder.add([MAIN, frame, MALLOC], [(1000 * i, i), (3000 * i, i + 1)])
    data = builder.data(warnings=[EVIL], sources={"3": {"1": EVIL}})
    for snapshot in data["snapshots"]:
        snapshot.update(losses={"<u>x</u>": 3}, trigger="<i>sig</i>")
    return data


def nothing(nr):
    return Builder(moments(nr)).data()


def empty():
    return nothing(1)


def many_sites(sites, snapshots):
    """lines of which each grows in its own way"""
    builder, chance = Builder(moments(snapshots)), random.Random(11)
    for i in range(sites):
        step, noise = chance.randrange(1, 4000), chance.randrange(1, 9000)
        values = [(step * s + chance.randrange(noise), s + 1) for s in range(snapshots)]
        builder.add([MAIN, (f"site{i}()", "/src/site.cpp", i + 1, 0), MALLOC], values)
    return builder.data()


def large(tracebacks, snapshots=1):
    """a tree as wide and deep as a compiler's, the same every time"""
    builder, chance = Builder(moments(snapshots)), random.Random(7)
    path = [MAIN]
    for i in range(tracebacks):
        if chance.random() < 0.4:
            path = path[:chance.randrange(1, len(path) + 1)]
        elif len(path) > 40:
            path = path[:-2]
        for _ in range(chance.randrange(3, 12)):
            number = chance.randrange(900)
            path = path + [(f"llvm::Pass{number}::run(llvm::Module&, int)", f"/src/pass{number % 90}.cpp", number, 0)]
        count, site = chance.randrange(1, 400), (f"site{i}()", "/src/site.cpp", i + 1, 0)
        values = [(count * chance.randrange(16, 4000), count) for _ in range(snapshots)]
        builder.add(path + [site, MALLOC], values)
    return builder.data()
