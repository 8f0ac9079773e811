# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Which parts of `make check-long` a change touches: tests/areas and tests/parts are the tables.

BASE=COMMIT says since when. Without it, it is where the branch left the one that it follows (origin/main)."""
import os
import pathlib
import subprocess

TESTS = pathlib.Path(__file__).resolve().parent.parent
ROOT = TESTS.parent
ALWAYS_SANITIZED = ["tests/fake_bpf"]
SANITIZED_FILES = 120  # of the gate; more than these take too long there


def git(*words):
    """Its output; None where git or the commit is missing."""
    try:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def base():
    """The commit, or None: it is not known, or nothing has changed since."""
    if os.environ.get("BASE"):
        found = git("rev-parse", "--verify", "--short", os.environ["BASE"] + "^{commit}")
        if not found:
            raise SystemExit(f"allocsnap: BASE={os.environ['BASE']} is no commit here")
        return found
    found = git("merge-base", "HEAD", "origin/main")
    return git("rev-parse", "--short", found) if found and changed_since(found) else None


def changed_since(commit):
    return (git("diff", "--name-only", commit) or "").splitlines() + \
        (git("ls-files", "--others", "--exclude-standard") or "").splitlines()


def rows(name):
    for line in (TESTS / name).read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            yield line.split()


def parts():
    """{part: [(suite, arguments of make)]}"""
    found = {}
    for part, suite, *args in rows("parts"):
        found.setdefault(part, []).append((suite, " ".join(args)))
    return found


def parts_of(paths):
    """In the order of the table of parts. A path that has no row touches all."""
    table, areas = parts(), list(rows("areas"))
    wanted = set()
    for path in paths:
        found = [named for prefix, *named in areas if path.startswith(prefix)]
        wanted.update(*(found or [table]))
    wanted.discard("-")
    if wanted - set(table):
        raise SystemExit(f"allocsnap: tests/areas names {min(wanted - set(table))}, which is no part")
    return [part for part in table if part in wanted]


def sanitized_rooms(paths):
    """Folders whose objects the gate sanitizes: always the BPF code, and what was touched of src and its unit tests."""
    rooms = {os.path.dirname(path) for path in paths if path.startswith(("src/", "tests/unit/")) and path.endswith((".c", ".h"))}
    rooms |= {"tests/unit/" + room.split("/")[1] for room in rooms if room.startswith("src/")}
    rooms = sorted(room for room in rooms if room.count("/") and any((ROOT / room).glob("*.c")))
    files = sum(len(list((ROOT / room).glob("*.c"))) for room in rooms)
    return ALWAYS_SANITIZED + (rooms if files <= SANITIZED_FILES else [])


def tell_not_run(commit, paths, rooms):
    """The gate's word on what it left out."""
    if not commit:
        print(f"not run here: make check-long PARTS=\"{' '.join(parts())}\"; with BASE=COMMIT this line names what a change touches")
        return
    left = [part for part in parts_of(paths) if part != "san" or rooms == ALWAYS_SANITIZED]
    print(f"not run here, touched since {commit}: " + (f"make check-long PARTS=\"{' '.join(left)}\"" if left else "nothing"))
