// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/probe/late_programs.h"

#include <errno.h>
#include <string.h>

#include "base/array.h"
#include "collect/probe/feature_probes.h"
#include "collect/bpf.h"
#include "collect/probe/skeleton.h"

/* The group of the programs that are never left out. */
#define LATE_NEVER LATE_GROUP_NR

#define TARGETS 2 /* names of one function, on different kernels and machines */

static const struct {
	enum late_group group;
	const char *name;
	const char *target[TARGETS]; /* the kernel's function or tracepoint that it is for */
	uint32_t attach_type;	     /* of these */
} program_at[] = {
	[PROBE_RET] = { LATE_RETS, "leave_by_ret" },
	[PROBE_RETURN] = { LATE_NEVER, "leave_call" },
	[PROBE_BOTH] = { LATE_NEVER, "session_call" },
	[PROBE_ENTRY] = { LATE_RETS, "enter_call" },
	[PROBE_SAMPLE] = { LATE_SAMPLE, "take_report" },
	[PROBE_PYTHON] = { LATE_PYTHON, "python_place" },
	[PROBE_PYTHON_HEAP] = { LATE_PYTHON, "python_heap" },
	[LATE_PAGE_ADDED] = { LATE_RMAP, "page_added", { "folio_add_new_anon_rmap", "page_add_new_anon_rmap" }, BPF_TRACE_FENTRY },
	[LATE_PAGES_MOVED] = { LATE_RMAP, "pages_moved", { "__x64_sys_mremap", "__arm64_sys_mremap" }, BPF_TRACE_FEXIT },
	[LATE_PAGE_FAULT] = { LATE_PAGES, "page_fault" },
	[LATE_FAULT_IN_USER] = { LATE_TRACEPOINTS, "page_fault_in_user", { "page_fault_user" }, BPF_TRACE_RAW_TP },
	[LATE_FAULT_IN_KERNEL] = { LATE_TRACEPOINTS, "page_fault_in_kernel", { "page_fault_kernel" }, BPF_TRACE_RAW_TP },
	[LATE_PAGE_ROOM] = { LATE_PAGES, "page_room_found" },
};
_Static_assert(ARRAY_SIZE(program_at) == LATE_PROGRAM_NR, "a program for each kind of place");

void late_programs_leave_out(struct allocsnap_bpf *bpf, enum late_group group)
{
	for (int nr = 0; nr < LATE_PROGRAM_NR; nr++)
		if (program_at[nr].group == group)
			bpf_program__set_autoload(bpf_object__find_program_by_name(bpf->obj, program_at[nr].name), false);
}

/* A map that was not created has no use in this recording. */
static int share_map(struct bpf_map *map, const struct allocsnap_bpf *bpf)
{
	const struct bpf_map *shared = bpf_object__find_map_by_name(bpf->obj, bpf_map__name(map));
	int fd = shared ? bpf_map__fd(shared) : -ENOENT;

	return fd < 0 ? bpf_map__set_autocreate(map, false) : bpf_map__reuse_fd(map, fd);
}

static int set_target(struct bpf_program *program, const char *const target[TARGETS])
{
	int err = 0;

	for (int i = 0; i < TARGETS && target[i] && (!i || err == -ESRCH); i++)
		err = bpf_program__set_attach_target(program, 0, target[i]);
	return err;
}

static int load_group(struct bpf_object *object, const struct allocsnap_bpf *bpf, enum late_group group)
{
	struct bpf_program *program;
	struct bpf_map *map;
	int err = 0;

	bpf_object__for_each_map(map, object)
		err = err ?: share_map(map, bpf);
	bpf_object__for_each_program(program, object)
		err = err ?: bpf_program__set_autoload(program, false);
	for (int nr = 0; nr < LATE_PROGRAM_NR && !err; nr++) {
		const struct bpf_program *like = bpf_object__find_program_by_name(bpf->obj, program_at[nr].name);

		if (program_at[nr].group != group)
			continue;
		program = bpf_object__find_program_by_name(object, program_at[nr].name);
		err = bpf_program__set_autoload(program, true) ?:
		      bpf_program__set_expected_attach_type(program, bpf_program__expected_attach_type(like)) ?:
		      set_target(program, program_at[nr].target);
	}
	return err ?: bpf_object__load(object);
}

static int load_late(struct late_programs *late, const struct allocsnap_bpf *bpf, enum late_group group)
{
	/* The names of some maps begin with the object's name. */
	LIBBPF_OPTS(bpf_object_open_opts, options, .object_name = bpf_object__name(bpf->obj));
	struct bpf_object *object;
	const void *file;
	size_t bytes;
	int err;

	file = skeleton_file(&bytes);
	object = bpf_object__open_mem(file, bytes, &options);
	if (!object)
		return -errno;
	err = load_group(object, bpf, group);
	if (err) {
		bpf_object__close(object);
		return err;
	}
	late->object[group] = object;
	return 0;
}

int late_programs_find(struct late_programs *late, const struct allocsnap_bpf *bpf, unsigned int nr,
		       const struct bpf_program **ret)
{
	enum late_group group = program_at[nr].group;
	const struct bpf_program *program = bpf_object__find_program_by_name(bpf->obj, program_at[nr].name);
	int err = 0;

	if (bpf_program__fd(program) < 0 && late && group != LATE_NEVER) {
		err = late->object[group] ? 0 : load_late(late, bpf, group);
		program = err ? NULL : bpf_object__find_program_by_name(late->object[group], program_at[nr].name);
	}
	*ret = program;
	return err;
}

int trial_late_program(unsigned int nr)
{
	int err = program_at[nr].target[0] ? -ESRCH : 0;

	for (int i = 0; i < TARGETS && program_at[nr].target[i] && err == -ESRCH; i++)
		err = trial_trace(program_at[nr].target[i], program_at[nr].attach_type);
	return err;
}

void late_programs_release(struct late_programs *late)
{
	for (int group = 0; group < LATE_GROUP_NR; group++)
		bpf_object__close(late->object[group]);
	memset(late, 0, sizeof(*late));
}
