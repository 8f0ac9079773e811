// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * liballocsnap-java.so: an agent that a Java virtual machine loads (java/agent_load.h). It samples allocations (JEP 331): of
 * each sample it keeps the stack and a weak reference, which keeps nothing alive, and writes both into a memory file
 * (samples.h). Its thread looks after each collection which objects live.
 *
 *	the program's threads ──► on_sampled() ──► slots ◄── sweep() ── the agent's thread ◄── lease, order to stop
 *	a collection ──► on_collected(): counts
 *
 * It runs in virtual machines of any C library, and calls none: only the kernel and the virtual machine. Its memory is
 * bounded. When the recorder stops it, or is gone, the agent's thread ends all of it; the library itself stays mapped, as a
 * virtual machine unloads no agent.
 */
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/memfd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

#include "java/jvm_tables.h"
#include "java/samples.h"
#include "raw_call.h"

/* ---- the kernel ---- */

/* The compiler calls it to clear a large variable, also where it may call nothing. */
__attribute__((visibility("hidden"))) void *memset(void *to, int byte, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		((volatile char *)to)[i] = byte;
	return to;
}

#define CALL(name, a, b, c) raw_call(SYS_##name, (long)(a), (long)(b), (long)(c), 0, 0, 0)

static void *map_memory(size_t bytes, int fd)
{
	long address = raw_call(SYS_mmap, 0, bytes, PROT_READ | PROT_WRITE, fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);

	return address > -4096 && address < 0 ? NULL : (void *)address;
}

static uint64_t now_ns(void)
{
	struct timespec now = {};

	CALL(clock_gettime, CLOCK_MONOTONIC, &now, 0);
	return (uint64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static uint64_t cpu_ns(void)
{
	struct timespec used = {};

	CALL(clock_gettime, CLOCK_THREAD_CPUTIME_ID, &used, 0);
	return (uint64_t)used.tv_sec * 1000000000 + used.tv_nsec;
}

/* ---- references ---- */

/* Without memory the virtual machine leaves an exception, which would reach the program. */
static void *new_weak(void *jni, void *object)
{
	void *weak = JVM_CALL(jni, JNI_NEW_WEAK_GLOBAL_REF, void *, (void *, void *), object);

	if (!weak)
		JVM_CALL(jni, JNI_EXCEPTION_CLEAR, void, (void *, ...), NULL);
	return weak;
}

static bool is_gone(void *jni, void *weak)
{
	return weak && JVM_CALL(jni, JNI_IS_SAME_OBJECT, uint8_t, (void *, void *, void *), weak, NULL);
}

static void delete_weak(void *jni, void *weak)
{
	if (weak)
		JVM_CALL(jni, JNI_DELETE_WEAK_GLOBAL_REF, void, (void *, void *), weak);
}

/* ---- state ---- */

#define TEXTS 65536
#define TABLE(room) (2 * (room)) /* of a hash table: at most half of it is used */

struct known_frame {
	uint64_t method, location;
	uint32_t id;
};

/* Tables that the recorder does not read. */
struct own {
	void *weak[JAVA_SLOTS];
	uint32_t born_gc[JAVA_SLOTS];
	uint32_t free[JAVA_SLOTS], free_nr;
	uint32_t text[TABLE(TEXTS)], text_nr; /* places of texts */
	uint32_t node[TABLE(JAVA_NODES)];
	struct known_frame frame[TABLE(JAVA_FRAMES)];
	struct jvmti_frame stack[JAVA_STACK_MAX + 1];
};

static uint32_t lock_word; /* 0: free, 1: taken, 2: and someone waits */
static bool is_on; /* changes with the lock held */
static void *jvmti;
static struct own *own;
static char *file; /* the memory file */
static int file_fd; /* until the recorder has opened it; -1 */
static uint64_t collected_nr;

#define HEAD ((struct java_head *)file)
#define ORDERS ((struct java_orders *)(file + JAVA_ORDERS_AT))
#define SLOTS ((struct java_slot *)(file + JAVA_SLOTS_AT))
#define NODES ((struct java_node *)(file + JAVA_NODES_AT))
#define FRAMES ((struct java_frame *)(file + JAVA_FRAMES_AT))

/* A thread that waits here has left the virtual machine's state, as each call of an agent: a collection need not wait for it. */
static void lock(void)
{
	uint32_t seen = 0;

	if (__atomic_compare_exchange_n(&lock_word, &seen, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	while (__atomic_exchange_n(&lock_word, 2, __ATOMIC_ACQUIRE))
		CALL(futex, &lock_word, FUTEX_WAIT_PRIVATE, 2);
}

static void unlock(void)
{
	if (__atomic_exchange_n(&lock_word, 0, __ATOMIC_RELEASE) == 2)
		CALL(futex, &lock_word, FUTEX_WAKE_PRIVATE, 1);
}

/* ---- texts ---- */

static uint64_t mix_hash(uint64_t hash, uint64_t more)
{
	hash = (hash ^ more) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

static bool has_same_bytes(uint32_t at, const char *text, uint32_t bytes)
{
	const char *there = file + JAVA_TEXTS_AT + at;

	if (*(const uint16_t *)there != bytes)
		return false;
	for (uint32_t i = 0; i < bytes; i++)
		if (there[sizeof(uint16_t) + i] != text[i])
			return false;
	return true;
}

static uint32_t write_new_text(const char *text, uint32_t bytes)
{
	uint32_t at = HEAD->text_bytes, room = (sizeof(uint16_t) + bytes + 7) & ~7u;
	char *to = file + JAVA_TEXTS_AT + at;

	if (room > JAVA_TEXT_BYTES - at || own->text_nr == TEXTS) {
		HEAD->frames_lost++; /* a frame without it has a name that says less */
		return 0;
	}
	*(uint16_t *)to = bytes;
	for (uint32_t i = 0; i < bytes; i++)
		to[sizeof(uint16_t) + i] = text[i];
	__atomic_store_n(&HEAD->text_bytes, at + room, __ATOMIC_RELEASE);
	own->text_nr++;
	return at;
}

/* The place of a text. 0: the text is empty, or there is no room. */
static uint32_t place_of_text(const char *text)
{
	uint32_t bytes = 0;
	uint64_t hash = 0;

	for (; text && text[bytes] && bytes < JAVA_TEXT_MOST; bytes++)
		hash = mix_hash(hash, (uint8_t)text[bytes]);
	if (!bytes)
		return 0;
	for (uint64_t at = hash;; at++) {
		uint32_t *place = &own->text[at % TABLE(TEXTS)];

		if (!*place)
			*place = write_new_text(text, bytes);
		if (!*place || has_same_bytes(*place, text, bytes))
			return *place;
	}
}

/* ---- frames ---- */

static void deallocate(void *memory)
{
	JVM_CALL(jvmti, JVMTI_DEALLOCATE, int, (void *, void *), memory);
}

static uint32_t place_of_class(void *class)
{
	char *text = NULL;
	uint32_t place = 0;

	if (!JVM_CALL(jvmti, JVMTI_GET_CLASS_SIGNATURE, int, (void *, void *, char **, char **), class, &text, NULL)) {
		place = place_of_text(text);
		deallocate(text);
	}
	return place;
}

static int32_t line_of(void *method, int64_t location)
{
	struct jvmti_line *table = NULL;
	int64_t best = -1;
	int32_t nr = 0, line = -1;

	if (JVM_CALL(jvmti, JVMTI_GET_LINE_NUMBER_TABLE, int, (void *, void *, int32_t *, struct jvmti_line **), method, &nr, &table))
		return -1;
	for (int32_t i = 0; i < nr; i++)
		if (table[i].start <= location && table[i].start > best) {
			best = table[i].start;
			line = table[i].line;
		}
	deallocate(table);
	return line;
}

/* The method is on the stack, so its class is loaded. */
static struct java_frame describe_frame(void *jni, void *method, int64_t location)
{
	struct java_frame frame = { .line = line_of(method, location) };
	void *class = NULL, *loader = NULL;
	char *text = NULL;

	if (!JVM_CALL(jvmti, JVMTI_GET_METHOD_NAME, int, (void *, void *, char **, char **, char **), method, &text, NULL, NULL)) {
		frame.method = place_of_text(text);
		deallocate(text);
	}
	if (JVM_CALL(jvmti, JVMTI_GET_METHOD_DECLARING_CLASS, int, (void *, void *, void **), method, &class))
		return frame;
	frame.class = place_of_class(class);
	text = NULL;
	if (!JVM_CALL(jvmti, JVMTI_GET_SOURCE_FILE_NAME, int, (void *, void *, char **), class, &text)) {
		frame.file = place_of_text(text);
		deallocate(text);
	}
	frame.is_platform = !JVM_CALL(jvmti, JVMTI_GET_CLASS_LOADER, int, (void *, void *, void **), class, &loader) && !loader;
	if (loader)
		JVM_CALL(jni, JNI_DELETE_LOCAL_REF, void, (void *, void *), loader);
	JVM_CALL(jni, JNI_DELETE_LOCAL_REF, void, (void *, void *), class);
	return frame;
}

/* Where the frame of these two numbers is, or would be. */
static struct known_frame *find_known_frame(uint64_t method, uint64_t location)
{
	uint64_t at = mix_hash(mix_hash(0, method), location);
	struct known_frame *known;

	for (;; at++) {
		known = &own->frame[at % TABLE(JAVA_FRAMES)];
		if (!known->id || (known->method == method && known->location == location))
			return known;
	}
}

static uint32_t write_new_frame(struct known_frame *known, uint64_t method, uint64_t location, const struct java_frame *frame)
{
	uint32_t id = HEAD->frame_nr;

	FRAMES[id] = *frame;
	__atomic_store_n(&HEAD->frame_nr, id + 1, __ATOMIC_RELEASE);
	*known = (struct known_frame){ method, location, id };
	return id;
}

static bool has_frame_room(void)
{
	HEAD->frames_lost += HEAD->frame_nr == JAVA_FRAMES;
	return HEAD->frame_nr < JAVA_FRAMES;
}

static uint32_t frame_of_method(void *jni, void *method, int64_t location)
{
	struct known_frame *known = find_known_frame((uintptr_t)method, location);
	struct java_frame frame;

	if (known->id || !has_frame_room())
		return known->id;
	frame = describe_frame(jni, method, location);
	return write_new_frame(known, (uintptr_t)method, location, &frame);
}

/* No method has this location. */
#define OF_TYPE UINT64_C(0x8000000000000000)

static uint32_t frame_of_type(void *class)
{
	struct java_frame frame = { .class = place_of_class(class), .line = -1, .is_type = 1 };
	struct known_frame *known = find_known_frame(frame.class, OF_TYPE);

	return known->id || !has_frame_room() ? known->id : write_new_frame(known, frame.class, OF_TYPE, &frame);
}

/* ---- stacks ---- */

static uint32_t child_node(uint32_t parent, uint32_t frame)
{
	uint32_t id;

	for (uint64_t at = mix_hash(mix_hash(1, parent), frame);; at++) {
		uint32_t *node = &own->node[at % TABLE(JAVA_NODES)];

		if (*node && (NODES[*node].parent != parent || NODES[*node].frame != frame))
			continue;
		id = HEAD->node_nr;
		if (*node || id == JAVA_NODES)
			return *node;
		NODES[id].parent = parent;
		NODES[id].frame = frame;
		__atomic_store_n(&HEAD->node_nr, id + 1, __ATOMIC_RELEASE);
		return *node = id;
	}
}

/* From the oldest frame on. */
static uint32_t node_of_stack(void *jni, void *class)
{
	int32_t nr = 0;
	uint32_t node;

	/* NULL: this thread. */
	JVM_CALL(jvmti, JVMTI_GET_STACK_TRACE, int, (void *, void *, int32_t, int32_t, struct jvmti_frame *, int32_t *), NULL, 0,
		 JAVA_STACK_MAX + 1, own->stack, &nr);
	node = nr > JAVA_STACK_MAX ? JAVA_NODE_DEEP : JAVA_NODE_ROOT;
	for (int32_t i = nr > JAVA_STACK_MAX ? JAVA_STACK_MAX : nr; i-- > 0 && node;)
		node = child_node(node, frame_of_method(jni, own->stack[i].method, own->stack[i].location));
	node = node ? child_node(node, frame_of_type(class)) : 0;
	HEAD->nodes_lost += !node;
	return node ?: JAVA_NODE_LOST;
}

/* ---- samples ---- */

static uint32_t take_sample_slot(void)
{
	if (own->free_nr)
		return own->free[--own->free_nr];
	if (HEAD->slot_nr == JAVA_SLOTS)
		return JAVA_SLOTS;
	__atomic_store_n(&HEAD->slot_nr, HEAD->slot_nr + 1, __ATOMIC_RELEASE);
	return HEAD->slot_nr - 1;
}

static void write_slot(uint32_t at, struct java_slot slot)
{
	struct java_slot *to = &SLOTS[at];

	slot.sequence = to->sequence + 1;
	__atomic_store_n(&to->sequence, slot.sequence, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	*to = slot;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&to->sequence, slot.sequence + 1, __ATOMIC_RELEASE);
}

static void keep_sample(void *jni, void *object, void *class, uint64_t size)
{
	uint32_t at = take_sample_slot(), born_gc = __atomic_load_n(&collected_nr, __ATOMIC_ACQUIRE);
	void *weak = at < JAVA_SLOTS ? new_weak(jni, object) : NULL;

	HEAD->taken++;
	if (!weak) {
		HEAD->slots_lost++;
		if (at < JAVA_SLOTS)
			own->free[own->free_nr++] = at;
		return;
	}
	own->weak[at] = weak;
	own->born_gc[at] = born_gc;
	write_slot(at, (struct java_slot){ .node = node_of_stack(jni, class), .size = size, .birth_ns = now_ns(), .tid = CALL(gettid, 0, 0, 0) });
}

static void on_sampled(void *env, void *jni, void *thread, void *object, void *class, int64_t size)
{
	uint64_t begun_ns = cpu_ns();

	(void)env, (void)thread;
	lock();
	if (is_on) {
		keep_sample(jni, object, class, size);
		HEAD->cost_ns += cpu_ns() - begun_ns;
	}
	unlock();
}

/* The virtual machine stands still, and may not be called. */
static void on_collected(void *env)
{
	(void)env;
	__atomic_fetch_add(&collected_nr, 1, __ATOMIC_RELEASE);
}

/* ---- the agent's thread ---- */

#define TICK_MS 200
#define SWEPT_AT_ONCE 1024 /* slots: the program's threads may wait for the lock */

static void count_judged(const struct java_slot *slot)
{
	uint64_t bytes = java_sample_bytes(slot->size, HEAD->interval);

	NODES[slot->node].count += java_sample_count(slot->size, bytes);
	NODES[slot->node].bytes += bytes;
}

static void drop_sample(void *jni, uint32_t at)
{
	delete_weak(jni, own->weak[at]);
	own->weak[at] = NULL;
	own->free[own->free_nr++] = at;
	write_slot(at, (struct java_slot){});
}

static void judge_slot(void *jni, uint32_t at, uint32_t gc)
{
	struct java_slot slot = SLOTS[at];

	if (!own->weak[at] || (int32_t)(gc - own->born_gc[at]) <= 0)
		return;
	if (!slot.survived)
		count_judged(&slot);
	if (is_gone(jni, own->weak[at])) {
		drop_sample(jni, at);
		HEAD->died++;
		return;
	}
	slot.survived = gc - own->born_gc[at];
	write_slot(at, slot);
}

/*
 * Which collection was one of the whole heap? Now and then an object that lies with the old ones is let go, and one day it has
 * gone. No young collection takes what has survived OLD_FROM of them: virtual machines count to 15 (the recorder looks for an
 * option that makes them keep it young). Each of them takes `young`, which is garbage from its begin: it counts collections, not
 * their pauses.
 *
 * A mixed collection of G1 takes the object because of a marking that began after its birth. So all that was born before it is
 * judged.
 */
#define OLD_FROM 17
#define LET_GO_MOST 4

static struct {
	void *kept, *young; /* a global reference, and a weak one */
	uint64_t kept_ns;   /* its birth */
	uint32_t survived, next;
	struct {
		void *weak;
		uint64_t birth_ns;
	} let_go[LET_GO_MOST];
} canary;

static void release_canary(void *jni)
{
	if (canary.kept)
		JVM_CALL(jni, JNI_DELETE_GLOBAL_REF, void, (void *, void *), canary.kept);
	delete_weak(jni, canary.young);
	canary.kept = canary.young = NULL;
	for (int i = 0; i < LET_GO_MOST; i++) {
		delete_weak(jni, canary.let_go[i].weak);
		canary.let_go[i].weak = NULL;
	}
}

static void *new_global(void *jni, void *object)
{
	void *global = JVM_CALL(jni, JNI_NEW_GLOBAL_REF, void *, (void *, void *), object);

	if (!global)
		JVM_CALL(jni, JNI_EXCEPTION_CLEAR, void, (void *, ...), NULL);
	return global;
}

/* A reference of that kind to a new object. NULL: there is no memory. */
static void *new_object(void *jni, void *(*refer)(void *jni, void *object))
{
	void *object = JVM_CALL(jni, JNI_NEW_STRING_UTF, void *, (void *, const char *), "allocsnap"), *reference;

	if (!object) {
		JVM_CALL(jni, JNI_EXCEPTION_CLEAR, void, (void *, ...), NULL);
		return NULL;
	}
	reference = refer(jni, object);
	JVM_CALL(jni, JNI_DELETE_LOCAL_REF, void, (void *, void *), object);
	return reference;
}

/* The one before the last ones is forgotten. */
static void let_canary_go(void *jni)
{
	uint32_t at = canary.next++ % LET_GO_MOST;

	delete_weak(jni, canary.let_go[at].weak);
	canary.let_go[at].weak = new_weak(jni, canary.kept);
	canary.let_go[at].birth_ns = canary.kept_ns;
	JVM_CALL(jni, JNI_DELETE_GLOBAL_REF, void, (void *, void *), canary.kept);
	canary.kept = NULL;
}

/* The birth of the youngest one that has gone; 0: none has. */
static uint64_t look_for_gone(void *jni)
{
	uint64_t birth_ns = 0;

	for (int i = 0; i < LET_GO_MOST; i++)
		if (is_gone(jni, canary.let_go[i].weak)) {
			delete_weak(jni, canary.let_go[i].weak);
			canary.let_go[i].weak = NULL;
			birth_ns = canary.let_go[i].birth_ns > birth_ns ? canary.let_go[i].birth_ns : birth_ns;
		}
	return birth_ns;
}

static void next_canary(void *jni)
{
	if (!canary.young || is_gone(jni, canary.young)) {
		canary.survived += canary.young && canary.kept;
		delete_weak(jni, canary.young);
		canary.young = new_object(jni, new_weak);
	}
	if (canary.kept && canary.survived >= OLD_FROM)
		let_canary_go(jni);
	if (!canary.kept) {
		canary.kept_ns = now_ns();
		canary.kept = new_object(jni, new_global);
		canary.survived = 0;
	}
}

/* Objects that have gone are looked for before the slots: what these hold then was judged, too. */
static void sweep(void *jni)
{
	uint64_t gc = __atomic_load_n(&collected_nr, __ATOMIC_ACQUIRE);
	uint64_t judged_ns = look_for_gone(jni);

	if (gc == HEAD->swept_nr && !judged_ns && canary.kept)
		return;
	__atomic_fetch_add(&HEAD->sweeps, 1, __ATOMIC_SEQ_CST);
	for (uint32_t at = 0; at < HEAD->slot_nr;) {
		lock();
		for (uint32_t end = at + SWEPT_AT_ONCE; at < end && at < HEAD->slot_nr; at++)
			judge_slot(jni, at, gc);
		unlock();
	}
	next_canary(jni);
	HEAD->whole_nr += judged_ns > 0;
	HEAD->judged_ns = judged_ns > HEAD->judged_ns ? judged_ns : HEAD->judged_ns;
	HEAD->swept_nr = gc;
	__atomic_fetch_add(&HEAD->sweeps, 1, __ATOMIC_SEQ_CST);
}

static void set_events(bool on)
{
	const int events[] = { JVMTI_EVENT_SAMPLED, JVMTI_EVENT_COLLECTED };

	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		JVM_CALL(jvmti, JVMTI_SET_EVENT_NOTIFICATION_MODE, int, (void *, int, int, void *, ...), on, events[i], NULL);
}

static void close_file(void)
{
	if (file_fd >= 0)
		CALL(close, file_fd, 0, 0);
	file_fd = -1;
}

#define INTERVAL_DEFAULT 524288 /* of the virtual machine, for the next agent */

/* A thread that is in on_sampled() gets the lock later, and sees that there is nothing to do. */
static void end_work(void *jni)
{
	set_events(false);
	close_file();
	JVM_CALL(jvmti, JVMTI_SET_HEAP_SAMPLING_INTERVAL, int, (void *, int32_t), INTERVAL_DEFAULT);
	lock();
	is_on = false;
	for (uint32_t at = 0; jni && at < HEAD->slot_nr; at++)
		delete_weak(jni, own->weak[at]);
	release_canary(jni);
	JVM_CALL(jvmti, JVMTI_DISPOSE_ENVIRONMENT, int, (void *, ...), NULL);
	HEAD->gc_nr = __atomic_load_n(&collected_nr, __ATOMIC_ACQUIRE);
	__atomic_store_n(&HEAD->state, JAVA_OFF, __ATOMIC_RELEASE);
	CALL(munmap, own, sizeof(*own), 0);
	CALL(munmap, file, JAVA_FILE_BYTES, 0);
	file = NULL;
	unlock();
}

static void run_agent(void *env, void *jni, void *argument)
{
	const struct timespec tick = { .tv_nsec = TICK_MS * 1000000 };
	uint64_t lease = 0, seen_ns = now_ns(), used_ns = cpu_ns(), more_ns;

	(void)env, (void)argument;
	while (!__atomic_load_n(&ORDERS->stops, __ATOMIC_ACQUIRE) && now_ns() - seen_ns < JAVA_LEASE_SECONDS * UINT64_C(1000000000)) {
		if (__atomic_load_n(&ORDERS->lease, __ATOMIC_RELAXED) != lease) {
			lease = ORDERS->lease;
			seen_ns = now_ns();
			close_file();
		}
		sweep(jni);
		more_ns = cpu_ns() - used_ns;
		used_ns += more_ns;
		lock();
		HEAD->cost_ns += more_ns;
		unlock();
		HEAD->gc_nr = __atomic_load_n(&collected_nr, __ATOMIC_ACQUIRE);
		__atomic_fetch_add(&HEAD->looks, 1, __ATOMIC_SEQ_CST);
		CALL(nanosleep, &tick, NULL, 0);
	}
	end_work(jni);
}

/* ---- the begin ---- */

static bool has_room_for_file(void)
{
	struct rlimit limit;

	/* The kernel signals a process whose file becomes larger than this limit. */
	return !CALL(getrlimit, RLIMIT_FSIZE, &limit, 0) && limit.rlim_cur >= JAVA_FILE_BYTES;
}

/* The recorder opens the descriptor by the name of the file (agent_load.c). 0 or -1. */
static int make_file(const char *token)
{
	char name[sizeof(JAVA_SAMPLES_NAME) + JAVA_TOKEN_BYTES] = JAVA_SAMPLES_NAME;
	int fd;

	for (int i = 0; i < JAVA_TOKEN_BYTES; i++)
		name[sizeof(JAVA_SAMPLES_NAME) - 1 + i] = token[i];
	fd = has_room_for_file() ? CALL(memfd_create, name, MFD_CLOEXEC | MFD_ALLOW_SEALING, 0) : -1;
	if (fd < 0)
		return -1;
	if (CALL(ftruncate, fd, JAVA_FILE_BYTES, 0) || CALL(fcntl, fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) ||
	    !(file = map_memory(JAVA_FILE_BYTES, fd)) || !(own = map_memory(sizeof(*own), -1))) {
		if (file)
			CALL(munmap, file, JAVA_FILE_BYTES, 0);
		file = NULL;
		CALL(close, fd, 0, 0);
		return -1;
	}
	file_fd = fd;
	return 0;
}

static void begin_file(uint64_t interval)
{
	*HEAD = (struct java_head){
		.version = JAVA_SAMPLES_VERSION, .state = JAVA_ON, .interval = interval, .begun_ns = now_ns(),
		.node_nr = JAVA_NODE_FIRST, .frame_nr = JAVA_FRAME_FIRST, .text_bytes = JAVA_TEXT_FIRST,
	};
	collected_nr = 0;
	__atomic_store_n(&HEAD->magic, JAVA_SAMPLES_MAGIC, __ATOMIC_RELEASE);
}

static int open_jvmti(void *vm, uint64_t interval)
{
	const void *callback[JVMTI_CALLBACKS] = { [JVMTI_ON_SAMPLED] = on_sampled, [JVMTI_ON_COLLECTED] = on_collected };
	const uint8_t wanted[] = { JVMTI_CAN_GET_SOURCE_FILES, JVMTI_CAN_GET_LINES, JVMTI_CAN_SEE_COLLECTIONS, JVMTI_CAN_SAMPLE };
	uint8_t capabilities[16] = {};
	int err;

	if (JVM_CALL(vm, JVM_GET_ENV, int, (void *, void **, int32_t), &jvmti, JVMTI_VERSION_WANTED))
		return JAVA_AGENT_FAILED;
	for (size_t i = 0; i < sizeof(wanted); i++)
		capabilities[wanted[i] / 8] |= 1 << wanted[i] % 8;
	err = JVM_CALL(jvmti, JVMTI_ADD_CAPABILITIES, int, (void *, const void *), capabilities);
	if (!err)
		err = JVM_CALL(jvmti, JVMTI_SET_EVENT_CALLBACKS, int, (void *, const void *, int32_t), callback, sizeof(callback));
	if (!err)
		err = JVM_CALL(jvmti, JVMTI_SET_HEAP_SAMPLING_INTERVAL, int, (void *, int32_t), interval);
	if (!err)
		return JAVA_AGENT_WORKS;
	JVM_CALL(jvmti, JVMTI_DISPOSE_ENVIRONMENT, int, (void *, ...), NULL);
	return err == JVMTI_NOT_AVAILABLE ? JAVA_AGENT_TAKEN : JAVA_AGENT_FAILED;
}

/* An object java.lang.Thread for the agent's thread. NULL: an exception. */
static void *make_thread(void *jni)
{
	void *class = JVM_CALL(jni, JNI_FIND_CLASS, void *, (void *, const char *), "java/lang/Thread"), *method = NULL, *thread = NULL;
	union jni_value name = {};

	if (class)
		method = JVM_CALL(jni, JNI_GET_METHOD_ID, void *, (void *, void *, const char *, const char *), class, "<init>",
				  "(Ljava/lang/String;)V");
	if (method)
		name.object = JVM_CALL(jni, JNI_NEW_STRING_UTF, void *, (void *, const char *), "allocsnap");
	if (name.object)
		thread = JVM_CALL(jni, JNI_NEW_OBJECT_A, void *, (void *, void *, void *, const union jni_value *), class, method, &name);
	if (!thread)
		JVM_CALL(jni, JNI_EXCEPTION_CLEAR, void, (void *, ...), NULL);
	return thread;
}

static int begin_work(void *vm, void *jni, uint64_t interval)
{
	void *thread = make_thread(jni);
	int err = thread ? open_jvmti(vm, interval) : JAVA_AGENT_FAILED;

	if (err)
		return err;
	lock();
	begin_file(interval);
	is_on = true;
	unlock();
	set_events(true);
	if (!JVM_CALL(jvmti, JVMTI_RUN_AGENT_THREAD, int, (void *, void *, void (*)(void *, void *, void *), const void *, int32_t), thread,
		      run_agent, NULL, 5))
		return JAVA_AGENT_WORKS;
	end_work(jni);
	return JAVA_AGENT_FAILED;
}

/* "0123456789abcdef,524288" */
static bool parse_agent_options(const char *options, uint64_t *ret_interval)
{
	uint64_t interval = 0;

	for (int i = 0; i < JAVA_TOKEN_BYTES; i++)
		if (!options || !((options[i] >= '0' && options[i] <= '9') || (options[i] >= 'a' && options[i] <= 'f')))
			return false;
	options += JAVA_TOKEN_BYTES;
	if (*options++ != ',')
		return false;
	for (; *options >= '0' && *options <= '9' && interval < INT32_MAX; options++)
		interval = interval * 10 + *options - '0';
	*ret_interval = interval;
	return !*options && interval && interval <= INT32_MAX;
}

__attribute__((visibility("default"))) int Agent_OnAttach(void *vm, char *options, void *reserved);

/* Called in the virtual machine's thread for tools, one call at a time. */
int Agent_OnAttach(void *vm, char *options, void *reserved)
{
	uint64_t interval;
	void *jni;
	int err;

	(void)reserved;
	if (!parse_agent_options(options, &interval) || JVM_CALL(vm, JVM_GET_ENV, int, (void *, void **, int32_t), &jni, JNI_VERSION_WANTED))
		return JAVA_AGENT_FAILED;
	if (file)
		return JAVA_AGENT_BUSY;
	if (make_file(options))
		return JAVA_AGENT_NO_MEMORY;
	err = begin_work(vm, jni, interval);
	if (err && file) {
		close_file();
		CALL(munmap, own, sizeof(*own), 0);
		CALL(munmap, file, JAVA_FILE_BYTES, 0);
		file = NULL;
	}
	return err;
}
