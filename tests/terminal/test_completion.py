# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Completion in bash and zsh, compared with what help texts list and the command line accepts."""
import contextlib
import glob
import os
import re
import shutil
import subprocess
import tempfile

from checks import ALLOCSNAP, COMPLETION, MAN, all_commands, allocsnap, check, check_equal, commands_of, options_of
from shells import Shell

SHELLS = ("bash", "zsh")


@contextlib.contextmanager
def shells():
    """Each shell in a folder with files, folders and the folders of two recorded processes."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = os.path.join(scratch, "work")
        os.makedirs(folder + "/allocsnap-data/host/redis-server.4711")
        os.makedirs(folder + "/allocsnap-data/host/shopd.4722")
        os.makedirs(folder + "/other")
        for name in ("old.snap", "new one.snap", "notes.txt"):
            with open(os.path.join(folder, name), "w", encoding="utf-8"):
                pass
        with contextlib.ExitStack() as stack:
            started = []
            for name in SHELLS:
                shell = Shell(name, folder, COMPLETION, scratch)
                stack.callback(shell.close)
                started.append(shell)
            yield started


def check_offers(shell, line, expected):
    check_equal(shell.offers(line), sorted(expected), f"{shell.name}: {line!r}")


def accepted_values(command, option):
    """The values that a refusal lists, and the help; None: it lists none. With --help nothing is run."""
    found = re.search(r"(?:is none of|there are|is neither|are:) ([^;]*)", allocsnap(*command, option, "@@", "--help", status=(0, 2)))
    names = re.split(r", | nor | or ", found[1].strip()) if found else []
    if not all(re.fullmatch("[a-z-]+", name) for name in names):
        return None
    help_text = re.search(rf" {option} .*?(?=\n  {{1,6}}-|\n\n)", allocsnap(*command, "--help=all"), re.S)[0]
    return [name for name in names if re.search(rf"(?<![\w-]){name}(?![\w-])", help_text)]


def test_commands_are_those_of_the_help():
    with shells() as started:
        for shell in started:
            check_offers(shell, "allocsnap ", commands_of() + ["help"])
            check_offers(shell, "allocsnap fleet ", commands_of("fleet") + ["help"])
            check_offers(shell, "allocsnap help ", commands_of() + ["help"])
            check_offers(shell, "allocsnap --no-pager st", ["stats"])


def test_options_are_those_of_the_help():
    with shells() as started:
        for command in all_commands():
            long = [option for option in options_of(command) if option.startswith("--")]
            check("--help" in long, f"the help of {command} has no options")
            for shell in started:
                check_offers(shell, f"allocsnap {' '.join(command)} --", long)


def test_values_are_those_that_are_accepted():
    compared = 0
    with shells() as started:
        for command in all_commands():
            for option, value in options_of(command).items():
                accepted = accepted_values(command, option) if value and option.startswith("--") else None
                if not accepted:
                    continue
                compared += 1
                for shell in started:
                    check_offers(shell, f"allocsnap {' '.join(command)} {option} ", accepted)
                    check_offers(shell, f"allocsnap {' '.join(command)} {option}={accepted[0][0]}",
                                 [word for word in accepted if word[0] == accepted[0][0]])
    check(compared >= 15, f"only {compared} options have values to compare")


def test_values_of_letters_lists_and_free_texts():
    with shells() as started:
        for shell in started:
            check_offers(shell, "allocsnap diff -s ", ["abs", "growth", "shrink"])
            check_offers(shell, "allocsnap stats --top ", [])
            listed = [word.removeprefix("malloc,") for word in shell.offers("allocsnap attach --domain malloc,mm")]
            check_equal(listed, ["mmap"], f"{shell.name}: a list")


def test_arguments_are_snapshots_and_folders():
    files, folders = ["new one.snap", "old.snap"], ["allocsnap-data", "other"]
    recorded = ["redis-server", "redis-server.4711", "shopd", "shopd.4722"]

    def plain(shell, line):
        return [word.rstrip("/").replace("\\", "") for word in shell.offers(line)]

    with shells() as started:
        for shell in started:
            for command in ("stats", "show", "diff old.snap", "symbolize"):
                check_equal(plain(shell, f"allocsnap {command} "), sorted(files + folders + recorded),
                            f"{shell.name}: {command}")
            check_equal(plain(shell, "allocsnap convert "), sorted(files + folders + recorded + ["notes.txt"]),
                        f"{shell.name}: convert")
            check_equal(plain(shell, "allocsnap list "), folders, f"{shell.name}: list")
            check_equal(plain(shell, "allocsnap diff --suppressions n"), ["new one.snap", "notes.txt"],
                        f"{shell.name}: a file")
            check_offers(shell, "allocsnap stats redis", ["redis-server", "redis-server.4711"])
            check_offers(shell, "allocsnap stats 47", ["4711", "4722"])
            which = [word.removeprefix("redis-server@") for word in shell.offers("allocsnap stats redis-server@")]
            check_equal(which, ["-1", "-2", "first", "latest"], f"{shell.name}: @")


def test_processes_by_pid_and_name():
    with tempfile.TemporaryDirectory() as folder:
        program = shutil.copy("/bin/sleep", os.path.join(folder, "completed proc"))
        process = subprocess.Popen([program, "infinity"])
        try:
            with shells() as started:
                for shell in started:
                    names = [word.replace("\\", "") for word in shell.offers("allocsnap attach completed")]
                    check_equal(names, ["completed proc"], f"{shell.name}: names")
                    for line in ("attach ", "doctor ", "leaks ", "record --pid ", "attach --pid="):
                        check(str(process.pid) in shell.offers(f"allocsnap {line}{process.pid}"),
                              f"{shell.name}: {line}: no PID {process.pid}")
                    check("kthreadd" not in shell.offers("allocsnap attach k"), f"{shell.name}: a kernel thread")
        finally:
            process.kill()
            process.wait()


def test_run_completes_the_program():
    with shells() as started:
        for shell in started:
            if shell.name == "zsh":
                check("sleep" in shell.offers("allocsnap run -o out slee"), "zsh: no program")
                check("sleep" in shell.offers("allocsnap run -- slee"), "zsh: no program after --")
                continue
            check("sleep" in shell.offers("allocsnap run -o out slee"), "bash: no program")
            check("sleep" in shell.offers("allocsnap run -- slee"), "bash: no program after --")
            check("--color" in shell.offers("allocsnap run -- ls --col"), "bash: no option of the program")


def test_installed_files_are_found():
    """`make install` puts them where both shells look, with prefix or PREFIX."""
    with tempfile.TemporaryDirectory() as root:
        build = os.path.dirname(ALLOCSNAP)
        for source, place, where in (("allocsnap", "bash-completion/completions", "prefix"),
                                     ("_allocsnap", "zsh/vendor-completions", "PREFIX")):
            makefile = subprocess.run(["make", "-n", "install", f"{where}=/usr", f"DESTDIR={root}"], cwd=build,
                                      capture_output=True, text=True, check=True).stdout
            check(re.search(rf"-t {root}/usr/share/{place} \S*completion/{source}\b", makefile),
                  f"make install does not put {source} into {place}")
    refused = subprocess.run(["make", "-n", "install", "LIBDIR=/usr/lib"], cwd=build, capture_output=True, text=True, check=False)
    check(refused.returncode and "LIBDIR has no meaning here" in refused.stderr, f"LIBDIR is ignored: {refused.stderr}")


# ---- man ----
#
# The man pages: there is one for each command, and neither groff nor mandoc has a warning.

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
