#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Does a test notice a deliberate mistake? Each mutant is the tree with one: applied in a copy, built there, tested. It
passes if a test fails. It fails if no test does, or if its text is not in the source exactly once.

    run.py KIND [-l] [NAME…]     mutants of this kind whose names contain one of NAME; -l lists them
    run.py --texts               only whether the text of every mutant of all kinds is in the source once, and each room of
                                 scripts/arrows has a mutant

In the end the tests that noticed must pass in the copy without mistakes. The kinds are in kinds.py.
"""
import concurrent.futures
import fnmatch
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from kinds import KINDS  # pylint: disable=wrong-import-position

ROOT = pathlib.Path(__file__).resolve().parents[2]
LEFT_OUT = {ROOT: {".git"}, ROOT / ".output": {"san", "fuzz", "peers", "pythons", "chdb", "formats", "musl", "bench", "package-test", "kernels"}}
FAILED = re.compile(r"^(?:\[FAIL\] (\S+?):? |(?:FAIL|LAW) (?:of )?([^\s:]+)|golden: (\S+) differs)", re.MULTILINE)
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
SECONDS = 1200


def left_out(path, names):
    """Also what is no file, folder or link: a copy of a device may have no end."""
    path = pathlib.Path(path)
    return {name for name in names if name in LEFT_OUT.get(path, ()) or
            stat.S_IFMT((path / name).lstat().st_mode) not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)}


class Unusable(Exception):
    """The mutant must be written anew."""


def edited(mutant, tree):
    """The file of a mutant below tree, its text, and the text with the mistake."""
    path = tree / mutant.file
    text = right = path.read_text(encoding="utf-8")
    for old, new in mutant.edits:
        if text.count(old) != 1:
            raise Unusable(f"{mutant.file} has {text.count(old)} times {old!r}")
        text = text.replace(old, new)
    return path, right, text


class Copy:
    """A copy of the tree with all that is built, in which little is built anew."""

    def __init__(self, folder, jobs):
        self.tree = pathlib.Path(folder, "tree")
        shutil.copytree(ROOT, self.tree, symlinks=True, ignore=left_out)
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("MAKE", "MFLAGS")) and name != "CI"}  # a mistake may be a warning
        self.environment.update(CCACHE_NOHASHDIR="1", CCACHE_BASEDIR=str(self.tree))
        compiler = "ccache gcc" if shutil.which("ccache") else "gcc"
        self.make = ["make", f"-j{jobs}", f"CC={compiler}", "CFLAGS=-O1 -g1 -w"]

    def build(self, targets, old=None):
        """old: a pattern of files that are not made anew."""
        kept = [f"--old-file={file.relative_to(self.tree)}" for file in self.tree.glob(old)] if old else []
        done = subprocess.run([*self.make, "BUILD_ONLY=1", *kept, *targets], cwd=self.tree, env=self.environment,
                              capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unusable(f"does not build:\n{(done.stdout + done.stderr)[-2000:]}")

    def failed_tests(self, argv, environment):
        """The names of tests that fail, or what was run if it says none."""
        with subprocess.Popen([*self.make, *argv[1:]] if argv[0] == "make" else argv, cwd=self.tree,
                              env={**self.environment, **environment}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, start_new_session=True) as run:
            try:
                output = COLOURS.sub("", run.communicate(timeout=SECONDS)[0].decode(errors="replace"))
            except subprocess.TimeoutExpired:
                return {"endless"}, ""
            finally:
                if run.poll() is None:
                    os.killpg(run.pid, signal.SIGKILL)
        names = {name.replace("::", "/") for found in FAILED.findall(output) for name in found if name}
        return (names or {"a test"}) if run.returncode else set(), output


def judge(kind, mutant, copy):
    """Applies a mutant and takes it back. Returns the tests that noticed, and the commands that ran them."""
    path, right, wrong = edited(mutant, copy.tree)
    found, commands, output = set(), [], ""
    try:
        path.write_text(wrong, encoding="utf-8")
        copy.build(kind.targets(mutant), kind.old)
        for argv, environment in kind.commands(mutant):
            names, output = copy.failed_tests(argv, environment)
            found |= {name for name in names if fnmatch.fnmatchcase(name, mutant.noticed_by)}
            if names:
                commands.append((argv, environment))
            if len(found) >= kind.wanted:
                return found, commands
    finally:
        path.write_text(right, encoding="utf-8")
    raise Unusable(f"noticed by {len(found)} of at least {kind.wanted} tests {' '.join(found)}\n{output[-2000:]}")


def check_without_mistakes(kind, mutants, commands, copy):
    for mutant in mutants:
        copy.build(kind.targets(mutant))
    for argv, environment in commands:
        names, output = copy.failed_tests(argv, environment)
        if names:
            raise Unusable(f"{' '.join(argv)} fails without a mistake: {' '.join(names)}\n{output[-2000:]}")


def say(line):
    print(line, flush=True)


def run(kind, mutants):
    """Each worker has a copy of its own, and takes the next mutant. Suites of real programs need the machine."""
    waiting, copies, commands, failed = list(reversed(mutants)), [], [], []

    def work(copy):
        while waiting:
            mutant = waiting.pop()
            try:
                found, told = judge(kind, mutant, copy)
                commands.extend(command for command in told if command not in commands)
                say(f"ok {mutant.name}: {' '.join(sorted(found)[:6])}")
            except Unusable as why:
                failed.append(mutant.name)
                say(f"FAIL {mutant.name}: {why}")

    with tempfile.TemporaryDirectory(prefix="allocsnap-mutants.") as folder:
        workers = os.cpu_count() if kind.only_computes else 1
        copies = [Copy(f"{folder}/{i}", os.cpu_count() // workers) for i in range(workers)]
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            list(pool.map(work, copies))
        try:
            check_without_mistakes(kind, mutants, commands, copies[0])
        except Unusable as why:
            failed.append("without a mistake")
            say(f"FAIL without a mistake: {why}")
    return len(mutants) - len(failed), len(failed)


def check_texts():
    gone = 0
    for kind in KINDS.values():
        for mutant in kind.mutants(ROOT):
            try:
                edited(mutant, ROOT)
            except (Unusable, OSError) as why:
                print(f"FAIL {kind.name}: {mutant.name}: {why}", file=sys.stderr)
                gone += 1
    rooms = re.findall(r"^([a-z/]+):", (ROOT / "scripts/arrows").read_text(encoding="utf-8"), re.MULTILINE)
    named = {mutant.name.partition(":")[0] for mutant in KINDS["rooms"].mutants(ROOT)}
    for room in set(rooms) - named - {"collect", "arch"}:  # the first has no code, the second has assembler
        print(f"FAIL rooms: {room} has no mutant", file=sys.stderr)
        gone += 1
    return 1 if gone else 0


def main():
    if sys.argv[1:] == ["--texts"]:
        return check_texts()
    kind, words = KINDS[sys.argv[1]], sys.argv[2:]
    names = [word for word in words if word != "-l"]
    mutants = [mutant for mutant in kind.mutants(ROOT) if not names or any(name in mutant.name for name in names)]
    if "-l" in words:
        print("\n".join(mutant.name for mutant in mutants))
        return 0
    passed, failed = run(kind, mutants)
    print(f"mutants-{kind.name}: {passed} passed, {failed} failed, 0 skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
