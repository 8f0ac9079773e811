/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_MOUNTS_H
#define ALLOCSNAP_BASE_MOUNTS_H

#include "base/reason.h"

/* Whether /dev, /proc and /sys are mounted. 0, or a negative errno with a line in *why that names what is missing. */
int mounts_check(struct reason *why);

#endif
