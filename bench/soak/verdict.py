# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Checks that print what was wanted and what was found; and sums over all files of a recording."""
import collections
import json
import os
import pathlib
import subprocess

EXAMPLES_MAX = 5


class Verdict:
    def __init__(self):
        self.passed = self.failed = 0

    def check(self, is_right, what, wanted, found):
        self.passed += bool(is_right)
        self.failed += not is_right
        print(f"{'ok  ' if is_right else 'FAIL'} {what}: wanted {wanted}, found {found}", flush=True)

    def equal(self, what, wanted, found):
        self.check(wanted == found, what, wanted, found)

    def none(self, what, found):
        """The list must be empty; of a long one, some entries are shown."""
        found = list(found)
        text = "0" if not found else f"{len(found)}: {'; '.join(map(str, found[:EXAMPLES_MAX]))}"
        self.check(not found, what, 0, text)


class Files:
    """Every file that was written, opened and checked."""

    def __init__(self, folder, survey):
        paths = sorted(str(path) for path in pathlib.Path(folder).rglob("*") if not path.is_dir())
        self.strange = [path for path in paths if not path.endswith(".snap")]
        snaps = "".join(path + "\n" for path in paths if path.endswith(".snap"))
        done = subprocess.run([survey], input=snaps, capture_output=True, text=True, check=True)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.damaged = [f"{row['path']}: {row['error']}" for row in rows if "error" in row]
        self.rows = [row for row in rows if "error" not in row]
        self.bytes = sum(os.stat(row["path"]).st_blocks * 512 for row in rows)
        self.by_pid = collections.defaultdict(list)
        for row in self.rows:
            row["comm"] = row["path"].split("/")[-2].rpartition(".")[0]
            row["end"] = row["end"].replace("running", "")
            self.by_pid[row["pid"]].append(row)

    def instants(self, pid):
        """When one that lived all the time was written: the passes."""
        return sorted(row["monotonic_ns"] for row in self.by_pid[pid] if not row["end"])

    def last(self, pid):
        rows = sorted(self.by_pid[pid], key=lambda row: row["monotonic_ns"])
        return rows[-1] if rows else None

    def doubles(self):
        """Two of one process at one instant, of which none is its end."""
        seen = collections.Counter((row["pid"], row["start_time_ticks"], row["monotonic_ns"])
                                   for row in self.rows if not row["end"])
        return [key for key, nr in seen.items() if nr > 1]

    def missing(self, lives, instants):
        """For each life (name, PID, first ns, last ns), the passes in it that left no file of the process."""
        for name, pid, first, last in lives:
            has = {row["monotonic_ns"] for row in self.by_pid[pid]}
            for instant in instants:
                if first < instant < last and instant not in has:
                    yield (f"{name}.{pid}: {(instant - instants[0]) / 1e9:.1f} s after the first pass, "
                           f"{(instant - first) / 1e9:.2f} s after its start, {(last - instant) / 1e9:.2f} s "
                           "before its end")

    def losses(self):
        """Summed over the last snapshot of each process."""
        total = collections.Counter()
        last = {}
        for row in self.rows:
            key = row["pid"], row["start_time_ticks"]
            if key not in last or last[key]["monotonic_ns"] <= row["monotonic_ns"]:
                last[key] = row
        for row in last.values():
            total.update(row["lost"])
        return total
