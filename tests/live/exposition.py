# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Prometheus's text format (exposition 0.0.4), read strictly: what a collector would only tolerate is
an error here, too.

https://prometheus.io/docs/instrumenting/exposition_formats/
"""
import json
import re
import subprocess

from harness import Skip, check

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"')
VALUE = re.compile(r"[0-9]+(?:\.[0-9]+)?")
ESCAPED = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}
TYPES = ("counter", "gauge")


def unescape(text):
    return re.sub(r"\\.", lambda match: ESCAPED[match[0]], text)


class Reader:
    """families: {name: (type, {labels: value})}, labels being a sorted tuple of pairs."""

    def __init__(self):
        self.families = {}
        self.now = None  # the current family: all samples of a family must stand together
        self.helped = None

    def comment(self, line):
        match = re.fullmatch(rf"# (HELP|TYPE) ({NAME.pattern}) (.+)", line)
        check(match, f"no comment that means something: {line!r}")
        kind, name, rest = match.groups()
        if kind == "HELP":
            check(name not in self.families, f"{name} is described twice")
            self.helped = name
            return
        check(name == self.helped, f"the type of {name} does not follow its help")
        check(rest in TYPES, f"{name}: what is a {rest}?")
        check(name.endswith("_total") == (rest == "counter"), f"{name} is a {rest}")
        self.now = name
        self.families[name] = (rest, {})

    def labels(self, text):
        """The labels at the beginning of the text, and the text after them."""
        found = []
        if not text.startswith("{"):
            return (), text
        text = text[1:]
        while not text.startswith("}"):
            match = LABEL.match(text)
            check(match, f"no label: {text!r}")
            found.append((match[1], unescape(match[2])))
            text = text[match.end():]
            check(text[:1] in ",}", f"behind a label: {text!r}")
            text = text.removeprefix(",")
        check(len(dict(found)) == len(found), f"a label twice: {found}")
        return tuple(sorted(found)), text[1:]

    def sample(self, line):
        match = NAME.match(line)
        check(match and match[0] == self.now, f"no sample of {self.now}: {line!r}")
        labels, rest = self.labels(line[match.end():])
        check(rest.startswith(" ") and VALUE.fullmatch(rest[1:]), f"no value: {line!r}")
        samples = self.families[self.now][1]
        check(labels not in samples, f"{self.now}{dict(labels)} comes twice")
        samples[labels] = rest[1:]


def parse(data):
    """Parses the bytes of an exposition into {name: (type, {labels: value as it is written})}."""
    reader = Reader()
    text = data.decode("utf-8", errors="strict")
    check(text.endswith("\n"), "the last line has no end")
    check("\r" not in text, "a carriage return")
    for line in text[:-1].split("\n"):
        (reader.comment if line.startswith("#") else reader.sample)(line)
    for name, (_, samples) in reader.families.items():
        check(samples, f"{name} has no samples")
    return reader.families


LIBRARY = """
import json, sys
from prometheus_client import parser
families = parser.text_string_to_metric_families(sys.stdin.buffer.read().decode())
json.dump([(sample.name, sorted(sample.labels.items()), sample.value)
           for family in families for sample in family.samples], sys.stdout)
"""


def parse_as_prometheus_does(data):
    """The same by Prometheus's own library, which Debian's python3 has: {(name, labels): value}."""
    done = subprocess.run(["/usr/bin/python3", "-c", LIBRARY], input=data, capture_output=True,
                          check=False)
    said = done.stderr.decode()
    if "No module named 'prometheus_client'" in said:
        raise Skip("python3-prometheus-client is not installed")
    check(not done.returncode, f"python3-prometheus-client: {said}")
    return {(name, tuple(map(tuple, labels))): value for name, labels, value in json.loads(done.stdout)}
