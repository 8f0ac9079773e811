# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A task: a question that a user has, with the minutes and commands that the answer took before."""

TASKS = []


class Task:
    """One row of the table of docs/answers.md."""

    def __init__(self, function, title, before, best, quick):
        self.function, self.title, self.before, self.best, self.is_quick = function, title, before, best, quick

    @property
    def name(self):
        return self.function.__name__


def task(title, before, best="–", quick=False):
    """Makes a task of a function of a Terminal, which returns what the first row named. `before`: the time and the
    commands of somebody new to version 0.1.0; `best`: of somebody who knew it. Quick tasks run in make check, too."""
    def register(function):
        TASKS.append(Task(function, title, before, best, quick))
        return function
    return register
