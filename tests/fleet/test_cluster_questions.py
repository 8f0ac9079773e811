# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`fleet … --from URL` says what `fleet … --catalogue` says, to the byte; or one line about what is wrong."""
import contextlib
import os
import pathlib
import random
import sqlite3
import subprocess
import tempfile

import sql_questions
from clickhouse import Cluster, shared_cluster
from fleet import Fleet
from harness import check, check_equal, wait_for
from test_clickhouse import random_selection

RANDOM_QUESTIONS = 5 if int(os.environ.get("FLEET_HOSTS", "500")) <= 50 else 100
QUESTIONS = (
    ("stats",), ("stats", "--json", "--top", "0"), ("stats", "--all-times", "--json", "--top", "0"),
    ("stats", "--group-by", "domain"), ("stats", "--group-by", "traceback", "--top", "0"),
    ("stats", "--cumulative", "--group-by", "function"), ("stats", "--line-drift", "--json", "--top", "0"),
    ("stats", "--keep-wrappers", "--json", "--top", "0"), ("stats", "--format", "folded"),
    ("stats", "--include", "src/*", "--json", "--top", "0"), ("stats", "--include", "nothing*"),
    ("stats", "--where", "end=running", "--json"), ("stats", "--where", "comm=none"),
    ("diff", "--baseline", "host=web*", "--candidate", "host!=web*", "--json", "--top", "0"),
    ("diff", "--baseline", "label.version=A", "--candidate", "label.version=B"),
    ("diff", "--all-times", "--baseline", "host=*1", "--candidate", "host!=*1"),
    ("hosts",), ("hosts", "--json", "--top", "0"),
    ("hosts", "--cumulative", "--json", "--top", "0"), ("hosts", "--group-by", "domain", "--all-processes", "--json"),
    ("hosts", "--group-by", "traceback", "--include", "src/*", "--json", "--top", "0"),
    ("stats", "--where", "host=w?b-*[!0-3],comm!=[r-z]*", "--json"), ("stats", "--where", "end!=exited*", "--json"),
    ("stats", "--where", "end=not seen*", "--json"), ("stats", "--where", "label.version!=A,label.none=", "--json"),
    ("stats", "--where", "label.version=*", "--where", "size>=1K,pid!=1,count<1000000", "--json"),
    ("stats", "--strip-prefix", "/build/indexer-1.0/", "--strip-prefix", "/build/indexer-1.1/", "--json", "--top", "0"),
    ("stats", "--skip", "*_1*", "--json", "--top", "0"), ("stats", "--project", "src/*", "--json", "--top", "0"),
    ("stats", "--group-by", "filename", "--all-processes", "--json", "--top", "0"),
    ("diff", "--order", "sum", "--sort", "shrink", "--baseline", "end=exited*", "--candidate", "end=running", "--json"),
    ("leaks", "--all"), ("leaks", "--json"), ("report", "-o", "-"), ("report", "-o", "-", "--where", "host=web*"),
    ("report", "-o", "-", "--baseline", "host=*1", "--candidate", "host!=*1"),
)


def answer(fleet, source, args):
    """(stdout, stderr, exit status)."""
    argv = [os.environ["ALLOCSNAP"], "fleet", *args, *source]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=300, cwd=fleet.folder)
    return done.stdout, done.stderr, done.returncode


def check_same_answers(fleet, cluster, questions):
    for args in questions:
        right = answer(fleet, ["--catalogue", fleet.catalogue], args)
        for server in cluster.servers:
            found = answer(fleet, ["--from", server.url], args)
            check(found == right, f"{' '.join(args)}: {found!r:.1500}, a catalogue has {right!r:.1500}")


@contextlib.contextmanager
def clustered(fleet, server_nr, start=shared_cluster):
    with contextlib.closing(fleet), start(server_nr) as cluster:
        fleet.cluster("init", *cluster.init_options())
        fleet.run("push", "--to", cluster.servers[0].url)
        yield fleet, cluster


def random_question(rng):
    (where, _), (baseline, _), (candidate, _) = (random_selection(rng, 1) for _ in range(3))
    return rng.choice((("stats", "--where", where), ("hosts", "--where", where),
                       ("diff", "--baseline", baseline, "--candidate", candidate))) + (
        "--group-by", rng.choice(("lineno", "function", "filename", "object", "traceback", "domain")), "--json", "--top", "0")


def test_answers_of_a_made_fleet_are_the_catalogues(_large):
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    fleet = Fleet("asked", "--hosts", 12, "--sites", 60, "--tracebacks", 1800, "--frames", 600)
    fleet.index()
    with clustered(fleet, 2) as (fleet, cluster):
        check_same_answers(fleet, cluster, [*QUESTIONS, *(random_question(rng) for _ in range(RANDOM_QUESTIONS))])
        out, err, status = answer(fleet, ["--from", cluster.url], ("stats", "--where", os.fsdecode(b"host=\xff?")))
        check(not out and status == 1 and b"no UTF-8" in err, f"{out!r}, {err!r}")


def test_answers_about_all_kinds_of_snapshots_are_the_catalogues(_large):
    """Samples, gaps, losses, several boots, names from other hosts: the snapshots of the golden tests."""
    fleet = Fleet("golden", "--hosts", 1, "--sites", 20, "--tracebacks", 600, "--frames", 600)
    made = fleet.folder / "golden"
    made.mkdir()
    subprocess.run([os.environ["GOLDEN_SNAPSHOTS"], made], check=True, stdout=subprocess.DEVNULL)
    fleet.index(made, status=1)
    with clustered(fleet, 1) as (fleet, cluster):
        check_same_answers(fleet, cluster, QUESTIONS)


def test_several_catalogues_are_one_catalogue(_large):
    """Thirds of the hosts, some in two of them, and the golden tests' snapshots."""
    with contextlib.closing(Fleet("thirds", "--hosts", 9, "--sites", 60, "--tracebacks", 1800, "--frames", 600)) as fleet:
        golden = fleet.data / "golden"
        golden.mkdir()
        subprocess.run([os.environ["GOLDEN_SNAPSHOTS"], golden], check=True, stdout=subprocess.DEVNULL)
        fleet.index(status=1)
        folders = sorted(path for path in fleet.data.iterdir() if path.is_dir())
        parts = [fleet.folder / f"third{number}.db" for number in range(3)]
        for number, part in enumerate(parts):
            fleet.run("index", *folders[number::3], folders[0], catalogue=part, status=None)
        source = [word for part in parts for word in ("--catalogue", part)]
        for args in QUESTIONS:
            right = answer(fleet, ["--catalogue", fleet.catalogue], args)
            found = answer(fleet, source, args)
            check(found == right, f"{' '.join(args)}: {found!r:.1500}, one catalogue has {right!r:.1500}")
        _, err = fleet.cluster("stats", *source, "--from", "http://localhost:1", status=2)
        check("exclude each other" in err, err)


def test_two_catalogues_in_one_cluster_are_one_catalogue(_large):
    """Half of the hosts each; the same file names on different hosts."""
    with contextlib.closing(Fleet("halves", "--hosts", 8, "--sites", 60, "--tracebacks", 1800, "--frames", 600)) as fleet, \
            shared_cluster(1) as cluster:
        fleet.index()
        fleet.cluster("init", *cluster.init_options())
        hosts = sorted(path for path in fleet.data.iterdir() if path.is_dir())
        for number in range(2):
            half = fleet.folder / f"half{number}.db"
            fleet.run("push", "--to", cluster.url, *hosts[number::2], catalogue=half)
        check_same_answers(fleet, cluster, [args for args in QUESTIONS if args[0] != "leaks"])


def as_user(name):
    return {**os.environ, "ALLOCSNAP_CLUSTER_USER": name}


def test_half_an_answer_is_an_error(_large):
    """A dead shard, rows that are gone, and a user with too few rights or too small limits."""
    fleet = Fleet("half", "--hosts", 6, "--sites", 60, "--tracebacks", 1800, "--frames", 600)
    fleet.index()
    with clustered(fleet, 2, Cluster) as (fleet, cluster):
        first, second = cluster.servers
        for user, text in (("readonly", "readonly = 2"), ("limited", "limit"), ("metered", "quota is used up"),
                           ("breaking", "limit"), ("cutting", "Limit for result")):
            out, err = fleet.cluster("stats", "--from", first.url, status=1, env=as_user(user))
            check_equal((out, len(err.splitlines())), ("", 1), f"{user}: output, and lines of {err!r}")
            check(text in err, f"{user}: {err!r}")
        for user in "reader", "unmerged":
            check_equal(fleet.cluster("stats", "--from", first.url, env=as_user(user)), fleet.run("stats"), f"{user}: the answer")
        for server in cluster.servers:
            week = server.request("SELECT intDiv(time, 604800) FROM local_allocation LIMIT 1").strip()
            server.request(f"ALTER TABLE local_allocation DROP PARTITION {week}")
        for command in ("stats", "hosts"):
            out, err = fleet.cluster(command, "--from", first.url, status=1)
            check_equal((out, err), ("", f"allocsnap: {first.url}: rows of the chosen snapshots are missing there\n"), command)
        second.close()
        out, err = fleet.cluster("stats", "--from", first.url, status=1)
        check_equal((out, "a shard does not answer" in err, len(err.splitlines())), ("", True, 1), f"a dead shard: {err!r}")


def test_own_frames_of_another_version_do_not_count(_large):
    """Another allocsnap may have seen others: the tracebacks travel whole, and say themselves."""
    fleet = Fleet("version", "--hosts", 3, "--sites", 20, "--tracebacks", 600, "--frames", 600)
    fleet.index()
    with clustered(fleet, 1) as (fleet, cluster):
        server = cluster.servers[0]
        server.request("ALTER TABLE traceback UPDATE rules = 7, own_frame_id = 0 WHERE traceback_id % 2 = 0")
        wait_for(lambda: server.request("SELECT count() FROM system.mutations WHERE NOT is_done") == "0\n", "other rules", 60)
        check_equal(server.request("SELECT count() > 0 FROM traceback WHERE rules = 7"), "1\n", "other rules")
        check_same_answers(fleet, cluster, (("stats", "--json", "--top", "0"), ("hosts", "--json", "--top", "0")))


WEEK = 604800
EDGE = 2959 * WEEK
# Times of snapshots in nanoseconds, around the edge of two partitions and a second.
AROUND = -WEEK * 10**9, -10**9, -1, 0, 1, 10**9 - 1, 10**9, WEEK * 10**9 - 1, WEEK * 10**9


def test_times_at_the_edges_are_the_catalogues(_large):
    """The server gets the chosen snapshots' first and last time, and reads no partitions of other times."""
    fleet = Fleet("edges", "--hosts", 3, "--sites", 20, "--tracebacks", 1200, "--frames", 600)
    fleet.index()
    with contextlib.closing(sqlite3.connect(fleet.catalogue)) as db, db:
        for number, in db.execute("SELECT number FROM snapshot").fetchall():
            time = EDGE * 10**9 + AROUND[number % len(AROUND)]
            db.execute("UPDATE snapshot SET time_ns = ?, monotonic_ns = 0 WHERE number = ?", (time, number))
    with clustered(fleet, 2) as (fleet, cluster):
        times = EDGE - WEEK, EDGE - 1, EDGE, EDGE + 1, EDGE + WEEK - 1, EDGE + WEEK
        check_same_answers(fleet, cluster, [
            (command, "--where", f"time{sign}{time}", "--json", "--top", "0")
            for time in times for sign in ("<", "<=", "=", ">=", ">") for command in ("stats", "hosts")])
        found = fleet.cluster("stats", "--from", cluster.url, "--where", f"time={EDGE}", "--all-times", "--json")[0]
        check_equal(found, fleet.run("stats", "--where", f"time={EDGE}", "--all-times", "--json")[0], "all times")
        sums = sql_questions.fill("origins", first=str(EDGE), last=str(EDGE)).replace("SELECT chosen_id FROM chosen", "1")
        cluster.servers[0].request(f"{sums} SETTINGS force_index_by_date = 1")


def test_credentials_come_from_a_file(_large):
    """And not from one that others can read."""
    with shared_cluster(1) as cluster, tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "credentials"
        path.write_text("user=reader\n", encoding="ascii")
        path.chmod(0o644)
        _, err = Fleet.cluster("stats", "--from", cluster.url, "--credentials", path, status=1)
        check("other users can read" in err, err)
        path.chmod(0o600)
        _, err = Fleet.cluster("stats", "--from", cluster.url, "--credentials", path, status=1)
        check("no such database" in err, err)
