#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Pictures for the documents (as root): pictures.py OUT_DIR.

Records a service with a leak planted among more than 200 busy lines. Takes pictures of its HTML report, of
`allocsnap leaks` and of `allocsnap top`: docs/pictures/ has what this wrote. pngquant makes the pictures small.
Environment: ALLOCSNAP, the program. Needs g++, tmux and Chromium.
"""
import html
import itertools
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
# pylint: disable=wrong-import-position
import browser as browsers

HERE = pathlib.Path(__file__).resolve().parent
ALLOCSNAP = os.environ.get("ALLOCSNAP", "./allocsnap")
RATE, SECONDS, INTERVAL = 25, 104, "4s"
WARM_SECONDS, TOP_SECONDS = 30, 75

# name, size, light or dark, fragment, what is done before the picture is taken
PICTURES = [
    ("report-light", (1280, 720), "light", "", ""),
    ("report-filter", (1280, 720), "light", "size=11,12", "allocsnap.filters.toggle()"),
]

# Kinds of messages that the service decodes, each at a line of its own.
SUBJECTS = ("Customer", "Basket", "Order", "Invoice", "Payment", "Refund", "Parcel", "Carrier", "Warehouse", "Supplier",
            "Price", "Coupon", "GiftCard", "Review", "WishList", "Campaign", "Session", "Address")
EVENTS = ("Created", "Changed", "Confirmed", "Rejected", "Moved", "Merged", "Archived", "Restored", "Exported", "Deleted")

# The colours that terminals show for the escape sequences of ours.
ANSI = {"31": "#ff6b6b", "32": "#5fd38d", "33": "#f0c75e", "34": "#6cb0ff", "35": "#e394c4", "36": "#6bd5d5"}
TERMINAL_PAGE = """<!doctype html><html data-ready=1><meta charset=utf-8><style>body{margin:0;background:#16181d}pre{margin:14px;
font:13px/1.3 "DejaVu Sans Mono",monospace;color:#d6d9df}</style><pre>%s</pre>"""


def build_service(folder):
    """compiles checkoutd, with names that do not depend on where that is, and returns its path"""
    messages = [f"DECODER({subject}{event}, {48 + 97 * i % 1000}, {4 + i % 9})"
                for i, (subject, event) in enumerate(itertools.product(SUBJECTS, EVENTS))]
    (folder / "messages.inc").write_text("\n".join(messages) + "\n", encoding="utf-8")
    shutil.copy(HERE / "pictures/checkoutd.cc", folder)
    program = folder / "checkoutd"
    subprocess.run(["g++", "-std=c++17", "-O1", "-g", "-pthread", f"-ffile-prefix-map={folder}=/srv/checkout",
                    folder / "checkoutd.cc", "-o", program], check=True)
    return program


def record(folder, program):
    """records checkoutd and returns its folder"""
    subprocess.run([ALLOCSNAP, "run", "--interval", INTERVAL, "--label", "version=2.4.1", "-o", folder / "snaps", "--",
                    program, str(RATE), str(SECONDS)], check=True)
    recorded, = (folder / "snaps").glob("*/*")
    return recorded


def html_of(screen):
    """the text of a terminal with its escape sequences, which are colours and attributes only"""
    out, bold, reverse, colour = [], False, False, None
    for part in re.split(r"(\x1b\[[0-9;]*m|\x1b\(B)", screen.rstrip("\n")):
        if not part.startswith("\x1b"):
            front, back = colour or "#d6d9df", "#16181d"
            front, back = (back, "#d6d9df") if reverse else (front, back)
            style = f"color:{front};background:{back};" + ("font-weight:bold" if bold else "")
            out.append(f'<span style="{style}">{html.escape(part)}</span>' if part else "")
            continue
        for code in part[2:-1].split(";"):
            bold = code == "1" or bold and code not in ("", "0", "22")
            reverse = code == "7" or reverse and code not in ("", "0", "27")
            colour = ANSI.get(code) or (None if code in ("", "0", "39") else colour)
    return TERMINAL_PAGE % "".join(out)


def terminal(folder, command, columns, rows, seconds):
    """what a terminal shows that many seconds after a command's start"""
    tmux = ["tmux", "-S", folder / "tmux", "-f", "/dev/null"]
    # The command's end does not take its last screen away.
    line = f"export TERM=tmux-256color; {shlex.join(map(str, command))}; sleep 100"
    subprocess.run(tmux + ["new-session", "-d", "-x", str(columns), "-y", str(rows), line], check=True)
    time.sleep(seconds)
    screen = subprocess.run(tmux + ["capture-pane", "-p", "-e", "-N"], check=True, stdout=subprocess.PIPE, text=True)
    subprocess.run(tmux + ["kill-server"], check=True)
    return screen.stdout


def picture_terminals(out, folder, browser, program, recorded):
    """leaks of what was recorded; top of a service that leaks from its start"""
    with subprocess.Popen([program, str(RATE), "300", "0"]) as service:
        try:
            time.sleep(WARM_SECONDS)
            judge = [ALLOCSNAP, "leaks", recorded, "--last", "50s", "--top", "3", "--no-pager"]
            screens = {"leaks": terminal(folder, judge, 110, 30, 3),
                       "top": terminal(folder, [ALLOCSNAP, "top", service.pid], 110, 20, TOP_SECONDS)}
        finally:
            service.kill()
    for name, screen in screens.items():
        page = folder / f"{name}.html"
        page.write_text(html_of(screen), encoding="utf-8")
        rows = screen.rstrip("\n").count("\n") + 1
        browser.open(page, "", (910, 30 + 17 * rows), "dark")
        browser.shot(out / f"{name}.png")
        shrink(out / f"{name}.png")


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
        folder = pathlib.Path(folder)
        program = build_service(folder)
        recorded = record(folder, program)
        report = folder / "report.html"
        subprocess.run([ALLOCSNAP, "report", recorded, "--source", folder, "-o", report], check=True)
        for name, size, scheme, fragment, script in PICTURES:
            browser.open(report, fragment, size, scheme)
            browser.run(script)
            browser.shot(out / f"{name}.png")
            shrink(out / f"{name}.png")
        picture_terminals(out, folder, browser, program, recorded)


if __name__ == "__main__":
    main()
