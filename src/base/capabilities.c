// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/capabilities.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

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
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); /* unchecked: without inheritable ones there are none */
	err = set_capabilities(&sets);
	if (!err && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		err = -errno;
	return err;
}
