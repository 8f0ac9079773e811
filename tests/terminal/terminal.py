# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A terminal that a test looks at and types into."""
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time


class Terminal:
    """A program on a pseudo-terminal of its own."""

    def __init__(self, argv, columns=80, rows=24, **options):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        env = {"PATH": os.environ["PATH"], "TERM": "xterm", "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}
        env.update(options.pop("env", {}))
        stdio = {"stdin": slave, "stdout": slave, "stderr": slave}
        stdio.update(options)

        def begin():
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell ignores it in what it runs beside itself

        self.popen = subprocess.Popen(argv, env=env, start_new_session=True, preexec_fn=begin, **stdio)
        os.close(slave)
        self.text = ""

    def type(self, text):
        os.write(self.master, text.encode())

    def read(self, until=lambda text: False, seconds=120):
        """All text so far, when until(text) is true, or the terminal is closed, or the program has ended."""
        deadline = time.monotonic() + seconds
        while not until(self.text):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not done after {seconds} s: {self.text[-500:]!r}")
            has_ended = self.popen.poll() is not None  # asked before the look for text: it writes no more after that
            if not select.select([self.master], [], [], 0 if has_ended else 0.02)[0]:
                if has_ended:
                    break
                continue
            try:
                more = os.read(self.master, 65536)
            except OSError:
                break
            if not more:
                break
            self.text += more.decode(errors="replace")
        return self.text

    def end(self, seconds=120):
        """The exit status, when the program has ended."""
        self.read(seconds=seconds)
        status = self.popen.wait(seconds)
        os.close(self.master)
        return status

    def kill(self):
        if self.popen.poll() is None:
            self.popen.kill()
            self.popen.wait()
            os.close(self.master)
