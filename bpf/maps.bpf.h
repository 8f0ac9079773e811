/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_MAPS_BPF_H
#define ALLOCSNAP_MAPS_BPF_H

/*
 * Every map. They are weak because two objects define them and the BPF linker makes them one.
 * Capacities marked * are set by the loader before loading.
 *
 *	map         key            value             capacity    written by        read by
 *	process_slots  tgid        slot              4096        loader, probes    both
 *	processes   slot           struct process    4096        loader, probes    loader
 *	threads     task           struct thread     grows       probes            probes
 *	blocks      block_key      struct block      * 4 M       probes            loader
 *	nursery     hash of block_key  struct nursery_place  * 64 Ki  probes, loader  both
 *	handed_blocks  handed_key  struct handed_block  * 1/4 of it  probes         loader
 *	dropped_blocks block_key   size              * 1/4 of it  probes         loader
 *	pairing     hash           number of blocks  * 1         probes, loader    probes
 *	tracebacks  hash           struct traceback  * 256 Ki    probes            loader
 *	mapping_starts  start_key  word of bits        * 256 Ki    probes            loader
 *	doorbell    ring buffer    TGID              4 Ki        probes            loader
 *	bystander_traps  enum trap  number, per CPU  3           probes            loader
 *	admissions  enum admission_place  scratch, per CPU  3    programs          programs
 *
 *	unwind_objects  unwind_file  struct unwind_object   4096     loader, probes   both
 *	unwind_slabs    number       array of words         * 512    loader   probes
 *	unwind_places   place_key    struct unwind_place     64 Ki    probes, loader   probes
 *	unwind_cache    hash of pc   struct unwind_cached   64 Ki    probes   probes
 *
 * When full: `process_slots` – the loader fails to admit and says so. `threads` – the call is
 * not recorded (threads_dropped). `blocks` – the block is not recorded (blocks_dropped).
 * `dropped_blocks` – the block's free is an unknown one (drops_unnoted).
 * `handed_blocks` – the block may lack in the snapshot that is being taken (blocks_not_handed).
 * `mapping_starts` – the mapping is not recorded (blocks_dropped).
 * `tracebacks` – the block is recorded without one (tracebacks_dropped). `doorbell` – nothing: it
 * only wakes the loader, to look at `processes`. A child is not followed where that is full
 * (processes_dropped). `unwind_objects`, `unwind_slabs` – the file has no table (unwind_tables_missing).
 * `unwind_places`, `unwind_cache` – what they have is written over. `nursery` – what a place has moves to `blocks`. `pairing` is not: blocks share places.
 *
 * blocks and tracebacks are not preallocated: the memory of blocks follows what is live; the
 * loader deletes tracebacks that no block has any more once half of their room is taken, or one process has very many.
 *
 * Where several processes may be recorded one may not hold all of blocks, dropped_blocks, tracebacks and
 * process_slots: see "Shares" in docs/design.md. Beyond its share it is as when the map is full.
 *
 * The error of an update or a delete belongs in an int before it is compared: before kernel 6.4 maps return
 * an int, whose upper half is 0 in the register, so as a long it is never -EEXIST.
 */

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "shared/bpf_types.h"
#include "shared/unwind_types.h"
#include "shared/unwind_frame.h"

/* An allocator call that has not returned yet; none where sp is 0. */
struct call {
	__u64 sp;    /* the stack pointer at entry: it points at the return address */
	__u64 return_address; /* where nothing hijacks it; else 0 */
	__u64 image; /* of the process, at entry */
	__u64 size;
	__u64 pointer; /* realloc: the old block; posix_memalign: where the result goes */
	__u64 old_bytes; /* mremap: of the old range */
	__u64 begin_ns;	 /* mremap */
	__u64 resumed_ns; /* of the process, at entry */
	__u32 shape;   /* enum call_shape */
	__u32 site;
	__u32 domain;
	__u32 layer;
	__u32 has_old;	  /* realloc: the old block was in the books, and is now in `old` */
	__u32 has_dropped; /* the old block was noted as dropped: old.size, nothing else */
	__u32 is_unwanted; /* the new one is not to be recorded */
	struct block old; /* out of the map while realloc may give its address to another thread */
};

#define WINDOW_WORDS 256 /* a power of two */

/* Scratch memory for a walk over the stack. */
struct walk {
	struct traceback traceback;
	struct unwind_frame frame;
	__u64 image;
	__u64 salt;	  /* of the keys in unwind_cache: the process image, and its mappings' generation */
	__u64 trampoline; /* where return probes make calls return to; 0: nowhere yet */
	__u64 rule;	  /* struct unwind_rule as a word: what was found last */
	__u64 may_guess;  /* that there is no table is for good */
	__u64 guessed;	  /* 0, or why the frame was found by a frame pointer: enum unwind_end */
	__u64 is_junk;	  /* what was found is not in code */
	__u64 word;	    /* read last */
	__u64 window_start; /* the stack pointer that window[0] was read from */
	__u64 window_words; /* read */
	__u64 window[WINDOW_WORDS + 1]; /* the last one only pleases the verifier */
};

#define UNWIND_CACHE_ENTRIES (1u << 16)

/*
 * Shared by all processors, without a lock: what two of them write at once, each a half, has a
 * check that does not fit.
 */
struct unwind_cached {
	__u64 check; /* key ^ rule */
	__u64 rule;  /* or UNWIND_MISS() */
};

/* The latest free of a thread. An allocator that wraps another one passes it on. */
struct freed {
	__u64 address;
	__u64 bytes; /* munmap */
	__u64 sp;
	__u32 site;
	__u32 restarts; /* its function jumps back to its begin */
};

/* Pages that are taken away (ranges.bpf.h). */
struct range {
	__u64 image, start, end;
	__u64 newest;	   /* of the thread's blocks; 0: it does not matter */
	__u64 born_before; /* 0: whenever */
	__u64 now;	   /* epoch */
	__u64 before;	   /* the page below which blocks are looked for */
	__u32 is_done;
	__u32 cut_nr; /* blocks that lost pages */
	struct block block;
};

/* Of a thread in one layer. */
struct calls {
	__u64 call_cnt; /* calls begun; counted before call is written */
	struct call call;
	__u64 newest; /* the block that the thread entered last, while it is live */
	struct freed freed;
};

#define TRAP_NR 3

/* What its probes have cost since that was added to its process's books (cost.bpf.h). */
struct thread_cost {
	__u32 trap_cnt[TRAP_NR]; /* enum trap */
	__u32 left;		 /* programs up to the next one that is timed, itself included; 0: not drawn */
	__u64 begin_ns;		 /* of the program that runs, where it is timed; else 0 */
};

/* The registers of who called the allocator, when the call has returned. */
struct caller {
	__u64 ip, sp, frame_pointer;
};

struct thread {
	__u64 image; /* whose books the thread was found to write in last; 0: none */
	__u32 slot;  /* of that process */
	struct thread_cost cost;
	struct calls layer[LAYER_NR];
	__u64 sample_distance; /* bytes to the next sample; 0: not drawn yet */
	struct caller caller; /* of the call that ends just now */
	__u64 old_bytes; /* mremap: of the old range, for call_begin() */
	struct range range; /* scratch memory; on the stack it would be too much before kernel 6.13 */
	struct walk walk; /* per thread: nothing can preempt and overwrite it */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PROCESSES_MAX);
	__type(key, __u32);
	__type(value, __u32);
} process_slots SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PROCESSES_MAX);
	__type(key, __u32);
	__type(value, struct process);
} processes SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} doorbell SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TRAP_NR);
	__type(key, __u32);
	__type(value, __u64);
} bystander_traps SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct block_key);
	__type(value, struct block);
} blocks SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct nursery_place);
} nursery SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct handed_key);
	__type(value, struct handed_block);
} handed_blocks SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct start_key);
	__type(value, __u64);
} mapping_starts SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct block_key);
	__type(value, __u64);
} dropped_blocks SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} pairing SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, struct traceback);
} tracebacks SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, struct unwind_file);
	__type(value, struct unwind_object);
} unwind_objects SEC(".maps") __weak;

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

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct place_key);
	__type(value, struct unwind_place);
} unwind_places SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, UNWIND_CACHE_ENTRIES);
	__type(key, __u32);
	__type(value, struct unwind_cached);
} unwind_cache SEC(".maps") __weak;

#endif
