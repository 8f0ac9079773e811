# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""series.py: smooths series of numbers with numpy, and keeps a part of each. numpy reports its memory to Python."""
import itertools
import time

import numpy

KEPT = []
numbers = numpy.random.default_rng(7)
for turn in itertools.count():
    smooth = numpy.convolve(numbers.normal(size=20000), numpy.ones(5) / 5)
    KEPT.append(smooth[::20].copy())  # planted
    if turn == 10:
        print("warm", flush=True)
    time.sleep(0.01)
