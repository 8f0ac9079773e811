# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The two units: one process records, another one pushes what it writes."""
import gzip
import http.server
import os
import pathlib
import signal
import threading

import unit_file
import harness
from harness import check, check_equal, snapshots_below, wait_for
from privileged import RECORDING, SOMEBODY, allocsnap_with, folder_of, status
from test_record import Record
from test_record_service import numbers


class Endpoint(http.server.ThreadingHTTPServer):
    """A server that keeps what is pushed."""
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.bodies, self.credentials = [], []
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):  # pylint: disable=invalid-name
        self.server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.credentials.append(self.headers.get("Authorization"))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_args):  # pylint: disable=arguments-differ
        pass


def start(bench, folder, unit, capabilities, *args, **more):
    """With the user, limits, mounts, system calls and address families of the unit."""
    path = unit_file.write(bench, "/usr/bin", unit)
    command = allocsnap_with(bench, capabilities, by=unit_file.under_filter(bench, path))
    return bench.start([*unit_file.in_namespaces(folder, path), *command, *args], kind=Record, folder=folder,
                       preexec_fn=lambda: unit_file.set_limits(path), **more)


@harness.core
@harness.alone
def test_one_unit_records_and_the_other_pushes(bench):
    endpoint, target, folder = Endpoint(), bench.workload("holds", "100003"), folder_of(bench, "state", SOMEBODY)
    metrics = os.path.join(folder, "push.prom")
    pusher = start(bench, folder, "allocsnap-push", (), "push", f"http://127.0.0.1:{endpoint.server_port}/ingest", folder,
                   "--watch", "--metrics", metrics, env={**os.environ, "ALLOCSNAP_PUSH_TOKEN": "t0ken"})
    recorder = start(bench, folder, "allocsnap", RECORDING, "record", "-o", folder, "--pid", str(target.pid),
                     "--interval", "1s")
    recorder.line_of("recording", 60)
    check_equal((status(pusher.pid)["Seccomp"], status(pusher.pid)["Uid"], status(pusher.pid)["CapPrm"]), (2, SOMEBODY, 0),
                "seccomp mode, user and capabilities")
    wait_for(lambda: len(endpoint.bodies) >= 2, "two profiles", 60)
    recorder.popen.send_signal(signal.SIGTERM)
    check_equal(recorder.wait(60), 0, "exit status of record")
    pusher.popen.send_signal(signal.SIGTERM)
    check_equal(pusher.wait(60), 0, "exit status of push")
    check_equal(len(endpoint.bodies), len(snapshots_below(folder)), "profiles, of as many snapshots")
    check(all(b"inuse_space" in gzip.decompress(body) for body in endpoint.bodies), "not a heap profile")
    check_equal(set(endpoint.credentials), {"Bearer t0ken"}, "credentials")
    check_equal(numbers(metrics)["allocsnap_push_pushed_total"], len(endpoint.bodies), "the metrics")
    check_equal(pathlib.Path(metrics).stat().st_mode & 0o777, 0o644, "their mode")
