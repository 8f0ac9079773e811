# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""objects.py large | small: keeps 1 MiB of objects a second, of 16 KiB each or parsed from JSON."""
import itertools
import json
import sys
import time

KEPT = []
TEXT = json.dumps([f"customer number {number:08} of the northern branch" for number in range(100)])


def keep_large():
    """Objects above 512 bytes, which pymalloc leaves to malloc."""
    for _ in range(6):
        KEPT.append(b"x" * 16000 + bytes([len(KEPT) % 256]))  # planted


def keep_small():
    """Strings of 100 bytes: pymalloc takes them from its arenas."""
    for _ in range(10):
        KEPT.append(json.loads(TEXT))  # planted


for turn in itertools.count():
    keep_large() if sys.argv[1] == "large" else keep_small()
    if turn == 10:
        print("warm", flush=True)
    time.sleep(0.1)
