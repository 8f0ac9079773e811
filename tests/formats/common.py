# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The tests of formats share these: commands, Go's pprof, and the list of tests."""
import collections
import json
import os
import pathlib
import re
import subprocess

from harness import Skip, check, check_equal, tool, wait_for  # pylint: disable=unused-import
from harness.suite import Test

ALLOCSNAP = os.environ["ALLOCSNAP"]
SNAPSHOTS = pathlib.Path(os.environ["SNAPSHOTS"])
CACHE = pathlib.Path(os.environ["CACHE"])
TESTS = []


def test(function):
    TESTS.append(Test(function.__name__, function))
    return function


def run(*argv, status=0, cwd=None, env=None, timeout=300):
    """Standard output and error, as text."""
    done = subprocess.run([str(word) for word in argv], cwd=cwd, capture_output=True, text=True, timeout=timeout,
                          env={**os.environ, **(env or {})}, check=False)
    check(status is None or done.returncode == status,
          f"{' '.join(map(str, argv))}: status {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout, done.stderr


def allocsnap(*argv, **options):
    return run(ALLOCSNAP, *argv, **options)


def stats(path, *options):
    return json.loads(allocsnap("stats", path, "--json", "--top", "0", *options)[0])


def diff(old, new, *options):
    return json.loads(allocsnap("diff", old, new, "--json", "--top", "0", *options)[0])


def name_of(statistic):
    return statistic["key"]


# ---- Go's pprof ----

def pprof(*argv):
    return run(tool("go"), "tool", "pprof", *argv, env={"PPROF_NO_BROWSER": "1", "HOME": str(CACHE)})[0]


def pprof_raw(path):
    """Types, and samples as (values, location ids, labels), of `pprof -raw`."""
    types, samples, comments, in_samples = [], [], [], False
    for line in pprof("-raw", path).splitlines():
        if line.startswith("Comment: "):
            comments.append(line.removeprefix("Comment: "))
        elif line == "Samples:":
            in_samples = True
        elif line == "Locations":
            break
        elif in_samples and not types:
            types = [word.partition("[")[0] for word in line.split()]
        elif in_samples and re.match(r" *-?\d+( +-?\d+)*: ", line):
            values, _, locations = line.partition(": ")
            samples.append(([int(value) for value in values.split()], locations.split(), {}))
        elif in_samples and samples:
            samples[-1][2].update(re.findall(r"(\S+?):\[(.*?)\]", line))
    return types, samples, comments


def pprof_totals(path):
    types, samples, _ = pprof_raw(path)
    totals = collections.Counter()
    for values, _, _ in samples:
        for kind, value in zip(types, values):
            totals[kind] += value
    return totals


def pprof_top(*argv):
    """Bytes by function, of `pprof -top`."""
    out = pprof("-top", "-nodecount=100000", "-nodefraction=0", "-unit=B", *argv)
    rows = {}
    for line in out.partition("flat  flat%")[2].splitlines()[1:]:
        words = line.split(None, 5)
        if words[0] not in ("0", "0B"):
            rows[words[5].removesuffix(" (inline)")] = int(words[0].removesuffix("B"))
    return rows
