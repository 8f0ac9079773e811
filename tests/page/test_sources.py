# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The page's sources: what they may not use, and that the committed page is what they give."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

import pages
from harness import Skip

MARKS = ("core",)

SOURCES = pages.TOP / "src/report/page"
# Names are hostile: nothing may parse them as markup or run them.
FORBIDDEN = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser"
                       r"|srcdoc|\beval\b|new Function|setTimeout\(\s*[\"'`]|javascript:|fetch\(|XMLHttpRequest"
                       r"|WebSocket|importScripts|\bimport\(")
ESBUILD = "0.17"


def test_no_name_becomes_markup(_bench):
    files = [*SOURCES.glob("js/*.js"), SOURCES / "skeleton.html"]
    assert len(files) > 10
    for path in files:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            assert not FORBIDDEN.search(line), f"{path.name}:{number}: {line.strip()}"


def test_sources_keep_the_limits(_bench):
    for path in SOURCES.glob("js/*.js"):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert "SPDX-License-Identifier" in lines[0], path.name
        assert len(lines) <= 500, f"{path.name} has {len(lines)} lines"
        for number, line in enumerate(lines, 1):
            assert len(line.expandtabs(8)) <= 120, f"{path.name}:{number} is wider than 120 columns"


def test_the_committed_page_is_what_the_sources_give(_bench):
    if not shutil.which("esbuild"):
        raise Skip("esbuild is not installed")
    version = subprocess.run(["esbuild", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if not version.startswith(ESBUILD + "."):
        raise Skip(f"esbuild {version} writes another text than {ESBUILD}")
    with tempfile.TemporaryDirectory() as folder:
        made = os.path.join(folder, "page.html")
        builder = pages.TOP / "scripts/bundle-report.py"
        subprocess.run([sys.executable, builder, "-o", made], check=True, capture_output=True)
        with open(made, "rb") as file:
            assert file.read() == pages.PAGE.read_bytes(), "src/report/page/page.html is old: run make page"


def test_modules_without_a_browser(_bench):
    node = shutil.which("node") or shutil.which("nodejs")
    if not node:
        raise Skip("node is not installed")
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(SOURCES / "js", folder, dirs_exist_ok=True)
        with open(os.path.join(folder, "package.json"), "w", encoding="utf-8") as file:
            file.write('{"type": "module"}')
        done = subprocess.run([node, "--test", pages.TOP / "tests/page/unit.mjs"], capture_output=True, text=True,
                              env={**os.environ, "PAGE_JS": folder}, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"^# pass (\d+)", done.stdout, re.MULTILINE)
    assert passed and int(passed[1]) >= 9, done.stdout
