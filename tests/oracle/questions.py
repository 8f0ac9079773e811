# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The questions for both engines, and how their answers are compared.

A question has the snapshots it is about, theirs() (CPython's answer) and ours(bench) (the
program's). Both are lists, whose order counts.
"""
import dataclasses
import functools
import itertools
import json
import linecache
import os
import re
import sys
import tracemalloc

from generate import Snapshot
from program import Unanswered

KEYS = (("lineno", False), ("filename", False), ("traceback", False),
        ("lineno", True), ("filename", True))
INT64 = 2**63 - 1
# Facts that CPython does not report, and that we print on stderr.
REMARKS = re.compile(r"(allocsnap: (hint: size grew|warning: the traceback limits differ|"
                     r"warning: Python's tracemalloc reads no weights|"
                     r"[^\n]*: filtered, not the whole: |no block matches what was asked for|"
                     r"--(in|ex)clude [^\n]* matches no block)[^\n]*\n)*")
UNMATCHED = re.compile(r"^allocsnap: --include [^\n]* matches no block$", re.MULTILINE)


class Bench:
    """The snapshots as files, and the program that reads them."""

    def __init__(self, program, folder):
        self.program = program
        self.folder = folder
        self.paths = {}
        self.number = itertools.count()

    def path(self, suffix):
        return os.path.join(self.folder, f"{next(self.number)}{suffix}")

    def json_path(self, snapshot, rng=None):
        path = self.path(".json")
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(snapshot.json(rng))
        return path

    def load(self, snapshot, rng=None):
        """The snapshot as a .snap file."""
        known = self.paths.get(id(snapshot))
        if not known:
            source, path = self.json_path(snapshot, rng), self.path(".snap")
            compress = ["--compress"] if rng and rng.random() < 0.3 else []
            self.text(["allocsnap", "convert", source, "-o", path, *compress])
            os.unlink(source)
            blocks = [getattr(trace, "block", 0) for trace in snapshot.traces]
            if any(blocks):
                self.text(["blocks", path, *map(str, blocks)])
            known = self.paths[id(snapshot)] = snapshot, path
        return known[1]

    def forget(self):
        """Removes the files; they are made again when they are needed."""
        for _, path in self.paths.values():
            os.unlink(path)
        self.paths.clear()

    def text(self, words):
        """The output of a command; it must succeed, and print nothing but REMARKS on stderr. The exit status is 1,
        though the answer is there, if an --include matches no block."""
        answer = self.program.ask(words)
        err = answer.err.decode(errors="replace")
        unmatched = UNMATCHED.search(err) is not None
        if answer.status != unmatched or not REMARKS.fullmatch(err):
            raise Unanswered(f"exit status {answer.status}, stderr {err!r}")
        return answer.out.decode()


@functools.lru_cache(maxsize=4096)
def clean(text):
    """Control characters are printed as \\xNN, and so are invisible characters: Unicode's
    Default_Ignorable_Code_Point, separators of lines, marks of annotations."""
    return re.sub("[\0-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
                  "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
                  "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]",
                  lambda found: "".join(f"\\x{byte:02x}" for byte in found[0].encode()), text)


# ---- questions about one snapshot or two -----------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Selection:
    """The selection of traces."""
    filters: tuple = ()
    min_size: int = None
    max_size: int = None

    def cpython(self, snapshot):
        chosen = snapshot.cpython().filter_traces([each.cpython() for each in self.filters])
        low, high = self.min_size or 0, self.max_size if self.max_size is not None else INT64
        return tracemalloc.Snapshot([trace for trace in chosen.traces._traces
                                     if low <= trace[1] <= high], chosen.traceback_limit)

    def words(self):
        words = [word for each in self.filters for word in each.words()]
        if self.min_size is not None:
            words += ["--min-size", str(self.min_size)]
        if self.max_size is not None:
            words += ["--max-size", str(self.max_size)]
        return words


ALL = Selection()


@dataclasses.dataclass(frozen=True)
class Question:
    snapshots: tuple

    def about(self, snapshots):
        """The same question of other snapshots."""
        return dataclasses.replace(self, snapshots=tuple(snapshots))


@dataclasses.dataclass(frozen=True)
class Grouping(Question):
    """Statistics of one snapshot, or of an old and a new one."""
    key_type: str = "lineno"
    cumulative: bool = False
    selection: Selection = ALL
    sort: str = None

    def statistics(self):
        """CPython's rows, and its snapshots."""
        chosen = [self.selection.cpython(snapshot) for snapshot in self.snapshots]
        if len(chosen) == 1:
            return chosen[0].statistics(self.key_type, self.cumulative), chosen
        rows = chosen[1].compare_to(chosen[0], self.key_type, self.cumulative)
        if self.sort in ("growth", "shrink"):  # not CPython's: as engine.h has it
            sign = 1 if self.sort == "growth" else -1
            rows.sort(reverse=True, key=lambda row: (sign * row.size_diff, sign * row.count_diff,
                                                     row.size, row.count, row.traceback))
        return rows, chosen

    def words(self, paths):
        words = ["allocsnap", "stats" if len(paths) == 1 else "diff", *paths, "--top", "0"]
        if self.key_type != "lineno" or len(self.selection.filters) % 2:
            words += ["--group-by", self.key_type]
        if self.cumulative:
            words.append("--cumulative")
        if self.sort:
            words += ["--sort", self.sort]
        return words + self.selection.words()

    def text(self, bench, *words):
        paths = [bench.load(snapshot) for snapshot in self.snapshots]
        return bench.text([*self.words(paths), *words])


def totals(chosen):
    """(size, count) of the selected traces, then their difference to the old snapshot."""
    costs = [(sum(trace[1] for trace in each.traces._traces), len(each.traces._traces))
             for each in chosen]
    size, count = costs[-1]
    if len(costs) == 1:
        return size, count
    return size, count, size - costs[0][0], count - costs[0][1]


COSTS = ("size", "count", "size_diff", "count_diff")


class Rows(Grouping):
    """The JSON answer, whole."""

    def theirs(self):
        statistics, chosen = self.statistics()
        names = COSTS[:2 * len(chosen)]
        rows = [(self.key_type, self.cumulative, totals(chosen))]
        for row in statistics:
            frames = tuple((clean(name), lineno) for name, lineno in row.traceback._frames)
            rows.append((frames, *(getattr(row, name) for name in names)))
        return rows

    def ours(self, bench):
        answer = json.loads(self.text(bench, "--json"))
        names = COSTS[:2 * len(self.snapshots)]
        total = tuple(answer["total"][name] for name in names)
        rows = [(answer["key_type"], answer["cumulative"], total)]
        for row in answer["statistics"]:
            frames = tuple(tuple(frame.values()) for frame in reversed(row["traceback"]))
            rows.append((frames, *(row[name] for name in names)))
        return rows


class Lines(Grouping):
    """The text answer, whole."""

    def theirs(self):
        statistics, chosen = self.statistics()
        lines = []
        for row in statistics:
            lines.append(clean(str(row)))
            if self.key_type == "traceback":
                lines += [f"    {clean(frame_text(*frame))}"
                          for frame in reversed(row.traceback._frames)]
                lines.append("")
        return [*lines, total_line(totals(chosen))]

    def ours(self, bench):
        text = self.text(bench)
        return text.removesuffix("\n").split("\n")


def frame_text(filename, lineno):
    return f"{filename}:{lineno}" if lineno else filename


def total_line(costs):
    size = tracemalloc._format_size
    if len(costs) == 2:
        return f"total: size={size(costs[0], False)}, count={costs[1]}"
    return (f"total: size={size(costs[0], False)} ({size(costs[2], True)}), "
            f"count={costs[1]} ({costs[3]:+d})")


@dataclasses.dataclass(frozen=True)
class Traces(Question):
    """filter_traces(), and what comes out of a file that went in."""
    selection: Selection = ALL
    via: tuple = ()  # options of a .snap file in between

    def theirs(self):
        chosen = self.selection.cpython(self.snapshots[0])
        plain = Snapshot(tuple(chosen.traces._traces), chosen.traceback_limit).plain()
        return [plain["traceback_limit"], *plain["traces"]]

    def words(self, paths):
        return ["allocsnap", "convert", *paths, *self.selection.words()]

    def ours(self, bench):
        words = self.words([bench.load(self.snapshots[0])])
        if self.via:
            path = bench.path(".snap")
            bench.text([*words, "-o", path, *self.via[1:]])
            words = ["allocsnap", "convert", path]
        out = bench.path(".json")
        bench.text([*words, "-o", out])
        with open(out, encoding="utf-8") as file:
            answer = json.load(file)
        os.unlink(out)
        if self.via:
            os.unlink(path)
        return [answer.pop("traceback_limit"), *answer.pop("traces"), *answer]


@dataclasses.dataclass(frozen=True)
class Straight(Question):
    """JSON to JSON, and back from the standard output."""
    selection: Selection = ALL

    theirs = Traces.theirs
    words = Traces.words

    def ours(self, bench):
        source = bench.json_path(self.snapshots[0])
        answer = json.loads(bench.text([*self.words([source]), "--to", "json", "-o", "-"]))
        os.unlink(source)
        return [answer.pop("traceback_limit"), *answer.pop("traces"), *answer]


@dataclasses.dataclass(frozen=True)
class Formatted(Question):
    """Traceback.format() of each trace."""
    limit: int = None
    most_recent_first: bool = False
    source: str = ""

    def theirs(self):
        here, path = os.getcwd(), sys.path[:]
        os.chdir(self.source or "/")
        sys.path.clear()  # where linecache also looks
        try:
            return ["".join(line + "\n" for line in self.lines(trace))
                    for trace in self.snapshots[0].cpython().traces]
        finally:
            os.chdir(here)
            sys.path[:] = path

    def lines(self, trace):
        if self.source:
            return trace.traceback.format(self.limit, self.most_recent_first)
        getline, linecache.getline = linecache.getline, lambda *_: ""
        try:
            return trace.traceback.format(self.limit, self.most_recent_first)
        finally:
            linecache.getline = getline

    def words(self, paths):
        order = "most-recent-first" if self.most_recent_first else "oldest-first"
        return ["format", *paths, self.source, str(self.limit), order]

    def ours(self, bench):
        text = bench.text(self.words([bench.load(self.snapshots[0])]))
        return text.split("\0")[:-1]


# ---- asking -----------------------------------------------------------------------------------


def shown(answer):
    text = repr(answer)
    return text if len(text) <= 600 else f"{text[:300]}…{text[-290:]} ({len(text)} characters)"


def difference(question, bench):
    """None, or a line that says where the answers differ."""
    theirs = question.theirs()
    try:
        ours = question.ours(bench)
    except (Unanswered, ValueError, KeyError, OSError) as error:
        return f"no answer: {type(error).__name__}: {error}"
    if ours == theirs:
        return None
    for at, (mine, other) in enumerate(itertools.zip_longest(ours, theirs)):
        if mine != other:
            return f"row {at}: allocsnap {shown(mine)}, CPython {shown(other)}"
    return None


def smaller(question, bench, tries=150):
    """The same question of as few traces as still make a difference."""
    def fails(snapshots):
        nonlocal tries
        tries -= 1
        bench.forget()
        return tries > 0 and difference(question.about(snapshots), bench)

    for number in range(len(question.snapshots)):
        step = max(1, len(question.snapshots[number].traces) // 2)
        while step and tries > 0:
            at = 0
            while at < len(question.snapshots[number].traces):
                snapshots = list(question.snapshots)
                traces = snapshots[number].traces
                snapshots[number] = Snapshot(traces[:at] + traces[at + step:],
                                             snapshots[number].traceback_limit)
                if fails(snapshots):
                    question = question.about(snapshots)
                else:
                    at += step
            step //= 2
    bench.forget()
    return question


def reproducer(question):
    """JSON files and a command, as one would type them."""
    quoted = [f"{number}.json: {snapshot.json()[:4000]}"
              for number, snapshot in enumerate(question.snapshots)]
    words = question.words([f"{number}.snap" for number in range(len(question.snapshots))])
    return "\n".join([*quoted, " ".join(map(repr, words))])
