#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A push to a ClickHouse on loopback beside clickhouse-client's insert of the same rows.

    cluster.py ALLOCSNAP FLEET_DATA FOLDER [HOSTS]

Measurements take turns. Skipped, because Debian's clickhouse-server is not installed: says so and exits with 0.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../tests/fleet"), os.path.join(HERE, "../tests")]
os.environ.setdefault("ALLOCSNAP", sys.argv[1] if len(sys.argv) > 1 else "")
from clickhouse import DATABASE, SERVER, Cluster  # pylint: disable=wrong-import-position
from rounds import Samples, end_in_order, in_turns  # pylint: disable=wrong-import-position

ROUNDS = 3
LEAST_ROWS_A_SECOND = 1e6


class ClusterBench:
    """A fleet's catalogue, a server, and the server's rows as a file."""

    def __init__(self, cluster, allocsnap, fleet_data, folder, hosts="150"):
        self.server, self.allocsnap = cluster.servers[0], allocsnap
        self.folder = pathlib.Path(folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        made = subprocess.run([fleet_data, "--hosts", hosts, self.folder / "data"], check=True, stdout=subprocess.PIPE)
        self.row_nr = json.loads(made.stdout)["rows"]
        self.catalogue, self.rows = self.folder / "fleet.db", self.folder / "rows.native"
        self.fleet("index", self.folder / "data", "--catalogue", self.catalogue)

    def fleet(self, *args):
        """Seconds."""
        begun = time.monotonic()
        subprocess.run([self.allocsnap, "fleet", *map(str, args)], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        return time.monotonic() - begun

    def push(self, _round):
        """All rows of all tables, into an empty database."""
        self.server.request(f"DROP DATABASE IF EXISTS {DATABASE}", database="default")
        self.fleet("init", "--to", self.server.url)
        return self.fleet("push", "--to", self.server.url, "--catalogue", self.catalogue)

    def client(self, *args, **options):
        subprocess.run(["clickhouse-client", "--port", str(self.server.tcp), "--database", DATABASE, "--query", *args],
                       check=True, **options)

    def insert(self, _round):
        """The allocations alone, in the order in which the server has them."""
        if not self.rows.exists():
            with self.rows.open("wb") as out:
                self.client("SELECT * FROM allocation FORMAT Native", stdout=out)
        self.server.request("DROP TABLE IF EXISTS plain")
        self.server.request("CREATE TABLE plain AS allocation")
        begun = time.monotonic()
        with self.rows.open("rb") as rows:
            self.client("INSERT INTO plain FORMAT Native", stdin=rows)
        return time.monotonic() - begun


def main():
    end_in_order()
    if not SERVER or not shutil.which("clickhouse-client"):
        print("skipped, because Debian's clickhouse-server and clickhouse-client are not installed")
        return
    with Cluster(1) as cluster:
        bench, found = ClusterBench(cluster, *sys.argv[1:]), Samples()
        try:
            in_turns(found, {"push": bench.push, "insert": bench.insert}, ROUNDS)
        finally:
            shutil.rmtree(bench.folder)
    for name in "push", "insert":
        print(f"{name:<7} {bench.row_nr / found.median(name) / 1e6:.2f} million rows/s ({found.median(name):.2f} s)")
    print(f"aim: push >= {LEAST_ROWS_A_SECOND / 1e6:.0f} million rows/s: "
          f"{'yes' if bench.row_nr / found.median('push') >= LEAST_ROWS_A_SECOND else 'NO'}")


if __name__ == "__main__":
    main()
