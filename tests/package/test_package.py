# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Packages: what they are made of, and what they do on Debian 12 and later ones."""
import contextlib
import os
import pathlib
import re
import shutil
import subprocess

from harness import Failure, check, check_equal, for_each

FOLDER = pathlib.Path(os.environ["PACKAGE_TEST"])
ROOT = pathlib.Path(__file__).resolve().parents[2]
ONE = "one/tree"  # the clone that the tests share
OWN = "bookworm"  # what `make deb` is for here; elsewhere the package is built there
LATER = "trixie", "forky"

# A program of the system that leaks, and that needs nothing but the C library.
LEAK = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
void *volatile last;
__attribute__((noinline)) static void remember(void) { last = memset(malloc(5000), 1, 5000); }
int main(void) { for (;;) { for (int i = 0; i < 20; i++) remember(); usleep(20000); } }
"""
LEAKS = "/tmp/leak & pid=$!; allocsnap leaks $pid --for 6s; status=$?; kill $pid; exit $status"


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


def system(suite):
    """The root of a system with only what apt needs. It is as new at each test: what a test adds lies above it."""
    root = FOLDER / suite
    if not (root / "usr/bin/apt").exists():
        root.mkdir(parents=True, exist_ok=True)
        run("mmdebstrap", "--variant=apt", suite, str(root))
    return root


@contextlib.contextmanager
def entered(suite, *files):
    """A function that runs a line of the shell in the system, which has these files in /tmp."""
    lower, work = system(suite), FOLDER / f"{suite}.test"
    shutil.rmtree(work, ignore_errors=True)
    root = work / "root"
    for name in "upper", "work", "root":
        (work / name).mkdir(parents=True)
    with contextlib.ExitStack() as stack:
        def mount(*argv, at=""):
            run("mount", *argv, f"{root}{at}")
            stack.callback(run, "umount", "-R", f"{root}{at}")
        stack.callback(shutil.rmtree, work)
        mount("-t", "overlay", "-o", f"lowerdir={lower},upperdir={work}/upper,workdir={work}/work", "overlay")
        mount("-t", "proc", "proc", at="/proc")
        mount("--rbind", "--make-rslave", "/sys", at="/sys")
        mount("--bind", "/dev", at="/dev")
        shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
        for path in files:
            shutil.copy(path, root / "tmp")
        yield lambda line, **options: run("chroot", str(root), "sh", "-c", line, **options)


def leaking_program():
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / "leak"
    path.with_suffix(".c").write_text(LEAK, encoding="ascii")
    run("gcc", "-O1", "-g", "-o", str(path), f"{path}.c")
    return path


def files_of(shell):
    """All files, but for what apt and dpkg remember."""
    found = shell("find / -xdev -not -path '/tmp/*' -not -path '/var/lib/dpkg/*' -not -path '/var/lib/apt/*' "
                  "-not -path '/var/cache/*' -not -path '/var/log/*'")
    return set(found.splitlines())


def check_finds_leak(shell):
    said = shell(LEAKS, status=1)
    check(re.search(r"LEAKS .*remember", said), said)


def install_use_and_remove(shell, package):
    shell("apt-get -qq update && apt-get -qq -y --no-install-recommends install python3") # which stays
    before = files_of(shell)
    shell(f"apt-get -qq -y --no-install-recommends install /tmp/{package}")
    check_finds_leak(shell)
    check("allocsnap-leaks.1" in shell("ls /usr/share/man/man1"), "no manual")
    shell("apt-get -qq -y purge allocsnap && apt-get -qq -y --purge autoremove")
    check_equal(files_of(shell) ^ before, set(), "files that the package leaves")


def package_of(files):
    name, = (name for name in files if re.match(r"allocsnap_.*\.deb", name))
    return name


def test_two_builds_are_equal():
    for target, pattern in ("deb", "deb/*.deb"), ("tarball", "*.tar.xz"):
        first, second = made(target, ONE, pattern), made(target, "another/place/tree", pattern)
        check_equal(sorted(first), sorted(second), f"what make {target} makes")
        for name, path in first.items():
            check(path.read_bytes() == second[name].read_bytes(), f"{name} differs")


def test_lintian_finds_nothing():
    """Except tags that the package overrides, with a reason."""
    changes = made("deb", ONE, "deb/*.changes")
    said = run("lintian", "--allow-root", "--fail-on", "error,warning", *map(str, changes.values()))
    check(not re.search(r"^[EW]:", said, re.MULTILINE), said)


def test_package_comes_and_goes_on_its_own_debian():
    files = made("deb", ONE, "deb/*.deb")
    with entered(OWN, leaking_program(), *files.values()) as shell:
        install_use_and_remove(shell, package_of(files))


def test_package_is_built_and_comes_and_goes_on_debian_13():
    with entered(LATER[0], leaking_program()) as shell:
        tree = clone(FOLDER / f"{LATER[0]}.test/root/root/tree")
        shell("apt-get -qq update && apt-get -qq -y --no-install-recommends install git ca-certificates make")
        shell("cd /root/tree && make deb")
        files = {path.name: path.read_bytes() for path in (tree / ".output/package/deb").glob("*.deb")}
    place = FOLDER / "built"
    place.mkdir(exist_ok=True)
    for name, content in files.items():
        (place / name).write_bytes(content)
    with entered(LATER[0], leaking_program(), *(place / name for name in files)) as shell:
        install_use_and_remove(shell, package_of(files))


@for_each((OWN, *LATER))
def test_tarball_finds_a_leak_on(_bench, suite):
    files = made("tarball", ONE, "*.tar.xz")
    with entered(suite, leaking_program(), *files.values()) as shell:
        # xz is not in each system, and the program needs no package.
        name, = files
        target = FOLDER / f"{suite}.test/root/opt"
        run("tar", "-xJf", str(files[name]), "-C", str(target))
        shell("ln -s /opt/allocsnap-*/bin/allocsnap /usr/bin/allocsnap")
        check_finds_leak(shell)
        # Its libraries lie beside it.
        shell("allocsnap run --exact -d 2s -o /tmp/data -- /tmp/leak; killall leak 2>/dev/null; "
              "allocsnap stats $(find /tmp/data -name '*.snap' | tail -n 1) | grep remember")
