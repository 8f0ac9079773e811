#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The live tests on older kernels: Debian's, in QEMU without KVM, with programs of this machine.

    run.py [-l] [KERNEL…] [-- ARGUMENT…]     these kernels; -l lists all, also what is tried with more on the command line

ARGUMENT… is what tests/live/run.py gets; --smoke otherwise. Kernels come once from the mirror that this machine uses.
Environment: ALLOCSNAP; OUT, the folder that has workloads and ledger; KERNELS, where kernels are kept; KERNELS_SECONDS
(1800), how long each of them has.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../placement"))
import image  # pylint: disable=wrong-import-position
import suites  # pylint: disable=wrong-import-position

FOLDER = pathlib.Path(os.environ["KERNELS"])
SECONDS = int(os.environ.get("KERNELS_SECONDS", "1800"))
# The oldest kernel that allocsnap is for, and Debian's last one that has no uprobe sessions: the suite that has each.
KERNELS = {"6.1": "bookworm", "6.12": "trixie"}
# Each boot: the kernel, more words of its command line, and its own tests, if it does not run those that are asked for.
BOOTS = {**{name: (name, "", ()) for name in KERNELS},
         "6.12-lockdown": ("6.12", "lockdown=confidentiality", ("test_doctor_names_lockdown",)),
         "6.12-apparmor": ("6.12", "security=apparmor", ("test_doctor_names_a_security_label",))}
MACHINE = ("qemu-system-x86_64", "-M", "pc", "-cpu", "max,la57=off,cx16=off",  # QEMU 7.2 does cmpxchg16b wrong
           "-accel", "tcg", "-smp", "1", "-m", "3072", "-nodefaults", "-no-user-config", "-display", "none",
           "-monitor", "none", "-no-reboot")
COMMAND_LINE = "console=ttyS0 quiet panic=-1 oops=panic mitigations=off random.trust_cpu=on no_timer_check"


def fetch_kernel(name):
    """The path of the newest kernel of this name."""
    kept = sorted(FOLDER.glob(f"vmlinuz-{name}.*"))
    if kept:
        return kept[-1]
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        folder = pathlib.Path(folder)
        apt = suites.options(folder, KERNELS[name])
        suites.output(["apt-get", *apt, "-qq", "update"])
        names = suites.output(["apt-cache", *apt, "pkgnames", f"linux-image-{name}."]).split()
        package = suites.newest(names, rf"linux-image-{re.escape(name)}\.[0-9.]+(-[0-9]+|\+deb[0-9]+)-cloud-amd64")
        suites.output(["apt-get", *apt, "-qq", "download", package], cwd=folder)
        archive, = folder.glob("*.deb")
        suites.output(["dpkg-deb", "-x", str(archive), str(folder / "root")])
        found, = (folder / "root/boot").glob("vmlinuz-*")
        return found.rename(FOLDER / found.name)


def boot(kernel, initramfs, words, arguments):
    """The output of the tests. Without their end, the end of the console follows."""
    with tempfile.TemporaryDirectory() as folder:
        console, out = os.path.join(folder, "console"), os.path.join(folder, "out")
        argv = [*MACHINE, "-kernel", str(kernel), "-initrd", str(initramfs), "-serial", f"file:{console}", "-serial",
                f"file:{out}", "-append", f"{COMMAND_LINE} {words} tests={','.join(arguments)}"]
        try:
            subprocess.run(argv, stdin=subprocess.DEVNULL, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            print(f"{kernel.name}: not done after {SECONDS} s")
        text = pathlib.Path(out).read_text(encoding="utf-8", errors="replace")
        if "\nexit " not in text:
            text += "".join(pathlib.Path(console).read_text(encoding="utf-8", errors="replace").splitlines(True)[-20:])
        return text


def run(name, initramfs, arguments):
    """(passed, failed, skipped) of a boot."""
    kernel, words, own = BOOTS[name]
    try:
        if not shutil.which(MACHINE[0]):
            raise suites.Missing(f"{MACHINE[0]} is not installed")
        kernel = fetch_kernel(kernel)
    except suites.Missing as why:
        print(f"skip {name}: because {why}", flush=True)
        return 0, 0, 1
    text = boot(kernel, initramfs, words, own or arguments)
    print(f"== {kernel.name} {words}\n{text}", end="", flush=True)
    count = re.search(r"^live: (\d+) passed, (\d+) failed, (\d+) skipped\nexit \d+$", text, re.MULTILINE)
    if not count:
        print(f"FAIL {name}: the tests did not come to their end")
    return tuple(map(int, count.groups())) if count else (0, 1, 0)


def main():
    words = [*sys.argv[1:], "--"]
    arguments = words[words.index("--") + 1:-1] or ["--smoke"]
    words = words[:words.index("--")]
    names = [name for name in BOOTS if name in words] or list(BOOTS)
    if "-l" in words:
        print(*names, sep="\n")
        return 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=FOLDER) as initramfs:
        image.make_image(initramfs.name, os.environ["ALLOCSNAP"], os.environ["OUT"])
        counts = [run(name, initramfs.name, arguments) for name in names]
    passed, failed, skipped = map(sum, zip(*counts))
    print(f"kernels: {passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
