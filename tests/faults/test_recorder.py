# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Recordings of a program that makes and frees blocks all the time. Snapshots are compared by what they must have: the
function that made the blocks, or losses."""
import itertools
import os
import subprocess
import threading
import time

import harness
from harness import ALLOCSNAP, changed_places, strangers_probes
from faults import SILENT, Runs, Scenario, faults_of, try_all

MARKS = {"alone"}
WORKLOADS = os.environ["WORKLOADS"]


class Target:
    """A program whose blocks 0 to 99 are made and freed in turn."""

    def __init__(self):
        self.popen = subprocess.Popen([f"{WORKLOADS}/blocks"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid = self.popen.pid
        self.popen.stdout.readline()
        self.answers = 0
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def work(self):
        try:
            for i in itertools.count():
                self.popen.stdin.write(b"drop %d 1\nmake %d 1 64\n" % (i % 100, i % 100))
                self.popen.stdin.flush()
                self.popen.stdout.readline()
                self.popen.stdout.readline()
                self.answers = i
                time.sleep(0.001)
        except OSError:
            pass  # it has ended, and lives() says so

    def lives(self):
        """Whether it still answers."""
        before = self.answers
        for _ in range(500):
            if self.popen.poll() is not None or self.answers > before + 2:
                break
            time.sleep(0.02)
        return self.popen.poll() is None and self.answers > before + 2

    def is_unchanged(self):
        """Other recordings on this machine may have breakpoints of their own in it."""
        for _ in range(100):
            before, found = strangers_probes(), changed_places(self.pid)
            if not found - before - strangers_probes():
                return True
            time.sleep(0.05)
        return False

    def end(self):
        self.popen.kill()
        self.popen.wait()
        self.thread.join()


class Recordings(Runs):
    """Their target goes on from one to the next, unless one harms it."""

    def __init__(self, scenario):
        super().__init__(scenario)
        self.target = Target()
        self.set_command()

    def set_command(self):
        self.command = [str(self.target.pid) if word == "PID" else word for word in self.scenario.command]

    def __exit__(self, *failure):
        self.target.end()
        super().__exit__(*failure)

    def run_in(self, folder):
        outcome = super().run_in(folder)
        harm = "its target has ended" if not self.target.lives() else "" if self.target.is_unchanged() else "a probe is left"
        if harm:
            self.target.end()
            self.target = Target()
            self.set_command()
        return outcome._replace(finding=harm or outcome.finding)

    def comparable(self, folder, answer, made):
        kinds = sorted((os.path.splitext(name)[1], self.what_it_has(folder / name)) for name in made)
        return str(kinds).encode(), {f"{i}{kind}": b"" for i, (kind, _) in enumerate(kinds)}

    @staticmethod
    def what_it_has(path):
        done = subprocess.run([ALLOCSNAP, "stats", path], capture_output=True, check=False)
        return "the function" if b"make_here" in done.stdout else "losses" if b"losses: " in done.stderr else "neither"

    def judge(self, outcome):
        """A snapshot that names its losses says what it lacks."""
        verdict = super().judge(outcome)
        return "said" if verdict == SILENT and b"losses" in outcome.out else verdict


tried = set()  # sites, by tests before in this process


def once(site, calls):
    """A recording takes seconds: a site fails once, and a site of several commands in the first of them."""
    if site in tried:
        return
    tried.add(site)
    yield next(faults_of(site, calls))


@harness.rows({
    "attach": (Scenario((), ("attach", "PID", "-n", "2", "-i", "250ms", "-o", "made")),),
})
def test_recorder(_bench, scenario):
    return try_all(scenario, Recordings, once)
