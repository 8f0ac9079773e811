# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""allocsnap symbolize asks debuginfod servers: a real one, and one that fails and lies."""
import contextlib
import http.server
import os
import shutil
import threading
import time

import harness
from harness import ALLOCSNAP, check, check_equal, tool, wait_for
from harness.ports import reserve_ports
from test_symbolize import build_shop, callers, record

KEEPS = {"DEBUGINFOD_TIMEOUT": "1", "DEBUGINFOD_MAXTIME": "3", "DEBUGINFOD_MAXSIZE": "1000000"}


@contextlib.contextmanager
def served(answer):
    """The URL of a server that leaves each request to answer(request), and the paths that were asked for."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):  # pylint: disable=invalid-name
            asked.append(self.path)
            with contextlib.suppress(OSError):
                answer(self)

        def log_message(self, *_):  # pylint: disable=arguments-differ
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


def symbolize(bench, path, urls, **environment):
    """The messages of symbolize. The copy of the snapshot is copy.snap."""
    return bench.run([ALLOCSNAP, "symbolize", path, "-o", bench.path("copy.snap")], env={
        **os.environ, **KEEPS, "DEBUGINFOD_CACHE_PATH": bench.path("cache"), "DEBUGINFOD_URLS": urls, **environment})[1]


def recorded_shop(bench):
    """A snapshot without names of a stripped program, the file debuginfo of its debug file, its build-id."""
    shop, debug, build_id = build_shop(bench)
    path = record(bench, "out", [shop], "--no-names")
    return path, os.path.join(debug, ".build-id", build_id[:2], build_id[2:] + ".debug"), build_id


def send(request, body):
    request.send_response(200)
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


def names_of_copy(bench):
    return callers(bench, bench.path("copy.snap"))[-3:]


def cached_files(bench):
    return [name for _, _, names in os.walk(bench.path("cache")) for name in names]


@harness.core
def test_debuginfod_names_a_stripped_program(bench):
    """Debian's server finds the debug file, and later the program itself, which is here no more. The cache answers then."""
    shop, debug, _ = build_shop(bench)
    path = record(bench, "out", [shop], "--no-names")
    shutil.copy(shop, os.path.join(debug, "shop"))
    port, = reserve_ports(1)
    bench.start([tool("debuginfod"), "-d", bench.path("index.sqlite"), "-p", str(port), "-F", debug])
    url = f"http://127.0.0.1:{port}"
    wait_for(lambda: "1 file fetched" in symbolize(bench, path, url), "the server's debug file", 60)
    check_equal(names_of_copy(bench), ["main", "stock", "shelf"], "with the server's debug file")
    os.unlink(shop)
    stderr = symbolize(bench, path, url)
    check("1 file fetched" in stderr and "1 from the cache" in stderr, stderr)
    check_equal(names_of_copy(bench), ["main", "stock", "shelf"], "with the server's program")
    check_equal(sorted(cached_files(bench)), ["debuginfo", "executable"], "cached files")
    stderr = symbolize(bench, path, "http://127.0.0.1:1")
    check("2 from the cache" in stderr, stderr)
    check_equal(names_of_copy(bench), ["main", "stock", "shelf"], "from the cache")


def drip(request):
    """One byte now and then, until the client goes away."""
    request.send_response(200)
    request.send_header("Content-Length", "500000")
    request.end_headers()
    while True:
        request.wfile.write(b"x")
        threading.Event().wait(0.2)


def flood(request):
    request.send_response(200)
    request.end_headers()
    while True:
        request.wfile.write(bytes(1 << 16))


def claim_10_gib(request):
    request.send_response(200)
    request.send_header("Content-Length", str(10 << 30))
    request.end_headers()


def redirect_to_a_file(request):
    request.send_response(302)
    request.send_header("Location", "file:///etc/passwd")
    request.end_headers()


@harness.core
@harness.rows({
    "no_elf_file": (lambda request: send(request, b"<html>"), "is no ELF file; it is asked no more"),
    "another_program": (lambda request: send(request, open("/bin/true", "rb").read()),
                        "does not have the build-id that was asked for; it is asked no more"),
    "slow": (drip, "too slow: 0 KiB came in the time that a file has; it is asked no more"),
    "endless": (flood, "has more than 977 KiB, and is left out (DEBUGINFOD_MAXSIZE)"),
    "10_gib": (claim_10_gib, "has more than 977 KiB, and is left out (DEBUGINFOD_MAXSIZE)"),
    "broken": (lambda request: request.send_error(500), "it answers with status 500; it is asked no more"),
    "of_files": (redirect_to_a_file, "Unsupported protocol; it is asked no more"),
})
def test_debuginfod_that_is_no_help(bench, answer, words):
    """One line says what a server has done. The next server is asked, and names come from it; nothing wrong is kept."""
    path, debug_file, build_id = recorded_shop(bench)
    debug = open(debug_file, "rb").read()
    mine = lambda request: send(request, debug) if build_id in request.path else request.send_error(404)
    with served(answer) as (bad, asked), served(mine) as (good, _):
        stderr = symbolize(bench, path, bad)
        lines = [line for line in stderr.splitlines() if bad in line]
        check(len(lines) == 1 or "DEBUGINFOD_MAXSIZE" in words, f"lines about the server: {lines}")
        check(all(words in line for line in lines) and lines, f"{words!r} in {lines}")
        check(len(asked) == 1 or "asked no more" not in words, f"requests: {asked}")
        check_equal(names_of_copy(bench)[-1], None, "names from a server that has none")
        check_equal(cached_files(bench), [], "cached files")
        symbolize(bench, path, f"{bad} {good}")
    check_equal(names_of_copy(bench), ["main", "stock", "shelf"], "from the second server")


def test_debuginfod_that_is_down(bench):
    """A port without a server; and a server that has no such file is no trouble."""
    path, _, _ = recorded_shop(bench)
    port, = reserve_ports(1)
    stderr = symbolize(bench, path, f"http://name:secret@127.0.0.1:{port}/")
    check("secret" not in stderr, stderr)
    check_equal(stderr.count(f"debuginfod: 127.0.0.1:{port}: Couldn't connect to server; it is asked no more"), 1, stderr)
    with served(lambda request: request.send_error(404)) as (url, asked):
        stderr = symbolize(bench, path, url)
    check(asked and url not in stderr, stderr)
    check("no debug file of it was found here or on a debuginfod server" in stderr, stderr)


@harness.core
def test_debuginfod_is_asked_without_privileges(bench):
    """The process that speaks to the server has neither root's user nor a capability, and only it has libcurl."""
    path, _, _ = recorded_shop(bench)
    may_end = threading.Event()
    with served(lambda request: may_end.wait()) as (url, asked):
        command = bench.start([ALLOCSNAP, "symbolize", path, "-o", bench.path("copy.snap")], env={
            **os.environ, "DEBUGINFOD_CACHE_PATH": bench.path("cache"), "DEBUGINFOD_URLS": url})
        wait_for(lambda: asked, "a request", 30)
        fetchers = [pid for pid, name in harness.children_of(command.pid) if name == "allocsnap-fetch"]
        check_equal(len(fetchers), 1, "processes that ask")
        status = dict(line.split(":\t", 1) for line in open(f"/proc/{fetchers[0]}/status") if ":\t" in line)
        check(all(int(user) > 1 << 31 for user in status["Uid"].split()), status["Uid"])
        for name in ("CapEff", "CapPrm", "CapInh", "CapAmb"):
            check_equal(int(status[name], 16), 0, name)
        check_equal(status["NoNewPrivs"].strip(), "1", "no_new_privs")
        check("libcurl" in open(f"/proc/{fetchers[0]}/maps").read(), "the process that asks has no libcurl")
        check("libcurl" not in open(f"/proc/{command.pid}/maps").read(), "root's process has libcurl")
        may_end.set()


def test_debuginfod_keeps_nothing_where_others_write(bench):
    """A cache that is another user's is not used, and a recording asks no server."""
    path, debug_file, _ = recorded_shop(bench)
    debug = open(debug_file, "rb").read()
    os.mkdir(bench.path("cache"))
    os.chown(bench.path("cache"), 1, 1)
    with served(lambda request: send(request, debug)) as (url, asked):
        stderr = symbolize(bench, path, url)
        check("what comes is not kept: another user can write into" in stderr, stderr)
        check_equal(names_of_copy(bench), ["main", "stock", "shelf"], "names")
        check_equal(cached_files(bench), [], "cached files")
        del asked[:]
        with harness.environment("DEBUGINFOD_URLS", url):
            record(bench, "again", [bench.path("shop")])
        check_equal(asked, [], "what a recording has asked for")


def test_debuginfod_removes_what_was_not_used(bench):
    """After a week, or after the time that libdebuginfod was given; nothing else."""
    path, debug_file, build_id = recorded_shop(bench)
    debug = open(debug_file, "rb").read()
    names = [f"{'1' * 40}/debuginfo", f"{'2' * 40}/executable", f"{'2' * 40}/other", "notes/debuginfo"]
    for name in names:
        os.makedirs(os.path.dirname(bench.path(f"cache/{name}")), exist_ok=True)
        open(bench.path(f"cache/{name}"), "w").close()
        os.utime(bench.path(f"cache/{name}"), (time.time() - 8 * 86400,) * 2)
    for name, age in ("3", 8), ("4", 1):  # of files that no server had
        os.mkdir(bench.path(f"cache/{name * 40}"))
        os.utime(bench.path(f"cache/{name * 40}"), (time.time() - age * 86400,) * 2)
    with served(lambda request: send(request, debug)) as (url, _):
        with open(bench.path("cache/max_unused_age_s"), "w") as file:
            file.write(str(9 * 86400))
        symbolize(bench, path, url)
        check(all(os.path.exists(bench.path(f"cache/{name}")) for name in names), "removed too early")
        os.unlink(bench.path("cache/max_unused_age_s"))
        symbolize(bench, path, url)
    left = [name for name in (*names, f"{build_id}/debuginfo") if os.path.exists(bench.path(f"cache/{name}"))]
    check_equal(left, [*names[2:], f"{build_id}/debuginfo"], "what is left")
    check_equal([name for name in "1234" if os.path.exists(bench.path(f"cache/{name * 40}"))], ["2", "4"], "folders that are left")


def test_debuginfod_replaces_a_wrong_file_in_the_cache(bench):
    """libdebuginfod keeps whatever a server has sent."""
    path, debug_file, build_id = recorded_shop(bench)
    debug = open(debug_file, "rb").read()
    os.makedirs(bench.path(f"cache/{build_id}"))
    shutil.copy(ALLOCSNAP, bench.path(f"cache/{build_id}/debuginfo"))
    with served(lambda request: send(request, debug)) as (url, _):
        stderr = symbolize(bench, path, url)
    check("the cache has a wrong file for" in stderr and "1 file fetched" in stderr, stderr)
    check_equal(names_of_copy(bench), ["main", "stock", "shelf"], "names")
    check_equal(open(bench.path(f"cache/{build_id}/debuginfo"), "rb").read(), debug, "the cached file")


def test_debuginfod_ends_with_its_command(bench):
    """SIGKILL of the command ends the process that waits for a server."""
    path, _, _ = recorded_shop(bench)
    may_end = threading.Event()
    with served(lambda request: may_end.wait()) as (url, asked):
        command = bench.start([ALLOCSNAP, "symbolize", path], env={
            **os.environ, "DEBUGINFOD_CACHE_PATH": bench.path("cache"), "DEBUGINFOD_URLS": url})
        wait_for(lambda: asked, "a request", 30)
        children = harness.children_of(command.pid)
        command.kill()
        wait_for(lambda: not any(harness.is_running(pid) for pid, _ in children), "the end of its processes", 30)
        may_end.set()
