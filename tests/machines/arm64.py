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
          "redis-tools", "bpftool", "libjemalloc2", "libtcmalloc-minimal4", "libmimalloc2.0", "musl", "git", "netbase", "findutils")
# The tests build programs there.
TO_BUILD_THERE = ("gcc", "musl-tools", "libstdc++-12-dev", "libjemalloc-dev", "libgoogle-perftools-dev", "libmimalloc-dev")


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
    """Its root folder. It is made once for these packages."""
    root, packages = ROOT / ".output/machines/arm64-system", ",".join(TO_BUILD + TO_RUN + TO_BUILD_THERE)
    kept = root / "packages"
    if not kept.exists() or kept.read_text(encoding="ascii") != packages:
        root.parent.mkdir(parents=True, exist_ok=True)
        made = root.with_suffix(".new")
        run("rm", "-rf", str(made), str(root))
        run("mmdebstrap", "--architectures=arm64", "--variant=extract", f"--include={packages}",
            "--aptopt=Acquire::Check-Valid-Until \"false\"", "bookworm", str(made))
        (made / "packages").write_text(packages, encoding="ascii")
        made.rename(root)
    return root


GO = "/usr/lib/go-1.19/bin/go"
GO_PROGRAMS = {"heap-1.19-plain": ("heap.go", "0"), "heap-1.19-stripped": ("heap.go", "0", "-ldflags=-s -w"), "cgo": ("cgo.go", "1")}


def build_go(folder):
    """Programs of tests/live, as far as Go is here."""
    environment = os.environ | {"GOARCH": "arm64", "GO111MODULE": "off", "GOTOOLCHAIN": "local", "CC": f"aarch64-linux-gnu-gcc --sysroot={system()}"}
    for name, (source, has_c, *options) in GO_PROGRAMS.items() if os.path.exists(GO) else ():
        run(GO, "build", *options, "-o", f"{folder}/{name}", str(ROOT / "tests/workloads" / source), env=environment | {"CGO_ENABLED": has_c})


def build(*targets):
    make("ARCH=arm64", "CROSS_COMPILE=aarch64-linux-gnu-", f"SYSROOT={system()}", *targets)
    built = OUT / "allocsnap.bpf.o"
    if built.exists():
        run(str(ROOT / "scripts/check-bpf-stack.py"), str(built))
