// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Which processes a system-wide recording admits: patterns, paths, and how rules go together. */
#include "target.h"
#include <bpf/bpf_helpers.h>
#include <fnmatch.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

int admissible_processes(struct bpf_iter__task *ctx);

extern volatile struct rules rules; /* see bpf_process.c */
extern __u64 own_tgid, own_root, own_root_mount, own_cgroup_root;

/* ---- a process in a file system and a control group ---- */

#define DEPTH 40

static struct cred cred;
static struct vfsmount *mount_of_exe;
static struct mount root_mount, inner_mount;
static struct file exe;
static struct dentry dentries[DEPTH];
static struct kernfs_node nodes[DEPTH];
static struct cgroup group;
static struct css_set groups;

static struct task_struct *someone(void)
{
	static struct mm_struct mm;
	static struct task_struct task;

	task.pid = task.tgid = 300;
	task.mm = &mm;
	task.cred = &cred;
	task.cgroups = &groups;
	groups.dfl_cgrp = &group;
	mm.exe_file = &exe;
	return &task;
}

static void add_rule(enum rule_key key, bool excludes, const char *pattern, __u64 number)
{
	volatile struct rule *rule = &rules.rule[rules.nr++];

	rule->key = key;
	rule->excludes = excludes;
	rule->number = number;
	rules.has_texts |= 1 << key;
	rules.has_pids |= key == RULE_PID;
	for (size_t i = 0; i <= strlen(pattern); i++)
		rule->pattern[i] = pattern[i];
}

static void forget_rules(void)
{
	rules.nr = rules.has_texts = rules.has_pids = 0;
	rules.everyone = 1;
}

static bool is_admitted(struct task_struct *task)
{
	struct bpf_iter_meta meta = {};
	struct bpf_iter__task ctx = { &meta, task };

	fake.seq_bytes = 0;
	admissible_processes(&ctx);
	return fake.seq_bytes == sizeof(struct admissible_process) &&
	       ((struct admissible_process *)fake.seq)->tgid == (__u32)task->tgid;
}

/* Parts from the root on, each below the one before it. */
static void exe_is(const char *const *part, int nr)
{
	memset(dentries, 0, sizeof(dentries));
	root_mount = (struct mount){ .mnt_parent = &root_mount, .mnt.mnt_root = &dentries[0] };
	dentries[0].d_parent = &dentries[0];
	for (int i = 1; i <= nr; i++) {
		dentries[i].d_parent = &dentries[i - 1];
		dentries[i].d_name.name = (const unsigned char *)part[i - 1];
	}
	mount_of_exe = &root_mount.mnt;
	exe.f_path.mnt = mount_of_exe;
	exe.f_path.dentry = &dentries[nr];
}

#define exe_path(...) \
	exe_is((const char *const[]){ __VA_ARGS__ }, sizeof((const char *const[]){ __VA_ARGS__ }) / 8)

static void group_is(const char *const *part, int nr)
{
	memset(nodes, 0, sizeof(nodes));
	for (int i = 1; i <= nr; i++) {
		/* The newest kernel's name of the field is that of another struct: the same place. */
		nodes[i].parent = &nodes[i - 1];
		nodes[i].name = part[i - 1];
	}
	group.kn = &nodes[nr];
}

#define group_path(...) \
	group_is((const char *const[]){ __VA_ARGS__ }, sizeof((const char *const[]){ __VA_ARGS__ }) / 8)

static bool exe_fits(const char *pattern)
{
	forget_rules();
	add_rule(RULE_EXE, false, pattern, 0);
	return is_admitted(someone());
}

static bool group_fits(const char *pattern)
{
	forget_rules();
	add_rule(RULE_CGROUP, false, pattern, 0);
	return is_admitted(someone());
}

static bool comm_fits(const char *pattern, const char *comm)
{
	struct task_struct *task = someone();

	forget_rules();
	add_rule(RULE_COMM, false, pattern, 0);
	strncpy(task->comm, comm, sizeof(task->comm) - 1);
	return is_admitted(task);
}

/* ---- patterns ---- */

BOOK_TEST(rules, match_patterns)
{
	static const struct {
		const char *pattern, *text;
		bool fits;
	} rows[] = {
		{ "a", "a", true },	    { "a", "b", false },	{ "a", "aa", false },
		{ "aa", "a", false },	    { "*", "", true },		{ "*", "a", true },
		{ "?", "", false },	    { "?", "a", true },		{ "?", "ab", false },
		{ "a*", "a", true },	    { "a*", "ab", true },	{ "a*", "ba", false },
		{ "*a", "ba", true },	    { "*a", "ab", false },	{ "a*b*c", "axbxc", true },
		{ "a*b*c", "axbx", false }, { "**", "ab", true },	{ "*ab", "aab", true },
		{ "*aab", "aaab", true },   { "*a?b", "aaxaxb", true }, { "a**b", "ab", true },
		{ "*b*", "aaa", false },    { "?*?", "a", false },	{ "?*?", "ab", true },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		cr_expect_eq(comm_fits(rows[i].pattern, rows[i].text), rows[i].fits, "%s %s",
			     rows[i].pattern, rows[i].text);
}

static void random_text(char *text, size_t most, const char *bytes)
{
	size_t len = bpf_get_prandom_u32() % most;

	for (size_t i = 0; i < len; i++)
		text[i] = bytes[bpf_get_prandom_u32() % strlen(bytes)];
	text[len] = '\0';
}

BOOK_TEST(rules, match_patterns_like_fnmatch)
{
	for (int i = 0; i < 20000; i++) {
		char pattern[10], text[12];

		random_text(pattern + 1, 9, "ab*?");
		pattern[0] = "ab*?"[i % 4];
		random_text(text, 12, "ab");
		cr_assert_eq(comm_fits(pattern, text), !fnmatch(pattern, text, 0), "%s %s", pattern, text);
	}
}

/* ---- paths ---- */

BOOK_TEST(rules, match_the_whole_path)
{
	exe_path("usr", "bin", "redis-server");
	cr_expect(exe_fits("/usr/bin/redis-server"));
	cr_expect(exe_fits("/usr/*"));
	cr_expect(exe_fits("*redis*"));
	cr_expect(!exe_fits("redis-server"));
	cr_expect(!exe_fits("/usr/bin/redis"));
}

BOOK_TEST(rules, match_paths_across_mounts)
{
	exe_path("srv", "shop", "bin", "shopd");
	inner_mount = (struct mount){
		.mnt_parent = &root_mount, .mnt_mountpoint = &dentries[2], .mnt.mnt_root = &dentries[20],
	};
	dentries[20].d_parent = &dentries[20];
	dentries[21] = (struct dentry){ &dentries[20], { (const unsigned char *)"shopd" } };
	exe.f_path = (struct path){ &inner_mount.mnt, &dentries[21] };
	cr_expect(exe_fits("/srv/shop/shopd"));
}

BOOK_TEST(rules, match_paths_below_the_loaders_root)
{
	exe_path("jail", "usr", "bin", "x");
	own_root = (uintptr_t)&dentries[1];
	own_root_mount = (uintptr_t)&root_mount.mnt;
	cr_expect(exe_fits("/usr/bin/x"));
	cr_expect(!exe_fits("/jail/*"));
}

BOOK_TEST(rules, do_not_match_a_path_that_is_too_long)
{
	static char name[255];
	const char *part[6];

	memset(name, 'a', sizeof(name) - 1);
	for (int i = 0; i < 6; i++)
		part[i] = name;
	exe_is(part, 3);
	cr_expect(exe_fits("/aaa*"));
	exe_is(part, 6);
	cr_expect(!exe_fits("*"));
}

BOOK_TEST(rules, match_the_root_path_when_there_is_no_program_file)
{
	exe = (struct file){};
	cr_expect(exe_fits("/"));
}

BOOK_TEST(rules, match_the_control_group)
{
	group_path("system.slice", "shop@1.service");
	cr_expect(group_fits("/system.slice/shop@*"));
	cr_expect(!group_fits("/system.slice"));
	own_cgroup_root = (uintptr_t)&nodes[1];
	cr_expect(group_fits("/shop@1.service"));
	group_path();
	own_cgroup_root = 0;
	cr_expect(group_fits("/"));
}

/* ---- together ---- */

static bool fits(void)
{
	struct task_struct *task = someone();

	strcpy(task->comm, "shopd");
	cred.euid.val = 7;
	return is_admitted(task);
}

BOOK_TEST(rules, admit_every_process_when_there_are_none)
{
	forget_rules();
	cr_expect(fits());
}

BOOK_TEST(rules, admit_a_process_that_matches_one_rule_of_a_kind)
{
	forget_rules();
	add_rule(RULE_COMM, false, "x", 0);
	cr_expect(!fits());
	add_rule(RULE_COMM, false, "shop?", 0);
	cr_expect(fits());
}

BOOK_TEST(rules, admit_only_a_process_that_matches_one_rule_of_each_kind)
{
	forget_rules();
	add_rule(RULE_COMM, false, "shopd", 0);
	add_rule(RULE_UID, false, "", 8);
	cr_expect(!fits());
	add_rule(RULE_UID, false, "", 7);
	cr_expect(fits());
}

BOOK_TEST(rules, that_exclude_override_rules_that_admit)
{
	forget_rules();
	add_rule(RULE_PID, false, "", 300);
	cr_expect(fits());
	add_rule(RULE_UID, true, "", 7);
	cr_expect(!fits());
}

BOOK_TEST(rules, that_only_exclude_admit_the_other_processes)
{
	forget_rules();
	add_rule(RULE_COMM, true, "x*", 0);
	cr_expect(fits());
	add_rule(RULE_PID, true, "", 300);
	cr_expect(!fits());
}

BOOK_TEST(rules, never_admit_the_loader_and_its_children)
{
	struct task_struct *task = someone(), parent = { .tgid = 77 }, grandparent = { .tgid = 88 };

	forget_rules();
	task->real_parent = &parent;
	parent.real_parent = &grandparent;
	cr_expect(is_admitted(task));
	own_tgid = 88;
	cr_expect(!is_admitted(task));
	own_tgid = 300;
	cr_expect(!is_admitted(task));
	task->real_parent = NULL;
}

BOOK_TEST(rules, never_admit_kernel_threads)
{
	struct task_struct *task = someone();

	forget_rules();
	task->mm = NULL;
	cr_expect(!is_admitted(task));
}

BOOK_TEST(rules, are_not_checked_for_a_process_that_has_an_accounting)
{
	forget_rules();
	main_thread->task.real_parent = NULL;
	cr_expect(!is_admitted(&main_thread->task));
}
