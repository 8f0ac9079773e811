// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Books as a process may write them: the reader leaves out what makes no sense, and reads nothing outside of its memory. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "books_fixture.h"

static struct made_books made;
static struct read_books read_;

static void begin_books(void)
{
	make_file_of_books(&made);
	open_made_books(&made);
}

static void end_books(void)
{
	release_read_books(&read_);
	release_made_books(&made);
}

TestSuite(exact_books, .init = begin_books, .fini = end_books);

static uint64_t word_of(uint32_t node, uint64_t size, uint32_t slot, uint64_t epoch)
{
	return BLOCK_IS_LIVE | node | size << BLOCK_SIZE_SHIFT | (uint64_t)slot << BLOCK_THREAD_SHIFT | epoch << BLOCK_EPOCH_SHIFT;
}

static void put_small(uint64_t address, uint32_t chunk, uint64_t word)
{
	uint64_t *first = MADE_AT(&made, uint64_t, BOOKS_AT_CHUNKS) + UINT64_C(1) * (chunk - 1) * BOOKS_CHUNK_WORDS +
			  (address >> 5) % BOOKS_CHUNK_LINES;

	MADE_AT(&made, uint32_t, BOOKS_AT_DIRECTORY)[address >> BOOKS_CHUNK_SHIFT] = chunk;
	first[*first ? BOOKS_CHUNK_LINES : 0] = word | (address & 16 ? BLOCK_IS_ODD : 0);
	if (MADE_HEAD(&made)->chunk_nr < chunk)
		MADE_HEAD(&made)->chunk_nr = chunk;
}

static struct books_large *large_at(uint64_t i)
{
	return &MADE_AT(&made, struct books_large, BOOKS_AT_LEVELS)[i];
}

static void put_handed(uint32_t i, uint64_t address, uint64_t word, uint64_t size, uint64_t cut)
{
	MADE_AT(&made, struct books_large, BOOKS_AT_HANDED)[i] =
		(struct books_large){ address, word, size | cut << BOOKS_HANDED_SHIFT };
}

/* Cuts, reads, and returns the number of blocks. */
static size_t pass(void)
{
	cr_assert_eq(cut_and_read(&made, 10, false, &read_), 0);
	return read_.block_nr;
}

/* ---- files ---- */

static int open_file(uint64_t bytes, int seals, bool has_head)
{
	int fd = memfd_create("others", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	const struct books_head head = { .magic = BOOKS_MAGIC, .version = BOOKS_VERSION + !has_head };
	struct books *books = (struct books *)&head;
	int err;

	cr_assert(ftruncate(fd, bytes) == 0 && pwrite(fd, &head, sizeof(head), 0) == sizeof(head));
	cr_assert_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
	err = books_open(fd, BOOKS_OF_PYTHON, 1, &books);
	books_close(books);
	return err;
}

Test(exact_books, are_files_that_keep_their_size)
{
	cr_expect_eq(open_file(BOOKS_BYTES, F_SEAL_SHRINK | F_SEAL_GROW, true), 0);
	cr_expect_eq(open_file(BOOKS_BYTES, F_SEAL_SHRINK, true), -EINVAL);
	cr_expect_eq(open_file(BOOKS_BYTES, F_SEAL_GROW, true), -EINVAL);
	cr_expect_eq(open_file(BOOKS_BYTES - 4096, F_SEAL_SHRINK | F_SEAL_GROW, true), -EINVAL);
	cr_expect_eq(open_file(BOOKS_BYTES, F_SEAL_SHRINK | F_SEAL_GROW, false), -EINVAL);
}

/* ---- blocks ---- */

Test(exact_books, have_each_block_once)
{
	made_thread(&made, 7)->tid = 4103;
	put_small(0x7f0012345670, 3, word_of(5, 512, 7, 0));
	*large_at(9) = (struct books_large){ 0x7f0099999999, word_of(6, 0, 7, 0), UINT64_C(1) << 40 };
	MADE_HEAD(&made)->level_nr = 1;
	cr_assert_eq(pass(), 2);
	cr_expect_eq(read_.block[0].address, 0x7f0012345670);
	cr_expect_eq(read_.block[0].size, 512);
	cr_expect_eq(read_.block[0].node, 5);
	cr_expect_eq(read_.block[0].tid, 4103);
	cr_expect_eq(read_.block[0].birth_ns, 1);
	cr_expect_eq(read_.block[1].address, 0x7f0099999999);
	cr_expect_eq(read_.block[1].size, UINT64_C(1) << 40);
	MADE_AT(&made, uint32_t, BOOKS_AT_DIRECTORY)[4711] = 3; /* the same chunk at another place */
	cr_expect_eq(pass(), 2);
}

Test(exact_books, lack_blocks_that_cannot_be)
{
	const uint64_t late = word_of(1, 0, 0, 2), live = word_of(1, 0, 0, 0), top = UINT64_C(1) << BOOKS_ADDRESS_BITS;
	const struct books_large none[] = {
		{ 0x1000000, live & ~BLOCK_IS_LIVE, 600 }, { 0x2000000, late, 600 },
		{ 0x3000000, word_of(1, 0, 0, BOOKS_EPOCHS_MAX - 1), 600 }, { top, live, 600 }, { UINT64_MAX, live, 600 },
		{ 0x4000000, live, top }, { 0x5000000, live, UINT64_C(1) << 63 }, { 0x6000000, live, UINT64_MAX },
		{ 1, live, 600 }, { 4095, live, 600 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(none); i++)
		*large_at(2 * i) = none[i];
	MADE_HEAD(&made)->level_nr = UINT32_MAX; /* all of the levels */
	MADE_HEAD(&made)->chunk_nr = UINT32_MAX;
	for (uint32_t i = 0; i < 64; i++) /* numbers of chunks that are not there */
		MADE_AT(&made, uint32_t, BOOKS_AT_DIRECTORY)[i] = UINT32_MAX - i;
	MADE_AT(&made, uint32_t, BOOKS_AT_DIRECTORY)[70] = BOOKS_CHUNKS_MAX + 1;
	cr_expect_eq(pass(), 0);
	cr_expect_eq(pass(), 0);
	cr_expect_eq(pass(), 1, "an epoch that was in the future is there now");
	*large_at(BOOKS_LEVEL_AT(BOOKS_LEVELS_MAX) - 1) = (struct books_large){ 0x8000000, live, 600 };
	cr_expect_eq(pass(), 2, "the last place of all levels");
}

Test(exact_books, have_blocks_that_were_handed_over)
{
	const uint64_t word = word_of(1, 0, 0, 0);

	put_small(0x1000, 1, word_of(1, 16, 0, 0));
	cr_assert_eq(books_cut(made.books, 10, false), 0);
	put_handed(0, 0x1000, word, 16, 1);
	put_handed(1, 0x1000, word, 16, 1); /* twice */
	put_handed(2, 0x2000, word, 16, 1);
	put_handed(3, 0x3000, word, 16, 2); /* of another snapshot */
	put_handed(4, 0x4000, word_of(1, 0, 0, 1), 16, 1); /* not of this one */
	put_handed(5, 0x10, word, 16, 1);
	MADE_HEAD(&made)->handed_nr = UINT32_MAX;
	cr_expect_eq(books_read_blocks(made.books, keep_read_block, &read_), 0);
	cr_assert_eq(read_.block_nr, 2);
	cr_expect_eq(read_.block[0].address + read_.block[1].address, 0x3000);
	cr_expect_eq(books_read_blocks(made.books, keep_read_block, &read_), -EINVAL, "without a cut");
}

static bool is_none(void *what, uint32_t tid)
{
	(void)what, (void)tid;
	return false;
}

/* Another thread takes the first slot as soon as it is free. */
static bool takes_first(void *slot, uint32_t tid)
{
	uint32_t first = *(uint32_t *)slot;

	if (tid != 100 && made_thread(&made, first)->tid == 0) {
		made_thread(&made, first)->tid = 200;
		put_small(0x5000, 1, word_of(1, 16, first, (uint32_t)MADE_HEAD(&made)->now));
	}
	return false;
}

static uint32_t tid_at(uint64_t address)
{
	for (size_t i = 0; i < read_.block_nr; i++)
		if (read_.block[i].address == address)
			return read_.block[i].tid;
	return 0;
}

/* Three lists: in the first one they may have come just now, the others lack them. */
static void free_ended(void)
{
	for (int i = 0; i < 3; i++)
		books_free_threads(made.books, is_none, NULL);
}

Test(exact_books, know_whose_block_it_is_when_a_slot_has_another_thread)
{
	uint32_t slot = 3;

	made_thread(&made, slot)->tid = 100;
	made_thread(&made, 4)->tid = 101;
	put_small(0x1000, 1, word_of(1, 16, slot, 0));
	books_free_threads(made.books, is_none, NULL);
	cr_expect_eq(made_thread(&made, slot)->tid, 100, "it may have come just now");
	books_free_threads(made.books, is_none, NULL);
	cr_expect_eq(made_thread(&made, slot)->tid, 100, "one list may lack it");
	books_free_threads(made.books, takes_first, &slot);
	if (!made_thread(&made, slot)->tid) {
		made_thread(&made, slot)->tid = 200;
		put_small(0x5000, 1, word_of(1, 16, slot, (uint32_t)MADE_HEAD(&made)->now));
	}
	cr_expect_eq(made_thread(&made, 4)->tid, 0);
	pass();
	cr_expect_eq(tid_at(0x1000), 100);
	cr_expect_eq(tid_at(0x5000), 200);
	for (uint32_t tid = 200; tid < 210; tid++) { /* each has a block of its own */
		free_ended();
		cr_assert_eq(made_thread(&made, slot)->tid, 0);
		made_thread(&made, slot)->tid = tid + 1;
		put_small(0x6000 + 16 * (tid + 1 - 200), 1, word_of(1, 16, slot, (uint32_t)MADE_HEAD(&made)->now));
	}
	pass();
	cr_expect_eq(tid_at(0x1000), 100);
	cr_expect_eq(tid_at(0x5000), 200);
	for (uint32_t tid = 201; tid <= 210; tid++)
		cr_expect_eq(tid_at(0x6000 + 16 * (tid - 200)), tid);
}

Test(exact_books, know_whose_block_it_is_when_a_thread_takes_a_slot_over)
{
	for (uint32_t tid = 100; tid < 105; tid++) { /* between two passes each */
		made_thread(&made, 3)->tid = tid;
		put_small(0x1000 + 16 * (tid - 100), 1, word_of(1, 16, 3, (uint32_t)MADE_HEAD(&made)->now));
		pass();
	}
	for (uint32_t tid = 100; tid < 105; tid++)
		cr_expect_eq(tid_at(0x1000 + 16 * (tid - 100)), tid);
	free_ended();
	cr_expect_eq(made_thread(&made, 3)->tid, 0);
	made_thread(&made, 3)->tid = 105;
	pass();
	for (uint32_t tid = 100; tid < 105; tid++)
		cr_expect_eq(tid_at(0x1000 + 16 * (tid - 100)), tid);
}

Test(exact_books, know_the_threads_of_a_process_that_has_ended)
{
	made_thread(&made, 9)->tid = 9;
	made_thread(&made, 9)->inside = 4711;
	put_small(0x1000, 1, word_of(1, 16, 9, 0));
	cr_assert_eq(cut_and_read(&made, 10, true, &read_), 0);
	cr_expect_eq(tid_at(0x1000), 9);
}

/* However many slots say that their threads are inside. */
/* The process was killed in three calls; the block of the second one was freed by then, and another thread has its address. */
Test(exact_books, have_the_block_of_a_call_that_never_returned)
{
	struct books_numbers numbers;

	end_books();
	make_file_of_books(&made);
	MADE_HEAD(&made)->kind = BOOKS_OF_MALLOC;
	open_made_books(&made);
	for (uint32_t slot = 1; slot < 5; slot++) {
		made_thread(&made, slot)->tid = 4100 + slot;
		made_thread(&made, slot)->frees = 1;
		made_thread(&made, slot)->inside = slot < 4 ? 0x7fff0000 : 0;
	}
	for (uint32_t slot = 1; slot < 3; slot++) {
		made_thread(&made, slot)->native.given.address = 0x1000 * slot;
		made_thread(&made, slot)->native.given.word = word_of(5, 0, slot, 0);
		made_thread(&made, slot)->native.given.size = 700 + slot;
	}
	*large_at(9) = (struct books_large){ 0x2000, word_of(6, 0, 4, 0), 600 };
	MADE_HEAD(&made)->level_nr = 1;
	cr_assert_eq(cut_and_read(&made, 10, true, &read_), 0);
	cr_assert_eq(read_.block_nr, 2);
	cr_expect(read_.block[0].address == 0x1000 && read_.block[0].size == 701 && read_.block[0].tid == 4101 && read_.block[0].node == 5);
	cr_expect(read_.block[1].address == 0x2000 && read_.block[1].size == 600);
	books_read_numbers(made.books, &numbers);
	cr_expect_eq(numbers.unreturned_nr, 3);
	cr_expect_eq(numbers.frees, 3);
}

Test(exact_books, are_waited_for_in_all)
{
	struct timespec begun, end;

	for (uint32_t i = 0; i < BOOKS_THREADS; i++) {
		made_thread(&made, i)->tid = i + 1;
		made_thread(&made, i)->inside = UINT64_MAX;
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begun);
	cr_expect_eq(books_cut(made.books, 2, false), -EAGAIN);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
	cr_expect(end.tv_sec - begun.tv_sec < 5);
	for (uint32_t i = 0; i < BOOKS_THREADS; i++)
		made_thread(&made, i)->inside = 0;
	cr_expect_eq(pass(), 0);
}

#define BORN_EACH 100

/* Block i is born in epoch BORN_EACH * i, of which the time is its number. */
static uint64_t address_born(uint64_t i)
{
	return i % 2 ? 0x100000 + 16 * i : 0x70000001 + 4096 * i;
}

static void put_born(uint64_t i, uint64_t epoch)
{
	if (i % 2)
		put_small(address_born(i), 1, word_of(1, 16, 3, epoch));
	else
		*large_at(i) = (struct books_large){ address_born(i), word_of(1, 0, 3, epoch), 600 };
}

static const struct books_block *block_born(uint64_t i)
{
	for (size_t k = 0; k < read_.block_nr; k++)
		if (read_.block[k].address == address_born(i))
			return &read_.block[k];
	return NULL;
}

/* Births and threads of all blocks so far; births are as exact as the epochs that were merged. */
static void check_born(uint64_t nr, uint64_t now_ns, uint64_t off_by)
{
	cr_assert_eq(cut_and_read(&made, now_ns, false, &read_), 0);
	cr_assert_eq(read_.block_nr, nr);
	for (uint64_t i = 0; i < nr; i++) {
		const struct books_block *block = block_born(i);

		cr_assert(block && block->birth_ns <= i * BORN_EACH + 1 && block->birth_ns + off_by >= i * BORN_EACH, "%lu: %lu", i,
			  block ? block->birth_ns : 0);
		cr_assert_eq(block->tid, 1000 + i / 10, "%lu: %u", i, block->tid);
	}
}

/* Half of them are merged when there are no more. A slot changes its thread now and then. */
Test(exact_books, have_epochs_without_end)
{
	uint64_t born_nr = 0, merge_nr = 0;

	MADE_HEAD(&made)->level_nr = BOOKS_LEVELS_MAX;
	for (uint64_t time = 0; time < 3 * BOOKS_EPOCHS_MAX; time++) {
		int err = time ? books_tick(made.books, time) : 0;

		if (err == -ENOSPC) {
			check_born(born_nr, time, 2 << ++merge_nr);
			cr_assert((uint32_t)MADE_HEAD(&made)->now < BOOKS_EPOCHS_MAX * 3 / 4, "%u", (uint32_t)MADE_HEAD(&made)->now);
		}
		if (time % BORN_EACH)
			continue;
		if (born_nr % 10 == 0) {
			books_free_threads(made.books, is_none, NULL);
			books_free_threads(made.books, is_none, NULL);
			made_thread(&made, 3)->tid = 1000 + born_nr / 10;
		}
		put_born(born_nr++, (uint32_t)MADE_HEAD(&made)->now);
	}
	check_born(born_nr, 3 * BOOKS_EPOCHS_MAX, 2 << merge_nr);
	cr_expect(merge_nr >= 3 && merge_nr <= 6, "%lu", merge_nr);
}

/* ---- tracebacks ---- */

static struct {
	uint32_t nr, deepest, last_id;
	uint64_t words;
} stacks;

static uint32_t frames_most = 25;

static int count_stack(void *most, const struct books_stack *stack)
{
	stacks.nr++;
	stacks.last_id = stack->id;
	stacks.deepest = stack->frame_nr > stacks.deepest ? stack->frame_nr : stacks.deepest;
	for (uint32_t i = 0; i < stack->frame_nr && i < *(uint32_t *)most; i++)
		stacks.words += stack->frame[i];
	return 0;
}

static void put_node(uint32_t id, uint32_t parent, uint64_t word)
{
	MADE_AT(&made, struct books_totals, BOOKS_AT_TOTALS)[1].allocations = 1;
	MADE_HEAD(&made)->totals_nr = 1;
	MADE_NODES(&made)[id] = (struct books_node){ .word = word, .parent = parent, .next = id, .totals = 1 };
}

Test(exact_books, have_tracebacks_that_end)
{
	put_node(1, 1, 1); /* itself */
	put_node(2, 3, 10);
	put_node(3, 2, 100); /* a circle */
	put_node(4, UINT32_MAX, 1000);
	put_node(5, BOOKS_NO_NODE, 10000);
	put_node(6, 3, BOOKS_RAW_WORD);
	MADE_HEAD(&made)->node_nr = 6;
	cr_assert_eq(books_read_stacks(made.books, frames_most, count_stack, &frames_most), 0);
	cr_expect_eq(stacks.nr, 6);
	cr_expect_eq(stacks.deepest, 2);
	cr_expect_eq(stacks.words, 1 + 10 + 110 + 1000 + 10000 + 110, "%lu", stacks.words);
}

Test(exact_books, have_deep_tracebacks_in_part)
{
	put_node(6000, 5999, 6000);
	for (uint32_t i = 1; i < 6000; i++)
		MADE_NODES(&made)[i] = (struct books_node){ .word = i, .parent = i - 1 };
	MADE_HEAD(&made)->node_nr = 6000;
	cr_assert_eq(books_read_stacks(made.books, frames_most, count_stack, &frames_most), 0);
	cr_expect_eq(stacks.nr, 1);
	cr_expect_eq(stacks.deepest, BOOKS_DEEPEST);
	cr_expect_eq(stacks.words, 25 * 5988);
	frames_most = 0;
	cr_assert_eq(books_read_stacks(made.books, frames_most, count_stack, &frames_most), 0);
}

/* A number alone costs the process nothing, so it may not cost the recorder memory. */
Test(exact_books, cost_no_more_memory_than_they_have)
{
	struct rusage before, after;

	MADE_HEAD(&made)->node_nr = MADE_HEAD(&made)->chunk_nr = MADE_HEAD(&made)->level_nr = UINT32_MAX;
	put_node(BOOKS_NO_NODE - 1, 1, 1);
	MADE_HEAD(&made)->handed_nr = MADE_HEAD(&made)->code_nr = MADE_HEAD(&made)->totals_nr = UINT32_MAX;
	getrusage(RUSAGE_SELF, &before);
	cr_assert_eq(books_read_stacks(made.books, frames_most, count_stack, &frames_most), 0);
	getrusage(RUSAGE_SELF, &after);
	cr_expect_eq(stacks.last_id, BOOKS_NO_NODE - 1);
	cr_expect(after.ru_maxrss - before.ru_maxrss < 500 << 10, "%ld KiB", after.ru_maxrss - before.ru_maxrss);
}

/* ---- code objects ---- */

static uint32_t code_ids[16], code_nr;

static int note_read_code(void *what, const struct books_code *code)
{
	const unsigned char *byte = (const unsigned char *)(code + 1);
	uint64_t bytes = code->file_bytes + code->name_bytes + code->line_bytes, sum = 0;

	(void)what;
	while (bytes)
		sum += byte[--bytes]; /* all of it is there */
	code_ids[code_nr++ % ARRAY_SIZE(code_ids)] = code->id;
	cr_expect(sum < UINT64_MAX);
	return 0;
}

static void put_code(uint32_t id, uint32_t place, struct books_code code)
{
	MADE_AT(&made, uint32_t, BOOKS_AT_CODES)[id] = place;
	if (place < BOOKS_TEXT_BYTES / 8)
		memcpy(made.base + BOOKS_AT_TEXT + UINT64_C(8) * place, &code,
		       BOOKS_TEXT_BYTES - UINT64_C(8) * place < sizeof(code) ? BOOKS_TEXT_BYTES - UINT64_C(8) * place : sizeof(code));
}

Test(exact_books, have_code_objects_whose_texts_are_there)
{
	const uint64_t most = UINT64_C(1) << 20;
	const uint32_t end = BOOKS_TEXT_BYTES / 8;

	put_code(1, 0, (struct books_code){ .id = 1, .file_bytes = 8, .name_bytes = 8, .line_bytes = 8 });
	put_code(2, 20, (struct books_code){ .id = 1, .file_bytes = 8 }); /* another one */
	put_code(3, end - 1, (struct books_code){ .id = 3 }); /* its head reaches beyond the end */
	put_code(4, end - 10, (struct books_code){ .id = 4, .file_bytes = 41 }); /* its text does */
	put_code(5, UINT32_MAX, (struct books_code){ .id = 5 });
	put_code(6, 40, (struct books_code){ .id = 6, .file_bytes = most + 1 });
	put_code(7, 60, (struct books_code){ .id = 7, .file_bytes = UINT64_MAX, .name_bytes = 1 });
	put_code(8, 80, (struct books_code){ .id = 8, .file_bytes = most, .name_bytes = most, .line_bytes = most });
	put_code(9, end - 20, (struct books_code){ .id = 9, .file_bytes = 160 - sizeof(struct books_code) }); /* up to the end */
	MADE_HEAD(&made)->code_nr = 9;
	cr_assert_eq(books_read_codes(made.books, note_read_code, NULL), 0);
	cr_assert_eq(code_nr, 3);
	cr_expect(code_ids[0] == 1 && code_ids[1] == 8 && code_ids[2] == 9);
	MADE_HEAD(&made)->code_nr = 3; /* fewer than there were */
	cr_assert_eq(books_read_codes(made.books, note_read_code, NULL), 0);
	MADE_HEAD(&made)->code_nr = UINT32_MAX;
	cr_assert_eq(books_read_codes(made.books, note_read_code, NULL), 0);
	cr_expect_eq(code_nr, 3, "the others have none");
}

/* ---- any bytes ---- */

static void scatter(uint64_t *random, uint64_t at, uint64_t bytes, int nr)
{
	for (int i = 0; i < nr; i++) {
		*random = *random * 6364136223846793005u + 1442695040888963407u;
		*MADE_AT(&made, uint64_t, at + (*random >> 20) % bytes / 8 * 8) = *random ^ *random >> 29;
	}
}

Test(exact_books, may_have_any_bytes)
{
	uint64_t random = 1;

	for (int round = 0; round < 20; round++) {
		struct books_numbers numbers;

		scatter(&random, BOOKS_AT_CHUNKS, UINT64_C(8) * BOOKS_CHUNK_WORDS * 4, 50);
		scatter(&random, BOOKS_AT_DIRECTORY, 1 << 16, 50);
		for (uint32_t i = 0; i < 64; i++)
			MADE_AT(&made, uint32_t, BOOKS_AT_DIRECTORY)[random % 7000 + i] = i;
		scatter(&random, BOOKS_AT_LEVELS, 1 << 20, 100);
		scatter(&random, BOOKS_AT_HANDED, 1 << 14, 100);
		scatter(&random, BOOKS_AT_NODES, 1 << 16, 500);
		scatter(&random, BOOKS_AT_CODES, 1 << 12, 100);
		scatter(&random, BOOKS_AT_TEXT, 1 << 12, 100);
		scatter(&random, BOOKS_AT_GONE, BOOKS_PAGE, 50);
		MADE_HEAD(&made)->chunk_nr = MADE_HEAD(&made)->level_nr = MADE_HEAD(&made)->node_nr = random >> 46;
		MADE_HEAD(&made)->handed_nr = MADE_HEAD(&made)->code_nr = random >> 50;
		MADE_HEAD(&made)->now = random;
		made_thread(&made, round)->tid = random | 1;
		made_thread(&made, round)->allocations = random;
		pass();
		cr_expect_eq(books_read_stacks(made.books, frames_most, count_stack, &frames_most), 0);
		cr_expect_eq(books_read_codes(made.books, note_read_code, NULL), 0);
		books_read_numbers(made.books, &numbers);
		books_free_threads(made.books, is_none, NULL);
	}
}
