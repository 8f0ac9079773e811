# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Reads a recorder's lines and its messages to its service manager, and notes their times."""
import contextlib
import os
import socket
import threading
import time


class Listener(threading.Thread):
    """Reads the lines, so that the recorder's pipe is never full."""

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


class Manager(threading.Thread):
    """A service manager: it listens on the socket that NOTIFY_SOCKET names."""

    def __init__(self, folder):
        super().__init__(daemon=True)
        self.path = os.path.join(folder, "notify")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.stopping_ns = 0  # CLOCK_MONOTONIC when the recorder said that it stops; 0: it has not
        self.start()

    def run(self):
        while not self.stopping_ns:
            if "STOPPING=1" in self.socket.recv(65536).decode().splitlines():
                self.stopping_ns = time.monotonic_ns()
