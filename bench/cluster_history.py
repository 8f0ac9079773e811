#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Questions to a ClickHouse beside the same to a catalogue: time, and bytes over the wire; and again with TIMES as many
snapshots of earlier weeks there, which the selection leaves out.

    cluster_history.py ALLOCSNAP FLEET_DATA FOLDER [HOSTS [TIMES]]

500 hosts are 10,000 snapshots with ten million rows. The history is of the same hosts and of other processes. Answers of
both have to be the catalogue's, to the byte. Skipped, because Debian's clickhouse-server is not installed: says so and
exits with 0.
"""
import json
import os
import pathlib
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../tests/fleet"), os.path.join(HERE, "../tests")]
os.environ.setdefault("ALLOCSNAP", sys.argv[1] if len(sys.argv) > 1 else "")
from clickhouse import SERVER, Cluster  # pylint: disable=wrong-import-position
from rounds import Samples, end_in_order, in_turns, load, rounds_wanted  # pylint: disable=wrong-import-position

MOST_TIMES_AS_MUCH = 1.3
SOURCES = "catalogue", "now", "history"
WEEK = 604800
BEGIN = 1790000000  # before the first snapshot of fleet-data, and after its history
SINCE = "--where", f"time>={BEGIN}"
COHORTS = "--baseline", "label.version=A", "--candidate", "label.version=B", *SINCE
QUESTIONS = {
    "stats": ("stats", *SINCE), "stats, one program": ("stats", *SINCE, "--where", "comm=webd"),
    "stats by traceback": ("stats", *SINCE, "--group-by", "traceback"), "diff": ("diff", *COHORTS),
    "diff, all times": ("diff", "--all-times", *COHORTS), "hosts": ("hosts", *SINCE),
}
# The columns that are other ones some weeks ago.
AGO = {
    "upload_id": "{name} + {ago} * 1000000000000", "snapshot_id": "{name} + {ago}", "process_id": "{name} + {ago}",
    "time": "{name} - {seconds}", "time_ns": "{name} - {seconds} * 1000000000", "boot_id": "concat({name}, '-{ago}')",
}


class CountingProxy:
    """Hands on connections to a server, and counts the bytes both ways."""

    def __init__(self, port):
        self.port, self.passed = port, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            client, _ = self.listener.accept()
            server = socket.create_connection(("127.0.0.1", self.port))
            for ends in ((client, server), (server, client)):
                threading.Thread(target=self._copy, args=ends, daemon=True).start()

    def _copy(self, source, target):
        try:
            while data := source.recv(1 << 18):
                self.passed += len(data)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass


class HistoryBench:
    """A catalogue, and a server with two databases of the same snapshots. One has a history besides."""

    def __init__(self, cluster, allocsnap, fleet_data, folder, hosts="500", times="10"):
        self.server, self.allocsnap, self.times = cluster.servers[0], allocsnap, int(times)
        self.proxy, folder = CountingProxy(self.server.http), pathlib.Path(folder)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        made = subprocess.run([fleet_data, "--hosts", hosts, folder / "data"], check=True, stdout=subprocess.PIPE)
        self.made, self.catalogue, self.bytes = json.loads(made.stdout), folder / "fleet.db", {}
        self.fleet("index", folder / "data", "--catalogue", self.catalogue)
        shutil.rmtree(folder / "data")
        for database in "history", "now":
            self.fleet("init", "--to", self.server.url, "--database", database)
            begun = time.monotonic()
            self.fleet("push", "--to", self.server.url, "--database", database, "--catalogue", self.catalogue)
            self.push_seconds = time.monotonic() - begun
        self.right = {name: self.fleet(*args, "--catalogue", self.catalogue) for name, args in QUESTIONS.items()}

    def fleet(self, *args):
        argv = [self.allocsnap, "fleet", *map(str, args)]
        return subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT).stdout

    def request(self, sql):
        return self.server.request(sql, "history")

    def add_history(self):
        for ago in range(1, self.times):
            for table in "allocation", "label", "loss", "snapshot":
                names = self.request("SELECT name FROM system.columns WHERE database = currentDatabase()"
                                     f" AND table = '{table}'").split()
                values = ", ".join(AGO.get(name, "{name}").format(name=name, ago=ago, seconds=ago * WEEK) for name in names)
                self.request(f"INSERT INTO {table} ({', '.join(names)}) SELECT {values} FROM {table} AS now"
                             f" WHERE now.time >= {BEGIN}")

    def report_capacity(self):
        """For the table of capacity in docs/fleet.md."""
        for table in "allocation", "snapshot", "traceback", "traceback_frame", "frame", "place":
            self.server.request(f"OPTIMIZE TABLE {table} FINAL", "now")
        parts = self.server.request("SELECT table, sum(rows), sum(bytes_on_disk) FROM system.parts WHERE active"
                                    " AND database = currentDatabase() GROUP BY table", "now")
        sizes = {table: int(size) / int(rows) for table, rows, size in map(str.split, parts.splitlines())}
        print(f"push {self.made['rows'] / self.push_seconds / 1e6:.2f} million rows/s; bytes a row on disk: "
              f"{', '.join(f'{table} {size:.1f}' for table, size in sorted(sizes.items()))}")

    def cpu(self):
        """Seconds of processors, of the server and of the commands so far."""
        stat = pathlib.Path(f"/proc/{self.server.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        own = resource.getrusage(resource.RUSAGE_CHILDREN)
        return sum(map(int, stat[11:13])) / os.sysconf("SC_CLK_TCK") + own.ru_utime + own.ru_stime

    def ask(self, name, source):
        """(seconds, seconds of processors). The answer has to be the catalogue's."""
        place = ("--catalogue", self.catalogue) if source == "catalogue" else ("--from", self.proxy.url, "--database", source)
        passed, cpu, begun = self.proxy.passed, self.cpu(), time.monotonic()
        answer = self.fleet(*QUESTIONS[name], *place)
        taken = time.monotonic() - begun, self.cpu() - cpu
        self.bytes[name, source] = self.proxy.passed - passed
        assert answer == self.right[name], f"{name} of {source}: {answer!r:.900}, the catalogue has {self.right[name]!r:.900}"
        return taken


def report(bench, found):
    """Whether the history costs no more than it may."""
    most = 0
    for name in QUESTIONS:
        parts = []
        for source in SOURCES:
            taken = [statistics.median(part) for part in zip(*found.values((name, source)))]
            sent = f", {bench.bytes[name, source] / 1e6:.2f} MB" if source != "catalogue" else ""
            parts.append(f"{source} {taken[0]:.2f} s (processors {taken[1]:.2f} s){sent}")
        pairs = list(zip(found.values((name, "history")), found.values((name, "now"))))
        ratios = [statistics.median(with_it[part] / without[part] for with_it, without in pairs) for part in (0, 1)]
        ratios.append(bench.bytes[name, "history"] / bench.bytes[name, "now"])
        most = max(most, *ratios)
        print(f"{name:<19} {'; '.join(parts)}: {ratios[0]:.2f} times the time, {ratios[1]:.2f} of processors, "
              f"{ratios[2]:.2f} of bytes")
    return most <= MOST_TIMES_AS_MUCH


def main():
    end_in_order()
    if not SERVER:
        print("skipped, because Debian's clickhouse-server is not installed")
        return
    found = Samples()
    with Cluster(1) as cluster:
        bench = HistoryBench(cluster, *sys.argv[1:])
        bench.add_history()
        in_turns(found, {(name, source): lambda _round, name=name, source=source: bench.ask(name, source)
                         for name in QUESTIONS for source in SOURCES}, rounds_wanted(5))
        rows = bench.request("SELECT count() FROM allocation").strip()
        print(f"{bench.made['snapshots']} snapshots, {bench.made['rows']} rows; with history {rows} rows; {load()}")
        bench.report_capacity()
        print(f"aim: at most {MOST_TIMES_AS_MUCH} times: {'yes' if report(bench, found) else 'NO'}")


if __name__ == "__main__":
    main()
