# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The row tables in libchdb, the engine of a current ClickHouse, in a process of its own. npm has it as a package."""
import contextlib
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys

from clickhouse import parse_value
from fleet import Fleet
from harness import Skip, check, tool
from oracle import RowTables

PACKAGE, VERSION = "@chdb/lib-linux-x64-gnu", "26.5.3"
CACHE = pathlib.Path(os.environ.get("CACHE", ".output/chdb")).absolute()
TYPES = {"INTEGER": "Int64", "REAL": "Float64", "TEXT": "String"}
ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\0": "\\0"})


def fetch_library():
    """The path of libchdb.so, from the cache or from npm: 560 MB."""
    place = CACHE / f"chdb-{VERSION}"
    if not place.is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        try:
            subprocess.run([tool("npm"), "pack", "--silent", f"{PACKAGE}@{VERSION}"], cwd=CACHE, check=True,
                           capture_output=True, timeout=600)
        except (subprocess.SubprocessError, OSError) as error:
            raise Skip(f"npm cannot fetch {PACKAGE}: {error}") from None
        archive, unpacked = next(CACHE.glob(f"*{VERSION}.tgz")), CACHE / "unpacked"
        shutil.rmtree(unpacked, ignore_errors=True)
        unpacked.mkdir()
        subprocess.run(["tar", "-xzf", archive, "-C", unpacked], check=True)
        archive.unlink()
        (unpacked / "package").rename(place)
    return place / "libchdb.so"


class Chdb(RowTables):
    """The tables that `fleet init --print` prints, with more of its options; fill() brings rows."""
    def __init__(self, folder, *init_options):
        super().__init__()
        argv = [sys.executable, pathlib.Path(__file__).parent / "chdb_process.py", fetch_library(), folder]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        out, _ = Fleet.cluster("init", "--print", *init_options)
        for statement in filter(str.strip, out.split(";\n")):
            self.run(statement)

    def close(self):
        self.process.stdin.close()
        self.process.wait()

    def run(self, sql):
        """The answer as tab-separated text."""
        self.process.stdin.write(json.dumps(sql) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        check("rows" in answer, f"{answer.get('error', '')[:600]} of {sql[:2000]}")
        return answer["rows"]

    def ask(self, sql):
        return [tuple(map(parse_value, line.split("\t"))) for line in self.run(sql).splitlines()]

    def fill(self, path, folder):
        """Inserts the rows of a file that `fleet export` wrote."""
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            for table, in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                if table != "schema_version":
                    self._fill_table(db, table, folder / f"{table}.tsv")

    def _fill_table(self, db, table, path):
        columns = [(row[1], TYPES[row[2]]) for row in db.execute(f"PRAGMA table_info({table})")]
        with open(path, "w", encoding="utf-8") as file:
            for row in db.execute(f"SELECT * FROM {table}"):
                file.write("\t".join(str(value).translate(ESCAPES) for value in row) + "\n")
        names = ", ".join(name for name, _ in columns)
        structure = ", ".join(f"{name} {kind}" for name, kind in columns)
        self.run(f"INSERT INTO {table} ({names}) SELECT {names} FROM file('{path}', 'TabSeparated', '{structure}')")
        path.unlink()
