# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""allocsnap.service of the package, which systemd starts, watches, stops and upgrades."""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess

from harness import (WORKLOADS, Bench, Law, Workload, changed_places, check, check_equal, link_holder_of, pending_signals,
                     strangers_probes, wait_for)

MARKS = ("alone",)

STATE = pathlib.Path("/var/lib/allocsnap")
METRICS = pathlib.Path("/run/allocsnap/allocsnap.prom")
OPTIONS = pathlib.Path("/etc/default/allocsnap")
SETTINGS = pathlib.Path("/run/systemd/system/allocsnap.service.d/test.conf")
PARANOID = pathlib.Path("/proc/sys/kernel/perf_event_paranoid")
LATER = pathlib.Path(__file__).resolve().parents[1] / "later.deb"
SIZE = 100003


class Held(Workload):
    """A program that waits until its input ends."""

    def is_unharmed(self):
        check_equal(self.popen.poll(), None, f"how {self.popen.args} has ended", Law)
        self.popen.stdin.close()
        check_equal(self.wait(), 0, f"exit status of {self.popen.args}", Law)


class Host(Bench):
    """The service as the package brings it, which is stopped after each test. Debian's kernels begin with a level of 3."""

    def __enter__(self):
        PARANOID.write_text("2")
        return super().__enter__()

    def __exit__(self, failure, *more):
        if failure:
            print("\n".join(journal()[-20:]))
        super().__exit__(failure, *more)

    def close(self):
        super().close()
        systemctl("stop", "allocsnap")
        for path in (OPTIONS, SETTINGS):
            path.unlink(missing_ok=True)
        systemctl("daemon-reload")
        shutil.rmtree(STATE.resolve(), ignore_errors=True)

    def program(self, name):
        """A program that holds a block."""
        path = shutil.copy(os.path.join(WORKLOADS, "holds"), self.path(name))
        return self.start([path, str(SIZE)], kind=Held).ready()

    def serve(self, *settings, interval="2s"):
        """The recorder's PID. Each process that begins with "held" has snapshots. One of them is there first, so that the C
        library is probed before others use it."""
        self.program("held-first")
        OPTIONS.write_text(f"OPTIONS=--interval {interval} --comm held*\n")
        SETTINGS.parent.mkdir(parents=True, exist_ok=True)
        SETTINGS.write_text("\n".join(["[Service]", *settings, ""]))
        systemctl("daemon-reload")
        self.run(["systemctl", "start", "allocsnap"])
        return recorder()


def systemctl(*words):
    return subprocess.run(["systemctl", *words], stdout=subprocess.PIPE, text=True, check=False).stdout.strip()


def setting(name):
    return systemctl("show", "-P", name, "allocsnap")


def recorder():
    check_equal(setting("ActiveState"), "active", "the unit's state")
    return int(setting("MainPID"))


def take_pass():
    os.kill(recorder(), signal.SIGUSR1)


def journal():
    done = subprocess.run(["journalctl", "-q", "-o", "cat", "-u", "allocsnap"], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()


def snapshots(process=None):
    """The paths of a process's files, or of all, the oldest first."""
    folder = f"{os.path.basename(process.popen.args[0])}.{process.pid}" if process else "*"
    return sorted(map(str, STATE.glob(f"*/{folder}/*.snap")))


def ours():
    """{PID: name} of the recorder's processes."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            found[int(folder.name)] = (folder / "comm").read_text(encoding="utf-8", errors="replace").strip()
    return {pid: name for pid, name in found.items() if name.startswith("allocsnap")}


def check_one_holds_probes():
    """The recorder before has left no process that holds probes."""
    check_equal([pid for pid, name in ours().items() if name == "allocsnap-links"], [link_holder_of(recorder())],
                "processes that hold probes", Law)


def wait_for_more(process, number=1):
    before = len(snapshots(process))
    wait_for(lambda: len(snapshots(process)) >= before + number, f"{number} more snapshots")


def check_snapshots(bench, process, knowing):
    """All are whole, and this one has the block. The first one may be from before the block, and later recorders began after
    it."""
    check(knowing in snapshots(process), f"{knowing} is lost", Law)
    for path in snapshots(process):
        bench.check_readable(path)
    sizes = [row["size"] for row in bench.stats(knowing)["statistics"]]
    check(SIZE in sizes, f"{knowing}: no block of {SIZE}: {sizes}")


def check_nothing_left(*processes):
    """No probe, no process of the recorder and no file that has not its name yet."""
    for process in processes:
        check_equal(changed_places(process.pid) - strangers_probes(), set(), "probes that are left", Law)
    check_equal(ours(), {}, "processes that are left", Law)
    check_equal([path for path in STATE.rglob(".*") if path.is_file()], [], "files that are left", Law)


def test_unit_as_it_is_records_a_new_process(bench):
    bench.run(["systemctl", "start", "allocsnap"])
    held = bench.program("held")
    check(pathlib.Path(f"/proc/{recorder()}").stat().st_uid, "it runs as root")
    wait_for(lambda: changed_places(held.pid), "its probes")
    take_pass()
    wait_for(lambda: snapshots(held), "a snapshot")
    wait_for(lambda: 'comm="held"' in METRICS.read_text(encoding="utf-8"), "its line in the metrics")
    systemctl("stop", "allocsnap")
    check_equal(setting("Result"), "success", "how it ended")
    check_snapshots(bench, held, snapshots(held)[-1])
    check_nothing_left(held)
    held.is_unharmed()


def test_unit_says_what_this_kernel_forbids(bench):
    PARANOID.write_text("3")
    bench.run(["systemctl", "start", "allocsnap"], status=1)
    check(any("sysctl kernel.perf_event_paranoid=2" in line for line in journal()), f"the journal: {journal()[-5:]}")


def test_stopped_recorder_is_restarted_by_the_watchdog(bench):
    first = bench.serve("WatchdogSec=60s")
    held = bench.program("held")
    wait_for_more(held, 2)
    before, alive = snapshots(held), setting("WatchdogTimestampMonotonic")
    wait_for(lambda: setting("WatchdogTimestampMonotonic") != alive, "it says that it is alive")
    os.kill(first, signal.SIGSTOP)
    wait_for(lambda: setting("NRestarts") != "0" and setting("ActiveState") == "active", "it runs again", 180)
    check(recorder() != first, "it is the same one")
    check(any("watchdog" in line.lower() for line in journal()), f"the journal: {journal()[-5:]}")
    check_one_holds_probes()
    wait_for_more(held, 2)
    systemctl("stop", "allocsnap")
    check_snapshots(bench, held, before[-1])
    check_nothing_left(held)
    held.is_unharmed()


def test_restart_loses_no_snapshot(bench):
    first = bench.serve()
    held = bench.program("held")
    wait_for_more(held, 2)
    before = snapshots(held)
    bench.run(["systemctl", "restart", "allocsnap"])
    check(recorder() != first, "it is the same one")
    check(set(before) < set(snapshots(held)), "the last snapshot of the first recording is not there", Law)
    check_one_holds_probes()
    wait_for_more(held, 2)
    systemctl("stop", "allocsnap")
    check_snapshots(bench, held, snapshots(held)[len(before)])
    check_nothing_left(held)
    held.is_unharmed()


def test_stop_within_a_pass_leaves_whole_files(bench):
    """The recorder is stopped when it has begun a pass and not yet ended it. systemd lets it go on with its SIGTERM."""
    pid = bench.serve(interval="1h")
    held = [bench.program(f"held{i}") for i in range(12)]

    def is_stopped_within_a_pass():
        all_of_pass = len(snapshots()) + len(held) + 1
        os.kill(pid, signal.SIGUSR1)
        wait_for(lambda: not pending_signals(pid) & 1 << (signal.SIGUSR1 - 1), "it takes SIGUSR1")
        os.kill(pid, signal.SIGSTOP)
        if len(snapshots()) < all_of_pass:
            return True
        os.kill(pid, signal.SIGCONT)
        return False

    wait_for(is_stopped_within_a_pass, "it is stopped within a pass")
    before = {process: snapshots(process) for process in held}
    bench.run(["systemctl", "stop", "allocsnap"])
    check_equal((setting("ActiveState"), setting("Result")), ("inactive", "success"), "how it ended")
    for process in held:
        check(set(before[process]) < set(snapshots(process)), f"{process.popen.args}: no last snapshot", Law)
        bench.check_readable(snapshots(process)[-1])
    check_nothing_left(*held)


def test_upgrade_goes_on_recording_and_removal_ends_it(bench):
    first = bench.serve()
    held = bench.program("held")
    wait_for_more(held, 2)
    before = snapshots(held)
    bench.run(["dpkg", "-i", str(LATER)], seconds=180)
    wait_for(lambda: setting("ActiveState") == "active" and setting("MainPID") != str(first), "the later one runs")
    check(bench.run(["dpkg-query", "-f", "${Version}", "-W", "allocsnap"])[0].endswith("+later"), "the version")
    check_equal(os.readlink(f"/proc/{recorder()}/exe"), "/usr/bin/allocsnap", "its program")
    check(set(before) < set(snapshots(held)), "snapshots are lost", Law)
    check_one_holds_probes()
    wait_for_more(held, 2)
    bench.run(["dpkg", "--force-depends", "-r", "allocsnap"], seconds=180)
    check_nothing_left(held)
    held.is_unharmed()
    bench.run(["dpkg", "-i", str(LATER)], seconds=180)
    check_snapshots(bench, held, before[-1])


def test_rotated_journal_has_what_comes_later(bench):
    """The journal's files are changed, and journald is another process."""
    bench.serve()
    held = bench.program("held")
    wait_for_more(held)
    for argv in (["journalctl", "--rotate"], ["journalctl", "--vacuum-time=1s"], ["systemctl", "restart", "systemd-journald"]):
        bench.run(argv)
    before = len(journal())
    take_pass()
    wait_for(lambda: len(journal()) > before, "a line of the pass")
    wait_for_more(held)
