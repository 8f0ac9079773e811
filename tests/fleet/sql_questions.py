# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The questions of src/fleet/sql as text for a database: parts put into their places."""
import pathlib
import re

FOLDER = pathlib.Path(__file__).parent / "../../src/fleet/sql"


def read_part(name):
    lines = (FOLDER / f"{name}.sql").read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith("--"))


def read_keys():
    """{key: {"text": SQL, "number": SQL}} of keys.sql, and what only tests ask for."""
    keys, place = {}, None
    for line in (FOLDER / "keys.sql").read_text(encoding="utf-8").splitlines():
        words = line.split()
        if line.startswith("--"):
            place = (words[1], words[2].strip("{}")) if len(words) == 3 and words[2].startswith("{") else None
        elif place:
            keys.setdefault(place[0], {})[place[1]] = line
    stripped = "THEN replace(replace(file, '/build/indexer-1.0/', ''), '/build/indexer-1.1/', '')"
    keys["stripped"] = {"number": keys["lineno"]["number"], "text": keys["lineno"]["text"].replace("THEN file", stripped)}
    return keys


KEYS = read_keys()


def fill(name, **parts):
    """A part with others in the places that it has for them."""
    sql = read_part(name)
    for part, text in parts.items():
        sql = sql.replace("{" + part + "}", text)
    return sql


def latest(where="1 = 1"):
    return fill("latest", where=where or "1 = 1")


def live(where=""):
    """As the commands choose: up to a time, or by their end, also processes that have ended."""
    return latest(where if re.search(r"\btime <|\bending ", where) else f"({where or '1 = 1'}) AND process_id NOT IN ({fill('ended')})")


def all_times(where="1 = 1"):
    return fill("all-times", where=where or "1 = 1")


def sites(key):
    return fill("sites", **KEYS[key])


def stats(key, chosen):
    return fill("stats", chosen=chosen, sites=sites(key))


def cumulative(key, chosen):
    return fill("cumulative", chosen=chosen, **KEYS[key])


def domains(chosen):
    return fill("domains", chosen=chosen)


def diff(key, baseline, candidate):
    return fill("diff", baseline=baseline, candidate=candidate, sites=sites(key))


def stacks():
    return fill("stacks", **KEYS["lineno"])


def hosts(key, chosen, ranks="ranks"):
    """ranks: the file that says how the database ranks. A database that has window functions has WITH, too."""
    with_parts = []

    def part(name, sql):
        if ranks != "ranks":
            return sql
        with_parts.append(f"{name} AS ({sql})")
        return f"SELECT * FROM {name}"

    parts = {"values": part("host_values", fill("host-values", chosen=chosen, sites=sites(key))),
             "host_nr": f"({fill('host-number', chosen=chosen)})"}
    amounts = fill(ranks, amounts=fill("host-amounts", **parts))
    parts["middles"] = part("host_middles", fill("host-middles", ranked_amounts=amounts, **parts))
    distances = fill(ranks, amounts=fill("host-distances", **parts))
    parts["spread"] = part("host_spread", fill("host-spread", ranked_distances=distances, **parts))
    sql = fill("hosts", **parts)
    return f"WITH {', '.join(with_parts)} {sql}" if with_parts else sql


def trend(key, chosen):
    moments = fill("moments", chosen=chosen)
    levers = fill("levers", moments=moments, spans=fill("spans", moments=moments))
    return fill("trend", chosen=chosen, sites=sites(key), levers=levers)
