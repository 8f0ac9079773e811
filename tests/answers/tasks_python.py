# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Python programs as Debian ships them, recorded as is usual: the first row is a line of Python."""
import loads
import loads_python
from task import task
from terminal import FOR, check_planted_line, first_leak


def check_python_leak(terminal, pid, name, options=""):
    answer = terminal.type(f"allocsnap leaks {pid} --for {FOR}s{options}")
    return check_planted_line(first_leak(answer), name)


@task("python3, large objects", before="3 min, 5 commands", best="1 min")
def python_large_objects_by_line(terminal):
    return check_python_leak(terminal, loads.start_python(terminal.bench, "large").pid, "objects.py")


@task("python3, small objects", before="3 min, 5 commands", best="1 min")
def python_small_objects_by_line(terminal):
    """json makes the objects, called by a line of the program."""
    return check_python_leak(terminal, loads.start_python(terminal.bench, "small").pid, "objects.py", " --project '*/objects.py'")


@task("Flask under load", before="not tried")
def flask_visits(terminal):
    shop = loads_python.start_webshop(terminal.bench)
    load = loads.EndlessLoad(shop.visit)
    try:
        return check_python_leak(terminal, shop.pid, "webshop.py")
    finally:
        load.stop()


@task("Flask under load, `--sample pools`", before="not tried")
def flask_visits_by_pools(terminal):
    shop = loads_python.start_webshop(terminal.bench)
    load = loads.EndlessLoad(shop.visit)
    try:
        return check_python_leak(terminal, shop.pid, "webshop.py", " --sample pools")
    finally:
        load.stop()


@task("python3, small objects, `--sample pools`", before="not tried")
def python_small_objects_by_pools(terminal):
    return check_python_leak(terminal, loads.start_python(terminal.bench, "small").pid, "objects.py", " --sample pools --project '*/objects.py'")


@task("numpy, arrays kept", before="not tried")
def numpy_series(terminal):
    return check_python_leak(terminal, loads_python.start_with(terminal.bench, "numpy", "series.py").pid, "series.py")


@task("pandas, tables kept", before="not tried")
def pandas_reports(terminal):
    """pandas' own lines allocate, called by a line of the program."""
    reports = loads_python.start_with(terminal.bench, "pandas", "reports.py")
    return check_python_leak(terminal, reports.pid, "reports.py", " --project '*/reports.py'")


@task("mercurial's command server, an extension leaks", before="not tried")
def mercurial_server(terminal):
    server = loads_python.start_mercurial(terminal.bench)
    load = loads.EndlessLoad(server.run_command)
    try:
        return check_python_leak(terminal, server.pid, "hg_keeps.py")
    finally:
        load.stop()


@task("ansible, a callback plugin leaks", before="not tried")
def ansible_plugin(terminal):
    return check_python_leak(terminal, loads_python.start_ansible(terminal.bench).pid, "ansible_keeps.py")
