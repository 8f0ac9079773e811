// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/returns.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/idmap.h"
#include "elf/elf_object.h"
#include "base/reason.h"
#include "elf/machine.h"

#define INSN_MAX 100000 /* instructions followed for one function; the same limit holds for switch tables */
#define SLOT_MAX 256	/* PLT slots looked up for one function: each costs a search of all symbols */
#define WINDOW_BYTES 4096
#define NEAR_BYTES 64

struct extent {
	uint64_t start, end; /* end 0: not known */
};

struct finder {
	const struct code_source *source;
	struct returns *returns;
	struct reason *why;
	struct insn_reader reader;
	struct insn insn; /* the current instruction */

	uint8_t window[WINDOW_BYTES];
	uint64_t window_start;
	size_t window_bytes;

	struct idmap seen_ids;
	uint64_t *seen; /* every instruction that was followed */
	size_t seen_nr, seen_alloc;
	uint64_t *todo; /* targets of branches, still to be followed */
	size_t todo_nr, todo_alloc;

	struct extent extent; /* of the function that contains the current instruction */
	struct extent swept; /* the extent of the last follow_all() */
	size_t swept_nr, slot_nr;
};

static int refuse_function(struct finder *finder, const char *what, uint64_t vaddr)
{
	return reason_set(finder->why, -ENOTSUP, "%s at 0x%llx", what, (unsigned long long)vaddr);
}

/* ---- decoding ---- */

static bool decode_insn(struct finder *finder, uint64_t vaddr)
{
	const struct code_source *source = finder->source;
	uint64_t at = vaddr - finder->window_start;

	if (at > finder->window_bytes || finder->window_bytes - at < INSN_BYTES_MAX) {
		finder->window_start = vaddr;
		finder->window_bytes = source->read(source->object, vaddr, finder->window,
						    WINDOW_BYTES);
		at = 0;
	}
	return finder->reader.machine->read(&finder->reader, finder->window + at, finder->window_bytes - at, vaddr,
					    &finder->insn) &&
	       !finder->insn.is_ambiguous;
}

static void find_extent(struct finder *finder, uint64_t vaddr)
{
	const struct code_source *source = finder->source;
	struct extent *extent = &finder->extent;

	if (extent->end && vaddr >= extent->start && vaddr < extent->end)
		return;
	if (!source->extent(source->object, vaddr, &extent->start, &extent->end))
		extent->end = 0;
}

static bool is_in_extent(const struct finder *finder, uint64_t vaddr)
{
	return finder->extent.end && vaddr >= finder->extent.start && vaddr < finder->extent.end;
}

/* ---- instructions that were seen ---- */

static bool is_seen(const struct finder *finder, uint64_t vaddr)
{
	return idmap_find_key(&finder->seen_ids, &vaddr, sizeof(vaddr), finder->seen, sizeof(vaddr)) != IDMAP_NONE;
}

static int mark_insn_seen(struct finder *finder, uint64_t vaddr)
{
	if (finder->seen_nr == INSN_MAX)
		return refuse_function(finder, "too much code", vaddr);
	return idmap_push(&finder->seen_ids, finder, seen, vaddr, vaddr);
}

/* ---- where an instruction leads ---- */

enum step {
	STEP_GO_ON,
	STEP_END, /* the next instruction is not reached from this one */
};

static int finder_add_place(struct finder *finder, uint64_t vaddr, bool is_in_argument)
{
	struct return_place place = { vaddr, is_in_argument };

	return array_push(finder->returns, place, place);
}

/* Handles the instruction at `from`, which jumps out of the function, on a condition or always. */
static int follow_exit(struct finder *finder, enum exit_kind kind, uint64_t target, uint64_t from,
		       bool always)
{
	switch (kind) {
	case EXIT_FOLLOW:
		return array_push(finder, todo, target);
	case EXIT_PROBED:
		finder->returns->leads_to_probed = true;
		return 0;
	case EXIT_RETURNS_ARGUMENT:
		if (always)
			return finder_add_place(finder, from, true);
		return refuse_function(finder, "a jump on a condition to memset or the like", from);
	case EXIT_UNKNOWN:
		break;
	}
	return refuse_function(finder, "a jump to an address from a register or from memory", from);
}

/* Whether a PLT's code is there. */
static bool is_plt_jump(const struct finder *finder, uint64_t vaddr, uint64_t *ret_slot)
{
	const struct code_source *source = finder->source;
	uint8_t code[STUB_BYTES_MAX];

	return code_is_stub(&finder->reader, code, source->read(source->object, vaddr, code, sizeof(code)), vaddr, ret_slot);
}

static enum exit_kind follow_slot(struct finder *finder, uint64_t slot, uint64_t *ret_target)
{
	const struct code_source *source = finder->source;

	return finder->slot_nr++ < SLOT_MAX ? source->slot(source->object, slot, ret_target) :
					      EXIT_UNKNOWN;
}

static int follow_target(struct finder *finder, bool always)
{
	const struct code_source *source = finder->source;
	uint64_t from = finder->insn.vaddr, target = finder->insn.target, slot;
	enum exit_kind kind = EXIT_FOLLOW;

	if (is_in_extent(finder, target))
		return array_push(finder, todo, target);
	if (source->returns_argument(source->object, target))
		kind = EXIT_RETURNS_ARGUMENT;
	else if (is_plt_jump(finder, target, &slot))
		kind = follow_slot(finder, slot, &target);
	return follow_exit(finder, kind, target, from, always);
}

/* Whether a table of addresses leads into the function; addresses of functions would be a call. */
static bool is_address_table(const struct finder *finder, uint64_t table)
{
	const struct code_source *source = finder->source;
	uint64_t first;

	return source->read(source->object, table, &first, sizeof(first)) == sizeof(first) &&
	       is_in_extent(finder, first) && first != finder->extent.start;
}

/* The table's size is not known, so every instruction of the function may be a target. */
static int follow_all(struct finder *finder)
{
	struct extent extent = finder->extent;
	int err = 0;

	if (finder->swept.start == extent.start && finder->swept.end == extent.end)
		return 0;
	finder->swept = extent;
	for (uint64_t at = extent.start; at < extent.end && !err; at += finder->insn.bytes) {
		if (finder->swept_nr++ == INSN_MAX)
			return refuse_function(finder, "too much code", at);
		if (!decode_insn(finder, at) || finder->insn.may_be_data)
			return refuse_function(finder, "data between the code of a switch", at);
		err = array_push(finder, todo, at);
	}
	return err;
}

static int follow_slot_jump(struct finder *finder)
{
	uint64_t target = 0;
	enum exit_kind kind = follow_slot(finder, finder->insn.target, &target);

	return follow_exit(finder, kind, target, finder->insn.vaddr, true);
}

static int follow_table(struct finder *finder, bool is_table)
{
	uint64_t at = finder->insn.vaddr;

	return is_table && is_in_extent(finder, at) ? follow_all(finder) : follow_exit(finder, EXIT_UNKNOWN, 0, at, true);
}

/*
 * A call of the next few bytes only pushes an address, and the `ret` there is no return
 * (retpolines).
 */
static int check_call(struct finder *finder)
{
	const struct insn *insn = &finder->insn;
	uint64_t next = insn->vaddr + insn->bytes;

	if (insn->flow == FLOW_CALL && insn->target - next < NEAR_BYTES &&
	    (!finder->extent.end || is_in_extent(finder, insn->target)))
		return refuse_function(finder, "a call that is no call", insn->vaddr);
	return 0;
}

static int check_insn_step(struct finder *finder, enum step *step)
{
	const struct insn *insn = &finder->insn;

	*step = STEP_END;
	switch (insn->flow) {
	case FLOW_RETURN:
		return finder_add_place(finder, insn->vaddr, false);
	case FLOW_STOP:
		return 0;
	case FLOW_JUMP:
		return follow_target(finder, true);
	case FLOW_JUMP_SLOT:
		return follow_slot_jump(finder);
	case FLOW_JUMP_OFFSETS:
		return follow_table(finder, true);
	case FLOW_JUMP_ADDRESSES:
		return follow_table(finder, is_address_table(finder, insn->target));
	case FLOW_JUMP_ANYWHERE:
		return follow_table(finder, false);
	case FLOW_UNKNOWN:
		return refuse_function(finder, insn->what, insn->vaddr);
	case FLOW_CALL:
	case FLOW_CALL_SLOT:
	case FLOW_CALL_ANYWHERE:
		if (insn->vaddr + insn->bytes != finder->extent.end)
			*step = STEP_GO_ON;
		return check_call(finder);
	case FLOW_BRANCH:
		*step = STEP_GO_ON;
		return follow_target(finder, false);
	case FLOW_ON:
		*step = STEP_GO_ON;
	}
	return 0;
}

static int follow_straight_line(struct finder *finder, uint64_t at)
{
	enum step step = STEP_GO_ON;
	int err = 0;

	insn_reader__begin_line(&finder->reader);
	while (!err && step == STEP_GO_ON && !is_seen(finder, at)) {
		find_extent(finder, at);
		if (!decode_insn(finder, at))
			return refuse_function(finder, "bytes that are no known instruction", at);
		at += finder->insn.bytes;
		err = mark_insn_seen(finder, finder->insn.vaddr) ?: check_insn_step(finder, &step);
	}
	return err;
}

static void sort_returns(struct returns *returns)
{
	struct return_place *place = returns->place;
	size_t kept = 0;

	if (returns->place_nr)
		qsort(place, returns->place_nr, sizeof(*place), array_by_number);
	for (size_t i = 0; i < returns->place_nr; i++)
		if (!kept || place[kept - 1].vaddr != place[i].vaddr)
			place[kept++] = place[i];
	returns->place_nr = kept;
}

static int find_returns(struct finder *finder, uint64_t entry)
{
	int err = array_push(finder, todo, entry);

	while (!err && finder->todo_nr)
		err = follow_straight_line(finder, finder->todo[--finder->todo_nr]);
	if (!err && !finder->returns->place_nr && !finder->returns->leads_to_probed)
		err = refuse_function(finder, "no return of the function that begins", entry);
	sort_returns(finder->returns);
	return err;
}

int returns_find(const struct code_source *source, uint64_t entry, struct returns *ret,
		 struct reason *why)
{
	struct finder *finder;
	int err;

	finder = calloc(1, sizeof(*finder));
	if (!finder)
		return -ENOMEM;
	finder->source = source;
	finder->returns = ret;
	finder->why = why;
	err = insn_reader__open(&finder->reader, source->elf_machine);
	if (err == -ENOTSUP)
		reason_set(why, err, "returns are found in x86-64 and arm64 code only");
	err = err ?: find_returns(finder, entry);
	insn_reader__close(&finder->reader);
	idmap_release(&finder->seen_ids);
	free(finder->seen);
	free(finder->todo);
	free(finder);
	return err;
}

void returns_release(struct returns *returns)
{
	free(returns->place);
	memset(returns, 0, sizeof(*returns));
}
