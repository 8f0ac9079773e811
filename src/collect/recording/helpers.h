/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_RECORDING_HELPERS_H
#define ALLOCSNAP_COLLECT_RECORDING_HELPERS_H

/* Processes of our own that do what this one must not do, or what may hang. */

#include <stdbool.h>

#include "collect/probe/link_holder.h"

struct file_opener;
struct parser;
struct reason;

struct helpers {
	struct parser *parser; /* reads ELF and DWARF without our privileges */
	struct link_holder *link_holder; /* NULL: the probes are perf events, which this process holds itself */
	struct file_opener *opener; /* opens files of file systems that may hang */
	bool has_lost_helper; /* a helper has ended: the keeper (and the probes with it), the parser, or the opener */
};

/* Forks. ejects: see link_holder__open(). 0 or a negative errno with a line in *why: what was started is the caller's to end. */
int helpers_open(struct helpers *helpers, bool ejects, struct reason *why);

/* 0, or -EPIPE with a line in *why: one without which no process can be recorded has ended. */
int helpers_check(const struct helpers *helpers, struct reason *why);

#endif
