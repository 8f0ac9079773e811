# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Simulated recordings of several hosts: `fleet leaks` must say what `leaks` says of each of them, added up."""
import json
import math
import os
import subprocess
from collections import defaultdict, namedtuple

import observe
import simulate

SPAN = 60
KINDS = "leaks may-leak grows young settled freed gaps few".split()  # the worst first
SAME = ("verdict", "bytes_per_s", "least_bytes_per_s", "since_ns", "horizon_ns", "survivors", "freed", "late", "early",
        "periods", "span", "reason")

Host = namedtuple("Host", "name scenario seed options")
Line = namedtuple("Line", "host verdict")


def make_hosts(first_seed):
    """Three scenarios with leaks and two without, on 20 hosts: as they are, compact, with gaps, and too short."""
    scenarios = simulate.LEAKS[:3] + simulate.INNOCENT[:2]
    kinds = ({}, {"kind": "compact"}, {"gap_share": 0.2}, {"nr": 1})
    return [Host(f"host-{i:02}-{k}", scenario, first_seed + k, {"nr": 12, **options})
            for i, scenario in enumerate(scenarios) for k, options in enumerate(kinds)]


def run(program, *arguments):
    done = subprocess.run([program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 3, 4):
        raise RuntimeError(f"allocsnap {' '.join(arguments)}: exit status {done.returncode}: {done.stderr}")
    return done.stdout, done.returncode


def function_of(row):
    return row["traceback"][0]["function"]


def ask_hosts(bench, hosts):
    """By function: what `leaks` says of it on each host. And the hosts that cannot be judged."""
    lines, unjudged = defaultdict(list), []
    for host in hosts:
        folder = os.path.join(bench.folder, host.name)
        os.mkdir(folder)
        observed = observe.observe(simulate.simulate(host.scenario, host.seed, SPAN), SPAN, seed=host.seed, **host.options)
        observe.write(observed, folder, bench.make_recording, host.name)
        out, status = run(bench.program, "leaks", folder, "--json", "--all", "--top", "0")
        for bundle in json.loads(out)["leaks"]:
            for line in bundle["lines"]:
                lines[function_of(line)].append(Line(host.name, line))
        unjudged += [host.name] if status else []
    return lines, unjudged


def rank_of(verdict):
    """Leaks and what may leak are one rank, unless only births show the leak."""
    kind = verdict["verdict"]
    return 0 if kind == "may-leak" and "snapshots" not in verdict["doubts"] else KINDS.index(kind)


def rate_of(lines, kind=None):
    return sum(line.verdict["bytes_per_s"] for line in lines if kind in (None, line.verdict["verdict"]))


def differences_of_row(row, lines):
    rank = min(rank_of(line.verdict) for line in lines)
    worse = [line for line in lines if rank_of(line.verdict) == rank]
    together, sure = rate_of(worse), rate_of(worse, "leaks")
    kind = worse[0].verdict["verdict"] if rank else "leaks" if 2 * sure >= together else "may-leak"
    wanted = {"verdict": kind, "hosts": len(lines), "processes": len(lines), "verdict_hosts": len(worse),
              "verdict_processes": len(worse)}
    for name, value in wanted.items():
        if row[name] != value:
            yield f"{name} {row[name]}, not {value}"
    for name, value in ("bytes_per_s", together), ("sure_bytes_per_s", sure):
        if not math.isclose(row[name], value, rel_tol=1e-9, abs_tol=1e-9):
            yield f"{name} {row[name]}, not {value}"
    most = next(line for line in worse if line.host == row["most"]["host"])
    best = [line for line in worse if line.verdict["verdict"] == "leaks"] or worse
    if most not in best or most.verdict["bytes_per_s"] != max(line.verdict["bytes_per_s"] for line in best):
        yield f"most is not on {most.host}"
    for name in SAME:
        if row["most"].get(name) != most.verdict.get(name):
            yield f"{name} on {most.host}: {row['most'].get(name)}, not {most.verdict.get(name)}"


def differences(bench, first_seed):
    hosts = make_hosts(first_seed)
    lines, unjudged = ask_hosts(bench, hosts)
    catalogue = os.path.join(bench.folder, "fleet.db")
    run(bench.program, "fleet", "index", "-C", catalogue, bench.folder)
    out, status = run(bench.program, "fleet", "leaks", "-C", catalogue, "--json", "--all", "--top", "0")
    report = json.loads(out)
    listed = [row for leak in report["leaks"] for row in leak["lines"]]
    rows = {function_of(row): row for row in listed}
    if status != 3 or not unjudged or report["judged"] or report["processes"]["judged"] != len(hosts) - len(unjudged):
        yield f"status {status}, {report['processes']}: {len(unjudged)} of {len(hosts)} hosts cannot be judged"
    if rows.keys() != lines.keys() or len(rows) != len(listed):
        yield f"other lines: {sorted(rows.keys() ^ lines.keys())}"
    for function in rows.keys() & lines.keys():
        for found in differences_of_row(rows[function], lines[function]):
            yield f"{function}: {found}"
    for leaks in [report["leaks"]] + [leak["lines"] for leak in report["leaks"]]:
        order = [(rank_of((leak.get("lines") or [leak])[0]["most"]), -leak["bytes_per_s"]) for leak in leaks]
        if order != sorted(order):
            yield "the order of the rows"
    for leak in report["leaks"]:
        together = sum(row["bytes_per_s"] for row in leak["lines"])
        if not math.isclose(leak["bytes_per_s"], together, abs_tol=1e-9):
            yield "the rate of lines that leak together"
    limited = sum(max(row["sure_bytes_per_s"], row["least_bytes_per_s"]) for row in listed
                  if row["verdict"] in ("leaks", "may-leak"))
    for limit, wanted in (int(limited) // 2, 4), (2 * int(limited) + 1, 3):
        _, status = run(bench.program, "fleet", "leaks", "-C", catalogue, "--fail-above", f"{limit}/s")
        if status != wanted:
            yield f"--fail-above {limit}/s: exit status {status}, not {wanted}"


def compare(bench, first_seed):
    bench.empty()
    found = list(differences(bench, first_seed))
    for text in found[:5]:
        print(f"FAIL fleet leaks: {text}", flush=True)
    return int(not found), int(bool(found))
