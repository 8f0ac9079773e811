#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Time to answer: real programs leak at a planted place, and the commands of a user name it.

    run.py [--table] [ARGUMENT…]    tests/harness/suite.py describes the others

--table prints the rows of docs/answers.md at the end. Each command is printed with its seconds and the first lines it
wrote; a task fails if its first row does not name the planted place.

Environment: ALLOCSNAP, the binary; ANSWERS, the folder of the compiled programs; ANSWERS_SECONDS (20), how long a
program is recorded.
"""
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../live"), os.path.join(HERE, "..")]
from harness import Bench, suite  # pylint: disable=wrong-import-position
import resident  # pylint: disable=wrong-import-position
from tasks import TASKS  # pylint: disable=wrong-import-position
from terminal import FOR, Terminal  # pylint: disable=wrong-import-position

TASK_SECONDS = 120 + 6 * FOR
ROWS = []  # of the table


def test_of(task):
    def answer_task(bench):
        print(f"== {task.name}: {task.title}", flush=True)
        terminal = Terminal(bench)
        answer = task.function(terminal)
        print(f"answer: {answer}; {len(terminal.typed)} commands, {terminal.seconds:.1f} s; "
              f"before: {task.before}; best before: {task.best}")
        ROWS.append((task.title, len(terminal.typed), terminal.seconds, answer, task.before, task.best))
    return suite.Test(task.name, answer_task)


def print_table():
    print("\n| task | commands | seconds | first row | newcomer before | best before |\n|---|---|---|---|---|---|")
    for title, typed_nr, seconds, answer, before, best in ROWS:
        print(f"| {title} | {typed_nr} | {seconds:.0f} | `{answer}` | {before} | {best} |")


def main():
    has_table = "--table" in sys.argv
    sys.argv = [word for word in sys.argv if word != "--table"]
    status = suite.main("answers", [*map(test_of, TASKS), *suite.tests_in(resident)], Bench, TASK_SECONDS, needs_root=True)
    if has_table:
        print_table()
    return status


if __name__ == "__main__":
    sys.exit(main())
