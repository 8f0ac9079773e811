#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Writes docs/json.md from docs/json-schema.json: `scripts/json-docs.py >docs/json.md`. The tests compare the two."""
import json
import pathlib

SCHEMA = pathlib.Path(__file__).resolve().parent.parent / "docs/json-schema.json"

HEAD = """# JSON

This page is made from [json-schema.json](json-schema.json) by `scripts/json-docs.py`. `make test-json` checks that real
output of every command has these forms, and that this page is up to date.

With `--json` a command writes one object on one line. Its member `schema` names the form and its version. The version
changes when a member changes its meaning, or goes; new members may come without a new version. Numbers are integers
unless the type says "number". A member marked "?" is left out if it is not known or does not apply.

**Frames are most recent call first**, everywhere: in `traceback` here, in the JSON that `convert` writes, and in text.
Version 1 of `stats`, `diff`, `block` and `fleet.*` had the oldest frame first, no build-ids and no `inlined`.

Text from processes is made harmless: a byte that is not printable or not UTF-8 becomes `\\xNN`.

`convert SNAP -o FILE.json` writes another form, the data of Python's `tracemalloc`; `allocsnap convert --help` has it.
"""


def anchor(title):
    return "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c in "-_")


def link(reference):
    name = reference.rpartition("/")[2].replace("~1", "/")
    title = f"allocsnap.{name}" if "/" in name else name
    return f"[{name}](#{anchor(title)})"


def type_of(schema):
    if "$ref" in schema:
        return link(schema["$ref"])
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    if "oneOf" in schema:
        return " or ".join(type_of(one) for one in schema["oneOf"])
    if schema.get("type") == "array":
        return f"list of {type_of(schema['items'])}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"object of {type_of(schema['additionalProperties'])}"
    kind = schema["type"]
    return kind if isinstance(kind, str) else " or ".join(kind)


def rows(schema, prefix=""):
    """A row for each member; the members of an object without a name of its own follow it."""
    for name, member in schema.get("properties", {}).items():
        mark = "" if name in schema["required"] else "?"
        yield f"| `{prefix}{name}`{mark} | {type_of(member)} | {member['description']} |"
        yield from rows(member, f"{prefix}{name}.")


def section(title, schema):
    lines = [f"## {title}", "", schema["description"]]
    if "$comment" in schema:
        lines.append("Written by " + " or ".join(f"`{words}`" for words in schema["$comment"].split(" or ")) + ".")
    if "properties" in schema:
        lines += ["", "| member | type | meaning |", "|---|---|---|", *rows(schema)]
    else:
        lines[-1] = f"A {type_of(schema)}. {schema['description'].rstrip('.')}."
    return "\n".join(lines) + "\n"


def page():
    schemas = json.loads(SCHEMA.read_text(encoding="utf-8"))["$defs"]
    forms = [name for name in schemas if "/" in name]
    parts = [name for name in schemas if "/" not in name]
    sections = [section(f"allocsnap.{name}", schemas[name]) for name in forms]
    sections += [section(name, schemas[name]) for name in parts]
    return "\n".join([HEAD, *sections])


if __name__ == "__main__":
    print(page(), end="")
