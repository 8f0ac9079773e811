# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Reads the data of an HTML report, as docs/report-format.md describes them, and adds them up."""
import base64
import gzip
import json
import math
import re


def read(path):
    with open(path, encoding="utf-8") as file:
        html = file.read()
    data = re.findall(r'<script[^>]*id="data"[^>]*>([A-Za-z0-9+/=\s]*)</script>', html)
    assert len(data) == 1, f"{path}: {len(data)} elements with data"
    return json.loads(gzip.decompress(base64.b64decode(data[0], validate=True)), parse_constant=refuse)


def refuse(name):
    raise ValueError(f"JSON has no {name}")


def undo(differences):
    """'as differences' → the numbers"""
    numbers, at = [], 0
    for step in differences:
        assert step >= 0
        at += step
        numbers.append(at)
    return numbers


COLUMNS = ["size", "count"]
MOMENTS = [f"{of}_{what}" for of in COLUMNS for what in ("beyond", "variance", "covariance")]
CHURN = ["allocations", "allocated_bytes", "temporary", "temporary_bytes"]


class Report:
    def __init__(self, json_data):
        self.json = json_data
        self.frames = json_data["frames"]
        self.parent = [n - up for n, up in enumerate(json_data["nodes"]["up"])]
        self.node_frame = json_data["nodes"]["frame"]
        self.tracebacks = undo(json_data["tracebacks"]["node"])
        self.passed = json_data["tracebacks"]["passed"]
        self.row_traceback = undo(json_data["rows"]["traceback"])
        self.row_key = json_data["rows"].get("key", [0] * len(self.row_traceback))
        self.snapshots = [dict(s) for s in json_data["snapshots"]]
        self.check_tables()
        self.fill_columns()
        self.fill_churn()

    def check_tables(self):
        d, frames = self.json, self.frames
        assert d["schema"] == "allocsnap.report/1"
        for table in ("frames", "nodes", "tracebacks", "keys", "rows"):
            assert len({len(c) for c in d[table].values()}) <= 1, table
        frame_nr, node_nr = len(frames["line"]), len(self.parent)
        assert self.parent[0] == 0 and self.node_frame[0] == -1
        assert all(0 <= p < n for n, p in enumerate(self.parent) if n)
        assert all(0 <= f < frame_nr for f in self.node_frame[1:])
        assert len({(p, f) for p, f in zip(self.parent, self.node_frame)}) == node_nr, "children of a node differ"
        for column in ("function", "file", "object"):
            assert all(-1 <= s < len(d["strings"]) for s in frames[column])
        assert sorted(set(self.tracebacks)) == self.tracebacks and all(0 < n < node_nr for n in self.tracebacks)
        assert all(0 <= t < len(self.tracebacks) for t in self.row_traceback)
        key_nr = max((len(c) for c in d["keys"].values()), default=1)
        assert all(0 <= k < key_nr for k in self.row_key)
        assert len(set(zip(self.row_traceback, self.row_key))) == len(self.row_key), "a row occurs once"
        assert d["births_ns"] == sorted(set(d["births_ns"]))
        for text in d["strings"]:
            assert not re.search("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", text), repr(text)

    def fill_columns(self):
        nr, names = len(self.row_traceback), COLUMNS
        if any("size_beyond" in s for s in self.snapshots):
            names = COLUMNS + MOMENTS
        now = {name: [0] * nr for name in names}
        for s in self.snapshots:
            rows = undo(s["row"])
            assert len(set(rows)) == len(rows) and all(r < nr for r in rows)
            for name in names:
                assert len(s[name]) == len(rows), name
                for row, value in zip(rows, s[name]):
                    now[name][row] = value
            s["now"] = {name: list(column) for name, column in now.items()}

    def fill_churn(self):
        now = {name: [0] * len(self.tracebacks) for name in CHURN}
        for s in self.snapshots:
            if "churn" not in s:
                continue
            at = undo(s["churn"]["traceback"])
            for name in CHURN:
                assert len(s["churn"][name]) == len(at)
                for traceback, value in zip(at, s["churn"][name]):
                    now[name][traceback] = value
            s["churn_now"] = {name: list(column) for name, column in now.items()}

    def total(self, snapshot):
        """bytes and blocks, estimated if it is of samples"""
        now = self.snapshots[snapshot]["now"]
        return tuple(sum(now[c]) + math.floor(sum(now.get(c + "_beyond", [0])) + 0.5) for c in COLUMNS)

    def by_traceback(self, snapshot):
        sums = [[0, 0] for _ in self.tracebacks]
        now = self.snapshots[snapshot]["now"]
        for row, traceback in enumerate(self.row_traceback):
            sums[traceback][0] += now["size"][row]
            sums[traceback][1] += now["count"][row]
        return sums

    def string(self, number):
        return self.json["strings"][number] if number >= 0 else None

    def frames_of(self, traceback):
        """frame numbers, most recent first"""
        node, frames = self.tracebacks[traceback], []
        while node:
            frames.append(self.node_frame[node])
            node = self.parent[node]
        return frames

    def site(self, traceback):
        return self.frames_of(traceback)[self.passed[traceback]]

    def place(self, frame):
        """a frame as other JSON has it"""
        f = self.frames
        file = self.string(f["file"][frame])
        if file is None:
            file = self.string(f["object"][frame]) or "<unknown>"
        place = {"filename": file, "lineno": f["line"][frame]}
        if f["function"][frame] >= 0:
            place["function"] = self.string(f["function"][frame])
        if not f["line"][frame]:
            place["object"], place["offset"] = self.string(f["object"][frame]), f["offset"][frame]
        return place

    def own_traceback(self, traceback):
        return [self.place(f) for f in self.frames_of(traceback)[self.passed[traceback]:]]
