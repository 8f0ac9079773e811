// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The recorder's lists of a process's code, and the stacks that it walks for the process (known_code.h). */
#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "books_fixture.h"
#include "exact/known_code.h"
#include "exact/native_rules.h"
#include "unwind/unwind_table.h"

#define FRAMES_MOST 64

static struct made_books made;
static struct known_code *known;
static struct code_list list;

static void begin_code(void)
{
	make_file_of_books(&made);
	MADE_HEAD(&made)->kind = BOOKS_OF_MALLOC;
	open_made_books(&made);
	cr_assert_eq(known_code__open(made.books, FRAMES_MOST, &known), 0);
	list = (struct code_list){};
}

static void end_code(void)
{
	known_code__close(known);
	release_made_books(&made);
	free(list.region);
	free(list.range);
}

TestSuite(exact_code, .init = begin_code, .fini = end_code);

static const uint64_t *tables(void)
{
	return MADE_AT(&made, uint64_t, BOOKS_AT_TABLES);
}

/* As the process finds it. */
static const struct books_known *list_of_now(void)
{
	return MADE_AT(&made, struct books_known, BOOKS_AT_KNOWN + MADE_HEAD(&made)->known_nr % 2 * BOOKS_KNOWN_BYTES);
}

static void add_region(uint64_t start, uint64_t end, uint64_t owner)
{
	const struct code_region region = { .region = { .start = start, .end = end, .first_page = UNWIND_NO_TABLE }, .owner = owner };

	cr_assert_eq(array_push(&list, region, region), 0);
}

static void publish(void)
{
	cr_assert_eq(known_code__publish(known, &list), 0);
}

/* ---- tables ---- */

/* The words of an array, the last one filled up with zeros. */
static uint32_t add_array(const void *from, size_t bytes)
{
	uint64_t *word = calloc(bytes / 8 + 1, 8);
	uint32_t at;

	memcpy(word, from, bytes);
	cr_assert_eq(known_code__add_words(known, word, (bytes + 7) / 8, &at), 0);
	free(word);
	return at;
}

/* The code of a file, mapped so that it lies `bias` above its own addresses. */
static void add_table(const struct unwind_table *table, uint64_t bias, uint64_t owner)
{
	struct books_region all = {
		.delta = -bias, .first_page = table->first_page, .page_nr = table->page_nr,
		.page_at = add_array(table->page, (table->page_nr + 1) * sizeof(*table->page)),
		.rule_at = add_array(table->rule, table->rule_nr * sizeof(*table->rule)),
		.row_at = add_array(table->row, table->row_nr * sizeof(*table->row)),
	};

	for (uint32_t i = 0; i < table->segment_nr; i++) {
		const struct unwind_segment *segment = &table->segment[i];
		struct code_region region = { .region = all, .owner = owner };

		region.region.start = segment->offset + segment->delta + bias;
		region.region.end = segment->end + segment->delta + bias;
		cr_assert_eq(array_push(&list, region, region), 0);
	}
}

static struct unwind_table *table_of(const char *path)
{
	struct unwind_table *table = NULL;
	struct reason why = {};
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	cr_assert(fd >= 0, "%s", path);
	cr_assert_eq(unwind_table__from_file(fd, &table, &why), 0, "%s: %s", path, why.text);
	close(fd);
	return table;
}

static bool is_in_code(const struct unwind_table *table, uint64_t vaddr)
{
	return array_any(table->segment_nr, i, vaddr - table->segment[i].offset - table->segment[i].delta <
			 table->segment[i].end - table->segment[i].offset);
}

static void compare_rows(const char *path, const struct unwind_table *table, uint64_t bias)
{
	uint32_t compared_nr = 0;

	for (uint32_t page = 0; page < table->page_nr; page++)
		for (uint32_t row = table->page[page]; row < table->page[page + 1]; row++) {
			uint64_t vaddr = ((table->first_page + page) << UNWIND_PAGE_SHIFT) + UNWIND_ROW_ADDRESS(table->row[row]);
			struct unwind_rule expected = unwind_table__rule(table, vaddr), found;
			const struct books_region *region = find_region(list_of_now(), vaddr + bias);

			if (!is_in_code(table, vaddr))
				continue;
			cr_assert(region, "%s: %#lx is in no region", path, vaddr);
			found = rule_in_region(region, tables(), vaddr + bias);
			cr_assert_eq(memcmp(&found, &expected, sizeof(found)), 0, "%s: %#lx", path, vaddr);
			compared_nr++;
		}
	cr_assert(compared_nr > 1000, "%s: %u rows", path, compared_nr);
}

struct loaded {
	const char *path;
	uint64_t bias;
};

struct loaded_files {
	struct loaded *file;
	size_t file_nr, file_alloc;
};

static int note_loaded(struct dl_phdr_info *info, size_t size, void *loaded_)
{
	struct loaded_files *loaded = loaded_;
	const char *path = *info->dlpi_name ? info->dlpi_name : "/proc/self/exe";

	(void)size;
	return access(path, R_OK) ? 0 : array_push(loaded, file, ((struct loaded){ path, info->dlpi_addr }));
}

static int by_region_start(const void *a, const void *b)
{
	uint64_t x = ((const struct code_region *)a)->region.start, y = ((const struct code_region *)b)->region.start;

	return (x > y) - (x < y);
}

/* The list of this process: the program and all of its libraries, the C library and its loader among them. */
static void publish_own_code(struct loaded_files *loaded, struct unwind_table **table)
{
	dl_iterate_phdr(note_loaded, loaded);
	cr_assert(loaded->file_nr > 3 && loaded->file_nr < 64);
	for (size_t i = 0; i < loaded->file_nr; i++) {
		table[i] = table_of(loaded->file[i].path);
		add_table(table[i], loaded->file[i].bias, i);
	}
	qsort(list.region, list.region_nr, sizeof(*list.region), by_region_start);
	publish();
}

Test(exact_code, rules_are_those_of_the_files)
{
	struct loaded_files loaded = {};
	struct unwind_table *table[64];

	publish_own_code(&loaded, table);
	for (size_t i = 0; i < loaded.file_nr; i++) {
		if (table[i]->row_nr > 2000)
			compare_rows(loaded.file[i].path, table[i], loaded.file[i].bias);
		unwind_table__free(table[i]);
	}
	free(loaded.file);
}

Test(exact_code, start_code_has_no_caller)
{
	const uint32_t page[] = { 0, 1 };
	const struct unwind_rule none = {};
	const unwind_row row = 0;
	struct code_region region = { .region = { .start = 0x10000, .end = 0x20000, .page_nr = 1, .entry = 0x40, .entry_end = 0x48 } };

	region.region.delta = -UINT64_C(0x10000);
	region.region.page_at = add_array(page, sizeof(page));
	region.region.rule_at = add_array(&none, sizeof(none));
	region.region.row_at = add_array(&row, sizeof(row));
	cr_assert_eq(array_push(&list, region, region), 0);
	publish();
	cr_expect_eq(rule_in_region(find_region(list_of_now(), 0x10047), tables(), 0x10047).cfa_kind, UNWIND_CFA_ROOT);
	cr_expect_eq(rule_in_region(find_region(list_of_now(), 0x10048), tables(), 0x10048).cfa_kind, UNWIND_CFA_NONE);
	cr_expect_eq(rule_in_region(find_region(list_of_now(), 0x1ffff), tables(), 0x1ffff).cfa_kind, UNWIND_CFA_NONE);
}

Test(exact_code, tables_have_an_end)
{
	uint64_t word = 7;
	uint32_t at = 9;

	cr_expect_eq(known_code__add_words(known, &word, BOOKS_TABLE_WORDS + 1, &at), -ENOSPC);
	cr_expect_eq(at, 9);
	cr_expect_eq(known_code__add_words(known, &word, 1, &at), 0);
	cr_expect_eq(at, 0);
	cr_expect_eq(known_code__add_words(known, &word, BOOKS_TABLE_WORDS, &at), -ENOSPC);
	cr_expect_eq(tables()[0], 7);
}

/* ---- lists ---- */

static uint32_t replaced_nr(void)
{
	return MADE_HEAD(&made)->replaced_nr;
}

static uint32_t known_nr(void)
{
	return MADE_HEAD(&made)->known_nr;
}

Test(exact_code, a_list_holds_until_there_is_another)
{
	const struct books_known *first;

	list.closed_nr = 3;
	publish(); /* an empty one, too */
	cr_expect_eq(known_nr(), 1);
	cr_expect_eq(list_of_now()->closed_nr, 3);
	add_region(0x1000, 0x3000, 1);
	cr_assert_eq(array_push(&list, range, ((struct code_range){ 0x7000, 0x9000 })), 0);
	publish();
	publish(); /* the same one */
	cr_expect_eq(known_nr(), 2);
	first = list_of_now();
	cr_expect_eq(first->region_nr, 1);
	cr_expect_eq(first->range_nr, 1);
	cr_expect_eq(first->range[0].end, 0x9000);
	cr_expect_null(find_region(first, 0xfff));
	cr_expect_not_null(find_region(first, 0x1000));
	cr_expect_not_null(find_region(first, 0x2fff));
	cr_expect_null(find_region(first, 0x3000));
	list.closed_nr = 4;
	publish();
	cr_expect_eq(known_nr(), 3);
	cr_expect_eq(first->closed_nr, 3, "the list before is as it was");
	cr_expect_eq(replaced_nr(), 0);
}

Test(exact_code, code_that_is_gone_or_another_is_counted)
{
	add_region(0x1000, 0x3000, 1);
	add_region(0x5000, 0x6000, 2);
	list.time_ns = 10;
	publish();
	list.region[1].region.end = 0x8000; /* more of it */
	list.time_ns = 20;
	publish();
	cr_expect_eq(replaced_nr(), 0);
	list.region[0].region.end = 0x2000; /* in two parts */
	add_region(0x2000, 0x3000, 1);
	qsort(list.region, list.region_nr, sizeof(*list.region), by_region_start);
	publish();
	cr_expect_eq(replaced_nr(), 0);
	list.region[1].owner = 3;
	list.time_ns = 30;
	publish();
	cr_expect_eq(replaced_nr(), 1);
	list.region[1].is_gone = true;
	list.time_ns = 40;
	publish();
	cr_expect_eq(replaced_nr(), 2);
	cr_expect_null(find_region(list_of_now(), 0x2000));
	list.region[0].region.delta = 0x10;
	publish();
	cr_expect_eq(replaced_nr(), 3);
	cr_expect_eq(known_code__time_of(known, 0), 20);
	cr_expect_eq(known_code__time_of(known, 1), 30);
	cr_expect_eq(known_code__time_of(known, 3), 40);
	cr_expect_eq(known_code__time_of(known, 4), 0);
	MADE_HEAD(&made)->replaced_nr = 99; /* the process has written there */
	list.region[0].region.delta = 0x20;
	publish();
	cr_expect_eq(replaced_nr(), 4);
}

/* Frames of a walk; one of them lies where other code came at a time. */
static void expect_unsure(uint32_t number, uint64_t since_ns, uint32_t first)
{
	const uint64_t frame[] = { 0x5100, 0x2100 | BOOKS_PC_GUESSED, 0x1100, 0x2200 };
	uint32_t found;

	cr_expect_eq(known_code__unsure_since(known, number, frame, 4, &found), since_ns, "number %u: since %lu", number,
		     known_code__unsure_since(known, number, frame, 4, &found));
	cr_expect_eq(found, since_ns ? first : 4, "number %u: %u", number, found);
}

Test(exact_code, walks_of_code_that_was_replaced_are_unsure)
{
	const uint64_t later = UINT64_C(1) << 62;

	add_region(0x1000, 0x3000, 1);
	list.time_ns = 10;
	publish();
	cr_expect_eq(known_code__confirmed_ns(known), 10);
	cr_assert_eq(known_code__replaced(known, 0x2000, 0x3000, 15), 0);
	list.time_ns = 20; /* the same code has come back */
	publish();
	cr_expect_eq(replaced_nr(), 1, "hooks begin anew");
	publish();
	cr_expect_eq(replaced_nr(), 1);
	expect_unsure(0, 15, 1);
	expect_unsure(1, 0, 0);
	cr_assert_eq(known_code__replaced(known, 0x2000, 0x3000, 15), 0); /* it is still in the history */
	publish();
	cr_expect_eq(replaced_nr(), 1);
	MADE_HEAD(&made)->closed_nr = 1; /* the process said so before the code came */
	MADE_HEAD(&made)->closed_ns = later - 10;
	cr_assert_eq(known_code__replaced(known, 0x1000, 0x2000, later), 0);
	list.closed_nr = 1;
	publish();
	cr_expect_eq(replaced_nr(), 1);
	expect_unsure(1, 0, 0);
	MADE_HEAD(&made)->closed_nr = 2; /* or after it */
	MADE_HEAD(&made)->closed_ns = 2 * later;
	cr_assert_eq(known_code__replaced(known, 0x1000, 0x2000, later + 10), 0);
	expect_unsure(1, later + 10, 2);
	for (uint64_t i = 0; i < 10000; i++)
		cr_assert_eq(known_code__replaced(known, 0x9000, 0xa000, later + 100 + i), 0);
	cr_assert_eq(known_code__replaced(known, 0x2000, 0x3000, later + 99999), 0);
	expect_unsure(1, later + 99999, 1);
	expect_unsure(7, 0, 0);
}

Test(exact_code, there_is_room_for_so_many)
{
	for (uint32_t i = 0; i < BOOKS_REGIONS_MAX + 9; i++)
		add_region(0x10000 * (i + 1), 0x10000 * (i + 1) + 0x1000, i);
	for (uint32_t i = 0; i < BOOKS_RANGES_MAX + 9; i++)
		cr_assert_eq(array_push(&list, range, ((struct code_range){ 0x10000 * (i + 1), 0x10000 * (i + 2) })), 0);
	publish();
	cr_expect_eq(list_of_now()->region_nr, BOOKS_REGIONS_MAX);
	cr_expect_eq(list_of_now()->range_nr, BOOKS_RANGES_MAX);
	cr_expect_not_null(find_region(list_of_now(), 0x10000 * BOOKS_REGIONS_MAX));
	cr_expect_null(find_region(list_of_now(), 0x10000 * (BOOKS_REGIONS_MAX + 1)));
}

Test(exact_code, news_come_once)
{
	struct books_head *head = MADE_HEAD(&made);
	struct code_news news;

	publish();
	cr_expect_not(known_code__news(known, &news));
	head->wanted_code = 0x1234;
	head->wanted_stack = 0x5678;
	cr_expect(known_code__news(known, &news));
	cr_expect_eq(news.wanted_code, 0x1234);
	cr_expect_eq(news.wanted_stack, 0x5678);
	cr_expect_not(known_code__news(known, &news));
	head->closed_nr = 5;
	cr_expect(known_code__news(known, &news));
	cr_expect(news.has_closed && news.closed_nr == 5);
	list.closed_nr = 5;
	publish();
	cr_expect_not(known_code__news(known, &news));
}

/* ---- copied stacks ---- */

/* Where copies lie: the next one comes here. */
static uint64_t copied;

static uint64_t *copy_word(uint64_t at)
{
	return MADE_AT(&made, uint64_t, BOOKS_AT_COPIES + at % BOOKS_COPIES_BYTES);
}

/* The stack may be this process's own, with all that the sanitizer has put there. */
__attribute__((no_sanitize("address"))) static uint64_t put_copy(uint64_t pc, uint64_t sp, uint64_t fp, const void *stack, uint64_t bytes)
{
	const uint64_t head[] = { bytes, pc, sp, fp };
	uint64_t number = copied / 8;

	for (uint64_t i = 0; i < bytes / 8 + 4; i++)
		*(volatile uint64_t *)copy_word(copied + 8 * i) = i < 4 ? head[i] : ((const volatile uint64_t *)stack)[i - 4];
	copied += sizeof(head) + bytes;
	MADE_HEAD(&made)->copied_bytes = copied;
	return number;
}

static void walk_copies(void)
{
	struct code_news news;

	known_code__news(known, &news);
	cr_assert_eq(known_code__read_copies(known), 0);
}

static uint64_t end_of_own_stack(void)
{
	pthread_attr_t attr;
	void *low;
	size_t bytes;

	cr_assert_eq(pthread_getattr_np(pthread_self(), &attr), 0);
	pthread_attr_getstack(&attr, &low, &bytes);
	pthread_attr_destroy(&attr);
	return (uint64_t)low + bytes;
}

/* Copies the stack of the caller as the process would at a call that returns there. */
static __attribute__((noinline, no_sanitize("address"))) uint64_t copy_own_stack(void **frame, int most, int *ret_nr)
{
	const uint64_t *here = __builtin_frame_address(0);
	uint64_t sp = (uint64_t)(here + 2), bytes = end_of_own_stack() - sp;

	*ret_nr = backtrace(frame, most);
	bytes = bytes < BOOKS_COPY_MOST ? bytes : BOOKS_COPY_MOST;
	return put_copy(here[1], sp, here[0], (const void *)sp, bytes & ~UINT64_C(7));
}

static int compare_ints(const void *a, const void *b);
static void *frames[128];
static int frames_nr;
static uint64_t number_of_copy;

static int compare_ints(const void *a, const void *b)
{
	if (!frames_nr)
		number_of_copy = copy_own_stack(frames, 128, &frames_nr);
	return *(const int *)a - *(const int *)b;
}

/* The first frames of backtrace() are of the function that has copied, and of a sanitizer. */
static void expect_own_frames(const char *what)
{
	const uint64_t *frame;
	const struct copied_stack *copy = known_code__find_copy(known, number_of_copy, &frame);
	int skipped = 0;

	cr_assert(copy, "%s", what);
	while (skipped < frames_nr && (uint64_t)frames[skipped] != frame[0])
		skipped++;
	cr_assert(skipped < 3, "%s: frame 0 is %#lx", what, frame[0]);
	cr_expect_eq(copy->end, UNWIND_ROOT, "%s: it ended by %u", what, copy->end);
	cr_expect_eq((int)copy->total_nr, frames_nr - skipped, "%s: %u frames", what, copy->total_nr);
	for (uint32_t i = 0; i < copy->frame_nr && (int)i + skipped < frames_nr; i++)
		cr_expect_eq(frame[i], (uint64_t)frames[i + skipped], "%s: frame %u is %#lx", what, i, frame[i]);
}

/* The process may write over the tables: the recorder has its own. */
Test(exact_code, copied_stacks_have_the_frames_of_backtrace)
{
	struct loaded_files loaded = {};
	struct unwind_table *table[64];
	int number[] = { 3, 1, 2 };

	publish_own_code(&loaded, table);
	qsort(number, 3, sizeof(*number), compare_ints); /* through the C library */
	cr_assert(frames_nr > 4);
	memset(MADE_AT(&made, char, BOOKS_AT_TABLES), 0x5a, 1 << 20);
	memset(MADE_AT(&made, char, BOOKS_AT_KNOWN), 0x5a, 1 << 20);
	walk_copies();
	expect_own_frames("copy");
	for (size_t i = 0; i < loaded.file_nr; i++)
		unwind_table__free(table[i]);
	free(loaded.file);
}

/* By frame pointers, as there is no table. What lies behind them is no code. */
Test(exact_code, frames_are_guessed_where_there_is_no_table)
{
	const uint64_t sp = 0x7f0000001000, stack[] = { 0, 0, sp + 0x20, 0x1500, sp + 0x38, 0x1600, 0, 0x1999, 0x9000 };
	const uint64_t *frame;
	const struct copied_stack *copy;
	uint64_t number;

	add_region(0x1000, 0x2000, 1);
	list.time_ns = 77;
	publish();
	number = put_copy(0x1400, sp, sp + 0x10, stack, sizeof(stack));
	walk_copies();
	copy = known_code__find_copy(known, number, &frame);
	cr_assert(copy);
	cr_expect_eq(copy->total_nr, 3);
	cr_expect_eq(frame[0], 0x1400);
	cr_expect_eq(frame[1], 0x1500 | BOOKS_PC_GUESSED);
	cr_expect_eq(frame[2], 0x1600 | BOOKS_PC_GUESSED);
	cr_expect_eq(copy->end, UNWIND_NO_TABLE, "the guess behind them was no code, or not sane: %u", copy->end);
	cr_expect_eq(copy->time_ns, 77);
}

Test(exact_code, a_copy_amid_replacements_has_no_time)
{
	const uint64_t stack[] = { 0, 0 }, *frame;
	uint64_t number;

	add_region(0x1000, 0x2000, 1);
	list.time_ns = 5;
	publish();
	number = put_copy(0x1400, 0x7000, 0, stack, sizeof(stack));
	list.region[0].owner = 2;
	list.time_ns = 6;
	publish();
	walk_copies();
	cr_assert(known_code__find_copy(known, number, &frame));
	cr_expect_eq(known_code__find_copy(known, number, &frame)->time_ns, 0);
	number = put_copy(0x1400, 0x7000, 0, stack, sizeof(stack));
	walk_copies();
	cr_expect_eq(known_code__find_copy(known, number, &frame)->time_ns, 6);
}

/* The copies may have been made before other code came there. */
Test(exact_code, code_that_may_be_another_ends_a_walk)
{
	const uint64_t sp = 0x7f0000001000, stack[] = { 0, 0, sp + 0x20, 0x3500, 0, 0x1600 }, *frame;
	const struct copied_stack *copy;
	uint64_t number = put_copy(0x1400, sp, sp + 0x10, stack, sizeof(stack));

	add_region(0x1000, 0x2000, 1);
	add_region(0x3000, 0x4000, 2);
	list.region[1].is_unsure = true;
	publish();
	walk_copies();
	copy = known_code__find_copy(known, number, &frame);
	cr_assert(copy);
	cr_expect_eq(copy->total_nr, 2);
	cr_expect_eq(frame[1], 0x3500 | BOOKS_PC_GUESSED);
	cr_expect_eq(copy->end, UNWIND_BUSY);
	cr_expect_eq(copy->time_ns, 0);
}

Test(exact_code, code_that_is_gone_is_walked)
{
	const uint64_t sp = 0x7f0000001000, stack[] = { 0, 0, 0, 0x1500 }, *frame;
	uint64_t number;

	add_region(0x1000, 0x2000, 1);
	publish();
	list.region[0].is_gone = true;
	publish();
	number = put_copy(0x1400, sp, sp + 0x10, stack, sizeof(stack));
	walk_copies();
	cr_expect_eq(known_code__find_copy(known, number, &frame)->total_nr, 2);
}

/* Copies behind one that is not complete are found by the numbers in nodes. Their memory is given back. */
Test(exact_code, copies_give_their_memory_back)
{
	char *stack = calloc(1, BOOKS_COPY_MOST);
	const uint64_t *frame;
	uint64_t first = 0, number = 0, broken;
	struct stat st;

	add_region(0x1000, 0x2000, 1);
	publish();
	for (int i = 0; i < 64; i++) {
		memset(stack, i + 1, BOOKS_COPY_MOST);
		number = put_copy(0x1400 + i, 0x7000, 0, stack, BOOKS_COPY_MOST);
		first = i ? first : number;
	}
	broken = put_copy(0x1400, 0x7000, 0, stack, 64);
	MADE_AT(&made, struct books_copy, BOOKS_AT_COPIES + broken * 8)->bytes = 0; /* its thread has ended */
	walk_copies();
	fstat(made.fd, &st);
	cr_expect(st.st_blocks * UINT64_C(512) < UINT64_C(32) * BOOKS_COPY_MOST, "the file takes %lu bytes", st.st_blocks * 512ul);
	cr_expect_eq(known_code__find_copy(known, first, &frame)->number, first);
	cr_expect_eq(frame[0], 0x1400);
	cr_expect_eq(known_code__find_copy(known, number, &frame)->number, number);
	cr_expect_eq(frame[0], 0x143f);
	cr_expect_null(known_code__find_copy(known, broken, &frame));
	number = put_copy(0x1777, 0x7000, 0, stack, 64);
	walk_copies();
	cr_assert(known_code__find_copy(known, number, &frame), "one behind it");
	cr_expect_eq(frame[0], 0x1777);
	free(stack);
}

/* The ring comes to its begin again, and one copy reaches over its end. Each has the frames of its own stack. */
Test(exact_code, copies_are_in_a_ring)
{
	uint64_t *stack = calloc(1, BOOKS_COPY_MOST), number;
	const uint64_t *frame;
	struct stat st;

	add_region(0x1000, 0x200000, 1);
	publish();
	for (uint64_t i = 0; copied < BOOKS_COPIES_BYTES + (BOOKS_COPIES_BYTES >> 4); i++) {
		stack[3] = 0x2000 + i;
		number = put_copy(0x1400, 0x7000, 0x7010, stack, BOOKS_COPY_MOST - 8);
		walk_copies();
		cr_assert(known_code__find_copy(known, number, &frame), "%lu", copied);
		cr_assert_eq(frame[1], (0x2000 + i) | BOOKS_PC_GUESSED);
	}
	fstat(made.fd, &st);
	cr_expect(st.st_blocks * UINT64_C(512) < UINT64_C(32) * BOOKS_COPY_MOST, "the file takes %lu bytes", st.st_blocks * 512ul);
	free(stack);
}

Test(exact_code, numbers_of_others_are_no_copies)
{
	const uint64_t stack[] = { 0, 0 }, *frame;

	publish();
	put_copy(0x1400, 0x7000, 0, stack, sizeof(stack));
	walk_copies();
	for (int i = 1; i < 64; i++)
		cr_expect_null(known_code__find_copy(known, UINT64_MAX >> i, &frame), "%d", i);
	cr_expect_null(known_code__find_copy(known, 1, &frame));
}

/* ---- a process that writes anything ---- */

static uint64_t random_state = 88172645463325252;

static uint64_t random_word(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state >> (random_state & 3 ? random_state % 64 : 0);
}

static void scribble(uint64_t at, uint64_t bytes, int nr)
{
	for (int i = 0; i < nr; i++)
		*MADE_AT(&made, uint64_t, at + random_word() % bytes / 8 * 8) = random_word();
}

static void scribble_copies(void)
{
	const uint64_t sp = 0x7f0000000000;
	uint64_t stack[64];

	for (int i = 0; i < 64; i++)
		stack[i] = random_word() & 1 ? sp + random_word() % 600 / 8 * 8 : 0x1000 + random_word() % 0x3000;
	put_copy(0x1000 + random_word() % 0x2000, sp, sp + random_word() % 600, stack, sizeof(stack));
	if (!(random_word() % 3))
		scribble(BOOKS_AT_COPIES + copied / 2, copied / 2 + 8, 4);
	if (!(random_word() % 9))
		MADE_HEAD(&made)->copied_bytes = random_word();
}

static int look_at_stack(void *sum, const struct books_stack *stack)
{
	cr_assert(stack->kept_nr <= 8 && stack->kept_nr <= stack->frame_nr && stack->frame_nr <= BOOKS_DEEPEST);
	for (uint32_t i = 0; i < stack->kept_nr; i++)
		cr_assert_not(stack->frame[i] & BOOKS_END);
	*(uint64_t *)sum += stack->totals.allocations;
	if (BOOKS_END_OF(stack->end) == BOOKS_END_COPIED) {
		const uint64_t *frame;
		const struct copied_stack *copy = known_code__find_copy(known, BOOKS_COPY_NUMBER(stack->end), &frame);

		cr_assert(!copy || copy->frame_nr <= FRAMES_MOST);
		*(uint64_t *)sum += copy ? frame[copy->frame_nr - 1] : 0;
	}
	return 0;
}

Test(exact_code, anything_may_be_written)
{
	struct loaded_files loaded = {};
	struct unwind_table *table[64];
	struct read_books read = {};
	uint64_t sum = 0;

	publish_own_code(&loaded, table);
	add_region(0x1000, 0x3000, 99);
	qsort(list.region, list.region_nr, sizeof(*list.region), by_region_start);
	publish();
	for (int round = 0; round < 300; round++) {
		scribble_copies();
		scribble(BOOKS_AT_NODES, 200 * sizeof(struct books_node), 50);
		scribble(BOOKS_AT_THREADS, 3 * BOOKS_THREAD_BYTES, 20);
		scribble(BOOKS_AT_KNOWN, BOOKS_KNOWN_BYTES, 5);
		scribble(BOOKS_AT_TABLES, 1 << 16, 5);
		scribble(BOOKS_AT_HEAD + offsetof(struct books_head, chunk_nr), sizeof(struct books_head) - offsetof(struct books_head, chunk_nr), 2);
		MADE_HEAD(&made)->node_nr = random_word() % 256;
		MADE_HEAD(&made)->totals_nr = random_word() % 256;
		MADE_NODES(&made)[random_word() % 200] = (struct books_node){
			.word = BOOKS_COPY_WORD(random_word() % (copied / 8)), .totals = 1 };
		walk_copies();
		list.closed_nr = MADE_HEAD(&made)->closed_nr;
		publish();
		cr_assert_eq(books_read_stacks(made.books, 8, look_at_stack, &sum), 0);
	}
	cut_and_read(&made, 5, true, &read);
	release_read_books(&read);
	for (size_t i = 0; i < loaded.file_nr; i++)
		unwind_table__free(table[i]);
	free(loaded.file);
}

/* ---- counts ---- */

struct sums {
	struct books_totals node[8];
	uint64_t end[8];
	uint32_t frame_nr[8];
};

static int keep_totals(void *sums_, const struct books_stack *stack)
{
	struct sums *sums = sums_;

	cr_assert(stack->id < 8);
	sums->node[stack->id] = stack->totals;
	sums->end[stack->id] = stack->end;
	sums->frame_nr[stack->id] = stack->frame_nr;
	return 0;
}

/* Also if the thread has ended. A number of no node counts nowhere. */
Test(exact_code, counts_of_threads_are_in_the_totals)
{
	struct books_node *node = MADE_NODES(&made);
	struct books_count *count[2] = { made_thread(&made, 3)->native.count, made_thread(&made, 4095)->native.count };
	struct sums sums = {};

	MADE_HEAD(&made)->node_nr = 3;
	MADE_HEAD(&made)->totals_nr = 1;
	MADE_AT(&made, struct books_totals, BOOKS_AT_TOTALS)[1] = (struct books_totals){ 10, 100, 4, 40 };
	node[1] = (struct books_node){ .word = BOOKS_END_WORD(UNWIND_ROOT, 5) };
	node[2] = (struct books_node){ .word = 0x1234, .parent = 1, .totals = 1 };
	node[3] = (struct books_node){ .word = 0x5678 | BOOKS_PC_EXACT, .parent = 2 };
	made_thread(&made, 3)->tid = 77;
	count[0][2] = (struct books_count){ 2, 0, 1, 11, 0, 0 };
	count[0][3] = (struct books_count){ 3, 0, 6, 60, 0, 0 };
	count[0][7] = (struct books_count){ 4, 0, 9, 90, 9, 90 };
	count[0][9] = (struct books_count){ UINT32_MAX, 0, 9, 90, 9, 90 };
	count[1][2] = (struct books_count){ 2, 0, 0, 0, 2, 22 };
	cr_assert_eq(books_read_stacks(made.books, 64, keep_totals, &sums), 0);
	cr_expect_eq(sums.node[2].allocations, 11);
	cr_expect_eq(sums.node[2].allocated_bytes, 111);
	cr_expect_eq(sums.node[2].temporary, 6);
	cr_expect_eq(sums.node[2].temporary_bytes, 62);
	cr_expect_eq(sums.node[3].allocations, 6);
	cr_expect_eq(sums.frame_nr[3], 2);
	cr_expect_eq(BOOKS_END_OF(sums.end[3]), UNWIND_ROOT);
	cr_expect_eq(BOOKS_END_NUMBER(sums.end[3]), 5);
}
