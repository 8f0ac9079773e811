# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""allocsnap run --fast: the sampler in the program reports the samples, and the recording has them."""
import math
import os
import pathlib
import re

import harness
from harness import ALLOCSNAP, UNWINDING, WORKLOADS, check, check_equal, losses_of, tool
from ledger import Recorded
from test_run import JEMALLOC, run
from test_sample import check_estimate, rows_by_function

SAMPLE = 16384


def run_fast(bench, argv, *options, status=0):
    return run(bench, *argv, options=(f"--fast={SAMPLE}", *options), status=status)


def run_samples(bench, *options):
    """The workload's answers, and the snapshot at its end. Turns before, whose blocks are freed, make the recorder read
    the unwind tables: earlier tracebacks end early and name no row."""
    samples = bench.start([ALLOCSNAP, "run", "-o", bench.path("out"), "--no-compact", f"--fast={SAMPLE}", "--sampler-rate",
                           "1000000000", *options, "--", os.path.join(WORKLOADS, "samples")],
                          kind=Recorded, bench=bench, name="samples").ready()
    allocated_bytes, is_named = 0, False
    while True:
        answers, done = samples.order("go")
        allocated_bytes += done["allocated_bytes"]
        check_equal(len(answers), 6, "answers")
        if is_named:
            break
        rows = rows_by_function(bench.stats(samples.snapshot()), {answer["row"] for answer in answers})
        is_named = sum(row["size"] for row in rows.values()) > sum(answer["count"] * answer["size"] for answer in answers) / 2
        samples.order("free")
    samples.write("quit\n")
    check_equal(samples.line(), None, f"more lines; stderr {samples.stderr()!r}")
    return answers, allocated_bytes, samples.paths[-1]


@harness.core
def test_run_fast_estimates_are_right(bench):
    answers, allocated_bytes, path = run_samples(bench)
    statistics, shown = bench.stats(path), bench.show(path)
    rows = rows_by_function(statistics, {answer["row"] for answer in answers})
    for answer in answers:
        found = rows.get(answer["row"], {"count": 0, "size": 0})
        check_estimate(found, answer["count"], answer["size"], f"fast: {answer['row']}")
    check_equal(losses_of(shown, UNWINDING), {}, "losses")
    check_equal(int(shown["metadata"]["sample_bytes"]), SAMPLE, "sample_bytes")
    check_equal([shown["metadata"][f"sampler_{key}"] for key in ("kind", "weights", "unseen", "dropped_count")],
                ["preloaded", "exact", "blocks of 0 bytes, blocks from before", 0], "what is said of the sampler")
    check_equal(statistics["sampling"]["sampler"], "preloaded", "sampler of the statistics")
    counters = shown["counters"]
    check(abs(counters["allocated_bytes"] - allocated_bytes) <= 5 * math.sqrt(SAMPLE * allocated_bytes),
          f"allocated_bytes {counters['allocated_bytes']}, truth {allocated_bytes}")


def test_run_fast_leaves_the_environment_of_others(bench):
    """A library that was preloaded still is, behind the sampler."""
    out = bench.run([ALLOCSNAP, "run", "-o", bench.path("out"), "--fast", "--", "/usr/bin/env"],
                    env=os.environ | {"LD_PRELOAD": JEMALLOC})[0]
    preloaded = re.search("^LD_PRELOAD=(.*)$", out, re.MULTILINE)[1].split(":")
    check_equal(len(preloaded), 2, "preloaded libraries")
    check(preloaded[0].endswith("/liballocsnap-sampler-new.so") and preloaded[1] == JEMALLOC, f"{preloaded}")
    check("ALLOCSNAP_SAMPLE=524288\n" in out, out)


def test_run_fast_refuses_what_would_not_load_the_sampler(bench):
    """One line, and the program has not run."""
    static, setuid, mark = bench.path("static"), bench.path("setuid"), pathlib.Path(bench.path("mark"))
    source = pathlib.Path(bench.path("touch.c"))
    source.write_text("#include <fcntl.h>\nint main(int n, char **a) { return creat(a[n - 1], 0600) < 0; }\n",
                      encoding="ascii")
    bench.run([tool("gcc"), "-static", str(source), "-o", static])
    bench.run([tool("gcc"), str(source), "-o", setuid])
    os.chown(setuid, 1, 1)
    os.chmod(setuid, 0o6755)
    for path, word in ((static, "statically"), (setuid, "set-user-ID")):
        paths, stderr = run_fast(bench, [path, str(mark)], status=125)
        check(word in stderr and stderr.count("\n") == 1, f"{path}: {stderr!r}")
        check_equal((paths, mark.exists()), ([], False), f"{path} has run")
    _, stderr = run_fast(bench, ["/bin/true"], "--sample", "4K", status=2)
    check("--sample" in stderr, stderr)
