# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Ports of servers that take a number and no socket."""
import socket

RESERVED = []  # sockets that are bound and do not listen


def reserve_ports(number):
    """Ports of the loopback that are ours until this process ends. A server may bind them, as servers set SO_REUSEADDR.
    The kernel gives them to no connection and to no socket that asks for port 0, and other tests find them bound."""
    for _ in range(number):
        RESERVED.append(socket.socket())
        RESERVED[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        RESERVED[-1].bind(("127.0.0.1", 0))
    return [one.getsockname()[1] for one in RESERVED[-number:]]
