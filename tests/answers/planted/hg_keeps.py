# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""An extension of mercurial that keeps a report of each command that the command server runs."""
from mercurial import dispatch, extensions

REPORTS = []


def keep(run, ui, options, command, function):
    REPORTS.append([b"%s, word %d, %d before" % (command, i, len(REPORTS)) for i in range(200)])  # planted
    return run(ui, options, command, function)


def uisetup(_ui):
    extensions.wrapfunction(dispatch, "_runcommand", keep)
