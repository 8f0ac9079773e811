// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <bpf/bpf_helpers.h>
#include <string.h>
#include <sys/mman.h>
#undef MAP_FAILED

#include "code.h"

/* Stacks that were walked before: what is known of them is what a walk would find. */

#define WORDS 64
#define STEPS 4000

/* The last two are for the stack's root and for code without a rule. */
static const struct unwind_rule rules[FUNCTIONS] = {
	SP_PLUS(16),
	{ .cfa_kind = UNWIND_CFA_SP, .cfa_off = 32, .fp_kind = UNWIND_FP_AT_CFA, .fp_off = -16 },
	{ .cfa_kind = UNWIND_CFA_FP, .cfa_off = 16, .fp_kind = UNWIND_FP_AT_CFA, .fp_off = -16 },
	{ .cfa_kind = UNWIND_CFA_SP_DEREF, .cfa_off = 8, .addend = 16 },
	{ .cfa_kind = UNWIND_CFA_SIGNAL, .cfa_off = 16, .fp_off = 8 },
	{ .cfa_kind = UNWIND_CFA_SP, .cfa_off = 48, .fp_kind = UNWIND_FP_AT_FP, .fp_off = 0 },
	STACK_ROOT,
};

static struct code_file code;
static const __u64 address = 0x1000;
static __u64 random_state = 1;

static __u32 below(__u32 n)
{
	random_state = random_state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (random_state >> 33) % n;
}

static void begin(void)
{
	tables_begin(UNWINDER_AUTO);
	code_file_init(&code, 1, rules);
	code_map(CODE, &code);
}

static void wipe(const void *map, size_t value_bytes)
{
	struct fake_walk walk = {};

	while (fake_map_walk(map, &walk))
		memset(walk.value, 0, value_bytes);
}

/* No rule is found from here on. */
static void lose_rules(void)
{
	wipe(&unwind_cache, sizeof(struct unwind_cached));
	wipe(&unwind_places, sizeof(struct unwind_place));
	fake.vma_busy = true;
}

static const struct traceback *traceback_now(__u64 frame_pointer)
{
	const struct traceback *traceback = traceback_of_malloc(address, frame_pointer);

	user_free(address);
	cr_assert(traceback);
	return traceback;
}

/* NULL: the stack must be walked. */
static const struct traceback *known_traceback(__u64 frame_pointer)
{
	const struct traceback *traceback;

	lose_rules();
	traceback = traceback_now(frame_pointer);
	fake.vma_busy = false;
	return traceback->end == UNWIND_BUSY && traceback->nframe == 1 ? NULL : traceback;
}

static __u64 random_word(void)
{
	__u32 kind = below(16);

	return kind < 9 ? IN_FUNCTION(below(FUNCTIONS)) + below(2) :
	       kind < 15 ? (unsigned long)&word_at(below(WORDS)) : 0xbad;
}

ACCOUNT_TEST(known_walks, end_where_a_walk_would)
{
	__u64 frame_pointer = 0;
	void *const before = (void *)(CODE - CODE_BYTES), *readable;
	__u32 known_nr = 0, changed_nr = 0;

	begin();
	/* a word of the stack may be taken for an address of more words */
	readable = mmap(before, 2 * CODE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	cr_assert(readable == before);
	for (int i = 0; i < STEPS; i++) {
		const struct traceback *first, *known, *walked;

		if (!(i % 8))
			for (__u32 nr = 0; nr < WORDS; nr++)
				word_at(nr) = random_word();
		first = traceback_now(frame_pointer);
		if (below(4))
			word_at(1 + below(WORDS / 2)) = random_word();
		else
			frame_pointer = random_word();
		known = known_traceback(frame_pointer);
		wipe(&known_walks, sizeof(struct known_walk));
		walked = traceback_now(frame_pointer);
		cr_assert(!known || known == walked, "step %d: %u frames are known, there are %u", i, known->nframe, walked->nframe);
		known_nr += known && walked->nframe > 2;
		changed_nr += !known && first != walked;
	}
	cr_expect(known_nr > STEPS / 10 && changed_nr > STEPS / 40, "%u known, %u changed", known_nr, changed_nr);
}

/* 1 saves it, 0 has put something of its own there, and no rule uses it. */
ACCOUNT_TEST(known_walks, do_not_depend_on_what_a_function_saves)
{
	begin();
	word_at(1) = IN_FUNCTION(1);
	word_at(5) = IN_FUNCTION(6);
	word_at(4) = 1;
	traceback_now(1);
	word_at(4) = 2;
	expect_frames(known_traceback(2), UNWIND_ROOT, IN_FUNCTION(0), IN_FUNCTION(1), IN_FUNCTION(6));
}

static struct uprobe_task utask;

/* The stack has the trampoline both times. */
ACCOUNT_TEST(known_walks, do_not_have_return_addresses_that_the_kernel_keeps)
{
	struct return_instance instance;

	begin();
	instance = (struct return_instance){ (unsigned long)&word_at(1), IN_FUNCTION(6) };
	utask.return_instances = &instance;
	main_thread->task.utask = &utask;
	word_at(1) = TRAMPOLINE;
	word_at(5) = IN_FUNCTION(6);
	expect_frames(traceback_now(0), UNWIND_ROOT, IN_FUNCTION(0), IN_FUNCTION(6));
	instance.orig_ret_vaddr = IN_FUNCTION(1);
	expect_frames(traceback_now(0), UNWIND_ROOT, IN_FUNCTION(0), IN_FUNCTION(1), IN_FUNCTION(6));
}

ACCOUNT_TEST(known_walks, do_not_have_what_was_busy)
{
	begin();
	word_at(1) = IN_FUNCTION(6);
	fake.vma_busy = true;
	expect_frames(traceback_now(0), UNWIND_BUSY, IN_FUNCTION(0));
	fake.vma_busy = false;
	expect_frames(traceback_now(0), UNWIND_ROOT, IN_FUNCTION(0), IN_FUNCTION(6));
}

ACCOUNT_TEST(known_walks, are_not_of_frame_pointers_alone)
{
	unwinder = UNWINDER_FP;
	settings_set(TRACEBACK_LIMIT_DEFAULT, 0x5eed);
	stack_is(IN_FUNCTION(0), IN_FUNCTION(1));
	user_malloc(8, 0x1000);
	stack_is(IN_FUNCTION(0), IN_FUNCTION(2));
	user_malloc(8, 0x2000);
	cr_expect(traceback_at(0x1000) != traceback_at(0x2000));
}

/* Two processors write one, and each one a half of it. */
ACCOUNT_TEST(known_walks, of_two_writers_are_none)
{
	struct fake_walk walk = {};
	__u32 torn = 0;

	begin();
	word_at(1) = IN_FUNCTION(6);
	traceback_now(0);
	while (fake_map_walk(&known_walks, &walk)) {
		struct known_walk *known = walk.value;

		if (known->nr) {
			known->traceback++;
			torn++;
		}
	}
	expect_same(torn, 1, "walks");
	expect_frames(traceback_now(0), UNWIND_ROOT, IN_FUNCTION(0), IN_FUNCTION(6));
	cr_expect(!known_traceback(0) || known_traceback(0)->nframe == 2);
}
