// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/privileges.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/capabilities.h"

const struct privilege privileges[] = {
	{ CAP_BPF, "CAP_BPF", PRIVILEGE_TO_RECORD, false, "no BPF programs or maps" },
	{ CAP_PERFMON, "CAP_PERFMON", PRIVILEGE_TO_LOAD, false,
	  "no programs that read memory, no news of mappings" },
	{ CAP_SYS_PTRACE, "CAP_SYS_PTRACE", PRIVILEGE_TO_RECORD, true,
	  "the mappings of other processes cannot be read" },
	{ CAP_CHECKPOINT_RESTORE, "CAP_CHECKPOINT_RESTORE", PRIVILEGE_TO_RECORD, false,
	  "mapped files cannot be opened (/proc/PID/map_files)" },
	{ CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH", PRIVILEGE_TO_RECORD, true,
	  "processes of other users cannot be recorded, and files that only their owners may read stay unread" },
	{ CAP_LEASE, "CAP_LEASE", PRIVILEGE_OF_KEEPER, true,
	  "a process that writes to a probed file of another user does not wait until the probes are gone" },
	{ CAP_SYS_ADMIN, "CAP_SYS_ADMIN", PRIVILEGE_OF_EVENTS, false, "no perf uprobes" },
	{ CAP_SYS_NICE, "CAP_SYS_NICE", PRIVILEGE_OF_EVENTS, true,
	  "on a busy machine probes are removed later" },
	{ CAP_SETUID, "CAP_SETUID", PRIVILEGE_TO_LOAD, true,
	  "the process that reads files keeps its user, without capabilities" },
	{ CAP_SETGID, "CAP_SETGID", PRIVILEGE_TO_LOAD, true,
	  "the process that reads files keeps its groups, without capabilities" },
};

const size_t privileges_nr = ARRAY_SIZE(privileges);

uint64_t privileges__needed(bool has_events)
{
	uint64_t needed = 0;

	for (size_t i = 0; i < privileges_nr; i++)
		if (privileges[i].term == PRIVILEGE_TO_RECORD ||
		    (privileges[i].term == PRIVILEGE_OF_EVENTS && has_events))
			needed |= CAPABILITY(privileges[i].number);
	return needed;
}

uint64_t privileges__to_write(const char *folder)
{
	const uint64_t override = CAPABILITY(CAP_DAC_OVERRIDE);
	uint64_t before;
	bool may;

	if (capabilities_lower(override, &before))
		return override;
	may = !faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS);
	capabilities_restore(before);
	return may ? 0 : override;
}

int privileges__drop(uint64_t kept, struct reason *why)
{
	int err = capabilities_keep(kept);

	if (!err)
		return 0;
	return reason_set(why, err, "cannot give up privileges: %s", strerror(-err));
}

const char *privileges__text(char *text, size_t room, uint64_t set)
{
	size_t len = 0;

	snprintf(text, room, "none");
	for (size_t i = 0; i < privileges_nr; i++) {
		if (!(set & CAPABILITY(privileges[i].number)) || len >= room)
			continue;
		len += snprintf(text + len, room - len, "%s%s", len ? ", " : "", privileges[i].name);
		set &= ~CAPABILITY(privileges[i].number);
	}
	if (set && len < room)
		snprintf(text + len, room - len, "%s%d more", len ? ", " : "",
			 __builtin_popcountll(set));
	return text;
}
