# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""reports.py: groups a table with pandas again and again, and keeps the sums."""
import itertools
import time

import numpy
import pandas

REPORTS = []
sales = pandas.DataFrame({"shop": numpy.arange(20000) % 500, "price": numpy.arange(20000) * 0.5})
for turn in itertools.count():
    REPORTS.append(sales.groupby("shop").sum())  # planted
    if turn == 10:
        print("warm", flush=True)
    time.sleep(0.01)
