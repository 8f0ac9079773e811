// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/session/oom.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <unistd.h>

#include "base/array.h"
#include "collect/session/session.h"

/* The memory cgroups in which the OOM killer has chosen a process. */
struct groups {
	uint64_t group[OOM_KILLS];
	size_t nr;
};

static bool has_group(const struct groups *groups, uint64_t group)
{
	for (size_t i = 0; i < groups->nr; i++)
		if (groups->group[i] == group)
			return true;
	return false;
}

static void mark_near_oom(struct targets *targets, pid_t pid)
{
	struct target *target = find_target(targets, pid);

	if (target)
		target->snapshots.is_near_oom = true;
}

static void mark_all_near_oom(struct targets *targets)
{
	for (size_t i = 0; i < targets->target_nr; i++)
		targets->target[i]->snapshots.is_near_oom = true;
}

static void mark_members(struct targets *targets, const struct groups *groups, const struct oom_kill *member, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		if (has_group(groups, member[i].group))
			mark_near_oom(targets, member[i].tgid);
}

/*
 * Marks the members of the groups. Each read() returns whole entries, because the kernel's buffer holds whole
 * entries. 0 or a negative errno.
 */
static int read_group_members(struct targets *targets, const struct groups *groups, int fd)
{
	struct oom_kill member[256];
	ssize_t got;

	while ((got = read(fd, member, sizeof(member))) > 0 || (got < 0 && errno == EINTR))
		if (got > 0)
			mark_members(targets, groups, member, got / sizeof(*member));
	return got < 0 ? -errno : 0;
}

static int mark_groups(struct allocsnap_bpf *bpf, struct targets *targets, const struct groups *groups)
{
	struct bpf_link *link = bpf_program__attach_iter(bpf->progs.memory_groups, NULL);
	int fd, err;

	if (!link)
		return -errno;
	fd = bpf_iter_create(bpf_link__fd(link));
	err = fd < 0 ? fd : read_group_members(targets, groups, fd);
	if (fd >= 0)
		close(fd);
	bpf_link__destroy(link);
	return err;
}

void handle_oom_kills(struct allocsnap_bpf *bpf, struct event_sources *events, struct targets *targets)
{
	const struct oom_kill *kills = bpf->bss->oom_kills;
	uint64_t cnt = __atomic_load_n(&bpf->bss->oom_kill_cnt, __ATOMIC_ACQUIRE);
	uint64_t seen = events->oom_kill_cnt;
	struct groups groups = {};

	if (cnt == seen)
		return;
	events->oom_kill_cnt = cnt;
	if (cnt - seen > OOM_KILLS) {
		mark_all_near_oom(targets);
		return;
	}
	for (; seen < cnt; seen++) {
		const struct oom_kill *kill = &kills[seen % OOM_KILLS];

		mark_near_oom(targets, kill->tgid);
		if (!has_group(&groups, kill->group))
			groups.group[groups.nr++] = kill->group;
	}
	if (mark_groups(bpf, targets, &groups))
		mark_all_near_oom(targets);
}
