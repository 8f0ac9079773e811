# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""An application of WSGI: each visit is kept for ever, in the memory of the worker that answers."""
VISITS = []


def application(environ, start_response):
    VISITS.append(bytearray(4000))  # planted
    VISITS.append([f"{environ['PATH_INFO']} at visit {len(VISITS) + i}" for i in range(20)])  # planted
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"welcome\n"]
