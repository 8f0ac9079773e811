# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`allocsnap push` and `record --push` to a ClickHouse: the files wait on disk while the server is away."""
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

CUTS = 40 if int(os.environ.get("FLEET_HOSTS", "500")) > 50 else 4
RECORDED = "import time\nkept = [[str(i) * 20] for i in range(5000)]\nwhile True:\n    kept.append('x' * 5000)\n    time.sleep(0.05)\n"


def push(url, folder, *options):
    """(stdout, stderr, exit status)"""
    done = subprocess.run([ALLOCSNAP, "push", url, *map(str, options), folder], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False, timeout=300)
    return done.stdout, done.stderr, done.returncode


def test_files_wait_while_the_server_is_away(_large):
    """Until it comes back; then each counts once, however often a push is cut."""
    rng = random.Random(random.randrange(1 << 32))
    with contextlib.closing(Fleet("spool", "--hosts", 6, "--sites", 20, "--tracebacks", 1200, "--frames", 600)) as fleet:
        fleet.index()
        (next(fleet.data.iterdir()) / "garbage.snap").write_bytes(b"garbage")
        cluster = shared_cluster(2)
        out, err, status = push(cluster.url, fleet.data)
        check_equal((status, "no such database" in err), (1, True), f"a server without tables: {out!r}, {err!r}")
        fleet.cluster("init", *cluster.init_options())
        with contextlib.closing(CuttingProxy(cluster.servers[0].http)) as proxy:
            for number in range(CUTS):
                proxy.cut_after(rng.randrange(1, 400_000 if number % 2 else 20_000))
                push(proxy.url, fleet.data)
            proxy.cut_after(None)
            out, err, status = push(proxy.url, fleet.data)
            check("garbage.snap: not pushed" in err or CUTS and "rejected" not in out, f"{out!r}, {err!r}")
            check_same_as_catalogue(fleet, cluster, "after cuts")
            check_equal(push(proxy.url, fleet.data)[:2], ("0 pushed\n", ""), "pushed again")
        # Another URL has a queue of its own, and the server knows the snapshots.
        out, _, _ = push(cluster.url, fleet.data, "--top", 5)
        check(out.startswith(f"{fleet.made['snapshots']} pushed"), out)
        check_same_as_catalogue(fleet, cluster, "after a second queue")


@contextlib.contextmanager
def python_process():
    with subprocess.Popen([sys.executable, "-c", RECORDED], stdin=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def test_record_pushes_rows(_large):
    """The snapshots in the folder are those at the server, with the same bytes."""
    if os.geteuid():
        raise Skip("only root can record")
    cluster = shared_cluster(1)
    Fleet.cluster("init", "--to", cluster.url)
    database = ClickHouse(cluster.servers[0])
    with tempfile.TemporaryDirectory(prefix="allocsnap-spool.") as folder, python_process() as recorded:
        argv = [ALLOCSNAP, "record", "--pid", str(recorded.pid), "--interval", "1s", "-o", f"{folder}/data", "--push", cluster.url]
        with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True) as recorder:
            try:
                wait_for(lambda: recorder.poll() is not None or database.one("SELECT count() FROM snapshot") >= 2,
                         "two snapshots at the server", 120)
            finally:
                recorder.terminate()
            _, err = recorder.communicate(timeout=300)
            check_equal(recorder.returncode, 0, f"exit status ({err!r})")
        files = list(pathlib.Path(folder).rglob("*.snap"))
        push(cluster.url, f"{folder}/data")
        check_equal(database.one("SELECT count() FROM snapshot"), len(files), f"snapshots at the server ({err!r})")
        Fleet.cluster("index", folder, "--catalogue", f"{folder}/fleet.db")
        for args in ("stats",), ("trend", "--json"):
            check_equal(Fleet.cluster(*args, "--from", cluster.url), Fleet.cluster(*args, "--catalogue", f"{folder}/fleet.db"),
                        f"{args}")
        check(re.search("python", Fleet.cluster("stats", "--from", cluster.url)[0]), "no line of python")
