// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "exact/books_private.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "cycles.h"
#include "exact/books_epochs.h"

#define ADDRESS_LIMIT (UINT64_C(1) << BOOKS_ADDRESS_BITS)
#define READ_BYTES (UINT64_C(1) << 20)
#define HOOK_WAIT_NS (500 * 1000000ull)
#define HOOK_LOOK_NS 50000

/* ---- bytes of the file ---- */

int read_books_at(const struct books *books, uint64_t at, void *to, size_t bytes)
{
	for (size_t done = 0; done < bytes;) {
		ssize_t got = pread(books->fd, (char *)to + done, bytes - done, at + done);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got ? -errno : -EIO;
		done += got;
	}
	return 0;
}

bool next_books_data(const struct books *books, uint64_t *at, uint64_t end, uint64_t *ret_end)
{
	off_t data = lseek(books->fd, *at, SEEK_DATA), hole;

	if (data < 0 || (uint64_t)data >= end)
		return false;
	hole = lseek(books->fd, data, SEEK_HOLE);
	*at = data;
	*ret_end = hole < 0 || (uint64_t)hole > end ? end : (uint64_t)hole;
	return *ret_end > *at;
}

int read_books_elements(const struct books *books, uint64_t at, uint64_t first, uint64_t end, size_t bytes, books_elements_fn fn,
			void *what)
{
	uint64_t from = at + first * bytes, to = at + end * bytes, data_end, most = READ_BYTES / bytes;
	void *element = malloc(most * bytes);
	int err = element ? 0 : -ENOMEM;

	while (!err && next_books_data(books, &from, to, &data_end)) {
		uint64_t i = (from - at) / bytes, last = (data_end - at + bytes - 1) / bytes;

		i = i < first ? first : i;
		last = last > end ? end : last;
		for (uint64_t nr; i < last && !err; i += nr) {
			nr = last - i < most ? last - i : most;
			err = read_books_at(books, at + i * bytes, element, nr * bytes) ?: fn(what, element, i, nr);
		}
		from = at + last * bytes;
	}
	free(element);
	return err;
}

uint32_t books_number(const uint32_t *place, uint32_t most)
{
	uint32_t nr = __atomic_load_n(place, __ATOMIC_ACQUIRE);

	return nr < most ? nr : most;
}

/* Two looks at the counter take so many by themselves. */
static uint64_t cycles_of_a_look(void)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < 100; i++) {
		uint64_t begun = cycles_now(), took = cycles_now() - begun;

		least = took < least ? took : least;
	}
	return least;
}

/* ---- open and close ---- */

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

static bool is_file_of_books(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	return seals >= 0 && (seals & SEALS) == SEALS && !fstat(fd, &st) && (uint64_t)st.st_size == BOOKS_BYTES;
}

int books_open(int fd, enum books_kind kind, uint64_t now_ns, struct books **ret)
{
	struct books *books = calloc(1, sizeof(*books));
	int err = books ? 0 : -ENOMEM;

	*ret = NULL;
	if (err || !is_file_of_books(fd)) {
		close(fd);
		free(books);
		return err ?: -EINVAL;
	}
	books->fd = fd;
	books->kind = kind;
	books->opened_ns = monotonic_now_ns();
	books->opened_cycles = cycles_now();
	books->tid = calloc(BOOKS_THREADS, sizeof(*books->tid));
	books->quiet = calloc(BOOKS_THREADS, sizeof(*books->quiet));
	books->owned = calloc(BOOKS_THREADS, sizeof(*books->owned));
	books->head = mmap(NULL, BOOKS_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, BOOKS_AT_HEAD);
	if (books->head == MAP_FAILED) {
		err = -errno;
		books->head = NULL;
	}
	if (!err && (memcmp(books->head->magic, BOOKS_MAGIC, sizeof(books->head->magic)) ||
		     books->head->version != BOOKS_VERSION || books->head->kind != kind))
		err = -EINVAL;
	if (!books->tid || !books->quiet || !books->owned)
		err = -ENOMEM;
	err = err ?: books_tick(books, now_ns);
	if (err)
		books_close(books);
	else
		*ret = books;
	return err;
}

void books_close(struct books *books)
{
	if (!books)
		return;
	if (books->head)
		munmap(books->head, BOOKS_PAGE);
	close(books->fd);
	free(books->epoch);
	free(books->owner);
	free(books->owned);
	free(books->tid);
	free(books->quiet);
	free(books->block);
	idmap_release(&books->handed);
	free(books);
}

void books_turn_off(struct books *books)
{
	__atomic_store_n(&books->head->now, BOOKS_OFF, __ATOMIC_SEQ_CST);
}

/* ---- threads ---- */

/* The beginning of struct books_thread, which is all that is read of it. */
struct thread_head {
	uint32_t tid, gone_nr;
	uint64_t inside, left, latest, allocations, frees, unknown_frees, steps, cycles;
};

_Static_assert(offsetof(struct thread_head, cycles) == offsetof(struct books_thread, cycles), "the same members");

typedef int (*thread_fn)(void *what, uint32_t slot, const struct thread_head *thread);

static int add_owner(struct books *books, uint32_t slot, uint32_t until)
{
	struct slot_owner owner = { slot, books->tid[slot], until, books->owned[slot] };
	int err = array_push(books, owner, owner);

	if (!err)
		books->owned[slot] = books->owner_nr;
	return err;
}

/* A thread that has taken over a slot by itself gets the blocks of epochs since the last look, also the former thread's. */
static int note_owner(struct books *books, uint32_t slot, uint32_t tid)
{
	int err = 0;

	if (books->tid[slot] && books->tid[slot] != tid && books->looked)
		err = add_owner(books, slot, books->looked - 1);
	books->tid[slot] = tid;
	return err;
}

static int read_threads(struct books *books, thread_fn fn, void *what)
{
	uint64_t at = BOOKS_AT_THREADS, data_end;
	int err = 0;

	while (!err && next_books_data(books, &at, BOOKS_AT_DIRECTORY, &data_end)) {
		uint32_t slot = (at - BOOKS_AT_THREADS) / BOOKS_THREAD_BYTES;
		struct thread_head thread;

		err = read_books_at(books, books_thread_at(slot), &thread, sizeof(thread));
		if (!err && thread.tid)
			err = note_owner(books, slot, thread.tid) ?: fn(what, slot, &thread);
		at = books_thread_at(slot + 1);
	}
	if (!err)
		books->looked = books->epoch_nr - 1;
	return err;
}

static uint32_t tid_of(const struct books *books, uint32_t slot, uint32_t epoch)
{
	uint32_t tid = books->tid[slot];

	for (uint32_t i = books->owned[slot]; i && epoch <= books->owner[i - 1].until; i = books->owner[i - 1].before)
		tid = books->owner[i - 1].tid;
	return tid;
}

struct freeing {
	struct books *books;
	bool (*is_there)(void *what, uint32_t tid);
	void *what;
	uint32_t *slot;
	size_t slot_nr, slot_alloc;
};

/*
 * A list of threads may lack one that runs, if another one ends while the kernel makes it. So a thread has ended if two lists
 * lack it, and it has left no hook between them.
 */
static int find_free_slot(void *freeing_, uint32_t slot, const struct thread_head *thread)
{
	struct freeing *freeing = freeing_;
	struct quiet_thread *quiet = &freeing->books->quiet[slot];
	bool is_known = quiet->tid == thread->tid && quiet->left == thread->left;
	bool is_missing = is_known && !freeing->is_there(freeing->what, thread->tid), was_missing = is_known && quiet->is_missing;

	*quiet = (struct quiet_thread){ thread->tid, is_missing, thread->left };
	return is_missing && was_missing ? array_push(freeing, slot, slot) : 0;
}

/* If another thread has just taken it over, it stays. */
static void free_slot(struct books *books, uint32_t slot, uint32_t until)
{
	struct books_thread *thread = mmap(NULL, BOOKS_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, books->fd, books_thread_at(slot));
	uint32_t tid = books->tid[slot];
	uint64_t inside;

	if (thread == MAP_FAILED)
		return;
	inside = __atomic_load_n(&thread->inside, __ATOMIC_ACQUIRE);
	if (inside && __atomic_load_n(&thread->tid, __ATOMIC_ACQUIRE) == tid) /* it has ended there */
		__atomic_compare_exchange_n(&thread->inside, &inside, 0, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
	if (__atomic_compare_exchange_n(&thread->tid, &tid, 0, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED) &&
	    !add_owner(books, slot, until))
		books->tid[slot] = 0;
	munmap(thread, BOOKS_PAGE);
}

void books_free_threads(struct books *books, bool (*is_there)(void *what, uint32_t tid), void *what)
{
	struct freeing freeing = { books, is_there, what };
	uint32_t until = books->epoch_nr - 1;
	int err = read_threads(books, find_free_slot, &freeing);

	/* The epoch first: a thread that takes a slot anew has blocks of later ones only. */
	if (!err && freeing.slot_nr)
		err = books_tick(books, books->epoch[books->epoch_nr - 1]);
	for (size_t i = 0; i < freeing.slot_nr && !err; i++)
		free_slot(books, freeing.slot[i], until);
	free(freeing.slot);
}

/* ---- cut ---- */

static int begin_epoch(struct books *books, uint64_t now_ns, bool is_cut)
{
	uint64_t epoch = books->epoch_nr;
	int err;

	if (epoch >= BOOKS_EPOCHS_MAX)
		return -ENOSPC;
	err = array_push(books, epoch, now_ns);
	if (err)
		return err;
	books->cut = is_cut ? epoch : 0;
	__atomic_store_n(&books->head->now, epoch | (is_cut ? epoch << 32 : 0), __ATOMIC_SEQ_CST);
	return 0;
}

int books_tick(struct books *books, uint64_t now_ns)
{
	return books->cut ? -EBUSY : begin_epoch(books, now_ns, false);
}

uint64_t books_epoch_began(const struct books *books)
{
	return books->epoch[books->epoch_nr - 1];
}

uint64_t books_epoch_of(const struct books *books, uint64_t time_ns)
{
	size_t i = books->epoch_nr;

	while (i && books->epoch[i - 1] > time_ns)
		i--;
	return i ? books->epoch[i - 1] : 0;
}

static void pause_ns(uint64_t ns)
{
	nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
}

struct waiting {
	struct books *books;
	uint64_t until_ns; /* for all threads */
};

/* Waits until the thread has left the hook that it was in. */
static int await_thread(void *waiting_, uint32_t slot, const struct thread_head *before)
{
	const struct waiting *waiting = waiting_;
	struct thread_head now = *before;
	int err = 0;

	while (!err && now.inside && now.left == before->left) {
		if (monotonic_now_ns() >= waiting->until_ns)
			return -EAGAIN;
		pause_ns(HOOK_LOOK_NS);
		err = read_books_at(waiting->books, books_thread_at(slot), &now, sizeof(now));
	}
	return err;
}

static int note_thread(void *unused, uint32_t slot, const struct thread_head *thread)
{
	(void)unused, (void)slot, (void)thread;
	return 0;
}

/*
 * Waits until no thread is in a hook that may not have seen head->now. A hook says that it is inside before it loads that;
 * the barrier, which all running threads of the system make, orders the two.
 */
static int await_hooks(struct books *books)
{
	struct waiting waiting = { .books = books };
	int err;

	if (books->has_ended)
		return read_threads(books, note_thread, NULL);
	err = syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) ? -errno : 0;
	waiting.until_ns = monotonic_now_ns() + HOOK_WAIT_NS;
	err = err ?: read_threads(books, await_thread, &waiting);
	books->late_nr += err == -EAGAIN;
	return err;
}

bool books_can_cut(void)
{
	long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);

	return commands > 0 && commands & MEMBARRIER_CMD_GLOBAL;
}

static void end_cut(struct books *books)
{
	__atomic_store_n(&books->head->now, books->epoch_nr - 1, __ATOMIC_SEQ_CST);
	books->cut = 0;
}

/* ret[]: two epochs become one, if no slot had another thread from the second one on. Returns how many are left. */
static uint32_t plan_merge(const struct books *books, uint16_t *ret)
{
	uint32_t nr = 0;

	for (size_t i = 0; i < books->owner_nr; i++)
		ret[books->owner[i].until] = 1;
	for (size_t i = 0, first = 0; i < books->epoch_nr; i++) {
		bool ends = ret[i] || i > first;

		ret[i] = nr;
		nr += ends || i + 1 == books->epoch_nr;
		first = ends ? i + 1 : first;
	}
	return nr;
}

/* Later blocks have the next epoch; blocks that the process entered meanwhile still have the last one of before. */
static int merge_epochs(struct books *books, uint64_t now_ns, uint16_t *map)
{
	uint32_t nr = plan_merge(books, map), last = books->epoch_nr - 1;
	int err = nr > BOOKS_EPOCHS_MAX / 4 * 3 ? -ENOSPC : await_hooks(books) ?: books_map_epochs(books->fd, map);

	if (err)
		return err;
	for (uint32_t i = 1; i <= last; i++)
		if (map[i] != map[i - 1])
			books->epoch[map[i]] = books->epoch[i];
	for (size_t i = 0; i < books->owner_nr; i++)
		books->owner[i].until = map[books->owner[i].until];
	books->looked = map[books->looked];
	books->epoch_nr = nr;
	books->late_epoch = last;
	books->late_is = nr - 1;
	return begin_epoch(books, now_ns, false);
}

/* Once no hook has the last epoch of before. */
static int end_merge(struct books *books, uint16_t *map)
{
	int err = await_hooks(books);

	for (uint32_t i = 0; i < BOOKS_EPOCHS_MAX; i++)
		map[i] = i;
	map[books->late_epoch] = books->late_is;
	err = err ?: books_map_epochs(books->fd, map);
	if (!err)
		books->late_epoch = 0;
	return err;
}

static int make_room_for_epochs(struct books *books, uint64_t now_ns)
{
	bool is_full = books->epoch_nr >= BOOKS_EPOCHS_MAX - 1;
	uint16_t *map;
	int err = 0;

	if (!is_full && !books->late_epoch)
		return 0;
	map = calloc(BOOKS_EPOCHS_MAX, sizeof(*map));
	if (!map)
		return -ENOMEM;
	if (!books->late_epoch)
		err = merge_epochs(books, now_ns, map);
	err = err ?: end_merge(books, map);
	free(map);
	return err;
}

int books_cut(struct books *books, uint64_t now_ns, bool has_ended)
{
	int err;

	books->has_ended = has_ended;
	err = make_room_for_epochs(books, now_ns);
	if (err)
		return err;
	books->head->handed_nr = 0;
	err = begin_epoch(books, now_ns, true);
	if (err)
		return err;
	err = await_hooks(books);
	if (err)
		end_cut(books);
	return err;
}

/* ---- blocks ---- */

static int add_books_block(struct books *books, uint64_t address, uint64_t word, uint64_t size)
{
	uint32_t epoch = BLOCK_EPOCH(word);
	struct books_block block = { .address = address, .size = size };

	if (!(word & BLOCK_IS_LIVE) || epoch >= books->cut || address >= ADDRESS_LIMIT || size >= ADDRESS_LIMIT)
		return 0;
	block.birth_ns = books->epoch[epoch];
	block.node = BLOCK_NODE(word);
	block.tid = tid_of(books, BLOCK_THREAD(word), epoch);
	return array_push(books, block, block);
}

struct chunk_read {
	struct books *books;
	uint64_t chunk_nr;
	uint8_t *is_read; /* a chunk belongs to one place */
	uint64_t address;
};

static int read_words(void *read_, const void *words, uint64_t first, uint64_t nr)
{
	struct chunk_read *read = read_;
	const uint64_t *word = words;
	int err = 0;

	for (uint64_t i = 0; i < nr && !err; i++)
		if (word[i] & BLOCK_IS_LIVE)
			err = add_books_block(read->books, read->address + (first + i) % BOOKS_CHUNK_LINES * 32 + !!(word[i] & BLOCK_IS_ODD) * 16,
					      word[i], BLOCK_SIZE(word[i]));
	return err;
}

static int read_chunks(void *read_, const void *chunks, uint64_t first, uint64_t nr)
{
	struct chunk_read *read = read_;
	const uint32_t *chunk = chunks;
	int err = 0;

	for (uint64_t i = 0; i < nr && !err; i++) {
		if (!chunk[i] || chunk[i] > read->chunk_nr || read->is_read[chunk[i]])
			continue;
		read->is_read[chunk[i]] = 1;
		read->address = (first + i) << BOOKS_CHUNK_SHIFT;
		err = read_books_elements(read->books, BOOKS_AT_CHUNKS + UINT64_C(8) * BOOKS_CHUNK_WORDS * (chunk[i] - 1), 0,
				    BOOKS_CHUNK_WORDS, 8, read_words, read);
	}
	return err;
}

static int read_small_blocks(struct books *books)
{
	struct chunk_read read = { books, books_number(&books->head->chunk_nr, BOOKS_CHUNKS_MAX) };
	int err;

	read.is_read = calloc(read.chunk_nr + 1, 1);
	err = read.is_read ? read_books_elements(books, BOOKS_AT_DIRECTORY, 0, BOOKS_DIRECTORY_NR, 4, read_chunks, &read) : -ENOMEM;
	free(read.is_read);
	return err;
}

/* An address below a page is of an entry that is being written, which is of this epoch. */
static int read_large(void *books_, const void *entries, uint64_t first, uint64_t nr)
{
	const struct books_large *entry = entries;
	int err = 0;

	(void)first;
	for (uint64_t i = 0; i < nr && !err; i++)
		if (entry[i].address >= BOOKS_PAGE)
			err = add_books_block(books_, entry[i].address, entry[i].word, entry[i].size);
	return err;
}

static int read_handed(void *books_, const void *entries, uint64_t first, uint64_t nr)
{
	const struct books *books = books_;
	const struct books_large *entry = entries;
	int err = 0;

	(void)first;
	for (uint64_t i = 0; i < nr && !err; i++)
		if (entry[i].address >= BOOKS_PAGE && entry[i].size >> BOOKS_HANDED_SHIFT == books->cut)
			err = add_books_block(books_, entry[i].address, entry[i].word,
					      entry[i].size % (UINT64_C(1) << BOOKS_HANDED_SHIFT));
	return err;
}

static bool is_block_at(uint32_t i, const void *address, const void *blocks)
{
	return ((const struct books_block *)blocks)[i].address == *(const uint64_t *)address;
}

static uint64_t hash_of_address(uint64_t address)
{
	return address * UINT64_C(0x9e3779b97f4a7c15);
}

static bool is_handed(const struct books *books, uint64_t address)
{
	return idmap_find(&books->handed, hash_of_address(address), is_block_at, &address, books->block) != IDMAP_NONE;
}

/* Each block that was handed over, once: it may have been read before it was freed. */
static int unite_handed(struct books *books, size_t read_nr)
{
	size_t handed_nr = books->block_nr, nr = 0;
	int err = 0;

	if (handed_nr == read_nr)
		return 0;

	for (size_t i = read_nr; i < handed_nr && !err; i++) {
		if (is_handed(books, books->block[i].address))
			books->block[i].address = 0;
		else
			err = idmap_add(&books->handed, hash_of_address(books->block[i].address), i);
	}
	for (size_t i = 0; i < read_nr && !err; i++)
		if (is_handed(books, books->block[i].address))
			books->block[i].address = 0;
	for (size_t i = 0; i < handed_nr; i++)
		if (books->block[i].address)
			books->block[nr++] = books->block[i];
	books->block_nr = nr;
	idmap_release(&books->handed);
	return err;
}

/* A realloc() in which the process has ended has not freed its block, unless another thread has got its address since. */
static int read_given(struct books *books, uint32_t slot)
{
	struct books_large given;
	size_t before = books->block_nr;
	int err = read_books_at(books, books_thread_at(slot) + offsetof(struct books_thread, native.given), &given, sizeof(given));

	if (err || !given.address || array_any(before, i, books->block[i].address == given.address))
		return err;
	err = add_books_block(books, given.address, given.word, given.size);
	books->given_nr += books->block_nr - before;
	return err;
}

static int read_unreturned(void *books_, uint32_t slot, const struct thread_head *thread)
{
	struct books *books = books_;

	if (!thread->inside)
		return 0;
	books->unreturned_nr++;
	return books->kind == BOOKS_OF_MALLOC ? read_given(books, slot) : 0;
}

static int collect_blocks(struct books *books)
{
	uint64_t levels_nr = BOOKS_LEVEL_AT(books_number(&books->head->level_nr, BOOKS_LEVELS_MAX));
	size_t read_nr;
	int err;

	books->block_nr = books->unreturned_nr = books->given_nr = 0;
	err = read_small_blocks(books) ?:
	      read_books_elements(books, BOOKS_AT_LEVELS, 0, levels_nr, sizeof(struct books_large), read_large, books);
	read_nr = books->block_nr;
	err = err ?: await_hooks(books); /* those that were handing over */
	err = err ?: read_books_elements(books, BOOKS_AT_HANDED, 0, books_number(&books->head->handed_nr, BOOKS_HANDED_MAX),
				   sizeof(struct books_large), read_handed, books);
	err = err ?: unite_handed(books, read_nr);
	return err || !books->has_ended ? err : read_threads(books, read_unreturned, books);
}

int books_read_blocks(struct books *books, books_block_fn fn, void *what)
{
	int err = books->cut ? collect_blocks(books) : -EINVAL;

	if (books->cut)
		end_cut(books);
	for (size_t i = 0; i < books->block_nr && !err; i++)
		err = fn(what, &books->block[i]);
	return err;
}

/* ---- numbers ---- */

static int add_numbers(void *sum_, uint32_t slot, const struct thread_head *thread)
{
	struct books_numbers *sum = sum_;

	(void)slot;
	sum->allocations += thread->allocations;
	sum->frees += thread->frees;
	sum->unknown_frees += thread->unknown_frees;
	sum->steps += thread->steps;
	sum->cost_ns += thread->cycles; /* until all are added up */
	sum->thread_nr++;
	return 0;
}

void books_read_numbers(struct books *books, struct books_numbers *ret)
{
	const struct books_head *head = books->head;
	uint64_t passed, looks;
	struct stat st;

	*ret = (struct books_numbers){ .late_nr = books->late_nr, .unreturned_nr = books->unreturned_nr };
	read_threads(books, add_numbers, ret);
	ret->frees -= books->given_nr < ret->frees ? books->given_nr : ret->frees;
	looks = (ret->allocations + ret->frees) / BOOKS_TIMED_EACH * cycles_of_a_look();
	ret->cost_ns = ret->cost_ns > looks ? ret->cost_ns - looks : 0;
	passed = cycles_now() - books->opened_cycles;
	ret->cost_ns = passed ? (double)ret->cost_ns * BOOKS_TIMED_EACH * (monotonic_now_ns() - books->opened_ns) / passed : 0;
	for (int i = 0; i < BOOKS_LOSS_NR; i++)
		ret->lost[i] = __atomic_load_n(&head->lost[i], __ATOMIC_RELAXED);
	if (!fstat(books->fd, &st))
		ret->file_bytes = UINT64_C(512) * st.st_blocks;
	ret->node_nr = books_number(&head->node_nr, BOOKS_NO_NODE - 1);
	ret->code_nr = books_number(&head->code_nr, BOOKS_CODES_MAX - 1);
}
