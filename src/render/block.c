// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* One live block, its traceback and its age. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/units.h"
#include "engine.h"
#include "render/clean.h"
#include "render/statistic_text.h"
#include "render/formats.h"
#include "render/json_parts.h"
#include "render/readable_name.h"
#include "snapshot.h"

struct block {
	struct snap_trace trace;
	struct frame_view *frame;
	uint32_t nframe, total_nframe;
	bool has_age;
	uint64_t age_ns;
};

static int block_read(const struct snapshot *snapshot, uint64_t at, struct block *ret)
{
	uint64_t now_ns = snapshot__metadata_u64(snapshot, "monotonic_ns", 0);

	*ret = (struct block){ .trace = snapshot__trace(snapshot, at) };
	ret->has_age = ret->trace.birth_ns && now_ns >= ret->trace.birth_ns;
	ret->age_ns = now_ns - ret->trace.birth_ns;
	return traceback_read(snapshot, ret->trace.traceback, &ret->frame, &ret->nframe,
			      &ret->total_nframe);
}

static int put_facts(FILE *out, const struct snapshot *snapshot, const struct block *block)
{
	const struct snap_trace *trace = &block->trace;
	char size[UNIT_TEXT_MAX], age[32] = "", thread[32] = "", domain[DOMAIN_TEXT_MAX], weight[64] = "";

	if (block->has_age)
		snprintf(age, sizeof(age), ", %.3f s old", block->age_ns / 1e9);
	if (trace->thread)
		snprintf(thread, sizeof(thread), ", by thread %" PRIu32, trace->thread);
	if (trace->weight > 1)
		snprintf(weight, sizeof(weight), "; a sample, which stands for %.7g blocks", trace->weight);
	return put_line(out, "0x%" PRIx64 ": %s in domain %s%s%s%s", trace->address,
			format_size(size, trace->size, false),
			domain_text(domain, snapshot, trace->domain), thread, age, weight);
}

static int put_block_frames(FILE *out, const struct block *block, const struct readable_names *names)
{
	int err = 0;

	for (uint32_t i = block->nframe; i-- && !err;) {
		size_t tail_at;
		char *text = frame_text(names, &block->frame[i], &tail_at);

		err = text ? put_line(out, "    %s", text) : -ENOMEM;
		free(text);
	}
	return err;
}

int text_put_block(FILE *out, const struct snapshot *snapshot, uint64_t at, bool full_names)
{
	struct readable_names names = {};
	struct block block;
	int err = block_read(snapshot, at, &block);

	if (!err && !full_names)
		err = readable_names_add(&names, &(struct statistic){ .frame = block.frame, .nframe = block.nframe }, 1,
					 KEY_TRACEBACK);
	err = err ?: put_facts(out, snapshot, &block);
	err = err ?: put_block_frames(out, &block, full_names ? NULL : &names);
	readable_names_release(&names);
	free(block.frame);
	return err;
}

static int set_facts(json_t *object, const struct block *block)
{
	const struct snap_trace *trace = &block->trace;
	int err = json_set_text(object, "schema", "allocsnap.block/2");

	err = err ?: json_set_uint(object, "address", trace->address);
	err = err ?: json_set_uint(object, "size", trace->size);
	err = err ?: json_set_uint(object, "domain", trace->domain);
	if (trace->thread)
		err = err ?: json_set_uint(object, "thread", trace->thread);
	if (trace->weight > 1)
		err = err ?: json_set(object, "weight", json_real(trace->weight));
	if (block->has_age)
		err = err ?: json_set_uint(object, "age_ns", block->age_ns);
	if (block->total_nframe)
		err = err ?: json_set_uint(object, "total_nframe", block->total_nframe);
	return err;
}

int json_put_block(FILE *out, const struct snapshot *snapshot, uint64_t at, bool full_names)
{
	json_t *object = json_object();
	struct block block;
	int err = block_read(snapshot, at, &block);

	(void)full_names; /* names in JSON are always in full */
	err = err ?: set_facts(object, &block);
	err = err ?: json_set(object, "traceback", json_frames(block.frame, block.nframe));
	err = json_put(out, json_unless(err, object), 0);
	free(block.frame);
	if (!err && putc('\n', out) < 0)
		err = -errno ?: -EIO;
	return err;
}
