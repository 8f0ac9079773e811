/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RULES_BPF_H
#define ALLOCSNAP_RULES_BPF_H

/*
 * Decides which processes a system-wide recording admits. Exec, fork and the loader's walk over existing processes all
 * use this code, so they cannot differ. The rules test the name and the path of the program, as /proc shows them to the
 * loader, the control group by its path from the root of the hierarchy, and the effective user and the PID.
 */

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include "shared/bpf_types.h"
#include "maps.bpf.h"
#include "shared/filter_types.h"

extern const volatile struct settings settings;

/*
 * The index in user_slots for the user of a process. This is the real user: slots of a set-uid program count for its
 * caller. Two users may share an index, but no program can choose which users share one.
 */
static __always_inline __u32 user_of(struct task_struct *task)
{
	__u32 uid = BPF_CORE_READ(task, cred, uid.val);

	return USER_HASH(uid, settings.hash_seed);
}

extern const volatile struct rules rules;

/* The loader's own TGID, because it never records itself, and the roots of the paths that it sees. */
extern __u64 own_tgid;
extern __u64 own_root, own_root_mount; /* struct dentry, struct vfsmount */

#define TEXT_BYTES GROUP_PATH_BYTES /* a power of two; a longer path is cut at its start, and no rule holds for it */
#define NAME_BYTES 256	/* one part of a path */
#define TEXT_KEYS 4	/* RULE_COMM, RULE_EXE, RULE_CGROUP; a power of two */

/* The place of a decision. Decisions in different places may run on one CPU at the same time. */
enum admission_place {
	ADMISSION_AT_EXEC = 0,
	ADMISSION_AT_FORK,
	ADMISSION_BY_LOADER,
	ADMISSION_PLACES,
};

/* Scratch memory of one decision. */
struct admission {
	char text[TEXT_KEYS][TEXT_BYTES + NAME_BYTES]; /* each ends at TEXT_BYTES - 1 */
	__u32 start[TEXT_KEYS];
	char name[NAME_BYTES];
	__u64 uid, pid;

	/* State of a walk towards a root. */
	__u64 node, mount; /* struct dentry and struct vfsmount, or struct kernfs_node */
	__u32 walk_key;
	__u32 is_too_long;

	/* State of a comparison of a pattern with a text. */
	__u32 rule, key;
	__u32 at, pattern_at;
	__u32 star_at, after_star; /* start of the text of the last *, and the pattern after that *; 0: none */
	__u32 matches;
};

BPF_MAP(admissions, PERCPU_ARRAY, 0, ADMISSION_PLACES, __u32, struct admission);

/* ---- patterns ---- */

#define GLOB_STEPS (TEXT_BYTES * RULE_PATTERN_MAX)

static __always_inline char pattern_byte(const struct admission *admission)
{
	return rules.rule[admission->rule & (RULES_MAX - 1)]
		.pattern[admission->pattern_at & (RULE_PATTERN_MAX - 1)];
}

/* Compares one byte. After a mismatch it goes back to the last * only. Returns 1 when the comparison is over. */
static long glob_step(__u32 i, void *data)
{
	struct admission *admission = *(struct admission **)data;
	char wanted = pattern_byte(admission);
	char found = admission->text[admission->key & (TEXT_KEYS - 1)]
				    [admission->at & (TEXT_BYTES - 1)];

	if (wanted == '*') {
		admission->after_star = ++admission->pattern_at;
		admission->star_at = admission->at;
		return 0;
	}
	if (!found) {
		admission->matches = !wanted;
		return 1;
	}
	if (wanted && (wanted == '?' || wanted == found)) {
		admission->at++;
		admission->pattern_at++;
		return 0;
	}
	if (!admission->after_star)
		return 1;
	admission->pattern_at = admission->after_star;
	admission->at = ++admission->star_at;
	return 0;
}

static __noinline bool glob_matches(struct admission *admission, __u32 rule, __u32 key)
{
	struct admission *data = admission;

	admission->rule = rule;
	admission->key = key;
	admission->at = admission->start[key & (TEXT_KEYS - 1)];
	admission->pattern_at = admission->after_star = admission->matches = 0;
	bpf_loop(GLOB_STEPS, glob_step, &data, 0);
	return admission->matches;
}

/* ---- paths ---- */

/* Puts "/name" in front of the text. Returns false if it does not fit. */
static __always_inline bool text_prepend(struct admission *admission, const void *name)
{
	__u32 key = admission->walk_key & (TEXT_KEYS - 1);
	long bytes = bpf_probe_read_kernel_str(admission->name, NAME_BYTES, name) - 1;
	__u32 at = admission->start[key];

	if (bytes < 0 || bytes >= NAME_BYTES || bytes + 1 > at) {
		admission->is_too_long |= 1 << key;
		return false;
	}
	at = (at - bytes) & (TEXT_BYTES - 1);
	bpf_probe_read_kernel(&admission->text[key][at], bytes & (NAME_BYTES - 1), admission->name);
	at = (at - 1) & (TEXT_BYTES - 1);
	admission->text[key][at] = '/';
	admission->start[key] = at;
	return true;
}

/* Steps from the root of a mount to its mount point. Returns 1 if the mount has no parent. */
static __always_inline long leave_mount(struct admission *admission)
{
	struct mount *mount = (void *)(admission->mount - bpf_core_field_offset(struct mount, mnt));
	struct mount *parent = BPF_CORE_READ(mount, mnt_parent);

	if (parent == mount || !parent)
		return 1;
	admission->node = (__u64)BPF_CORE_READ(mount, mnt_mountpoint);
	admission->mount = (__u64)parent + bpf_core_field_offset(struct mount, mnt);
	return 0;
}

/* Takes one step up, as d_path() of the kernel does. Returns 1 when the walk is over. */
static long path_step(__u32 i, void *data)
{
	struct admission *admission = *(struct admission **)data;
	struct vfsmount *mount = (void *)admission->mount;
	struct dentry *dentry = (void *)admission->node, *parent;

	if (admission->node == own_root && admission->mount == own_root_mount)
		return 1;
	if (dentry == BPF_CORE_READ(mount, mnt_root))
		return leave_mount(admission);
	parent = BPF_CORE_READ(dentry, d_parent);
	if (!parent || parent == dentry)
		return 1;
	admission->node = (__u64)parent;
	return !text_prepend(admission, BPF_CORE_READ(dentry, d_name.name));
}

static __always_inline struct kernfs_node *kernfs_parent(struct kernfs_node *node)
{
	struct kernfs_node___rcu *newer = (void *)node;

	if (bpf_core_field_exists(newer->__parent))
		return (void *)BPF_CORE_READ(newer, __parent);
	return BPF_CORE_READ(node, parent);
}

static long cgroup_step(__u32 i, void *data)
{
	struct admission *admission = *(struct admission **)data;
	struct kernfs_node *node = (void *)admission->node, *parent;

	parent = kernfs_parent(node);
	if (!parent)
		return 1;
	admission->node = (__u64)parent;
	return !text_prepend(admission, BPF_CORE_READ(node, name));
}

#define PATH_STEPS 512

static __always_inline void text_begin(struct admission *admission, __u32 key)
{
	admission->walk_key = key;
	admission->start[key] = TEXT_BYTES - 1;
	admission->text[key][TEXT_BYTES - 1] = '\0';
}

/* An empty path is the root. */
static __always_inline void text_end(struct admission *admission, __u32 key)
{
	if (admission->start[key] != TEXT_BYTES - 1)
		return;
	admission->text[key][TEXT_BYTES - 2] = '/';
	admission->start[key] = TEXT_BYTES - 2;
}

static __noinline int read_exe(struct admission *admission, struct task_struct *task)
{
	struct file *exe = BPF_CORE_READ(task, mm, exe_file);
	struct admission *data = admission;

	text_begin(admission, RULE_EXE);
	admission->node = (__u64)BPF_CORE_READ(exe, f_path.dentry);
	admission->mount = (__u64)BPF_CORE_READ(exe, f_path.mnt);
	if (admission->node && admission->mount)
		bpf_loop(PATH_STEPS, path_step, &data, 0);
	text_end(admission, RULE_EXE);
	return 0;
}

static __noinline int read_cgroup(struct admission *admission, struct kernfs_node *group)
{
	struct admission *data = admission;

	text_begin(admission, RULE_CGROUP);
	admission->node = (__u64)group;
	if (admission->node)
		bpf_loop(PATH_STEPS, cgroup_step, &data, 0);
	text_end(admission, RULE_CGROUP);
	return 0;
}

static __always_inline void read_comm(struct admission *admission, struct task_struct *task)
{
	admission->start[RULE_COMM] = 0;
	bpf_probe_read_kernel_str(admission->text[RULE_COMM], COMM_BYTES, task->comm);
}

/* ---- the decision ---- */

static __always_inline bool rule_holds(struct admission *admission, __u32 i)
{
	__u32 key = rules.rule[i].key;

	if (key == RULE_UID)
		return admission->uid == rules.rule[i].number;
	if (key == RULE_PID)
		return admission->pid == rules.rule[i].number;
	if (key >= TEXT_KEYS || admission->is_too_long & 1 << key)
		return false;
	return glob_matches(admission, i, key);
}

static __always_inline bool rules_hold(struct admission *admission)
{
	__u32 wanted = 0, found = 0;

	for (__u32 i = 0; i < RULES_MAX; i++) {
		__u32 key;

		if (i >= rules.nr)
			break;
		key = 1 << (rules.rule[i].key & 7);
		if (rules.rule[i].excludes) {
			if (rule_holds(admission, i))
				return false;
			continue;
		}
		wanted |= key;
		if (!(found & key) && rule_holds(admission, i))
			found |= key;
	}
	return wanted == found;
}

#define OWN_GENERATIONS 4 /* the worker that reads files is a grandchild */

static __always_inline bool is_own(struct task_struct *task)
{
	for (int i = 0; i < OWN_GENERATIONS && task; i++) {
		if ((__u64)task->tgid == own_tgid)
			return true;
		task = task->real_parent;
	}
	return false;
}

/* Whether the process that a thread belongs to is to be recorded. */
static __noinline bool is_admissible(struct task_struct *task, __u32 place)
{
	struct admission *admission;

	if (!task->mm || is_own(task))
		return false;
	if (!rules.nr)
		return true;
	admission = bpf_map_lookup_elem(&admissions, &place);
	if (!admission)
		return false;
	admission->is_too_long = 0;
	admission->uid = BPF_CORE_READ(task, cred, euid.val);
	admission->pid = task->tgid;
	read_comm(admission, task);
	if (rules.has_texts & 1 << RULE_EXE)
		read_exe(admission, task);
	if (rules.has_texts & 1 << RULE_CGROUP)
		read_cgroup(admission, BPF_CORE_READ(task, cgroups, dfl_cgrp, kn));
	return rules_hold(admission);
}

#endif
