// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/sources/python_source.h"

#include <errno.h>
#include <stdio.h>

#include "base/array.h"
#include "collect.h"
#include "collect/build/build_metadata.h"
#include "collect/target/target.h"
#include "shared/bpf_types.h"
#include "shared/python_calls.h"
#include "snapshot.h"

int look_up_python_lines(struct target *target)
{
	const struct tracebacks *tracebacks = &target->tracebacks;
	int err = 0;

	target->python.codes_missing = 0;
	for (size_t i = 0; i < tracebacks->place_nr && !err; i++) {
		uint64_t word = tracebacks->place[i].offset;

		if (tracebacks->place[i].object == OBJECT_OF_SOURCE)
			err = python_codes_want(&target->python.codes, PYTHON_FRAME_CODE(word),
						PYTHON_FRAME_INSTRUCTION(word));
	}
	return err ?: python_codes_look_up(&target->python.codes, target->mappings.objects->parser, target->python.lines);
}

int add_python_frame(struct target *target, struct snapshot_builder *builder, uint64_t word, uint32_t *ret_id)
{
	struct snap_frame frame = {}; /* no object, and offset 0 */
	int32_t line;
	const struct python_code *code = python_codes_find(&target->python.codes, PYTHON_FRAME_CODE(word),
							   PYTHON_FRAME_INSTRUCTION(word), &line);
	int err;

	if (!code) {
		target->python.codes_missing += PYTHON_FRAME_CODE(word) != PYTHON_CODE_UNKNOWN;
		return -ENOENT;
	}
	frame.lineno = line;
	err = snapshot_builder__string(builder, code->filename, &frame.filename) ?:
	      snapshot_builder__string(builder, code->name, &frame.function);
	return err ?: snapshot_builder__frame_declared(builder, &frame, line ? code->first_line : 0, ret_id);
}

/*
 * Python's objects of before the recording, or their pools, if the allocator's lists were compared with the books at this
 * time.
 */
static int describe_older_python(struct snapshot_builder *builder, const struct python_checked *checked)
{
	const struct number number[] = {
		{ "python_older_count", checked->older_nr },
		{ "python_older_bytes", checked->older_bytes },
	};

	return checked->is_now ? describe_numbers(builder, number, ARRAY_SIZE(number)) : 0;
}

int describe_python(struct snapshot_builder *builder, const struct target *target, const struct settings *settings)
{
	static const char *const frames[] = {
		[PYTHON_FRAMES_PYTHON] = "python", [PYTHON_FRAMES_MIXED] = "mixed", [PYTHON_FRAMES_NATIVE] = "native",
	};
	const struct target_python *python = &target->python;
	int err = 0;

	if (*python->why_not.text)
		err = snapshot_builder__metadata(builder, "python_not_recorded", python->why_not.text);
	if (err || !python->is_used)
		return err;
	err = snapshot_builder__metadata(builder, "python_frames", frames[settings->python_frames]);
	if (!err && python->retags)
		err = snapshot_builder__metadata(builder, "python_retag", "1");
	if (!err && mappings_use(&target->mappings, python->object))
		err = snapshot_builder__metadata(builder, "python_file",
						 target->mappings.objects->object[python->object]->path);
	if (!err && settings->has_pools)
		err = snapshot_builder__metadata(builder, "sampler_kind", "pools");
	return err ?: describe_older_python(builder, &python->checked);
}

void add_python_losses(const struct target *target, uint64_t *loss)
{
	const struct target_python *python = &target->python;

	loss[LOSS_python_codes_missing] = python->codes_missing;
	loss[LOSS_python_places_unknown] = python->unknown_nr;
	loss[LOSS_python_blocks_unseen] = python->checked.unseen;
	loss[LOSS_python_blocks_gone] = python->checked.gone;
	loss[LOSS_python_creations_unknown] = python->creation_unknown_nr;
}
