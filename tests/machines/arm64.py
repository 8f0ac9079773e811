# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""arm64 on this machine: a system of Debian's packages, which are unpacked only, and programs that are built for it."""
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / ".output/arm64"
TO_BUILD = ("libc6-dev", "libbpf-dev", "libelf-dev", "libdw-dev", "libcapstone-dev", "libjansson-dev", "libzstd-dev", "zlib1g-dev",
            "libsqlite3-dev", "libncurses-dev", "libiberty-dev", "libxxhash-dev", "libcurl4-openssl-dev")
TO_RUN = ("bash", "dash", "binutils", "grep", "coreutils", "mount", "util-linux", "iproute2", "python3", "libgcc-s1", "libstdc++6", "sqlite3", "jq", "redis-server",
          "redis-tools", "bpftool", "libjemalloc2", "libtcmalloc-minimal4", "libmimalloc2.0", "musl", "git", "netbase")


class Failed(Exception):
    """The last words of a program that failed."""


def run(*argv, **options):
    done = subprocess.run(argv, capture_output=True, text=True, check=False, **options)
    if done.returncode:
        raise Failed(f"{argv[0]}: status {done.returncode} {done.stdout[-2000:]} {done.stderr[-2000:]}")


def make(*words):
    """A make of its own: nothing of the make around it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    run("make", "-C", str(ROOT), f"-j{os.cpu_count()}", *words, env=environment)


def system():
    """Its root folder. It is made once."""
    root = ROOT / ".output/machines/arm64-system"
    if not root.is_dir():
        root.parent.mkdir(parents=True, exist_ok=True)
        made = root.with_suffix(".new")
        run("rm", "-rf", str(made))
        run("mmdebstrap", "--architectures=arm64", "--variant=extract", f"--include={','.join(TO_BUILD + TO_RUN)}",
            "--aptopt=Acquire::Check-Valid-Until \"false\"", "bookworm", str(made))
        made.rename(root)
    return root


def build(*targets):
    make("ARCH=arm64", "CROSS_COMPILE=aarch64-linux-gnu-", f"SYSROOT={system()}", *targets)
