#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Real JSON of every command against docs/json-schema.json, and docs/json.md against that. tests/harness/suite.py
describes the arguments. With python3-jsonschema installed that judges, too.

Environment: ALLOCSNAP, the binary; SNAPSHOTS, the folder that make_snapshots filled.
"""
import contextlib
import copy
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

try:
    import jsonschema
except ImportError:
    jsonschema = None

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from harness import Failure, suite  # pylint: disable=wrong-import-position

TOP = HERE.parent.parent
ALLOCSNAP = os.environ["ALLOCSNAP"]
SCHEMA = json.loads((TOP / "docs/json-schema.json").read_text(encoding="utf-8"))

# Each form, and commands that write it.
COMMANDS = [
    ("stats/2", "stats new.snap"), ("stats/2", "stats new.snap -g traceback --top 0"),
    ("stats/2", "stats sampled.snap"), ("stats/2", "stats mixed.snap -g domain"),
    ("stats/2", "stats gaps.snap --cumulative"), ("stats/2", "stats new.snap -g function"),
    ("diff/2", "diff old.snap new.snap"), ("diff/2", "diff sampled-old.snap sampled.snap"),
    ("diff/2", "diff old.snap new.snap -g traceback"), ("diff/2", "diff gaps.snap gaps.snap"),
    ("fleet.stats/2", "fleet stats"), ("fleet.stats/2", "fleet stats -g traceback"),
    ("fleet.diff/2", "fleet diff --baseline label.version=1.3 --candidate label.version=1.4"),
    ("fleet.hosts/2", "fleet hosts"), ("fleet.leaks/5", "fleet leaks --all"),
    ("list/1", "list ."), ("list/1", "list leaks"),
    ("leaks/1", "leaks leaks"), ("leaks/1", "leaks sampled.snap"), ("leaks/1", "leaks leaks-fleet/shop-1"),
    ("fleet.leaks/5", "leaks leaks-fleet"), ("fleet.leaks/5", "leaks leaks-fleet/shop-1 leaks-fleet/shop-2"),
    ("snapshot/1", "show new.snap"), ("snapshot/1", "show rss.snap"), ("snapshot/1", "show pages.snap"),
    ("snapshot/1", "show pages-ended.snap"), ("snapshot/1", "show pages-zeros.snap"), ("snapshot/1", "show pages-unread.snap"),
    ("leaks/1", "leaks leaks-pages"), ("snapshot/1", "show sampled.snap"),
    ("snapshot/1", "show gaps.snap"),
    ("block/2", "show sampled-old.snap --address 0x7f0100000010"),
    ("census/1", f"census {os.getpid()}"), ("census.diff/1", f"census {os.getpid()} {os.getpid()}"),
    ("doctor/1", "doctor"), ("doctor/1", f"doctor {os.getpid()}"), ("doctor/1", f"doctor {2**22 + 1}"),
]

# Forms that need a runtime: the live tests have them.
ELSEWHERE = {"census.java/1"}

TYPES = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool}


def is_of_type(value, name):
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, TYPES[name]) or (name == "integer" and isinstance(value, float) and value.is_integer())


def resolve(schema):
    while "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2].replace("~1", "/")]
    return schema


def errors(value, schema, at="$"):
    """Why the value does not have this form: the part of JSON Schema that the file uses."""
    schema = resolve(schema)
    if "oneOf" in schema:
        if sum(not list(errors(value, one, at)) for one in schema["oneOf"]) != 1:
            yield f"{at}: not exactly one of the forms"
        return
    names = schema.get("type", [])
    if names and not any(is_of_type(value, name) for name in ([names] if isinstance(names, str) else names)):
        yield f"{at}: {json.dumps(value)[:60]} is no {names}"
        return
    if "const" in schema and value != schema["const"]:
        yield f"{at}: {json.dumps(value)[:60]} is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {json.dumps(value)[:60]} is none of {schema['enum']}"
    if isinstance(value, dict):
        yield from object_errors(value, schema, at)
    if isinstance(value, list):
        yield from list_errors(value, schema, at)


def object_errors(value, schema, at):
    known, more = schema.get("properties", {}), schema.get("additionalProperties", True)
    for name in schema.get("required", []):
        if name not in value:
            yield f"{at}: {name} is missing"
    for name, member in value.items():
        if name in known:
            yield from errors(member, known[name], f"{at}.{name}")
        elif isinstance(more, dict):
            yield from errors(member, more, f"{at}.{name}")
        elif not more:
            yield f"{at}: {name} is not documented"


def list_errors(value, schema, at):
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        yield f"{at}: {len(value)} items"
    for i, item in enumerate(value):
        yield from errors(item, schema["items"], f"{at}[{i}]")


def check(value):
    found = list(errors(value, SCHEMA["$defs"].get(value["schema"].removeprefix("allocsnap."),
                                                   {"const": "a form of the schema"})))
    if jsonschema:
        found += [str(one.message)[:200] for one in jsonschema.Draft202012Validator(SCHEMA).iter_errors(value)]
    return found


def run(folder, command):
    done = subprocess.run([ALLOCSNAP, *command.split(), "--json"], cwd=folder, capture_output=True, text=True,
                          check=False)
    return done.stdout, done.stderr


def test_commands_write_what_is_documented(folder):
    seen = set()
    for name, command in COMMANDS:
        out, err = run(folder, command)
        try:
            value = json.loads(out)
        except ValueError:
            yield f"{command}: no JSON but {out[:80]!r}, {err[:300]!r}"
            continue
        seen.add(name)
        if value["schema"] != "allocsnap." + name:
            yield f"{command}: {value['schema']}, not {name}"
        words = command.split()[:2 if command.startswith("fleet ") else 1]
        if not any(written.split()[:len(words)] == words for written in SCHEMA["$defs"][name]["$comment"].split(" or ")):
            yield f"{name}: the page does not say that {' '.join(words)} writes it"
        for error in check(value):
            yield f"{command}: {error}"
    yield from (f"{name}: no command writes it here" for name in SCHEMA["$defs"]
                if "/" in name and name not in seen | ELSEWHERE)


def test_golden_outputs_are_documented(_folder):
    nr = 0
    for path in sorted((HERE.parent / "golden/cases").glob("*.case")):
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").split("\n"), 1):
            if not line.startswith('{"schema":'):
                continue
            nr += 1
            for error in check(json.loads(line)):
                yield f"{path.name}:{number}: {error}"
    if nr < 30:
        yield f"only {nr} golden outputs are JSON"


def test_the_checker_refuses_what_is_wrong(folder):
    right = json.loads(run(folder, "stats new.snap")[0])
    harms = {
        "a missing member": lambda v: v.pop("total"), "an unknown member": lambda v: v.update(more=1),
        "another type": lambda v: v.update(cumulative=0), "an unknown form": lambda v: v.update(schema="allocsnap.x/1"),
        "a wrong frame": lambda v: v["statistics"][0]["traceback"][0].pop("filename"),
        "a wrong list": lambda v: v.update(sampling=[{"bytes": 1}]),
    }
    for what, harm in harms.items():
        wrong = copy.deepcopy(right)
        harm(wrong)
        if not check(wrong):
            yield f"{what} passes"


def test_frames_have_one_order(folder):
    """Most recent call first: as in the list of traces that `convert` writes, and in text."""
    listed = {tuple(map(tuple, trace[2])) for trace in json.loads(subprocess.run(
        [ALLOCSNAP, "convert", "new.snap", "-o", "-"], cwd=folder, capture_output=True, check=True).stdout)["traces"]}
    rows = json.loads(run(folder, "stats new.snap -g traceback --keep-wrappers --top 0")[0])["statistics"]
    found = {tuple((frame["filename"], frame["lineno"]) for frame in row["traceback"]) for row in rows}
    if found != listed or max(map(len, found)) < 2:
        yield f"stats has {found - listed}, which convert has not"


def test_the_page_is_made_from_the_schema(_folder):
    made = subprocess.run([TOP / "scripts/json-docs.py"], capture_output=True, text=True, check=True).stdout
    if made != (TOP / "docs/json.md").read_text(encoding="utf-8"):
        yield "docs/json.md is out of date: scripts/json-docs.py >docs/json.md"


@contextlib.contextmanager
def indexed_snapshots():
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(os.environ["SNAPSHOTS"], folder, dirs_exist_ok=True)
        subprocess.run([ALLOCSNAP, "fleet", "index", "fleet", "leaks-fleet"], cwd=folder, capture_output=True, check=False)
        yield folder


def make_test(name, function):
    def json_test(folder):
        if found := list(function(folder)):
            raise Failure("; ".join(found))
    return suite.Test(name, json_test)


if __name__ == "__main__":
    if not jsonschema:
        print("json: without python3-jsonschema")
    TESTS = [make_test(name, function) for name, function in list(globals().items()) if name.startswith("test_")]
    sys.exit(suite.main("json", TESTS, indexed_snapshots))
