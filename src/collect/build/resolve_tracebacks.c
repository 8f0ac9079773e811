// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/build/resolve_tracebacks.h"

#include <string.h>

#include "base/array.h"
#include "collect/build/traceback_versions.h"
#include "process/mapping_history.h"
#include "shared/python_calls.h"
#include "shared/unwind_types.h"
#include "snapshot.h"
#include "elf/machine.h"

/* Whether the code before a place can be a call (resolve_tracebacks.h), as far as the file has that code. */
static bool follows_a_call(const struct object *object, uint64_t offset)
{
	uint8_t code[RETURN_ADDRESS_BEFORE + RETURN_ADDRESS_AFTER];
	size_t before = RETURN_ADDRESS_BEFORE, got;

	if (!object->probe_info || object->has_changed)
		return true; /* the code is not known */
	if (offset < before)
		return false;
	got = object_read(object, offset - before, code, sizeof(code));
	return got >= before && is_return_address(code + before, before, got - before, machine_here());
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

/* Addresses as they were mapped at a time. */
struct mapped_then {
	const struct mappings *mappings;
	uint64_t time_ns;
};

/* NULL: of none, or *ret_is_unsure. A copy of a page in the file of a sampler is code of the page's own file. */
static const struct mapping *find_mapping_then(const struct mapped_then *then, uint64_t *pc, bool *ret_is_unsure)
{
	const struct mapping *mapping = history_find(then->mappings, *pc, then->time_ns, ret_is_unsure);
	const struct unwind_copies *copies;
	uint64_t offset;

	if (!mapping || mapping->object == OBJECT_NONE)
		return mapping;
	offset = *pc - mapping->start + mapping->offset;
	copies = &then->mappings->objects->object[mapping->object]->copies;
	if (!copies->offset || offset < copies->offset)
		return mapping;
	*pc = copies->original + offset - copies->offset;
	return history_find(then->mappings, *pc, then->time_ns, ret_is_unsure);
}

/*
 * Finds the object and the offset of a return address. False: it cannot be a return address. The direct caller
 * was read at the return itself and is always right, and so are addresses from tables (is_sure). An address that
 * a walk by frame pointers found may be junk.
 */
static bool find_code_place(struct known_traceback *known, const struct mapped_then *then, uint64_t pc, bool is_sure,
			    struct code_place *ret)
{
	const struct mapping *mapping;
	bool is_unsure;

	if (pc & PYTHON_FRAME) {
		*ret = (struct code_place){ .object = OBJECT_OF_SOURCE, .offset = pc };
		return true;
	}
	mapping = find_mapping_then(then, &pc, &is_unsure);
	*ret = (struct code_place){ .object = is_unsure ? OBJECT_GONE : OBJECT_NONE, .offset = pc };
	known->has_unsure |= is_unsure;
	if (!mapping) {
		known->unmapped_nr += is_sure && !is_unsure;
		return is_sure || is_unsure;
	}
	if (mapping->object == OBJECT_NONE)
		return true; /* code made at run time */
	ret->object = mapping->object;
	ret->offset = pc - mapping->start + mapping->offset;
	return is_sure || follows_a_call(then->mappings->objects->object[ret->object], ret->offset);
}

/*
 * A function without a frame pointer leaves its caller's in the register. The address that the walk finds next is
 * the return address of that caller or of one further out.
 */
static bool hides_its_caller(const struct mappings *mappings, const struct code_place *place)
{
	return place->object < OBJECT_OF_SOURCE &&
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

/* The file says that a stack begins at this frame. Nothing calls Go's goexit, to which each goroutine returns. */
static bool is_root(const struct traceback *traceback, uint32_t nr)
{
	return traceback->end == UNWIND_ROOT && nr + 1 == traceback->total_nframe;
}

int resolve_at(struct tracebacks *tracebacks, const struct mappings *mappings, uint64_t time_ns,
	       const struct traceback *traceback, struct known_traceback *ret)
{
	const struct mapped_then then = { mappings, time_ns };
	struct known_traceback known = {
		.until_ns = UINT64_MAX,
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

		if (!find_code_place(&known, &then, traceback->pc[found], !is_guess || is_root(traceback, found), &next)) {
			known.flags = SNAP_TRACEBACK_BROKEN;
			known.total_nframe = known.nframe;
			break;
		}
		next.is_guessed = is_guess && traceback->by_tables;
		next.is_exact = is_exact(traceback, found);
		next.is_logical = traceback->by_tables & TRACEBACK_IS_LOGICAL;
		known.has_guessed |= next.is_guessed;
		if (found && !traceback->by_tables && hides_its_caller(mappings, &place))
			err = add_skipped(tracebacks, &known);
		err = err ?: array_push(tracebacks, place, next);
		known.nframe++;
		place = next;
	}
	/* Deeper walks end in the C library's start-up code, where no caller is missing. */
	if (!err && found == 1 && !traceback->by_tables && hides_its_caller(mappings, &place))
		err = add_skipped(tracebacks, &known);
	if (!err)
		*ret = known;
	return err;
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

int resolve_retired(struct tracebacks *tracebacks, const struct mappings *mappings, uint64_t id,
		    const struct traceback *traceback)
{
	int err = versions_resolve(tracebacks, mappings, id, traceback);

	if (!err)
		versions_retire(tracebacks, tracebacks_find(tracebacks, id), &traceback->churn);
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

	for (; known; known = tracebacks_find(tracebacks, known->next_id))
		known->is_held = true;
}

int resolve_drained(struct tracebacks *tracebacks, const struct mappings *mappings, uint64_t id,
		    const struct traceback *traceback)
{
	int err = versions_resolve(tracebacks, mappings, id, traceback);

	if (err)
		return err;
	resolve_held(tracebacks, id);
	versions_count(tracebacks, tracebacks_find(tracebacks, id), &traceback->churn);
	return 0;
}

/* ---- return addresses ---- */

bool is_return_address(const uint8_t *code, size_t before, size_t after, uint16_t elf_machine)
{
	const struct machine *machine = machine_of(elf_machine);

	return !machine || machine->follows_call(code, before, after);
}
