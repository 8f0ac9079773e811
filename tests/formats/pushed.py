# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Pushes to a server of the test's own, which decodes what it receives with Go's pprof."""
import base64
import contextlib
import fcntl
import http.server
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import urllib.parse

from common import (ALLOCSNAP, SNAPSHOTS, Skip, allocsnap, check, check_equal, pprof_raw, pprof_totals, run, stats, test,
                    tool, wait_for)

PATHS = ["/push.v1.PusherService/Push", "/ingest", "/profiles/writeraw"]


class Server(http.server.ThreadingHTTPServer):
    """Answers each request with the next status (or status and text) of `answers`, then with 200, as soon as it may."""
    daemon_threads = True

    def __init__(self, answers=(), tls=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers, self.requests, self.waiting = list(answers), [], 0  # requests that may not be answered
        self.may_answer = threading.Event()
        self.may_answer.set()
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls / "cert.pem", tls / "key.pem")
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.scheme = "https" if tls else "http"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        """A client that goes away, or refuses the certificate, is part of the tests."""

    def url(self, path="/ingest", host="127.0.0.1"):
        return f"{self.scheme}://{host}:{self.server_port}{path}"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):  # pylint: disable=invalid-name
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = self.server.answers.pop(0) if self.server.answers else 200
        status, answer = status if isinstance(status, tuple) else (status, b"{}")
        self.server.waiting += 1
        self.server.may_answer.wait()
        self.server.waiting -= 1
        self.server.requests.append((self.path, dict(self.headers), body, status))
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(answer)

    def log_message(self, *_args):  # pylint: disable=arguments-differ
        pass


def decode(request):
    """Name of the service, labels, and the profile, whichever the protocol."""
    path, _, body, _ = request
    place = urllib.parse.urlsplit(path)
    if place.path == "/ingest":
        query = urllib.parse.parse_qs(place.query)
        check_equal(query["format"], ["pprof"], "format")
        check(int(query["from"][0]) < int(query["until"][0]), f"times: {query}")
        service, _, labels = query["name"][0].rstrip("}").partition("{")
        return service, dict(label.split("=") for label in labels.split(",") if label), body
    series, = json.loads(body)["series"]
    labels = series["labels"]["labels"] if place.path == "/profiles/writeraw" else series["labels"]
    labels = {label["name"]: label["value"] for label in labels}
    check_equal(labels.pop("__name__"), "memory", "__name__")
    return labels.pop("service_name"), labels, base64.b64decode(series["samples"][0]["rawProfile"], validate=True)


def folder_of(folder, *names):
    """A folder of snapshots; the first is the oldest."""
    data = folder / "data" / "4711-shopd"
    data.mkdir(parents=True)
    for i, name in enumerate(names):
        shutil.copy(SNAPSHOTS / f"{name}.snap", data)
        os.utime(data / f"{name}.snap", (1000 + i, 1000 + i))
    return folder / "data"


@test
def each_protocol_carries_the_profile(folder):
    server = Server()
    for path in PATHS:
        out, _ = allocsnap("push", server.url(path), SNAPSHOTS / "new.snap", "--tenant", "shop")
        check_equal(out, "1 pushed\n", path)
        service, labels, profile = decode(server.requests[-1])
        check_equal((service, labels.get("host")), ("shopd", "shop-1"), path)
        (folder / "got.pb.gz").write_bytes(profile)
        check_equal(pprof_totals(folder / "got.pb.gz")["inuse_space/bytes"],
                    stats(SNAPSHOTS / "new.snap")["total"]["size"], f"{path}: bytes")
        check(pprof_raw(folder / "got.pb.gz")[1][0][2]["pid"] == "4711", "no pid")
        headers = server.requests[-1][1]
        check_equal(headers.get("X-Scope-OrgID"), "shop", "tenant")
        check("Authorization" not in headers, "credentials from nowhere")
    allocsnap("push", server.url(), SNAPSHOTS / "new.snap", "--service", "a b{c,d}")
    check_equal(decode(server.requests[-1])[0], "a b_c_d_", "a name with characters of the form")


@test
def each_failure_names_the_address_once(folder):
    """No server, a refusal, and a server that is no ClickHouse, for a file and for a folder."""
    data = folder_of(folder, "old", "new")
    server, gone = Server(answers=[503] * 2 + [200] * 4), Server()
    gone.shutdown()
    gone.server_close()
    for url, said in ((gone.url(), "Couldn't connect"), (gone.url(""), "Couldn't connect"), (server.url(), "HTTP status 503"),
                      (server.url(""), "no ClickHouse")):
        for what in (SNAPSHOTS / "new.snap", data):
            out, err = allocsnap("push", url, what, status=1)
            check(said in err and err.count(url) == 1, f"{url}: {err}")
            check_equal(out.partition(" ")[0], "0", out)


@test
def a_server_that_is_no_clickhouse_is_told_as_such(_folder):
    """A user of Pyroscope gives its address without a path: what it answers to a question in SQL."""
    text = b"<html><body>Grafana Pyroscope, and more of it</body></html>"
    for status, answer in ((200, b"{}"), (200, text), (200, text[:24]), (200, b""), (404, b"404 page not found"), (405, b""),
                           (302, b"")):
        server = Server(answers=[(status, answer)])
        _, err = allocsnap("push", server.url(""), SNAPSHOTS / "new.snap", status=1)
        check("no ClickHouse" in err and "Pyroscope ends with /ingest" in err, f"{status} {answer}: {err}")
    server = Server(answers=[(502, b"bad gateway")])
    _, err = allocsnap("push", server.url(""), SNAPSHOTS / "new.snap", status=1)
    check("no ClickHouse" not in err, f"a gateway: {err}")


@test
def what_failed_waits_and_nothing_is_pushed_twice(folder):
    data = folder_of(folder, "old", "new", "many")
    server = Server(answers=[200, 503])
    out, err = allocsnap("push", server.url(), data, status=1)
    check_equal(out, "1 pushed; 2 wait: the same command tries them again\n", "the first call")
    check("HTTP status 503" in err, err)
    out, _ = allocsnap("push", server.url(), data)
    check_equal(out, "2 pushed\n", "the second call")
    check_equal(allocsnap("push", server.url(), data)[0], "0 pushed\n", "the third call")
    check_equal([status for _, _, _, status in server.requests], [200, 503, 200, 200], "requests")
    check_equal(len({decode(request)[2] for request in server.requests}), 3, "different profiles")
    shutil.copy(SNAPSHOTS / "cxx.snap", data)
    check_equal(allocsnap("push", server.url(), data)[0], "1 pushed\n", "a new file")
    check_equal(allocsnap("push", server.url("/profiles/writeraw"), data)[0], "4 pushed\n", "another endpoint")


@test
def an_endpoint_that_is_not_there_loses_nothing(folder):
    data = folder_of(folder, "old", "new")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/ingest"
        out, err = allocsnap("push", url, data, status=1)
    check_equal(out, "0 pushed; 2 wait: the same command tries them again\n", "refused")
    check("Couldn't connect" in err, err)
    _, err = allocsnap("push", url, data / "4711-shopd" / "new.snap", status=1)
    check("not pushed" in err, err)


@test
def an_endpoint_that_does_not_answer_is_given_up_in_time(folder):
    data = folder_of(folder, "old", "new")
    server = Server()
    server.may_answer.clear()
    out, err = allocsnap("push", server.url(), data, "--timeout", "500ms", status=1)
    check(not server.requests, "an endpoint that does not answer has answered")
    check_equal(out, "0 pushed; 2 wait: the same command tries them again\n", "a timeout")
    check("imeout" in err, err)


@test
def a_rejected_profile_does_not_hold_up_the_others(folder):
    data = folder_of(folder, "old", "new", "many")
    (data / "broken.snap").write_bytes(b"ALOCSNAP and no more")
    server = Server(answers=[200, 422])
    out, err = allocsnap("push", server.url(), data, status=1)
    check_equal(out, "2 pushed, 2 rejected\n", "one rejected, one broken")
    check("HTTP status 422" in err and "broken.snap" in err, err)
    check_equal(allocsnap("push", server.url(), data)[0], "0 pushed\n", "it is not tried again")


@test
def a_full_queue_gives_up_the_oldest_and_says_so(folder):
    data = folder_of(folder, "old", "new", "many")
    server = Server()
    out, err = allocsnap("push", server.url(), data, "--max-waiting", "1")
    check_equal(out, "1 pushed, 2 given up\n", "a bound of one")
    check("2 snapshots given up" in err, err)
    (folder / "got.pb.gz").write_bytes(decode(server.requests[0])[2])
    check_equal(pprof_totals(folder / "got.pb.gz")["inuse_space/bytes"],
                stats(SNAPSHOTS / "many.snap")["total"]["size"], "the latest")


@test
def credentials_are_not_for_everyone(folder):
    server, secret, snap = Server(), folder / "secret", SNAPSHOTS / "new.snap"
    secret.write_text("# for the test\nuser=me\npassword=a b=c\n", encoding="utf-8")
    secret.chmod(0o644)
    _, err = allocsnap("push", server.url(), snap, "--credentials", secret, status=1)
    check("chmod 600" in err and not server.requests, err)
    secret.chmod(0o600)
    allocsnap("push", server.url(), snap, "--credentials", secret)
    check_equal(server.requests[-1][1]["Authorization"], "Basic " + base64.b64encode(b"me:a b=c").decode(), "user")
    allocsnap("push", server.url(), snap, env={"ALLOCSNAP_PUSH_TOKEN": "t0ken"})
    check_equal(server.requests[-1][1]["Authorization"], "Bearer t0ken", "token")
    secret.write_text("tokn=x\n", encoding="utf-8")
    _, err = allocsnap("push", server.url(), snap, "--credentials", secret, status=1)
    check("line 1" in err and "tokn" not in err, err)
    _, err = allocsnap("push", "http://example.org/ingest", snap, env={"ALLOCSNAP_PUSH_TOKEN": "t0ken"}, status=1)
    check("over https only" in err, err)
    _, err = allocsnap("push", "http://127.evil.example/ingest", snap, env={"ALLOCSNAP_PUSH_TOKEN": "t0ken"}, status=1)
    check("over https only" in err, err)
    _, err = allocsnap("push", server.url(), snap, env={"ALLOCSNAP_PUSH_PASSWORD": "t0ken"}, status=1)
    check("no user" in err, err)
    proxy = Server()
    allocsnap("push", server.url(), snap, env={"ALLOCSNAP_PUSH_TOKEN": "", "http_proxy": proxy.url("")})
    check("Authorization" not in server.requests[-1][1] and not proxy.requests, "an empty token, and a proxy")
    for url in ("http://me:pw@127.0.0.1/ingest", "ftp://127.0.0.1/ingest", "http://127.0.0.1/other", "/ingest"):
        _, err = allocsnap("push", url, snap, status=2)
        check("pw" not in err and len(err.splitlines()) == 1, err)


@test
def certificates_are_verified(folder):
    run(tool("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", folder / "key.pem", "-out",
        folder / "cert.pem")
    server, snap = Server(tls=folder), SNAPSHOTS / "new.snap"
    _, err = allocsnap("push", server.url(host="localhost"), snap, status=1)
    check("certificate" in err.lower() and not server.requests, err)
    allocsnap("push", server.url(host="localhost"), snap, "--ca-file", folder / "cert.pem")
    check_equal(len(server.requests), 1, "requests with the certificate trusted")
    _, err = allocsnap("push", server.url(host="127.0.0.1"), snap, "--ca-file", folder / "cert.pem", status=1)
    check_equal(len(server.requests), 1, "requests under another name")


@test
def redirects_are_not_followed(_folder):
    server = Server(answers=[302])
    _, err = allocsnap("push", server.url(), SNAPSHOTS / "new.snap", status=1)
    check("HTTP status 302" in err, err)
    check_equal(len(server.requests), 1, "requests")


# ---- a folder that grows ----

@contextlib.contextmanager
def watching(server, data, *options):
    """The process, and a function for the number NAME in its metrics."""
    metrics = data.parent / "push.prom"
    argv = [ALLOCSNAP, "push", server.url(), data, "--watch", "--metrics", metrics, *options]

    def number(name):
        lines = metrics.read_text(encoding="utf-8").splitlines() if metrics.exists() else []
        return next((int(line.split()[1]) for line in lines if line.startswith(f"allocsnap_push_{name} ")), 0)

    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process, number
        finally:
            process.kill()


def end(process, status=0):
    """Its output and its messages."""
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    check_equal(process.returncode, status, f"exit status ({err!r})")
    return out, err


@test
def a_watched_folder_is_pushed_as_it_grows(folder):
    data, server = folder_of(folder, "old"), Server()
    with watching(server, data) as (process, number):
        wait_for(lambda: number("pushed_total") == 1, "what was there", 60)
        shutil.copy(SNAPSHOTS / "new.snap", data)
        wait_for(lambda: number("pushed_total") == 2, "what came", 60)
        check_equal((number("up"), number("waiting"), number("failures_total")), (1, 0, 0), "up, waiting, failures")
        shutil.copy(SNAPSHOTS / "many.snap", data)
        check_equal(end(process), ("3 pushed\n", ""), "at its end")
        check_equal((number("pushed_total"), number("up")), (3, 0), "pushed, up")
    check_equal((len(server.requests), profiles_of(server)), (3, 3), "requests, and different profiles")


@test
def a_watched_folder_waits_for_its_endpoint(folder):
    """It fails once, and does not answer later; the folder is not there at first."""
    data, server = folder / "later", Server(answers=[503])
    with watching(server, data, "--timeout", "2s") as (process, number):
        wait_for(lambda: number("up") == 1, "a look at a folder that is not there", 60)
        folder_of(folder, "old", "new").rename(data)
        wait_for(lambda: number("failures_total") == 1, "a failure of the endpoint", 60)
        check(number("waiting") == 2, "none waits")
        wait_for(lambda: number("pushed_total") == 2, "another attempt", 60)
        _, err = allocsnap("push", server.url(), data, status=1)
        check("another process pushes this folder to this URL" in err, err)
        server.may_answer.clear()
        shutil.copy(SNAPSHOTS / "many.snap", data)
        wait_for(lambda: server.waiting, "a request without an answer", 60)
        out, err = end(process, status=1)
    check_equal(out, "2 pushed; 1 waits: the same command tries it again\n", "at its end")
    check("HTTP status 503" in err and "are pushed to" in err, err)


@test
def a_watched_folder_that_is_missing_is_named(folder):
    data = folder / "later"
    with watching(Server(), data) as (process, number):
        wait_for(lambda: number("up") == 1, "a look at a folder that is not there", 60)
        out, err = end(process)
    check_equal(out, "0 pushed\n", "at its end")
    check_equal(err, f"allocsnap: push: {data} does not exist yet: push waits for it\n", "at its begin, once")


@test
def a_watched_folder_needs_few_rights(folder):
    """It reads the credentials while it has all rights, and passes folders that it cannot read afterwards."""
    if os.geteuid():
        raise Skip("only root has rights to give up")
    data, server, secret = folder_of(folder, "old"), Server(), folder / "secret"
    secret.write_text("token=t0ken\n", encoding="utf-8")
    secret.chmod(0o600)
    (data / "lost+found").mkdir(mode=0o700)
    for path in (secret, data / "lost+found"):
        os.chown(path, 65534, 65534)
    with watching(server, data, "--credentials", secret) as (process, number):
        wait_for(lambda: number("pushed_total") == 1, "the snapshot", 60)
        wait_for(lambda: len(server.requests) == 1, "the request", 60)
        rights = pathlib.Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
        check("CapPrm:\t0000000000000000" in rights, rights)
        _, err = end(process)
    check_equal(server.requests[0][1].get("Authorization"), "Bearer t0ken", "credentials")
    check_equal(err.count("lost+found: Permission denied: left out"), 1, f"warnings: {err}")


@test
def what_a_watch_does_not_take_is_refused(folder):
    data, server = folder_of(folder, "old"), Server()
    for words in ([data, data, "--watch"], [data / "4711-shopd" / "old.snap", "--watch"], [data, "--metrics", folder / "x"]):
        _, err = allocsnap("push", server.url(), *words, status=2)
        check("--watch" in err, err)


# ---- what the machine refuses ----

def profiles_of(server):
    """The different profiles that the server took."""
    return len({decode(request)[2] for request in server.requests if request[3] == 200})


@test
def a_folder_has_one_pusher_at_a_time(folder):
    data, server = folder_of(folder, "old", "new"), Server()
    check_equal(allocsnap("push", server.url(), data)[0], "2 pushed\n", "alone")
    shutil.copy(SNAPSHOTS / "many.snap", data)
    with open(next(data.glob(".push-*")), encoding="utf-8") as notes:
        fcntl.flock(notes, fcntl.LOCK_EX)
        out, err = allocsnap("push", server.url(), data, status=1)
        check_equal(out, "0 pushed\n", "beside another one")
        check("another process pushes this folder to this URL" in err and len(err.splitlines()) == 1, err)
        check_equal(allocsnap("push", server.url("/profiles/writeraw"), data)[0], "3 pushed\n", "to another endpoint")
    check_equal(allocsnap("push", server.url(), data)[0], "1 pushed\n", "alone again")


@contextlib.contextmanager
def small_disk(folder):
    """The folder is a file system of 1 MiB."""
    if os.geteuid():
        raise Skip("only root may mount a file system")
    run("mount", "-t", "tmpfs", "-o", "size=1m", "none", folder)
    try:
        yield
    finally:
        run("umount", folder)


def fill_disk(folder):
    """A file that takes all that is left."""
    path = folder / "filler"
    with contextlib.suppress(OSError), open(path, "wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    return path


@test
def a_full_disk_pushes_twice_rather_than_never(folder):
    data, server = folder / "data", Server()
    data.mkdir()
    with small_disk(data):
        for name in ("old", "new"):
            shutil.copy(SNAPSHOTS / f"{name}.snap", data)
        filler = fill_disk(data)
        out, err = allocsnap("push", server.url(), data, status=1)
        check_equal((out, len(server.requests)), ("1 pushed; 1 waits: the same command tries it again\n", 1), "without a note")
        check("No space left on device" in err, err)
        notes = next(data.glob(".push-*"))
        check_equal(notes.read_bytes(), b"", "notes")
        filler.unlink()
        check_equal(allocsnap("push", server.url(), data)[0], "2 pushed\n", "with room again")
        check_equal((len(server.requests), profiles_of(server)), (3, 2), "requests, and different profiles")
        check_equal(allocsnap("push", server.url(), data)[0], "0 pushed\n", "all are noted")


@test
def a_note_that_does_not_fit_leaves_no_part_of_it(folder):
    data, server = folder / "data", Server()
    data.mkdir()
    with small_disk(data):
        shutil.copy(SNAPSHOTS / "old.snap", data)
        allocsnap("push", server.url(), data)
        notes = next(data.glob(".push-*"))
        before = notes.read_bytes()
        for length in [200] * 20 + [4096 - 8 - len(before) - 20 * 200]:
            before += b"pushed " + b"x" * (length - len("pushed .snap\n")) + b".snap\n"
        notes.write_bytes(before)
        check_equal(len(before), 4096 - 8, "a page, less eight bytes")
        shutil.copy(SNAPSHOTS / "new.snap", data)
        filler = fill_disk(data)
        _, err = allocsnap("push", server.url(), data, status=1)
        check("No space left on device" in err, err)
        check_equal(notes.read_bytes(), before, "notes")
        filler.unlink()
        check_equal(allocsnap("push", server.url(), data)[0], "1 pushed\n", "once more")
        check_equal(notes.read_text(encoding="utf-8"), "pushed old.snap\npushed new.snap\n", "notes")


@test
def too_few_descriptors_lose_nothing(folder):
    """Whichever of them is the one too many: the note, the snapshot, the library, the connection."""
    failed = 0
    for limit in range(4, 24):
        data, server = folder_of(pathlib.Path(folder, str(limit)), "old", "new"), Server()
        with_limit = [tool("prlimit"), f"--nofile={limit}", ALLOCSNAP]
        if "error while loading" in run(*with_limit, "--version", status=None)[1]:
            continue
        out, err = run(*with_limit, "push", server.url(), data, status=None)
        done = out == "2 pushed\n"
        check(done or "Too many open files" in err or "onnect" in err or "libcurl" in err, f"{limit}: {out!r}, {err!r}")
        check("rejected" not in out and "given up" not in out, f"{limit}: {out!r}, {err!r}")
        failed += not done
        allocsnap("push", server.url(), data)
        check_equal((len(server.requests), profiles_of(server)), (2, 2), f"{limit}: requests, and different profiles")
    check(2 <= failed < 20, f"{failed} limits of 20 were too low")
