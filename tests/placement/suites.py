# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The allocators of other Debian suites: their newest packages, unpacked below a folder of ours.

They come from the mirror that this machine uses, by an apt with indexes and a cache of its own;
nothing of the machine's is changed, and apt checks Debian's signatures. What is there stays.
"""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess

SUITES = ("bookworm", "trixie", "sid")
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
MULTIARCH = "x86_64-linux-gnu"
# The patterns allow for the numbers that a suite has in its package names.
PACKAGES = (r"libc6", r"libgcc-s1", r"libstdc\+\+6", r"libjemalloc2", r"libtcmalloc-minimal4(t64)?",
            r"libmimalloc[0-9.]+(t64)?", r"musl")


class Missing(Exception):
    """The reason why a suite cannot be fetched."""


def output(argv, **options):
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=600, **options)
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines() or ["it failed"]
        raise Missing(f"{os.path.basename(argv[0])}: {last[-1]}")
    return done.stdout


def mirror():
    """Where this machine has Debian's main archive from."""
    rows = output(["apt-get", "indextargets", "--format", "$(REPO_URI)|$(ORIGIN)|$(LABEL)",
                   "Created-By: Packages"]).splitlines()
    for row in rows:
        where, origin, label = row.split("|")
        if (origin, label) == ("Debian", "Debian"):
            return where
    raise Missing("apt knows no mirror of Debian: 'apt-get update' was never run")


def options(folder, suite, architecture):
    """An apt that knows this suite and nothing else."""
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "sources.list").write_text(f"deb [signed-by={KEYRING}] {mirror()} {suite} main\n")
    settings = {"Dir::Etc::SourceList": folder / "sources.list", "Dir::Etc::SourceParts": "/dev/null",
                "Dir::Etc::Preferences": "/dev/null", "Dir::Etc::PreferencesParts": "/dev/null",
                "Dir::State::Lists": folder / "lists", "Dir::State::Status": "/dev/null",
                "Dir::Cache": folder / "cache", "APT::Architecture": architecture,
                "APT::Architectures": architecture, "APT::Sandbox::User": "root",
                "Acquire::Languages": "none", "Acquire::Retries": "2", "Acquire::http::Timeout": "20"}
    return [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]


def newest(names, pattern):
    """The last of several names that differ in their numbers."""
    found = [name for name in names if re.fullmatch(pattern, name)]
    if not found:
        raise Missing(f"no package {pattern}")
    return max(found, key=lambda name: [int(number) for number in re.findall(r"\d+", name)])


def fetch(folder, suite, packages=PACKAGES, architecture="amd64"):
    """The root folder with the suite's packages and those that they depend on."""
    folder = pathlib.Path(folder).resolve() / (suite if architecture == "amd64" else f"{suite}-{architecture}")
    root, done = folder / "root", folder / "done"
    if done.exists():
        return root
    apt = options(folder, suite, architecture)
    output(["apt-get", *apt, "-qq", "update"])
    names = output(["apt-cache", *apt, "pkgnames"]).split()
    wanted = [newest(names, pattern) for pattern in packages]
    output(["apt-get", *apt, "-qq", "-d", "-y", "--no-install-recommends", "--reinstall",
            "-o", "Debug::NoLocking=1", "install", *wanted])
    for package in sorted((folder / "cache/archives").glob("*.deb")):
        output(["dpkg-deb", "-x", str(package), str(root)])
    fetched = sorted(path.name for path in (folder / "cache/archives").glob("*.deb"))
    for name in ("lists", "cache"):
        shutil.rmtree(folder / name)
    done.write_text("\n".join(fetched) + "\n")
    return root


def fetch_all(folder):
    """{suite: its root, or Missing}."""
    def try_one(suite):
        try:
            return fetch(folder, suite)
        except (Missing, subprocess.TimeoutExpired, OSError) as why:
            return Missing(str(why))

    with concurrent.futures.ThreadPoolExecutor() as pool:
        return dict(zip(SUITES, pool.map(try_one, SUITES)))


def versions(folder, suite):
    """{package: version}."""
    rows = (pathlib.Path(folder) / suite / "done").read_text().splitlines()
    return {row.split("_")[0]: row.split("_")[1].replace("%3a", ":") for row in rows}
