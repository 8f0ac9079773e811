# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A user without privileges beside the crowd, which does to the recorder all that it can: see attack.c.

Each kind of attack has its own births.py, which begins a new one so many times a second. They get the processor
time that is left. All are in a group below the crowd's, so they are recorded, too.
"""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../../tests/live"), os.path.join(HERE, "../../tests")]
from harness import tool, wait_for  # pylint: disable=wrong-import-position
from hostile import build_twin  # pylint: disable=wrong-import-position
import crowd as crowds  # pylint: disable=wrong-import-position

ATTACKER, NOBODY = 64123, 65534
CHOSEN = os.environ.get("SOAK_ATTACKS", "").split()
TWIN = """
#include <unistd.h>
void grab(unsigned long);
int main(int argc, char **argv) { (void)argv; grab(100003); sleep(argc > 1 ? 3 : 0); return 0; }
"""
HONEST_NAME, FORGED_NAME = "honest", "twisty"
# cp writes into the existing file.
REPLACE = """#!/bin/sh -e
for program in "$1" "$2" "$1" "$2"; do
	cp "$program" "$3"
	"$3" rests 0
done
"""
FORGE = """#!/bin/sh -e
mount --bind "$1.other" "$1"
exec "$2" stays
"""


@contextlib.contextmanager
def group_below(group, name):
    folder = group / name
    folder.mkdir()

    def is_empty():
        pids = (folder / "cgroup.procs").read_text().split()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        return not pids

    try:
        yield folder
    finally:
        wait_for(is_empty, "the end of all who attack", 60)
        folder.rmdir()


class Attackers:
    """The programs and folders of the attackers, and the processes that begin attacks."""

    def __init__(self, crowd, group, programs):
        self.crowd, self.bench, self.group = crowd, crowd.bench, group
        self.drivers = {}
        self.ends = {}
        self.folder = self.bench.path("attackers")
        os.chmod(self.bench.folder, 0o711)
        os.mkdir(self.folder)
        for path in (*programs, os.path.join(HERE, "births.py"), os.path.join(HERE, "kills.py")):
            shutil.copy(path, self.folder)
        self.write("replace", REPLACE)
        self.write("forge", FORGE)
        os.mkdir(self.path("own"))
        os.chown(self.path("own"), ATTACKER, ATTACKER)
        os.mkdir(self.path("slow"))
        self.build_twins()

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        pathlib.Path(self.path(name)).write_text(text)
        os.chmod(self.path(name), 0o755)

    def build_twins(self):
        """A program, its library, and one with the same path and build-id."""
        for folder, inner in (("place", HONEST_NAME), ("place.other", FORGED_NAME)):
            os.mkdir(self.path(folder))
            build_twin(self.path(folder), inner)
        subprocess.run([tool("gcc"), "-g", "-xc", "-", "-o", self.path("twin"), "-L", self.path("place"), "-ltwin",
                        f"-Wl,-rpath,{self.path('place')}"], input=TWIN, text=True, check=True)
        shutil.copy(self.path("twin"), self.path("forged"))

    def commands(self, recorder_pid):
        """{name: (user, attacks a second, at once, command)}. A long attack goes on during more than one pass."""
        attack, own, slow = self.path("attack"), self.path("own"), self.path("slow_files")
        rows = {name: (ATTACKER, rate, at_once, f"{attack} {name} {number}") for name, rate, at_once, number in (
            ("forks", 0.5, 1, 300), ("vforks", 0.5, 1, 5), ("execs", 0.3, 1, 60), ("maps", 0.1, 1, 100000),
            ("keeps", 0.05, 1, 20000), ("arguments", 0.05, 1, 60), ("tracebacks", 0.03, 1, 60),
            ("blocks", 0.01, 1, 4500000))}
        return {
            **rows,
            "files": (ATTACKER, 0.25, 1, f"{attack} files 300 {own}"),
            "replaced": (ATTACKER, 0.5, 1, f"{self.path('replace')} {self.path('attack.1')} {self.path('attack.2')} {own}/app"),
            "forged": (ATTACKER, 0.3, 2, f"{tool('unshare')} -rm {self.path('forge')} {self.path('place')} {self.path('forged')}"),
            "slow": (0, 0.1, 2, f"{slow} h {self.path('slow')} {attack} rests 15"),
            "kills": (NOBODY, 0.5, 1, f"{' '.join(crowds.PYTHON)} {self.path('kills.py')} {recorder_pid}"),
        }

    def begin(self, recorder_pid):
        for name, (user, rate, at_once, command) in self.commands(recorder_pid).items():
            if CHOSEN and name not in CHOSEN:
                continue
            become = [tool("setpriv"), "--reuid", str(user), "--regid", str(user), "--clear-groups"]
            argv = [*(become if user else ()), tool("chrt"), "--idle", "0", *crowds.PYTHON, self.path("births.py"),
                    str(rate), str(at_once), command]
            self.drivers[name] = self.bench.start(argv, kind=crowds.Grouped, group=self.group, env=self.crowd.environment)
        self.twins = self.crowd.start_births("twins", 1, [self.path("twin")])

    def end(self):
        """{name: {"counts", "failed", "failures"}}"""
        for driver in self.drivers.values():
            driver.popen.stdin.close()
        os.close(self.twins.into)
        self.twins_born = json.loads(self.twins.line(120))
        for name, driver in self.drivers.items():
            line = driver.line(120)
            self.ends[name] = json.loads(line or "null") or {"counts": [0], "failed": 1, "failures": [driver.stderr()]}
