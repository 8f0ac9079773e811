// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Checks of the machine: its kernel and our privileges. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/array.h"
#include "base/privileges.h"
#include "collect/probe/attach_methods.h"
#include "collect/probe/detach.h"
#include "collect/diagnosis/diagnosis.h"
#include "collect/recording/load.h"
#include "collect/sources/page_ways.h"
#include "process/mapping_events.h"
#include "snapshot/pages_by.h"
#include "process/proc.h"
#include "collect/probe/feature_probes.h"

static enum check_state report_check(struct check *check, enum check_state state, const char *text)
{
	reason_set(&check->found, 0, "%s", text);
	return state;
}

/* Reports a trial. Without privileges a trial says nothing about the kernel. */
static enum check_state report_trial(struct check *check, int err, enum check_state if_not,
				     const char *without)
{
	if (!err)
		return report_check(check, CHECK_GOOD, "works, tried on allocsnap itself");
	if (err == -EPERM || err == -EACCES)
		return report_check(check, CHECK_UNKNOWN, "not permitted, so it cannot be tried");
	reason_set(&check->found, 0, "does not work (%s): %s", strerror(-err), without);
	return if_not;
}

/* ---- the kernel ---- */

static enum check_state check_btf(struct check *check)
{
	if (!access("/sys/kernel/btf/vmlinux", R_OK))
		return report_check(check, CHECK_GOOD, "/sys/kernel/btf/vmlinux is there");
	return report_check(check, CHECK_BAD,
			    "no /sys/kernel/btf/vmlinux: a kernel with CONFIG_DEBUG_INFO_BTF=y and a mounted /sys are needed");
}

static enum check_state check_pid_of_link(struct check *check)
{
	if (trial_uprobe_multi())
		return report_check(check, CHECK_UNKNOWN, "there are no such links");
	return report_trial(check, trial_pid_of_link(), CHECK_COSTS,
			    "a kernel before 6.10 takes it for one thread; without sessions each probe takes a tenth of a second to detach");
}

/* Reports a trial that ran in a child of ours. */
static enum check_state report_child_trial(struct check *check, int err, const char *harm, const char *so)
{
	if (!err)
		return report_check(check, CHECK_GOOD, "does no harm, tried on a child of allocsnap");
	if (err == -EPERM || err == -EACCES)
		return report_check(check, CHECK_UNKNOWN, "not permitted, so it cannot be tried");
	if (err == -EFAULT)
		reason_set(&check->found, 0, "%s: %s", harm, so);
	else
		reason_set(&check->found, 0, "cannot be tried (%s): %s", strerror(-err), so);
	return CHECK_COSTS;
}

static enum check_state check_nop5(struct check *check)
{
	return report_child_trial(check, trial_nop5(), "avoided, as this kernel would kill forked children there",
				  "other places are probed, and a function without one is not recorded");
}

static enum check_state check_return_call(struct check *check)
{
	int err = trial_return_call();

	if (err == -ENOSYS)
		return report_check(check, CHECK_GOOD, "a return probe is no system call here");
	return report_child_trial(check, err, "filters see its system call, and may end the process",
				  "calls are recorded without return probes, which is slower");
}

static bool is_kernel_before(unsigned int major, unsigned int minor)
{
	unsigned int own_major, own_minor;
	struct utsname names;

	uname(&names);
	return sscanf(names.release, "%u.%u", &own_major, &own_minor) == 2 &&
	       (own_major < major || (own_major == major && own_minor < minor));
}

static enum check_state check_fentry(struct check *check)
{
	if (trial_load())
		return report_check(check, CHECK_UNKNOWN, "not permitted, so it cannot be tried");
	if (fentry_works())
		return report_check(check, CHECK_GOOD, "functions of the kernel can be traced");
	reason_set(&check->found, 0, "functions of the kernel cannot be traced: new code is noticed by another way, which "
		   "may guess more%s", is_kernel_before(6, 16) ?
			"; before Linux 6.16 children in the memory of their parent are not counted" : "");
	return CHECK_COSTS;
}

/* How --domain pages would see pages come. */
static enum check_state check_pages(struct check *check)
{
	const struct page_way *way;
	int err;

	if (trial_load())
		return report_check(check, CHECK_UNKNOWN, "not permitted, so it cannot be tried");
	way = trial_page_ways(&err);
	if (!way)
		return report_trial(check, err, CHECK_COSTS, "resident memory is not recorded (--domain pages)");
	if (!err)
		reason_set(&check->found, 0, "--domain pages goes by %s, tried on allocsnap itself", way->name);
	else
		reason_set(&check->found, 0, "--domain pages goes by %s, as the kernel's functions cannot be traced (%s). It does not see %s",
			   way->name, strerror(-err), pages_by_name(way->name)->unseen);
	return err ? CHECK_COSTS : CHECK_GOOD;
}

/* A container does not see /sys/kernel/security/lockdown. So this tries what lockdown would forbid. */
static enum check_state check_lockdown(struct check *check)
{
	int err = trial_read_kernel();

	if (!err)
		return report_check(check, CHECK_GOOD, "BPF programs may read memory, tried");
	if (trial_load())
		return report_check(check, CHECK_UNKNOWN, "not permitted, so it cannot be tried");
	reason_set(&check->found, 0, "BPF programs may not read the kernel's memory (%s): boot the machine with lockdown=integrity or none",
		   strerror(-err));
	return CHECK_BAD;
}

/* Measures traps in the way that a recording would use. */
static enum check_state check_traps(struct check *check, struct trap_costs *costs)
{
	struct detacher detacher = {};
	enum check_state state = CHECK_GOOD;

	if (calibrate_traps(probe_way_choose(), false, &detacher, costs, &check->found))
		state = trial_load() ? report_check(check, CHECK_UNKNOWN, "not permitted, so it cannot be tried") :
				       CHECK_COSTS;
	else
		reason_set(&check->found, 0,
			   "%.2f us at an entry, %.2f us where it is single-stepped, %.2f us at a return",
			   costs->entry_ns / 1e3, costs->stepped_ns / 1e3, costs->return_ns / 1e3);
	detach_end(&detacher);
	return state;
}

/* ---- privileges ---- */

static bool has_capability(int number)
{
	return capabilities_held() & CAPABILITY(number);
}

/*
 * Whether CAP_SYS_ADMIN stands for the capability (include/linux/capability.h: bpf_capable(), perfmon_capable(),
 * checkpoint_restore_ns_capable()).
 */
static bool is_stood_for(int number)
{
	return has_capability(CAP_SYS_ADMIN) &&
	       (number == CAP_BPF || number == CAP_PERFMON || number == CAP_CHECKPOINT_RESTORE);
}

static enum check_state check_held(struct check *check, const struct privilege *privilege,
				   bool has_events)
{
	static const char *const term[] = {
		[PRIVILEGE_TO_LOAD] = "needed until all is loaded",
		[PRIVILEGE_TO_RECORD] = "needed as long as it records",
		[PRIVILEGE_OF_LINK_HOLDER] = "needed as long as it records, by the process that keeps the probes",
		[PRIVILEGE_OF_EVENTS] = "needed as long as it records, as probes are perf events",
	};

	reason_set(&check->found, 0, "held; %s", privilege->term == PRIVILEGE_OF_EVENTS && !has_events ?
		   "not needed, as probes are links" : term[privilege->term]);
	return CHECK_GOOD;
}

static enum check_state check_privilege(struct check *check, const struct privilege *privilege)
{
	bool is_unknown = trial_load(), has_events = !is_unknown && probe_way_choose()->is_alone;

	if (has_capability(privilege->number))
		return check_held(check, privilege, has_events);
	if (is_stood_for(privilege->number))
		return report_check(check, CHECK_GOOD, "missing; CAP_SYS_ADMIN stands for it");
	if (privilege->term == PRIVILEGE_OF_EVENTS && is_unknown)
		return report_check(check, CHECK_UNKNOWN, "missing; needed where probes are perf events");
	if (privilege->term == PRIVILEGE_OF_EVENTS && !has_events)
		return report_check(check, CHECK_GOOD, "missing; not needed, as probes are links");
	reason_set(&check->found, 0, "missing: %s", privilege->without);
	return privilege->is_optional ? CHECK_COSTS : CHECK_BAD;
}

/* Counts capabilities that the table does not name. */
static enum check_state check_other_capabilities(struct check *check)
{
	uint64_t others = capabilities_held();

	for (size_t i = 0; i < privileges_nr; i++)
		others &= ~CAPABILITY(privilege_rows[i].number);
	if (!others)
		return report_check(check, CHECK_GOOD, "none held");
	reason_set(&check->found, 0, "%d held; not needed, and given up when all is loaded",
		   __builtin_popcountll(others));
	return CHECK_GOOD;
}

/* The loader keeps each mapped file open. */
#define FILES_ENOUGH 1024

static enum check_state check_cap_sys_resource(struct check *check)
{
	struct rlimit limit = {};

	getrlimit(RLIMIT_NOFILE, &limit);
	if (has_capability(CAP_SYS_RESOURCE) || limit.rlim_max >= FILES_ENOUGH)
		return report_check(check, CHECK_GOOD, "not needed: enough files may be open");
	return report_check(check, CHECK_COSTS,
			    "missing: too few files may be open; mapped files beyond the limit have no names");
}

static bool may_watch_mappings(void)
{
	struct reason why = {};
	struct mapping_events *events = mapping_events__open(&why);
	bool may = events;

	mapping_events__close(events);
	return may;
}

/* Tried: Debian's kernels have a level 3, by default, that asks for CAP_SYS_ADMIN. */
static enum check_state check_paranoid(struct check *check)
{
	char *text = proc_text(0, "sys/kernel/perf_event_paranoid");
	int level = text ? atoi(text) : 0;
	bool is_allowed = has_capability(CAP_PERFMON) || has_capability(CAP_SYS_ADMIN);
	bool is_good = is_allowed ? may_watch_mappings() : level < 0;

	reason_set(&check->found, 0, "%s: %s", text && *text ? text : "not readable",
		   !is_allowed ? "forbids probes without CAP_PERFMON" :
		   is_good     ? "does not matter with CAP_PERFMON" :
				 "asks for CAP_SYS_ADMIN, or for sysctl kernel.perf_event_paranoid=2");
	free(text);
	return is_good ? CHECK_GOOD : CHECK_BAD;
}

static enum check_state check_unprivileged_bpf(struct check *check)
{
	char *text = proc_text(0, "sys/kernel/unprivileged_bpf_disabled");
	bool may = has_capability(CAP_BPF) || has_capability(CAP_SYS_ADMIN);

	reason_set(&check->found, 0, "%s%s", text && *text ? text : "not readable",
		   may ? ": does not matter with CAP_BPF" : "; probes need CAP_BPF anyway");
	free(text);
	return CHECK_GOOD;
}

/* ---- a container around us ---- */

static enum check_state check_seccomp(struct check *check)
{
	uint64_t mode = 0;

	proc_status(getpid(), "Seccomp", &mode);
	if (mode && has_privileges_to_load() && trial_load() == -EPERM)
		return report_check(check, CHECK_BAD, "a filter may forbid bpf: choose a seccomp profile that permits it with CAP_BPF");
	return report_check(check, CHECK_GOOD, !mode ? "no filter" : "a filter");
}

/* Whether a security module forbids us to look at the process, although our capabilities permit it. */
static bool is_hidden(pid_t pid)
{
	char path[64];
	int fd, err;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	err = errno;
	if (fd >= 0)
		close(fd);
	return fd < 0 && err == EACCES;
}

/*
 * AppArmor, SELinux and others give a process a label, and may forbid it to look at processes with another one. Container engines'
 * profiles do. Returns the number of such processes that were tried; *ret_hidden is one that is hidden, or 0.
 */
static size_t try_other_labels(const char *own, pid_t *ret_hidden)
{
	DIR *folder = opendir("/proc");
	struct dirent *entry;
	size_t nr = 0;

	*ret_hidden = 0;
	while (folder && !*ret_hidden && (entry = readdir(folder))) {
		pid_t pid = atoi(entry->d_name);
		char *label = pid > 0 ? proc_text(pid, "attr/current") : NULL;

		if (label && *label && strcmp(label, own)) {
			nr++;
			*ret_hidden = is_hidden(pid) ? pid : 0;
		}
		free(label);
	}
	if (folder)
		closedir(folder);
	return nr;
}

static enum check_state check_security_label(struct check *check)
{
	char *own = proc_text(getpid(), "attr/current");
	enum check_state state = CHECK_GOOD;
	pid_t hidden;
	size_t nr;

	if (!own || !*own) {
		free(own);
		return report_check(check, CHECK_GOOD, "no security module gives us one");
	}
	nr = try_other_labels(own, &hidden);
	if (hidden && has_capability(CAP_SYS_PTRACE)) {
		reason_set(&check->found, 0, "'%.64s' may not look at other processes (PID %d, tried): run allocsnap unconfined (appArmorProfile: "
			   "{type: Unconfined}, or type spc_t of SELinux; --security-opt apparmor=unconfined or label=disable)", own, (int)hidden);
		state = CHECK_BAD;
	} else {
		reason_set(&check->found, 0, "'%.64s' may look at processes with other labels, tried on %zu", own, nr);
		state = hidden ? report_check(check, CHECK_UNKNOWN, "without CAP_SYS_PTRACE it cannot be tried") : CHECK_GOOD;
	}
	free(own);
	return state;
}

/* A check that is bad is the reason for a recording that would fail, if nothing else is. */
static int add_check(struct diagnosed_machine *machine, const struct check *check)
{
	if (check->state == CHECK_BAD && machine->records) {
		machine->records = false;
		reason_set(&machine->why, 0, "%s: %s", check->name, check->found.text);
	}
	return array_push(machine, check, *check);
}

static int check_namespaces(struct diagnosed_machine *machine)
{
	int err = 0;

	for (size_t i = 0; i < machine_namespaces_nr && !err; i++) {
		struct check check = { .name = machine_namespaces[i].full_name };

		check.state = report_check(&check, CHECK_GOOD, "the machine's own");
		if (!is_in_machine_namespace(&machine_namespaces[i])) {
			reason_set(&check.found, 0, "not the machine's: %s", machine_namespaces[i].to_do);
			check.state = CHECK_BAD;
		}
		err = add_check(machine, &check);
	}
	return err;
}

static enum check_state check_open_files(struct check *check)
{
	struct rlimit limit = {};

	getrlimit(RLIMIT_NOFILE, &limit);
	reason_set(&check->found, 0, "at most %llu, of which three quarters are for mapped files",
		   (unsigned long long)limit.rlim_max);
	return limit.rlim_max < FILES_ENOUGH ? CHECK_COSTS : CHECK_GOOD;
}

/* ---- all ---- */

/* Either it looks, or it tries, or it is good in any case. */
struct row {
	const char *name;
	enum check_state (*look)(struct check *check);
	int (*try)(void);
	enum check_state if_not;
	const char *text; /* what it means that the trial has failed, or that it is good */
};

static const struct row kernel_rows[] = {
	{ "BTF", check_btf },
	{ "BPF programs", .try = trial_load, CHECK_BAD, "the kernel refuses the BPF programs of allocsnap" },
	{ "uprobe", .try = trial_uprobe, CHECK_BAD, "CONFIG_UPROBE_EVENTS=y is needed" },
	{ "return probe", .try = trial_uretprobe, CHECK_COSTS,
	  "returns are seen by probes on `ret` instructions, which is slower" },
	{ "many uprobes in a link", .try = trial_uprobe_multi, CHECK_COSTS,
	  "a kernel before 6.6; each probe takes a tenth of a second to detach" },
	{ "pid of such a link", check_pid_of_link },
	{ "uprobe session", .try = trial_uprobe_session, CHECK_COSTS,
	  "a kernel before 6.13; processes with several stacks are recorded without return probes, which is slower" },
	{ "return probe, seccomp", check_return_call },
	{ "probe on a 5-byte nop", check_nop5 },
	{ "fentry", check_fentry },
	{ "new pages", check_pages },
	{ "lockdown", check_lockdown },
	{ "tracefs", .text = "not needed: probes are perf events and BPF links" },
};

/* These follow the rows of src/base/privileges.c. */
static const struct row our_rows[] = {
	{ "other capabilities", check_other_capabilities },
	{ "CAP_SYS_RESOURCE", check_cap_sys_resource },
	{ "perf_event_paranoid", check_paranoid },
	{ "unprivileged_bpf_disabled", check_unprivileged_bpf },
	{ "locked memory", .text = "does not matter: maps are charged to the memory cgroup" }, /* since Linux 5.11 */
	{ "seccomp", check_seccomp },
	{ "security label", check_security_label },
	{ "open files", check_open_files },
};

static enum check_state run_host_check(const struct row *row, struct check *check)
{
	if (row->look)
		return row->look(check);
	return row->try ? report_trial(check, row->try(), row->if_not, row->text) :
			  report_check(check, CHECK_GOOD, row->text);
}

static int run_checks(struct diagnosed_machine *machine, const struct row *row, size_t row_nr)
{
	int err = 0;

	for (size_t i = 0; i < row_nr && !err; i++) {
		struct check check = { .name = row[i].name };

		check.state = run_host_check(&row[i], &check);
		err = add_check(machine, &check);
	}
	return err;
}

static int check_privileges(struct diagnosed_machine *machine)
{
	int err = 0;

	for (size_t i = 0; i < privileges_nr && !err; i++) {
		struct check check = { .name = privilege_rows[i].name };

		check.state = check_privilege(&check, &privilege_rows[i]);
		err = add_check(machine, &check);
	}
	return err;
}

int diagnose_machine(struct diagnosed_machine *machine)
{
	struct check traps = { .name = "cost of a trap" };
	struct utsname names;
	int err;

	uname(&names);
	snprintf(machine->kernel, sizeof(machine->kernel), "%s", names.release);
	machine->records_pages = trial_page_ways(&err);
	err = run_checks(machine, kernel_rows, ARRAY_SIZE(kernel_rows)) ?: check_privileges(machine);
	err = err ?: run_checks(machine, our_rows, ARRAY_SIZE(our_rows)) ?: check_namespaces(machine);
	traps.state = check_traps(&traps, &machine->costs);
	err = err ?: array_push(machine, check, traps);
	return err;
}
