// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/shared_names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/idmap.h"
#include "snapshot.h"

struct named_frame {
	int64_t place; /* a hash; 0: not known */
	uint32_t id;
	uint32_t filename, function, lineno, first_line;
	uint8_t detail;
	bool is_inlined;
};

/* The names of a place: inlined calls, then the frame that they were inlined into. */
struct name_chain {
	size_t first; /* in joined[] */
	uint32_t nr;  /* 0: not known yet */
	uint8_t detail;
	bool is_disputed, is_refused; /* snapshots differ; a frame lacks its names for that reason */
};

int64_t nameable_place(const char *build_id, uint64_t offset, uint32_t flags)
{
	uint64_t seed = offset * 2 + !!(flags & SNAP_FRAME_EXACT);

	if (!*build_id || !offset || flags & SNAP_FRAME_SKIPPED)
		return 0;
	return (hash_bytes(build_id, strlen(build_id), seed) & INT64_MAX) ?: 1;
}

static struct name_chain *find_name_chain(const struct shared_names *names, int64_t place)
{
	const struct known_row *row = place ? known_find(&names->places, place, 0) : NULL;

	return row ? &names->chain[row->number] : NULL;
}

static int add_place(struct shared_names *names, const struct named_frame *frame)
{
	const struct known_row row = { .hash.id = frame->place, .number = names->chain_nr };
	const struct name_chain chain = { .detail = frame->detail };

	return array_push(names, chain, chain) ?: known_add(&names->places, &row);
}

int shared_names_add_frame(struct shared_names *names, const struct nameable_frame *from, uint32_t id)
{
	const struct named_frame frame = {
		.place = nameable_place(from->build_id, from->offset, from->flags),
		.id = id,
		.filename = from->lineno ? from->filename : 0, /* without a line it is the object's path */
		.function = from->function,
		.lineno = from->lineno,
		.first_line = from->first_line,
		.detail = from->lineno ? DETAIL_LINE : from->function ? DETAIL_FUNCTION : DETAIL_NONE,
		.is_inlined = from->flags & SNAP_FRAME_INLINE,
	};
	const struct name_chain *chain = find_name_chain(names, frame.place);
	int err = array_push(names, frame, frame);

	if (err || !frame.place || frame.is_inlined)
		return err;
	if (!chain)
		return add_place(names, &frame);
	names->is_needed |= chain->detail != frame.detail;
	return 0;
}

/* Returns the number of frames, from number[0] on, that are one place. */
static size_t chain_length(const struct shared_names *names, const uint32_t *number, size_t nr)
{
	size_t len = 1;

	while (len < nr && names->frame[number[len - 1]].is_inlined &&
	       names->frame[number[len - 1]].place == names->frame[number[len]].place)
		len++;
	return len;
}

static uint8_t detail_of(const struct shared_names *names, const uint32_t *number, size_t len)
{
	return len > 1 ? DETAIL_LINE : names->frame[number[0]].detail;
}

static bool is_same_name(const struct named_frame *a, const struct named_frame *b)
{
	return a->function == b->function && a->filename == b->filename && a->lineno == b->lineno &&
	       (a->first_line == b->first_line || !a->first_line || !b->first_line);
}

/* Whether two chains of a place say the same, as far as both say anything. */
static bool is_agreed(const struct shared_names *names, const struct name_chain *chain, const uint32_t *number,
		      size_t len)
{
	const uint32_t *known = &names->joined[chain->first];
	uint8_t detail = detail_of(names, number, len);

	if (chain->detail == DETAIL_NONE || detail == DETAIL_NONE)
		return true;
	if (chain->detail != detail)
		return names->frame[known[chain->nr - 1]].function == names->frame[number[len - 1]].function;
	for (size_t i = 0; i < len && chain->nr == len; i++)
		if (!is_same_name(&names->frame[known[i]], &names->frame[number[i]]))
			return false;
	return chain->nr == len;
}

static int learn_chain(struct shared_names *names, const uint32_t *number, size_t len)
{
	const struct named_frame *last = &names->frame[number[len - 1]];
	struct name_chain *chain = last->is_inlined ? NULL : find_name_chain(names, last->place);
	uint8_t detail = detail_of(names, number, len);
	int err = 0;

	if (!chain || len > NAME_CHAIN_MAX)
		return 0;
	if (chain->nr && !is_agreed(names, chain, number, len))
		chain->is_disputed = true;
	if (chain->nr && chain->detail >= detail)
		return 0;
	chain->first = names->joined_nr;
	chain->nr = len;
	chain->detail = detail;
	for (size_t i = 0; i < len && !err; i++)
		err = array_push(names, joined, number[i]);
	return err;
}

int shared_names_learn(struct shared_names *names, const uint32_t *number, size_t nr)
{
	int err = 0;

	for (size_t at = 0, len; at < nr && !err; at += len) {
		len = chain_length(names, number + at, nr - at);
		err = learn_chain(names, number + at, len);
	}
	return err;
}

/* NULL: the frames themselves say as much, or nothing is lent. */
static const struct name_chain *better_chain(struct shared_names *names, const uint32_t *number, size_t len)
{
	const struct named_frame *last = &names->frame[number[len - 1]];
	struct name_chain *chain = last->is_inlined ? NULL : find_name_chain(names, last->place);

	if (!chain || !chain->nr || chain->detail <= detail_of(names, number, len))
		return NULL;
	if (!chain->is_disputed)
		return chain;
	names->refused_nr += !chain->is_refused;
	chain->is_refused = true;
	return NULL;
}

static size_t applied_nr(struct shared_names *names, const uint32_t *number, size_t nr)
{
	size_t sum = 0;

	for (size_t at = 0, len; at < nr; at += len) {
		const struct name_chain *chain;

		len = chain_length(names, number + at, nr - at);
		chain = better_chain(names, number + at, len);
		sum += chain ? chain->nr : len;
	}
	return sum;
}

int shared_names_apply(struct shared_names *names, const uint32_t *number, size_t nr, uint32_t **ids,
		       size_t *ids_alloc, size_t *ret_nr)
{
	size_t all = names->is_needed ? applied_nr(names, number, nr) : nr;
	bool fits = names->is_needed && all <= SNAP_TRACEBACK_MAX;
	size_t to = 0;
	int err = array_reserve(ids, ids_alloc, all > nr ? all : nr);

	for (size_t at = 0, len; at < nr && !err; at += len) {
		const struct name_chain *chain = NULL;

		len = fits ? chain_length(names, number + at, nr - at) : 1;
		if (fits)
			chain = better_chain(names, number + at, len);
		for (size_t i = 0; i < (chain ? chain->nr : len); i++)
			(*ids)[to++] = names->frame[chain ? names->joined[chain->first + i] : number[at + i]].id;
	}
	*ret_nr = to;
	return err;
}

void shared_names_release(struct shared_names *names)
{
	free(names->frame);
	known_release(&names->places);
	free(names->chain);
	free(names->joined);
	*names = (struct shared_names){};
}
