# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Shared by the tests: the program under test, and checks."""
import os
import re
import subprocess

ALLOCSNAP = os.environ["ALLOCSNAP"]
SNAPSHOTS = os.environ["SNAPSHOTS"]
MAN = os.environ["MAN"]
COMPLETION = os.environ["COMPLETION"]
MAKE_TRACES = os.environ["MAKE_TRACES"]


class Failure(Exception):
    """A check failed."""


def check(condition, message):
    if not condition:
        raise Failure(message if len(message) < 3000 else message[:3000] + "…")


def check_equal(found, expected, what):
    check(found == expected, f"{what}: {found!r}, expected {expected!r}")


def allocsnap(*words, status=(0,)):
    """The output of the program, stdout and stderr."""
    run = subprocess.run([ALLOCSNAP, *words], capture_output=True, text=True, check=False)
    check(run.returncode in status, f"exit status of {' '.join(words)}: {run.returncode}")
    return run.stdout + run.stderr


def commands_of(*parent):
    """The commands that the help lists."""
    text = allocsnap(*parent, "--help").partition("\nExample:")[0]
    return re.findall(rf"^  {' '.join(parent + ('([a-z]+)',))}", text, re.M)


def all_commands():
    """Each as a list of words: ["fleet", "diff"]."""
    found = []
    for name in commands_of():
        found += [["fleet", sub] for sub in commands_of("fleet")] if name == "fleet" else [[name]]
    return found


def options_of(command):
    """{"--sort": "ORDER", "-s": "ORDER", "--help": None …}, as the help lists them."""
    options = {}
    for letter, name, value in re.findall(r"^  (?:-(\w), |    )(--[a-z-]+)(?: (\S+))?",
                                          allocsnap(*command, "--help"), re.M):
        options[name] = value or None
        if letter:
            options["-" + letter] = value or None
    return options
