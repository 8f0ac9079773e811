# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Source files for Traceback.format(), and snapshots whose frames are in them."""
import os

from generate import Snapshot

FILES = {
    "a.py": "import os\n\n    x = [1]\nlast line, without its end",
    "empty.py": "",
    "dir/b.c": "\tint main(void)\r\n{\r\n\t\treturn 0;\t \r\n}\r\n",
    "dir/deep/漢 é.py": "# π\n  'ünïcödé \N{GRINNING FACE}'  \n\n\n%s %d\n",
    "blank.py": "\n \n\t\n\f\n\v x \v\n",
    'say "hi".c': 'puts("hi");\n' * 7,
    "<angle>": "what CPython takes for no file\n",
    "bom.c": "\ufeffint after_the_mark;\n",
    "carriage.c": "one\rtwo\r\nthree\r",
    "separators.c": "\x1c file \x1f\none\u2028line\n\x0bq\x0c\n",
    "long.c": "x" * 4000 + "\n" + "second\n",
}
MISSING = ("missing.py", "<string>", "<unknown>", "", "no/such.c", "tab\t.c")
LINES = (0, 1, 1, 2, 2, 3, 4, 5, 7, 8, 99, 2**32 - 1)


def make(folder):
    """Writes the files below the folder; returns it."""
    for name, text in FILES.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
    return folder


def snapshot(rng, folder):
    """Frames named relative to the folder, and absolutely."""
    names = [*FILES, *MISSING, *(os.path.join(folder, name) for name in FILES)]

    def trace():
        nr = rng.choice((1, 2, 3, 5))
        return 0, 1, tuple((rng.choice(names), rng.choice(LINES)) for _ in range(nr)), nr

    return Snapshot(tuple(trace() for _ in range(6)), 25)
