# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Shared by the tests: the program under test, and what its help says."""
import os
import re
import subprocess

from harness import ALLOCSNAP, check, check_equal, check_status  # pylint: disable=unused-import

SNAPSHOTS = os.environ["SNAPSHOTS"]
MAN = os.environ["MAN"]
COMPLETION = os.environ["COMPLETION"]
MAKE_TRACES = os.environ["MAKE_TRACES"]


def allocsnap(*words, status=(0,)):
    """The output of the program, stdout and stderr."""
    run = subprocess.run([ALLOCSNAP, *words], capture_output=True, text=True, check=False)
    if run.returncode not in status:
        check_status(run.returncode, status, " ".join(words))
    return run.stdout + run.stderr


def commands_of(*parent):
    """The commands that the help lists."""
    text = allocsnap(*parent, "--help").partition("\nExample")[0]
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
                                          allocsnap(*command, "--help=all"), re.M):
        options[name] = value or None
        if letter:
            options["-" + letter] = value or None
    return options
