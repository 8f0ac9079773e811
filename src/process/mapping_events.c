// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "process/mapping_events.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/idmap.h"
#include "base/privileges.h"
#include "base/reason.h"

/* ---- pace ---- */

static void begin_look(struct pace *pace, uint64_t look)
{
	if (pace->look == look)
		return;
	pace->look = look;
	pace->event_ns = 0;
	pace->is_over = false;
}

/* The event that reaches the limit is still allowed: a single event may cost more than a whole step has. */
bool pace_takes_event(struct pace *pace, uint64_t look, uint64_t cost_ns)
{
	begin_look(pace, look);
	if (pace->is_over || pace->event_ns >= PACE_LOOK_NS)
		return false;
	pace->event_ns += cost_ns;
	return true;
}

bool pace_passes_over(struct pace *pace, uint64_t look)
{
	bool was_over;

	begin_look(pace, look);
	was_over = pace->is_over;
	pace->is_over = true;
	return !was_over;
}

bool pace_reads(const struct pace *pace, uint64_t now_ns, bool must)
{
	return now_ns >= pace->next_read_ns ||
	       (must && now_ns >= pace->read_ns + PACE_READING_LONGEST_NS);
}

void pace_has_read(struct pace *pace, uint64_t now_ns, uint64_t line_nr)
{
	uint64_t cost_ns = line_nr * PACE_LINE_NS;

	pace->read_ns = now_ns;
	pace->next_read_ns = cost_ns <= PACE_READING_SMALL_NS ? 0 : now_ns + cost_ns * PACE_READING_SHARE;
}

/* ---- perf rings ---- */

/*
 * A perf event of all processes, on each processor, and the ring that its records go to
 * (perf_event_open(2); include/uapi/linux/perf_event.h has the records).
 */

#define PERF_RECORD_BYTES_MAX (UINT16_MAX + 1) /* a record's size has 16 bits */

struct perf_ring {
	int fd; /* readable when WAKE_BYTES wait in the ring */
	struct perf_event_mmap_page *page; /* its header says how far it is written and read; the records follow */
};

/* Zeroed: none. */
struct perf_rings {
	struct perf_ring *ring;
	size_t ring_nr, ring_alloc;
	size_t bytes; /* of each, without its header */
	char *record; /* the record that is being read */
};

/*
 * Called with a record, valid until the call returns. 0 consumes the record; 1 leaves it and all later ones in
 * its ring for the next time; a negative errno leaves it as well, and stops reading.
 */
typedef int (*perf_record_fn)(void *what, const struct perf_event_header *record);

/*
 * A program may make mappings faster than a busy machine lets them be read. The most is what any user may have of each
 * processor, with a header (perf_event_mlock_kb).
 */
#define RING_BYTES_LEAST (128u << 10)
#define RING_BYTES_MOST (512u << 10)
#define RINGS_BYTES_MOST (16u << 20)
#define WAKE_BYTES (64u << 10)

static size_t page_bytes(void)
{
	return sysconf(_SC_PAGESIZE);
}

static void close_rings(struct perf_rings *rings)
{
	for (size_t i = 0; i < rings->ring_nr; i++) {
		munmap(rings->ring[i].page, page_bytes() + rings->bytes);
		close(rings->ring[i].fd);
	}
	rings->ring_nr = 0;
}

static int add_ring(struct perf_rings *rings, struct perf_event_attr *attr, int cpu)
{
	struct perf_ring ring = {
		.fd = syscall(SYS_perf_event_open, attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC),
	};
	int err;

	if (ring.fd < 0)
		return errno == ENODEV ? 0 : -errno; /* the processor is offline */
	ring.page = mmap(NULL, page_bytes() + rings->bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			 ring.fd, 0);
	err = ring.page == MAP_FAILED ? -errno : array_push(rings, ring, ring);
	if (!err)
		return 0;
	if (ring.page != MAP_FAILED)
		munmap(ring.page, page_bytes() + rings->bytes);
	close(ring.fd);
	return err;
}

static int add_rings(struct perf_rings *rings, struct perf_event_attr *attr, size_t bytes)
{
	int err = 0;

	close_rings(rings);
	rings->bytes = bytes;
	for (int cpu = 0; cpu < get_nprocs_conf() && !err; cpu++)
		err = add_ring(rings, attr, cpu);
	return err;
}

/*
 * Completes the attributes (when to wake up). 0 or a negative errno; perf_rings_close() must be called in either
 * case.
 */
static int perf_rings_open(struct perf_rings *rings, struct perf_event_attr *attr)
{
	bool has_many = (size_t)get_nprocs_conf() > RINGS_BYTES_MOST / RING_BYTES_MOST;
	int err;

	attr->watermark = 1;
	attr->wakeup_watermark = WAKE_BYTES;
	rings->record = malloc(PERF_RECORD_BYTES_MAX);
	if (!rings->record)
		return -ENOMEM;
	err = add_rings(rings, attr, has_many ? RING_BYTES_LEAST : RING_BYTES_MOST);
	return err == -EPERM && !has_many ? add_rings(rings, attr, RING_BYTES_LEAST) : err;
}

static void perf_rings_close(struct perf_rings *rings)
{
	close_rings(rings);
	free(rings->ring);
	free(rings->record);
	memset(rings, 0, sizeof(*rings));
}

/* A record may wrap around to the start of the ring. */
static void copy_out(const char *data, size_t ring_bytes, uint64_t tail, void *to, size_t bytes)
{
	size_t at = tail % ring_bytes, first = ring_bytes - at;

	if (first > bytes)
		first = bytes;
	memcpy(to, data + at, first);
	memcpy((char *)to + first, data, bytes - first);
}

static int read_ring(struct perf_rings *rings, const struct perf_ring *ring, perf_record_fn fn,
		     void *what)
{
	const struct perf_event_header *record = (const void *)rings->record;
	const char *data = (const char *)ring->page + page_bytes();
	uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = ring->page->data_tail;
	int err = 0;

	while (tail < head && !err) {
		copy_out(data, rings->bytes, tail, rings->record, sizeof(*record));
		copy_out(data, rings->bytes, tail, rings->record, record->size);
		err = fn(what, record);
		if (!err)
			tail += record->size;
	}
	__atomic_store_n(&ring->page->data_tail, tail, __ATOMIC_RELEASE);
	return err;
}

/* Reads one ring after another. 0 or the negative errno that fn returned. */
static int perf_rings_read(struct perf_rings *rings, perf_record_fn fn, void *what)
{
	int err = 0;

	for (size_t i = 0; i < rings->ring_nr && err >= 0; i++)
		err = read_ring(rings, &rings->ring[i], fn, what);
	return err < 0 ? err : 0;
}

/* ---- mapping record ---- */

/* PERF_RECORD_MMAP2 up to its text (include/uapi/linux/perf_event.h). */
struct mmap2_record {
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t start, len, offset;
	union {
		struct {
			uint32_t major, minor;
			uint64_t inode, generation;
		};
		struct {
			uint8_t build_id_bytes, reserved[3];
			uint8_t build_id[20];
		};
	};
	uint32_t prot, flags;
	char path[];
};

static void format_build_id(char text[BUILD_ID_TEXT_MAX], const struct mmap2_record *record)
{
	size_t nr = record->build_id_bytes;

	for (size_t i = 0; i < nr && i < sizeof(record->build_id); i++)
		sprintf(text + 2 * i, "%02x", record->build_id[i]);
}

/* The event that a PERF_RECORD_MMAP2 reports. Its path lies in the record. */
static struct mapping_event parse_mmap2_record(const struct perf_event_header *header, uint64_t time_ns)
{
	const struct mmap2_record *record = (const struct mmap2_record *)header;
	struct mapping_event event = {
		.time_ns = time_ns,
		.pid = record->pid,
		.start = record->start,
		.end = record->start + record->len,
		.offset = record->offset,
		.path = record->path,
	};

	if (record->header.misc & PERF_RECORD_MISC_MMAP_BUILD_ID) {
		format_build_id(event.build_id, record);
	} else {
		event.dev = (uint64_t)record->major << 32 | record->minor;
		event.inode = record->inode;
	}
	return event;
}

/* ---- mapping events ---- */

#define BYTES_MAX (64u << 20) /* at most so many bytes are kept until they are collected */

/* A record that was copied out of its ring. */
struct record {
	uint64_t time_ns;
	size_t at; /* offset in bytes[] */
};

#define NO_RECORD SIZE_MAX

/* The records kept of one process. */
struct queue {
	uint32_t pid;
	uint32_t mapping_nr; /* that wait to be handed out */
	size_t skipped_at; /* offset in bytes[] of the record that counts the skipped mappings; or NO_RECORD */
};

struct mapping_events {
	struct perf_rings rings;
	struct queue *queue;
	size_t queue_nr, queue_alloc;
	struct idmap queue_of; /* index by PID */
	uint64_t until_ns; /* records of the current reading that are newer stay in their ring */
	uint64_t collected_ns;
	struct record *record; /* those before `next` have been handed out */
	size_t record_nr, record_alloc, next, collected; /* sorted up to `collected` */
	char *bytes;
	size_t bytes_nr, bytes_alloc;
	uint64_t missed;
	_Alignas(8) char taken[PERF_RECORD_BYTES_MAX]; /* the record that is being handed out */

	/* This thread empties the rings while the callers are busy. The lock serialises it with the callers. */
	pthread_t thread;
	pthread_mutex_t lock;
	bool has_thread;
	int stop_fd; /* readable: the thread must end */
};

/* The end of each record, as requested by sample_type. */
struct sample_id {
	uint32_t pid, tid;
	uint64_t time_ns;
};

/* PERF_RECORD_COMM up to its text (include/uapi/linux/perf_event.h); mapping_events.c has PERF_RECORD_MMAP2. */
struct comm_record {
	struct perf_event_header header;
	uint32_t pid, tid;
	char comm[];
};

struct lost_record {
	struct perf_event_header header;
	uint64_t id, lost;
};

/* A record of our own that stands for the mappings of one process that were too many. */
#define RECORD_SKIPPED UINT32_MAX
struct skipped_record {
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t skipped_nr;
	struct sample_id id;
};

static uint64_t mapping_record_time_ns(const struct perf_event_header *header)
{
	const struct sample_id *id = (const void *)((const char *)header + header->size -
						    sizeof(*id));

	return id->time_ns;
}

static bool is_told(const struct perf_event_header *header)
{
	return header->type == PERF_RECORD_MMAP2 ||
	       (header->type == PERF_RECORD_COMM && header->misc & PERF_RECORD_MISC_COMM_EXEC);
}

/* All kept records have the PID at the same place. */
static uint32_t pid_of(const struct perf_event_header *header)
{
	return ((const struct comm_record *)header)->pid;
}

/* ---- the records of each process ---- */

static bool is_queue_of(uint32_t i, const void *pid, const void *events_)
{
	const struct mapping_events *events = events_;

	return events->queue[i].pid == *(const uint32_t *)pid;
}

static int queue_of(struct mapping_events *events, uint32_t pid, struct queue **ret)
{
	uint64_t hash = hash_bytes(&pid, sizeof(pid), 0);
	uint32_t i = idmap_find(&events->queue_of, hash, is_queue_of, &pid, events);
	struct queue new = { .pid = pid, .skipped_at = NO_RECORD };
	int err = 0;

	if (i == IDMAP_NONE) {
		i = events->queue_nr;
		err = array_push(events, queue, new) ?: idmap_add(&events->queue_of, hash, i);
	}
	*ret = &events->queue[i];
	return err;
}

/* Makes room for another mapping of the process; later skipped ones need a new record. */
static void leave_queue(struct mapping_events *events, const struct perf_event_header *header)
{
	struct queue *queue;

	if (header->type == PERF_RECORD_COMM || queue_of(events, pid_of(header), &queue))
		return;
	if (header->type == RECORD_SKIPPED)
		queue->skipped_at = NO_RECORD;
	else
		queue->mapping_nr--;
}

static int count_queued(struct mapping_events *events, const struct record *record)
{
	const struct perf_event_header *header = (const void *)(events->bytes + record->at);
	struct queue *queue;
	int err = queue_of(events, pid_of(header), &queue);

	if (!err && header->type == PERF_RECORD_MMAP2)
		queue->mapping_nr++;
	if (!err && header->type == RECORD_SKIPPED)
		queue->skipped_at = record->at;
	return err;
}

/* Counts the records that are left. */
static int count_all_queued(struct mapping_events *events)
{
	int err = 0;

	events->queue_nr = 0;
	idmap_release(&events->queue_of);
	for (size_t i = 0; i < events->record_nr && !err; i++)
		err = count_queued(events, &events->record[i]);
	return err;
}

/* ---- copying records out of the rings ---- */

static int keep_record(struct mapping_events *events, const struct perf_event_header *header)
{
	struct record record = { mapping_record_time_ns(header), events->bytes_nr };
	int err = array_reserve(&events->bytes, &events->bytes_alloc,
				events->bytes_nr + header->size);

	err = err ?: array_push(events, record, record);
	if (err)
		return err;
	memcpy(events->bytes + events->bytes_nr, header, header->size);
	events->bytes_nr += header->size;
	return 0;
}

static int skip_mapping(struct mapping_events *events, struct queue *queue, uint64_t time_ns)
{
	struct skipped_record record = {
		.header = { .type = RECORD_SKIPPED, .size = sizeof(record) },
		.pid = queue->pid,
		.id = { .time_ns = time_ns },
	};
	size_t at = events->bytes_nr;
	int err = 0;

	if (queue->skipped_at == NO_RECORD) {
		err = keep_record(events, &record.header);
		if (!err)
			queue->skipped_at = at;
	}
	if (!err)
		((struct skipped_record *)(events->bytes + queue->skipped_at))->skipped_nr++;
	return err;
}

/* Execs are rare and end all earlier mappings, so they are always kept. */
static int keep_or_skip(struct mapping_events *events, const struct perf_event_header *header)
{
	struct queue *queue;
	int err = queue_of(events, pid_of(header), &queue);

	if (err)
		return err;
	if (header->type != PERF_RECORD_MMAP2)
		return keep_record(events, header);
	if (queue->mapping_nr >= MAPPING_EVENTS_EACH)
		return skip_mapping(events, queue, mapping_record_time_ns(header));
	err = keep_record(events, header);
	queue->mapping_nr += !err;
	return err;
}

/*
 * Records newer than the start of this reading stay in their ring: an older one may be in a ring that was read
 * already.
 */
static int consume_record(void *what, const struct perf_event_header *header)
{
	struct mapping_events *events = what;

	if (mapping_record_time_ns(header) > events->until_ns)
		return 1;
	if (header->type == PERF_RECORD_LOST)
		events->missed += ((const struct lost_record *)header)->lost;
	if (!is_told(header))
		return 0;
	if (events->bytes_nr <= BYTES_MAX)
		return keep_or_skip(events, header);
	events->missed++;
	return 0;
}

static int drain_rings(struct mapping_events *events)
{
	events->until_ns = monotonic_now_ns();
	return perf_rings_read(&events->rings, consume_record, events);
}

/* ---- the thread ---- */

/*
 * The thread ignores ENOMEM: the next collecting call reports it. Meanwhile the rings fill up, and the kernel
 * counts the lost records.
 */
static void *empty_rings(void *what)
{
	struct mapping_events *events = what;
	size_t nr = events->rings.ring_nr;
	struct pollfd fds[nr + 1];

	capabilities_keep(0); /* capabilities belong to each thread: this one would keep those that the others drop */
	for (size_t i = 0; i < nr; i++)
		fds[i] = (struct pollfd){ .fd = events->rings.ring[i].fd, .events = POLLIN };
	fds[nr] = (struct pollfd){ .fd = events->stop_fd, .events = POLLIN };
	while (poll(fds, nr + 1, -1) >= 0 || errno == EINTR) {
		if (fds[nr].revents)
			break;
		pthread_mutex_lock(&events->lock);
		drain_rings(events);
		pthread_mutex_unlock(&events->lock);
	}
	return NULL;
}

/* The thread blocks all signals: other threads handle them. */
static int start_thread(struct mapping_events *events)
{
	sigset_t all, before;
	int err;

	events->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (events->stop_fd < 0)
		return -errno;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	err = pthread_create(&events->thread, NULL, empty_rings, events);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	events->has_thread = !err;
	return -err;
}

static void stop_thread(struct mapping_events *events)
{
	if (events->has_thread && !eventfd_write(events->stop_fd, 1))
		pthread_join(events->thread, NULL);
	if (events->stop_fd >= 0)
		close(events->stop_fd);
}

static int open_rings(struct mapping_events *events)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
		.sample_id_all = 1,
		.mmap = 1,
		.mmap2 = 1,
		.build_id = 1,
		.comm = 1,
		.comm_exec = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};

	return perf_rings_open(&events->rings, &attr);
}

struct mapping_events *mapping_events__open(struct reason *why)
{
	struct mapping_events *events = calloc(1, sizeof(*events));
	int err = events ? 0 : -ENOMEM;

	if (!err) {
		events->stop_fd = -1;
		pthread_mutex_init(&events->lock, NULL);
	}
	err = err ?: open_rings(events) ?: start_thread(events);
	if (!err)
		return events;
	mapping_events__close(events);
	reason_set(why, err, "cannot watch what processes map: %s%s", strerror(-err), err == -EACCES ?
		   " (where kernel.perf_event_paranoid is above 2, as on Debian, CAP_PERFMON is not enough: sysctl kernel.perf_event_paranoid=2)" :
		   "");
	errno = -err;
	return NULL;
}

void mapping_events__close(struct mapping_events *events)
{
	if (!events)
		return;
	stop_thread(events);
	perf_rings_close(&events->rings);
	free(events->record);
	free(events->bytes);
	free(events->queue);
	idmap_release(&events->queue_of);
	free(events);
}

/* ---- handing out ---- */

static int by_time(const void *a, const void *b)
{
	const struct record *x = a, *y = b;

	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return (x->at > y->at) - (x->at < y->at);
}

static int hand_out_one(const struct perf_event_header *header, mapping_event_fn fn, void *what)
{
	struct mapping_event event = {
		.time_ns = mapping_record_time_ns(header),
		.pid = pid_of(header),
		.is_exec = header->type == PERF_RECORD_COMM,
	};

	if (header->type == RECORD_SKIPPED)
		event.skipped_nr = ((const struct skipped_record *)header)->skipped_nr;
	if (header->type == PERF_RECORD_MMAP2)
		event = parse_mmap2_record(header, event.time_ns);
	return fn(what, &event);
}

/*
 * Copies the next event that is not younger than until_ns to events->taken; false: no such event. The thread may
 * move all other records.
 */
static bool take_next(struct mapping_events *events, uint64_t until_ns)
{
	const struct record *record;
	bool is_due;

	pthread_mutex_lock(&events->lock);
	record = &events->record[events->next];
	is_due = events->next < events->collected && record->time_ns <= until_ns;
	if (is_due) {
		const void *bytes = events->bytes + record->at;

		memcpy(events->taken, bytes, ((const struct perf_event_header *)bytes)->size);
		leave_queue(events, bytes);
		events->next++;
	}
	pthread_mutex_unlock(&events->lock);
	return is_due;
}

/* Moves the records down that the thread has added since. */
static int forget_handed_out(struct mapping_events *events)
{
	size_t left = events->record_nr - events->next, gone;

	if (events->next < events->collected)
		return 0;
	gone = left ? events->record[events->next].at : events->bytes_nr;
	if (events->record_nr)
		memmove(events->record, events->record + events->next, left * sizeof(*events->record));
	for (size_t i = 0; i < left; i++)
		events->record[i].at -= gone;
	if (events->bytes_nr)
		memmove(events->bytes, events->bytes + gone, events->bytes_nr - gone);
	events->record_nr = left;
	events->bytes_nr -= gone;
	events->next = events->collected = 0;
	return count_all_queued(events);
}

int mapping_events__collect(struct mapping_events *events)
{
	int err;

	pthread_mutex_lock(&events->lock);
	err = forget_handed_out(events) ?: drain_rings(events);
	if (events->record_nr > events->next)
		qsort(events->record + events->next, events->record_nr - events->next,
		      sizeof(*events->record), by_time);
	events->collected = events->record_nr;
	events->collected_ns = events->until_ns;
	pthread_mutex_unlock(&events->lock);
	return err;
}

uint64_t mapping_events__collected_ns(const struct mapping_events *events)
{
	return events->collected_ns;
}

/* The execs stay unsorted, and are not handed out, until they are collected. */
int mapping_events__find_execs(struct mapping_events *events, exec_event_fn fn, void *what)
{
	int err;

	pthread_mutex_lock(&events->lock);
	err = drain_rings(events);
	for (size_t i = events->next; i < events->record_nr; i++) {
		const struct record *record = &events->record[i];
		const struct comm_record *comm = (const void *)(events->bytes + record->at);

		if (comm->header.type == PERF_RECORD_COMM)
			fn(what, comm->pid, record->time_ns);
	}
	pthread_mutex_unlock(&events->lock);
	return err;
}

/* The callback may be slow: the lock is not held during it, so the thread can continue. */
int mapping_events__hand_out(struct mapping_events *events, uint64_t until_ns, mapping_event_fn fn,
			     void *what)
{
	int err = 0;

	while (!err && take_next(events, until_ns))
		err = hand_out_one((const void *)events->taken, fn, what);
	return err;
}

uint64_t mapping_events__missed(struct mapping_events *events)
{
	uint64_t missed;

	pthread_mutex_lock(&events->lock);
	missed = events->missed;
	pthread_mutex_unlock(&events->lock);
	return missed;
}
