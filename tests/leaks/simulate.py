# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Programs with planted leaks, and programs with what only looks like one: births, deaths and sizes by site, in seconds.

The program may have run for `before` seconds when the recording begins at 0. T is how long is observed. Time constants of
look-alikes are shares of T, so that T shows what they are: full, periodic or steady well within T.
"""
import math
import random

INF = math.inf


class Stream:
    def __init__(self):
        self.is_leak = False
        self.blocks = []  # (birth, death, size)


def poisson_times(rng, begin, end, rate, most=None):
    """rate: a number; or a function of time, which is at most `most`."""
    at, times = begin, []
    top = most if most is not None else rate
    while top > 0:
        at += rng.expovariate(top)
        if at >= end:
            break
        if most is None or rng.random() * most < rate(at):
            times.append(at)
    return times


class Program:
    def __init__(self, name, seed, span):
        self.rng = random.Random(f"{name} {seed} {span}")
        self.span, self.sites = span, {}
        self.before = self.rng.choice((0.0, 0.0, 0.5 * span))
        self.scale = min(1.0, (60 / span) ** 0.75)  # an hour has as many blocks as some minutes

    def site(self, name):
        stream = self.sites.setdefault(name, Stream())
        stream.is_leak |= name.startswith("LEAK")
        return stream

    def share(self, low, high):
        return self.rng.uniform(low, high) * self.span

    def mean_life(self, mean):
        return lambda: self.rng.expovariate(1 / mean)

    def flow(self, name, rate, life, size, begin=None, most=None):
        stream = self.site(name)
        begin = -self.before if begin is None else begin
        rate = rate if most else rate * self.scale
        for at in poisson_times(self.rng, begin, self.span, rate, most):
            lives = life() if callable(life) else life
            stream.blocks.append((at, at + lives, size() if callable(size) else size))

    def background(self):
        self.flow("churn", 40, self.mean_life(0.004), 512)
        self.flow("session", 8, self.mean_life(self.share(0.01, 0.06)), lambda: self.rng.choice((256, 1024, 4096)))
        self.flow("log_line", 15, self.mean_life(0.01 * self.span), 160)
        start = self.site("start_up")
        for at in poisson_times(self.rng, -self.before, -self.before + 0.04 * self.span, 60 * self.scale):
            start.blocks.append((at, INF, 700))

    def ring(self, name, rate, full_after, size):
        times = poisson_times(self.rng, -self.before, self.span, rate * self.scale)
        room = max(1, int(rate * self.scale * full_after))
        deaths = times[room:] + [INF] * room
        self.site(name).blocks += [(at, death, size) for at, death in zip(times, deaths)]

    def random_cache(self, name, rate, full_after, size):
        room, blocks, live = max(1, int(rate * self.scale * full_after)), [], []
        for at in poisson_times(self.rng, -self.before, self.span, rate * self.scale):
            if len(live) < room:
                live.append(len(blocks))
            else:
                slot = self.rng.randrange(room)
                birth, _, _ = blocks[live[slot]]
                blocks[live[slot]] = (birth, at, size)
                live[slot] = len(blocks)
            blocks.append((at, INF, size))
        self.site(name).blocks += blocks

    def batch(self, name, rate, period, size, kept=0.0):
        stream, phase = self.site(name), self.rng.uniform(0, period)
        for at in poisson_times(self.rng, -self.before, self.span, rate * self.scale):
            ends = (math.floor((at + phase) / period) + 1) * period - phase
            stream.blocks.append((at, INF if self.rng.random() < kept else ends, size))

    def collected(self, name, rate, period, size):
        stream = self.site(name)
        for at in poisson_times(self.rng, -self.before, self.span, rate * self.scale):
            unused = at + self.rng.expovariate(2 / period)
            stream.blocks.append((at, (math.floor(unused / period) + 1) * period, size))

    def warm_up(self, name, nr, tau, size):
        stream = self.site(name)
        for _ in range(int(nr)):
            stream.blocks.append((-self.before + self.rng.expovariate(1 / tau), INF, size))

    def pool(self, name, rate, tau, size):
        """Connections: one more is made if more are wanted than there have been; none is ever closed."""
        stream, most, busy = self.site(name), 0, []
        for at in poisson_times(self.rng, -self.before, self.span, rate * self.scale):
            busy = [end for end in busy if end > at] + [at + self.rng.expovariate(1 / tau)]
            if len(busy) > most:
                most = len(busy)
                stream.blocks.append((at, INF, size))

    def table(self, name, rate, size, until):
        """A vector that doubles when it is full: a new block each time, and the old one freed."""
        stream, at, room = self.site(name), -self.before, 16
        while True:
            ends = -self.before + room / (rate * self.scale)
            is_last = ends >= self.span or ends + self.before >= until
            stream.blocks.append((at, INF if is_last else ends, room * size))
            if is_last:
                return
            at, room = ends, room * 2

    def ramp(self, low, high):
        return {"rate": lambda at: self.scale * (low + (high - low) * min(1, max(0, at / self.span))),
                "most": self.scale * max(low, high)}

    def waves(self, period, mean):
        return {"rate": lambda at: self.scale * mean * (1 + 0.9 * math.sin(2 * math.pi * at / period)),
                "most": self.scale * mean * 1.9}


# ---- programs that leak -----------------------------------------------------------------------


def plain_leak(p):
    p.flow("LEAK", 4, INF, 200)


def one_in_100_leaks(p):
    p.flow("LEAK", 60, p.mean_life(0.05), 300)
    p.flow("LEAK", 0.6, INF, 300)


def five_small_beside_big(p):
    p.flow("big_session", 30, p.mean_life(0.08 * p.span), lambda: p.rng.choice((1024, 8192, 32768)))
    p.batch("big_batch", 20, 0.11 * p.span, 16384)
    for i in range(5):
        p.flow(f"LEAK_{i}", 0.5, INF, 64)


def leak_in_bursts(p):
    at, stream = p.share(0, 0.12), p.site("LEAK")
    while at < p.span:
        for _ in range(p.rng.randrange(5, 30)):
            stream.blocks.append((at + p.share(0, 0.01), INF, 128))
        at += p.rng.expovariate(1 / (0.12 * p.span))
    p.ring("ring", 10, 0.3 * p.span, 512)


def rare_and_big(p):
    at, stream = p.share(0, 0.12), p.site("LEAK")
    while at < p.span:
        stream.blocks.append((at, INF, 256 << 10))
        at += 0.12 * p.span


def batches_that_leak(p):
    p.batch("LEAK", 20, p.share(0.08, 0.22), 400, kept=0.04)
    p.batch("batch", 20, p.share(0.08, 0.22), 900)


def leak_in_a_rising_load(p):
    p.flow("LEAK", life=INF, size=256, **p.ramp(1, 4))
    p.flow("loaded_session", life=p.mean_life(0.05 * p.span), size=4096, **p.ramp(5, 30))
    p.flow("loaded_request", life=p.mean_life(0.02), size=1024, **p.ramp(20, 60))


def leak_that_begins_late(p):
    p.flow("LEAK", 15, p.mean_life(0.01 * p.span), 300)
    p.flow("LEAK", 4, INF, 300, begin=p.share(0.35, 0.55))
    p.random_cache("cache", 10, 0.25 * p.span, 700)


def leak_under_a_warm_up(p):
    p.warm_up("warm_up", 3000 * p.scale ** 0.5, 0.1 * p.span, 1500)
    p.warm_up("warm_up_2", 800 * p.scale ** 0.5, 0.15 * p.span, 4000)
    p.flow("LEAK", 2, INF, 256)


def leak_among_long_sessions(p):
    p.flow("long_session", 10, p.mean_life(p.share(0.15, 0.3)), 4096)
    p.flow("LEAK", 2, INF, 512)


def leak_in_waves(p):
    p.flow("LEAK", life=INF, size=200, **p.waves(0.2 * p.span, 3))
    p.flow("session_in_waves", life=p.mean_life(0.05 * p.span), size=2048, **p.waves(0.2 * p.span, 20))


def vector_and_its_elements(p):
    p.flow("LEAK", 5, INF, 48)
    p.table("LEAK_vector", 5, 8, INF)
    p.table("index", 5, 64, 0.25 * p.span)


def leak_beside_a_cache(p):
    p.flow("LEAK", 1, INF, 300)
    p.ring("ring", 20, p.share(0.2, 0.4), 4096)
    p.random_cache("cache", 20, p.share(0.2, 0.35), 2048)
    p.pool("pool", 6, 0.05 * p.span, 65536)


# ---- programs that do not ---------------------------------------------------------------------


def ok_warm_up(p):
    p.warm_up("warm_up", 3000 * p.scale ** 0.5, p.share(0.05, 0.12), 1000)
    p.warm_up("late_warm_up", 500 * p.scale ** 0.5, 0.15 * p.span, 6000)


def ok_ring(p):
    p.ring("ring", 20, p.share(0.15, 0.45), 1024)
    p.ring("log_buffer", 2, p.share(0.15, 0.45), 65536)


def ok_cache(p):
    p.random_cache("cache", 20, p.share(0.15, 0.4), 1024)


def ok_batches(p):
    p.batch("batch", 25, p.share(0.1, 0.42), 800)
    p.batch("batch_2", 10, p.share(0.1, 0.42), 8000)


def ok_collector(p):
    p.collected("objects", 30, p.share(0.07, 0.2), 200)
    p.collected("buffers", 3, p.share(0.07, 0.2), 16384)


def ok_pool(p):
    p.pool("pool", 10, p.share(0.03, 0.08), 32768)
    p.pool("threads", 3, 0.05 * p.span, 262144)


def ok_tables(p):
    p.table("table", 20, 32, p.share(0.1, 0.3))
    p.table("arena", 10, 4096, p.share(0.1, 0.3))


def ok_long_sessions(p):
    p.flow("long_session", 12, p.mean_life(p.share(0.15, 0.35)), 3000)


def ok_heavy_tail(p):
    """Lifetimes as a power of age: some of each age are still there, and go on dying."""
    power = p.rng.uniform(1.0, 1.6)
    p.flow("request", 20, lambda: 0.01 * p.span * p.rng.random() ** (-1 / power), 600)


def ok_rising_load(p):
    p.flow("loaded_session", life=p.mean_life(0.06 * p.span), size=4096, **p.ramp(5, 30))
    p.flow("loaded_request", life=p.mean_life(0.01 * p.span), size=512, **p.ramp(20, 60))


def ok_waves(p):
    p.flow("session_in_waves", life=p.mean_life(0.06 * p.span), size=4096, **p.waves(p.share(0.3, 1.3), 20))


LEAKS = [plain_leak, one_in_100_leaks, five_small_beside_big, leak_in_bursts, rare_and_big, batches_that_leak,
         leak_in_a_rising_load, leak_that_begins_late, leak_under_a_warm_up, leak_among_long_sessions, leak_in_waves,
         vector_and_its_elements, leak_beside_a_cache]
INNOCENT = [ok_warm_up, ok_ring, ok_cache, ok_batches, ok_collector, ok_pool, ok_tables, ok_long_sessions, ok_heavy_tail,
            ok_rising_load, ok_waves]


def simulate(scenario, seed, span):
    program = Program(scenario.__name__, seed, span)
    program.background()
    scenario(program)
    return program.sites
