// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/build/resolve_tracebacks.h"

#include <elf.h>
#include <errno.h>

#include "base/array.h"
#include "collect/build/return_address.h"
#include "snapshot.h"
#include "shared/python_calls.h"
#include "shared/unwind_frame.h"

/* Files for another machine have no facts. */
#ifdef __aarch64__
#define OUR_MACHINE EM_AARCH64
#else
#define OUR_MACHINE EM_X86_64
#endif

/* Whether the code before a place can be a call (return_address.h), as far as the file has that code. */
static bool follows_a_call(const struct object *object, uint64_t offset)
{
	uint8_t code[RETURN_ADDRESS_BEFORE + RETURN_ADDRESS_AFTER];
	size_t before = RETURN_ADDRESS_BEFORE, got;

	if (!object->facts || object->has_changed)
		return true; /* the code is not known */
	if (offset < before)
		return false;
	got = object_read(object, offset - before, code, sizeof(code));
	return got >= before && is_return_address(code + before, before, got - before, OUR_MACHINE);
}

static bool is_guessed(const struct traceback *traceback, uint32_t at)
{
	if (traceback->by_tables)
		return traceback->guessed[at / 64] >> at % 64 & 1;
	return at > 0;
}

static bool is_exact(const struct traceback *traceback, uint32_t at)
{
	return traceback->exact[at / 64] >> at % 64 & 1;
}

/* A copy of a page in the file of a sampler is code of the page's own file. */
static const struct mapping *mapping_of_original(const struct mappings *mappings, const struct mapping *mapping, uint64_t *pc)
{
	uint64_t offset = *pc - mapping->start + mapping->offset;
	const struct unwind_copies *copies;

	if (mapping->object == OBJECT_NONE)
		return mapping;
	copies = &mappings->objects->object[mapping->object]->copies;
	if (!copies->offset || offset < copies->offset)
		return mapping;
	*pc = copies->original + offset - copies->offset;
	return mappings_find(mappings, *pc);
}

/*
 * Finds the object and the offset of a return address. False: it cannot be a return address. The direct caller
 * was read at the return itself and is always right, and so are addresses from tables (is_sure). An address that
 * a walk by frame pointers found may be junk.
 */
static bool find_code_place(struct tracebacks *tracebacks, const struct mappings *mappings, uint64_t pc, bool is_sure,
			    struct code_place *ret)
{
	const struct mapping *mapping;

	if (pc & PYTHON_FRAME) {
		*ret = (struct code_place){ .object = OBJECT_PYTHON, .offset = pc };
		return true;
	}
	mapping = mappings_find(mappings, pc);
	if (mapping)
		mapping = mapping_of_original(mappings, mapping, &pc);
	*ret = (struct code_place){ .object = OBJECT_NONE, .offset = pc };
	if (!mapping) {
		tracebacks->frames_unmapped += is_sure;
		return is_sure;
	}
	if (mapping->object == OBJECT_NONE)
		return true; /* code made at run time */
	ret->object = mapping->object;
	ret->offset = pc - mapping->start + mapping->offset;
	return is_sure || follows_a_call(mappings->objects->object[ret->object], ret->offset);
}

/*
 * A function without a frame pointer leaves its caller's in the register. The address that the walk finds next is
 * the return address of that caller or of one further out.
 */
static bool hides_its_caller(const struct mappings *mappings, const struct code_place *place)
{
	return place->object != OBJECT_NONE &&
	       !objects_keeps_frame_pointer(mappings->objects, place->object, place->offset);
}

static int add_skipped(struct tracebacks *tracebacks, struct known_traceback *known)
{
	struct code_place skipped = { .object = OBJECT_SKIPPED };

	known->nframe++;
	known->total_nframe++;
	known->has_skipped = true;
	return array_push(tracebacks, place, skipped);
}

static uint32_t end_flag(const struct traceback *traceback)
{
	static const uint8_t ends[UNWIND_END_NR] = {
		[UNWIND_ROOT] = SNAP_END_ROOT,
		[UNWIND_NO_RULE] = SNAP_END_NO_RULE,
		[UNWIND_UNSUPPORTED] = SNAP_END_UNSUPPORTED,
		[UNWIND_UNREADABLE] = SNAP_END_UNREADABLE,
		[UNWIND_BACKWARDS] = SNAP_END_BACKWARDS,
		[UNWIND_NO_FP] = SNAP_END_NO_FP,
		[UNWIND_NO_TABLE] = SNAP_END_NO_TABLE,
		[UNWIND_NO_CODE] = SNAP_END_NO_CODE,
		[UNWIND_BUSY] = SNAP_END_BUSY,
	};

	return SNAP_TRACEBACK_END_FLAG(traceback->end < UNWIND_END_NR ? ends[traceback->end] : 0);
}

static int resolve_new_traceback(struct tracebacks *tracebacks, const struct mappings *mappings, uint64_t id,
				 const struct traceback *traceback)
{
	struct known_traceback known = {
		.id = id,
		.first = tracebacks->place_nr,
		.total_nframe = traceback->total_nframe,
		.flags = end_flag(traceback),
	};
	struct code_place place = { .object = OBJECT_NONE }, next;
	uint32_t found = 0;
	int err = 0;

	if (traceback->total_nframe > traceback->nframe)
		known.flags |= SNAP_TRACEBACK_LIMITED;
	for (; found < traceback->nframe && !err; found++) {
		bool is_guess = is_guessed(traceback, found);

		if (!find_code_place(tracebacks, mappings, traceback->pc[found], !is_guess, &next)) {
			known.flags = SNAP_TRACEBACK_BROKEN;
			known.total_nframe = known.nframe;
			break;
		}
		next.is_guessed = is_guess && traceback->by_tables;
		next.is_exact = is_exact(traceback, found);
		known.has_guessed |= next.is_guessed;
		if (found && !traceback->by_tables && hides_its_caller(mappings, &place))
			err = add_skipped(tracebacks, &known);
		if (!err)
			err = array_push(tracebacks, place, next);
		known.nframe++;
		place = next;
	}
	/* Deeper walks end in the C library's start-up code, where no caller is missing. */
	if (!err && found == 1 && !traceback->by_tables && hides_its_caller(mappings, &place))
		err = add_skipped(tracebacks, &known);
	if (!err)
		err = array_push(tracebacks, traceback, known);
	return err ?: idmap_add(&tracebacks->ids, id, tracebacks->traceback_nr - 1);
}

struct churn churn_sum(const struct churn *a, const struct churn *b)
{
	return (struct churn){
		.allocations = a->allocations + b->allocations,
		.allocated_bytes = a->allocated_bytes + b->allocated_bytes,
		.temporary = a->temporary + b->temporary,
		.temporary_bytes = a->temporary_bytes + b->temporary_bytes,
	};
}

/* Finds a traceback, or resolves it if it is not known yet. */
static int make_known_traceback(struct tracebacks *tracebacks, const struct mappings *mappings, uint64_t id,
				const struct traceback *traceback, struct known_traceback **ret)
{
	int err = tracebacks_find(tracebacks, id) ? 0 : resolve_new_traceback(tracebacks, mappings, id, traceback);

	if (!err)
		*ret = tracebacks_find(tracebacks, id);
	return err;
}

int resolve_traceback(struct tracebacks *tracebacks, const struct mappings *mappings, uint64_t id,
		      const struct traceback *traceback)
{
	struct known_traceback *known;

	return make_known_traceback(tracebacks, mappings, id, traceback, &known);
}

int resolve_retired(struct tracebacks *tracebacks, const struct mappings *mappings, uint64_t id,
		    const struct traceback *traceback)
{
	struct known_traceback *known;
	int err = make_known_traceback(tracebacks, mappings, id, traceback, &known);

	if (!err)
		known->retired = churn_sum(&known->retired, &traceback->churn);
	return err;
}

void resolve_begin(struct tracebacks *tracebacks)
{
	for (size_t i = 0; i < tracebacks->traceback_nr; i++) {
		tracebacks->traceback[i].churn = tracebacks->traceback[i].retired;
		tracebacks->traceback[i].is_held = false;
	}
}

void resolve_held(struct tracebacks *tracebacks, uint64_t id)
{
	struct known_traceback *known = tracebacks_find(tracebacks, id);

	if (known)
		known->is_held = true;
}

int resolve_drained(struct tracebacks *tracebacks, const struct mappings *mappings, uint64_t id,
		    const struct traceback *traceback)
{
	struct known_traceback *known;
	int err = make_known_traceback(tracebacks, mappings, id, traceback, &known);

	if (err)
		return err;
	known->is_held = true;
	known->churn = churn_sum(&known->retired, &traceback->churn);
	return 0;
}
