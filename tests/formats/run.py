#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Files for other tools and of theirs, written and read by allocsnap, judged by those tools.

    run.py [--quick] [NAME…]

NAME: only tests whose names contain one of these. --quick leaves out those that start a browser. A test whose tool is
not installed is skipped, and says so.

Environment: ALLOCSNAP, the binary; SNAPSHOTS, the folder that make_snapshots filled; CACHE, a folder for what is
downloaded."""
import pathlib
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True
import common  # pylint: disable=wrong-import-position
import written  # pylint: disable=wrong-import-position,unused-import
import read  # pylint: disable=wrong-import-position,unused-import
import pushed  # pylint: disable=wrong-import-position,unused-import
import viewed  # pylint: disable=wrong-import-position,unused-import


def run(function):
    begun = time.monotonic()
    verdict, why = "ok", ""
    try:
        with tempfile.TemporaryDirectory(prefix="allocsnap-formats-") as folder:
            function(pathlib.Path(folder))
    except common.Skip as skip:
        verdict, why = "skip", f"skipped, because {skip}"
    except Exception as error:  # pylint: disable=broad-exception-caught
        place = traceback.extract_tb(error.__traceback__)[-1]
        verdict, why = "FAIL", str(error) if isinstance(error, common.Failure) else \
            f"{pathlib.Path(place.filename).name}:{place.lineno}: {error!r}"
    print(f"{verdict:4} {function.__name__} ({time.monotonic() - begun:.1f} s) {why}", flush=True)
    return verdict


def main():
    names = [word for word in sys.argv[1:] if not word.startswith("-")]
    common.CACHE.mkdir(parents=True, exist_ok=True)
    verdicts = [run(function) for function, is_slow in common.TESTS
                if not (is_slow and "--quick" in sys.argv) and
                (not names or any(name in function.__name__ for name in names))]
    print(f"formats: {verdicts.count('ok')} passed, {verdicts.count('FAIL')} failed, {verdicts.count('skip')} skipped")
    return "FAIL" in verdicts or not verdicts


if __name__ == "__main__":
    sys.exit(main())
