# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Reads a recorder's lines and notes their times, so that its pipe is never full."""
import threading
import time


class Listener(threading.Thread):
    def __init__(self, process):
        super().__init__(daemon=True)
        self.process = process
        self.lines = []  # (CLOCK_MONOTONIC in ns, text)
        self.start()

    def run(self):
        while (line := self.process.line(7 * 24 * 3600)) is not None:
            self.lines.append((time.monotonic_ns(), line))

    def texts(self):
        """All of them, once the process has ended."""
        self.join(60)
        return [text for _, text in self.lines]
