#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs statements in libchdb, ClickHouse's engine without a server: chdb_process.py LIBRARY FOLDER

One JSON string a line on stdin; for each a line {"rows": tab-separated text} or {"error": text} on stdout.
"""
import ctypes
import json
import os
import sys

QUERY = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p


def load(path):
    library = ctypes.CDLL(path)
    library.chdb_connect.restype = ctypes.POINTER(ctypes.c_void_p)
    library.chdb_query.argtypes, library.chdb_query.restype = QUERY, ctypes.c_void_p
    for name, kind in ("error", ctypes.c_char_p), ("buffer", ctypes.c_void_p), ("length", ctypes.c_size_t):
        function = getattr(library, f"chdb_result_{name}")
        function.argtypes, function.restype = [ctypes.c_void_p], kind
    library.chdb_destroy_query_result.argtypes = [ctypes.c_void_p]
    return library


def main():
    library = load(sys.argv[1])
    words = [b"clickhouse", f"--path={sys.argv[2]}".encode()]
    connection = library.chdb_connect(len(words), (ctypes.c_char_p * len(words))(*words))
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        result = library.chdb_query(connection[0], json.loads(line).encode(), b"TabSeparated")
        error, length = library.chdb_result_error(result), library.chdb_result_length(result)
        text = ctypes.string_at(library.chdb_result_buffer(result), length).decode() if length else ""
        library.chdb_destroy_query_result(result)
        print(json.dumps({"error": error.decode(errors="replace")} if error else {"rows": text}), file=answers, flush=True)
    answers.close()
    os._exit(0)


if __name__ == "__main__":
    main()
