// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* truth, with an allocator of its own above the C library's. */
#include "shim.so.c"
#include "truth.c"
