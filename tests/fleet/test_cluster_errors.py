# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A ClickHouse that fails while it answers: one line, exit status 1, and no half of an answer."""
import contextlib
import http.server
import os
import re
import signal
import struct
import subprocess
import tempfile
import threading
import urllib.parse

from clickhouse import PASSWORD, TLS, Cluster
from fleet import Fleet
from harness import ALLOCSNAP, Skip, check, check_equal, tool, wait_for
from harness.ports import reserve_ports
from test_cluster_push import check_same_as_catalogue, pushed_fleet
from test_cluster_questions import as_user, clustered

FEW = "--hosts", 4, "--sites", 20, "--tracebacks", 1200, "--frames", 600
# A table that is never read to its end.
ENDLESS = "CREATE VIEW {0} AS SELECT " + ", ".join(
    f"toInt64(rand({number})) AS {name}" for number, name in enumerate(
        ("place", "chain", "traceback_id", "position", "frame_id", "detail", "outer_name", "names"))) + \
    " FROM system.numbers WHERE rand(9) > 4294967295"


def check_one_line(done, pattern, what):
    """done: (stdout, stderr, exit status)"""
    out, err, status = done
    check_equal((out, status, len(err.splitlines())), ("", 1, 1), f"{what}: output, exit status, and lines of {err!r}")
    check(re.search(pattern, err), f"{what}: {err!r}")


def ask(*args, **options):
    """(stdout, stderr, exit status) of a command about a fleet."""
    done = subprocess.run([ALLOCSNAP, "fleet", *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False, timeout=300, **options)
    return done.stdout, done.stderr, done.returncode


def test_server_that_does_not_answer_is_a_timeout(_large):
    fleet = Fleet("slow", *FEW)
    fleet.index()
    with clustered(fleet, 1, Cluster) as (fleet, cluster):
        process = cluster.servers[0].process
        process.send_signal(signal.SIGSTOP)
        try:
            for command in (["stats", "--from", cluster.url], ["push", "--catalogue", fleet.catalogue, "--to", cluster.url]):
                check_one_line(ask(*command, "--timeout", "300ms"), "[Tt]ime(d )?-?out", command[0])
        finally:
            process.send_signal(signal.SIGCONT)
        check_equal(fleet.cluster("stats", "--from", cluster.url), fleet.run("stats"), "stats of a server that answers again")


@contextlib.contextmanager
def endless_question(cluster, user="default"):
    """A question that asks each shard for ever: its process."""
    for server in cluster.servers:
        server.request("DROP TABLE local_place")
        server.request(ENDLESS.format("local_place"))
    argv = [ALLOCSNAP, "fleet", "stats", "--from", cluster.servers[0].url]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=as_user(user)) as process:
        yield process
        if process.poll() is None:
            process.kill()


def running_queries(server):
    return server.request("SELECT query_id FROM system.processes WHERE query LIKE '%FROM%place%'"
                          " AND query NOT LIKE '%system%'").split()


def check_ended_question(process, pattern, what):
    out, err = process.communicate(timeout=300)
    check_one_line((out, err, process.returncode), pattern, what)


def test_query_that_is_ended_is_an_error(_large):
    """By a kill at the server asked, or at a shard; by the server's limit of time; with the shard."""
    fleet = Fleet("killed", *FEW)
    fleet.index()
    with clustered(fleet, 2, Cluster) as (fleet, cluster):
        first, second = cluster.servers
        for server in (first, second):
            with endless_question(cluster) as process:
                wait_for(lambda asked=server: running_queries(asked), "a query that runs", 60)
                for query in running_queries(server):
                    server.request(f"KILL QUERY WHERE query_id = '{query}'")
                check_ended_question(process, "the query was killed", "a killed query")
        with endless_question(cluster, "hurried") as process:
            check_ended_question(process, "longer than the server allows", "a limit of time")
        with endless_question(cluster) as process:
            wait_for(lambda: running_queries(second), "a query that runs", 60)
            second.close()
            check_ended_question(process, "a connection to a shard broke off|a shard does not answer", "a killed shard")


class FakeServer(http.server.ThreadingHTTPServer):
    """Answers each query that has a word of `answers` with its bytes, and any other with an error; keeps the queries."""
    daemon_threads = True

    def __init__(self, answers):
        super().__init__(("127.0.0.1", 0), FakeHandler)
        self.answers, self.url, self.asked = answers, f"http://127.0.0.1:{self.server_port}", []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def close(self):
        self.shutdown()
        self.server_close()


class FakeHandler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):  # pylint: disable=invalid-name
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        query = urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query).get("query", [body])[0]
        self.server.asked.append(query)
        found = [answer for word, answer in self.server.answers.items() if word in query]
        self.send_response(200 if found else 500)
        answer = found[0] if found else b"Code: 999. DB::Exception: nothing more is known here"
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_args):  # pylint: disable=arguments-differ
        pass


def text_answer(text):
    return bytes([len(text)]) + text.encode()


def test_keep_goes_by_the_servers_version(_large):
    for version, is_known in (("18.16.1", False), ("19.5.3.8", False), ("19.6.1", True), ("19.13.1.11", True),
                              ("26.5.3", True)):
        with contextlib.closing(FakeServer({"SELECT 1": b"1\n", "version()": text_answer(version)})) as server:
            done = ask("init", "--to", server.url, "--keep", "30d")
            check_one_line(done, "nothing more is known" if is_known else "cannot remove old rows", version)


def test_keep_of_tables_that_are_there_is_refused(_large):
    """If they keep rows for another time; and not if for this."""
    one = struct.pack("<qqq", 1, 3, 3)  # one row: the version of the tables
    for nr, pattern in ((0, "another time: --keep does not change them"), (1, "nothing more is known")):
        answers = {"SELECT 1": b"1\n", "version()": text_answer("26.5.3"), "min(version)": one,
                   "toIntervalDay(30)": struct.pack("<q", nr)}
        with contextlib.closing(FakeServer(answers)) as server:
            check_one_line(ask("init", "--to", server.url, "--keep", "30d"), pattern, f"{nr} such tables")


def test_push_to_a_full_disk_is_an_error(_large):
    """With more room, the same command completes it."""
    if os.geteuid():
        raise Skip("only root can mount a small disk")
    script = 'mkdir data && mount -t tmpfs -o size=2m none data && exec "$@"'
    mounted = [tool("unshare"), "--mount", "--propagation", "private", "sh", "-c", script, "sh"]
    with pushed_fleet(1, lambda nr: Cluster(nr, wrapper=mounted), hosts=10) as (fleet, cluster):
        server = cluster.servers[0]
        out, err = fleet.run("push", "--to", cluster.url, status=1)
        check_equal(len(err.splitlines()), 1, f"lines of {err!r}")
        check(re.search("disk is full|No space left", err) and "the same command pushes them" in err, f"{out!r}, {err!r}")
        for command in ("stats", "hosts"):
            check_one_line(ask(command, "--from", cluster.url), "there are no snapshots in it", command)
        subprocess.run([tool("nsenter"), "--target", str(server.process.pid), "--mount", "mount", "-o", "remount,size=512m",
                        str(server.folder / "data")], check=True)
        fleet.run("push", "--to", cluster.url)
        check_same_as_catalogue(fleet, cluster, "after a full disk")


def make_certificate(folder, name, address):
    """FOLDER/NAME.crt and .key, which it signs itself."""
    subprocess.run([tool("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "1", "-subj", f"/CN={name}", "-addext", f"subjectAltName=IP:{address}",
                    "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.crt"], check=True, capture_output=True)
    return folder / f"{name}.crt"


def test_certificates_and_passwords_are_checked(_large):
    """Also where a user's password would go to another server than the one meant."""
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(Fleet("tls", *FEW)) as fleet:
        fleet.index()
        keys, port = fleet.folder, reserve_ports(1)[0]
        right, wrong = make_certificate(keys, "server", "127.0.0.1"), make_certificate(keys, "other", "127.0.0.1")
        url, password = f"https://127.0.0.1:{port}", keys / "password"
        with Cluster(1, more=TLS.format(https=port, folder=keys)):
            for options, what in ((["--ca-file", wrong], "the wrong CA"), ([], "the system's CAs")):
                check_one_line(ask("init", "--to", url, *options), "certificate", what)
            host = url.replace("127.0.0.1", "localhost")
            check_one_line(ask("init", "--to", host, "--ca-file", right), "localhost", "another host's certificate")
            check_one_line(ask("init", "--to", url, "--ca-file", f"{folder}/none"), "none", "a CA file that is not there")
            known = ["--ca-file", right, "--credentials", password]
            password.touch(0o600)
            password.write_text("user=known\npassword=wrong\n", encoding="ascii")
            for command in (["init", "--to"], ["stats", "--from"]):
                check_one_line(ask(*command, url, *known), "refuses the user or the password", f"{command[0]}: a wrong one")
            password.write_text(f"user=known\npassword={PASSWORD}\n", encoding="ascii")
            fleet.cluster("init", "--to", url, *known)
            fleet.run("push", "--to", url, *known)
            check_equal(fleet.cluster("stats", "--from", url, *known), fleet.run("stats"), "stats over TLS")
