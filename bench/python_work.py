# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Work of a Python program, for bench/python_exact.py: prints CPU time of `rounds` rounds and the blocks that they made.

    python_work.py WORK ROUNDS [FRAMES]     FRAMES: tracemalloc records, with so many frames

It waits for a line before the rounds, so that a recorder can be attached.
"""
import glob
import json
import os
import re
import sys
import time
import tracemalloc


def json_and_re():
    doc = json.dumps([{"id": i, "name": f"user {i}", "tags": ["a", f"b{i % 7}"], "v": i * 0.25, "on": None} for i in range(60)])
    pattern = re.compile(r'"(\w+)": (?:"([^"]*)"|(\d+))')

    def work():
        found = json.loads(doc)
        for match in pattern.finditer(doc):
            match.groups()
        re.sub(r"\d+", lambda match: f"<{match.group()}>", doc[:2000])
        return json.dumps(found)
    return work


def compiler():
    folder = os.path.dirname(os.__file__)
    names = ("bisect", "keyword", "colorsys", "reprlib", "linecache", "copy")
    sources = [open(path, encoding="utf-8").read() for name in names for path in glob.glob(f"{folder}/{name}.py")]

    def work():
        for source in sources:
            compile(source, "x.py", "exec")
    return work


class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y


def made_and_dropped(depth=20):
    def down(left):
        if left:
            return down(left - 1)
        for i in range(400):
            point = Point(i, [i, i + 1])
            _ = (point, {"k": point})
        return None
    return lambda: down(depth)


def flask():
    from flask import Flask, jsonify, render_template_string, request  # pylint: disable=import-outside-toplevel
    app = Flask("x")

    @app.route("/u/<int:user>")
    def rows(user):
        return jsonify(user=user, rows=[{"id": i, "name": f"n{i}", "q": request.args.get("q")} for i in range(20)])

    @app.route("/t")
    def page():
        return render_template_string("{% for r in rows %}<li>{{ r.name }} {{ r.id }}</li>{% endfor %}",
                                      rows=[{"name": f"n{i}", "id": i} for i in range(20)])
    client = app.test_client()

    def work():
        assert client.get("/u/7?q=abc").status_code == 200
        assert client.get("/t").status_code == 200
    return work


def dicts_and_lists():
    def work():
        found = {}
        for i in range(3000):
            found[f"key{i % 500}"] = found.get(f"key{i % 500}", []) + [i]
        groups = {}
        for key, value in found.items():
            groups.setdefault(len(value), []).append((key, sum(value)))
        return sorted(groups.items())
    return work


WORKS = {"json, re": (json_and_re, 440), "compile()": (compiler, 44), "20 deep": (made_and_dropped, 1600),
         "Flask": (flask, 300), "dicts, lists": (dicts_and_lists, 120)}


def main():
    make, rounds = WORKS[sys.argv[1]][0], int(sys.argv[2])
    work = make()
    for _ in range(3):
        work()
    if len(sys.argv) > 3:
        tracemalloc.start(int(sys.argv[3]))
    print("ready", flush=True)
    sys.stdin.readline()
    begun = time.process_time_ns()
    for _ in range(rounds):
        work()
    print(time.process_time_ns() - begun, flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()
