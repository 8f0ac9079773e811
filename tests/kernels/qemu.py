# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Debian's kernels, and machines of QEMU without KVM that boot them."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import typing

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../placement"))
import suites  # pylint: disable=wrong-import-position

FOLDER = pathlib.Path(os.environ["KERNELS"])
# The suite that has a kernel, how the package's name goes on after "linux-", and how it ends. From 6.19 on it is
# linux-binary-…. 6.1 is the oldest kernel that allocsnap is for; 6.12 is Debian's last one that has no uprobe sessions.
KERNELS = {"6.1": ("bookworm", "image-6.1.", "cloud-{}"), "6.12": ("trixie", "image-6.12.", "cloud-{}"),
           "6.12-16k": ("trixie", "image-6.12.", "{}-16k"), "newest": ("sid", "binary-", "cloud-{}")}


class Machine(typing.NamedTuple):
    """A machine of an architecture, which has the name that Debian gives it."""
    architecture: str
    argv: tuple
    console: str  # what the kernel calls the first serial port
    port: str  # and the second one, which is for the guest's output
    port_device: str  # QEMU's name of that
    words: str  # on the kernel's command line


AMD64 = Machine("amd64", ("qemu-system-x86_64", "-M", "pc", "-cpu", "max,la57=off"), "ttyS0", "ttyS1", "isa-serial",
                "mitigations=off no_timer_check")
# QEMU 7.2 does cmpxchg16b wrong. Kernels from 6.19 on have no storage of tasks without it, but do well with it.
AMD64_BEFORE_6_19 = AMD64._replace(argv=(*AMD64.argv[:-1], "max,la57=off,cx16=off"))

# With the CPU that can sign pointers; what that costs in QEMU with the architecture's own cipher is not worth it.
ARM64 = Machine("arm64", ("qemu-system-aarch64", "-M", "virt,gic-version=3", "-cpu", "max,pauth-impdef=on"), "ttyAMA0", "ttyS0",
                "pci-serial", "")

ARGV = ("-accel", "tcg", "-smp", "1", "-m", "6144", "-nodefaults", "-no-user-config", "-display", "none", "-monitor",
        "none", "-no-reboot")
COMMAND_LINE = "quiet panic=-1 oops=panic random.trust_cpu=on"


def fetch_kernel(machine, name):
    """The path of a kernel, which comes once from the mirror that this machine uses."""
    if not shutil.which(machine.argv[0]):
        raise suites.Missing(f"{machine.argv[0]} is not installed")
    kept = FOLDER / machine.architecture / name
    if not kept.exists():
        suite, begin, end = KERNELS[name]
        FOLDER.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
            folder = pathlib.Path(folder)
            apt = suites.options(folder, suite, machine.architecture)
            suites.output(["apt-get", *apt, "-qq", "update"])
            names = suites.output(["apt-cache", *apt, "pkgnames", f"linux-{begin}"]).split()
            package = suites.newest(names, rf"linux-{re.escape(begin)}[0-9.]+(-[0-9]+|\+deb[0-9]+)-{end.format(machine.architecture)}")
            suites.output(["apt-get", *apt, "-qq", "download", package], cwd=folder)
            archive, = folder.glob("*.deb")
            suites.output(["dpkg-deb", "-x", str(archive), str(folder / "root")])
            found, = (folder / "root").rglob("vmlinuz*")
            (folder / "kept").mkdir()
            found.rename(folder / "kept" / package.split("-", 2)[2])
            kept.parent.mkdir(exist_ok=True)
            (folder / "kept").rename(kept)
    kernel, = kept.iterdir()
    return kernel


def boot(machine, kernel, initramfs, words, seconds):
    """The guest's output, and the end of its console: the kernel is quiet, but for its errors."""
    with tempfile.TemporaryDirectory() as folder:
        console, out = os.path.join(folder, "console"), os.path.join(folder, "out")
        line = f"console={machine.console} port={machine.port} {COMMAND_LINE} {machine.words} {words}"
        argv = [*machine.argv, *ARGV, "-kernel", str(kernel), "-initrd", str(initramfs), "-serial", f"file:{console}",
                "-chardev", f"file,id=port,path={out}", "-device", f"{machine.port_device},chardev=port", "-append", line]
        late = ""
        try:
            subprocess.run(argv, stdin=subprocess.DEVNULL, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            late = f"not done after {seconds} s\n"
        text = pathlib.Path(out).read_text(encoding="utf-8", errors="replace") + late
        return text + "".join(pathlib.Path(console).read_text(encoding="utf-8", errors="replace").splitlines(True)[-20:])
