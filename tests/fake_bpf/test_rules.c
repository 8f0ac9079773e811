// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <bpf/bpf_helpers.h>
#include <fnmatch.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "target.h"

/* Which processes a system-wide recording admits: patterns, paths, and how rules go together. */

int admissible_processes(struct bpf_iter__task *ctx);
int page_fault(struct bpf_perf_event_data *ctx);

extern volatile struct rules rules; /* see bpf_process.c */
extern __u64 own_tgid, own_root, own_root_mount;
extern char own_cgroups_root[GROUP_PATH_BYTES];
int note_own(void *ctx);

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
	rules.system_wide = 1;
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
		/* The newest kernel names the field as in another struct; its place is the same. */
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

ACCOUNT_TEST(rules, match_patterns)
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

ACCOUNT_TEST(rules, match_patterns_like_fnmatch)
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

ACCOUNT_TEST(rules, match_the_whole_path)
{
	exe_path("usr", "bin", "redis-server");
	cr_expect(exe_fits("/usr/bin/redis-server"));
	cr_expect(exe_fits("/usr/*"));
	cr_expect(exe_fits("*redis*"));
	cr_expect(!exe_fits("redis-server"));
	cr_expect(!exe_fits("/usr/bin/redis"));
}

ACCOUNT_TEST(rules, match_paths_across_mounts)
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

ACCOUNT_TEST(rules, match_paths_below_the_loaders_root)
{
	exe_path("jail", "usr", "bin", "x");
	own_root = (uintptr_t)&dentries[1];
	own_root_mount = (uintptr_t)&root_mount.mnt;
	cr_expect(exe_fits("/usr/bin/x"));
	cr_expect(!exe_fits("/jail/*"));
}

ACCOUNT_TEST(rules, do_not_match_a_path_that_is_too_long)
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

ACCOUNT_TEST(rules, match_the_root_path_when_there_is_no_program_file)
{
	exe = (struct file){};
	cr_expect(exe_fits("/"));
}

ACCOUNT_TEST(rules, match_the_control_group)
{
	group_path("system.slice", "shop@1.service");
	cr_expect(group_fits("/system.slice/shop@*"));
	cr_expect(!group_fits("/system.slice"));
	group_path();
	cr_expect(group_fits("/"));
}

/* Wherever the recorder is: rules see paths from the top, and the recorder knows where its own root is. */
ACCOUNT_TEST(rules, match_control_groups_from_the_top_in_a_namespace_too)
{
	static struct css_set recorders;
	static struct cgroup_namespace namespace = { .root_cset = &recorders };
	static struct nsproxy nsproxy = { .cgroup_ns = &namespace };
	static struct fs_struct fs;
	struct task_struct *task = fake.current = someone();

	task->nsproxy = &nsproxy;
	task->fs = &fs;
	recorders.dfl_cgrp = &group;
	group_path("kubepods", "pod1");
	note_own(NULL);
	own_tgid = 0;
	cr_expect_str_eq(own_cgroups_root, "/kubepods/pod1");
	cr_expect(group_fits("/kubepods/pod1"));
	group_path("kubepods", "pod2");
	cr_expect(group_fits("/kubepods/pod2"));
}

/* ---- together ---- */

static bool fits(void)
{
	struct task_struct *task = someone();

	strcpy(task->comm, "shopd");
	cred.euid.val = 7;
	return is_admitted(task);
}

ACCOUNT_TEST(rules, admit_every_process_when_there_are_none)
{
	forget_rules();
	cr_expect(fits());
}

ACCOUNT_TEST(rules, admit_a_process_that_matches_one_rule_of_a_kind)
{
	forget_rules();
	add_rule(RULE_COMM, false, "x", 0);
	cr_expect(!fits());
	add_rule(RULE_COMM, false, "shop?", 0);
	cr_expect(fits());
}

ACCOUNT_TEST(rules, admit_only_a_process_that_matches_one_rule_of_each_kind)
{
	forget_rules();
	add_rule(RULE_COMM, false, "shopd", 0);
	add_rule(RULE_UID, false, "", 8);
	cr_expect(!fits());
	add_rule(RULE_UID, false, "", 7);
	cr_expect(fits());
}

ACCOUNT_TEST(rules, that_exclude_override_rules_that_admit)
{
	forget_rules();
	add_rule(RULE_PID, false, "", 300);
	cr_expect(fits());
	add_rule(RULE_UID, true, "", 7);
	cr_expect(!fits());
}

ACCOUNT_TEST(rules, that_only_exclude_admit_the_other_processes)
{
	forget_rules();
	add_rule(RULE_COMM, true, "x*", 0);
	cr_expect(fits());
	add_rule(RULE_PID, true, "", 300);
	cr_expect(!fits());
}

ACCOUNT_TEST(rules, never_admit_the_loader_and_its_children)
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

ACCOUNT_TEST(rules, never_admit_kernel_threads)
{
	struct task_struct *task = someone();

	forget_rules();
	task->mm = NULL;
	cr_expect(!is_admitted(task));
}

ACCOUNT_TEST(rules, are_not_checked_for_a_process_that_has_an_accounting)
{
	forget_rules();
	main_thread->task.real_parent = NULL;
	cr_expect(!is_admitted(&main_thread->task));
}

/* System-wide recording: accounting that begins at an exec or a fork, and how it ends. */

extern volatile struct rules rules; /* see bpf_process.c */
extern __u32 slot_taken[PROCESSES_MAX];
extern struct process ended_small_sum;
extern __u64 ended_small, admissions_dropped, stale_blocks;

#define MIN_BYTES 100

/* Rule 0: of its name; rule 1, if any: of a PID that is not. */
static void admit_by_name(const char *comm, pid_t but)
{
	volatile struct rule *rule = rules.rule;

	rules.system_wide = 1;
	rules.min_bytes = MIN_BYTES;
	rules.by_ret = returns_are_probed();
	rules.nr = 1 + !!but;
	rules.has_pids = !!but;
	rule[0].key = RULE_COMM;
	for (size_t i = 0; i <= strlen(comm); i++)
		rule[0].pattern[i] = comm[i];
	rule[1].key = RULE_PID;
	rule[1].excludes = 1;
	rule[1].number = but;
}

static struct target_thread *newcomer(pid_t pid, const char *comm)
{
	struct target_thread *thread = thread_start(process_start(pid), pid);

	strcpy(thread->task.comm, comm);
	return thread;
}

static void exec_as(struct target_thread *thread, const char *comm)
{
	strcpy(thread->task.comm, comm);
	thread_exec(thread);
}

static struct process *slot_at(__u32 slot)
{
	return bpf_map_lookup_elem(&processes, &slot);
}

static __u32 slot_of(const struct target_thread *thread)
{
	return book_of(thread->process)->slot;
}

ACCOUNT_TEST(system_wide, an_admitted_process_is_recorded_from_its_exec)
{
	struct target_thread *thread = newcomer(200, "sh");

	admit_by_name("shopd", 0);
	thread_run(thread);
	user_malloc(8, 0x1000);
	cr_expect(!book_of(thread->process));
	thread->task.start_time = 5;
	exec_as(thread, "shopd");
	user_malloc(16, 0x1000);

	cr_expect(block_of(thread->process, 0x1000)->size == 16);
	expect_same(book_of(thread->process)->exec_cnt, 1, "exec_cnt");
	expect_same(book_of(thread->process)->forked_ns, 5, "events are looked for from its birth on");
	expect_same(book_of(thread->process)->parent, 0, "parent");
	cr_expect(book_of(thread->process)->admitted_ns > 5);
	cr_expect_eq(fake.rung_for, 200);
}

ACCOUNT_TEST(system_wide, a_process_that_is_not_admitted_has_no_accounting)
{
	struct target_thread *thread = newcomer(200, "sh");

	admit_by_name("shopd", 0);
	exec_as(thread, "bash");
	user_malloc(8, 0x1000);
	cr_expect(!book_of(thread->process));
	cr_expect_eq(block_cnt(), 0);
}

ACCOUNT_TEST(system_wide, an_exec_of_an_admitted_program_starts_a_new_accounting)
{
	struct target_thread *thread = newcomer(200, "sh");
	__u64 image;

	admit_by_name("shop*", 0);
	exec_as(thread, "shopd");
	image = book_of(thread->process)->image;
	user_malloc(8, 0x1000);
	exec_as(thread, "shop2");
	cr_expect(book_of(thread->process)->image > image);
	expect_same(book_of(thread->process)->exec_cnt, 2, "exec_cnt");
	cr_expect_eq(stale_blocks, 1);
}

ACCOUNT_TEST(system_wide, an_exec_of_a_program_that_is_not_admitted_ends_the_accounting)
{
	struct target_thread *thread = newcomer(200, "sh");
	struct process *account;

	admit_by_name("shopd", 0);
	exec_as(thread, "shopd");
	user_malloc(MIN_BYTES, 0x1000);
	account = book_of(thread->process);
	exec_as(thread, "bash");
	user_malloc(8, 0x2000);

	cr_expect(!book_of(thread->process));
	cr_expect(account->has_left && account->exit_ns && slot_taken[account->slot]);
	expect_same(account->counter[COUNTER_current_bytes], MIN_BYTES, "bytes at its end");
	cr_expect_eq(block_cnt(), 1);
	exec_as(thread, "shopd"); /* and comes back */
	cr_expect(book_of(thread->process) && book_of(thread->process) != account);
}

/* Until its exec the thread counted for its parent, and had cached where the parent's accounting is. */
ACCOUNT_TEST(system_wide, a_vforked_child_that_is_not_admitted_is_not_recorded)
{
	struct target_thread *parent = newcomer(200, "shopd"), *child;

	admit_by_name("shopd", 0);
	thread_exec(parent);
	child = thread_vfork(201);
	thread_run(child);
	user_malloc(8, 0x1000);
	exec_as(child, "sleep");
	user_malloc(16, 0x2000);

	expect_same(book_of(parent->process)->counter[COUNTER_allocations], 1, "the parent's");
	cr_expect_eq(block_cnt(), 1);
}

ACCOUNT_TEST(system_wide, a_child_is_admitted_when_its_parent_is_admitted)
{
	struct target_thread *parent = newcomer(200, "shopd"), *child;

	admit_by_name("shopd", 0);
	thread_exec(parent);
	child = thread_fork(201);
	cr_expect(book_of(child->process));
	expect_same(book_of(child->process)->parent, 200, "parent");
	thread_run(newcomer(300, "bash"));
	cr_expect(!book_of(thread_fork(301)->process));
}

ACCOUNT_TEST(system_wide, a_child_does_not_match_the_pid_rule_of_its_parent)
{
	struct target_thread *parent = newcomer(200, "shopd"), *child;

	admit_by_name("shopd", 200);
	thread_exec(parent);
	cr_expect(!book_of(parent->process));
	child = thread_fork(201);
	strcpy(child->task.comm, "shopd");
	cr_expect(!book_of(child->process)); /* it had no name yet */
	rules.rule[0].pattern[0] = '\0';
	child = thread_fork(202);
	cr_expect(book_of(child->process));
	expect_same(book_of(child->process)->parent, 0, "parent");
}

ACCOUNT_TEST(system_wide, a_process_below_min_bytes_leaves_no_accounting_when_it_exits)
{
	struct target_thread *thread = newcomer(200, "shopd");
	__u32 slot;

	admit_by_name("shopd", 0);
	thread_exec(thread);
	slot = slot_of(thread);
	user_malloc(MIN_BYTES - 1, 0x1000);
	thread_exit(thread, 0);

	cr_expect_eq(ended_small, 1);
	cr_expect(!slot_taken[slot]);
	cr_expect_eq(slot_at(slot)->image, 0);
	cr_expect_eq(stale_blocks, 1);
	cr_expect_eq(fake_map_count(&process_slots), 1);
}

ACCOUNT_TEST(system_wide, totals_include_processes_below_min_bytes)
{
	admit_by_name("shopd", 0);
	for (int i = 0; i < 3; i++) {
		struct target_thread *thread = newcomer(200 + i, "shopd");

		thread_exec(thread);
		user_malloc(1, 0x1000);
		user_malloc(2, 0x2000);
		user_free(0x1000);
		book_of(thread->process)->loss[LOSS_processes_dropped] = 5;
		thread->task.signal->sum_sched_runtime = 7;
		thread->task.se.sum_exec_runtime = 2;
		thread_exit(thread, 0);
	}
	cr_expect_eq(ended_small, 3);
	expect_same(ended_small_sum.counter[COUNTER_allocations], 6, "allocations");
	expect_same(ended_small_sum.counter[COUNTER_frees], 3, "frees");
	expect_same(ended_small_sum.loss[LOSS_processes_dropped], 15, "losses");
	expect_same(ended_small_sum.cpu_ns, 27, "CPU time");
}

static bool is_left_at_its_end(struct target_thread *thread)
{
	__u32 slot = slot_of(thread);

	thread_exit(thread, 0);
	cr_expect_eq(fake.rung_for, (__u32)thread->task.tgid);
	return slot_taken[slot] && slot_at(slot)->image && slot_at(slot)->exit_ns;
}

ACCOUNT_TEST(system_wide, a_process_above_min_bytes_stays_for_the_loader_when_it_exits)
{
	struct target_thread *thread = newcomer(200, "shopd");

	admit_by_name("shopd", 0);
	thread_exec(thread);
	user_malloc(MIN_BYTES, 0x1000);
	user_free(0x1000);
	cr_expect(is_left_at_its_end(thread));
}

/* They have no peak before the loader has joined them with what is resident. */
ACCOUNT_TEST(system_wide, a_process_whose_pages_are_above_min_bytes_stays_for_the_loader_when_it_exits)
{
	struct target_thread *thread = newcomer(200, "shopd");

	admit_by_name("shopd", 0);
	thread_exec(thread);
	fake.user_regs = (struct pt_regs){ .ip = 0x401000, .sp = sp_at(1) };
	page_fault(&(struct bpf_perf_event_data){ .addr = 0x7f0000000000 });
	cr_expect(is_left_at_its_end(thread));
}

ACCOUNT_TEST(system_wide, a_process_that_the_loader_owns_stays_for_the_loader_when_it_exits)
{
	struct target_thread *thread = newcomer(200, "shopd");

	admit_by_name("shopd", 0);
	thread_exec(thread);
	user_malloc(1, 0x1000);
	book_of(thread->process)->owner = ACCOUNT_OF_LOADER;
	cr_expect(is_left_at_its_end(thread));
}

/* The loader may have to probe a file that the process mapped, for processes that map it later. */
ACCOUNT_TEST(system_wide, a_process_that_never_allocated_stays_for_the_loader_when_it_exits)
{
	struct target_thread *thread = newcomer(200, "shopd");

	admit_by_name("shopd", 0);
	thread_exec(thread);
	cr_expect(is_left_at_its_end(thread));
}

ACCOUNT_TEST(system_wide, a_pid_may_be_reused_before_the_loader_reads_the_accounting)
{
	struct target_thread *first = newcomer(200, "shopd"), *second;
	struct process *account;

	admit_by_name("shopd", 0);
	thread_exec(first);
	user_malloc(MIN_BYTES, 0x1000);
	account = book_of(first->process);
	thread_exit(first, 0);
	first->process->pid = 0; /* the kernel has forgotten it */
	second = newcomer(200, "shopd");
	thread_exec(second);
	user_malloc(MIN_BYTES + 1, 0x1000);

	cr_expect(book_of(second->process) != account);
	expect_same(account->counter[COUNTER_current_bytes], MIN_BYTES, "the first one's");
	expect_same(book_of(second->process)->counter[COUNTER_current_bytes], MIN_BYTES + 1, "the second one's");
}

ACCOUNT_TEST(system_wide, a_process_without_a_free_slot_is_counted)
{
	admit_by_name("shopd", 0);
	memset(slot_taken, 1, sizeof(slot_taken));
	thread_exec(newcomer(200, "shopd"));
	cr_expect_eq(admissions_dropped, 1);
}

static __u64 bystander_traps_of(__u32 trap)
{
	return *(__u64 *)bpf_map_lookup_elem(&bystander_traps, &trap);
}

ACCOUNT_TEST(system_wide, an_unrecorded_process_is_a_bystander_and_its_traps_are_counted)
{
	struct target_thread *thread = newcomer(200, "bash");
	__u64 traps;

	thread_run(thread);
	user_malloc(8, 0x1000);
	user_free(0x1000);
	/* A session's return has no trap then; a `ret` is one like an entry. */
	traps = bystander_traps_of(0) + bystander_traps_of(1) + bystander_traps_of(2);
	cr_expect_eq(traps, 2 + (!calls_are_sessions() && !returns_are_probed()), "%llu traps", traps);
	cr_expect_eq(fake_map_count(&threads), 0);
}
