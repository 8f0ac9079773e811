# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Random snapshots and filters, small enough for keys to collide and odd enough to hurt.

A snapshot is what tracemalloc.Snapshot takes: a list of traces (domain, size, frames most recent
first, total_nframe or None), and the traceback limit.
"""
import dataclasses
import json
import re
import tracemalloc

NAMES = (
    "a.py", "b.py", "c.py", "a.pyc", "b.pyc", "a.pyc.pyc", ".pyc", ".py", "pyc", "A.PY", "a.PYC",
    "a", "b", "aa", "ab", "ba", "abc", "a-b", "a]b", "]", "[", "[a]", "[!a]", "[^a]", "^a", "!a",
    "*", "?", "a*b", "a?c", "**", "\\", "a\\b", "a/b.py", "/usr/lib/python3/a.py", "./a.py",
    "/a/b/../c.c", "<unknown>", "<string>", " ", "a b.c", " a.py", "a.py ", "é.py", "€.py", "漢字.py",
    "\N{GRINNING FACE}.py", "\U0010ffff", "\ufffd", "\uffff", "e\u0301.py", "ÿ", "\xa0",
    'say "hi".c', "it's.c", "back\\slash.c", "\\x41", "a:5", "a:5:7", "a:", ":5", "c:\\x.c", "a,b.c",
    "a,", "k=v", "a=b,c=d", "line=5", "a;b", "$HOME", "%s%n", "-a", "--top", "#1", "~", "&&", "||",
    "a\nb", "tab\t.c", "\x7f", "\x1b[31m", "bell\a", "\x85", "\u200b", "",
)
LINES = (0, 0, 1, 1, 2, 3, 5, 5, 7, 10, 99, 578, 65536, 2**31 - 1, 2**31, 2**32 - 1)
SIZES = (0, 0, 1, 1, 2, 8, 8, 16, 66, 99, 100, 1023, 1024, 1536, 10239, 10240, 102349, 102400,
         1048575, 10 * 1024**2, 2**32 - 1, 2**32, 5 * 2**32, 2**40 + 1, 2**45, 2**53 + 1)
DOMAINS = (0, 0, 0, 1, 1, 2, 3, 7, 389047, 2**31, 2**32 - 1)
PATTERN_PARTS = ("*", "*", "?", "?", "[a]", "[!a]", "[^a]", "[ab]", "[a-c]", "[!a-c]", "[c-a]", "[!c-a]",
                 "[", "]", "[]", "[!]", "[]]", "[!]]", "[]-a]", "[a-]", "[-a]", "[!-]", "[a-b-c]", "[--9]",
                 "[%--]", "[\\]", "[a", "[!a", "[*]", "[?]", "[[]", "[é]", "[à-ü]", "[漢-龥]", "[&&]",
                 "[~~a]", "[||]", "[a--b]", "[a&&b]", "[^-a]", "[z-a!]", "[!z-a]", "[é-a]",
                 "[\U0001f600-\U0001f64f]",
                 "!", "^", "-", "a", "b", ".", ".py", ".pyc", ".p", "é", "€", "\\", "\\*", "/", " ")

# Where a comma of a SPEC separates.
SEPARATOR = re.compile(",(?:all-frames|(?:file|line|domain|function|object)=)")


@dataclasses.dataclass(frozen=True)
class Snapshot:
    traces: tuple
    traceback_limit: int

    def cpython(self):
        return tracemalloc.Snapshot(list(self.traces), self.traceback_limit)

    def plain(self):
        """The snapshot as JSON has it: lists, and total_nframe only if it is known."""
        return {"traceback_limit": self.traceback_limit,
                "traces": [[domain, size, [list(frame) for frame in frames]] +
                           self.tail(total, getattr(trace, "weight", None))
                           for trace in self.traces for domain, size, frames, total in (trace,)]}

    @staticmethod
    def tail(total, weight):
        """A sample's weight is behind its total_nframe."""
        if weight is None:
            return [] if total is None else [total]
        return [total, weight]

    def json(self, rng=None):
        """In one of the spellings that JSON allows; always the same one without rng."""
        plain = self.plain()
        if not rng:
            return json.dumps(plain, ensure_ascii=False)
        if rng.random() < 0.3:
            for trace in plain["traces"]:
                if len(trace) == 3 and rng.random() < 0.5:
                    trace.append(None)
        if rng.random() < 0.3:
            plain = dict(reversed(plain.items()))
        return json.dumps(plain, ensure_ascii=rng.random() < 0.5,
                          indent=rng.choice((None, None, 1, "\t")),
                          separators=rng.choice((None, (",", ":"), (" , ", "\n:"))))


EMPTY = Snapshot((), 1)


# ---- snapshots ------------------------------------------------------------------------------


class Palette:
    """The few names, lines, frames and tracebacks of one seed, from which all is drawn."""

    def __init__(self, rng):
        self.rng = rng
        names = list(rng.sample(NAMES, rng.randint(1, 7)))
        if rng.random() < 0.5:
            names += ["a.py", "a.pyc"]
        self.names = names
        self.lines = rng.sample(LINES, rng.randint(1, 5))
        self.domains = rng.sample(DOMAINS, rng.randint(1, 4))
        self.sizes = rng.sample(SIZES, rng.randint(1, 6))
        if rng.random() < 0.4:
            self.sizes += [rng.randrange(2**rng.randint(1, 41)) for _ in range(8)]
        self.with_total = rng.choice((0, 0.5, 0.9, 1, 1))
        self.tracebacks = [self.frame_list()]
        for _ in range(rng.randint(0, 12)):
            self.tracebacks.append(self.related_traceback())

    def frame(self):
        return self.rng.choice(self.names), self.rng.choice(self.lines)

    def frame_list(self):
        rng = self.rng
        frames = [self.frame() for _ in range(rng.choice((1, 1, 2, 2, 3, 4, 6, 12)))]
        if rng.random() < 0.3:
            frames[rng.randrange(len(frames)):0] = [rng.choice(frames)] * rng.randint(1, 4)
        return tuple(frames)

    def related_traceback(self):
        """Another frame, or one that differs a little from an existing one."""
        rng = self.rng
        frames = rng.choice(self.tracebacks)
        at = rng.randrange(len(frames))
        return rng.choice((
            self.frame_list,
            lambda: frames[at:],                               # a prefix, oldest first
            lambda: frames[:at + 1],
            lambda: (self.frame(), *frames),
            lambda: (*frames, self.frame()),
            lambda: (*frames[:at], self.frame(), *frames[at + 1:]),
            lambda: frames + frames,
            lambda: frames[::-1],
        ))()

    def trace(self):
        rng = self.rng
        frames = rng.choice(self.tracebacks)
        total = len(frames)
        if rng.random() < 0.3:
            total = min(65535, total + rng.choice((1, 2, 1000, 65535)))
        if rng.random() >= self.with_total:
            total = None
        return rng.choice(self.domains), rng.choice(self.sizes), frames, total

    def snapshot(self):
        nr = self.rng.choice((0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89))
        return self.snapshot_of(self.trace() for _ in range(nr))

    def snapshot_of(self, traces):
        return Snapshot(tuple(traces), self.rng.choice((1, 2, 25, 64, 65535)))

    def changed(self, snapshot):
        """A later snapshot that the same process could have."""
        rng = self.rng
        how = rng.random()
        traces = []
        for domain, size, frames, total in snapshot.traces:
            if rng.random() < how * 0.4:
                continue
            if rng.random() < how * 0.2:
                size = rng.choice(self.sizes)
            if rng.random() < how * 0.2:
                total = rng.choice((None, len(frames)))
            if rng.random() < how * 0.1:
                domain = rng.choice(self.domains)
            traces.append((domain, size, frames, total))
        traces += [self.trace() for _ in range(rng.choice((0, 0, 1, 3, 10)))]
        if rng.random() < 0.3:
            rng.shuffle(traces)
        return Snapshot(tuple(traces), snapshot.traceback_limit)


def long_tracebacks(rng, nframe):
    """A few traces whose tracebacks hold nframe frames, one of them a prefix of another."""
    palette = Palette(rng)
    frames = tuple(palette.frame() for _ in range(nframe))
    last = frames[-1][0], frames[-1][1] ^ 1
    traces = [(0, 10, frames, nframe), (0, 10, frames, 65535), (1, 10, frames[1:], nframe),
              (0, 10, (*frames[:-1], last), None), (0, 7, frames[:1] * nframe, nframe),
              *(palette.trace() for _ in range(5))]
    return Snapshot(tuple(traces), 65535)


def near_the_end(rng):
    """Sizes whose sum just fits; more of them would not."""
    palette = Palette(rng)
    traces = [(0, 2**60 - 1, palette.frame_list()[:2], 2) for _ in range(3)]
    return Snapshot((*traces, *(palette.trace() for _ in range(20))), 2)


def many(rng):
    """More traces than the engine adds up in one go."""
    palette = Palette(rng)
    return palette.snapshot_of(palette.trace() for _ in range(9000))


# ---- filters --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Filter:
    """tracemalloc.Filter's arguments, and one way to write them as a SPEC. pattern None: a
    DomainFilter."""
    inclusive: bool
    pattern: str
    lineno: int
    all_frames: bool
    domain: int
    spec: str

    def cpython(self):
        if self.pattern is None:
            return tracemalloc.DomainFilter(self.inclusive, self.domain)
        return tracemalloc.Filter(self.inclusive, self.pattern, lineno=self.lineno,
                                  all_frames=self.all_frames, domain=self.domain)

    def words(self):
        option = "--include" if self.inclusive else "--exclude"
        if self.spec.startswith("-"):
            return [f"{option}={self.spec}"]
        return [option, self.spec]


def random_pattern(rng, palette):
    how = rng.random()
    if how < 0.1:
        return "*"
    name = rng.choice(palette.names if rng.random() < 0.8 else NAMES)
    if how < 0.35:
        return name
    if how < 0.5 and name:
        at = rng.randrange(len(name))
        return name[:at] + rng.choice(PATTERN_PARTS) + name[at + 1:]
    if how < 0.6:
        at = rng.randint(0, len(name))
        return rng.choice(("*" + name[at:], name[:at] + "*", f"*{name[at:at + 1]}*"))
    if how < 0.7:
        return "".join(rng.choice((c, c, "?", f"[{c}]", f"[!{c}]")) for c in name)
    if how < 0.8:
        inside = "".join(rng.choices("aabbc-]!^z\\é*", k=rng.randint(1, 7)))
        return f"*[{inside}]*" if how < 0.75 else f"[{inside}]" + name[1:]
    return "".join(rng.choice(PATTERN_PARTS) for _ in range(rng.randint(0, 5)))


def is_short(pattern, lineno):
    """May it be PATTERN or PATTERN:LINENO?"""
    if not pattern or re.match("all-frames|[a-z-]+=", pattern) or SEPARATOR.search(pattern):
        return False
    return lineno is not None or not re.search(r":[0-9]+\Z", pattern)


def spec_of(rng, pattern, lineno, all_frames, domain):
    if pattern is not None and not all_frames and domain is None and is_short(pattern, lineno) \
            and rng.random() < 0.5:
        return pattern if lineno is None else f"{pattern}:{lineno}"
    parts = []
    if lineno is not None:
        parts.append(f"line={lineno}")
    if domain is not None:
        parts.append(f"domain={domain}")
    if all_frames:
        parts.append("all-frames")
    if pattern is not None:
        # what a Python frame doesn't have
        if rng.random() < 0.05:
            parts.append(rng.choice(("function=<unknown>", "function=*", "object=<unknown>",
                                     "object=[<]*")))
        if pattern != "*" or lineno is None or rng.random() < 0.5:
            parts.append(f"file={pattern}")
    rng.shuffle(parts)
    return ",".join(parts)


def random_filter(rng, palette):
    inclusive = rng.random() < 0.5
    domain = rng.choice(palette.domains if rng.random() < 0.8 else DOMAINS)
    if rng.random() < 0.2:
        return Filter(inclusive, None, None, False, domain, f"domain={domain}")
    if rng.random() < 0.05:  # the last colon is the one that counts
        pattern, lineno = rng.choice((":*", "*:5", "*[:!-~]*")), rng.choice(palette.lines)
        return Filter(inclusive, pattern, lineno, False, None, f"{pattern}:{lineno}")
    pattern = random_pattern(rng, palette)
    while SEPARATOR.search(pattern) or "\0" in pattern:
        pattern = random_pattern(rng, palette)
    lineno = None
    if rng.random() < 0.3:
        lineno = rng.choice(palette.lines if rng.random() < 0.8 else LINES)
        lineno += 2**32 * (rng.random() < 0.1)  # no frame has that
    all_frames = rng.random() < 0.4
    if rng.random() < 0.7:
        domain = None
    spec = spec_of(rng, pattern, lineno, all_frames, domain)
    return Filter(inclusive, pattern, lineno, all_frames, domain, spec)


def random_filters(rng, palette):
    return tuple(random_filter(rng, palette) for _ in range(rng.choice((0, 1, 1, 1, 1, 2, 2, 3, 5))))
