/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SYMBOLS_BELOW_H
#define ALLOCSNAP_SYMBOLS_BELOW_H

#include "symbols/symbols.h"

/* symbols__new() with another directory for debug files than /usr/lib/debug, for tests. */
struct symbols *symbols__new_below(const char *debug_root);

#endif
