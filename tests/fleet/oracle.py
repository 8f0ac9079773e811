# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The same questions, asked of row tables in SQL (src/fleet/sql): of SQLite, or of a ClickHouse."""
import sqlite3

import sql_questions


class RowTables:
    """Row tables, and questions to them. A condition is SQL over the columns of snapshot; "" selects all."""
    ranks = "ranks"

    def __init__(self):
        self.stacks = None

    def ask(self, sql):
        raise NotImplementedError

    def one(self, sql):
        return self.ask(sql)[0][0]

    # ---- questions: {site: what of it} --------------------------------------------------------

    def sums(self, key_type, condition="", latest=sql_questions.live):
        return by_site(self.ask(sql_questions.stats(key_type, latest(condition))))

    def cumulative(self, key_type, condition=""):
        return by_site(self.ask(sql_questions.cumulative(key_type, sql_questions.live(condition))))

    def domains(self, condition=""):
        return {name: rest for name, *rest in self.ask(sql_questions.domains(sql_questions.live(condition)))}

    def diff(self, key_type, baseline, candidate):
        return by_site(self.ask(sql_questions.diff(key_type, sql_questions.latest(baseline),
                                                   sql_questions.latest(candidate))))

    def trend(self, key_type, condition=""):
        return by_site(self.ask(sql_questions.trend(key_type, sql_questions.all_times(condition))))

    def hosts(self, key_type, condition=""):
        return by_site(self.ask(sql_questions.hosts(key_type, sql_questions.live(condition), self.ranks)))

    # ---- tracebacks ---------------------------------------------------------------------------

    def stack_of(self, frames):
        """The number of a traceback by its frames' sites, most recent call first."""
        if self.stacks is None:
            self.stacks = self._read_stacks()
        return self.stacks[frames]

    def _read_stacks(self):
        frames = {}
        for stack, *frame in self.ask(sql_questions.stacks()):
            frames.setdefault(stack, []).append(tuple(frame))
        return {tuple(sites): stack for stack, sites in frames.items()}


class Oracle(RowTables):
    """The row tables in a file of SQLite."""

    def __init__(self, path):
        super().__init__()
        self.db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        self.db.execute("PRAGMA temp_store = MEMORY")
        self.db.execute("PRAGMA cache_size = -262144")

    def close(self):
        self.db.close()

    def ask(self, sql):
        return self.db.execute(sql).fetchall()


def by_site(rows):
    return {(text, number): tuple(rest) for text, number, *rest in rows}
