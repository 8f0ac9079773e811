# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The lines of docs/fleet.md that start two shards, fill and ask them; and its query for Grafana."""
import contextlib
import os
import pathlib
import re
import subprocess

from clickhouse import SERVER, free_ports, shared_cluster
from fleet import Fleet
from harness import ALLOCSNAP, Skip, check, check_equal

PAGE = pathlib.Path(__file__).parent / "../../docs/fleet.md"


def block(language, word):
    """The block of the page that has the word."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    found = [text for text in blocks if word in text]
    check_equal(len(found), 1, f"{language} with {word} in {PAGE.name}")
    return found[0]


def with_free_ports(script):
    """The page's ports end with the number of the shard."""
    begins = ("1812", "1900", "1901")
    ports = dict(zip([f"{begin}{n}" for begin in begins for n in (1, 2)], free_ports(6)))
    cases = "".join(f"port_{port}={free}\n" for port, free in ports.items())
    for port, free in ports.items():
        script = script.replace(port, str(free))
    for begin in begins:
        script = script.replace(f"{begin}$n", f"$(eval echo \\$port_{begin}$n)")
    return cases + script


def test_two_shards_of_the_page_work(_large):
    if not SERVER or subprocess.run(["which", "curl"], stdout=subprocess.DEVNULL, check=False).returncode:
        raise Skip("Debian's clickhouse-server or curl is not installed")
    with contextlib.closing(Fleet("walk", "--hosts", 4, "--sites", 20, "--tracebacks", 1200, "--frames", 600)) as fleet:
        script = with_free_ports(block("sh", "shard$n")).replace("/srv/snapshots", str(fleet.data))
        path = f"{pathlib.Path(ALLOCSNAP).parent}:{os.environ['PATH']}"
        trap = "set -eu; trap 'kill $(cat shard1/pid shard2/pid) 2>/dev/null || :' EXIT\n"
        done = subprocess.run(["bash", "-c", trap + script], cwd=fleet.folder, env={**os.environ, "PATH": path},
                              capture_output=True, text=True, check=False, timeout=300)
        check_equal(done.returncode, 0, f"exit status ({done.stderr[-2000:]})")
        fleet.index()
        right, _ = fleet.run("stats", "--top", "3")
        check(done.stdout.endswith(right), f"{done.stdout!r}, a catalogue has {right!r}")


def test_grafana_query_of_the_page_works(_large):
    with contextlib.closing(Fleet("grafana", "--hosts", 4, "--sites", 20, "--tracebacks", 1200, "--frames", 600)) as fleet, \
            shared_cluster(1) as cluster:
        fleet.index()
        fleet.cluster("init", *cluster.init_options())
        fleet.run("push", "--to", cluster.url)
        query = block("sql", "$__unixEpochFilter").replace("$__unixEpochFilter(time)", "time > 0")
        rows = cluster.servers[0].request(query).splitlines()
        check(len(rows) >= 4 and all(len(row.split("\t")) == 3 for row in rows), f"{rows}")
