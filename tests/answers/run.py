#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Time to answer: real programs leak at a planted place, and the commands of a user name it.

    run.py [-l] [--quick] [--table] [NAME…]

NAME: only tasks whose names contain one of these. -l lists the tasks. --quick runs only those of make check. --table
prints the rows of docs/answers.md at the end. Each command is printed with its seconds and the first lines it wrote;
a task fails if its first row does not name the planted place.

Environment: ALLOCSNAP, the binary; ANSWERS, the folder of the compiled programs; ANSWERS_SECONDS (20), how long a
program is recorded.
"""
import os
import signal
import sys
import time
import traceback

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../live"), os.path.join(HERE, "..")]
import harness  # pylint: disable=wrong-import-position
from task import TASKS  # pylint: disable=wrong-import-position
from terminal import FOR, Terminal  # pylint: disable=wrong-import-position
import tasks_cpp  # pylint: disable=wrong-import-position,unused-import
import tasks_servers  # pylint: disable=wrong-import-position,unused-import
import tasks_runtimes  # pylint: disable=wrong-import-position,unused-import
import tasks_python  # pylint: disable=wrong-import-position,unused-import
import tasks_many  # pylint: disable=wrong-import-position,unused-import
import tasks_files  # pylint: disable=wrong-import-position,unused-import

TASK_SECONDS = 120 + 6 * FOR


def out_of_time(_signal, _frame):
    raise harness.Failure(f"not done after {TASK_SECONDS} s")


def reason_of(error):
    """The failure in one line; if an assertion has no message, the line that failed."""
    if isinstance(error, harness.Failure):
        return str(error)
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{os.path.basename(place.filename)}:{place.lineno}: {error or place.line} ({type(error).__name__})"


def run(task):
    """"ok", "FAIL" or "skip", and the task's row of the table."""
    print(f"== {task.name}: {task.title}", flush=True)
    verdict, row = "ok", None
    bench = harness.Bench()
    begun = time.monotonic()
    try:
        signal.alarm(TASK_SECONDS)
        terminal = Terminal(bench)
        answer = task.function(terminal)
        print(f"answer: {answer}; {len(terminal.typed)} commands, {terminal.seconds:.1f} s; "
              f"before: {task.before}; best before: {task.best}")
        row = (task.title, len(terminal.typed), terminal.seconds, answer, task.before, task.best)
        print(f"ok {task.name} ({time.monotonic() - begun:.0f} s)", flush=True)
    except harness.Skip as skip:
        verdict = "skip"
        print(f"skipped, because {skip}: {task.name}", flush=True)
    except Exception as error:  # pylint: disable=broad-except
        verdict = "FAIL"
        print(f"FAIL {task.name}: {reason_of(error)}", flush=True)
    finally:
        signal.alarm(0)
        bench.close()
    return verdict, row


def print_table(rows):
    print("\n| task | commands | seconds | first row | newcomer before | best before |\n|---|---|---|---|---|---|")
    for title, typed_nr, seconds, answer, before, best in rows:
        print(f"| {title} | {typed_nr} | {seconds:.0f} | `{answer}` | {before} | {best} |")


def main():
    names = [word for word in sys.argv[1:] if not word.startswith("-")]
    tasks = [task for task in TASKS if not names or any(name in task.name for name in names)]
    if "--quick" in sys.argv:
        tasks = [task for task in tasks if task.is_quick]
    if "-l" in sys.argv:
        print(*(task.name for task in tasks), sep="\n")
        return 0
    if os.geteuid() != 0:
        sys.exit("answers: these tasks attach to processes: run them as root")
    signal.signal(signal.SIGALRM, out_of_time)
    done = [run(task) for task in tasks]
    verdicts = [verdict for verdict, _ in done]
    if "--table" in sys.argv:
        print_table([row for _, row in done if row])
    print(f"answers: {verdicts.count('ok')} passed, {verdicts.count('FAIL')} failed, "
          f"{verdicts.count('skip')} skipped")
    return 1 if "FAIL" in verdicts or not tasks else 0


if __name__ == "__main__":
    sys.exit(main())
