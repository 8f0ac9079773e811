# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A task: a question that a user has, with the minutes and commands that the answer took before."""

TASKS = []


class Task:
    """One row of the table of docs/answers.md."""

    def __init__(self, function, title, before, best):
        self.function, self.title, self.before, self.best = function, title, before, best

    @property
    def name(self):
        return self.function.__name__


def task(title, before, best="–"):
    """Makes a task of a function of a Terminal, which returns what the first row named. `before`: the time and the
    commands of somebody new to version 0.1.0; `best`: of somebody who knew it."""
    def register(function):
        TASKS.append(Task(function, title, before, best))
        return function
    return register
