# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The output of commands on a terminal fits its width, and has colours there alone."""
import os
import re
import shutil
import subprocess
import tempfile

from checks import ALLOCSNAP, SNAPSHOTS, check, check_equal
from terminal import Terminal

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
COMMANDS = (
    "stats cxx.snap", "stats cxx.snap -g function", "stats cxx.snap -g traceback", "stats new.snap -c",
    "stats hostile.snap", "stats sampled.snap", "stats gaps.snap -g domain", "diff old.snap new.snap",
    "diff old.snap new.snap -g traceback", "diff sampled-old.snap sampled.snap", "leaks leaks", "leaks leaks --all",
    "leaks leaks-gaps", "list .", "list fleet", "show new.snap", "show gaps.snap", "show sampled.snap",
    "show rss.snap", "doctor", "doctor -v",
)
FLEET = (
    "fleet stats", "fleet hosts", "fleet hosts -g traceback", "fleet leaks", "fleet leaks -C leaks.db",
    "fleet diff --baseline label.version=1.3 --candidate label.version=1.4",
)


def screen(command, columns, folder, term="xterm", **env):
    """The output of the command, with a terminal on its standard output."""
    terminal = Terminal([ALLOCSNAP] + command.split() + ["--no-pager"], columns=columns, rows=50, cwd=folder,
                        stderr=subprocess.DEVNULL, env=dict({"TERM": term}, **env))
    terminal.end()
    return terminal.text


def lines_wider(text, columns):
    """Lines that a terminal wraps; a word that is wider alone cannot be helped."""
    return [line for line in ESCAPE.sub("", text).split("\r\n")
            if len(line) > columns and max(map(len, line.split())) < columns // 2]


def copied(test):
    """Runs the test in a copy of the snapshots, with catalogues of two fleets' snapshots."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = shutil.copytree(SNAPSHOTS, os.path.join(scratch, "snapshots"))
        for arguments in ["fleet"], ["-C", "leaks.db", "leaks-fleet"]:
            subprocess.run([ALLOCSNAP, "fleet", "index", *arguments], cwd=folder, check=False, capture_output=True)
        test(folder)


def test_tables_fit_the_terminal():
    def fit(folder):
        for columns in (60, 80, 200):
            for command in COMMANDS + FLEET:
                text = screen(command, columns, folder)
                check(len(text.split("\r\n")) > 1, f"{command} writes nothing")
                check_equal(lines_wider(text, columns), [], f"{command} at {columns} columns")
    copied(fit)


def test_a_pipe_gets_no_colours_and_whole_lines():
    def compare(folder):
        for command in COMMANDS[:19] + FLEET:
            piped = subprocess.run([ALLOCSNAP] + command.split(), cwd=folder, capture_output=True, text=True,
                                   check=False, env=dict(os.environ, TERM="xterm")).stdout
            check("\x1b" not in piped, f"{command} writes escapes into a pipe")
            wide = ESCAPE.sub("", screen(command, 60000, folder)).replace("\r\n", "\n")
            check_equal(wide, piped, f"{command}: a wide terminal and a pipe")
    copied(compare)


def test_colours_follow_the_environment():
    def compare(folder):
        command = "diff old.snap new.snap"
        check("\x1b[33m" in screen(command, 80, folder), "growth has no tone")
        check("\x1b[36m" in screen(command, 80, folder), "shrinkage has no tone")
        for env in ({"NO_COLOR": "1"}, {"CLICOLOR": "0"}, {"term": "dumb"}, {"NO_COLOR": "1", "CLICOLOR_FORCE": "1"}):
            check("\x1b" not in screen(command, 80, folder, **env), f"colours in spite of {env}")
        forced = subprocess.run([ALLOCSNAP] + command.split(), cwd=folder, capture_output=True, text=True, check=False,
                                env={"CLICOLOR_FORCE": "1"}).stdout
        check("\x1b[33m" in forced, "no colours although CLICOLOR_FORCE is set")
        check("\x1b[1;31mLEAKS" in screen("leaks leaks", 80, folder), "a leak has no tone")
    copied(compare)


def test_control_characters_of_names_stay_text():
    def compare(folder):
        for command in ("stats hostile.snap", "show hostile.snap", "list ."):
            rest = ESCAPE.sub("", screen(command, 80, folder)).replace("\r\n", "")
            check(not re.search(r"[\x00-\x1f\x7f]", rest), f"{command} writes control characters: {rest!r}")
    copied(compare)
