# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The program that only reads snapshots: on this machine without clang, and on arm64 under qemu-user."""
import functools
import importlib.util
import os
import pathlib
import re
import subprocess
import tempfile

import arm64
from harness import check, check_equal

ROOT = pathlib.Path(__file__).resolve().parents[2]
MACHINES = pathlib.Path(os.environ["MACHINES"])
ABSENT = "attach", "run", "record", "doctor", "census", "eject"
REFUSAL = "this program only reads snapshots"

# Cases of commands that record, of all help, and of options of recording.
RECORDING = re.compile(rb"allocsnap (?:%s|help)\b|--help|-h\b|--completion|--man|--version" % b"|".join(map(str.encode, ABSENT)))
OPTIONS_OF_RECORDING = "leaks-refused", "top-refusals", "usage-close-words", "find-snapshot-commands"
QEMU_LACKS = "source", "source-hostile", "symbolize-nothing"  # openat2() and seccomp(), in version 7.2


def run(*argv, status=0, **options):
    done = subprocess.run(argv, capture_output=True, text=True, check=False, **options)
    check(done.returncode == status, f"{argv}: status {done.returncode} {done.stdout[-2000:]} {done.stderr[-2000:]}")
    return done


@functools.cache
def reading():
    """A tool that is not there must not be missed."""
    arm64.make("READS_ONLY=1", "CLANG=false", "BPFTOOL=false", "STRIP=false", "all")
    return ROOT / ".output/reading/allocsnap"


@functools.cache
def reading_on_arm64():
    """A command that runs it here."""
    arm64.build("READS_ONLY=1", "all")
    folder = MACHINES / "arm64"
    folder.mkdir(parents=True, exist_ok=True)
    command = folder / "allocsnap"
    command.write_text(f'#!/bin/sh\nexec qemu-aarch64-static -L {arm64.system()} {arm64.OUT}/reading/allocsnap "$@"\n', encoding="ascii")
    command.chmod(0o755)
    return command


# ---- golden cases ----

def golden():
    spec = importlib.util.spec_from_file_location("golden", ROOT / "tests/golden/run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cases_of_reading(cases):
    """{name: text} of all files, without cases of commands that record."""
    found = {}
    for path in sorted(cases.CASES.glob("*.case")):
        for name, text in cases.cases_of(path).items():
            commands = b"\n".join(line for line in text.split(b"\n") if line.startswith(b"$ "))
            if not RECORDING.search(commands) and name not in OPTIONS_OF_RECORDING:
                found[name] = text
    return found


def check_golden(command, left_out=()):
    """It prints what the whole program prints."""
    cases = golden()
    texts = cases_of_reading(cases)
    environment = os.environ | {"LC_ALL": "C", "PATH": f"{command.parent}:{os.environ['PATH']}"}
    check(len(texts) > 250, f"only {len(texts)} cases")
    with tempfile.TemporaryDirectory() as folder:
        shared = cases.Shared(os.environ["SNAPSHOTS"], pathlib.Path(folder) / "snapshots")
        for name in texts.keys() - set(left_out):
            check_equal(cases.run_case(texts[name], pathlib.Path(folder), environment), texts[name], name)
            shared.put_right()


def check_refuses(command):
    for name in ABSENT:
        said = run(str(command), name, "4711", status=1).stderr
        check_equal(said.count("\n"), 1, f"lines of {said!r}")
        check(f"{name}: {REFUSAL}" in said, said)
    for name in "leaks", "top":
        check(REFUSAL in run(str(command), name, str(os.getpid()), status=1).stderr, name)
    check("only reads snapshots" in run(str(command), "--version").stdout, "--version")


def test_reading_without_clang(_bench):
    check_golden(reading())
    check_refuses(reading())


def test_reading_on_arm64(_bench):
    check_golden(reading_on_arm64(), QEMU_LACKS)
    check_refuses(reading_on_arm64())


def test_files_of_arm64_are_those_of_this_machine(_bench):
    """A snapshot, a report, a database and two other formats that are written there are the same bytes, and read here."""
    source = pathlib.Path(os.environ["SNAPSHOTS"]) / "new.snap"
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for output in "a.json", "b.snap", "c.pb.gz", "d.folded":
            given = source if output == "a.json" else folder / "a.json"
            made = []
            for command in os.environ["ALLOCSNAP"], reading_on_arm64():
                run(str(command), "convert", str(given), "-o", str(folder / f"now-{output}"))
                made.append((folder / f"now-{output}").read_bytes())
                (folder / f"now-{output}").unlink()
            check(made[0] == made[1], f"{output}: other bytes")
            (folder / output).write_bytes(made[1])
        stats = [run(str(command), "stats", str(folder / "b.snap")).stdout for command in (os.environ["ALLOCSNAP"], reading_on_arm64())]
        check_equal(stats[0], stats[1], "stats of the snapshot that arm64 wrote")
