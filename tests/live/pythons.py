# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""CPythons besides the machine's own: from other Debian suites, fetched once, and those that the environment names."""
import collections
import importlib
import os
import pathlib
import subprocess
import sys

from harness import WORKLOADS, Skip

# How it is started, and what its environment needs.
Python = collections.namedtuple("Python", "argv environment")

FETCHED = pathlib.Path(WORKLOADS).resolve().parent / "pythons"


def version_of(*argv):
    """(3, 9, 18), or None: it is not there, or does not run."""
    try:
        done = subprocess.run([*argv, "-c", "import sys; print(*sys.version_info[:3])"], capture_output=True, text=True,
                              check=False, timeout=600)
    except OSError:
        return None
    return tuple(int(number) for number in done.stdout.split()) if not done.returncode else None


def named():
    """{version: path of a program} of ALLOCSNAP_TEST_PYTHONS."""
    paths = filter(None, os.environ.get("ALLOCSNAP_TEST_PYTHONS", "").split(":"))
    return {version_of(path): path for path in paths}


def named_like(minor):
    """A Python 3.MINOR of the environment. It is no start script: its PID is the program's."""
    for version, path in named().items():
        if version and version[:2] == (3, minor):
            return Python([path], {})
    raise Skip(f"ALLOCSNAP_TEST_PYTHONS names no Python 3.{minor}")


def of_suite(suite, minor):
    """The Python 3.MINOR of another Debian suite, with that suite's C library."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "placement"))
    suites = importlib.import_module("suites")
    try:
        root = suites.fetch(FETCHED, suite, (rf"python3\.{minor}",))
    except (suites.Missing, subprocess.TimeoutExpired, OSError) as why:
        raise Skip(f"{suite}'s packages cannot be fetched: {why}") from None
    libraries = root / "usr/lib" / suites.MULTIARCH
    loader = libraries / "ld-linux-x86-64.so.2"
    return Python([str(loader), "--library-path", str(libraries), str(root / f"usr/bin/python3.{minor}")],
                  {"PYTHONHOME": str(root / "usr"), "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(root / "compiled")})
