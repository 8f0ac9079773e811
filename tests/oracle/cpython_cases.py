# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""TestSnapshot and TestFilters of CPython's Lib/test/test_tracemalloc.py, by value: what they
expect is written here, nothing is computed."""
import os

from generate import Filter, Snapshot
from program import Unanswered
from questions import Rows, Selection, Traces

AB = (("a.py", 2), ("b.py", 4))
A5B = (("a.py", 5), ("b.py", 4))
UNKNOWN = (("<unknown>", 0),)

OLD = Snapshot(((0, 10, AB, 3), (0, 10, AB, 3), (0, 10, AB, 3), (1, 2, A5B, 3),
                (2, 66, (("b.py", 1),), 1), (3, 7, UNKNOWN, 1)), 2)
NEW = Snapshot(((0, 10, AB, 3), (0, 10, AB, 3), (0, 10, AB, 3), (2, 2, A5B, 3), (2, 5000, A5B, 3),
                (4, 400, (("c.py", 578),), 1)), 2)

# ---- statistics and compare_to: rows as they come ----

STATISTICS = (
    (OLD, "lineno", False, [("b.py:1", 66, 1), ("a.py:2", 30, 3), ("<unknown>:0", 7, 1),
                            ("a.py:5", 2, 1)]),
    (NEW, "lineno", False, [("a.py:5", 5002, 2), ("c.py:578", 400, 1), ("a.py:2", 30, 3)]),
    (OLD, "filename", False, [("b.py:0", 66, 1), ("a.py:0", 32, 4), ("<unknown>:0", 7, 1)]),
    (NEW, "filename", False, [("a.py:0", 5032, 5), ("c.py:0", 400, 1)]),
    (OLD, "traceback", False, [("b.py:1", 66, 1), ("b.py:4 a.py:2", 30, 3), ("<unknown>:0", 7, 1),
                               ("b.py:4 a.py:5", 2, 1)]),
    (NEW, "traceback", False, [("b.py:4 a.py:5", 5002, 2), ("c.py:578", 400, 1), ("b.py:4 a.py:2", 30, 3)]),
    (OLD, "filename", True, [("b.py:0", 98, 5), ("a.py:0", 32, 4), ("<unknown>:0", 7, 1)]),
    (OLD, "lineno", True, [("b.py:1", 66, 1), ("b.py:4", 32, 4), ("a.py:2", 30, 3), ("<unknown>:0", 7, 1),
                           ("a.py:5", 2, 1)]),
)

DIFFS = (
    ("lineno", [("a.py:5", 5002, 2, 5000, 1), ("c.py:578", 400, 1, 400, 1), ("b.py:1", 0, 0, -66, -1),
                ("<unknown>:0", 0, 0, -7, -1), ("a.py:2", 30, 3, 0, 0)]),
    ("filename", [("a.py:0", 5032, 5, 5000, 1), ("c.py:0", 400, 1, 400, 1), ("b.py:0", 0, 0, -66, -1),
                  ("<unknown>:0", 0, 0, -7, -1)]),
    ("traceback", [("b.py:4 a.py:5", 5002, 2, 5000, 1), ("c.py:578", 400, 1, 400, 1),
                   ("b.py:1", 0, 0, -66, -1), ("<unknown>:0", 0, 0, -7, -1),
                   ("b.py:4 a.py:2", 30, 3, 0, 0)]),
)

# ---- filter_traces of OLD: which traces are left ----

FILTER_TRACES = (
    (("--exclude", "b.py"), (0, 1, 2, 3, 5)),
    (("--exclude", "b.py", "--include", "a.py:2", "--include", "a.py:5"), (0, 1, 2, 3)),
    ((), (0, 1, 2, 3, 4, 5)),
    (("--exclude", "file=a.py,domain=1"), (0, 1, 2, 4, 5)),
    (("--include", "file=a.py,domain=1"), (3,)),
    (("--exclude", "domain=3"), (0, 1, 2, 3, 4)),
    (("--include", "domain=3"), (5,)),
)

# ---- Filter._match_frame: (inclusive, SPEC, filename, lineno), does it stay? ----


def filter_match():
    """test_filter_match: "abc" without a line, with line 5, with line 0."""
    for spec, lines in (("abc", (0, 5, 10)), ("abc:5", (5,)), ("abc:0", (0,))):
        for lineno in (0, 5, 10):
            yield True, spec, "abc", lineno, lineno in lines
            yield False, spec, "abc", lineno, lineno not in lines
            yield True, spec, "12356", lineno, False
            yield False, spec, "12356", lineno, True


FILENAMES = (
    (True, "abc", "abc", True), (True, "abc", "12356", False), (True, "abc", "<unknown>", False),
    (False, "abc", "abc", False), (False, "abc", "12356", True), (False, "abc", "<unknown>", True),
)

# (filename, pattern), does it match?
JOKERS = (
    ("abc", "", False), ("", "abc", False), ("", "", True), ("", "*", True),
    ("abc", "abc", True), ("abc", "abcd", False), ("abc", "def", False),
    ("abc", "a*", True), ("abc", "abc*", True), ("abc", "b*", False), ("abc", "abcd*", False),
    ("abc", "a*c", True), ("abcdcx", "a*cx", True), ("abb", "a*c", False), ("abcdce", "a*cx", False),
    ("abcde", "a*c*e", True), ("abcbdefeg", "a*bd*eg", True), ("abcdd", "a*c*e", False),
    ("abcbdefef", "a*bd*eg", False),
    ("a.pyc", "a.py", True), ("a.py", "a.pyc", True),
    ("aBC", "ABc", False), ("aBcDe", "Ab*dE", False), ("a.pyc", "a.PY", False), ("a.py", "a.PYC", False),
    (r"a/b", r"a\b", False), (r"a\b", r"a/b", False), (r"a/b\c", r"a\b/c", False),
    (r"a/b/c", r"a\b\c", False),
    ("a.pyo", "a.py", False),
)

# ---- Filter._match_traceback ----

T1 = (("a.py", 2), ("b.py", 3))
T2 = (("b.py", 4), ("b.py", 5))
T3 = (("c.py", 5), ("<unknown>", 0))
TRACEBACKS = (  # which of T1, T2, T3, UNKNOWN stay
    (True, "file=b.py,all-frames", (0, 1)),
    (True, "b.py", (1,)),
    (False, "file=b.py,all-frames", (2, 3)),
    (False, "b.py", (0, 2, 3)),
    (False, "<unknown>", (0, 1, 2)),
    (True, "file=<unknown>,all-frames", (2, 3)),
    (False, "file=<unknown>,all-frames", (0, 1)),
)

# ---- test_statistic_format, test_statistic_diff_format: the first line of the text ----

TEXTS = (
    (("stats", OLD), "b.py:1: size=66 B, count=1, average=66 B"),
    (("diff", OLD, NEW), "a.py:5: size=5002 B (+5000 B), count=2 (+1), average=2501 B"),
)

# ---- test_format_traceback: of the first trace; line N of a file is "<file, N>" ----

B4, A2 = '  File "b.py", line 4\n    <b.py, 4>\n', '  File "a.py", line 2\n    <a.py, 2>\n'
FORMATS = (
    ("None", "oldest-first", B4 + A2), ("1", "oldest-first", A2), ("-1", "oldest-first", B4),
    ("None", "most-recent-first", A2 + B4), ("1", "most-recent-first", A2),
    ("-1", "most-recent-first", B4),
)


# ---- asking -----------------------------------------------------------------------------------


class Words(Selection):
    """A selection that is written out."""

    def __init__(self, words):
        super().__init__()
        object.__setattr__(self, "written", list(words))

    def words(self):
        return self.written


def rows(bench, snapshots, key_type, cumulative=False):
    answer = Rows(snapshots, key_type, cumulative).ours(bench)
    return [(" ".join(f"{name}:{lineno}" for name, lineno in frames),
             *costs) for frames, *costs in answer[1:]]


def left(bench, snapshot, words):
    """The numbers of the selected traces; their contents must tell them apart."""
    answer = Traces((snapshot,), Words(words)).ours(bench)[1:]
    plain = snapshot.plain()["traces"]
    return [at for at, trace in enumerate(plain) if trace in answer], len(answer)


def single(inclusive, spec, filename, lineno=0):
    """A snapshot of one frame, and the filter's words."""
    each = Filter(inclusive, None, None, False, None, spec)
    return Snapshot(((0, 1, ((filename, lineno),), 1),), 1), each.words()


def stays(inclusive, spec, filename, lineno, expected):
    snapshot, words = single(inclusive, spec, filename, lineno)
    return (lambda bench: len(left(bench, snapshot, words)[0]) == 1, expected,
            f"{words} of {filename!r}:{lineno}")


def long_spec(pattern):
    return pattern or "file="


def source_folder(bench):
    folder = os.path.join(bench.folder, "cpython")
    os.makedirs(folder, exist_ok=True)
    for name in ("a.py", "b.py"):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.writelines(f"  <{name}, {lineno}>\n" for lineno in range(1, 9))
    return folder


def first_formatted(limit, order):
    def ask(bench):
        words = ["format", bench.load(OLD), source_folder(bench), limit, order]
        return bench.text(words).split("\0")[0]
    return ask


def refuses_cumulative(bench):
    """test_snapshot_group_by_traceback: a ValueError there, exit status 2 here."""
    words = ["allocsnap", "stats", bench.load(OLD), "--group-by", "traceback", "--cumulative"]
    return bench.program.ask(words).status


def cases():
    """(ask(bench), what CPython expects, a description)"""
    for snapshot, key_type, cumulative, expected in STATISTICS:
        yield (lambda bench, s=snapshot, k=key_type, c=cumulative: rows(bench, (s,), k, c), expected,
               f"statistics of {key_type}, cumulative {cumulative}")
    for key_type, expected in DIFFS:
        yield (lambda bench, k=key_type: rows(bench, (OLD, NEW), k), expected,
               f"compare_to by {key_type}")
    for words, expected in FILTER_TRACES:
        yield (lambda bench, w=words: left(bench, OLD, w), (list(expected), len(expected)),
               f"filter_traces {words}")
    for inclusive, spec, filename, lineno, expected in filter_match():
        yield stays(inclusive, spec, filename, lineno, expected)
    for inclusive, pattern, filename, expected in FILENAMES:
        yield stays(inclusive, pattern, filename, 0, expected)
    for filename, pattern, expected in JOKERS:
        yield stays(True, long_spec(pattern), filename, 0, expected)
    four = Snapshot(tuple((0, 1, frames, len(frames)) for frames in (T1, T2, T3, UNKNOWN)), 2)
    for inclusive, spec, expected in TRACEBACKS:
        words = Filter(inclusive, None, None, False, None, spec).words()
        yield (lambda bench, w=words: left(bench, four, w), (list(expected), len(expected)),
               f"traceback {words}")
    for (command, *snapshots), expected in TEXTS:
        yield (lambda bench, c=command, s=snapshots: bench.text(
            ["allocsnap", c, *map(bench.load, s)]).split("\n")[0], expected, f"text of {command}")
    for limit, order, expected in FORMATS:
        yield first_formatted(limit, order), expected, f"Traceback.format({limit}), {order}"
    yield refuses_cumulative, 2, "cumulative tracebacks"


def run(bench, score):
    for ask, expected, what in cases():
        try:
            found = ask(bench)
            failure = None if found == expected else f"{found!r}, CPython expects {expected!r}"
        except (Unanswered, ValueError, KeyError) as error:
            failure = f"no answer: {error}"
        score.note(f"CPython's own case, {what}", failure)
    bench.forget()
