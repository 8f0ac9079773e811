# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The recording of a simulated program: snapshots, samples, gaps; and its files."""
import bisect
import math
import random
import subprocess
from collections import namedtuple

from judge import SECOND, Block, Recording

BEGIN_NS = 1000 * SECOND + 123456789  # of the recording, on the monotonic clock
Site = namedtuple("Site", "name is_leak blocks allocated")
Observed = namedtuple("Observed", "recording sites kind sample")


def make_gaps(span_ns, share, rng):
    """As a budget makes them: some recording, a gap, in turns."""
    gaps, at = [], rng.uniform(0.02, 0.1) * span_ns
    while at < span_ns:
        length = rng.uniform(0.5, 1.5) * share * 0.08 * span_ns
        gaps.append((int(at), int(min(at + length, span_ns))))
        at += length + rng.uniform(0.5, 1.5) * (1 - share) * 0.08 * span_ns
    return [gap for gap in gaps if gap[0] < gap[1]]


def gap_at(gaps, at):
    i = bisect.bisect_right(gaps, (at, math.inf)) - 1
    return gaps[i] if i >= 0 and at < gaps[i][1] else None


def death_in_account(rng, gaps, death, span_ns):
    """A free in a gap is missed. Most are noticed later, when the address is allocated again."""
    gap = gap_at(gaps, death) if death < span_ns else None
    if not gap:
        return death
    return gap[1] + rng.expovariate(1 / (0.02 * span_ns)) if rng.random() < 0.7 else math.inf


def birth_in_file(birth, kind):
    """Compact files have whole seconds of the monotonic clock."""
    if kind != "compact":
        return birth
    return max(0, (BEGIN_NS + birth) // SECOND * SECOND - BEGIN_NS)


def observe_site(rng, name, stream, times, gaps, kind, sample):
    span, blocks, allocated = times[-1], [], 0.0
    for born, died, size in stream.blocks:
        birth = int(born * SECOND)
        if birth < 0 or birth >= span or gap_at(gaps, birth):
            continue
        chance = 1.0 if not sample else -math.expm1(-size / sample)
        if rng.random() >= chance:
            continue
        allocated += 1 / chance
        death = death_in_account(rng, gaps, died * SECOND, span)
        first = bisect.bisect_left(times, birth)
        last = bisect.bisect_left(times, death) - 1 if death <= span else len(times) - 1
        if first <= last:
            blocks.append(Block(birth_in_file(birth, kind), size, 1 / chance, first, last))
    return Site(name, stream.is_leak, blocks, round(allocated))


def observe(sites, span, nr, seed, kind="exact", sample=0, gap_share=0.0, uneven=False):
    rng = random.Random(f"observe {seed}")
    span_ns = span * SECOND
    times = [span_ns * (k + 1) // nr for k in range(nr)]
    if uneven:
        times = sorted(rng.sample(range(span_ns // 20, span_ns), nr - 1)) + [span_ns]
    gaps = make_gaps(span_ns, gap_share, rng) if gap_share else []
    observed = [observe_site(rng, name, stream, times, gaps, kind, sample) for name, stream in sites.items()]
    return Observed(Recording(times, gaps), observed, kind, sample)


LINES = {}  # by name: the same line in all recordings


def line_of(name):
    return LINES.setdefault(name, 10 + len(LINES))


def lines_of(observed, folder, host):
    """The commands of make_recording."""
    recording = observed.recording
    for k, now in enumerate(recording.times):
        yield f"snapshot {folder}/{k:04}.snap {BEGIN_NS + now} {BEGIN_NS} {observed.kind} {host}"
        if observed.sample:
            yield f"metadata sample_bytes {observed.sample}"
        for begin, end in recording.gaps:
            if end <= now:
                yield f"gap {BEGIN_NS + begin} {BEGIN_NS + end}"
        address = 0x10000
        for number, site in enumerate(observed.sites):
            yield f"site {number} {site.name} {line_of(site.name)} {site.allocated}"
            for block in site.blocks:
                address += 0x10000
                if block.first <= k <= block.last:
                    yield f"block {number} {block.size} {BEGIN_NS + block.birth} {address} {block.weight!r}"
        yield "save"


def write(observed, folder, make_recording, host="sim"):
    text = "\n".join(lines_of(observed, folder, host)) + "\n"
    subprocess.run([make_recording], input=text.encode(), check=True)
