#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# picture-of-top.sh OUT.png: a picture of `allocsnap top` that watches a program with one small leak among 200 busy
# sites (tests/workloads/crowd.c). Needs root, tmux and chromium, and `make all`.
set -eu

out=${1:?the picture}
allocsnap=$(realpath "${ALLOCSNAP:-./allocsnap}")
sources=$(realpath tests/workloads)
work=$(mktemp -d)
seconds=${SECONDS_WATCHED:-45}

# Names in the picture do not depend on where it is made.
cc -g -O1 -fno-omit-frame-pointer -fno-inline "-ffile-prefix-map=$sources=/srv/crowd" "$sources/crowd.c" -o "$work/crowd"
"$work/crowd" 600 >"$work/crowd.out" </dev/null &
target=$!
tmux="tmux -S $work/tmux -f /dev/null"
end() {
	$tmux kill-server 2>/dev/null || true
	kill "$target" 2>/dev/null || true
	rm -rf "$work"
}
trap end EXIT
trap 'exit 1' HUP INT TERM

$tmux new-session -d -x 100 -y 20 "TERM=tmux-256color exec $allocsnap top $target"
sleep "$seconds"
$tmux capture-pane -p -e -N >"$work/screen"

# The escape sequences that tmux writes are colours and attributes only.
python3 - "$work/screen" >"$work/screen.html" <<'PYTHON'
import html
import re
import sys

COLOURS = {"31": "#ff6b6b", "33": "#f0c75e"}
print("<!doctype html><meta charset=utf-8><style>body{margin:0;background:#16181d}pre{margin:14px;font:13px/1.3 "
      "'DejaVu Sans Mono',monospace;color:#d6d9df}.r{background:#d6d9df;color:#16181d}</style><pre>")
text = open(sys.argv[1], encoding="utf-8").read().rstrip("\n")
bold = reverse = False
colour = None
for part in re.split(r"(\x1b\[[0-9;]*m|\x1b\(B)", text):
    if part.startswith("\x1b["):
        for code in part[2:-1].split(";"):
            if code in ("", "0"):
                bold, reverse, colour = False, False, None
            elif code in ("1", "7"):
                bold, reverse = bold or code == "1", reverse or code == "7"
            elif code == "27":
                reverse = False
            elif code == "22":
                bold = False
            elif code == "39":
                colour = None
            elif code in COLOURS:
                colour = COLOURS[code]
    elif part and not part.startswith("\x1b"):
        style = ("font-weight:bold;" if bold else "") + (f"color:{colour}" if colour and not reverse else "")
        print(f"<span class='{'r' if reverse else ''}' style='{style}'>{html.escape(part)}</span>", end="")
print("</pre>")
PYTHON

chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=830,370 \
	--screenshot="$work/screen.png" "file://$work/screen.html" >"$work/chromium.log" 2>&1 ||
	{ cat "$work/chromium.log" >&2; exit 1; }
mv "$work/screen.png" "$out"
