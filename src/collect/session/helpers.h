/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_HELPERS_H
#define ALLOCSNAP_COLLECT_HELPERS_H

/* Processes of our own that do what this one must not do, or what may hang. */

#include <stdbool.h>

#include "collect/probe/keeper.h"

struct parser;

struct helpers {
	struct parser *parser; /* reads ELF and DWARF without our privileges */
	struct keeper *keeper; /* NULL: the probes are perf events, which this process holds itself */
	bool is_blind; /* a helper has ended: the keeper (and the probes with it), the parser, or the opener */
};

#endif
