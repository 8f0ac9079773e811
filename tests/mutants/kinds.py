# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The kinds of mutants: where their tables are, what is built for one, and what is run until a test notices.

A row of a table is "name: (file, old text, new text)", or "name: (file, (old text, new text)…)" for several places. Rows
of rooms have a fourth word: the suite and the test that must notice. The suite is a part of the check, too.
"""
import runpy
import sys
from dataclasses import dataclass

OUT = ".output"


@dataclass
class Mutant:
    name: str
    file: str
    edits: list
    suite: str = ""
    noticed_by: str = "*"


def mutant_of(name, row, folder):
    file, *rest = row
    if isinstance(rest[0], tuple):
        return Mutant(name, folder + file, rest)
    old, new, *noticed = rest
    return Mutant(name, folder + file, [(old, new)], *(noticed[0].split(" ", 1) if noticed else ()))


class Kind:
    """Its tables lie below tests/; the files in them, below folder. So many tests must notice each mutant, for which the
    files `old` are not made anew. If its tests only compute, several run at a time."""

    folder, wanted, old, only_computes = "", 1, None, True

    def mutants(self, root):
        for table in self.tables:
            sys.path.insert(0, str((root / "tests" / table).parent))
            for name, row in runpy.run_path(str(root / "tests" / table))["MUTANTS"].items():
                yield mutant_of(name, row, self.folder)


def criterion(program, *arguments, **environment):
    return [f"{OUT}/{program}", "--fail-fast", *arguments], environment


class Account(Kind):
    """The rules of the accounting: its BPF code, compiled natively, in three modes; first the suites of a mutant's subject,
    the words before its colon, in few orders of events, then all."""

    name, folder, old = "account", "bpf/", f"{OUT}/bpf/*.bpf.o"
    tables = "fake_bpf/mutants.py", "fake_bpf/mutants_life.py", "fake_bpf/mutants_python.py"

    def targets(self, _):
        return [f"{OUT}/unit-bpf"]

    def commands(self, mutant):
        modes = {"FAKE_UPROBES": "1"}, {"FAKE_SESSION": "1"}, {"FAKE_RET": "1"}
        suites = mutant.name.partition(":")[0].replace("-", "_")
        for chosen in f"*{suites}*/*", "!(estimates/*)":
            for mode in modes:
                yield criterion("unit-bpf", "--filter", chosen, ORDERS="100", **mode)
        for mode in modes:
            yield criterion("unit-bpf", **mode)


class Oracle(Kind):
    """The engine, beside CPython's tracemalloc."""

    name, tables = "oracle", ("oracle/mutants.py",)

    def targets(self, _):
        return [f"{OUT}/oracle-serve"]

    def commands(self, _):
        yield (["/usr/bin/python3", "tests/oracle/run.py", "--until-failure", "--seeds", "301-324"],
               {"ORACLE": f"{OUT}/oracle-serve", "ALLOCSNAP": "allocsnap"})


class Units(Kind):
    """A library's rules, beside the unit tests that belong to them."""

    def __init__(self, name):
        self.name, self.tables = name, (f"{name}/mutants.py",)

    def targets(self, _):
        return [f"{OUT}/mutants/{self.name}"]

    def commands(self, _):
        yield criterion(f"mutants/{self.name}")


class Python(Kind):
    """How CPython is recorded: two tests must notice, of its probe_info, of the kernel side, or live ones beside tracemalloc."""

    name, tables, wanted, only_computes = "python", ("live/python_mutants.py",), 2, False
    live = "blocks_are_exactly blocks_are_those_of_its_own blocks_are_those_of_a_tracemalloc blocks_behind"

    def targets(self, _):
        return ["allocsnap", f"{OUT}/unit", f"{OUT}/unit-bpf"]

    def commands(self, _):
        yield [f"{OUT}/unit", "--filter", "python_*/*"], {}
        yield [f"{OUT}/unit-bpf", "--filter", "python*/*"], {"FAKE_SESSION": "1"}
        yield ["make", "test-live", f"LIVE_ARGS={self.live}"], {}


class Rooms(Kind):
    """A mistake in each room of the source, which the check must notice."""

    name, tables, only_computes = "rooms", ("mutants/rooms.py",), False

    def targets(self, mutant):
        return [f"{OUT}/{mutant.suite}" if mutant.suite in ("unit", "unit-bpf") else f"test-{mutant.suite}"]

    def commands(self, mutant):
        if mutant.suite in ("unit", "unit-bpf"):
            yield [f"{OUT}/{mutant.suite}", "--filter", mutant.noticed_by], {"ORDERS": "100"}
        else:
            yield ["make", f"test-{mutant.suite}", f"{mutant.suite.upper()}_ARGS={mutant.noticed_by}"], {}


KINDS = {kind.name: kind for kind in (Account(), Oracle(), Units("unwind"), Units("leaks"), Python(), Rooms())}
