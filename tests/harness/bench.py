# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""All that one test starts and makes, and allocsnap's answers."""
import json
import os
import shutil
import signal
import subprocess
import tempfile

from .checks import PATIENCE, Failure, Law, check_sanitizer, check_status, late
from .processes import ALLOCSNAP, NEVER, Process, Recording, Workload, folder_of_run, prepared, skip_if_refused, snapshots_below

WORKLOADS = os.path.abspath(os.environ.get("WORKLOADS", ".output/workloads"))  # tests start programs in other folders


class Bench:
    """All that one test has started and made. At the end of a test that has passed, its recordings end well when they are
    interrupted, and their targets are unharmed: but for those that the test has ended itself."""

    ENDED_BY_TEST = (0, -signal.SIGKILL, -signal.SIGTERM)

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="allocsnap-live.")
        self.processes = []
        self.raw = []
        self.attached = []  # recordings, each before its targets

    def __enter__(self):
        return self

    def __exit__(self, failure, *_):
        try:
            if not failure:
                self.end_attached()
        finally:
            self.close()

    def end_attached(self):
        for process in self.attached:
            if process.popen.returncode is not None or process.popen.poll() in self.ENDED_BY_TEST:
                continue
            if isinstance(process, Recording):
                process.end(signal.SIGINT)
            else:
                process.is_unharmed()

    def close(self):
        for process in reversed(self.processes):
            process.kill()
        for process in self.raw:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()
        said = [(process.popen.args, process.stderr()) for process in self.processes]
        shutil.rmtree(self.folder, ignore_errors=True)
        for argv, text in said:
            check_sanitizer(text, argv)

    def path(self, name):
        return os.path.join(self.folder, name)

    def _next_stderr(self):
        return self.path(f"stderr.{len(self.processes)}")

    def start(self, argv, kind=Process, **options):
        process = kind(argv, self._next_stderr(), **options)
        self.processes.append(process)
        return process

    def start_raw(self, argv, **options):
        """A plain Popen, for a test that passes descriptors of its own."""
        process = subprocess.Popen(prepared(argv), **options)
        self.raw.append(process)
        return process

    def workload(self, name, *args):
        return self.start([os.path.join(WORKLOADS, name), *args], kind=Workload).ready()

    def attach(self, targets, *options, wait=True, interval=NEVER, command=(ALLOCSNAP,), folder=None,
               preexec_fn=None):
        """Starts recording; returns when it does. The command may be one that executes allocsnap."""
        pids = [str(getattr(target, "pid", target)) for target in targets]
        folder = folder or tempfile.mkdtemp(prefix="out.", dir=self.folder)
        argv = [*command, "attach", *pids, "-o", folder, "--interval", interval, *options]
        recording = self.start(argv, kind=Recording, folder=folder, target_nr=len(pids),
                               preexec_fn=preexec_fn)
        if not wait:
            return recording
        self.attached += [recording, *(target for target in targets if isinstance(target, Workload))]
        return recording.ready()

    def recorded(self, name, *options):
        """A workload without arguments, and its recording."""
        workload = self.workload(name)
        return workload, self.attach([workload], *options)

    def run(self, argv, status=0, seconds=60, **options):
        """Runs to the end: (stdout, stderr). The stdout of `allocsnap run` is followed by the new snapshots' paths."""
        argv = prepared(argv)
        folder = folder_of_run(argv)
        before = snapshots_below(folder) if folder else []
        with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              **options) as process:
            try:
                stdout, stderr = process.communicate(timeout=seconds * PATIENCE)
            except subprocess.TimeoutExpired:
                raise Failure(late(f"{argv}: has not ended after {seconds} s")) from None
            finally:
                process.kill()
        check_sanitizer(stderr, argv)
        if process.returncode != status:
            skip_if_refused(stderr)
        check_status(process.returncode, status, f"{' '.join(argv)} (stderr {stderr!r})")
        new = [path for path in snapshots_below(folder) if path not in before] if folder else []
        return stdout + "".join(path + "\n" for path in new), stderr

    def allocsnap(self, *args, status=0):
        return self.run([ALLOCSNAP, *args], status)

    def check_readable(self, path):
        """A file has its final name only when it is complete."""
        try:
            self.allocsnap("show", str(path))
        except Failure as error:
            raise Law(str(error)) from None

    def json(self, *args):
        return json.loads(self.allocsnap(*args, "--json")[0])

    def stats(self, path, *options):
        return self.json("stats", path, "--top", "0", *options)

    def diff(self, old, new, *options):
        return self.json("diff", old, new, "--top", "0", *options)

    def show(self, path):
        return self.json("show", path)
