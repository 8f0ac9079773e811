# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Reads the output of a suite: its summary "SUITE: N passed, M failed, K skipped", or Criterion's lines; which tests
failed or were skipped, and why."""
import re

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
OURS = re.compile(r"^[\w.-]+: (\d+) passed, (\d+) failed(?:, (\d+) skipped)?", re.MULTILINE)
CRITERION = re.compile(r"Passing: *(\d+).*?Failing: *(\d+).*?Crashing: *(\d+)")
VERDICT = re.compile(r"^(FAIL|LAW) (\S+) \([\d.]+ s\): (.*)", re.MULTILINE)
FAILURE = re.compile(r"^(?:FAIL|LAW|failed of|not ok|--- .* expected).*|^[a-z ]+: .*failed:.*|^make.*\*\*\*.*", re.MULTILINE)
SKIPPED = re.compile(r"^(?:skip .*: because .*|skipped, because .*)", re.MULTILINE)
SHOWN_FAILURES = 20


class Result:
    """`failed_names`: {test: reason}, as far as the suite says them; `laws`: whether a broken law is among them."""

    def __init__(self, name, text, seconds, cpu_seconds):
        self.name, self.seconds, self.cpu_seconds = name, seconds, cpu_seconds
        self.passed = self.failed = self.skipped = self.again = 0
        verdicts = VERDICT.findall(text)
        self.laws = any(verdict == "LAW" for verdict, _, _ in verdicts)
        self.failed_names = {test: reason for _, test, reason in verdicts}
        self.failures = FAILURE.findall(text)[:SHOWN_FAILURES]
        self.reasons = SKIPPED.findall(text)

    def pass_again(self):
        self.passed, self.failed, self.again, self.failures = self.passed + self.failed, 0, self.failed, []

    def line(self):
        again = f" ({self.again} at the second try)" if self.again else ""
        return (f"{self.name:<9} {self.passed} passed{again}, {self.failed} failed, {self.skipped} skipped "
                f"({self.seconds:.0f} s, CPU {self.cpu_seconds:.0f} s)")


def read(name, text, status, seconds, cpu_seconds):
    text = COLOURS.sub("", text)
    result = Result(name, text, seconds, cpu_seconds)
    if found := CRITERION.findall(text):
        result.passed = sum(int(passed) for passed, _, _ in found)
        result.failed = sum(int(failing) + int(crashing) for _, failing, crashing in found)
        result.skipped = len(result.reasons)
    elif found := OURS.findall(text):
        result.passed, result.failed, result.skipped = (int(number or 0) for number in found[-1])
    if not result.failed and (status or not result.passed):
        result.failed = 1
    return result


def show(results):
    """A line for each suite, then each failure and each reason why a test was skipped."""
    print()
    for result in results:
        print(result.line())
    for result in results:
        for line in result.failures + result.reasons:
            print(f"{result.name}: {line[:300]}")


def show_sum(results, faults, seconds):
    """The last lines; the exit status."""
    for fault in faults:
        print(f"FAIL {fault}")
    passed, failed, skipped, again = (sum(getattr(result, part) for result in results)
                                      for part in ("passed", "failed", "skipped", "again"))
    cpu_seconds = sum(result.cpu_seconds for result in results)
    failed += len(faults)
    print(f"allocsnap: {passed} passed{f' ({again} at the second try)' if again else ''}, {failed} failed, "
          f"{skipped} skipped ({seconds:.0f} s, CPU of the suites {cpu_seconds:.0f} s)")
    return 1 if failed or not passed else 0
