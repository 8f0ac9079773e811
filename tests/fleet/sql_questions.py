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


def fates():
    return fill("fates", those="1 = 1", among="1 = 1", boots=fill("boots", among="1 = 1"))


def ended():
    return f"SELECT process_id FROM ({fates()}) AS known WHERE fate NOT IN ('', 'running')"


def latest(where="1 = 1"):
    return fill("uploads", snapshots=fill("latest", where=where or "1 = 1"))


def live(where=""):
    """As the commands choose: up to a time, or by their end, also processes that have ended."""
    return latest(where if re.search(r"\btime <|\bending ", where) else f"({where or '1 = 1'}) AND process_id NOT IN ({ended()})")


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


def host_values(key, chosen):
    """The bytes of each site on each host that has it."""
    return f"""SELECT site_text, site_number, host, sum(traceback_bytes) AS bytes
FROM (
    SELECT host, traceback_id, sum(size) AS traceback_bytes
    FROM (SELECT upload_id, traceback_id, size FROM allocation WHERE upload_id IN ({chosen})) AS held
    INNER JOIN (SELECT DISTINCT upload_id, host FROM snapshot WHERE upload_id IN ({chosen})) AS from_host USING (upload_id)
    GROUP BY host, traceback_id
) AS sums
INNER JOIN ({sites(key)}) AS sites USING (traceback_id)
GROUP BY site_text, site_number, host"""


def host_number(chosen):
    return f"SELECT count(DISTINCT host) FROM snapshot WHERE upload_id IN ({chosen})"
