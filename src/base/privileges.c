// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/privileges.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/array.h"
#include "base/units.h"

struct sets {
	uint64_t effective, permitted, inheritable;
};

static struct __user_cap_header_struct own_header(void)
{
	return (struct __user_cap_header_struct){ .version = _LINUX_CAPABILITY_VERSION_3 };
}

static uint64_t joined(uint32_t low, uint32_t high)
{
	return low | (uint64_t)high << 32;
}

static int get(struct sets *ret)
{
	struct __user_cap_header_struct header = own_header();
	struct __user_cap_data_struct half[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &header, half))
		return -errno;
	*ret = (struct sets){
		.effective = joined(half[0].effective, half[1].effective),
		.permitted = joined(half[0].permitted, half[1].permitted),
		.inheritable = joined(half[0].inheritable, half[1].inheritable),
	};
	return 0;
}

static int set_capabilities(const struct sets *sets)
{
	struct __user_cap_header_struct header = own_header();
	const struct __user_cap_data_struct half[_LINUX_CAPABILITY_U32S_3] = {
		{ sets->effective, sets->permitted, sets->inheritable },
		{ sets->effective >> 32, sets->permitted >> 32, sets->inheritable >> 32 },
	};

	return syscall(SYS_capset, &header, half) ? -errno : 0;
}

static int set_effective(uint64_t effective)
{
	struct sets sets;
	int err = get(&sets);

	sets.effective = effective;
	return err ?: set_capabilities(&sets);
}

uint64_t capabilities_held(void)
{
	struct sets sets = {};

	get(&sets);
	return sets.effective;
}

int capabilities_lower(uint64_t lowered, uint64_t *ret_before)
{
	uint64_t before = capabilities_held();
	int err = set_effective(before & ~lowered);

	if (!err)
		*ret_before = before;
	return err;
}

int capabilities_restore(uint64_t before)
{
	return set_effective(before);
}

/* PR_CAPBSET_READ fails after the kernel's last capability. */
static int bound(uint64_t kept)
{
	for (int i = 0; i < 64; i++) {
		int is_there = prctl(PR_CAPBSET_READ, i, 0, 0, 0);

		if (is_there < 0)
			break;
		if (is_there && !(kept & CAPABILITY(i)) && prctl(PR_CAPBSET_DROP, i, 0, 0, 0))
			return errno == EPERM ? 0 : -errno;
	}
	return 0;
}

int capabilities_keep(uint64_t kept)
{
	struct sets sets;
	int err = get(&sets) ?: bound(kept);

	if (err)
		return err;
	sets.effective &= kept;
	sets.permitted &= kept;
	sets.inheritable = 0;
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); /* unchecked: only inheritable ones can be ambient */
	err = set_capabilities(&sets);
	if (!err && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		err = -errno;
	return err;
}

const struct privilege privilege_rows[] = {
	{ CAP_BPF, "CAP_BPF", PRIVILEGE_TO_RECORD, false, "no BPF programs or maps" },
	{ CAP_PERFMON, "CAP_PERFMON", PRIVILEGE_TO_LOAD, false,
	  "no programs that read memory, no news of mappings" },
	{ CAP_SYS_PTRACE, "CAP_SYS_PTRACE", PRIVILEGE_TO_RECORD, true,
	  "the mappings of other processes cannot be read" },
	{ CAP_CHECKPOINT_RESTORE, "CAP_CHECKPOINT_RESTORE", PRIVILEGE_TO_RECORD, false,
	  "mapped files cannot be opened (/proc/PID/map_files)" },
	{ CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH", PRIVILEGE_TO_RECORD, true,
	  "processes of other users cannot be recorded, and files that only their owners may read stay unread" },
	{ CAP_LEASE, "CAP_LEASE", PRIVILEGE_OF_LINK_HOLDER, true,
	  "a process that writes to a probed file of another user does not wait until the probes are gone" },
	{ CAP_SYS_ADMIN, "CAP_SYS_ADMIN", PRIVILEGE_OF_EVENTS, false, "no perf uprobes" },
	{ CAP_SYS_NICE, "CAP_SYS_NICE", PRIVILEGE_OF_EVENTS, true,
	  "on a busy machine probes are removed later" },
	{ CAP_SETUID, "CAP_SETUID", PRIVILEGE_TO_LOAD, true,
	  "the process that reads files keeps its user, without capabilities" },
	{ CAP_SETGID, "CAP_SETGID", PRIVILEGE_TO_LOAD, true,
	  "the process that reads files keeps its groups, without capabilities" },
};

const size_t privileges_nr = ARRAY_SIZE(privilege_rows);

uint64_t privileges__needed(bool has_events)
{
	uint64_t needed = 0;

	for (size_t i = 0; i < privileges_nr; i++)
		if (privilege_rows[i].term == PRIVILEGE_TO_RECORD ||
		    (has_events && privilege_rows[i].term != PRIVILEGE_TO_LOAD))
			needed |= CAPABILITY(privilege_rows[i].number);
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

/* (uid_t)-1 is no user: chown() takes it for "do not change". */
static bool parse_sudo_id(const char *name, uint64_t *ret_id)
{
	const char *text = getenv(name);

	return text && !parse_count(text, 0, UINT32_MAX - 1, ret_id);
}

bool sudo_user_find(uid_t *ret_uid, gid_t *ret_gid)
{
	uint64_t uid, gid;

	if (geteuid() || !parse_sudo_id("SUDO_UID", &uid) || !parse_sudo_id("SUDO_GID", &gid) || !uid)
		return false;
	*ret_uid = uid;
	*ret_gid = gid;
	return true;
}

static const struct {
	const char *path, *mount;
	int mode;
} needed[] = {
	{ "/dev/null", "/dev", R_OK | W_OK },
	{ "/proc/self/stat", "/proc", R_OK },
	{ "/sys/devices/system", "/sys", R_OK },
};

int mounts_check(struct reason *why)
{
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++)
		if (access(needed[i].path, needed[i].mode))
			return reason_set(why, -errno, "%s: %s; allocsnap needs the machine's %s, in a container, too",
					  needed[i].path, strerror(errno), needed[i].mount);
	return 0;
}
