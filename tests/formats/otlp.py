# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""OpenTelemetry's profiles signal, decoded by protobuf's own library."""
import collections
import json
import os
import pathlib
import subprocess

from common import ALLOCSNAP, SNAPSHOTS, allocsnap, check, check_equal, run, stats, test, tool, wait_for
from pushed import Server
from written import NAMES, convert, snapshot

HERE = pathlib.Path(__file__).parent
PATH = "/v1development/profiles"


def decode(folder, path):
    run(tool("protoc"), f"--python_out={folder}", f"-I{HERE}", HERE / "otlp.proto")
    return json.loads(run(HERE / "otlp_json.py", folder, path)[0])


def value_of(value):
    return value.get("string_value", value.get("int_value"))


def resource_of(request):
    attributes = request["resource_profiles"][0]["resource"].get("attributes", ())
    check_equal(len({each["key"] for each in attributes}), len(attributes), "keys that are there once")
    return {each["key"]: value_of(each["value"]) for each in attributes}


def profiles_of(request):
    """By type: the profile."""
    strings = request["dictionary"]["string_table"]
    types = {}
    for profile in request["resource_profiles"][0]["scope_profiles"][0]["profiles"]:
        kind = profile["sample_type"]
        types[f"{strings[kind['type_strindex']]}/{strings[kind['unit_strindex']]}"] = profile
    return types


def total_of(profile):
    return sum(int(value) for sample in profile.get("samples", ()) for value in sample["values"])


def stacks_of(request, profile):
    """Bytes by the names of the functions, the most recent call first."""
    words, found = request["dictionary"], collections.Counter()
    for sample in profile.get("samples", ()):
        locations = words["stack_table"][sample.get("stack_index", 0)].get("location_indices", ())
        functions = [words["function_table"][words["location_table"][at]["lines"][0]["function_index"]] for at in locations]
        found[tuple(words["string_table"][each["name_strindex"]] for each in functions)] += int(sample["values"][0])
    return found


def check_tables(request):
    """Entry 0 of each table is empty, indexes are within, and no stack and no key of the resource comes twice."""
    words, _ = request["dictionary"], resource_of(request)
    for name, empty in (("mapping", {}), ("location", {}), ("function", {}), ("link", {}), ("attribute", {}), ("stack", {}), ("string", "")):
        check_equal(words[f"{name}_table"][0], empty, f"first {name}")
    stacks = [tuple(stack.get("location_indices", ())) for stack in words["stack_table"]]
    check_equal(len(set(stacks)), len(stacks), "stacks that are there once")
    check(len(set(words["string_table"])) == len(words["string_table"]), "a string comes twice")
    for profile in profiles_of(request).values():
        check( len(profile["profile_id"]) == 24, "an id of 16 bytes, in base64")
        for sample in profile.get("samples", ()):
            check(sample.get("stack_index", 0) < len(stacks), "a stack that is not there")
            for at in sample.get("attribute_indices", ()):
                check(0 < at < len(words["attribute_table"]), "an attribute that is not there")


@test
def otlp_has_the_sums_of_stats(folder):
    for name in NAMES:
        request = decode(folder, convert(folder, name, ".otlp"))
        total, found = stats(snapshot(name))["total"], profiles_of(request)
        check_equal(total_of(found["inuse_space/bytes"]), total["size"], f"{name}: bytes")
        check_equal(total_of(found["inuse_objects/count"]), total["count"], f"{name}: blocks")
        check_tables(request)


PYTHON = "import json; kept = [json.loads('{\"a\": [1.5, 2.5]}') for _ in range(20000)]; input()"


def recorded(folder, name, *argv):
    """A snapshot of a real program, as it is when it waits: the test ends it."""
    path = folder / f"{name}.snap"
    with subprocess.Popen([ALLOCSNAP, "run", "-o", path, "-i", "2s", "--", *argv], cwd=folder, stdin=subprocess.PIPE,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as running:
        wait_for(path.exists, f"a snapshot of {name}")
        running.terminate()
        running.communicate()
    return path


@test
def otlp_of_real_programs_has_the_sums_of_stats(folder):
    """A server, and a Python with its own rows."""
    paths = [recorded(folder, "redis", tool("redis-server"), "--port", "0", "--save", ""),
             recorded(folder, "python", tool("python3"), "-c", PYTHON)]
    for path in paths:
        allocsnap("convert", path, "-o", path.with_suffix(".otlp"))
        request, total = decode(folder, path.with_suffix(".otlp")), stats(path)["total"]
        found = profiles_of(request)
        check(total["count"] > 100, f"{path.name}: {total}")
        check_equal([total_of(found["inuse_space/bytes"]), total_of(found["inuse_objects/count"])], [total["size"], total["count"]],
                    path.name)
        check_tables(request)
        if path.stem == "python":
            stacks = stacks_of(request, found["inuse_space/bytes"])
            check(any("<module>" in stack for stack in stacks), f"no frame of Python: {list(stacks)[:3]}")


@test
def otlp_has_what_was_allocated(folder):
    for name in ["leaks-one", "gaps", "sampled-old"]:
        total = stats(snapshot(name), "--measure", "allocated")["total"]
        found = profiles_of(decode(folder, convert(folder, name, ".otlp")))
        check_equal(total_of(found["alloc_space/bytes"]), total["size"], f"{name}: allocated bytes")


@test
def otlp_has_the_stacks_of_stats(folder):
    for name in ["new", "mixed", "leaks-one", "brackets"]:
        request, wanted = decode(folder, convert(folder, name, ".otlp")), collections.Counter()
        for row in stats(snapshot(name), "--group-by", "traceback")["statistics"]:
            wanted[len(row["traceback"])] += row["size"]
        found = collections.Counter()
        for stack, size in stacks_of(request, profiles_of(request)["inuse_space/bytes"]).items():
            found[len(stack)] += size
        check_equal(found, wanted, f"{name}: bytes by depth")


@test
def otlp_has_the_process_as_its_resource(folder):
    request = decode(folder, convert(folder, "new", ".otlp"))
    resource = resource_of(request)
    check_equal([resource.get(key) for key in ("service.name", "process.executable.name", "process.pid", "host.name")],
                ["shopd", "shopd", "4711", "shop-1"], "resource")
    words = request["dictionary"]
    keys = {words["string_table"][each["key_strindex"]]: each["value"] for each in words["attribute_table"][1:]}
    check_equal(keys["thread.id"], {"int_value": "4711"}, "the thread")
    comments = [each["string_value"] for each in keys["pprof.profile.comment"]["array_value"]["values"]]
    check(any(text.startswith("allocsnap ") for text in comments), comments)


@test
def otlp_is_pushed(folder):
    long = b"\x0a\xf5\x03\x08\x04\x12\xf0\x03" + b"worse".ljust(0x1f0, b".")
    server = Server(answers=[200, (200, b"\x0a\x07\x08\x04\x12\x03bad"), (200, long)])
    out, _ = allocsnap("push", server.url(PATH), SNAPSHOTS / "new.snap", "--service", os.fsdecode(b"shop\xff"), "--tenant", "t")
    check_equal(out, "1 pushed\n", "an answer that rejects nothing")
    _, headers, body, _ = server.requests[-1]
    check_equal(headers["Content-Type"], "application/x-protobuf", "type")
    (folder / "got.otlp").write_bytes(body)
    request = decode(folder, folder / "got.otlp")
    check_equal(resource_of(request)["service.name"], "shop\\xff", "a service that is no UTF-8")
    check_equal(total_of(profiles_of(request)["inuse_space/bytes"]), stats(SNAPSHOTS / "new.snap")["total"]["size"], "bytes")
    out, err = allocsnap("push", server.url(PATH), SNAPSHOTS / "new.snap", status=1)
    check("the server rejects it: bad" in err, f"{ALLOCSNAP}: {out} {err}")
    out, err = allocsnap("push", server.url(PATH), SNAPSHOTS / "new.snap", status=1)
    check("the server rejects it: worse" in err, f"a long answer: {out} {err}")
