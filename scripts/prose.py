#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""make prose: counts comments that hide their subject, sentences that hide their noun, and words that are out of use.

- A comment, a docstring or a sentence of the documents must not open with a clause whose subject the reader has to
  guess ("Of those that…", "Who…", "What…", "That…").
- A sentence must not hide its noun behind "there is none", "that of" or "those of", or its actor behind "told".

Names in code and in backticks do not count. Messages count in the sources only: tests quote them.
Usage: prose.py [--list] [PATH…]; it fails where an area has more than its limit in AREAS, which only goes down.
"""
import io
import os
import re
import subprocess
import sys
import tokenize

# What a path begins with, and its limits: openings and words, "there is none", "told", "that of". The first row counts.
AREAS = (
    ("src, bpf, include", ("src/", "bpf/", "include/"), (0, 0, 1, 0)),
    ("all other files", ("",), (0, 0, 0, 0)),
)
OPENINGS = r"(?:Of|Who|Whom|Whose|Whoever|Whatever|What|Those|That|Nobody|Everybody|Nor|Such|So many|As of|Where even)\b"
COMMENT = {
    "c": r"/\*[*!]?(?:\s*\n\s*\*)?\s*" + OPENINGS + r"|//\s*" + OPENINGS,
    "py": r"(?:\"\"\"|(?:^|\s)#\s+)" + OPENINGS,
    "sh": r"(?:^|\s)#\s+" + OPENINGS,
    "md": r"(?:^|[.:] |^\s*- |\n\n)" + OPENINGS,
}
WORDS = r"\b(?:[Ww]hom|[Ww]hoever|[Ww]hosever|[Ww]homever|[Tt]ill|be\s+had)\b"
SENTENCES = (
    ("there is none", re.compile(r"\bthere\s+(?:is|are|was|were)\s+none\b", re.IGNORECASE)),
    ("told", re.compile(r"\b(?:told|tells?)\b(?!(?:[\s,]+[\w/()'’]+){0,6}?[\s,]+apart\b)(?!\()", re.IGNORECASE)),
    ("that of", re.compile(r"\b(?:that|those)\s+of\b", re.IGNORECASE)),
)
KINDS = {".js": "c", ".mjs": "c", ".c": "c", ".h": "c", ".cc": "c", ".py": "py", ".sh": "sh", ".mk": "sh", ".md": "md", ".in": "sh"}
C_TOKEN = re.compile(r"(?P<comment>/\*.*?\*/|//[^\n]*)|(?P<string>\"(?:\\.|[^\"\\\n])*\")|'(?:\\.|[^'\\\n])*'", re.DOTALL)
SH_COMMENT = re.compile(r"(?:^|(?<=\s))#[^\n]*", re.MULTILINE)
MD_CODE = re.compile(r"^ *```.*?^ *```|`[^`]*`", re.DOTALL | re.MULTILINE)
BETWEEN_LINES = (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT)
LEFT_OUT = ("vmlinux/", "scripts/prose.py")


def kind_of(path):
    base = os.path.basename(path)
    if "." in base:
        return KINDS.get(os.path.splitext(base)[1])
    if base == "Makefile":
        return "sh"
    with open(path, "rb") as file:
        first = file.readline()
    return ("py" if b"python" in first else "sh") if first.startswith(b"#!") else None


def c_spans(text, with_messages):
    for token in C_TOKEN.finditer(text):
        if token["comment"] or (with_messages and token["string"]):
            yield token.span()


def py_spans(text):
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    opens_a_line, depth = True, 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and opens_a_line):
            yield starts[token.start[0] - 1] + token.start[1], starts[token.end[0] - 1] + token.end[1]
        depth += (token.string in "([{") - (token.string in ")]}") if token.type == tokenize.OP else 0
        opens_a_line = not depth and token.type in BETWEEN_LINES


def prose_of(path, kind, text):
    """The prose of a file at its place in the text: everything else, and the marks of comments, are spaces."""
    if kind == "md":
        return MD_CODE.sub(lambda code: re.sub(r"\S", " ", code[0]), text)
    if kind == "c":
        spans = c_spans(text, path.startswith(("src/", "bpf/", "include/")))
    elif kind == "py":
        spans = py_spans(text)
    else:
        spans = (comment.span() for comment in SH_COMMENT.finditer(text))
    prose = list(re.sub(r"\S", " ", text))
    for start, end in spans:
        part = re.sub(r"`[^`\n]*`", lambda code: " " * len(code[0]), text[start:end])
        prose[start:end] = re.sub(r"(?m)^(\s*)(\*|#|//)", r"\1 ", part) if len(part) == end - start else part
    return "".join(prose)


def findings(path):
    kind = kind_of(path)
    if not kind or path.startswith(LEFT_OUT):
        return
    with open(path, encoding="utf-8") as file:
        text = file.read()
    prose = prose_of(path, kind, text)
    rules = ((COMMENT[kind], text), (WORDS, text))
    for pattern, where in rules:
        for found in re.finditer(pattern, where, re.MULTILINE):
            yield 0, text.count("\n", 0, found.end()) + 1, " ".join(text[found.start():found.end() + 60].split())
    for column, (_, pattern) in enumerate(SENTENCES, 1):
        for found in pattern.finditer(prose):
            yield column, text.count("\n", 0, found.start()) + 1, " ".join(text[found.start() - 60:found.end() + 60].split())


def main():
    paths = [word for word in sys.argv[1:] if word != "--list"]
    tracked = subprocess.run(["git", "ls-files", *paths], capture_output=True, text=True, check=True).stdout.split()
    counts = {name: [0] * (1 + len(SENTENCES)) for name, _, _ in AREAS}
    for path in filter(os.path.isfile, tracked):
        area = next(name for name, prefixes, _ in AREAS if path.startswith(prefixes))
        for column, line, text in findings(path):
            counts[area][column] += 1
            if "--list" in sys.argv:
                print(f"{path}:{line}: {text}")
    for name, _, limits in AREAS:
        print(f"prose: {name}: {counts[name]} of at most {list(limits)}")
    return any(count > limit for name, _, limits in AREAS for count, limit in zip(counts[name], limits))


if __name__ == "__main__":
    sys.exit(main())
