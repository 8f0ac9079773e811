# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Our side: the program's command line, through the fork server or as the program itself."""
import collections
import os
import struct
import subprocess

ALLOCSNAP = os.environ.get("ALLOCSNAP", "./allocsnap")
SERVER = os.environ.get("ORACLE", ".output/oracle-serve")

Answer = collections.namedtuple("Answer", "status out err")


class Unanswered(Exception):
    """The program failed where CPython answers."""


class Program:
    """`allocsnap` as users start it."""

    def __init__(self, path=ALLOCSNAP):
        self.path = path

    def ask(self, words, stdin=b""):
        assert words[0] == "allocsnap", words
        done = subprocess.run([self.path, *words[1:]], input=stdin, capture_output=True,
                              timeout=600, check=False)
        return Answer(done.returncode, done.stdout, done.stderr)

    def close(self):
        pass


class Server:
    """tests/oracle/serve.c: the same answers, a hundred times faster."""

    def __init__(self, path=SERVER):
        self.popen = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, words):
        request = b"".join(word.encode() + b"\0" for word in words)
        self.popen.stdin.write(struct.pack("=I", len(request)) + request)
        self.popen.stdin.flush()
        status, out_len, err_len, _ = struct.unpack("=4I", self._read(16))
        return Answer(status, self._read(out_len), self._read(err_len))

    def _read(self, length):
        text = self.popen.stdout.read(length)
        if len(text) != length:
            raise RuntimeError("the server has ended")
        return text

    def close(self):
        self.popen.stdin.close()
        self.popen.wait()
        self.popen.stdout.close()
