#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""make prose: counts comments that hide their subject, and words that are out of use.

A comment, a docstring or a sentence of the documents must not open with a clause whose subject the reader has to
guess ("Of those that…", "Who…", "What…", "That…"). Usage: prose.py [--list] [PATH…]; it fails above LIMIT, which
only goes down.
"""
import os
import re
import subprocess
import sys

LIMIT = 0
OPENINGS = r"(?:Of|Who|Whom|Whose|Whoever|Whatever|What|Those|That|Nobody|Everybody|Nor|Such|So many|As of|Where even)\b"
WORDS = re.compile(r"\b(whom|whoever|whosever|whomever|till|be had)\b", re.IGNORECASE)
COMMENT = {
    "c": re.compile(r"/\*[*!]?(?:\s*\n\s*\*)?\s*" + OPENINGS + r"|//\s*" + OPENINGS),
    "py": re.compile(r"(?:\"\"\"|(?:^|\s)#\s+)" + OPENINGS, re.MULTILINE),
    "sh": re.compile(r"(?:^|\s)#\s+" + OPENINGS, re.MULTILINE),
    "md": re.compile(r"(?:^|[.:] |^\s*- |\n\n)" + OPENINGS, re.MULTILINE),
}
KINDS = {".js": "c", ".mjs": "c", ".c": "c", ".h": "c", ".cc": "c", ".py": "py", ".sh": "sh", ".mk": "sh", ".md": "md", ".in": "sh"}
LEFT_OUT = ("vmlinux/", "scripts/prose.py")


def kind_of(path):
    return KINDS.get(os.path.splitext(path)[1]) or ("sh" if os.path.basename(path) == "Makefile" else None)


def findings(path):
    kind = kind_of(path)
    if not kind or path.startswith(LEFT_OUT):
        return
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for pattern in (COMMENT[kind], WORDS):
        for found in pattern.finditer(text):
            yield text.count("\n", 0, found.end()) + 1, " ".join(text[found.start():found.end() + 60].split())


def main():
    paths = [word for word in sys.argv[1:] if word != "--list"]
    tracked = subprocess.run(["git", "ls-files", *paths], capture_output=True, text=True, check=True).stdout.split()
    found = [(path, *row) for path in tracked if os.path.isfile(path) for row in findings(path)]
    if "--list" in sys.argv:
        for path, line, text in found:
            print(f"{path}:{line}: {text}")
    print(f"prose: {len(found)} of at most {LIMIT}")
    return len(found) > LIMIT


if __name__ == "__main__":
    sys.exit(main())
