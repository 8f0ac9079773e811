#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs the tests of what a user meets at the terminal. Arguments choose tests by their names.

    ALLOCSNAP=…/allocsnap SNAPSHOTS=DIR MAN=DIR COMPLETION=DIR MAKE_TRACES=… tests/terminal/run.py [NAME…]
"""
import sys
import time
import traceback

import test_colours
import test_completion
import test_man
import test_pager
import test_progress
from checks import Failure


def main():
    modules = (test_completion, test_man, test_pager, test_colours, test_progress)
    tests = [(name, getattr(module, name)) for module in modules for name in vars(module) if name.startswith("test_")]
    failed = 0
    chosen = [(name, test) for name, test in tests if not sys.argv[1:] or name in sys.argv[1:]]
    for name, test in chosen:
        begun = time.monotonic()
        try:
            test()
        except Failure as failure:
            failed += 1
            print(f"terminal: {name}: {failure}")
        except Exception:
            failed += 1
            print(f"terminal: {name}: {traceback.format_exc()}")
        else:
            print(f"  {name} ({time.monotonic() - begun:.1f} s)")
    print(f"terminal: {len(chosen) - failed} passed, {failed} failed")
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
