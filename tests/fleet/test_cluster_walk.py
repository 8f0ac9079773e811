# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The commands about a ClickHouse in docs/fleet.md; its lines that start two shards, fill and ask them; and its query for
Grafana."""
import contextlib
import os
import pathlib
import re
import shlex
import subprocess

from clickhouse import SERVER, shared_cluster
from fleet import Fleet
from harness import ALLOCSNAP, Skip, check, check_equal
from harness.ports import reserve_ports

PAGE = pathlib.Path(__file__).parent / "../../docs/fleet.md"


def block(language, word):
    """The block of the page that has the word."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    found = [text for text in blocks if word in text]
    check_equal(len(found), 1, f"{language} with {word} in {PAGE.name}")
    return found[0]


def page_commands():
    """The commands in the page's text about a ClickHouse, and in its blocks without a language."""
    section = PAGE.read_text(encoding="utf-8").partition("\n## A ClickHouse\n")[2].partition("\n## ")[0]
    parts = re.split(r"^```(?=\w*$)", section, flags=re.MULTILINE)
    blocks, text = [part[1:] for part in parts[1::2] if part.startswith("\n")], "".join(parts[::2])
    inline = [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", text)]
    return [line for block in blocks for line in block.splitlines()], \
        [code for code in inline if re.match("(allocsnap|fleet) [a-z]+ .|ALTER ", code)]


def run_command(command, fleet, cluster):
    """With this test's folders and servers in their places."""
    places = {"http://localhost:8123": cluster.url, "http://HOST:8123": cluster.url, "/srv/snapshots": fleet.data,
              "DIR": fleet.data, "URL": cluster.url, "URL1": cluster.servers[0].url, "URL2": cluster.servers[-1].url,
              "NAME": "fleet", "SEL": "host=web-*"}
    words = [str(places.get(word, word)) for word in shlex.split(command)]
    argv = [ALLOCSNAP, *(words[1:] if words[0] == "allocsnap" else words)]
    done = subprocess.run(argv, cwd=fleet.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                          timeout=300)
    check_equal(done.returncode, 0, f"exit status of {command} ({done.stderr!r})")
    return done.stdout


# The commands in the text, and options that a run of them needs.
ADDED = {
    "fleet init --keep 30d": " --print",
    "fleet forget --from URL --where 'time<-30d'": "",
    "fleet forget --from URL --where SEL": "",
    "fleet init --cluster NAME --to URL1 --to URL2": "",
    "allocsnap push http://HOST:8123 DIR": "",
    "fleet push --top 200": " --to URL --database other",
}


def test_commands_of_the_page_work(_large):
    with contextlib.closing(Fleet("page", "--hosts", 4, "--sites", 20, "--tracebacks", 1200, "--frames", 600)) as fleet:
        cluster, (blocks, inline) = shared_cluster(1), page_commands()
        check(len(blocks) >= 3, f"{blocks}")
        for command in blocks:
            out = run_command(command, fleet, cluster)
            check(out or " init " in command, f"{command}: no output")
        check_equal(sorted(set(inline) - ADDED.keys()), ["ALTER TABLE snapshot DROP PARTITION 2959"], "commands that are not run")
        check_equal(ADDED.keys() - set(inline), set(), "commands that the page does not have")
        cluster.servers[0].request("ALTER TABLE snapshot DROP PARTITION 2959")
        run_command("fleet init --to URL --database other", fleet, cluster)
        for command in ("fleet push --top 200", "fleet init --keep 30d", "allocsnap push http://HOST:8123 DIR",
                        "fleet forget --from URL --where SEL"):
            check(run_command(command + ADDED[command], fleet, cluster), f"{command}: no output")
        run_command("allocsnap push http://HOST:8123 DIR", fleet, cluster)
        run_command("fleet forget --from URL --where 'time<-30d'", fleet, cluster)
        shards = shared_cluster(2)
        run_command("fleet init --cluster NAME --to URL1 --to URL2", fleet, shards)


def with_own_ports(script):
    """The page's ports end with the number of the shard."""
    begins = ("1812", "1900", "1901")
    ports = dict(zip([f"{begin}{n}" for begin in begins for n in (1, 2)], reserve_ports(6)))
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
        script = with_own_ports(block("sh", "shard$n")).replace("/srv/snapshots", str(fleet.data))
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
