#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Builds the page of `allocsnap report` from src/report/page/: bundle-report.py [-o FILE].

Debian's esbuild joins and minifies the scripts and the style sheet; they go into skeleton.html with their hashes in its
Content-Security-Policy. The result, src/report/page/page.html, is committed: a build of allocsnap needs no esbuild. It
has @DATA@ once, where the writer puts the data. `make test-page` checks that it is what the sources give.
"""
import argparse
import base64
import hashlib
import os
import re
import subprocess
import sys

PAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "src", "report", "page")
OPTIONS = ["--bundle", "--minify", "--charset=utf8", "--legal-comments=none", "--log-level=warning"]


def run_esbuild(name, *options):
    """what esbuild makes of a source file, in one line"""
    done = subprocess.run(["esbuild", name, *OPTIONS, *options], cwd=PAGE, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"bundle-report: {done.stderr.strip()}")
    text = done.stdout.strip()
    # The bundle stands in an element of its own, and is hashed as it stands there.
    if re.search(r"</(script|style)|<!--|@(DATA|SCRIPT|STYLE)", text, re.IGNORECASE):
        sys.exit(f"bundle-report: what {name} becomes would end its element, or has a placeholder")
    return text


def csp_hash(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def build_page():
    script = run_esbuild("js/main.js", "--format=iife", "--target=es2022")
    style = run_esbuild("style.css", "--target=chrome100,firefox100,safari16")
    parts = {"SCRIPT": script, "STYLE": style, "SCRIPT_HASH": csp_hash(script), "STYLE_HASH": csp_hash(style)}
    with open(os.path.join(PAGE, "skeleton.html"), encoding="utf-8") as file:
        page = re.sub(r"@(SCRIPT_HASH|STYLE_HASH|SCRIPT|STYLE)@", lambda found: parts[found[1]], file.read())
    if page.count("@DATA@") != 1:
        sys.exit("bundle-report: the page needs @DATA@ once")
    return page


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("-o", "--output", default=os.path.join(PAGE, "page.html"), help="default: %(default)s")
    output = parser.parse_args().output
    page = build_page()
    with open(output, "w", encoding="utf-8") as file:
        file.write(page)
    print(f"{output}: {len(page.encode())} bytes")


if __name__ == "__main__":
    main()
