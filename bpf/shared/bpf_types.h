/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BPF_TYPES_H
#define ALLOCSNAP_BPF_TYPES_H

/*
 * The data that the kernel side and the loader share: keys and values of the maps (bpf/maps.bpf.h
 * has the maps themselves) and the list of everything that is counted. All fields have a fixed width, without
 * padding. The BPF programs, the loader and the renderers include this header.
 *
 * The account of a process are its accounting: its counters, its losses and its live blocks.
 */

#include "shared/call_types.h"
#include "shared/fixed_width.h"
#include "shared/python_types.h"

/*
 * Counters of one process: X(name, meaning). They count from its admission or its last exec. The last four
 * are the cost of recording it; they count from its admission. In a sampled recording the counters up to
 * peak_blocks and the two temporary ones are estimates: sums of weights.
 */
#define ALLOCSNAP_COUNTERS(X) \
	X(allocations, "blocks allocated and recorded") \
	X(allocated_bytes, "bytes of the blocks allocated and recorded") \
	X(frees, "recorded blocks freed") \
	X(freed_bytes, "bytes of the recorded blocks freed") \
	X(current_blocks, "recorded blocks that are live") \
	X(current_bytes, "bytes of the recorded blocks that are live") \
	X(peak_bytes, "highest value of current_bytes") \
	X(peak_blocks, "highest value of current_blocks") \
	X(temporary_blocks, "blocks freed before their thread allocated another one") \
	X(temporary_bytes, "bytes of the temporary blocks") \
	X(unknown_frees, "frees of unrecorded blocks: older blocks, and those that glibc caches for a thread, at the thread's exit") \
	X(inherited_frees, "frees, in a forked process, of blocks inherited from its parent") \
	X(reported_samples, "samples that the process's own sampler reported") \
	X(skipped_samples, "samples that it reported and that were left out, by their size or weight") \
	X(failed_calls, "allocator calls that returned no block") \
	X(nested_calls, "allocator calls inside another allocator call, counted as part of the outer call") \
	X(dropped_frees, "unrecorded blocks (blocks_dropped) freed since") \
	X(dropped_blocks, "unrecorded blocks (blocks_dropped) that are live") \
	X(dropped_bytes, "bytes of the unrecorded blocks that are live") \
	X(sampled_blocks, "recorded blocks that are live, each counted once") \
	X(entry_traps, "probe hits at a function's entry, on an instruction that the kernel emulates") \
	X(stepped_traps, "probe hits at a function's entry, on an instruction that the kernel single-steps") \
	X(return_traps, "probe hits at a function's return") \
	X(program_ns, "time spent in the BPF programs, estimated from one call in 64")

/*
 * Gaps in what the recording knows, by cause: X(name, meaning). Append only; never reuse an entry. Only older snapshots
 * have mappings_replaced.
 */
#define ALLOCSNAP_LOSSES(X)                                                                                                        \
	X(blocks_dropped,                                                                                                          \
	  "blocks not recorded: the block map was full, the process had used up its share of it, or the kernel was out of memory") \
	X(blocks_replaced, "blocks whose free was missed: their address was allocated again")                                      \
	X(tracebacks_dropped,                                                                                                      \
	  "blocks without a traceback: the traceback map was full, or the process had used up its share of it")                    \
	X(calls_unreturned, "allocator calls whose return was never seen (longjmp, missed return probe, thread exit)")             \
	X(returns_unmatched, "returns of allocator calls whose start was not seen")                                                \
	X(threads_dropped, "allocator calls not recorded: no memory for the state of their thread")                                \
	X(results_unreadable, "allocator calls not recorded: their result could not be read")                                      \
	X(tracebacks_limited, "tracebacks cut at the traceback limit")                                                             \
	X(tracebacks_broken, "tracebacks cut at a frame that cannot be a return address")                                          \
	X(tracebacks_skipping, "tracebacks with missing callers: code without frame pointers")                                     \
	X(execs_unprobed,                                                                                                          \
	  "execs by another than the main thread, or while the recording began: allocations are missing until the probes were there") \
	X(main_thread_ended, "the main thread has exited: the kernel may have removed the probes since")                           \
	X(mappings_replaced,                                                                                                       \
	  "code mapped where other code was before: earlier tracebacks may show the names of the new code")                        \
	X(tracebacks_missing, "blocks without a traceback: it was no longer in the map")                                           \
	X(objects_unreadable, "mapped files that could not be read: their frames have no names")                                   \
	X(functions_unprobed, "allocator functions that could not be probed")                                                      \
	X(frames_unmapped, "frames outside every file that the process maps: they have no names")                                  \
	X(calls_declined,                                                                                                          \
	  "allocator calls not followed for the program's safety: on another stack inside an allocator call (signal handler, "     \
	  "coroutine), or in a thread that handles its system calls itself")                                                       \
	X(functions_dropped, "allocator functions no longer recorded: a return probe could have killed the process")               \
	X(processes_dropped,                                                                                                       \
	  "children not recorded: no free slot, or the records of an exited process with the same PID were not read yet")          \
	X(mappings_missed, "mmap events dropped by the kernel (any process): some frames may be unnamed")                          \
	X(functions_late,                                                                                                          \
	  "allocator functions probed after the process had mapped them: their earlier blocks are unknown")                        \
	X(tracebacks_guessed, "tracebacks with callers found by frame pointer, in code without unwind tables")                     \
	X(tracebacks_no_rule, "tracebacks cut in code for which its file has no call frame information")                           \
	X(tracebacks_unsupported, "tracebacks cut at call frame information of an unsupported kind")                               \
	X(tracebacks_unreadable, "tracebacks cut where the stack could not be read")                                               \
	X(tracebacks_backwards, "tracebacks cut where the caller's frame would not be above the frame it called")                  \
	X(tracebacks_no_fp, "tracebacks cut where a frame pointer was needed but not known")                                       \
	X(tracebacks_no_table, "tracebacks cut in code without an unwind table, or before the table was loaded")                   \
	X(tracebacks_no_code, "tracebacks cut at a return address outside code")                                                   \
	X(tracebacks_busy, "tracebacks cut where the mappings could not be read at that moment")                                   \
	X(unwind_tables_missing, "mapped files whose unwind tables could not be built or did not fit")                             \
	X(blocks_not_handed,                                                                                                       \
	  "blocks removed while a snapshot was taken, which may be missing from it: no memory for a copy")                         \
	X(process_events_missed,                                                                                                   \
	  "forks, execs and exits (any process) that the kernel skipped, because it was already handling one")                     \
	X(ranges_missed,                                                                                                           \
	  "mappings made or removed but not recorded: other mappings were being recorded for too long, or there were too many")    \
	X(drops_unnoted,                                                                                                           \
	  "unrecorded blocks that could not even be noted as dropped: their frees count as unknown_frees")                         \
	X(nestings_late,                                                                                                           \
	  "functions found late to call another allocator function: until then some of their blocks were sampled twice as often")  \
	X(blocks_gone_in_gap,                                                                                                      \
	  "blocks from before a gap in the recording, found replaced after it: their address was allocated again")                 \
	X(blocks_unsettled,                                                                                                        \
	  "frees that came while the recording may have been moving their block: the block may seem live")                         \
	X(snapshots_lost, "earlier snapshots of the process that could not be written")                                            \
	X(objects_changed, "mapped files that were written to: earlier frames may have no names")                                  \
	X(mappings_skipped,                                                                                                        \
	  "code mappings that came too fast to be read one by one: names may be missing or wrong until all maps were read again")  \
	X(mappings_forgotten,                                                                                                      \
	  "unmapped or replaced code that was forgotten too soon, because there was too much of it: names may be missing")                     \
	X(functions_copied,                                                                                                        \
	  "allocator functions whose code the program replaced by a copy that cannot be probed: no longer recorded there")         \
	X(tracebacks_summed, "tracebacks that no block uses any more: their allocations are one sum without frames")               \
	X(calls_ownerless,                                                                                                         \
	  "allocator calls of a child in the memory of a parent that has ended or called exec: not recorded")                      \
	X(ends_missed, "the kernel skipped the exit event of the process: it exited earlier than was noticed")                     \
	X(execs_missed,                                                                                                            \
	  "the kernel skipped an exec event of the process: the first calls after the exec count for the program before it")         \
	X(samples_refused,                                                                                                         \
	  "samples of the process's own sampler that were not recorded: unreadable, or with a weight that cannot be")              \
	X(samples_dropped, "blocks that the process's own sampler chose, but had no room for")                                     \
	X(execs_unsampled, "execs that ended an injected sampler: the heap of the next program is not recorded")                          \
	X(python_calls_early,                                                                                                      \
	  "calls of CPython's allocators that were not recorded: it was not known yet where that CPython has what")                \
	X(python_blocks_unfound, "blocks of CPython not recorded: it was not found where its allocator put them")                  \
	X(python_calls_unread, "calls of CPython's allocators that were not recorded: their arguments could not be read")          \
	X(python_interpreters,                                                                                                     \
	  "calls of CPython's allocators in another interpreter than the main one: not recorded")                                  \
	X(python_codes_missing, "frames of Python code without a name: there was no room for the code, or it could not be read") \
	X(python_frames_broken, "tracebacks cut at a frame of Python code that could not be read")                                 \
	X(python_places_unknown, "places where CPython allocates that were not understood, and are not seen")                      \
	X(python_creations_unknown,                                                                                                \
	  "places where CPython makes objects that were not understood: some from free lists have an older traceback")             \
	X(python_blocks_unseen, "live blocks of CPython that were not recorded, as the lists of its allocator say")                 \
	X(python_blocks_gone, "recorded blocks of CPython that are not live, as the lists of its allocator say")                   \
	X(python_frames_unplaced,                                                                                                  \
	  "tracebacks in which it was not found where C code runs the outer frames of Python code: these are at the end")         \
	X(tracebacks_unsure,                                                                                                       \
	  "tracebacks with frames without a name: it is not known which of several files was mapped there at that time")         \
	X(children_unrecorded,                                                                                                     \
	  "children in the memory of the process (vfork, CLONE_VM) that called probed functions, or run still: not recorded. "     \
	  "--follow-forks records them")                                                                                             \
	X(python_states_missing,                                                                                                   \
	  "tracebacks without frames of Python code: the state that CPython has of the thread was not found")                      \
	X(blocks_amid_others,                                                                                                      \
	  "blocks of signal handlers that interrupted their thread while it recorded another block: not recorded")                   \
	X(pages_dropped, "pages that were seen to come, but not recorded: no room, the process had used up its share of it, or no memory in the kernel") \
	X(page_moves_missed,                                                                                                       \
	  "mappings made or moved (any process) that the kernel skipped, because it was already handling one: pages may count for other code, or none")

enum counter {
#define X(name, meaning) COUNTER_##name,
	ALLOCSNAP_COUNTERS(X)
#undef X
	COUNTER_NR,
};

enum loss {
#define X(name, meaning) LOSS_##name,
	ALLOCSNAP_LOSSES(X)
#undef X
	LOSS_NR,
};

#define PROCESSES_MAX 4096 /* a power of two */
#define USERS_MAX 1024 /* a power of two; users with the same hash share one entry */
#define USER_HASH(uid, seed) ((bpf_u32)((((uid) ^ (seed)) * 0x9e3779b97f4a7c15ULL) >> 32) & (USERS_MAX - 1))
#define COMM_BYTES 16
#define ARGS_BYTES 256

/*
 * Processes share limited resources (blocks, tracebacks, process slots…). Of each resource a process may hold at most
 * three times what is free. So one process alone gets three quarters, two get three sevenths each, and a part is
 * always free.
 */
#define SHARE_OF_FREE 3

/* The side that gives back the slot of an ended process. */
enum account_owner {
	ACCOUNT_OF_KERNEL = 0, /* the loader has not seen it yet */
	ACCOUNT_OF_LOADER,
	ACCOUNT_OF_NOBODY, /* the slot is being given back */
};

/* Bits of is_open. */
#define ACCOUNT_OPEN 1
#define ACCOUNT_CLEARING 2 /* the loader is about to clear the account (bpf/account/thread.bpf.h) */

/*
 * A recorded process and its account. A process image is a process between two execs. The kernel side gives out
 * image ids; they start at 1 and are never used twice, so neither PID reuse nor exec can mix two account.
 */
struct process {
	bpf_u64 image;	  /* 0: the process is just being admitted */
	bpf_u64 is_open;  /* ACCOUNT_OPEN: blocks enter; without it only pending calls are noted. ACCOUNT_CLEARING */
	bpf_u64 exec_cnt; /* execs since the admission */
	bpf_u64 thread_exec_cnt; /* execs by a thread other than the main one */
	bpf_u64 clear_cnt; /* how often its traces were cleared */
	bpf_u64 exit_ns;  /* CLOCK_MONOTONIC when its last thread ended; 0: the process runs */
	bpf_u64 code_cnt; /* code mappings that were made, or may have been made */
	bpf_u64 exit_code; /* as waitpid() gives it, once exit_ns is set */
	bpf_u64 by_ret;	   /* probes on `ret` instructions see its returns, not return probes */
	bpf_u64 follows;   /* its children are admitted, too; no probe is tied to one process */
	bpf_u64 parent;	   /* TGID of the recorded parent whose fork admitted it; 0: none */
	bpf_u64 memory_of; /* after vfork, until exec: TGID of the process that owns the memory; 0: its own */
	bpf_u64 memory;	   /* the image that this memory began with: processes that share memory have the same value */
	bpf_u64 sharers;   /* processes that began in its memory and are still there, and are not recorded */
	bpf_u64 is_forked; /* no exec since fork: its account lack the blocks that it inherited */
	bpf_u64 forked_ns; /* CLOCK_MONOTONIC of its fork */
	bpf_u64 start_boottime_ns; /* PID and start time identify a process for good; /proc/PID/stat has ticks */
	bpf_u64 start_span_ns; /* the process began within this time after that: 1, or a tick if the loader set it */
	bpf_u64 exec_id; /* the kernel's exec count, plus 1; 0: not known yet */
	bpf_u64 args_bytes;	   /* used bytes of args; 0: not known */
	bpf_u64 mappings_lock;	   /* 1: a thread is changing the blocks of mappings */
	char args[ARGS_BYTES];	   /* first bytes of the arguments of exec, each ending with a NUL */
	char comm[COMM_BYTES];	   /* updated at fork, exec and the main thread's end */
	bpf_u64 resumed_ns; /* CLOCK_MONOTONIC when placing probes began after the last gap; 0: no gap */
	bpf_u64 cpu_ns; /* CPU time of all its threads, once exit_ns is set */
	bpf_u64 tgid;
	bpf_u64 slot;	 /* index in the map `processes` */
	bpf_u64 owner;	 /* enum account_owner */
	bpf_u64 admitted_ns; /* CLOCK_MONOTONIC of the exec that admitted it; else 0 */
	bpf_u64 has_left; /* still running, but exec started a program that is not admitted, at exit_ns */
	bpf_u64 is_ending; /* a last thread handles the exit; two threads that end at once may both be the last */
	bpf_u64 is_oom_victim; /* the OOM killer chose it; valid once exit_ns is set */
	bpf_u64 ring_at_bytes; /* the doorbell rings once when current_bytes reaches this; 0: never */
	bpf_u64 user;	       /* index in user_slots, where its slot is counted */
	bpf_u64 tracebacks;    /* tracebacks of the image in the map; may be a few below 0 around an exec */
	bpf_u64 leaves;	       /* the same of leaves of pages */
	bpf_u64 sample_rate;   /* the rate in force, below SAMPLE_RATES; the loader sets it */
	bpf_u64 sample_rates_used; /* a bit for each rate but 0 that decided about a block */
	bpf_u64 sampler_image; /* its own sampler picks the heap blocks of this image (bpf/account/calls.bpf.h); 0: of none */
	bpf_u64 pages_image;   /* pages of this image are recorded, where not all processes' are (bpf/pages.bpf.c); 0: of none */
	bpf_u64 pages_bytes;   /* that events of pages brought; not in `counter`, as a source of blocks may take over */
	bpf_u64 python_memory; /* as `memory`: CPython's blocks there are recorded, and not the heap's; 0: of none */
	struct python_process python;
	bpf_u64 counter[COUNTER_NR];
	bpf_u64 loss[LOSS_NR];
};
_Static_assert(sizeof(struct process) == 8 * (40 + COUNTER_NR + LOSS_NR) + ARGS_BYTES + COMM_BYTES +
					 sizeof(struct python_process), "no padding");

/*
 * A pool takes its memory from a heap, a heap takes it from mappings. A block of one layer may begin at the
 * same address as a block of the next layer. A call inside a call of the same layer is internal to the
 * allocator. A call inside a call of a lower-numbered layer is recorded like any other.
 */
enum layer {
	LAYER_POOL = 0,
	LAYER_HEAP,
	LAYER_MAPPING,
	LAYER_NR,
};

struct block_key {
	bpf_u64 address;
	bpf_u64 image; /* the process image, with the layer in the top byte, which no image id reaches */
};
_Static_assert(sizeof(struct block_key) == 16, "no padding");

#define BLOCK_KEY_LAYER_SHIFT 56

static inline __attribute__((always_inline)) struct block_key
block_key_of(bpf_u64 address, bpf_u64 image, bpf_u32 layer)
{
	return (struct block_key){ address, image | (bpf_u64)layer << BLOCK_KEY_LAYER_SHIFT };
}

static inline __attribute__((always_inline)) bpf_u64 block_key_image(const struct block_key *key)
{
	return key->image & ((1ULL << BLOCK_KEY_LAYER_SHIFT) - 1);
}

static inline __attribute__((always_inline)) bpf_u32 block_key_layer(const struct block_key *key)
{
	return key->image >> BLOCK_KEY_LAYER_SHIFT;
}

/* Key of a word in the tree of mapping starts (bpf/account/starts.bpf.h). */
struct start_key {
	bpf_u64 image;
	bpf_u64 word; /* number of the word on its level, with the level in the top byte */
};
_Static_assert(sizeof(struct start_key) == 16, "no padding");

#define START_LEVEL_SHIFT 56
#define START_LEVELS 8 /* 6 bits each: with pages of 4 KiB they cover 2^60 bytes */

/* Block, key and the map's own fields are 104 bytes; the kernel adds 8, and its allocator takes 128. */
struct block {
	bpf_u64 size;	   /* requested bytes */
	bpf_u64 traceback; /* key in the map `tracebacks`; 0: none */
	bpf_u64 birth_ns;  /* CLOCK_MONOTONIC */
	bpf_u32 thread : 22; /* TID: below 2^22 */
	bpf_u32 rate : 2;    /* index of the sampling rate that chose it */
	bpf_u32 domain : 8;
	bpf_u32 epoch;	   /* at its birth; with a cut every 10 ms it overflows after 497 days */
	bpf_u64 weight;	   /* bytes that it stands for: a pool's, or from the process's own sampler; 0: not given */
};
_Static_assert(sizeof(struct block) == 40, "no padding");

/* A block without its weight, which is 0. */
#define YOUNG_BLOCK_WORDS 4

/* Identifies a block. Before a realloc returns, another thread may get the address that the realloc has freed. */
struct handed_key {
	struct block_key key;
	bpf_u64 birth_ns;
};
_Static_assert(sizeof(struct handed_key) == 24, "no padding");

/* A block that left while a snapshot that it belongs to was taken. */
struct handed_block {
	struct block block;
	bpf_u64 left; /* epoch when it left */
};
_Static_assert(sizeof(struct handed_block) == 48, "no padding");

/*
 * The slot of the map `free_filter` that counts a block. A free that finds 0 there frees a block that is in no
 * account. Several blocks may share a slot, even blocks of different processes.
 */
static inline __attribute__((always_inline)) bpf_u32 free_filter_slot(bpf_u64 address, bpf_u32 layer,
								  bpf_u64 mask)
{
	return ((address ^ (bpf_u64)layer << 60) * 0x9e3779b97f4a7c15ULL >> 32) & mask;
}

/*
 * The place of a young block (bpf/account/nursery.bpf.h). The hash of its key gives the place. When another block
 * needs the place, the block moves to the map `blocks`.
 */
struct nursery_place {
	bpf_u64 state; /* number of changes; the two lowest bits are enum nursery_is */
	bpf_u64 mapped; /* blocks in the map whose hash gives this place */
	struct block_key key;
	bpf_u64 block[YOUNG_BLOCK_WORDS]; /* a sample from the process's own sampler never lies here */
};
_Static_assert(sizeof(struct nursery_place) == 64, "a cache line");

static inline __attribute__((always_inline)) struct block nursery_block(const struct nursery_place *place)
{
	struct block block = {};

	__builtin_memcpy(&block, place->block, sizeof(place->block));
	return block;
}

enum nursery_is {
	NURSERY_EMPTY = 0,
	NURSERY_FULL,
	NURSERY_BUSY, /* a thread is changing the place, for less than a microsecond */
};

#define NURSERY_CHANGE 4ULL
#define NURSERY_IS(state) ((state) & (NURSERY_CHANGE - 1))
#define NURSERY_STATE(state, is) (((state) & ~(NURSERY_CHANGE - 1)) | (is))

static inline __attribute__((always_inline)) bpf_u32 nursery_slot(const struct block_key *key, bpf_u64 mask)
{
	return ((key->address ^ key->image << 36) * 0x9e3779b97f4a7c15ULL >> 32) & mask;
}

/* A block that a pending realloc holds, so no map has it. */
struct pending_block {
	struct block_key key;
	struct block block;
};
_Static_assert(sizeof(struct pending_block) == 56, "no padding");

#define TRACEBACK_LIMIT_MAX 127
#define TRACEBACK_LIMIT_DEFAULT 64

/* Totals of a traceback since the process image began, or since the loader last took the traceback out. */
struct churn {
	bpf_u64 allocations; /* blocks entered with this traceback */
	bpf_u64 allocated_bytes;
	bpf_u64 temporary; /* those blocks that were freed before their thread entered another block */
	bpf_u64 temporary_bytes;
};
_Static_assert(sizeof(struct churn) == 32, "no padding");

/* In by_tables: a source of blocks gave it, and it has a return address for each call that was inlined. */
#define TRACEBACK_IS_LOGICAL 2

/* Values of the map end after pc[traceback limit]. */
struct traceback {
	struct churn churn;
	bpf_u64 image;
	bpf_u32 nframe;	      /* frames in pc */
	bpf_u32 total_nframe; /* frames found, counted up to 512; of CPython up to 65,535 */
	bpf_u32 end;	      /* enum unwind_end; 0: stopped after 512 frames, or used frame pointers only */
	bpf_u32 by_tables;    /* unwind tables were used; TRACEBACK_IS_LOGICAL */
	bpf_u64 guessed[2];   /* bit i: a frame pointer gave pc[i], in code without a table */
	bpf_u64 exact[2];     /* bit i: pc[i] is not a return address: a signal interrupted there, or returns there */
	bpf_u64 pc[TRACEBACK_LIMIT_MAX]; /* return addresses, most recent call first */
};
_Static_assert(sizeof(struct traceback) == 88 + 8 * TRACEBACK_LIMIT_MAX, "no padding");

/* A thread that a return probe could end, as a walk over the threads of a process reports it to the loader. */
struct risky_thread {
	bpf_u32 tid;
	bpf_u32 is_intercepted; /* account/intercepted.bpf.h; 0: it has an alternate signal stack */
};
_Static_assert(sizeof(struct risky_thread) == 8, "no padding");

/* The account that the loader asks a program to change. A slot keeps its process; a PID may have been reused. */
struct process_request {
	bpf_u64 slot;
};
_Static_assert(sizeof(struct process_request) == 8, "no padding");

/* A victim of the OOM killer and its memory cgroup. A listing of all processes and their cgroups uses it, too. */
struct oom_kill {
	bpf_u64 tgid;
	bpf_u64 group;
};
_Static_assert(sizeof(struct oom_kill) == 16, "no padding");

#define OOM_KILLS 32 /* a power of two; the most kills that the loader can read at once */

/* How to find callers. */
enum unwinder {
	UNWINDER_AUTO = 0, /* by unwind tables; by frame pointers in code that has none */
	UNWINDER_DWARF,	   /* by unwind tables only */
	UNWINDER_FP,	   /* by frame pointers only */
};

/* The frames of blocks in the domain python. */
enum python_frames {
	PYTHON_FRAMES_PYTHON = 0, /* of the interpreter, as tracemalloc has them */
	PYTHON_FRAMES_MIXED,	  /* of C code, with the interpreter's where C code runs it */
	PYTHON_FRAMES_NATIVE,	  /* of C code */
};

/* Rate 0 is what the user chose: every block, or --sample. The others are for budgets (src/collect/budget/budget.h). */
#define SAMPLE_RATES 4

/* The loader sets these before it loads the programs. */
struct settings {
	bpf_u64 traceback_limit;
	bpf_u64 hash_seed; /* random, so that no target can prepare two stacks with the same hash */
	bpf_u64 unwinder;  /* enum unwinder */
	bpf_u64 max_map_count; /* vm.max_map_count: the most mappings of a process */
	bpf_u64 page_mask;     /* of an address: the bits within one of the kernel's pages */
	/* Mean distance of samples by rate, at most SAMPLE_BYTES_MAX; 0: every block. All are 0 without sampling. */
	bpf_u64 sample_bytes[SAMPLE_RATES];
	bpf_u64 min_size;      /* smaller blocks are not recorded */
	bpf_u64 max_size;      /* larger blocks are not recorded; 0: no limit */
	bpf_u64 free_filter_mask;  /* entries of the map `free_filter` - 1 */
	bpf_u64 nursery_mask;  /* entries of the map `nursery` - 1; 0: no nursery */
	/* The verifier takes branches out that a recording does not need. */
	bpf_u64 has_mappings;  /* the domain mmap is recorded */
	bpf_u64 has_user_calls;    /* allocators of --probe are recorded */
	bpf_u64 has_python;    /* the domain python may be recorded */
	bpf_u64 has_pools;     /* its small blocks by pools, which are samples */
	bpf_u64 python_frames; /* enum python_frames */
	bpf_u64 has_own_links; /* a probe may have a process's own link beside the shared one */
};
_Static_assert(sizeof(struct settings) == 152, "no padding");

#define SAMPLE_BYTES_MAX (1ULL << 36)

/*
 * Tables of two functions for sampling, without floating point. src/collect/recording/load.c fills them in. The
 * programs interpolate linearly between two entries.
 */
#define LOG_RATIO_STEPS 256 /* for x from 0 to 1/2 */
#define LOG_RATIO_SHIFT 30
#define EXCESS_STEPS_SHIFT 7 /* 128 steps for 1 */
#define EXCESS_END 16	     /* the function is 0 from here on */
#define EXCESS_STEPS (EXCESS_END << EXCESS_STEPS_SHIFT)
#define EXCESS_SHIFT 24

struct sample_tables {
	bpf_u32 log_ratio[LOG_RATIO_STEPS + 2]; /* -log(1 - x) / x */
	bpf_u32 excess[EXCESS_STEPS + 2];       /* x / (exp(x) - 1) */
};

#endif
