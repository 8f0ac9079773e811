# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`allocsnap push` to a ClickHouse, once and with --watch: the files wait on disk while the server is away."""
import contextlib
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

from clickhouse import ClickHouse, shared_cluster
from fleet import Fleet
from harness import ALLOCSNAP, Skip, check, check_equal, wait_for
from test_cluster_push import CuttingProxy, check_same_as_catalogue

CUTS = 200 if int(os.environ.get("FLEET_HOSTS", "500")) > 50 else 4
LABEL = "'; DROP TABLE snapshot; --\\\\n\n{where}"
RECORDED = "import time\nkept = [[str(i) * 20] for i in range(5000)]\nwhile True:\n    kept.append('x' * 5000)\n    time.sleep(0.05)\n"


def push(url, folder, *options):
    """(stdout, stderr, exit status)"""
    done = subprocess.run([ALLOCSNAP, "push", url, *map(str, options), folder], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False, timeout=300)
    return done.stdout, done.stderr, done.returncode


def forget_queue(fleet):
    """The next push tries all files."""
    for path in fleet.data.glob(".push-*"):
        path.unlink()


def cut_pushes_of_a_folder(fleet, cluster, proxy):
    """Until CUTS were cut. After one that was not, the tables and the queue begin empty. Returns how many were not cut."""
    rng, cuts, whole = random.Random(random.randrange(1 << 32)), 0, 0
    while cuts < CUTS:
        proxy.cut_after(rng.randrange(1, 400_000 if cuts % 2 else 20_000))
        push(proxy.url, fleet.data)
        cuts += proxy.left == 0
        if cuts % 10 == 5:  # the server may know the files
            forget_queue(fleet)
        if proxy.left:
            whole += 1
            check_same_as_catalogue(fleet, cluster, f"after {cuts} cuts")
            shared_cluster(2)
            fleet.cluster("init", *cluster.init_options())
            forget_queue(fleet)
    return whole


def test_files_wait_while_the_server_is_away(_large):
    """Until it comes back; then each counts once, however often a push is cut."""
    with contextlib.closing(Fleet("spool", "--hosts", 6, "--sites", 20, "--tracebacks", 1200, "--frames", 600)) as fleet:
        fleet.index()
        (next(fleet.data.iterdir()) / "garbage.snap").write_bytes(b"garbage")
        cluster = shared_cluster(2)
        out, err, status = push(cluster.url, fleet.data)
        check_equal((status, "no such database" in err), (1, True), f"a server without tables: {out!r}, {err!r}")
        fleet.cluster("init", *cluster.init_options())
        with contextlib.closing(CuttingProxy(cluster.servers[0].http)) as proxy:
            whole = cut_pushes_of_a_folder(fleet, cluster, proxy)
            proxy.cut_after(None)
            push(proxy.url, fleet.data)
            check_same_as_catalogue(fleet, cluster, "after cuts")
            check_equal(push(proxy.url, fleet.data)[:2], ("0 pushed\n", ""), "pushed again")
        print(f"  {CUTS} pushes of a folder were cut, and {whole + 1} were not; {fleet.made['snapshots']} snapshots and "
              f"{fleet.made['rows']} rows each time", flush=True)
        # Another URL has a queue of its own, and the server knows the snapshots.
        out, _, _ = push(cluster.url, fleet.data, "--top", 5)
        check(out.startswith(f"{fleet.made['snapshots']} pushed"), out)
        check_same_as_catalogue(fleet, cluster, "after a second queue")


def test_files_that_are_not_pushed_are_named(_large):
    """However the folder is named: none of them counts as pushed."""
    with contextlib.closing(Fleet("named", "--hosts", 2, "--sites", 20, "--tracebacks", 600, "--frames", 600)) as fleet:
        (fleet.data / "garbage.snap").write_bytes(b"garbage")
        (fleet.folder / "link").symlink_to(fleet.data)
        for folder in fleet.data, os.path.relpath(fleet.data), f"{fleet.data}/../data/.", fleet.folder / "link":
            cluster = shared_cluster(1)
            fleet.cluster("init", *cluster.init_options())
            out, err, _ = push(cluster.url, folder)
            check("garbage.snap: not pushed" in err, f"{folder}: {out!r}, {err!r}")
            check(out.startswith(f"{fleet.made['snapshots']} pushed, 1 "), f"{folder}: {out!r}, {err!r}")
            forget_queue(fleet)


@contextlib.contextmanager
def python_process():
    with subprocess.Popen([sys.executable, "-c", RECORDED], stdin=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def started(*argv):
    """A process that ends by SIGTERM, successfully."""
    with subprocess.Popen([ALLOCSNAP, *argv], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.terminate()
            check_equal(process.wait(300), 0, f"exit status of {argv[0]}")


def check_files_are_rows(database, url, folder):
    """Each snapshot below the folder is at the server, and answers are the same as from the files."""
    files = list(folder.rglob("*.snap"))
    check_equal(database.one("SELECT count(DISTINCT snapshot_id) FROM snapshot"), len(files), "snapshots at the server")
    catalogue = folder.parent / "fleet.db"
    Fleet.cluster("index", folder, "--catalogue", catalogue)
    for args in ("stats", "--all-times"), ("hosts", "--json", "--top", "0"):
        check_equal(Fleet.cluster(*args, "--from", url), Fleet.cluster(*args, "--catalogue", catalogue), f"{args}")


def test_recorded_rows_are_pushed_as_they_are_written(_large):
    """The snapshots in the folder are those at the server, with the same bytes."""
    if os.geteuid():
        raise Skip("only root can record")
    cluster = shared_cluster(1)
    Fleet.cluster("init", "--to", cluster.url)
    database = ClickHouse(cluster.servers[0])
    with tempfile.TemporaryDirectory(prefix="allocsnap-spool.") as folder, python_process() as recorded:
        data = pathlib.Path(folder) / "data"
        with started("push", cluster.url, data, "--watch") as pusher, \
                started("record", "--pid", str(recorded.pid), "-o", data, "--interval", "1s", "--label", f"version={LABEL}"):
            wait_for(lambda: pusher.poll() is not None or database.one("SELECT count() FROM snapshot") >= 2,
                     "two snapshots at the server", 120)
        check_files_are_rows(database, cluster.url, data)
        labels = database.ask("SELECT DISTINCT concat('x', hex(value)) FROM label WHERE name = 'version'")
        check_equal([bytes.fromhex(label[1:]).decode() for label, in labels], [LABEL], "labels")
        check(re.search("python", Fleet.cluster("stats", "--from", cluster.url)[0]), "no line of python")
