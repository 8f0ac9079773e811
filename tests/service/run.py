#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The package's unit below systemd as process 1: a Debian with the package of this commit, in QEMU without KVM.

    run.py [ARGUMENT…]     arguments of guest.py, which runs there

Environment: PACKAGE_TEST, a folder for systems and packages; KERNELS, where kernels are kept; OUT, the folder that has
workloads; SERVICE_SECONDS (1500), how long the guest has.
"""
import os
import pathlib
import re
import shutil
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / name) for name in (".", "kernels", "package")]
import made  # pylint: disable=wrong-import-position
import qemu  # pylint: disable=wrong-import-position
import suites  # pylint: disable=wrong-import-position

MACHINE, KERNEL = qemu.AMD64_BEFORE_6_19, "6.12"  # links of many probes, for which the unit's capabilities are enough
SECONDS = int(os.environ.get("SERVICE_SECONDS", "1500"))
INSTALL = """
apt-get -qq update
apt-get -qq -y --no-install-recommends install cpio systemd-sysv python3 /tmp/%s
cd /
find . -xdev -not -path './tmp/*' -not -path './var/cache/apt/*' -not -path './var/lib/apt/lists/*' \
	-not -path './usr/share/doc/*' -not -path './usr/share/locale/*' | cpio --quiet -o -H newc >/tmp/root.cpio
"""
UNIT = """
[Unit]
SuccessAction=poweroff-immediate
FailureAction=poweroff-immediate
[Service]
Type=oneshot
TimeoutStartSec=infinity
StandardOutput=file:/dev/%(port)s
StandardError=inherit
Environment=LIVE_PATIENCE=8 ALLOCSNAP=/usr/bin/allocsnap WORKLOADS=/tests/workloads
ExecStart=/bin/sh -c 'stty -F /dev/%(port)s raw -echo; cat /proc/version; /tests/service/guest.py %(words)s; echo exit $?'
"""


def make_later(package, path):
    """The same package as an upgrade: its version is later."""
    root = made.FOLDER / "later"
    shutil.rmtree(root, ignore_errors=True)
    made.run("dpkg-deb", "-R", str(package), str(root))
    control = root / "DEBIAN/control"
    control.write_text(re.sub(r"^(Version: .*)$", r"\1+later", control.read_text(), flags=re.MULTILINE))
    made.run("dpkg-deb", "-Znone", "-b", str(root), str(path))
    shutil.rmtree(root)


def make_system(words):
    """The path of the initramfs."""
    debs = made.made("deb", made.ONE, "deb/*.deb")
    package = debs[made.package_of(debs)]
    system = made.System(made.OWN, package)
    upper = system.work / "upper"
    for name in ("harness", "service"):
        shutil.copytree(HERE.parent / name, upper / "tests" / name)
    (upper / "tests/workloads").mkdir()
    shutil.copy(pathlib.Path(os.environ["OUT"]) / "workloads/holds", upper / "tests/workloads")
    make_later(package, upper / "tests/later.deb")
    (upper / "etc/systemd/system").mkdir(parents=True)
    (upper / "etc/systemd/system/tests.service").write_text(UNIT % {"port": MACHINE.port, "words": " ".join(words)})
    system.shell(INSTALL % package.name)
    return upper / "tmp/root.cpio"


def main():
    try:
        kernel = qemu.fetch_kernel(MACHINE, KERNEL)
    except suites.Missing as why:
        print(f"skip service: because {why}\nservice: 0 passed, 0 failed, 1 skipped")
        return 0
    text = qemu.boot(MACHINE, kernel, make_system(sys.argv[1:]), "rdinit=/sbin/init systemd.wants=tests.service", SECONDS)
    status = re.search(r"^exit (\d+)$", text, re.MULTILINE)
    print(text if status else f"{text}\nFAIL service: the tests did not come to their end\nservice: 0 passed, 1 failed, 0 skipped")
    return int(status[1]) if status else 1


if __name__ == "__main__":
    sys.exit(main())
