# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""top on a terminal: keys, sizes, ends, and as text. tmux is the terminal."""
import os
import pathlib
import re
import shlex
import signal
import subprocess
import tempfile
import time

import harness
from harness import ALLOCSNAP, PATIENCE, Failure, check, check_equal, children_of, cpu_seconds, tool

PROGRAM = ALLOCSNAP


class Screen:
    """A tmux server of its own, with one window in which allocsnap runs."""

    def __init__(self, bench, command, size=(100, 30), environment=()):
        folder = tempfile.mkdtemp(prefix="screen.", dir=bench.folder)
        self.tmux = [tool("tmux"), "-S", os.path.join(folder, "tmux"), "-f", "/dev/null"]
        script, self.own = os.path.join(folder, "script"), os.path.join(folder, "tmp")
        os.mkdir(self.own)
        environment = f"export TMPDIR={self.own}\n{''.join(environment)}"
        pathlib.Path(script).write_text(f"trap : INT\ncd {bench.folder}\n{environment}{shlex.join(command)}\n"
                                        "echo STATUS=$?\nstty -a | tr ';' '\\n' | grep -w echo\nsleep 600\n")
        subprocess.run([*self.tmux, "new-session", "-d", "-x", str(size[0]), "-y", str(size[1]), "sh", script],
                       check=True)

    def text(self, *options):
        captured = subprocess.run([*self.tmux, "capture-pane", "-p", *options], check=False, capture_output=True,
                                  text=True)
        check_equal(captured.returncode, 0, f"exit status of capture-pane: {captured.stderr}")
        return captured.stdout

    def wait(self, pattern, seconds=20):
        """The screen as soon as it has the pattern."""
        deadline = time.monotonic() + seconds * PATIENCE
        while True:
            text = self.text()
            if re.search(pattern, text, re.MULTILINE):
                return text
            if time.monotonic() > deadline:
                raise Failure(f"no '{pattern}' on the screen: {text}")
            time.sleep(0.1)

    def press(self, *keys):
        for key in keys:
            subprocess.run([*self.tmux, "send-keys", key], check=True)

    def resize(self, width, height):
        subprocess.run([*self.tmux, "resize-window", "-x", str(width), "-y", str(height)], check=True)

    def pid(self):
        """The PID of allocsnap."""
        shell = int(subprocess.run([*self.tmux, "display-message", "-p", "#{pane_pid}"], check=True,
                                   capture_output=True, text=True).stdout)
        return next(pid for pid, comm in children_of(shell) if comm == "allocsnap")

    def check_left(self, status=0):
        """The terminal is as before, and nothing stays behind."""
        text = self.wait(r"STATUS=\d+\n(.*\n)*.*\becho\b")
        check(f"STATUS={status}\n" in text, f"exit status: {text}")
        check(not re.search(r"(^| )-echo\b(?!nl|prt)", text), f"the terminal does not echo any more: {text}")
        return text

    def close(self):
        subprocess.run([*self.tmux, "kill-server"], check=False, stderr=subprocess.DEVNULL)


def on_screen(test):
    """The test gets a function that opens screens, which are closed at its end."""
    def run(bench):
        screens = []

        def open_screen(*arguments, **options):
            screens.append(Screen(bench, [PROGRAM, "top", *map(str, arguments)], **options))
            return screens[-1]
        try:
            test(bench, open_screen)
        finally:
            for screen in screens:
                screen.close()
        check_equal([name for screen in screens for name in os.listdir(screen.own)], [], "temporary folders")
    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


def check_width(text, width):
    for line in text.splitlines():
        check(len(line) <= width, f"wider than {width}: {line!r}")


@on_screen
def test_top_names_the_leak_first_and_obeys_keys(bench, open_screen):
    """From the PID to the verdict; groups, filter, tracebacks, help, sizes, a written snapshot, reset, q."""
    crowd = bench.workload("crowd", "600")
    screen = open_screen(crowd.pid, "--interval", "500ms")
    text = screen.wait(r"LEAKS .*leak_here", 30)
    rows = text.splitlines()
    first = next(i for i, row in enumerate(rows) if "VERDICT" in row) + 1
    check("leak_here at" in rows[first] and " LEAKS " in rows[first], f"the first row: {rows[first]}")
    check("1 line leaks" in text and "allocsnap itself" in text, text)
    check("lost nothing" in text or re.search(r"^losses: mappings_missed \d+;", text, re.MULTILINE), text)
    screen.press("Enter")
    text = screen.wait(r"^size=.*\n +leak_here at .*\n +main at")
    check("blocks older than" in text, f"no reason for the verdict: {text}")
    screen.press("Escape", "g", "g", "g")
    screen.wait(r"LEAKS +leak_here$")
    screen.press("/", "y", "_", "1", "9", "Enter")
    check_equal(len(re.findall(r" busy_19\d?$", screen.wait(r"with 'y_19': 11 of"), re.MULTILINE)), 11, "rows")
    screen.press("Escape", "?")
    screen.wait("allocsnap top: keys")
    screen.press("x")
    screen.resize(60, 20)
    check_width(screen.wait(r"^.{50,60}…$"), 60)
    screen.resize(100, 30)
    screen.wait(r"BLOCKS +GROWTH/MIN")
    screen.press("w")
    screen.wait("^saved ")
    screen.press("r")
    screen.wait("r again")
    screen.press("r")
    screen.wait("not judged yet")
    screen.press("q")
    screen.check_left()
    saved = list(pathlib.Path(bench.folder).rglob("*.snap"))
    check_equal(len(saved), 1, "saved snapshots")
    check(any("leak_here" in str(row) for row in bench.stats(str(saved[0]))["statistics"]), "the saved snapshot")
    check(crowd.popen.poll() is None, "the process has ended")


@on_screen
def test_top_stays_when_the_process_dies(bench, open_screen):
    """It says so, keeps the figures and can be browsed; Ctrl-C ends it, as SIGTERM does, and detaches."""
    grow, other = bench.workload("grow", "600"), bench.workload("grow", "600")
    screen = open_screen(grow.pid, "--interval", "300ms")
    term = open_screen(other.pid, environment=("export TERM=vt100\n",))
    screen.wait(r"grow_here at")
    term.wait(r"grow_here at")
    check(not re.search(r"\x1b\[[0-9;]*3[1-7]m", term.text("-e")), "colours on a vt100")
    os.kill(term.pid(), signal.SIGTERM)
    term.check_left()
    check(other.popen.poll() is None, "the process has ended with top")
    grow.popen.kill()
    screen.wait(r"ENDED: these are its last figures")
    screen.press("Enter")
    screen.wait(r"^size=.*\n +grow_here at")
    screen.press("C-c")
    screen.check_left()


@harness.core
def test_top_is_text_without_a_terminal(bench):
    """In a pipe: screens of text, the same rows as stats has, no escape sequence; a closed pipe ends it."""
    grow = bench.workload("grow", "600")
    out, err = bench.run([ALLOCSNAP, "top", str(grow.pid), "--count", "2", "--interval", "300ms"])
    check_equal(err, "", "stderr")
    check_equal(len(re.findall(r"VERDICT", out)), 2, "screens")
    check("\x1b" not in out and "grow_here at" in out, out)
    reader = subprocess.run(f"{PROGRAM} top {grow.pid} --interval 300ms | head -n 3", shell=True, timeout=20 * PATIENCE,
                            capture_output=True, text=True, check=True)
    check_equal(len(reader.stdout.splitlines()), 3, "lines before the pipe was closed")
    check(grow.popen.poll() is None, "the process has ended")


@on_screen
def test_top_lists_several_processes(bench, open_screen):
    """A list with a sum; Enter opens one; one that ends stays in the list, and takes no snapshots in vain."""
    first, second = bench.workload("grow", "600"), bench.workload("grow", "600")
    screen = open_screen(first.pid, second.pid, "--interval", "300ms")
    for row in r" +all .* sum", rf" *{first.pid} .* grow", rf" *{second.pid} .* grow":
        screen.wait(rf"^{row}$")
    screen.press("Enter")
    shown = int(re.search(r"^grow (\d+) ", screen.wait(r"grow_here at"), re.MULTILINE).group(1))
    process = first if shown == first.pid else second
    process.popen.kill()
    screen.wait("ENDED")
    time.sleep(1)
    before = cpu_seconds(screen.pid())
    time.sleep(3)
    check(cpu_seconds(screen.pid()) - before < 0.5, "it is busy with a process that has ended")
    screen.press("Escape")
    screen.wait(rf"^ *{shown} .* ended +grow$")
    screen.press("q")
    screen.check_left()


def grow_by(process, kib):
    """Waits until the process is so much larger."""
    def size():
        return int(re.search(r"VmData:\s+(\d+)", pathlib.Path(f"/proc/{process.pid}/status").read_text())[1])

    before = size()
    harness.wait_for(lambda: size() >= before + kib, f"{process.pid} grows", 60)


@on_screen
def test_top_records_nothing_while_it_is_paused(bench, open_screen):
    """Rows and their snapshot stay; after p again they go on."""
    grow = bench.workload("grow", "600")
    screen = open_screen(grow.pid, "--interval", "300ms")
    screen.wait(r"growth over")
    screen.press("p")
    screen.wait("PAUSED")
    grown = []
    for _ in range(3):  # a snapshot that was begun before may still come
        grow_by(grow, 500)
        grown.append(re.search(r"\S+ \S+ +(\d+) .*grow_here", screen.text()).group(1))
    rows = grown[-1]
    check_equal(grown[-2], rows, "blocks in a pause")
    screen.press("p")
    screen.wait(rf"^ +\S+ \S+ +(?!{rows} )\d+ .*grow_here")
    screen.press("q")
    screen.check_left()


@on_screen
def test_top_respects_terminals_without_colour(bench, open_screen):
    """Colours on a terminal that has them, none with NO_COLOR; a dumb terminal gets text."""
    grow = bench.workload("grow", "600")
    for environment, is_coloured in ((("export TERM=tmux-256color\n",), True),
                                     (("export TERM=tmux-256color NO_COLOR=1\n",), False)):
        screen = open_screen(grow.pid, "--interval", "300ms", environment=environment)
        screen.wait(r"LEAKS +grow_here")
        check_equal(bool(re.search(r"\x1b\[[0-9;]*3[1-7]m", screen.text("-e"))), is_coloured, f"colours with {environment}")
        screen.press("q")
        screen.check_left()
        screen.close()
    screen = open_screen(grow.pid, "--count", "1", environment=("export TERM=dumb\n",))
    check("grow_here at" in screen.check_left(), "text on a dumb terminal")


@on_screen
def test_top_browses_files_without_privileges(bench, open_screen):
    """A folder of a recording: rows, growth, verdicts; keys of a recording say that these are files."""
    grow = bench.workload("grow", "600")
    recording = bench.attach([grow], interval="1s")
    for _ in range(8):
        recording.path()
    recording.end(signal.SIGINT)
    screen = open_screen(recording.folder)
    screen.wait(r"LEAKS +grow_here")
    screen.press("r")
    screen.wait("nothing is recorded")
    screen.press("Enter")
    screen.wait(r"^size=.*\n +grow_here at")
    screen.press("q")
    screen.check_left()


@on_screen
def test_top_says_what_it_cannot_open(bench, open_screen):
    """Files that are gone when they are opened: a line, the list stays, and the exit status says it."""
    recording = bench.attach([bench.workload("grow", "600"), bench.workload("grow", "600")])
    recording.end(signal.SIGINT)
    folder = bench.path("there")
    os.rename(recording.folder, folder)
    screen = open_screen(folder)
    screen.wait(r"grow.*\n.*grow")
    os.rename(folder, bench.path("gone"))
    screen.press("Enter")
    text = screen.wait("No such file")
    check(re.search(r"grow.*\n.*grow", text), f"the list is gone: {text}")
    screen.press("q")
    text = screen.check_left(1)
    check(re.search(r"No\s*such\s*file", text), f"no reason at the end: {text}")  # the terminal wraps it anywhere
    broken = bench.path("broken.snap")
    pathlib.Path(broken).write_bytes(b"ALLOCSNAP")
    out, err = bench.run([ALLOCSNAP, "top", broken], 1)
    check_equal((out, len(err.splitlines())), ("", 1), f"of a damaged file: {err}")


def test_top_leaves_nothing_in_the_folder_of_another_user(bench):
    """`sudo -E` keeps the TMPDIR of a user, in which root without privileges can remove nothing."""
    folder = bench.path("tmp-of-a-user")
    os.mkdir(folder, 0o755)
    os.chown(folder, 4242, 4242)
    grow = bench.workload("grow", "600")
    out, err = bench.run([ALLOCSNAP, "top", str(grow.pid), "--count", "1"], env=dict(os.environ, TMPDIR=folder))
    check("by line" in out, out)
    check_equal(os.listdir(folder), [], "left behind")
    check("belongs to another user" in err, f"stderr: {err}")
