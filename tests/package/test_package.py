# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Packages: what they are made of, and what they do on Debian 12 and later ones."""
import os
import re
import shutil

from made import FOLDER, ONE, OWN, System, clone, leaking_program, made, package_of, run
from harness import check, check_equal, for_each

LATER = "trixie", "forky"

LEAKS = "/tmp/leak & pid=$!; allocsnap leaks $pid --for 6s; status=$?; kill $pid; exit $status"


def files_of(shell):
    """All files, but for what apt and dpkg remember."""
    found = shell("find / -xdev -not -path '/tmp/*' -not -path '/var/lib/dpkg/*' -not -path '/var/lib/apt/*' "
                  "-not -path '/var/cache/*' -not -path '/var/log/*'")
    return set(found.splitlines())


def check_finds_leak(shell):
    said = shell(LEAKS)
    check(re.search(r"LEAKS .*remember", said), said)


def install_use_and_remove(shell, package):
    shell("apt-get -qq update && apt-get -qq -y --no-install-recommends install python3") # which stays
    before = files_of(shell)
    shell(f"apt-get -qq -y --no-install-recommends install /tmp/{package}")
    check_finds_leak(shell)
    check("allocsnap-leaks.1" in shell("ls /usr/share/man/man1"), "no manual")
    shell("apt-get -qq -y purge allocsnap && apt-get -qq -y --purge autoremove")
    check_equal(files_of(shell) ^ before, set(), "files that the package leaves")


def test_two_builds_are_equal(_bench):
    for target, pattern in ("deb", "deb/*.deb"), ("tarball", "*.tar.xz"):
        first, second = made(target, ONE, pattern), made(target, "another/place/tree", pattern)
        check_equal(sorted(first), sorted(second), f"what make {target} makes")
        for name, path in first.items():
            check(path.read_bytes() == second[name].read_bytes(), f"{name} differs")


def test_lintian_finds_nothing(_bench):
    """Except tags that the package overrides, with a reason."""
    changes = made("deb", ONE, "deb/*.changes")
    said = run("lintian", "--allow-root", "--fail-on", "error,warning", *map(str, changes.values()))
    check(not re.search(r"^[EW]:", said, re.MULTILINE), said)


def test_package_comes_and_goes_on_its_own_debian(_bench):
    files = made("deb", ONE, "deb/*.deb")
    install_use_and_remove(System(OWN, leaking_program(), *files.values()).shell, package_of(files))


def test_package_is_built_and_comes_and_goes_on_debian_13(_bench):
    builder = System(LATER[0])
    clone(builder.work / "upper/tree")
    builder.shell("apt-get -qq update && apt-get -qq -y --no-install-recommends install git make")
    builder.shell("cd /tree && make deb")
    files = {path.name: shutil.copy(path, FOLDER) for path in (builder.work / "upper/tree/.output/package/deb").glob("*.deb")}
    install_use_and_remove(System(LATER[0], leaking_program(), *files.values()).shell, package_of(files))


@for_each((OWN, *LATER))
def test_tarball_finds_a_leak_on(_bench, suite):
    """It needs no package there, and no xz."""
    files = made("tarball", ONE, "*.tar.xz")
    system = System(suite, leaking_program())
    for path in files.values():
        (system.work / "upper/opt").mkdir()
        run("tar", "-xJf", str(path), "-C", str(system.work / "upper/opt"))
    system.shell("ln -s /opt/allocsnap-*/bin/allocsnap /usr/bin/allocsnap")
    check_finds_leak(system.shell)
    # Its libraries lie beside it.
    system.shell("timeout 6 allocsnap run --exact -i 1s -o /tmp/data -- /tmp/leak; "
                 "allocsnap stats $(find /tmp/data -name '*.snap' | tail -n 1) | grep remember")


# ---- RPM, as far as Debian's rpmbuild goes ----

PARTS = "bin/", "lib/systemd/", "share/allocsnap/", "share/man/", "share/bash-completion/", "share/zsh/"


def rpms(place=ONE):
    return made("rpm", place, "rpm/RPMS/*/*.rpm")


def own_rpm():
    name, = (name for name in rpms() if not name.startswith("allocsnap-devel"))
    return rpms()[name]


def parts_of(listing):
    """The files that both kinds of package have at one place. Debian 12 has units in /lib, and compresses manuals."""
    paths = (line.lstrip("./").removeprefix("usr/").removesuffix(".gz") for line in listing)
    return {path for path in paths if path.startswith(PARTS) and not path.endswith("/") and "." in os.path.basename(path)}


def test_rpm_has_what_the_debian_package_has(_bench):
    debs = made("deb", ONE, "deb/*.deb")
    deb = debs[package_of(debs)]
    expected = parts_of(line.split()[5] for line in run("dpkg-deb", "-c", str(deb)).splitlines())
    check(len(expected) > 40, f"only {sorted(expected)}")
    check_equal(parts_of(run("rpm", "-qpl", str(own_rpm())).splitlines()), expected, "files")
    again = rpms("another/place/tree")
    for name, path in rpms().items():
        check(path.read_bytes() == again[name].read_bytes(), f"{name} differs")


def test_rpm_comes_and_goes(_bench):
    """On a Debian: rpm knows none of its packages, so it is not asked what the program needs."""
    debs = made("deb", ONE, "deb/*.deb")
    needed = run("dpkg-deb", "-f", str(debs[package_of(debs)]), "Depends").strip()
    system = System(OWN, leaking_program(), own_rpm())
    system.shell("apt-get -qq update && apt-get -qq -y --no-install-recommends install rpm python3")
    system.shell(f"apt-get -qq -y --no-install-recommends satisfy '{needed}'")
    before = files_of(system.shell)
    system.shell(f"rpm -i --nodeps /tmp/{own_rpm().name}")
    check_finds_leak(system.shell)
    system.shell("rpm -e allocsnap")
    left = (files_of(system.shell) ^ before) - {"/usr/share/licenses"}  # a folder of the system where RPM is at home
    check_equal({path for path in left if not path.startswith("/root/.rpmdb")}, set(), "files that it leaves")
