#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The live tests on other kernels: Debian's, in QEMU without KVM, with programs of this machine.

    run.py [-l] [BOOT…] [-- ARGUMENT…]     these boots, one on each processor; -l lists all

ARGUMENT… is what tests/live/run.py gets; otherwise the boot's own tests, or --smoke.
Environment: ALLOCSNAP; OUT, the folder that has workloads and ledger; KERNELS, where kernels are kept; KERNELS_SECONDS
(1800), how long each boot has.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import typing
from concurrent import futures

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../machines"))
import arm64
import image
import qemu
import suites

SECONDS = int(os.environ.get("KERNELS_SECONDS", "1800"))


def system_of(machine):
    """The files of a guest: (the root folder of its system, allocsnap, the folder with workloads and ledger)."""
    if machine is not qemu.ARM64:
        return "", os.environ["ALLOCSNAP"], os.environ["OUT"]
    if missing := [name for name in ("aarch64-linux-gnu-g++", "mmdebstrap") if not shutil.which(name)]:
        raise suites.Missing(f"{missing[0]} is not installed")
    arm64.build("all", "workloads-anywhere", f"{arm64.OUT.relative_to(arm64.ROOT)}/workloads/read_go")
    arm64.build_go(arm64.OUT / "workloads")
    return arm64.system(), arm64.OUT / "allocsnap", arm64.OUT


def record_here(folder):
    """Snapshots of this machine for the tests of another one, if this one may record (test_other_machine.py)."""
    if os.geteuid():
        return []
    argv = [os.environ["ALLOCSNAP"], "run", "-o", f"{folder}/recorded", "--label", "machine=other", "--", f"{os.environ['OUT']}/workloads/cxx"]
    done = subprocess.run(argv, input="go\nquit\n", capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"this machine cannot record: {done.stderr}")
    recorded, = pathlib.Path(folder, "recorded").rglob("*.snap")
    return [recorded.rename(f"{folder}/other-machine.snap")]


class Boot(typing.NamedTuple):
    machine: qemu.Machine
    kernel: str
    words: str = ""  # more on the kernel's command line
    tests: tuple = ()  # its own


# The features of arm64's own code, and those that are refused there.
ARM64_TESTS = ("@smoke", "=test_snapshots_of_two_machines_meet_by_line_and_function", "refused_by_machine",
               "test_doctor_advises_only", "=test_mmap_totals_are_known_with_links", "=test_cgo_tracebacks_go_on_in_go_code",
               "test_go_rows_are_the_programs_own_1.19", "test_go_snapshot_has_the_samples_and_names_1.19", "=test_go_leak_is_first",
               "=test_leaks_names_the_line_that_leaks", "=test_run_fast_estimates_are_right",
               "test_allocator_is_recorded_exactly_musl", "test_allocator_is_recorded_exactly_jemalloc",
               "test_allocator_is_recorded_exactly_tcmalloc", "test_allocator_is_recorded_exactly_mimalloc")
LARGE_PAGES_TESTS = ("@smoke", "test_mmap_totals_are_known", "=test_pages_of_another_size_are_refused",
                     "=test_census_is_that_of_the_allocator_itself", "=test_go_leak_is_first")

BOOTS = {
    "6.1": Boot(qemu.AMD64_BEFORE_6_19, "6.1"),
    "6.12": Boot(qemu.AMD64_BEFORE_6_19, "6.12"),
    "6.12-preempt": Boot(qemu.AMD64_BEFORE_6_19, "6.12", "preempt=full"),
    "newest": Boot(qemu.AMD64, "newest"),
    "arm64-6.1": Boot(qemu.ARM64, "6.1"),
    "arm64-6.12": Boot(qemu.ARM64, "6.12", tests=ARM64_TESTS),
    "arm64-newest": Boot(qemu.ARM64, "newest", tests=ARM64_TESTS),
    "arm64-16k": Boot(qemu.ARM64, "6.12-16k", tests=LARGE_PAGES_TESTS),
    "6.12-lockdown": Boot(qemu.AMD64_BEFORE_6_19, "6.12", "lockdown=confidentiality", ("test_doctor_names_lockdown",)),
    "6.12-apparmor": Boot(qemu.AMD64_BEFORE_6_19, "6.12", "security=apparmor", ("test_doctor_names_a_security_label",)),
}


def prepared(name, folder, arguments):
    """(kernel, its initramfs), or (None, why it cannot boot). The arguments are a file there: a kernel's command line has
    2,048 bytes at most."""
    machine = BOOTS[name].machine
    try:
        kernel = qemu.fetch_kernel(machine, BOOTS[name].kernel)
        initramfs = pathlib.Path(folder) / machine.architecture
        if not initramfs.exists():
            root, allocsnap, out = system_of(machine)
            words = pathlib.Path(folder, "arguments")
            words.write_text("\n".join(arguments), encoding="utf-8")
            image.make_image(initramfs, allocsnap, out, root, [words, *(record_here(folder) if root else ())])
        return kernel, initramfs
    except suites.Missing as why:
        return None, why


def run(name, kernel, initramfs, arguments):
    """(what a boot prints, (passed, failed, skipped))."""
    chosen = BOOTS[name]
    if not kernel:
        return f"skip {name}: because {initramfs}\n", (0, 0, 1)
    words = chosen.words if arguments else f"{chosen.words} tests={','.join(chosen.tests or ['--smoke'])}"
    text = f"== {name}: {kernel.name} {chosen.words}\n" + qemu.boot(chosen.machine, kernel, initramfs, words, SECONDS)
    count = re.search(r"^live: (\d+) passed, (\d+) failed, (\d+) skipped\nexit \d+$", text, re.MULTILINE)
    if not count:
        text += f"FAIL {name}: the tests did not come to their end\n"
    return text, tuple(map(int, count.groups())) if count else (0, 1, 0)


def tell(counts):
    """The sum, in the words of a suite. counts: of each boot."""
    for name, (passed, failed, skipped) in counts.items():
        print(f"{name:<16}{passed} passed, {failed} failed, {skipped} skipped")
    passed, failed, skipped = map(sum, zip(*counts.values()))
    print(f"kernels: {passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


def main():
    words = [*sys.argv[1:], "--"]
    arguments = words[words.index("--") + 1:-1]
    words = words[:words.index("--")]
    names = [name for name in BOOTS if name in words] or list(BOOTS)
    if "-l" in words:
        print(*names, sep="\n")
        return 0
    counts = {}
    with tempfile.TemporaryDirectory() as folder, futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        boots = [pool.submit(run, name, *prepared(name, folder, arguments), arguments) for name in names]
        for name, boot in zip(names, boots):
            text, counts[name] = boot.result()
            print(text, end="", flush=True)
    return tell(counts)


if __name__ == "__main__":
    sys.exit(main())
