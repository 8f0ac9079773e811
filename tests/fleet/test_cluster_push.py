# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Pushes to a ClickHouse: cut at random points, two at once, hostile texts, and what goes wrong at the server."""
import contextlib
import json
import os
import random
import re
import socket
import sqlite3
import subprocess
import sys
import threading

from clickhouse import ClickHouse, Cluster, shared_cluster
from fleet import IS_LONG, Fleet
from harness import ALLOCSNAP, Skip, check, check_equal
from test_questions import check_rows

CUTS = 200 if IS_LONG else 12
HOSTILE = ("'; DROP TABLE snapshot; --", "\\", "\\'", "'", "\"`{}", "a\nb\tc\r", "\x01\x1b[31m", "% _", "ü€😀", "x" * 65536,
           "{where}", "\\N", "${HOME}`id`", "ends\0here")


class CuttingProxy:
    """Hands on connections to a server, and ends them when so many bytes have gone there."""

    def __init__(self, port):
        self.port, self.left, self.passed = port, None, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_after(self, number):
        """None: never."""
        self.left, self.passed = number, 0

    def close(self):
        self.listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        """One connection, to its end."""
        with client, contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)) as server:
            back = threading.Thread(target=self._copy, args=(server, client, False), daemon=True)
            back.start()
            self._copy(client, server, True)
            back.join()

    def _copy(self, source, target, counts):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if counts and self.left is not None:
                    data, self.left = data[:self.left], self.left - len(data[:self.left])
                self.passed += len(data) if counts else 0
                if data:
                    target.sendall(data)
                if counts and self.left == 0:
                    break
        for each in source, target:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def pushed_fleet(server_nr=1, start=shared_cluster, **options):
    """A fleet with a catalogue, and servers with empty tables."""
    words = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
    with contextlib.closing(Fleet("push", *words)) as fleet, start(server_nr) as cluster:
        fleet.index()
        fleet.cluster("init", *cluster.init_options())
        yield fleet, cluster


def check_same_as_catalogue(fleet, cluster, what):
    database = ClickHouse(cluster.servers[-1])
    report = fleet.json("stats", "--group-by", "domain")
    found = {row["name"]: [row["size"], row["count"]] for row in report["statistics"]}
    check_rows(database.domains(), found, what)
    chosen = "SELECT min(upload_id) FROM snapshot GROUP BY snapshot_id"
    check_equal(database.ask(f"SELECT count(*) FROM ({chosen}) AS c")[0][0], fleet.made["snapshots"], f"{what}: snapshots")
    check_equal(database.ask(f"SELECT count(*) FROM allocation WHERE upload_id IN ({chosen})")[0][0], fleet.made["rows"],
                f"{what}: rows")


def bytes_of_push(fleet, cluster, proxy):
    """One that is not cut, into another database."""
    fleet.cluster("init", *cluster.init_options(), "--database", "measured")
    proxy.cut_after(None)
    fleet.run("push", "--to", proxy.url, "--database", "measured")
    return proxy.passed


def check_all_pushed(fleet, cluster, what):
    check_same_as_catalogue(fleet, cluster, what)
    out, _ = fleet.run("push", "--to", cluster.url)
    check_equal(out, f"0 snapshots pushed, 0 rows; {fleet.made['snapshots']} known\n", f"{what}: pushed again")


def test_cut_pushes_leave_what_one_would_have(_large):
    """Each push that is cut is run again until the next cut; after one that is not, the tables are compared and begin
    empty again. A long one has three batches."""
    rng, cuts, whole = random.Random(random.randrange(1 << 32)), 0, 0
    with pushed_fleet(hosts=120 if IS_LONG else 8) as (fleet, cluster), \
            contextlib.closing(CuttingProxy(cluster.servers[0].http)) as proxy:
        all_bytes = bytes_of_push(fleet, cluster, proxy)
        while cuts < CUTS:
            # The statements at the beginning have few bytes each.
            proxy.cut_after(rng.randrange(1, all_bytes if cuts % 2 else 20_000))
            _, err = fleet.run("push", "--to", proxy.url, status=None)
            check_equal(len(err.splitlines()), 1 if proxy.left == 0 else 0, f"lines of {err!r}")
            cuts += proxy.left == 0
            if proxy.left:
                whole += 1
                check_all_pushed(fleet, cluster, f"after {cuts} cuts")
                shared_cluster(1)
                fleet.cluster("init", *cluster.init_options())
        proxy.cut_after(None)
        fleet.run("push", "--to", proxy.url)
        check_all_pushed(fleet, cluster, f"after {cuts} cuts")
        print(f"  {cuts} pushes were cut, and {whole + 1} were not; {fleet.made['snapshots']} snapshots and "
              f"{fleet.made['rows']} rows each time", flush=True)


def test_killed_pushes_leave_what_one_would_have(_large):
    rng = random.Random(random.randrange(1 << 32))
    with pushed_fleet(hosts=80 if IS_LONG else 8) as (fleet, cluster):
        for _ in range(CUTS // 4):
            argv = [ALLOCSNAP, "fleet", "push", "--to", cluster.url, "--catalogue", fleet.catalogue]
            with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as process:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(rng.uniform(0.01, 2 if IS_LONG else 0.3))
                process.kill()
        fleet.run("push", "--to", cluster.url)
        check_same_as_catalogue(fleet, cluster, "after kills")


def peak_memory(argv):
    """In MiB."""
    done = subprocess.run([sys.executable, "-c", "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True);"
                           "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)", *map(str, argv)],
                          check=True, capture_output=True, text=True)
    return int(done.stdout.splitlines()[-1])


def test_long_labels_take_little_memory(_large):
    """A host may give its snapshots as long labels as it likes; a batch ends in time."""
    if not IS_LONG:
        raise Skip("130 MB of labels")
    options = {"hosts": 100, "sites": 20, "tracebacks": 600, "frames": 600}
    with pushed_fleet(**options) as (fleet, cluster):
        with contextlib.closing(sqlite3.connect(fleet.catalogue)) as db, db:
            db.execute("UPDATE label SET value = substr(hex(zeroblob(32768)), 1, 65536)")
        used = peak_memory([ALLOCSNAP, "fleet", "push", "--catalogue", fleet.catalogue, "--to", cluster.url])
        check(used < 120, f"{used} MiB of memory for {fleet.made['snapshots']} labels of 64 KiB")
        print(f"  {used} MiB of memory at most for {fleet.made['snapshots']} labels of 64 KiB", flush=True)


def test_pushes_at_once_count_once(_large):
    """Two hosts with different snapshots, and twice a catalogue with both."""
    with pushed_fleet(2, hosts=80 if IS_LONG else 8) as (fleet, cluster):
        folders = sorted(path for path in fleet.data.iterdir() if path.is_dir())
        halves = [fleet.folder / f"half{number}.db" for number in range(2)]
        for number, half in enumerate(halves):
            fleet.index(*folders[number::2], catalogue=half)
        argv = [ALLOCSNAP, "fleet", "push", "--catalogue"]
        pushes = [subprocess.Popen([*argv, catalogue, "--to", server.url], stdout=subprocess.DEVNULL)
                  for catalogue, server in zip([*halves, fleet.catalogue, fleet.catalogue], cluster.servers * 2)]
        check_equal([push.wait() for push in pushes], [0] * 4, "exit statuses")
        check_same_as_catalogue(fleet, cluster, "after four pushes at once")


def as_stored(text):
    """Texts end at a NUL."""
    return text.partition("\0")[0]


def hostile_questions():
    """The selections with a hostile text match its snapshot alone."""
    for text in map(as_stored, HOSTILE):
        yield "stats", "--where", f"label.version={text}", "--json", "--top", "0"
        yield "stats", "--where", f"host=h{text}", "--json"
    yield "diff", "--baseline", f"label.version={HOSTILE[0]}", "--candidate", f"label.version!={HOSTILE[0]}", "--json"
    yield from (("hosts",), ("hosts", "--json", "--top", "0"), ("leaks", "--json"), ("report", "-o", "-"))


def check_hostile_answers(fleet, cluster):
    source = [["--catalogue", fleet.catalogue], ["--from", cluster.url]]
    for args in hostile_questions():
        right, found = (fleet.cluster(*args, *where, status=None) for where in source)
        check_equal(found, right, f"{str(args):.200}")
        if args[0] == "stats":
            check_equal(json.loads(right[0])["selection"]["snapshots"], 1, f"snapshots of {str(args):.200}")


def test_hostile_texts_are_data(_large):
    """As labels, and as names of hosts and programs: in a push, an export, each question, and what is forgotten."""
    with pushed_fleet(hosts=len(HOSTILE), processes=1, times=1, sites=20, tracebacks=600, frames=600) as (fleet, cluster):
        with contextlib.closing(sqlite3.connect(fleet.catalogue)) as db, db:
            for number, text in enumerate(HOSTILE, 1):
                db.execute("UPDATE snapshot SET host = ?, comm = ? WHERE number = ?", (f"h{text}", text, number))
                db.execute("UPDATE label SET value = ? WHERE snapshot = ?", (text, number))
        fleet.run("push", "--to", cluster.url)
        check_same_as_catalogue(fleet, cluster, "hostile texts")
        rows = ClickHouse(cluster.servers[0]).ask("SELECT concat('x', hex(value)) FROM label WHERE name = 'version'")
        found = {bytes.fromhex(row[1:]) for row, in rows}
        texts = {as_stored(text).encode() for text in HOSTILE}
        check_equal(found, texts, "labels")
        check_hostile_answers(fleet, cluster)
        fleet.run("export", fleet.folder / "export.db")
        with contextlib.closing(sqlite3.connect(fleet.folder / "export.db")) as db:
            rows = db.execute("SELECT CAST(value AS BLOB) FROM label WHERE name = 'version'").fetchall()
            check_equal({row for row, in rows}, texts, "exported labels")
        for left, text in enumerate(HOSTILE[:2], 1):
            fleet.cluster("forget", "--from", cluster.url, "--where", f"label.version={text}")
            rest = ClickHouse(cluster.servers[0]).one("SELECT count() FROM snapshot")
            check_equal(rest, len(HOSTILE) - left, "snapshots that are left")


def refused(fleet, cluster, *args, url=None, **options):
    """The one line of a push that fails."""
    out, err = fleet.run("push", "--to", url or cluster.url, *args, status=1, **options)
    check_equal((out, len(err.splitlines())), ("", 1), f"output, and lines of {err!r}")
    return err


def test_errors_of_servers_are_one_line(_large):
    with pushed_fleet(2, Cluster, hosts=2, sites=20, tracebacks=1200, frames=600) as (fleet, cluster):
        first, second = cluster.servers
        check("no such database" in refused(fleet, cluster, "--database", "other"), "a database that is not there")
        user = {**os.environ, "ALLOCSNAP_CLUSTER_USER": "default", "ALLOCSNAP_CLUSTER_PASSWORD": "wrong"}
        check("refuses the user or the password" in refused(fleet, cluster, env=user), "a wrong password")
        for server in cluster.servers:
            server.request("CREATE DATABASE foreign_one", database="default")
        check("no tables of allocsnap" in refused(fleet, cluster, "--database", "foreign_one"), "an empty database")
        first.request("CREATE TABLE schema_version (version Int64) ENGINE = Memory", database="foreign_one")
        first.request("INSERT INTO schema_version VALUES (7)", database="foreign_one")
        check("version 7, this allocsnap has 3: use a newer allocsnap" in
              refused(fleet, cluster, "--database", "foreign_one", url=first.url), "a later version")
        check("version 7" in fleet.cluster("init", "--to", first.url, "--database", "foreign_one", status=1)[1], "init")
        fleet.cluster("init", "--to", first.url, "--database", "foreign_one; DROP", status=2)
        fleet.cluster("init", "--to", f"{first.url}/?user=x", status=2)
        fleet.cluster("init", "--to", first.url, "--database", "changed")
        first.request("ALTER TABLE loss DROP COLUMN value", database="changed")
        check("table loss of database changed is not the one" in refused(fleet, cluster, "--database", "changed", url=first.url),
              "a table without a column")
        second.close()
        check("a shard does not answer" in refused(fleet, cluster, url=first.url), "a shard that has ended")
        check(re.search("Could not connect|Couldn't connect", refused(fleet, cluster, url=second.url)), "a server that has ended")


def test_init_prints_what_it_runs(_large):
    """By hand, the printed statements make tables that are taken for ours."""
    with contextlib.closing(Fleet("print", "--hosts", "2", "--sites", "20", "--tracebacks", "1200", "--frames",
                                  "600")) as fleet, shared_cluster(1) as cluster:
        fleet.index()
        out, _ = fleet.cluster("init", "--print", "--database", "by_hand")
        for statement in filter(str.strip, out.split(";\n")):
            if not statement.strip().startswith("USE"):
                is_first = statement.startswith("CREATE DATABASE")
                cluster.servers[0].request(statement, database="default" if is_first else "by_hand")
        fleet.run("push", "--to", cluster.url, "--database", "by_hand")
        out, _ = fleet.cluster("init", "--print", "--cluster", "c", "--keep", "30d")
        check_equal((out.count("INTERVAL 30 DAY"), out.count("INTERVAL 37 DAY")), (1, 4), "times of a snapshot and its parts")
        check("TTL toDateTime(time) + INTERVAL 30 DAY" in out and "Distributed(c, allocsnap, local_allocation" in out, out)
