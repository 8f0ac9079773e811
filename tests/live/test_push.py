# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""record --push: a process of its own sends each snapshot, and the recorder never waits for it."""
import fcntl
import gzip
import http.server
import os
import pathlib
import signal
import threading
import time

import unit_file
import harness
from harness import ALLOCSNAP, check, check_equal, children_of, snapshots_below, wait_for
from privileged import RECORDING, SOMEBODY, allocsnap_with, folder_of, status
from test_record import Record
from test_record_service import numbers


class Endpoint(http.server.ThreadingHTTPServer):
    """A server that keeps what is pushed; it answers with `status`, or never."""
    daemon_threads = True

    def __init__(self, status=200):
        super().__init__(("127.0.0.1", 0), Handler)
        self.status, self.bodies, self.credentials = status, [], []
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.waiting = 0  # handlers that may not answer
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def url(self):
        return f"http://127.0.0.1:{self.server_port}/ingest"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):  # pylint: disable=invalid-name
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.waiting += 1
        self.server.may_answer.wait()
        self.server.waiting -= 1
        if self.server.status == 200:
            self.server.bodies.append(body)
            self.server.credentials.append(self.headers.get("Authorization"))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_args):  # pylint: disable=arguments-differ
        pass


def start(bench, endpoint, *options, command=(ALLOCSNAP,), folder=None, **more):
    target = bench.workload("holds", "100003")
    folder = folder or bench.path("data")
    metrics = os.path.join(folder, "metrics.prom")
    recorder = bench.start([*command, "record", "-o", folder, "--pid", str(target.pid), "--interval", "1s",
                            "--metrics", metrics, "--push", endpoint.url(), *options], kind=Record, folder=folder, **more)
    recorder.line_of("recording", 60)
    return recorder, target, metrics


@harness.core
@harness.alone
def test_record_pushes_each_snapshot(bench):
    endpoint = Endpoint()
    recorder, _, metrics = start(bench, endpoint)
    wait_for(lambda: len(recorder.paths()) >= 2, "two snapshots", 60)
    check("allocsnap" in " ".join(comm for _, comm in children_of(recorder.pid)), "no process of its own")
    wait_for(lambda: len(endpoint.bodies) >= 2, "two profiles", 60)
    for body in endpoint.bodies:
        check(b"inuse_space" in gzip.decompress(body), "not a heap profile")
    recorder.popen.send_signal(signal.SIGTERM)
    check_equal(recorder.wait(60), 0, "exit status")
    bench.run([ALLOCSNAP, "push", endpoint.url(), recorder.folder])  # what it had no time for at its end
    check_equal(len(endpoint.bodies), len(snapshots_below(recorder.folder)), "profiles, of as many snapshots")
    check("allocsnap_push_pushed_total" in pathlib.Path(metrics).read_text(encoding="utf-8"), "no metrics of pushes")


@harness.alone
def test_record_pushes_with_few_rights(bench):
    """It reads the credentials while it has all rights, and passes folders that it cannot read afterwards."""
    endpoint, secret, hidden = Endpoint(), pathlib.Path(bench.path("secret")), pathlib.Path(bench.path("data/lost+found"))
    secret.write_text("token=t0ken\n", encoding="utf-8")
    secret.chmod(0o600)
    hidden.mkdir(parents=True)
    hidden.chmod(0o700)
    for path in (secret, hidden):
        os.chown(path, 65534, 65534)
    recorder, _, _ = start(bench, endpoint, "--push-credentials", str(secret))
    wait_for(lambda: len(endpoint.bodies) >= 2, "two profiles", 60)
    check_equal(set(endpoint.credentials), {"Bearer t0ken"}, "credentials")
    recorder.popen.send_signal(signal.SIGTERM)
    check_equal(recorder.wait(60), 0, "exit status")
    check_equal(recorder.stderr().count("lost+found: Permission denied: left out"), 1, "warnings")


@harness.alone
def test_record_pushes_under_the_unit(bench):
    """With the user, capabilities, limits, mounts, system calls and address families of the unit and of its drop-in."""
    path = unit_file.write(bench, "/usr/bin")
    unit_file.allow_network(path)
    endpoint, folder, secret = Endpoint(), folder_of(bench, "state", SOMEBODY), pathlib.Path(bench.path("secret"))
    secret.write_text("token=t0ken\n", encoding="utf-8")
    secret.chmod(0o600)
    command = allocsnap_with(bench, RECORDING, by=unit_file.under_filter(bench, path))
    recorder, _, _ = start(bench, endpoint, "--push-credentials", str(secret), folder=folder,
                           command=(*unit_file.in_namespaces(folder, path), *command),
                           preexec_fn=lambda: unit_file.set_limits(path))
    check_equal((status(recorder.pid)["Seccomp"], status(recorder.pid)["Uid"]), (2, SOMEBODY), "seccomp mode and user")
    wait_for(lambda: len(endpoint.bodies) >= 2, "two profiles", 60)
    check_equal(set(endpoint.credentials), {"Bearer t0ken"}, "credentials")
    pushing = processes_that_push(recorder)
    check_equal(status(pushing)["CapPrm"], 0, "capabilities of the process that pushes")
    recorder.popen.send_signal(signal.SIGTERM)
    check_equal(recorder.wait(60), 0, "exit status")
    check("not pushed" not in recorder.stderr() and "push:" not in recorder.stderr(), recorder.stderr())


@harness.alone
def test_the_unit_itself_forbids_pushes(bench):
    """Without the drop-in: so the test above would fail if it were not needed."""
    path = unit_file.write(bench, "/usr/bin")
    endpoint, folder = Endpoint(), folder_of(bench, "state", SOMEBODY)
    command = allocsnap_with(bench, RECORDING, by=unit_file.under_filter(bench, path))
    recorder, _, metrics = start(bench, endpoint, folder=folder, command=(*unit_file.in_namespaces(folder, path), *command),
                                 preexec_fn=lambda: unit_file.set_limits(path))
    wait_for(lambda: pathlib.Path(metrics).exists() and
             numbers(metrics).get("allocsnap_push_failures_total", 0) >= 1, "a failure in the metrics", 60)
    recorder.popen.send_signal(signal.SIGTERM)
    recorder.wait(60)
    check_equal(endpoint.bodies, [], "profiles")


def processes_that_push(recorder):
    pushing, = [pid for pid, _ in children_of(recorder.pid)
                if b"pushes snapshots" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()]
    return pushing


@harness.alone
def test_record_waits_for_another_pusher(bench):
    """Another process has the queue: nothing is pushed twice, and all is pushed later."""
    endpoint = Endpoint()
    recorder, _, metrics = start(bench, endpoint)
    wait_for(lambda: endpoint.bodies, "a profile", 60)
    _, err = bench.allocsnap("push", endpoint.url(), recorder.folder, status=1)
    check("another process pushes this folder to this URL" in err, err)
    recorder.popen.send_signal(signal.SIGTERM)
    check_equal(recorder.wait(60), 0, "exit status")
    notes = next(pathlib.Path(recorder.folder).glob(".push-*"))
    del endpoint.bodies[:]
    with open(notes, encoding="utf-8") as locked:
        fcntl.flock(locked, fcntl.LOCK_EX)
        second, _, _ = start(bench, endpoint, folder=recorder.folder)
        wait_for(lambda: numbers(metrics).get("allocsnap_push_failures_total", 0) >= 1, "a failure in the metrics", 60)
        check_equal(endpoint.bodies, [], "profiles beside another process")
    wait_for(lambda: endpoint.bodies, "a profile, once it is alone", 60)
    second.popen.send_signal(signal.SIGTERM)
    check_equal(second.wait(60), 0, "exit status")
    check("another process pushes" in second.stderr(), second.stderr())
    out, _ = bench.allocsnap("push", endpoint.url(), recorder.folder)
    check_equal(out, "0 pushed\n", "nothing is left")


@harness.alone
def test_record_notices_that_its_pushes_ended(bench):
    endpoint = Endpoint()
    recorder, _, metrics = start(bench, endpoint)
    wait_for(lambda: endpoint.bodies, "a profile", 60)
    check_equal(numbers(metrics)["allocsnap_push_up"], 1, "up")
    os.kill(processes_that_push(recorder), signal.SIGKILL)
    wait_for(lambda: numbers(metrics)["allocsnap_push_up"] == 0, "the metrics", 60)
    recorder.popen.send_signal(signal.SIGTERM)
    check_equal(recorder.wait(60), 0, "exit status")
    check_equal(recorder.stderr().count("the process that pushes has ended (signal 9)"), 1, "lines")
    check("snapshots may not be pushed yet: allocsnap push" in recorder.stderr(), recorder.stderr())


@harness.alone
def test_record_does_not_wait_for_a_dead_endpoint(bench):
    endpoint = Endpoint()
    endpoint.may_answer.clear()
    recorder, _, metrics = start(bench, endpoint)
    wait_for(lambda: len(recorder.paths()) >= 8, "a snapshot each second", 60)
    check_equal(numbers(metrics)["allocsnap_push_pushed_total"], 0, "pushed")
    begun = time.monotonic()
    recorder.popen.send_signal(signal.SIGTERM)
    check_equal(recorder.wait(60), 0, "exit status")
    check(time.monotonic() - begun < 20, "the end took as long as the endpoint")
    check("not pushed yet: allocsnap push" in recorder.stderr(), recorder.stderr())
    endpoint.may_answer.set()
    wait_for(lambda: not endpoint.waiting, "answers to what was pushed before")
    del endpoint.bodies[:]
    written = len(snapshots_below(recorder.folder))
    out, _ = bench.allocsnap("push", endpoint.url(), recorder.folder)
    check_equal(out, f"{written} pushed\n", "the files are the queue")
    check_equal(len(endpoint.bodies), written, "profiles")


@harness.alone
def test_record_counts_failed_pushes(bench):
    endpoint = Endpoint(status=503)
    recorder, _, metrics = start(bench, endpoint)
    wait_for(lambda: pathlib.Path(metrics).exists() and
             numbers(metrics).get("allocsnap_push_failures_total", 0) >= 1, "a failure in the metrics", 60)
    check(numbers(metrics)["allocsnap_push_waiting"] >= 1, "none waits")
    check("HTTP status 503" in recorder.stderr(), recorder.stderr())
    endpoint.status = 200
    wait_for(lambda: endpoint.bodies, "another attempt", 60)
    recorder.popen.send_signal(signal.SIGTERM)
    check_equal(recorder.wait(60), 0, "exit status")
