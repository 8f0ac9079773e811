# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Files that allocsnap writes, read by the tools that they are for."""
import collections
import gzip

from common import (SNAPSHOTS, allocsnap, check, check_equal, diff, name_of, pprof, pprof_raw, pprof_top,
                    pprof_totals, stats, test)

NAMES = ["new", "old", "cxx", "brackets", "mixed", "many", "hostile", "empty", "python", "sampled", "sampled-old", "gaps", "leaks-one"]


def snapshot(name):
    return SNAPSHOTS / f"{name}.snap"


def convert(folder, name, ending):
    path = folder / f"{name}{ending}"
    allocsnap("convert", snapshot(name), "-o", path)
    return path


@test
def pprof_has_the_sums_of_stats(folder):
    for name in NAMES:
        total = stats(snapshot(name))["total"]
        found = pprof_totals(convert(folder, name, ".pb.gz"))
        check_equal(found["inuse_space/bytes"], total["size"], f"{name}: bytes")
        check_equal(found["inuse_objects/count"], total["count"], f"{name}: blocks")


@test
def pprof_has_what_was_allocated(folder):
    for name in ["leaks-one", "gaps", "sampled-old"]:
        total = stats(snapshot(name), "--measure", "allocated")["total"]
        path = convert(folder, name, ".pb.gz")
        types = pprof_raw(path)[0]
        check_equal(types, ["alloc_objects/count", "alloc_space/bytes", "inuse_objects/count", "inuse_space/bytes"],
                    f"{name}: types")
        found = pprof_totals(path)
        check_equal(found["alloc_space/bytes"], total["size"], f"{name}: allocated bytes")
        check_equal(found["alloc_objects/count"], total["count"], f"{name}: allocated blocks")
    check_equal(pprof_raw(convert(folder, "new", ".pb.gz"))[0], ["inuse_objects/count", "inuse_space/bytes"],
                "types where nothing says what was allocated")


@test
def pprof_top_has_the_functions_of_stats(folder):
    for name in ["new", "mixed", "leaks-one", "sampled", "brackets"]:
        wanted = collections.Counter()
        for row in stats(snapshot(name), "--group-by", "function")["statistics"]:
            wanted[name_of(row)] += row["size"]
        found = pprof_top(convert(folder, name, ".pb.gz"))
        for function, size in found.items():
            if function in wanted and not function.startswith("<unknown>"):
                check(abs(wanted[function] - size) <= (name == "sampled"), f"{name}: {function}: {size}")
        named = {function for function in wanted if not function.startswith("<unknown>")}
        check(named <= set(found), f"{name}: missing are {named - set(found)}")
        check_equal(sum(found.values()), stats(snapshot(name))["total"]["size"], f"{name}: sum of -top")


@test
def pprof_diff_base_has_the_rows_of_diff(folder):
    old, new = (convert(folder, name, ".pb.gz") for name in ("old", "new"))
    wanted = {name_of(row): row["size_diff"] for row in diff(snapshot("old"), snapshot("new"), "-g", "function")["statistics"]
              if row["size_diff"]}
    check(wanted, "the snapshots do not differ")
    check_equal(pprof_top("-diff_base", old, new), wanted, "-diff_base")


@test
def pprof_has_labels_and_losses(folder):
    path = convert(folder, "new", ".pb.gz")
    _, samples, comments = pprof_raw(path)
    for _, _, labels in samples:
        check_equal({key: labels[key] for key in ("comm", "pid", "host")},
                    {"comm": "shopd", "pid": "4711", "host": "shop-1"}, "labels")
        check_equal(labels.get("thread"), "4711", "the thread")
    domains = {labels.get("domain") for _, _, labels in pprof_raw(convert(folder, "mixed", ".pb.gz"))[1]}
    wanted = {row["name"] if "name" in row else row["key"] for row in stats(snapshot("mixed"), "-g", "domain")["statistics"]}
    check_equal(domains, wanted, "domains")
    check(any(line.startswith("losses: blocks_dropped 12") for line in comments), f"comments: {comments}")
    check("shopd" in pprof("-tags", path), "-tags has no comm")
    text = pprof("-top", path)
    check("File: shopd" in text and "Type: inuse_space" in text, f"the head of -top: {text[:300]}")
    comments = pprof_raw(convert(folder, "gaps", ".pb.gz"))[2]
    check(any("gap" in line for line in comments), f"no gaps in {comments}")
    comments = pprof_raw(convert(folder, "sampled", ".pb.gz"))[2]
    check(any(line.startswith("sampled, one in") for line in comments), f"no sampling in {comments}")


@test
def pprof_of_a_part_has_the_part(folder):
    path = folder / "part.pb.gz"
    allocsnap("convert", snapshot("mixed"), "-o", path, "--include", "function=item_new")
    total = stats(snapshot("mixed"), "--include", "function=item_new")["total"]
    check_equal(pprof_totals(path)["inuse_space/bytes"], total["size"], "bytes")


@test
def pprof_is_the_same_each_time(folder):
    first, second = (convert(folder, "many", ".pb.gz").read_bytes() for _ in range(2))
    check_equal(first, second, "two conversions")
    check(gzip.decompress(first), "nothing in it")


def folded_sum(text):
    lines = text.splitlines()
    check_equal(lines, sorted(lines, key=lambda line: line.rpartition(" ")[0].encode()), "the order of lines")
    for line in lines:
        stack, _, size = line.rpartition(" ")
        check(stack and size.isdigit(), f"not a line of folded stacks: {line!r}")
    stacks = [line.rpartition(" ")[0] for line in lines]
    check_equal(len(stacks), len(set(stacks)), "each stack has one line")
    return sum(int(line.rpartition(" ")[2]) for line in lines)


@test
def folded_stacks_have_the_sum_of_stats(folder):
    for name in NAMES:
        text = convert(folder, name, ".folded").read_text(encoding="utf-8")
        rows = stats(snapshot(name), "--group-by", "traceback")["statistics"]
        check_equal(folded_sum(text), sum(row["size"] for row in rows), name)


@test
def folded_stacks_of_a_diff_are_growth_or_shrinkage(_folder):
    rows = diff(snapshot("old"), snapshot("new"), "-g", "function")["statistics"]
    for order, sign in (("growth", 1), ("shrink", -1)):
        out, err = allocsnap("diff", snapshot("old"), snapshot("new"), "-g", "function", "-f", "folded", "-s", order)
        check_equal(folded_sum(out), sum(max(0, sign * row["size_diff"]) for row in rows), order)
        check("is not in folded stacks" in err, f"{order}: no word of what is left out: {err!r}")


@test
def an_ending_that_no_writer_has_is_refused(folder):
    for ending in (".pprof", ".txt", ".pb", ".html"):
        _, err = allocsnap("convert", snapshot("new"), "-o", folder / f"x{ending}", status=2)
        check("an unknown ending" in err and not (folder / f"x{ending}").exists(), f"{ending}: {err}")
