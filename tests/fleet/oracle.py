# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The same questions, asked of row tables in SQL: the .sql files of this folder, one a question."""
import pathlib
import sqlite3

FOLDER = pathlib.Path(__file__).parent

# The path without the build's 12 digits, which a module without names has.
PATH = "CASE WHEN line = 0 AND func = '' THEN substr(module, 1, length(module) - 13) ELSE module END"
# The columns of traceback that make a site: a text and a number. Code without a line is known by its name and
# file, code without a name by its place in the file.
SITES = {
    "lineno": ("CASE WHEN line > 0 THEN file ELSE module || ' ' || func END", "line + offset"),
    "drift": ("CASE WHEN line > 0 THEN file || ':' || func ELSE module || ' ' || func END",
              "line - first_line + offset"),
    "stripped": ("CASE WHEN line > 0 THEN replace(replace(file, '/build/indexer-1.0/', ''), '/build/indexer-1.1/', '') "
                 "ELSE module || ' ' || func END", "line + offset"),
    "filename": (f"CASE WHEN line > 0 THEN file ELSE {PATH} END", "0"),
    "function": ("CASE WHEN func <> '' THEN func ELSE '<unknown> in ' || module END", "0"),
    "object": (PATH, "0"),
    "traceback": ("''", "stack"),
}


def where_of(condition):
    return condition or "1 = 1"


class Oracle:
    """Row tables, and questions to them. A condition is SQL over the columns of snapshot; "" selects all."""

    def __init__(self, path):
        self.db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        self.db.execute("PRAGMA temp_store = MEMORY")
        self.db.execute("PRAGMA cache_size = -262144")
        self.held = None
        self.stacks = None

    def close(self):
        self.db.close()

    @staticmethod
    def text(name, key_type=None, **parts):
        """The SQL of a question, with its parts in their places."""
        lines = (FOLDER / f"{name}.sql").read_text().splitlines()
        sql = "\n".join(line for line in lines if not line.startswith("--"))
        if key_type:
            parts["text"], parts["number"] = SITES[key_type]
        for part, text in parts.items():
            sql = sql.replace("{" + part + "}", text)
        return sql

    def latest(self, condition):
        return self.text("latest", where=where_of(condition))

    def ask(self, sql):
        return self.db.execute(sql).fetchall()

    def one(self, sql):
        return self.ask(sql)[0][0]

    # ---- questions: {site: what of it} --------------------------------------------------------

    def sums(self, key_type, condition=""):
        return by_site(self.ask(self.text("sums", key_type, latest=self.latest(condition))))

    def cumulative(self, key_type, condition=""):
        return by_site(self.ask(self.text("cumulative", key_type, latest=self.latest(condition))))

    def domains(self, condition=""):
        return {name: rest for name, *rest in self.ask(self.text("domains", latest=self.latest(condition)))}

    def diff(self, key_type, baseline, candidate):
        return by_site(self.ask(self.text("diff", key_type, baseline=self.latest(baseline),
                                          candidate=self.latest(candidate))))

    def trend(self, key_type, condition=""):
        self._hold(key_type, condition)
        return self._named(self.text("trend", where=where_of(condition)))

    def hosts(self, key_type, condition=""):
        self._hold(key_type, condition)
        return self._named(self.text("hosts", latest=self.latest(condition)))

    def _hold(self, key_type, condition):
        """Fills the table of held blocks for the condition. The table for all snapshots serves any condition."""
        if self.held not in ((key_type, ""), (key_type, condition)):
            self.db.executescript(self.text("held", key_type, where=where_of(condition)))
            self.held = key_type, condition

    def _named(self, sql):
        names = {site: (text, number) for site, text, number in
                 self.ask("SELECT DISTINCT site, site_text, site_number FROM site")}
        return {names[site]: tuple(rest) for site, *rest in self.ask(sql)}

    # ---- tracebacks ---------------------------------------------------------------------------

    def stack_of(self, frames):
        """The number of a traceback by its frames' sites, most recent call first."""
        if self.stacks is None:
            self.stacks = self._read_stacks()
        return self.stacks[frames]

    def _read_stacks(self):
        frames = {}
        for stack, *frame in self.ask(self.text("stacks", "lineno")):
            frames.setdefault(stack, []).append(tuple(frame))
        return {tuple(sites): stack for stack, sites in frames.items()}


def by_site(rows):
    return {(text, number): tuple(rest) for text, number, *rest in rows}
