/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_MAPS_BPF_H
#define ALLOCSNAP_MAPS_BPF_H

/*
 * All maps. They are weak because several objects define them and the BPF linker merges them.
 * The loader sets the capacities marked * before it loads the programs.
 *
 *	map              key                   value                 capacity         written by      read by
 *	process_slots    tgid                  slot                  4096             loader, probes  both
 *	processes        slot                  struct process        4096             loader, probes  loader
 *	threads          task                  struct thread         grows            probes          probes
 *	blocks           block_key             struct block          * 4 M            probes          loader
 *	nursery          hash of block_key     struct nursery_place  * 64 Ki          probes, loader  both
 *	handed_blocks    handed_key            struct handed_block   * 1/4 of blocks  probes          loader
 *	dropped_blocks   block_key             size                  * 1/4 of blocks  probes          loader
 *	free_filter          hash                  number of blocks      * 1              probes, loader  probes
 *	tracebacks       hash                  struct traceback      * 256 Ki         probes          loader
 *	mapping_starts   start_key             word of bits          * 256 Ki         probes          loader
 *	page_leaves      page_key              struct page_leaf      * 1              page events     loader
 *	doorbell         ring buffer           TGID                  4 Ki             probes          loader
 *	bystander_traps  enum trap             number, per CPU       3                probes          loader
 *	admissions       enum admission_place  scratch, per CPU      3                programs        programs
 *
 *	python_codes     python_code_key       struct python_code_known * 256 Ki     probes          both
 *	python_code_records  ring buffer       struct python_code_record * 4 Ki      probes          loader
 *	python_code_cache    hash of address   struct python_code_cached * 1         probes          probes
 *	python_code_marks    hash of address   64 bits               * 1             probes          probes
 *
 *	unwind_objects   unwind_file           struct unwind_object  4096             loader, probes  both
 *	unwind_slabs     number                array of words        * 512            loader          probes
 *	unwind_places    place_key             struct unwind_place   64 Ki            probes, loader  probes
 *	unwind_cache     hash of pc            struct unwind_cached  64 Ki            probes          probes
 *	known_walks      hash of registers     struct known_walk     1 Ki             probes          probes
 *
 * When a map is full:
 *
 *	process_slots   the loader fails to admit the process and reports it
 *	processes       the child is not followed (processes_dropped)
 *	threads         the call is not recorded (threads_dropped)
 *	blocks          the block is not recorded (blocks_dropped)
 *	nursery         the block in the place moves to `blocks`
 *	handed_blocks   the block may be missing from the snapshot that is being taken (blocks_not_handed)
 *	dropped_blocks  the free of the block is counted as unknown (drops_unnoted)
 *	free_filter         never full: blocks share slots
 *	tracebacks      the block is recorded without a traceback (tracebacks_dropped)
 *	mapping_starts  the mapping is not recorded (blocks_dropped)
 *	page_leaves     the page is not recorded (pages_dropped)
 *	doorbell        nothing is lost: it only wakes the loader, which reads `processes`
 *	python_codes, python_code_records  frames of the code object have no name (python_codes_missing)
 *	unwind_objects, unwind_slabs  the file has no table (unwind_tables_missing)
 *	unwind_places, unwind_cache, known_walks, python_code_cache   old entries are replaced
 *	python_code_marks   never full: several addresses may share a bit
 *
 * blocks and tracebacks are not preallocated. The memory of blocks follows the number of live blocks. The loader
 * deletes tracebacks without blocks once half of their room is taken, or once one process has very many.
 *
 * If several processes may be recorded, no process may hold all of blocks, dropped_blocks, tracebacks, python_codes
 * and process_slots: see "Shares" in docs/recording.md. For a process at its share the map counts as full.
 *
 * Store the error of an update or a delete in an int before you compare it. Before kernel 6.4 maps return an int,
 * and the upper half of the register is 0: as a long it would never equal -EEXIST.
 */

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "machine.bpf.h"
#include "shared/bpf_types.h"
#include "shared/page_types.h"
#include "shared/python_calls.h"
#include "shared/unwind_types.h"

/* An allocator call that has not returned yet. sp is 0 if no call is pending. */
struct call {
	__u64 sp;    /* the stack pointer at entry: it points at the return address */
	__u64 return_address; /* if no return probe replaces it; else 0 */
	__u64 image; /* the process's at entry */
	__u64 size;
	__u64 pointer; /* realloc: the old block; posix_memalign: where it stores the result */
	__u64 entry_link; /* the link register at the probe where the thread is: LINK_REGISTER() */
	__u64 old_bytes; /* mremap: length of the old range */
	__u64 begin_ns;	 /* mremap: time of the entry */
	__u64 resumed_ns; /* the process's at entry */
	__u32 shape;   /* enum call_shape */
	__u32 site;
	__u32 domain;
	__u32 layer;
	__u32 has_old;	  /* realloc: the old block was in the account and is now in `old` */
	__u32 has_dropped; /* realloc: the old block was noted as dropped; `old` has only its size */
	__u32 is_unwanted; /* the new block is not to be recorded */
	__u32 rate;	  /* the sampling rate that decided so */
	struct block old; /* not in the map while another thread may get its address */
};

#define WINDOW_WORDS 256 /* a power of two */

/* Frames of Python code that one C frame runs, the next ones that have no place among the frames of C code yet. */
struct python_run {
	__u64 frame; /* the innermost; 0: there are no more */
	__u64 end;   /* the frame behind them; 0: not found */
	__u64 entry; /* what the C frame has on the stack for them; 0: not found */
	__u64 link;  /* 3.11: the struct _PyCFrame of the next run */
	__u64 left;  /* more frames are not read */
};

/* The window of a walk over frames of Python code. */
struct python_window {
	__u64 last; /* the frame that was looked at last; 0: none */
	__u64 room; /* frames that begin in so many bytes of the window are there as a whole */
	__u64 end;  /* the walk ends there; 0: with the last one */
	__u64 salt; /* of code_cache_key() */
	__u64 ended_nr; /* struct python_process: code_ended_nr */
};

/*
 * A code object in front of the map python_codes: in a cache that all processes share, as an entry of the rule cache
 * (check is key ^ known), and in the state of a thread (code_find()).
 */
struct python_code_cached {
	__u64 check;
	__u64 known; /* id << 32 | first_traceable */
};

#define READS_MAX 128 /* a power of two */
#define KNOWN_WALKS_SHIFT 10

/* A walk that has ended (unwind/known_walks.bpf.h). CPUs share them as the entries of the rule cache. */
struct known_walk {
	__u64 key;	 /* of where it begins */
	__u64 check;	 /* the sum of what it depends on ^ traceback */
	__u64 traceback; /* key in the map of tracebacks */
	__u64 nr;
	__u16 place[READS_MAX]; /* the n-th word from the stack pointer on where it begins; 0: the frame pointer there */
};

/* Scratch memory for a stack walk. */
struct walk {
	struct traceback traceback;
	struct unwind_frame frame;
	__u64 image;
	__u64 salt;	  /* salt of the keys in unwind_cache: the process image and the generation of its mappings */
	__u64 trampoline; /* return probes make calls return to this address; 0: none yet */
	__u64 rule;	  /* the rule found last, struct unwind_rule as a word */
	struct unwind_place place; /* the mapping found last; here because the stack of a call chain is small */
	__u64 may_guess;  /* the file will never have a table */
	__u64 guessed;	  /* why a frame pointer was used to find the frame (enum unwind_end), or 0 */
	__u64 was_guessed, was_exact; /* of the frame before the step; here as walk_one() has little stack */
	__u64 is_junk;	  /* the address found is not in code */
	struct python_run run; /* of a traceback with frames of both */
	struct python_window frames; /* of Python code, in window */
	__u64 thread_state; /* CPython's of the thread at this place; 0: not read yet; STATE_NONE */
	__u64 has_gil; /* the call there is one for which a thread holds the GIL */
	struct python_code_cached met[1 << PYTHON_MET_SHIFT]; /* code objects that the thread has met */
	__u64 begin_sp;
	struct known_walk reads; /* of this walk */
	__u64 depends_on_more;	 /* than these */
	__u64 fp_from; /* the word that the frame pointer comes from, until a rule uses it; then 0 */
	__u64 word;	    /* the word read last */
	__u64 window_start; /* the stack address of window[0] */
	__u64 window_words; /* valid words in window */
	__u64 window[WINDOW_WORDS + 16]; /* only the verifier needs the last 16 */
};

#define UNWIND_CACHE_SHIFT 16
#define UNWIND_CACHE_ENTRIES (1u << UNWIND_CACHE_SHIFT)

/*
 * An entry of the rule cache. All CPUs share the cache without a lock. If two CPUs each write one half of an entry,
 * its check does not match.
 */
struct unwind_cached {
	__u64 check; /* key ^ rule */
	__u64 rule;  /* or UNWIND_MISS() */
};

/* The latest free of a thread. An allocator that wraps another one passes the free on to it. */
struct freed {
	__u64 address;
	__u64 bytes; /* munmap */
	__u64 sp;
	__u32 site;
	__u32 restarts; /* its function may jump back to its own start */
};

/* A range of pages to remove from the account (ranges.bpf.h). */
struct range {
	__u64 image, start, end;
	__u64 newest;	   /* the newest block of the thread; 0: it does not matter */
	__u64 born_before; /* remove only blocks born before this; 0: all */
	__u64 now;	   /* epoch */
	__u64 before;	   /* the search for blocks continues below this page */
	__u32 is_done;
	__u32 cut_nr; /* blocks that lost pages */
	struct block block;
};

/* The calls of a thread in one layer. */
struct calls {
	__u64 call_cnt; /* calls begun; raised before `call` is written */
	struct call call;
	__u64 newest; /* the block that the thread entered last; it may be gone. 0: none */
	struct freed freed;
};

#define TRAP_NR 3

/* The probe costs of a thread that its process's account does not have yet (cost.bpf.h). */
struct thread_cost {
	__u32 trap_cnt[TRAP_NR]; /* enum trap */
	__u32 left;		 /* programs up to and including the next timed one; 0: not drawn yet */
	__u64 begin_ns;		 /* start of the running program if it is timed; else 0 */
};

enum caller_kind {
	CALLER_RETURN = 0, /* ip is a return address */
	CALLER_EXACT,	   /* it is not: the place of a probe in the middle of code */
};

/* The registers of the allocator's caller at the return of the call. */
struct caller {
	__u64 ip, sp, frame_pointer;
	__u64 kind; /* enum caller_kind */
	__u64 link; /* the link register where the machine has one, and kind is CALLER_EXACT */
};

/* The blocks that a thread is about to get from CPython's allocators (bpf/python/python_calls.bpf.h). */
struct python_thread {
	__u64 image;	/* of the next fields */
	__u64 has_raw;	/* the C library's next function serves a request of raw_size bytes, by raw_bytes */
	__u64 raw_size, raw_bytes;
	__u64 granted, granted_size; /* the block that a realloc gets, which may call malloc for it */
	__u64 freed;	/* the block freed last, which may be passed on */
	__u64 fresh;	/* the block that the thread's last call has got: an object that begins there has its traceback */
};

struct thread {
	__u64 image; /* the image whose account the thread last wrote to; 0: none */
	__u32 slot;  /* the slot of that process */
	struct thread_cost cost;
	struct calls layer[LAYER_NR];
	__u64 links; /* the links_state that a link saw last (account/thread.bpf.h) */
	__u64 sample_distance; /* bytes up to the next sample; 0: not drawn yet */
	__u64 sample_rate;     /* the rate that the distance was drawn for */
	struct caller caller; /* the caller of the call that is ending */
	__u64 entry_link; /* the link register at the probe where the thread is: LINK_REGISTER() */
	__u64 old_bytes; /* mremap: length of the old range, for call_begin() */
	struct range range; /* scratch memory; too large for the stack before kernel 6.13 */
	struct walk walk; /* per thread, so that no preempting program overwrites it */
	struct python_thread python;
};

/* The loader makes the values smaller: the kernel would not take the map with their type. */
#ifndef __untyped
#define __untyped(name, val) __uint(name##_size, sizeof(val))
#endif

/* map_type is the end of a name of enum bpf_map_type. */
#define BPF_MAP(name, map_type, flags, capacity, key_type, value_type) \
	struct { \
		__uint(type, BPF_MAP_TYPE_##map_type); \
		__uint(map_flags, flags); \
		__uint(max_entries, capacity); \
		__type(key, key_type); \
		__type(value, value_type); \
	} name SEC(".maps") __weak

BPF_MAP(process_slots, HASH, 0, PROCESSES_MAX, __u32, __u32);
BPF_MAP(processes, ARRAY, BPF_F_MMAPABLE, PROCESSES_MAX, __u32, struct process);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} doorbell SEC(".maps") __weak;

BPF_MAP(bystander_traps, PERCPU_ARRAY, 0, TRAP_NR, __u32, __u64);

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps") __weak;

BPF_MAP(blocks, HASH, BPF_F_NO_PREALLOC, 1, struct block_key, struct block);
BPF_MAP(nursery, ARRAY, BPF_F_MMAPABLE, 1, __u32, struct nursery_place);
BPF_MAP(handed_blocks, HASH, BPF_F_NO_PREALLOC, 1, struct handed_key, struct handed_block);
BPF_MAP(mapping_starts, HASH, BPF_F_NO_PREALLOC, 1, struct start_key, __u64);
BPF_MAP(page_leaves, HASH, BPF_F_NO_PREALLOC, 1, struct page_key, struct page_leaf);
BPF_MAP(dropped_blocks, HASH, BPF_F_NO_PREALLOC, 1, struct block_key, __u64);
BPF_MAP(free_filter, ARRAY, BPF_F_MMAPABLE, 1, __u32, __u64);

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __u64);
	__untyped(value, struct traceback);
} tracebacks SEC(".maps") __weak;

BPF_MAP(unwind_objects, HASH, BPF_F_NO_PREALLOC, 4096, struct unwind_file, struct unwind_object);
BPF_MAP(python_codes, HASH, BPF_F_NO_PREALLOC, 256 << 10, struct python_code_key, struct python_code_known);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} python_code_records SEC(".maps") __weak;

BPF_MAP(python_code_cache, ARRAY, 0, 1, __u32, struct python_code_cached);
BPF_MAP(python_code_marks, ARRAY, 0, 1, __u32, __u64);

struct unwind_slab {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, UNWIND_SLAB_WORDS);
	__type(key, __u32);
	__type(value, __u64);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, UNWIND_SLABS_MAX);
	__type(key, __u32);
	__type(value, __u32);
	__array(values, struct unwind_slab);
} unwind_slabs SEC(".maps") __weak;

BPF_MAP(unwind_places, LRU_HASH, 0, 65536, struct place_key, struct unwind_place);
BPF_MAP(unwind_cache, ARRAY, 0, UNWIND_CACHE_ENTRIES, __u32, struct unwind_cached);
BPF_MAP(known_walks, ARRAY, 0, 1 << KNOWN_WALKS_SHIFT, __u32, struct known_walk);

#endif
