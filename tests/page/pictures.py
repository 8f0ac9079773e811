#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Pictures of the HTML report for the documents (as root): pictures.py OUT_DIR [REPORT].

Records a service with a leak planted among 100 busy lines, writes its report, and takes pictures of it: docs/pictures/
has what this wrote. With REPORT, an HTML report, nothing is recorded. pngquant makes the pictures small.
Environment: ALLOCSNAP, the program.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
# pylint: disable=wrong-import-position
import browser as browsers

HERE = pathlib.Path(__file__).resolve().parent
RATE, SECONDS, INTERVAL = 25, 104, "4s"

# name, size, light or dark, fragment, what is done before the picture is taken
PICTURES = [
    ("report-light", (1280, 720), "light", "", ""),
    ("report-dark", (1440, 900), "dark", "", ""),
    ("report-filter", (1280, 720), "light", "size=11,12", "allocsnap.filters.toggle()"),
    ("report-cumulative", (1280, 720), "dark", "a=-1&sum=all&order=leaf&lib=dim", ""),
]


def record(folder):
    """records checkoutd and returns its report"""
    allocsnap, program = os.environ["ALLOCSNAP"], folder / "checkoutd"
    source = HERE / "pictures/checkoutd.cc"
    subprocess.run(["g++", "-std=c++17", "-O1", "-g", "-pthread", source, "-o", program], check=True)
    subprocess.run([allocsnap, "run", "--interval", INTERVAL, "--label", "version=2.4.1", "-o", folder / "snaps", "--",
                    program, str(RATE), str(SECONDS)], check=True)
    recorded, = (folder / "snaps").glob("*/*")
    report = folder / "report.html"
    subprocess.run([allocsnap, "report", recorded, "--source", HERE, "-o", report], check=True)
    return report


def shrink(path):
    """256 colours at most"""
    if shutil.which("pngquant"):
        subprocess.run(["pngquant", "--force", "--skip-if-larger", "--ext", ".png", "256", path], check=False)
    print(f"{path}: {os.path.getsize(path)} bytes")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if why := browsers.missing():
        sys.exit(f"pictures: {why}")
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, browsers.Browser() as browser:
        report = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else record(pathlib.Path(folder))
        for name, size, scheme, fragment, script in PICTURES:
            browser.open(report, fragment, size, scheme)
            browser.run(script)
            browser.shot(out / f"{name}.png")
            shrink(out / f"{name}.png")


if __name__ == "__main__":
    main()
