# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The same questions, asked of row tables in SQL (src/fleet/sql): of SQLite, or of a ClickHouse."""
import sqlite3

import sql_questions


class RowTables:
    """Row tables, and questions to them. A condition is SQL over the columns of snapshot; "" selects all."""
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

    def hosts(self, key_type, condition=""):
        """Median, 95 %, maximum, MAD, sum, the host with the maximum, hosts, outliers, and the maximum's score."""
        chosen = sql_questions.live(condition)
        host_nr, sites = self.one(sql_questions.host_number(chosen)), {}
        for text, number, host, size in self.ask(sql_questions.host_values(key_type, chosen)):
            sites.setdefault((text, number), []).append((size, host))
        return {site: rank_hosts(held, host_nr) for site, held in sites.items()}

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


class ArgMax:
    """ClickHouse's: the first argument in the row where the second one is largest."""

    def __init__(self):
        self.most = None

    def step(self, value, order):
        if self.most is None or order > self.most[0]:
            self.most = order, value

    def finalize(self):
        return self.most[1]


class Oracle(RowTables):
    """The row tables in a file of SQLite."""

    def __init__(self, path):
        super().__init__()
        self.db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        self.db.create_aggregate("argMax", 2, ArgMax)
        self.db.execute("PRAGMA temp_store = MEMORY")
        self.db.execute("PRAGMA cache_size = -262144")

    def close(self):
        self.db.close()

    def ask(self, sql):
        return self.db.execute(sql).fetchall()


def nearest_rank(values, percent):
    return sorted(values)[(len(values) * percent + 99) // 100 - 1]


def rank_hosts(held, host_nr):
    """held: [(bytes, host)] of those that have the site."""
    values = [size for size, _ in held] + [0] * (host_nr - len(held))
    median, most = nearest_rank(values, 50), max(values)
    mad = nearest_rank([abs(value - median) for value in values], 50)
    unit = max(mad, median / 100, 4096)
    return (median, nearest_rank(values, 95), most, mad, sum(values), min(host for size, host in held if size == most),
            len(held), sum(value - median > 3.5 / 0.6745 * unit for value in values), (most - median) * 0.6745 / unit)


def by_site(rows):
    return {(text, number): tuple(rest) for text, number, *rest in rows}
