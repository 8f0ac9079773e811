/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SERVICE_PRIVILEGES_H
#define ALLOCSNAP_SERVICE_PRIVILEGES_H

/*
 * The capabilities that recording needs, for what and how long, and a function to give up all
 * others. They are needed by this process. The process that reads files has none. The process that
 * keeps the probes has only those to hold writers of a probed file. docs/security.md says how this
 * was determined.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/reason.h"

enum privilege_term {
	PRIVILEGE_TO_LOAD,   /* until everything is loaded */
	PRIVILEGE_TO_RECORD, /* as long as new processes and files may appear */
	PRIVILEGE_OF_KEEPER, /* as long as it records, but only in the process that keeps the probes */
	PRIVILEGE_OF_EVENTS, /* as PRIVILEGE_TO_RECORD, but only if probes are perf events */
};

struct privilege {
	int number;	  /* number in linux/capability.h */
	const char *name; /* "CAP_BPF" */
	enum privilege_term term;
	bool is_optional; /* recording works without it, but not for everything or not as well */
	const char *without; /* the effect of not having it */
};

extern const struct privilege privileges[];
extern const size_t privileges_nr;

/* The set (base/capabilities.h) that is still needed after everything is loaded. */
uint64_t privileges__needed(bool has_events);

/*
 * CAP_DAC_OVERRIDE if nothing could be written into the existing folder without it. 0: its
 * permissions suffice.
 */
uint64_t privileges__to_write(const char *folder);

/*
 * Gives up all capabilities except these, for good, including those that an executed program could
 * regain: for this thread and for those that it starts from now on. A negative errno with a line in
 * *why.
 */
int privileges__drop(uint64_t kept, struct reason *why);

/*
 * "CAP_BPF, CAP_SYS_PTRACE": the names of a set's capabilities, and the number of those without a
 * name here. Returns text.
 */
const char *privileges__text(char *text, size_t room, uint64_t set);

#endif
