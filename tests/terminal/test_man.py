# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The man pages: there is one for each command, and neither groff nor mandoc has a warning."""
import glob
import os
import re
import subprocess

from checks import MAN, all_commands, allocsnap, check, check_equal, commands_of, options_of


def lines_of(*argv):
    """All that a linter prints."""
    run = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return run.stdout.splitlines()


def test_each_command_has_a_page():
    pages = {os.path.basename(path).removesuffix(".1") for path in glob.glob(MAN + "/*.1")}
    commands = {"-".join(["allocsnap"] + command) for command in all_commands()}
    check_equal(pages, commands | {"allocsnap", "allocsnap-fleet"}, "pages")


def test_man_has_no_warning():
    for page in sorted(glob.glob(MAN + "/*.1")):
        run = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", page], capture_output=True, text=True,
                             check=False, env={"PATH": os.environ["PATH"], "MANWIDTH": "80", "LC_ALL": "C.UTF-8"})
        check_equal((run.returncode, run.stderr), (0, ""), f"{page}: man")


def test_mandoc_has_no_warning():
    check_equal(lines_of("mandoc", "-Tlint", *sorted(glob.glob(MAN + "/*.1"))), [], "mandoc")


def test_a_page_has_the_options_of_the_help():
    for command in all_commands():
        page = f"{MAN}/{'-'.join(['allocsnap'] + command)}.1"
        text = "\n".join(lines_of("mandoc", "-Tutf8", page))
        text = re.sub(".\b", "", text)
        for option in options_of(command):
            check(re.search(rf"(^|[ ,]){option}\b", text, re.M), f"{page}: no {option}")


def test_whatis_knows_the_pages():
    for page in sorted(glob.glob(MAN + "/*.1")):
        name = os.path.basename(page).removesuffix(".1")
        what = lines_of("lexgrog", page)
        check(len(what) == 1 and f'"{name} - ' in what[0], f"lexgrog {page}: {what}")
    check("fleet" in commands_of() and "--help" in allocsnap("--help"), "the help lists no commands")
