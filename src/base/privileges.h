/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SERVICE_PRIVILEGES_H
#define ALLOCSNAP_SERVICE_PRIVILEGES_H

/*
 * Which capabilities recording takes, for what and how long, and giving up all others. Who they are
 * needed by is this process. The one that reads files has none, the one that keeps the probes only what it takes
 * to hold writers of a probed file.
 * docs/design.md says how this was found out.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/reason.h"

enum privilege_term {
	PRIVILEGE_TO_LOAD,   /* until all is loaded */
	PRIVILEGE_TO_RECORD, /* as long as processes and files come that were not there */
	PRIVILEGE_OF_KEEPER, /* as long as it records, but only in the process that keeps the probes */
	PRIVILEGE_OF_EVENTS, /* as PRIVILEGE_TO_RECORD, but only where probes are perf events */
};

struct privilege {
	int number;	  /* of linux/capability.h */
	const char *name; /* "CAP_BPF" */
	enum privilege_term term;
	bool is_optional; /* recording works without, not of all or not as well */
	const char *without; /* what there is not then */
};

extern const struct privilege privileges[];
extern const size_t privileges_nr;

/* The set (base/capabilities.h) that goes on to be needed when all is loaded. */
uint64_t privileges__needed(bool has_events);

/*
 * CAP_DAC_OVERRIDE where without it nothing could be written into the folder, which is there; 0:
 * its owner's permissions are ours and suffice.
 */
uint64_t privileges__to_write(const char *folder);

/*
 * Gives up all but these, for good, and what any program could get back by being executed: of this
 * thread and of those that it starts from now on. A negative errno with a line in *why.
 */
int privileges__drop(uint64_t kept, struct reason *why);

/* "CAP_BPF, CAP_SYS_PTRACE": those of a set that have a name here, and how many others. Returns text. */
const char *privileges__text(char *text, size_t room, uint64_t set);

#endif
