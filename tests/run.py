#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs the suites of a tier, and counts.

    run.py test             the tier of two minutes
    run.py check            the gate: what each commit passes; BASE=COMMIT also sanitizes what changed since
    run.py long [PART…]     parts of tests/parts at full size; all of them without a PART
    run.py touched          the parts that tests/areas names for what changed since BASE
    run.py parts            the names of these parts
    run.py name NAME        unit tests and golden cases with NAME in their names; for test_NAME the tests of all suites

The last line is "allocsnap: N passed, M failed, K skipped (S s)". A suite that did not run, or that failed without
saying which test, is a failed test. Each suite has a folder for temporary files (TMPDIR) of its own.

In the gate, up to three failed tests of suites that record real programs get a second try, alone at the end. A test that
passes then counts as passed, and as a chance: tests/chance.tsv gets a row, and fails the gate when it grows. A broken
law (a line "LAW …") gets no second try. The parts have no second try at all.
"""
import collections
import contextlib
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
# pylint: disable=wrong-import-position
from harness import chances, summary, touched

ROOT = pathlib.Path(__file__).resolve().parent.parent
SUITE_SECONDS = 3600  # guards against hanging only
TRIED_AGAIN = ("live", "inject", "sampler", "unwind", "terminal", "page", "fleet")
MAKE = ["make", f"-j{os.cpu_count()}"]

Suite = collections.namedtuple("Suite", "name args nice")


def suites(nice, *rows):
    """A row is a suite's name and its arguments, or a variable of make."""
    for row in rows:
        name, _, args = row.partition(" ")
        variable = args if "=" in args else f"{name.upper()}_ARGS='{args}'" if args else ""
        yield Suite(name, f"test-{name} {variable}".rstrip(), nice)


# The gate's suites, in two lanes. The first one runs suites that record programs: it has the processors first. The
# second one runs what computes or waits, the longest early. A lane that has nothing left takes from the other.
GATE = (tuple(suites(0, "live --core", "inject --core", "sampler --core", "unwind --core", "fleet --core")),
        tuple(suites(10, "unit", "san", "terminal", "oracle --core", "damage", "page --core", "leaks", "example", "golden",
                     "json", "report", "harness")))
TEST = (tuple(suites(0, "live --core --smoke")), tuple(suites(10, "unit UNIT_MODES=one", "golden", "json", "report", "leaks")))


def signal_session(leader, how):
    """Each suite is a session: a program of Criterion makes a process group of its own."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(int(pid)) == leader:
                os.kill(int(pid), how)


class Runner:
    """Runs suites side by side; what they counted is in `results`."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.results = []
        self.running = set()
        self.is_ended = False
        self.lock = threading.Lock()

    def environment(self, name):
        """Nothing of one suite is in the way of another one. Debian's programs come first, not private ones."""
        own = self.folder / name
        own.mkdir()
        own.chmod(0o1777)
        return os.environ | {"TMPDIR": str(own), "PATH": "/usr/bin:" + os.environ["PATH"]}

    def start(self, suite, make, log):
        process = subprocess.Popen([*make, *shlex.split(suite.args)], cwd=ROOT, env=self.environment(suite.name),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   start_new_session=True, preexec_fn=lambda: os.nice(suite.nice))
        self.running.add(process.pid)
        timer = threading.Timer(SUITE_SECONDS, self.give_up, (process.pid, log))
        timer.daemon = True
        timer.start()
        return process, timer

    @staticmethod
    def give_up(pid, log):
        log.write(f"FAIL all: did not end within {SUITE_SECONDS} s\n".encode())
        signal_session(pid, signal.SIGKILL)

    def run(self, suite, shown=True, make=("make",)):
        """Its result. `shown`: its output as it comes, else when it has ended."""
        begun = time.monotonic()
        path = self.folder / f"{suite.name}.log"
        heading = f"== {suite.name}: make {suite.args}\n"
        with open(path, "wb") as log:
            process, timer = self.start(suite, make, log)
            if shown:
                print(heading, end="", flush=True)
            for line in process.stdout:
                log.write(line)
                if shown:
                    sys.stdout.buffer.write(line)
                    sys.stdout.flush()
            _, status, usage = os.wait4(process.pid, 0)
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        self.running.discard(process.pid)
        text = path.read_text(errors="replace")
        result = summary.read(suite.name, text, process.returncode, time.monotonic() - begun,
                              usage.ru_utime + usage.ru_stime)
        with self.lock:
            self.results.append(result)
            if not shown:
                print(heading + text, end="", flush=True)
        return result

    def run_lanes(self, first, second):
        """Each suite once; a lane that has nothing left takes from the other one."""
        lists = collections.deque(first), collections.deque(second)

        def lane(own, other):
            while True:
                with self.lock:
                    suite = own.popleft() if own else other.popleft() if other else None
                if not suite or self.is_ended:
                    return
                self.run(suite, shown=own is lists[0])
        threads = [threading.Thread(target=lane, args=pair) for pair in (lists, lists[::-1])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def end(self):
        """Suites clean up when they are asked to end. What has not ended then is killed."""
        self.is_ended = True
        for how in signal.SIGTERM, signal.SIGKILL:
            for pid in list(self.running):
                signal_session(pid, how)
            time.sleep(3)


def build(lanes):
    """All that these suites need, before they begin: no two of them build the same file at a time."""
    targets = {suite.args.split()[0] for lane in lanes for suite in lane} - {"test-san"}
    if subprocess.run([*MAKE, "BUILD_ONLY=1", *sorted(targets)], cwd=ROOT, check=False).returncode:
        sys.exit("allocsnap: it does not build")


def try_again(runner):
    """The rows of chances: tests that failed beside others and passed alone."""
    failed = [result for result in runner.results if result.failed]
    names = [name for result in failed for name in result.failed_names]
    if not failed or any(result.laws or result.name not in TRIED_AGAIN or len(result.failed_names) != result.failed
                         for result in failed):
        return []
    if len(names) > 3:
        print(f"chance: {len(names)} tests failed: no second try")
        return []
    rows = []
    for result in failed:
        words = " ".join("=" + name for name in result.failed_names)
        again = runner.run(Suite(f"{result.name}.again", f"test-{result.name} {result.name.upper()}_ARGS='{words}'", 0))
        runner.results.remove(again)
        if not again.failed and again.passed == result.failed:
            rows += [(result.name, name, reason) for name, reason in result.failed_names.items()]
            result.pass_again()
    return rows


def run_gate(runner):
    base = touched.base()
    paths = touched.changed_since(base) if base else []
    rooms = touched.sanitized_rooms(paths)
    os.environ["SAN_ROOMS"] = " ".join(rooms)
    build(GATE)
    runner.run_lanes(*GATE)
    summary.show(runner.results)
    faults = chances.add(try_again(runner))
    touched.tell_not_run(base, paths, rooms)
    return faults


def run_parts(runner, parts):
    """One suite after another, each at full size."""
    table = touched.parts()
    unknown = [part for part in parts if part not in table]
    if unknown:
        sys.exit(f"allocsnap: {unknown[0]} is no part: {' '.join(table)}")
    os.environ["CHECK_FULL"] = "1"
    for part in parts or table:
        for name, args in table[part]:
            runner.run(Suite(name, args, 0), make=MAKE)
        summary.show(runner.results)


def run_touched(runner):
    base = touched.base()
    if not base:
        sys.exit("allocsnap: BASE=COMMIT says since when: no branch is followed here")
    parts = touched.parts_of(touched.changed_since(base))
    print(f"touched since {base}: {' '.join(parts) or 'no part'}")
    if not parts:
        sys.exit(0)
    run_parts(runner, parts)


def has_test(folder, suffixes, pattern):
    return any(re.search(pattern, path.read_text(errors="replace"), re.MULTILINE)
               for path in (ROOT / "tests" / folder).rglob("*") if path.suffix in suffixes)


def pattern_of(name):
    """Where a test is made: its function, or the function and the row that make it, or a table of another place."""
    ways, words, up_to_def = [rf"^def {re.escape(name)}"], name.split("_"), r"(?:(?!\ndef )[\s\S])*"
    for nr in range(2, len(words)):
        function, row = ("_".join(part) for part in (words[:nr], words[nr:]))
        ways.append(rf'^@\S*(?:in_modes|(?:rows|for_each)\((?:\S*[A-Z]|{up_to_def}"{row}")){up_to_def}\ndef {function}\(')
    return "|".join(ways)


def run_name(name):
    """The exit status. Builds only what it runs."""
    commands = []
    for program, folder in ("unit", "unit"), ("unit-bpf", "fake_bpf"):
        if has_test(folder, (".c",), rf"^\w*(?:Test|TEST)\(.*{re.escape(name)}"):
            commands += [["make", f".output/{program}"],
                         ["env", "ORDERS=100", "FAKE_UPROBES=1", "tests/criterion.sh", f".output/{program}",
                          "--filter", f"@(*{name}*/*|*/*{name}*)"]]
    if has_test("golden", (".case",), rf"^== (?!err$|exit).*{re.escape(name)}"):
        commands.append(["make", "test-golden", f"GOLDEN_ARGS={name}"])
    if name.startswith("test_"):
        commands += [["make", f"test-{suite}", f"{suite.upper()}_ARGS={name}"] for suite in TRIED_AGAIN
                     if has_test(suite, (".py",), pattern_of(name))]
    if not commands:
        sys.exit(f"allocsnap: no test has {name!r} in its name")
    return max(subprocess.run(command, cwd=ROOT, check=False).returncode for command in commands)


def main():
    tier, *words = sys.argv[1:] or ["check"]
    if tier == "name" and len(words) == 1:
        return run_name(*words)
    if tier == "parts":
        print(*touched.parts(), sep="\n")
        return 0
    begun, faults = time.monotonic(), []
    with tempfile.TemporaryDirectory(prefix="allocsnap-check.") as folder:
        os.chmod(folder, 0o755)
        runner = Runner(folder)
        try:
            if tier == "check":
                faults = run_gate(runner)
            elif tier == "test":
                build(TEST)
                runner.run_lanes(*TEST)
                summary.show(runner.results)
            elif tier == "long":
                run_parts(runner, words)
            elif tier == "touched":
                run_touched(runner)
            else:
                sys.exit(__doc__)
        except KeyboardInterrupt:
            runner.end()
            sys.exit(130)
    return summary.show_sum(runner.results, faults, time.monotonic() - begun)


if __name__ == "__main__":
    sys.exit(main())
