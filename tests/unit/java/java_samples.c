// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The recorder reads a memory file as the agent writes it, and as a hostile process would. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/reason.h"
#include "java/samples_reader.h"

static char *memory;
static int fd;

#define HEAD ((struct java_head *)memory)
#define SLOTS ((struct java_slot *)(memory + JAVA_SLOTS_AT))
#define NODES ((struct java_node *)(memory + JAVA_NODES_AT))
#define FRAMES ((struct java_frame *)(memory + JAVA_FRAMES_AT))

static uint32_t put_text(const char *text)
{
	uint32_t at = HEAD->text_bytes;
	uint16_t bytes = strlen(text);

	memcpy(memory + JAVA_TEXTS_AT + at, &bytes, sizeof(bytes));
	memcpy(memory + JAVA_TEXTS_AT + at + sizeof(bytes), text, bytes);
	HEAD->text_bytes += (sizeof(bytes) + bytes + 7) & ~7u;
	return at;
}

static uint32_t put_frame(struct java_frame frame)
{
	FRAMES[HEAD->frame_nr] = frame;
	return HEAD->frame_nr++;
}

static uint32_t put_node(uint32_t parent, uint32_t frame)
{
	NODES[HEAD->node_nr] = (struct java_node){ .parent = parent, .frame = frame, .count = 3, .bytes = 300 };
	return HEAD->node_nr++;
}

/* One object byte[] of com.acme.Shop.add, Shop.java:12. */
static void begin(void)
{
	uint32_t type, method, node;

	fd = memfd_create("samples", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	cr_assert_geq(fd, 0);
	cr_assert_eq(ftruncate(fd, JAVA_FILE_BYTES), 0);
	cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	memory = mmap(NULL, JAVA_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	cr_assert_neq(memory, MAP_FAILED);
	*HEAD = (struct java_head){
		.magic = JAVA_SAMPLES_MAGIC, .version = JAVA_SAMPLES_VERSION, .state = JAVA_ON, .interval = 524288,
		.node_nr = JAVA_NODE_FIRST, .frame_nr = JAVA_FRAME_FIRST, .text_bytes = JAVA_TEXT_FIRST, .slot_nr = 1,
	};
	type = put_frame((struct java_frame){ .class = put_text("[B"), .line = -1, .is_type = 1 });
	method = put_frame((struct java_frame){
		.class = put_text("Lcom/acme/Shop$Cart;"), .method = put_text("add"), .file = put_text("Shop.java"), .line = 12 });
	node = put_node(put_node(JAVA_NODE_ROOT, method), type);
	SLOTS[0] = (struct java_slot){ .node = node, .size = 100, .birth_ns = 5, .tid = 7, .survived = 2 };
}

static void end(void)
{
	munmap(memory, JAVA_FILE_BYTES);
}

TestSuite(java_samples, .init = begin, .fini = end, .timeout = 60);

static struct java_samples *opened(void)
{
	struct java_samples *samples = NULL;
	struct reason why = {};

	cr_assert_eq(java_samples__open(dup(fd), &samples, &why), 0, "%s", why.text);
	return samples;
}

static int count_sample(void *what, const struct java_sample *sample)
{
	struct java_sample *last = what;
	uint64_t nr = last->slot + 1;

	*last = *sample;
	last->slot = nr;
	return 0;
}

/* How many samples there are; *ret is the last one. */
static uint64_t samples_in(const struct java_samples *samples, struct java_sample *ret)
{
	*ret = (struct java_sample){};
	cr_assert_eq(java_samples__each(samples, count_sample, ret), 0);
	return ret->slot;
}

Test(java_samples, a_sample_has_its_stack)
{
	struct java_samples *samples = opened();
	struct java_frame_text text;
	struct java_sample sample;
	struct java_stack stack;

	cr_assert_eq(java_samples__read(samples), 0);
	cr_assert_eq(samples_in(samples, &sample), 1);
	cr_assert_eq(sample.size, 100);
	cr_assert_eq(sample.survived, 2);
	cr_assert(java_samples__stack(samples, sample.node, &stack));
	cr_assert_eq(stack.nr, 2);
	cr_assert(!stack.is_deep);
	cr_assert(java_samples__frame(samples, stack.frame[0], &text));
	cr_assert_str_eq(text.function, "byte[]");
	cr_assert_str_eq(text.file, JAVA_TYPE_FILE);
	cr_assert(java_samples__frame(samples, stack.frame[1], &text));
	cr_assert_str_eq(text.function, "com.acme.Shop$Cart.add");
	cr_assert_str_eq(text.file, "com/acme/Shop.java");
	cr_assert_eq(text.line, 12);
	java_samples__close(samples);
}

Test(java_samples, weights_are_the_inverse_of_the_probability)
{
	static const uint64_t interval[] = { 1, 1000, 65536, 524288 };

	for (size_t i = 0; i < sizeof(interval) / sizeof(interval[0]); i++)
		for (uint64_t size = 1; size < UINT64_C(1) << 40; size = size * 3 + 1) {
			double exact = size / -expm1(-(double)size / interval[i]);

			cr_assert_float_eq(java_sample_bytes(size, interval[i]) / exact, 1, 1e-9 + 0.5 / exact, "%lu of %lu", size, interval[i]);
		}
}

Test(java_samples, orders_reach_the_agent)
{
	const struct java_orders *orders = (struct java_orders *)(memory + JAVA_ORDERS_AT);
	struct java_samples *samples = opened();
	uint64_t lease = orders->lease;

	java_samples__renew(samples);
	cr_assert_neq(orders->lease, lease);
	cr_assert_eq(orders->stops, 0);
	java_samples__stop(samples);
	cr_assert_eq(orders->stops, 1);
	cr_assert(!java_samples__has_ended(samples));
	HEAD->state = JAVA_OFF;
	cr_assert(java_samples__has_ended(samples));
	java_samples__close(samples);
}

Test(java_samples, other_files_are_refused)
{
	struct java_samples *samples = NULL;
	struct reason why = {};
	int other = memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	cr_assert_eq(ftruncate(other, JAVA_FILE_BYTES), 0);
	cr_assert_eq(java_samples__open(dup(other), &samples, &why), -EBADMSG); /* it could shrink */
	cr_assert_eq(fcntl(other, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	cr_assert_eq(java_samples__open(other, &samples, &why), -EBADMSG); /* it is empty */
	cr_assert_eq(java_samples__open(open("/dev/zero", O_RDWR), &samples, &why), -EBADMSG);
	HEAD->interval = 0;
	cr_assert_eq(java_samples__open(dup(fd), &samples, &why), -EBADMSG);
	HEAD->interval = 524288;
	HEAD->version++;
	cr_assert_eq(java_samples__open(dup(fd), &samples, &why), -EBADMSG);
}

Test(java_samples, numbers_beyond_the_rooms_are_refused)
{
	struct java_samples *samples = opened();
	uint32_t *number[] = { &HEAD->slot_nr, &HEAD->node_nr, &HEAD->frame_nr, &HEAD->text_bytes };

	for (size_t i = 0; i < sizeof(number) / sizeof(number[0]); i++) {
		uint32_t before = *number[i];
		struct java_sample sample;

		*number[i] = UINT32_MAX;
		cr_assert_eq(java_samples__read(samples), -EBADMSG);
		cr_assert_eq(samples_in(samples, &sample), 0);
		*number[i] = before;
		cr_assert_eq(java_samples__read(samples), 0);
		cr_assert_eq(samples_in(samples, &sample), 1);
	}
	java_samples__close(samples);
}

Test(java_samples, a_slot_that_is_being_written_does_not_count)
{
	struct java_samples *samples = opened();
	struct java_sample sample;

	SLOTS[0].sequence = 1;
	cr_assert_eq(java_samples__read(samples), 0);
	cr_assert_eq(samples_in(samples, &sample), 0);
	cr_assert_eq(java_samples__unsound(samples), 1);
	java_samples__close(samples);
}

Test(java_samples, a_slot_that_does_not_fit_is_counted)
{
	static const struct java_slot unfit[] = {
		{ .node = UINT32_MAX, .size = 100 }, { .node = JAVA_NODE_FIRST }, { .node = JAVA_NODE_FIRST, .size = UINT64_MAX },
	};
	struct java_samples *samples = opened();
	struct java_sample sample;

	for (size_t i = 0; i < sizeof(unfit) / sizeof(unfit[0]); i++) {
		SLOTS[0] = unfit[i];
		cr_assert_eq(java_samples__read(samples), 0);
		cr_assert_eq(samples_in(samples, &sample), 0);
		cr_assert_eq(java_samples__unsound(samples), 1);
	}
	SLOTS[0] = (struct java_slot){}; /* of no sample */
	cr_assert_eq(java_samples__read(samples), 0);
	cr_assert_eq(java_samples__unsound(samples), 0);
	java_samples__close(samples);
}

static bool writes;

/* All bytes of a slot are the same. */
static void *write_slots(void *unused)
{
	for (unsigned int i = 1; __atomic_load_n(&writes, __ATOMIC_RELAXED); i++) {
		__atomic_store_n(&SLOTS[0].sequence, 2 * i - 1, __ATOMIC_SEQ_CST);
		SLOTS[0].size = SLOTS[0].birth_ns = i % 1000 + 1;
		SLOTS[0].tid = SLOTS[0].survived = i % 1000 + 1;
		__atomic_store_n(&SLOTS[0].sequence, 2 * i, __ATOMIC_SEQ_CST);
	}
	return unused;
}

Test(java_samples, a_slot_is_never_half_written)
{
	struct java_samples *samples = opened();
	struct java_sample sample;
	pthread_t thread;

	writes = true;
	SLOTS[0].size = SLOTS[0].birth_ns = SLOTS[0].tid = SLOTS[0].survived = 1;
	cr_assert_eq(pthread_create(&thread, NULL, write_slots, NULL), 0);
	for (int i = 0; i < 20000; i++) {
		cr_assert_eq(java_samples__read(samples), 0);
		if (!samples_in(samples, &sample))
			continue;
		cr_assert(sample.size == sample.birth_ns && sample.size == sample.tid && sample.size == sample.survived, "%lu %lu %u %u",
			  sample.size, sample.birth_ns, sample.tid, sample.survived);
	}
	__atomic_store_n(&writes, false, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	java_samples__close(samples);
}

Test(java_samples, circles_of_nodes_end)
{
	struct java_samples *samples = opened();
	struct java_stack stack;

	NODES[JAVA_NODE_FIRST].parent = JAVA_NODE_FIRST + 1;
	NODES[JAVA_NODE_FIRST + 1].parent = JAVA_NODE_FIRST;
	cr_assert_eq(java_samples__read(samples), 0);
	cr_assert(!java_samples__stack(samples, JAVA_NODE_FIRST, &stack));
	cr_assert(!java_samples__stack(samples, JAVA_NODE_FIRST + 1, &stack));
	cr_assert(!java_samples__stack(samples, UINT32_MAX, &stack));
	cr_assert(!java_samples__stack(samples, 0, &stack));
	java_samples__close(samples);
}

Test(java_samples, a_deep_stack_is_cut)
{
	struct java_samples *samples = opened();
	uint32_t node = JAVA_NODE_DEEP;
	struct java_stack stack;

	for (int i = 0; i < JAVA_STACK_MAX + 1; i++)
		node = put_node(node, JAVA_FRAME_FIRST);
	cr_assert_eq(java_samples__read(samples), 0);
	cr_assert(java_samples__stack(samples, node, &stack));
	cr_assert_eq(stack.nr, JAVA_STACK_MAX + 1);
	cr_assert(stack.is_deep);
	node = put_node(node, JAVA_FRAME_FIRST);
	cr_assert_eq(java_samples__read(samples), 0);
	cr_assert(!java_samples__stack(samples, node, &stack));
	java_samples__close(samples);
}

Test(java_samples, texts_that_reach_beyond_are_none)
{
	struct java_samples *samples = opened();
	struct java_frame *frame = &FRAMES[JAVA_FRAME_FIRST + 1];
	struct java_frame_text text;

	for (uint32_t place = HEAD->text_bytes - 9; place; place = place < JAVA_TEXT_BYTES ? 2 * place + 1 : place == UINT32_MAX ? 0 : UINT32_MAX) {
		frame->class = frame->method = frame->file = place;
		memset(memory + JAVA_TEXTS_AT + HEAD->text_bytes - 9, 0xff, 9);
		cr_assert_eq(java_samples__read(samples), 0);
		cr_assert(java_samples__frame(samples, JAVA_FRAME_FIRST + 1, &text));
		cr_assert_str_eq(text.function, "<unknown>.");
		cr_assert_str_eq(text.file, "<unknown>");
	}
	cr_assert(!java_samples__frame(samples, 0, &text));
	cr_assert(!java_samples__frame(samples, HEAD->frame_nr, &text));
	cr_assert(!java_samples__frame(samples, UINT32_MAX, &text));
	java_samples__close(samples);
}
