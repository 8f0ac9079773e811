# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""worker.py idle | work: a program in python3 that is recorded.

idle: some objects each second, of which a few stay for a while.
work: each line of stdin is a fixed piece of work; the answer is the CPU time that it took, in ms.
"""
import json
import sqlite3
import sys
import time


def idle():
    kept = []
    print("ready", flush=True)
    while True:
        kept.append([bytes(600 + i) for i in range(10)])
        del kept[:-60]
        time.sleep(1)


def texts():
    """Many small blocks."""
    rows = [{"name": "row %d" % i, "values": list(range(i % 20))} for i in range(2500)]
    for _ in range(4):
        rows = json.loads(json.dumps(rows))


def rows():
    """A database in memory; its blocks come from malloc()."""
    base = sqlite3.connect(":memory:")
    base.execute("CREATE TABLE t (i INTEGER PRIMARY KEY, c TEXT)")
    base.executemany("INSERT INTO t (c) VALUES (?)", (("text %d" % (i * 7919 % 4001),) for i in range(4000)))
    base.execute("SELECT count(*) FROM t JOIN t u ON u.i = t.i WHERE t.c LIKE '%1%'").fetchall()
    base.close()


def work():
    print("ready", flush=True)
    for _ in sys.stdin:
        before = time.process_time()
        texts()
        rows()
        print(f"{(time.process_time() - before) * 1000:.3f}", flush=True)


if __name__ == "__main__":
    {"idle": idle, "work": work}[sys.argv[1]]()
