# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A callback plugin of ansible that keeps a line of each result."""
from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
    name: ansible_keeps
    type: notification
    short_description: keeps a line of each result
    description: keeps a line of each result
"""
KEPT = []


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "ansible_keeps"

    def v2_runner_item_on_ok(self, result):
        KEPT.append(["%s, line %d" % (result._task, number) for number in range(500)])  # planted
