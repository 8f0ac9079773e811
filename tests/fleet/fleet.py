# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A generated fleet, its catalogue, and the answers of `allocsnap fleet`."""
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from oracle import Oracle  # pylint: disable=wrong-import-position,wrong-import-order
from harness import ALLOCSNAP, check_equal, runs_core  # pylint: disable=wrong-import-position,wrong-import-order

FLEET_DATA = os.environ.get("FLEET_DATA", ".output/fleet-data")
FLEET_HOSTS = int(os.environ.get("FLEET_HOSTS", "10" if runs_core() else "500"))
IS_LONG = FLEET_HOSTS > 50


class Fleet:
    """Snapshot files and their row tables in a folder of their own; the catalogue is made by index()."""

    def __init__(self, name, *options, rows=False, place=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"allocsnap-fleet-{name}.", dir=place))
        self.data, self.rows = self.folder / "data", self.folder / "rows.db"
        self.catalogue = self.folder / "fleet.db"
        self.asked = None
        argv = [FLEET_DATA, *map(str, options), *(["--rows", self.rows] if rows else []), self.data]
        self.made = json.loads(subprocess.run(argv, stdout=subprocess.PIPE, check=True).stdout)

    def oracle(self):
        self.asked = self.asked or Oracle(self.rows)
        return self.asked

    def close(self):
        if self.asked:
            self.asked.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, *args, status=0, catalogue=None, program=ALLOCSNAP, timeout=300, **options):
        """`allocsnap fleet …` of the catalogue to its end: (stdout, stderr)."""
        return self.cluster(*args, "--catalogue", catalogue or self.catalogue, status=status, program=program,
                            timeout=timeout, **options)

    @staticmethod
    def cluster(*args, status=0, program=ALLOCSNAP, timeout=300, **options):
        """The same without a catalogue."""
        argv = [str(program), "fleet", *map(str, args)]
        process = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                 check=False, timeout=timeout, **options)
        if status is not None:
            check_equal(process.returncode, status,
                        f"exit status of {' '.join(argv)} (stderr {process.stderr!r})")
        return process.stdout, process.stderr

    def json(self, *args, **options):
        return json.loads(self.run(*args, "--json", "--top", "0", **options)[0])

    @staticmethod
    def allocsnap(*args):
        """The JSON of another command about a file."""
        return json.loads(subprocess.run([ALLOCSNAP, *map(str, args), "--json"], stdout=subprocess.PIPE,
                                         check=True).stdout)

    def index(self, *folders, status=0, **options):
        return self.run("index", *(folders or [self.data]), status=status, **options)


def dump(path):
    """All that a catalogue has, as text; its pages must be sound, too."""
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        check_equal(db.execute("PRAGMA integrity_check").fetchall(), [("ok",)], "the catalogue's pages")
        return "\n".join(db.iterdump())
    finally:
        db.close()


def site_of(row):
    """The site of a row, as oracle.py names it."""
    return row["key"] if "key" in row else frame_site(row["traceback"][0])


def frame_site(frame):
    if frame["lineno"]:
        return frame["filename"], frame["lineno"]
    function = frame.get("function")
    return f"{frame['object']} {function or ''}", 0 if function else frame["offset"]


class Large:
    """The fleet that questions are asked of: made when the first test asks for it, and then kept."""

    def __init__(self, host_nr):
        self.host_nr = host_nr
        self.fleet = None

    def __getattr__(self, name):
        if not self.fleet:
            self.fleet = Fleet("large", "--hosts", self.host_nr, rows=True,
                               place=os.path.dirname(FLEET_DATA))
            self.fleet.index()
        return getattr(self.fleet, name)

    def close(self):
        if self.fleet:
            self.fleet.close()
