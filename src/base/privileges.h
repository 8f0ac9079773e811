/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_PRIVILEGES_H
#define ALLOCSNAP_BASE_PRIVILEGES_H

/*
 * Capabilities (capabilities(7)) as sets: bit N is capability N of linux/capability.h. They belong
 * to a thread: here to the calling one, and to the threads and processes that it starts afterwards.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/reason.h"

#define CAPABILITY(number) (UINT64_C(1) << (number))

/* The effective capabilities; none if they cannot be read. */
uint64_t capabilities_held(void);

/*
 * Removes capabilities from the effective set only, so that the caller can try something without
 * them. capabilities_restore() takes *ret_before to undo this. 0 or a negative errno.
 */
int capabilities_lower(uint64_t lowered, uint64_t *ret_before);
int capabilities_restore(uint64_t before);

/*
 * Gives up all capabilities except these, for good, in all five sets; executed programs do not
 * regain any (no_new_privs). Changing the bounding set needs CAP_SETPCAP; without it, no_new_privs
 * has to suffice. 0 or a negative errno.
 */
int capabilities_keep(uint64_t kept);

/*
 * The capabilities that recording needs, for what and how long, and a function to give up all
 * others. They are needed by this process. The process that reads files has none. The process that
 * keeps the probes has only those to hold writers of a probed file. docs/security.md says how this
 * was determined.
 */

enum privilege_term {
	PRIVILEGE_TO_LOAD,   /* until everything is loaded */
	PRIVILEGE_TO_RECORD, /* as long as new processes and files may appear */
	PRIVILEGE_OF_LINK_HOLDER, /* as long as it records, but only in the process that keeps the probes: this one, if they are perf events */
	PRIVILEGE_OF_EVENTS, /* as PRIVILEGE_TO_RECORD, but only if probes are perf events */
};

struct privilege {
	int number;	  /* number in linux/capability.h */
	const char *name; /* "CAP_BPF" */
	enum privilege_term term;
	bool is_optional; /* recording works without it, but not for everything or not as well */
	const char *without; /* the effect of not having it */
};

extern const struct privilege privilege_rows[];
extern const size_t privileges_nr;

/* The set (base/privileges.h) that is still needed after everything is loaded. */
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
 * The user who ran sudo, by SUDO_UID and SUDO_GID. False if this process is not root, if a variable is missing
 * or no id, or if that user is root.
 */
bool sudo_user_find(uid_t *ret_uid, gid_t *ret_gid);

/* Whether /dev, /proc and /sys are mounted. 0, or a negative errno with a line in *why that names what is missing. */
int mounts_check(struct reason *why);

#endif
