# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Packages and systems that are made of this commit, in a clone of it, and kept."""
import os
import pathlib
import re
import shutil
import subprocess

from harness import Failure, check

FOLDER = pathlib.Path(os.environ["PACKAGE_TEST"])
ROOT = pathlib.Path(__file__).resolve().parents[2]
ONE = "one/tree"  # the clone that the tests share
OWN = "bookworm"  # what `make deb` is for here; elsewhere the package is built there

# A program of the system that leaks, and that needs nothing but the C library.
LEAK = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
void *volatile last;
__attribute__((noinline)) static void remember(void) { last = memset(malloc(5000), 1, 5000); }
int main(void) { for (;;) { for (int i = 0; i < 20; i++) remember(); usleep(20000); } }
"""


def run(*argv, status=0, **options):
    """The text that it prints, on both streams."""
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          errors="replace", **options)
    if done.returncode != status:
        raise Failure(f"{argv}: status {done.returncode}\n{done.stdout[-2000:]}")
    return done.stdout


def commit_of(tree):
    return run("git", "-c", "safe.directory=*", "-C", str(tree), "rev-parse", "HEAD")


def clone(place):
    """This commit in a folder, as anybody gets it."""
    if (place / ".git").exists() and commit_of(place) == commit_of(ROOT):
        return place
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    run("git", "-c", "safe.directory=*", "clone", "-q", "--no-hardlinks", str(ROOT), str(place))
    return place


def made(target, place, pattern):
    """The files that `make TARGET` leaves in a clone, by name. A clone makes them once."""
    tree = clone(FOLDER / place)
    found = list((tree / ".output/package").glob(pattern))
    if not found:
        run("make", target, cwd=tree)
        found = list((tree / ".output/package").glob(pattern))
    check(found, f"make {target} made nothing")
    return {path.name: path for path in found}


def made_system(suite):
    """A system with only what apt needs."""
    system = FOLDER / suite
    if not (system / "usr/bin/apt").exists():
        system.mkdir(parents=True, exist_ok=True)
        run("mmdebstrap", "--variant=apt", "--aptopt=Acquire::Check-Valid-Until \"false\"", suite, str(system))  # an old mirror will do
    return system


def package_of(files):
    name, = (name for name in files if re.match(r"allocsnap_.*\.deb", name))
    return name


# Mounts are of a namespace that ends with the line.
ENTER = """
mount -t overlay -o lowerdir=$LOWER,upperdir=$WORK/upper,workdir=$WORK/work overlay $WORK/root
mount -t proc proc $WORK/root/proc
mount --rbind /sys $WORK/root/sys
mount --bind /dev $WORK/root/dev
exec chroot $WORK/root sh -c "$LINE"
"""


class System:
    """A system with only what apt needs, and these files in /tmp. What a test adds lies above it, and goes with the test."""

    def __init__(self, suite, *files):
        self.lower, self.work = made_system(suite), FOLDER / f"{suite}.test"
        shutil.rmtree(self.work, ignore_errors=True)
        for name in "upper/tmp", "upper/etc", "work", "root":
            (self.work / name).mkdir(parents=True)
        (self.work / "upper/tmp").chmod(0o1777)
        self.put("etc", "/etc/resolv.conf")
        self.put("tmp", *files)

    def put(self, folder, *files):
        for path in files:
            shutil.copy(path, self.work / "upper" / folder)

    def shell(self, line, **options):
        """Runs a line of the shell there, and returns its output."""
        environment = os.environ | {"LOWER": str(self.lower), "WORK": str(self.work), "LINE": line, "DEBIAN_FRONTEND": "noninteractive"}
        return run("unshare", "--mount", "sh", "-e", "-c", ENTER, env=environment, **options)


def leaking_program(*flags):
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / "leak"
    path.with_suffix(".c").write_text(LEAK, encoding="ascii")
    run("gcc", "-O1", "-g", *flags, "-o", str(path), f"{path}.c")
    return path
