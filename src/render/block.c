// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* One live block, its traceback and its age. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/units.h"
#include "engine.h"
#include "render/formats.h"
#include "render/json_parts.h"
#include "render/readable_name.h"
#include "render/statistic_text.h"
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

static void emit_block_facts(struct emitter *out, const struct snapshot *snapshot, const struct block *block)
{
	const struct snap_trace *trace = &block->trace;
	char size[UNIT_TEXT_MAX], age[32] = "", thread[32] = "", domain[DOMAIN_TEXT_MAX], weight[64] = "";

	emit_text(out, "schema", "allocsnap.block/2");
	emit_uint(out, "address", trace->address);
	emit_uint(out, "size", trace->size);
	emit_uint(out, "domain", trace->domain);
	if (trace->thread) {
		emit_uint(out, "thread", trace->thread);
		snprintf(thread, sizeof(thread), ", by thread %" PRIu32, trace->thread);
	}
	if (trace->weight > 1) {
		emit_real(out, "weight", trace->weight);
		snprintf(weight, sizeof(weight), "; a sample, which stands for %.7g blocks", trace->weight);
	}
	if (block->has_age) {
		emit_uint(out, "age_ns", block->age_ns);
		snprintf(age, sizeof(age), ", %.3f s old", block->age_ns / 1e9);
	}
	if (block->total_nframe)
		emit_uint(out, "total_nframe", block->total_nframe);
	emit_line(out, "0x%" PRIx64 ": %s in domain %s%s%s%s", trace->address, format_size(size, trace->size, false),
		  domain_text(domain, snapshot, trace->domain), thread, age, weight);
}

static void put_block_frames(struct emitter *out, const struct block *block, const struct readable_names *names)
{
	for (uint32_t i = block->nframe; i-- && emits_text(out);) {
		size_t tail_at;
		char *text = frame_text(names, &block->frame[i], &tail_at);

		if (text)
			emit_line(out, "    %s", text);
		else
			emit_err(out, -ENOMEM);
		free(text);
	}
}

/* Names in JSON are always in full. */
static int put_block(FILE *file, const struct snapshot *snapshot, uint64_t at, bool full_names, bool is_json)
{
	struct emitter out = emit_to(file, is_json);
	struct readable_names names = {};
	struct block block;

	emit_err(&out, block_read(snapshot, at, &block));
	if (emits_text(&out) && !full_names)
		emit_err(&out, readable_names_add(&names, &(struct statistic){ .frame = block.frame, .nframe = block.nframe }, 1,
						  KEY_TRACEBACK));
	emit_block_facts(&out, snapshot, &block);
	emit_frames(&out, block.frame, block.nframe);
	put_block_frames(&out, &block, full_names ? NULL : &names);
	readable_names_release(&names);
	free(block.frame);
	return emit_finish(&out);
}

int text_put_block(FILE *out, const struct snapshot *snapshot, uint64_t at, bool full_names)
{
	return put_block(out, snapshot, at, full_names, false);
}

int json_put_block(FILE *out, const struct snapshot *snapshot, uint64_t at, bool full_names)
{
	return put_block(out, snapshot, at, full_names, true);
}
