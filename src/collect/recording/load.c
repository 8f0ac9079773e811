// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/recording/load.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/privileges.h"
#include "base/reason.h"
#include "collect.h"
#include "collect/bpf.h"
#include "collect/build/sample_weight.h"
#include "collect/drain/map_sizes.h"
#include "collect/probe/attach_methods.h"
#include "collect/probe/feature_probes.h"
#include "collect/probe/late_programs.h"
#include "collect/probe/skeleton.h"
#include "collect/recording/map_shares.h"
#include "collect/probe/uprobe_multi.h"
#include "collect/recording/admission.h"
#include "elf/machine.h"
#include "shared/bpf_types.h"

const struct machine_namespace machine_namespaces[] = {
	{ "user", "user namespace", 0xEFFFFFFD, ", so its capabilities do not count for BPF",
	  "run it on the host, or in a container with the host's users (not rootless; in Kubernetes hostUsers: true)" },
	{ "pid", "pid namespace", 0xEFFFFFFC, "", "run it on the host, or in a container with --pid=host (in Kubernetes hostPID: true)" },
	{ "time", "time namespace", 0xEFFFFFFA, ", whose clocks are not the kernel's", "run it on the host" },
};
const size_t machine_namespaces_nr = ARRAY_SIZE(machine_namespaces);

bool is_in_machine_namespace(const struct machine_namespace *namespace)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/self/ns/%s", namespace->name);
	return stat(path, &st) || st.st_ino == namespace->inode;
}

/* Drops libbpf's messages, unless ALLOCSNAP_LIBBPF_DEBUG=1 is set. */
static int print_libbpf(enum libbpf_print_level level, const char *fmt, va_list args)
{
	(void)level;
	return getenv("ALLOCSNAP_LIBBPF_DEBUG") ? vfprintf(stderr, fmt, args) : 0;
}

#define PAGE_BYTES_MOST 16384 /* with larger ones it was never tried */

static int check_machine(struct reason *why)
{
	if (access("/sys/kernel/btf/vmlinux", F_OK))
		return reason_set(why, -ENOTSUP,
				  "this kernel has no BTF (/sys/kernel/btf/vmlinux): a kernel built with CONFIG_DEBUG_INFO_BTF=y is needed");
	if (access("/sys/bus/event_source/devices/uprobe/type", F_OK))
		return reason_set(
			why, -ENOTSUP,
			"this kernel has no uprobes (/sys/bus/event_source/devices/uprobe): CONFIG_UPROBE_EVENTS=y and a mounted /sys are needed");
	if (sysconf(_SC_PAGESIZE) > PAGE_BYTES_MOST)
		return reason_set(why, -ENOTSUP, "this kernel has pages of %ld bytes, and allocsnap knows only pages of up to %d",
				  sysconf(_SC_PAGESIZE), PAGE_BYTES_MOST);
	/* The kernel side reports times by the machine's clock, and so do its events and /proc/PID/stat. */
	for (const struct machine_namespace *at = machine_namespaces; at < machine_namespaces + machine_namespaces_nr; at++)
		if (!is_in_machine_namespace(at))
			return reason_set(why, -ENOTSUP, "allocsnap runs in a %s of its own%s: %s", at->full_name, at->why,
					  at->to_do);
	return 0;
}

/* Then -EACCES says that the kernel's verifier refuses a program. */
bool has_privileges_to_load(void)
{
	uint64_t both = CAPABILITY(CAP_BPF) | CAPABILITY(CAP_PERFMON), held = capabilities_held();

	return (held & both) == both || (held & CAPABILITY(CAP_SYS_ADMIN));
}

/* Names the capabilities that are always needed. doctor lists all. */
static int report_no_permission(int err, struct reason *why)
{
	char names[128] = "";

	if (has_privileges_to_load())
		return reason_set(why, err, "BPF programs are forbidden although the capabilities are there: a filter of system calls (seccomp) or a "
				  "security module does that; in a container, choose a seccomp profile that permits bpf with CAP_BPF");
	for (size_t i = 0; i < privileges_nr; i++)
		if (!privilege_rows[i].is_optional && privilege_rows[i].term != PRIVILEGE_OF_EVENTS)
			snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s", *names ? ", " : "",
				 privilege_rows[i].name);
	return reason_set(why, err, "no permission to load BPF programs: run it as root (sudo allocsnap …), or at least with %s",
			  names);
}

static int report_load_failure(int err, struct reason *why)
{
	if (err == -EPERM || (err == -EACCES && !has_privileges_to_load()))
		return report_no_permission(err, why);
	if (err == -E2BIG || err == -ENOMEM)
		return reason_set(why, err,
				  "not enough kernel memory for the maps: lower --max-blocks, --max-tracebacks or --max-memory");
	if (!trial_load() && trial_read_kernel())
		return reason_set(why, err, "the kernel's lockdown forbids BPF programs to read memory: boot the machine with lockdown=integrity or none");
	return reason_set(why, err,
			  "the kernel does not take the BPF programs: %s; ALLOCSNAP_LIBBPF_DEBUG=1 shows why",
			  strerror(-err));
}

_Static_assert(COLLECTOR_TRACEBACK_LIMIT_MAX == TRACEBACK_LIMIT_MAX, "the same limit");
_Static_assert(COLLECTOR_SAMPLE_BYTES_MOST == SAMPLE_BYTES_MAX, "the same limit");

/* Unlimited if the file cannot be read: every munmap is taken to succeed then. */
static uint64_t max_map_count(void)
{
	FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
	uint64_t most = UINT64_MAX;

	if (file && fscanf(file, "%" SCNu64, &most) != 1)
		most = UINT64_MAX;
	if (file)
		fclose(file);
	return most;
}

/* Sets which blocks are recorded. */
static void configure_choice(struct allocsnap_bpf *bpf, const struct collector_options *options,
			     uint32_t free_filter_nr)
{
	struct settings *settings = &bpf->rodata->settings;

	if (!free_filter_is_needed(options))
		return;
	sample_rates_fill(settings->sample_bytes, options->sample_bytes, options->max_overhead);
	settings->min_size = options->min_size;
	settings->max_size = options->max_size;
	settings->free_filter_mask = free_filter_nr - 1;
	sample_tables_fill(&bpf->rodata->sample_tables);
}

static int size_maps(struct allocsnap_bpf *bpf, const struct map_room *room)
{
	const struct {
		struct bpf_map *map;
		uint32_t entries;
	} sizes[] = {
		{ bpf->maps.blocks, room->blocks },
		{ bpf->maps.handed_blocks, room->rest },
		{ bpf->maps.dropped_blocks, room->rest },
		{ bpf->maps.tracebacks, room->tracebacks },
		{ bpf->maps.mapping_starts, room->starts },
		{ bpf->maps.page_leaves, room->leaves },
		{ bpf->maps.unwind_slabs, room->slabs },
		{ bpf->maps.free_filter, room->free_filter },
	};
	int err = 0;

	for (size_t i = 0; i < ARRAY_SIZE(sizes) && !err; i++)
		err = bpf_map__set_max_entries(sizes[i].map, sizes[i].entries);
	return err;
}

#define NURSERY_PLACES (1u << 16)
#define NURSERY_SHARE 64 /* a 64th of all blocks, at most; a smaller map gets no nursery */

/*
 * Takes the nursery's capacity from the map of blocks. With sampling or size limits too few blocks are recorded
 * for it.
 */
static int configure_nursery(struct allocsnap_bpf *bpf, uint32_t max_blocks)
{
	struct settings *settings = &bpf->rodata->settings;

	if (settings->free_filter_mask || max_blocks / NURSERY_SHARE < NURSERY_PLACES)
		return 0;
	settings->nursery_mask = NURSERY_PLACES - 1;
	return bpf_map__set_max_entries(bpf->maps.blocks, max_blocks - NURSERY_PLACES) ?:
	       bpf_map__set_max_entries(bpf->maps.nursery, NURSERY_PLACES);
}

static int configure_bpf(struct allocsnap_bpf *bpf, const struct collector_options *options,
			 const struct map_room *room)
{
	struct settings *settings = &bpf->rodata->settings;
	struct traceback *traceback;
	int err;

	settings->has_mappings = options->domains & COLLECTOR_MMAP;
	settings->has_user_calls = options->probe_nr;

	settings->traceback_limit = options->traceback_limit;
	settings->unwinder = options->unwinder;
	settings->max_map_count = max_map_count();
	settings->page_mask = sysconf(_SC_PAGESIZE) - 1;
	settings->has_own_links = options->system_wide; /* see own_links.h */
	if (getrandom(&settings->hash_seed, sizeof(settings->hash_seed), 0) < 0)
		return -errno;
	configure_choice(bpf, options, room->free_filter);
	err = size_maps(bpf, room) ?: configure_nursery(bpf, room->blocks);
	err = err ?: bpf_map__set_value_size(bpf->maps.tracebacks,
					     offsetof(struct traceback, pc) +
					     options->traceback_limit * sizeof(traceback->pc[0]));
	return err;
}

/* Chooses the programs and their attach type, which is fixed when a program is loaded (probe_way_of()). */
static void choose_programs(struct allocsnap_bpf *bpf)
{
	const struct probe_way *way = probe_way_choose();

	bpf_program__set_autoload(bpf->progs.session_call, way->has_sessions);
	bpf_program__set_autoload(bpf->progs.leave_call, !way->has_sessions);
	if (way->is_alone)
		return;
	bpf_program__set_expected_attach_type(bpf->progs.session_call, UPROBE_SESSION_ATTACH_TYPE);
	bpf_program__set_expected_attach_type(bpf->progs.python_heap, UPROBE_SESSION_ATTACH_TYPE);
	bpf_program__set_expected_attach_type(bpf->progs.python_place, UPROBE_MULTI_ATTACH_TYPE);
	bpf_program__set_expected_attach_type(bpf->progs.enter_call, UPROBE_MULTI_ATTACH_TYPE);
	bpf_program__set_expected_attach_type(bpf->progs.take_report, UPROBE_MULTI_ATTACH_TYPE);
	bpf_program__set_expected_attach_type(bpf->progs.leave_call, UPROBE_MULTI_ATTACH_TYPE);
	bpf_program__set_expected_attach_type(bpf->progs.leave_by_ret, UPROBE_MULTI_ATTACH_TYPE);
}

/*
 * Where processes come and go, a newcomer must not wait for the programs that it needs. A process that changes from return
 * probes must not either.
 */
static void leave_programs_out(struct allocsnap_bpf *bpf, const struct collector_options *options)
{
	late_programs_leave_out(bpf, LATE_PYTHON);
	if (options->system_wide)
		return;
	late_programs_leave_out(bpf, LATE_SAMPLE);
	if (probe_way_of(bpf)->has_sessions)
		late_programs_leave_out(bpf, LATE_RETS);
}

/*
 * The trial is for a type that is no function: finding one takes 11 ms. A kernel that permits it says so (-EINVAL). On arm64
 * only attaching shows it: kernels before 6.4 cannot.
 */
bool fentry_works(void)
{
	static const struct bpf_insn nothing[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K }, /* r0 = 0 */
		{ .code = BPF_JMP | BPF_EXIT },
	};
	LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = BPF_TRACE_FENTRY, .attach_btf_id = 1);

	return bpf_prog_load(BPF_PROG_TYPE_TRACING, "fentry_works", "GPL", nothing, 2, &options) == -EINVAL &&
	       (machine_here() == EM_X86_64 || !trial_trace("perf_event_mmap", BPF_TRACE_FENTRY));
}

/* Chooses the programs that report at once when new code lies where other code was, and when children leave the memory. */
static void choose_watch(struct allocsnap_bpf *bpf, const struct collector_options *options)
{
	bool has_tables = options->unwinder != COLLECTOR_UNWIND_FP;
	bool has_sharers = !options->follow_forks && !options->system_wide;
	bool fentry = (has_tables || has_sharers) && fentry_works();

	bpf_program__set_autoload(bpf->progs.code_mapped, has_tables && fentry);
	bpf_program__set_autoload(bpf->progs.room_found, has_tables && !fentry);
	bpf_program__set_autoload(bpf->progs.memory_shared, has_sharers);
	bpf_program__set_autoload(bpf->progs.sharer_execs, has_sharers && fentry);
	bpf_program__set_autoload(bpf->progs.sharer_exits, has_sharers && fentry);
	bpf->rodata->sharers_by_tracepoints = has_sharers && !fentry;
	/* Asked here, because libbpf looks for a type that is not in the kernel in its modules, too, which takes CAP_SYS_ADMIN. */
	bpf->rodata->exits_untold = has_sharers && !fentry &&
				    !kernel_has("trace_event_raw_sched_process_exit", BTF_KIND_STRUCT);
	bpf_program__set_autoload(bpf->progs.sharer_prepares_exec, has_sharers && !fentry);
}

static int attach_life_program(struct bpf_program *program, struct bpf_link **ret_link)
{
	if (!bpf_program__autoload(program))
		return 0;
	*ret_link = bpf_program__attach(program);
	return *ret_link ? 0 : -errno;
}

/* Kernels before Linux 6.10 lack the tracepoint before an exec. memory_shared counts no child there (exits_untold). */
static int attach_sharers(struct allocsnap_bpf *bpf)
{
	int err = attach_life_program(bpf->progs.sharer_prepares_exec, &bpf->links.sharer_prepares_exec);

	if (err == -ENOENT)
		err = 0;
	err = err ?: attach_life_program(bpf->progs.sharer_execs, &bpf->links.sharer_execs);
	err = err ?: attach_life_program(bpf->progs.sharer_exits, &bpf->links.sharer_exits);
	return err ?: attach_life_program(bpf->progs.memory_shared, &bpf->links.memory_shared);
}

static int attach_process_life(struct allocsnap_bpf *bpf)
{
	int err = attach_sharers(bpf) ?: attach_life_program(bpf->progs.process_exec, &bpf->links.process_exec) ?:
			  attach_life_program(bpf->progs.process_exit, &bpf->links.process_exit);
	err = err ?: attach_life_program(bpf->progs.code_mapped, &bpf->links.code_mapped);
	err = err ?: attach_life_program(bpf->progs.room_found, &bpf->links.room_found);
	err = err ?: attach_life_program(bpf->progs.oom_victim, &bpf->links.oom_victim);
	return err ?: attach_life_program(bpf->progs.process_fork, &bpf->links.process_fork);
}

struct allocsnap_bpf *load_bpf(const struct collector_options *options,
			       int (*configure)(struct collector *collector, struct allocsnap_bpf *bpf),
			       struct collector *collector, struct reason *why)
{
	struct allocsnap_bpf *bpf = NULL;
	struct map_room room;
	int err;

	libbpf_set_print(print_libbpf);
	err = check_machine(why) ?: map_room_choose(&room, options, why);
	if (err)
		goto out;
	bpf = skeleton_open();
	err = bpf ? configure_bpf(bpf, options, &room) ?: configure(collector, bpf) : -errno;
	if (!err && admission_configure(&bpf->rodata->rules, options, why)) {
		err = -EINVAL;
		goto out;
	}
	if (!err) {
		if (options->follow_forks || options->system_wide)
			fair_begin(bpf);
		choose_programs(bpf);
		leave_programs_out(bpf, options);
		bpf_program__set_autoload(bpf->progs.process_pause, options->max_overhead);
		bpf_program__set_autoload(bpf->progs.process_return, options->max_overhead);
		bpf_program__set_autoload(bpf->progs.process_resume, options->max_overhead);
		bpf_program__set_autoload(bpf->progs.process_fork,
					  options->follow_forks || options->system_wide);
		bpf_program__set_autoload(bpf->progs.admissible_processes, options->system_wide);
		bpf->rodata->rules.by_ret = options->no_return_probes || !probe_way_of(bpf)->has_sessions;
		choose_watch(bpf, options);
		bpf_program__set_autoload(bpf->progs.oom_victim, options->on_oom);
		bpf_program__set_autoload(bpf->progs.memory_groups, options->on_oom);
		err = skeleton_load(bpf);
	}
	err = err ?: admission_begin(bpf) ?: attach_process_life(bpf);
	if (err)
		report_load_failure(err, why);
out:
	if (!err)
		return bpf;
	skeleton_close(bpf);
	errno = -err;
	return NULL;
}

struct allocsnap_bpf *open_bpf(void)
{
	struct allocsnap_bpf *bpf;

	libbpf_set_print(print_libbpf);
	bpf = skeleton_open();
	if (bpf)
		choose_programs(bpf);
	return bpf;
}
