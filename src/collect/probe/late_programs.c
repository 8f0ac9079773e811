// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/probe/late_programs.h"

#include <errno.h>
#include <string.h>

#include "collect/bpf.h"
#include "collect/probe/skeleton.h"

static struct bpf_program *program_at_end(const struct allocsnap_bpf *bpf, enum probe_end end)
{
	struct bpf_program *const program[] = {
		[PROBE_RET] = bpf->progs.leave_by_ret,
		[PROBE_RETURN] = bpf->progs.leave_call,
		[PROBE_BOTH] = bpf->progs.session_call,
		[PROBE_ENTRY] = bpf->progs.enter_call,
		[PROBE_SAMPLE] = bpf->progs.take_sample,
		[PROBE_PYTHON] = bpf->progs.python_place,
		[PROBE_PYTHON_HEAP] = bpf->progs.python_heap,
		[PROBE_PYTHON_CREATION] = bpf->progs.python_creation,
	};

	return program[end];
}

void late_programs_leave_out(struct allocsnap_bpf *bpf)
{
	bpf_program__set_autoload(bpf->progs.leave_by_ret, false);
	bpf_program__set_autoload(bpf->progs.take_sample, false);
}

/* A map that was not created has no use in this recording. */
static int share_maps(struct bpf_object *object, const struct bpf_object *loaded)
{
	struct bpf_map *map;

	bpf_object__for_each_map(map, object) {
		const struct bpf_map *shared = bpf_object__find_map_by_name(loaded, bpf_map__name(map));
		int fd = shared ? bpf_map__fd(shared) : -ENOENT;
		int err = fd < 0 ? bpf_map__set_autocreate(map, false) : bpf_map__reuse_fd(map, fd);

		if (err)
			return err;
	}
	return 0;
}

static int load_alone(struct bpf_object *object, const struct bpf_object *loaded, const struct bpf_program *like)
{
	struct bpf_program *program;
	int err = share_maps(object, loaded);

	bpf_object__for_each_program(program, object) {
		bool is_it = !strcmp(bpf_program__name(program), bpf_program__name(like));

		err = err ?: bpf_program__set_autoload(program, is_it);
		if (is_it)
			err = err ?: bpf_program__set_expected_attach_type(program,
									   bpf_program__expected_attach_type(like));
	}
	return err ?: bpf_object__load(object);
}

static int load_late(struct late_programs *late, const struct allocsnap_bpf *bpf, enum probe_end end)
{
	/* The names of some maps begin with that of the object. */
	LIBBPF_OPTS(bpf_object_open_opts, options, .object_name = bpf_object__name(bpf->obj));
	struct bpf_object *object;
	const void *file;
	size_t bytes;
	int err;

	file = skeleton_file(&bytes);
	object = bpf_object__open_mem(file, bytes, &options);
	if (!object)
		return -errno;
	err = load_alone(object, bpf->obj, program_at_end(bpf, end));
	if (err) {
		bpf_object__close(object);
		return err;
	}
	late->object[end] = object;
	return 0;
}

int late_programs_find(struct late_programs *late, const struct allocsnap_bpf *bpf, enum probe_end end,
		       const struct bpf_program **ret)
{
	const struct bpf_program *program = program_at_end(bpf, end);
	int err = 0;

	if (bpf_program__fd(program) < 0 && late) {
		err = late->object[end] ? 0 : load_late(late, bpf, end);
		program = err ? NULL : bpf_object__find_program_by_name(late->object[end], bpf_program__name(program));
	}
	*ret = program;
	return err;
}

void late_programs_release(struct late_programs *late)
{
	for (int end = 0; end < PROBE_END_NR; end++)
		bpf_object__close(late->object[end]);
	memset(late, 0, sizeof(*late));
}
