// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "exact/known_code.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/idmap.h"
#include "exact/books_private.h"
#include "exact/native_rules.h"

/* A stack that was copied. */
struct unwind_memory {
	const uint64_t *word;
	uint64_t sp, bytes;
};

static int unwind_memory__read(struct unwind_memory *memory, bpf_u64 address, bpf_u64 *ret_word)
{
	uint64_t at = address - memory->sp;

	if (at & 7 || at >= memory->bytes)
		return -1;
	*ret_word = memory->word[at / 8];
	return 0;
}

#include "shared/unwind_step.h"

#define TABLE_BYTES (sizeof(uint64_t) * BOOKS_TABLE_WORDS)
#define COPIES_MOST (1u << 22)
#define COPIED_WORDS_MOST (1u << 24) /* of the frames of all copies */

#define REPLACED_MOST (4 * 1024) /* of four passes (MAPPINGS_PAST_MAX) and more */

struct list_time {
	uint32_t replaced_nr;
	uint64_t made_ns, time_ns; /* the code was there: first, last */
	uint64_t ended_ns;	   /* another number was published; 0: it holds */
	bool has_unsure;	   /* a range has other code since a time in between */
};

struct replaced_range {
	uint64_t start, end, time_ns;
	bool is_noticed; /* the process itself has stopped using the rules before */
};

struct known_code {
	struct books *books;
	uint64_t *table; /* what lies in the tables of the books */
	uint32_t word_nr;
	uint32_t known_nr, replaced_nr;
	struct code_list published; /* without regions that are gone */
	struct books_known *written;
	struct books_known *walked; /* the regions of the latest list, with those that are gone */
	bool is_unsure[BOOKS_REGIONS_MAX]; /* of walked->region[] */
	struct list_time *time;
	size_t time_nr, time_alloc;
	struct replaced_range *range;
	size_t range_nr, range_alloc;
	bool has_unsure; /* since the latest list */

	/* Copies. */
	uint32_t frames_most;
	uint64_t ready_bytes, read_bytes, punched_bytes; /* up to there in the copies; ready: there were so many at the latest news */
	bool is_replaced; /* since the copies were last read, other code has come to an address */
	struct copied_stack *stack;
	size_t stack_nr, stack_alloc;
	struct idmap numbers, lists; /* into stack[]: by number, and by frames */
	uint64_t *frame;
	size_t frame_nr, frame_alloc;
	uint64_t copied[BOOKS_COPY_MOST / 8], found[BOOKS_NATIVE_DEEPEST]; /* the one that is being walked */
};

/* ---- open and close ---- */

int known_code__open(struct books *books, uint32_t frames, struct known_code **ret)
{
	struct known_code *known = calloc(1, sizeof(*known));

	if (!known)
		return -ENOMEM;
	known->books = books;
	known->frames_most = frames < BOOKS_NATIVE_DEEPEST ? frames : BOOKS_NATIVE_DEEPEST;
	known->written = calloc(1, sizeof(*known->written));
	known->walked = calloc(1, sizeof(*known->walked));
	known->table = mmap(NULL, TABLE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (known->table == MAP_FAILED)
		known->table = NULL;
	if (!known->written || !known->walked || !known->table) {
		known_code__close(known);
		return -ENOMEM;
	}
	*ret = known;
	return 0;
}

void known_code__close(struct known_code *known)
{
	if (!known)
		return;
	if (known->table)
		munmap(known->table, TABLE_BYTES);
	free(known->written);
	free(known->walked);
	free(known->published.region);
	free(known->published.range);
	free(known->time);
	free(known->range);
	free(known->stack);
	free(known->frame);
	idmap_release(&known->numbers);
	idmap_release(&known->lists);
	free(known);
}

static int write_books_at(const struct known_code *known, uint64_t at, const void *from, size_t bytes)
{
	for (size_t done = 0; done < bytes;) {
		ssize_t put = pwrite(known->books->fd, (const char *)from + done, bytes - done, at + done);

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return put ? -errno : -EIO;
		done += put;
	}
	return 0;
}

/* ---- news ---- */

static uint64_t copies_end(const struct known_code *known)
{
	return __atomic_load_n(&known->books->head->copied_bytes, __ATOMIC_ACQUIRE);
}

bool known_code__news(struct known_code *known, struct code_news *ret)
{
	struct books_head *head = known->books->head;
	uint64_t time_ns = monotonic_now_ns(), copied = copies_end(known);

	*ret = (struct code_news){
		.time_ns = time_ns,
		.closed_nr = __atomic_load_n(&head->closed_nr, __ATOMIC_SEQ_CST),
		.has_copies = copied != known->ready_bytes,
		.has_unread = known->read_bytes < known->ready_bytes,
	};
	known->ready_bytes = copied;
	ret->has_closed = ret->closed_nr != known->published.closed_nr;
	if (__atomic_load_n(&head->wanted_code, __ATOMIC_RELAXED))
		ret->wanted_code = __atomic_exchange_n(&head->wanted_code, 0, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&head->wanted_stack, __ATOMIC_RELAXED))
		ret->wanted_stack = __atomic_exchange_n(&head->wanted_stack, 0, __ATOMIC_SEQ_CST);
	return ret->has_closed || ret->has_copies || ret->has_unread || ret->wanted_code || ret->wanted_stack;
}

/* ---- lists ---- */

int known_code__add_words(struct known_code *known, const uint64_t *word, uint32_t nr, uint32_t *ret_at)
{
	uint32_t at = known->word_nr;
	int err;

	if (nr > BOOKS_TABLE_WORDS - at)
		return -ENOSPC;
	err = write_books_at(known, BOOKS_AT_TABLES + UINT64_C(8) * at, word, UINT64_C(8) * nr);
	if (err)
		return err;
	memcpy(&known->table[at], word, UINT64_C(8) * nr);
	known->word_nr += nr;
	*ret_at = at;
	return 0;
}

/* The same code by the same table; bounds are another matter. */
static bool is_same_region(const struct code_region *a, const struct code_region *b)
{
	struct books_region x = a->region, y = b->region;

	x.start = y.start = x.end = y.end = 0;
	return a->owner == b->owner && !memcmp(&x, &y, sizeof(x));
}

/* Whether all of it is in the list, as the same code. */
static bool has_region(const struct code_list *list, const struct code_region *wanted)
{
	uint64_t at = wanted->region.start;
	size_t i = array_first(list->region_nr, k, list->region[k].region.end > at);

	for (; i < list->region_nr && at < wanted->region.end && list->region[i].region.start <= at &&
	       is_same_region(&list->region[i], wanted); i++)
		at = list->region[i].region.end;
	return at >= wanted->region.end;
}

static bool is_any_gone(const struct code_list *before, const struct code_list *now)
{
	return array_any(before->region_nr, i, !has_region(now, &before->region[i]));
}

static bool is_same_list(const struct code_list *a, const struct code_list *b)
{
	if (a->region_nr != b->region_nr || a->range_nr != b->range_nr || a->closed_nr != b->closed_nr)
		return false;
	for (size_t i = 0; i < a->region_nr; i++)
		if (a->region[i].owner != b->region[i].owner ||
		    memcmp(&a->region[i].region, &b->region[i].region, sizeof(a->region[i].region)))
			return false;
	return !a->range_nr || !memcmp(a->range, b->range, a->range_nr * sizeof(*a->range));
}

/* As many as there is room for, without regions that are gone. */
static int take_published(const struct code_list *list, struct code_list *ret)
{
	int err = 0;

	*ret = (struct code_list){ .closed_nr = list->closed_nr, .time_ns = list->time_ns };
	for (size_t i = 0; i < list->region_nr && ret->region_nr < BOOKS_REGIONS_MAX && !err; i++)
		if (!list->region[i].is_gone)
			err = array_push(ret, region, list->region[i]);
	for (size_t i = 0; i < list->range_nr && ret->range_nr < BOOKS_RANGES_MAX && !err; i++)
		err = array_push(ret, range, list->range[i]);
	return err;
}

static void release_list(struct code_list *list)
{
	free(list->region);
	free(list->range);
	*list = (struct code_list){};
}

static bool is_no_code(const struct books_region *region)
{
	return !region->page_nr && region->first_page == UNWIND_NO_CODE;
}

/* Code that is gone has the room that is left. */
static void fill_walked(struct known_code *known, const struct code_list *list)
{
	uint32_t live_nr = array_count(list->region_nr, i, !list->region[i].is_gone), gone_room;

	gone_room = live_nr < BOOKS_REGIONS_MAX ? BOOKS_REGIONS_MAX - live_nr : 0;
	known->walked->region_nr = 0;
	for (size_t i = 0; i < list->region_nr && known->walked->region_nr < BOOKS_REGIONS_MAX; i++) {
		if (is_no_code(&list->region[i].region) || (list->region[i].is_gone && !gone_room))
			continue;
		gone_room -= list->region[i].is_gone;
		known->is_unsure[known->walked->region_nr] = list->region[i].is_unsure;
		known->is_replaced |= list->region[i].is_unsure;
		known->walked->region[known->walked->region_nr++] = list->region[i].region;
	}
}

static int write_list(struct known_code *known, const struct code_list *list)
{
	struct books_known *written = known->written;
	uint64_t at = BOOKS_AT_KNOWN + (known->known_nr + 1) % 2 * BOOKS_KNOWN_BYTES;

	written->closed_nr = list->closed_nr;
	written->region_nr = list->region_nr;
	written->range_nr = list->range_nr;
	for (size_t i = 0; i < list->region_nr; i++)
		written->region[i] = list->region[i].region;
	for (size_t i = 0; i < list->range_nr; i++) {
		written->range[i].start = list->range[i].start;
		written->range[i].end = list->range[i].end;
	}
	return write_books_at(known, at, written, offsetof(struct books_known, region) + list->region_nr * sizeof(*written->region)) ?:
	       write_books_at(known, at + offsetof(struct books_known, range), written->range, list->range_nr * sizeof(*written->range));
}

static void tell_of_list(struct known_code *known)
{
	struct books_head *head = known->books->head;

	__atomic_store_n(&head->lists, ++known->known_nr | (uint64_t)known->replaced_nr << 32, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &head->known_nr, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static int note_time(struct known_code *known, uint32_t replaced_nr, uint64_t time_ns)
{
	struct list_time *last = known->time_nr ? &known->time[known->time_nr - 1] : NULL;
	const struct list_time new = { replaced_nr, time_ns, time_ns, 0, false };

	if (!last || last->replaced_nr != replaced_nr)
		return array_push(known, time, new);
	last->time_ns = time_ns;
	return 0;
}

int known_code__publish(struct known_code *known, const struct code_list *list)
{
	struct code_list new;
	int err = take_published(list, &new);
	bool is_new = !err && (!known->known_nr || known->has_unsure || !is_same_list(&known->published, &new));
	bool is_replaced = is_new && (known->has_unsure || is_any_gone(&known->published, &new));

	if (!err)
		fill_walked(known, list);
	if (is_new)
		err = write_list(known, &new);
	err = err ?: note_time(known, known->replaced_nr + is_replaced, new.time_ns);
	if (err || !is_new) {
		release_list(&new);
		return err;
	}
	known->replaced_nr += is_replaced;
	known->is_replaced |= is_replaced;
	release_list(&known->published);
	known->published = new;
	known->has_unsure = false;
	tell_of_list(known);
	for (size_t i = 0; i + 1 < known->time_nr && is_replaced; i++)
		known->time[i].ended_ns = known->time[i].ended_ns ?: monotonic_now_ns();
	return 0;
}

/* ---- code that was replaced while a list held ---- */

uint64_t known_code__confirmed_ns(const struct known_code *known)
{
	return known->time_nr ? known->time[known->time_nr - 1].time_ns : 0;
}

/* Whether hooks have used no rule any more since before that time. */
static bool was_noticed(const struct known_code *known, uint64_t time_ns)
{
	const struct books_head *head = known->books->head;
	uint64_t closed_ns = __atomic_load_n(&head->closed_ns, __ATOMIC_RELAXED);

	return __atomic_load_n(&head->closed_nr, __ATOMIC_SEQ_CST) != known->published.closed_nr && closed_ns && closed_ns <= time_ns;
}

static bool held_then(const struct list_time *list, uint64_t time_ns)
{
	return list->made_ns < time_ns && (!list->ended_ns || time_ns <= list->ended_ns);
}

/* Passes have had the oldest ones: the tracebacks of these are known for good. */
static void forget_oldest_ranges(struct known_code *known)
{
	known->range_nr /= 2;
	memmove(known->range, known->range + known->range_nr, known->range_nr * sizeof(*known->range));
}

int known_code__replaced(struct known_code *known, uint64_t start, uint64_t end, uint64_t time_ns)
{
	const struct replaced_range new = { start, end, time_ns, was_noticed(known, time_ns) };

	if (array_any(known->range_nr, i, known->range[i].start == start && known->range[i].end == end && known->range[i].time_ns == time_ns))
		return 0;
	known->has_unsure |= !new.is_noticed;
	for (size_t i = 0; i < known->time_nr; i++)
		known->time[i].has_unsure |= !new.is_noticed && held_then(&known->time[i], time_ns);
	if (known->range_nr >= REPLACED_MOST)
		forget_oldest_ranges(known);
	return array_push(known, range, new);
}

uint64_t known_code__unsure_since(const struct known_code *known, uint32_t replaced_nr, const uint64_t *frame, uint32_t frame_nr,
				  uint32_t *ret_frame)
{
	size_t at = array_first(known->time_nr, k, known->time[k].replaced_nr >= replaced_nr);
	uint64_t since_ns = UINT64_MAX;

	*ret_frame = frame_nr;
	for (size_t i = 0; i < known->range_nr && at < known->time_nr && known->time[at].has_unsure; i++) {
		const struct replaced_range *range = &known->range[i];
		uint32_t k = 0;

		if (range->is_noticed || !held_then(&known->time[at], range->time_ns))
			continue;
		while (k < frame_nr && BOOKS_PC(frame[k]) - range->start >= range->end - range->start)
			k++;
		if (k < frame_nr && range->time_ns < since_ns)
			since_ns = range->time_ns;
		*ret_frame = k < *ret_frame ? k : *ret_frame;
	}
	return since_ns == UINT64_MAX ? 0 : since_ns;
}

uint64_t known_code__time_of(const struct known_code *known, uint32_t replaced_nr)
{
	size_t i = array_first(known->time_nr, k, known->time[k].replaced_nr >= replaced_nr);

	return i < known->time_nr && known->time[i].replaced_nr == replaced_nr ? known->time[i].time_ns : 0;
}

/* ---- a copied stack ---- */

struct copied_walk {
	const struct known_code *known;
	struct unwind_memory memory;
	struct unwind_frame frame;
	int guessed; /* the frame was found by frame pointer: why there is no rule. 0: it was not */
};

#define FRAME_BYTES_MAX (UINT64_C(1) << 20) /* of one function */

/* As step_by_frame_pointer() of the kernel side. */
static int guess_copied_caller(struct copied_walk *walk, int end)
{
	struct unwind_frame *frame = &walk->frame;
	uint64_t at = frame->fp;

	if (frame->is_fp_lost)
		return UNWIND_NO_FP;
	if (at & 7 || at - frame->sp >= FRAME_BYTES_MAX)
		return end;
	if (unwind_memory__read(&walk->memory, at, &frame->fp) || unwind_memory__read(&walk->memory, at + 8, &frame->pc))
		return UNWIND_UNREADABLE;
	frame->sp = at + 16;
	frame->is_exact = 0;
	walk->guessed = end;
	return UNWIND_GOES_ON;
}

static int step_in_copy(struct copied_walk *walk)
{
	uint64_t address = unwind_rule_address(&walk->frame);
	const struct books_region *region = find_region(walk->known->walked, address);
	int end;

	walk->guessed = 0;
	if (!region)
		return UNWIND_NO_CODE;
	if (walk->known->is_unsure[region - walk->known->walked->region])
		return UNWIND_BUSY;
	end = region->page_nr ? unwind_step(rule_in_region(region, walk->known->table, address), &walk->frame, &walk->memory) :
				(int)region->first_page;
	return end == UNWIND_NO_RULE || end == UNWIND_NO_TABLE ? guess_copied_caller(walk, end) : end;
}

static uint64_t word_of_copied(const struct unwind_frame *frame, bool is_guessed)
{
	return BOOKS_PC(frame->pc) | (is_guessed ? BOOKS_PC_GUESSED : 0) | (frame->is_exact ? BOOKS_PC_EXACT : 0);
}

/* As walk_one() of the kernel side. An address outside of code is no frame. Nobody knows the caller of code that may be another by now. */
static void walk_copy(struct known_code *known, const struct books_copy *copy, struct copied_stack *ret)
{
	struct copied_walk walk = {
		.known = known, .memory = { known->copied, copy->sp, copy->bytes }, .frame = { copy->pc, copy->sp, copy->fp, 0, 0, 0 },
	};
	uint32_t nr = 0;
	int end = UNWIND_GOES_ON, guessed;

	while (end == UNWIND_GOES_ON && nr < BOOKS_NATIVE_DEEPEST) {
		struct unwind_frame frame = walk.frame;

		guessed = walk.guessed;
		end = step_in_copy(&walk);
		if (end == UNWIND_NO_CODE && nr && !frame.is_exact) {
			end = guessed ?: end;
			break;
		}
		known->found[nr++] = word_of_copied(&frame, guessed);
	}
	ret->total_nr = nr;
	ret->frame_nr = nr < known->frames_most ? nr : known->frames_most;
	ret->end = end;
}

static bool has_same_frames(uint32_t i, const void *wanted_, const void *known_)
{
	const struct known_code *known = known_;
	const struct copied_stack *wanted = wanted_, *stack = &known->stack[i];

	return stack->frame_nr == wanted->frame_nr &&
	       !memcmp(&known->frame[stack->first], known->found, sizeof(*known->found) * wanted->frame_nr);
}

/* Equal frames are kept once. Without room the stack is not kept. */
static int keep_copied_stack(struct known_code *known, struct copied_stack *new)
{
	uint64_t hash = hash_bytes(known->found, sizeof(*known->found) * new->frame_nr, 0);
	uint32_t same = idmap_find(&known->lists, hash, has_same_frames, new, known);
	int err = 0;

	if (known->stack_nr >= COPIES_MOST || (same == IDMAP_NONE && known->frame_nr + new->frame_nr > COPIED_WORDS_MOST))
		return 0;
	new->first = same == IDMAP_NONE ? known->frame_nr : known->stack[same].first;
	for (uint32_t i = 0; i < new->frame_nr && same == IDMAP_NONE && !err; i++)
		err = array_push(known, frame, known->found[i]);
	err = err ?: idmap_push(&known->numbers, known, stack, new->number, *new);
	return err ?: same == IDMAP_NONE ? idmap_add(&known->lists, hash, known->stack_nr - 1) : 0;
}

static uint32_t find_copied_number(const struct known_code *known, uint64_t number)
{
	return idmap_find_key(&known->numbers, &number, sizeof(number), known->stack, sizeof(*known->stack));
}

/* The bytes up to the end of the ring, if there are so many. */
static uint64_t bytes_to_ring_end(uint64_t at, uint64_t bytes)
{
	uint64_t left = BOOKS_COPIES_BYTES - at % BOOKS_COPIES_BYTES;

	return left < bytes ? left : bytes;
}

static int read_of_copies(const struct known_code *known, uint64_t at, void *to, uint64_t bytes)
{
	uint64_t first = bytes_to_ring_end(at, bytes);

	return read_books_at(known->books, BOOKS_AT_COPIES + at % BOOKS_COPIES_BYTES, to, first) ?:
	       read_books_at(known->books, BOOKS_AT_COPIES, (char *)to + first, bytes - first);
}

/*
 * 0, and how many bytes it takes; -EAGAIN: it has not been copied wholly; -EINVAL: it makes no sense. `end`: copies lie below
 * it. Code may have been replaced between the copy and the walk: then it is not known whose code it was there.
 */
static int read_copy(struct known_code *known, uint64_t at, uint64_t end, uint64_t *ret_bytes)
{
	struct copied_stack stack = { .number = at / 8 };
	struct books_copy copy;
	int err;

	if (at > end || end - at < sizeof(copy) || end - at > BOOKS_COPIES_BYTES)
		return -EINVAL;
	err = read_of_copies(known, at, &copy, sizeof(copy));
	if (err || !copy.bytes)
		return err ?: -EAGAIN;
	if (copy.bytes > BOOKS_COPY_MOST || copy.bytes & 7 || copy.bytes > end - at - sizeof(copy))
		return -EINVAL;
	err = read_of_copies(known, at + sizeof(copy), known->copied, copy.bytes);
	if (err)
		return err;
	*ret_bytes = sizeof(copy) + copy.bytes;
	walk_copy(known, &copy, &stack);
	stack.time_ns = known->is_replaced ? 0 : known_code__time_of(known, known->replaced_nr);
	return find_copied_number(known, stack.number) == IDMAP_NONE ? keep_copied_stack(known, &stack) : 0;
}

/* The process reads copies no more: their memory is given back, and is zero when the ring comes there again. */
static void punch_copies(struct known_code *known, uint64_t from, uint64_t to)
{
	from = to - from < BOOKS_COPIES_BYTES ? from : to - BOOKS_COPIES_BYTES;
	from = (from + BOOKS_PAGE - 1) / BOOKS_PAGE * BOOKS_PAGE;
	to = to / BOOKS_PAGE * BOOKS_PAGE;
	for (uint64_t bytes; from < to; from += bytes) {
		bytes = bytes_to_ring_end(from, to - from);
		fallocate(known->books->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, BOOKS_AT_COPIES + from % BOOKS_COPIES_BYTES, bytes);
	}
}

int known_code__read_copies(struct known_code *known)
{
	uint64_t end = known->ready_bytes, bytes;
	int err = 0;

	while (!err && known->read_bytes < end) {
		err = read_copy(known, known->read_bytes, end, &bytes);
		if (!err)
			known->read_bytes += bytes;
	}
	if (err == -EINVAL)
		known->read_bytes = end; /* where the next one begins is not known: nodes name them */
	punch_copies(known, known->punched_bytes, known->read_bytes);
	__atomic_store_n(&known->books->head->walked_bytes, known->read_bytes, __ATOMIC_RELAXED);
	if (known->read_bytes > known->punched_bytes)
		known->punched_bytes = known->read_bytes / BOOKS_PAGE * BOOKS_PAGE;
	known->is_replaced = false;
	return err == -EINVAL || err == -EAGAIN ? 0 : err;
}

const struct copied_stack *known_code__find_copy(struct known_code *known, uint64_t number, const uint64_t **ret_frame)
{
	uint32_t i = find_copied_number(known, number);
	uint64_t bytes;

	/* A thread that has ended amid a copy is in front of it. */
	if (i == IDMAP_NONE && number * 8 >= known->punched_bytes && !read_copy(known, number * 8, copies_end(known), &bytes))
		i = find_copied_number(known, number);
	if (i == IDMAP_NONE)
		return NULL;
	*ret_frame = &known->frame[known->stack[i].first];
	return &known->stack[i];
}
