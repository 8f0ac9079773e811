/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_H
#define ALLOCSNAP_COLLECT_H

/*
 * Recording live processes (liballocsnap-collect): the half of tracemalloc's module that works on a
 * running program. Where Python's functions speak of their own process, these name one by its PID.
 *
 *	tracemalloc                  here
 *	start(nframe)                collector__open(), collector__start() or collector__run()
 *	stop()                       collector__stop()
 *	is_tracing()                 collector__is_tracing()
 *	take_snapshot()              collector__take_snapshot()
 *	clear_traces()               collector__clear_traces()
 *	reset_peak()                 collector__reset_peak()
 *	get_traced_memory()          collector__get_traced_memory()
 *	get_traceback_limit()        collector__get_traceback_limit()
 *	get_object_traceback()       collector__get_object_traceback()
 *	get_tracemalloc_memory()     collector__get_tracemalloc_memory()
 *
 * As there (CPython 3.11, Lib/tracemalloc.py and Modules/_tracemalloc.c): after stop and clear
 * the traced memory is (0, 0), frees of blocks that were cleared change nothing, to start twice is
 * to start once, and to take a snapshot without tracing fails with tracemalloc's sentence.
 * Otherwise than there the traceback limit is 64 unless another is asked for, and a process that
 * has ended is traced until it is stopped: its last snapshot is to be had till then.
 *
 *	collector = collector__open(&options, &why);
 *	err = collector__start(collector, pid, &why);
 *	while (…) {
 *		poll(collector__event_fd(collector), a second at most)
 *		collector__refresh(collector);
 *		err = collector__take_snapshot(collector, pid, &snapshot, &why);
 *	}
 *	collector__close(collector);
 *
 * What is asked of a snapshot then is in allocsnap.h; tests/example/heapwatch.c has all of this.
 *
 * Everything in the kernel belongs to descriptors of this process and of a child of it that keeps the
 * probes: when this one ends, in whatever way, so does that, and nothing stays behind. Root is needed (or
 * CAP_BPF, CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_CHECKPOINT_RESTORE, to open it CAP_PERFMON, and on
 * kernels before 6.10 CAP_SYS_ADMIN), and the pid namespace of the machine. Not for several threads at once. Of the
 * whole program it raises the limit of open files and silences libbpf. It has two child processes, forked
 * when it is opened: the one that keeps the probes, and one that reads ELF files without privileges: open
 * it before there are threads.
 * Functions that return int return 0 or a negative errno, with a line in *why that says what to
 * do; outputs are untouched then. Where a pid is not traced, that is -ESRCH.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct reason;
struct snapshot;
struct snapshot_batch;

#define COLLECTOR_TRACEBACK_LIMIT_MAX 127
#define COLLECTOR_SAMPLE_BYTES_MOST (1ULL << 36)
#define COLLECTOR_MAX_OVERHEAD_MOST 10000u /* percent */
#define COLLECTOR_MAX_BLOCKS_MOST (1u << 27) /* the kernel's limit of a hash map (htab_map_alloc()) */

/* How callers are found. */
enum collector_unwinder {
	COLLECTOR_UNWIND_AUTO = 0, /* by unwind tables; in code that has none by frame pointers */
	COLLECTOR_UNWIND_DWARF,	   /* by unwind tables only */
	COLLECTOR_UNWIND_FP,	   /* by frame pointers only */
};

/* Whose blocks are recorded: bits. */
enum collector_domains {
	COLLECTOR_MALLOC = 1, /* all heaps */
	COLLECTOR_MMAP = 2,   /* mmap, munmap, mremap, also those that a heap makes */
	COLLECTOR_GLIBC = 4,  /* of the heaps this one only, as are the next */
	COLLECTOR_MUSL = 8,
	COLLECTOR_JEMALLOC = 16,
	COLLECTOR_TCMALLOC = 32,
	COLLECTOR_MIMALLOC = 64,
};

/* What of a process a rule looks at, as /proc has it. */
enum admission_key {
	ADMISSION_COMM = 0, /* its name */
	ADMISSION_EXE,	    /* the path of the program that it runs */
	ADMISSION_CGROUP,   /* its path in the unified hierarchy: /user.slice/… */
	ADMISSION_UID,	    /* its effective user: a name or a number */
	ADMISSION_PID,
};

#define ADMISSION_RULES_MOST 64
#define ADMISSION_PATTERN_MOST 255 /* bytes */

/* The first three are patterns: * is any text, slashes included, ? any byte. */
struct admission_rule {
	enum admission_key key;
	bool excludes;
	const char *pattern;
};

/* Whether it can be meant: 0, or -EINVAL with a line in *why. */
int admission_rule_check(const struct admission_rule *rule, struct reason *why);

/* Zero is the default. */
struct collector_options {
	uint32_t domains;	  /* enum collector_domains; COLLECTOR_MALLOC */
	enum collector_unwinder unwinder;
	uint32_t traceback_limit; /* frames, COLLECTOR_TRACEBACK_LIMIT_MAX at most; 64 */
	uint32_t max_blocks;	  /* live blocks, of all processes together; 4,194,304 */
	uint32_t max_tracebacks;  /* distinct tracebacks; 262,144 */

	/*
	 * Bytes that the kernel's maps may take, all of them full, in place of the two above; beside it
	 * the kernel has 6 KiB of each thread. -ERANGE where that is too little.
	 */
	uint64_t max_memory;

	/*
	 * Which blocks are recorded. Of samples each byte that a thread allocates is as likely to be one
	 * as any other, this far apart in the mean; a block that has one is recorded and stands for many
	 * (struct snap_trace, weight). What is counted are estimates then, the traced memory too, and
	 * frees of unknown blocks are not. Mappings (COLLECTOR_MMAP) are all recorded.
	 */
	uint64_t sample_bytes; /* COLLECTOR_SAMPLE_BYTES_MOST at most; every block */
	uint64_t min_size, max_size; /* sizes asked for, mappings' too; no limit */

	/*
	 * Processes that a traced one forks are traced too, from their first allocation on, each
	 * with books of its own. Probes are then in the files for everybody: every process of the
	 * machine that uses the same allocator pays for a trap, though only who is traced is recorded.
	 */
	bool follow_forks;

	/*
	 * Every process is traced that the rules admit, now and later, from its first allocation on: for
	 * each key that has rules that include one of them holds, and no rule that excludes does. Without
	 * rules that is every process of the machine, but never ourselves. collector__admit() is due
	 * at the start and now and then; nobody need be started or stopped. Probes are as with follow_forks;
	 * the allocators that new programs will use are probed from the start, and a note names each.
	 */
	bool everyone;
	const struct admission_rule *rule; /* ADMISSION_RULES_MOST at most; may go when the collector is open */
	size_t rule_nr;
	uint64_t min_bytes; /* of everyone: who ends sooner than it was drained, with a lower peak, is forgotten */

	/*
	 * Percent of a program's own CPU time that recording it may add, COLLECTOR_MAX_OVERHEAD_MOST at
	 * most; 0: whatever it takes. The
	 * recording pauses to keep to that, and the snapshots have the gaps: then
	 * collector__event_fd() becomes readable often, and collector__refresh() is due at once. With
	 * follow_forks it is of all processes together.
	 */
	uint32_t max_overhead;

	/*
	 * Nobody is asked what functions and lines are called: frames are places in files, with their
	 * build-ids, and `allocsnap symbolize` names them later.
	 */
	bool no_names;

	/*
	 * Calls are seen to return by probes on `ret` instructions, each single-stepped, and never by return
	 * probes, which change the return address on the stack: the process's own backtraces, its core
	 * dumps, profilers in it and tracers of its system calls do not notice the recording then.
	 */
	bool no_return_probes;

	bool on_oom; /* the OOM killer is watched: struct process_view, is_near_oom */

	/*
	 * Allocators of the programs' own, each told in a line as --probe takes it:
	 * "name=NAME,object=FILE,alloc=SYM(size=N),free=SYM(ptr=N)". Their blocks are in domains
	 * from 16 on, in this order. The strings may go when the collector is open.
	 */
	const char *const *probe;
	size_t probe_nr;
};

struct collector;

/* options may be NULL. NULL and errno: EPERM no privilege, ENOTSUP no BTF, EINVAL… */
struct collector *collector__open(const struct collector_options *options, struct reason *why);

/* Stops all, forgets. NULL is allowed. */
void collector__close(struct collector *collector);

/* ---- tracemalloc ---- */

/*
 * Traces the process that a PID or TID belongs to; one that is traced already is left as it is.
 * -ESRCH no such process, -ENOENT no allocator function, or none of one of options.probe, found in
 * the files that it maps, -EEXIST the pid is
 * still traced for a process that has ended…
 */
int collector__start(struct collector *collector, pid_t id, struct reason *why);

/*
 * Starts a program and traces it from the C library's first allocation on. argv ends with NULL.
 * *ret_pid is set as soon as it runs, also where tracing it failed: it is the caller's child, to be
 * waited for. Errors as above, and those of exec.
 */
int collector__run(struct collector *collector, const char *const argv[], pid_t *ret_pid,
		   struct reason *why);

/*
 * Takes its probes away (those for everybody with the last process) and forgets its traces; nothing
 * where it is not traced. Children that were followed go on.
 */
void collector__stop(struct collector *collector, pid_t pid);

bool collector__is_tracing(const struct collector *collector, pid_t pid);

/*
 * All live blocks of the process, in memory; the caller closes it with snapshot__close()
 * (snapshot.h). -ESRCH with tracemalloc's sentence where it is not traced.
 */
int collector__take_snapshot(struct collector *collector, pid_t pid, struct snapshot **ret,
			     struct reason *why);

/*
 * Its books begin anew, empty, at one instant; frees of blocks of before are unknown ones. What
 * clear and stop leave in the kernel's maps goes with the next drain or snapshot: a program that
 * takes none must drain now and then. -ESRCH also where it has ended: its last snapshot is to
 * be had until it is stopped.
 */
int collector__clear_traces(struct collector *collector, pid_t pid);

/*
 * The same for all processes that have not ended. Each of the two waits once for the programs that run in the
 * kernel, some milliseconds; what processes do meanwhile is of before.
 */
int collector__clear_all_traces(struct collector *collector);

/* The peak is what is live now. -ESRCH also where it has ended. */
int collector__reset_peak(struct collector *collector, pid_t pid);

struct traced_memory {
	uint64_t current_bytes, peak_bytes;
	uint64_t current_blocks, peak_blocks;
};

/* Zeros where it is not traced, as in tracemalloc: no error. */
void collector__get_traced_memory(const struct collector *collector, pid_t pid,
				  struct traced_memory *ret);

/* Frames at most. */
uint32_t collector__get_traceback_limit(const struct collector *collector);

/*
 * Where a block was allocated: a snapshot with this one trace, and without churn. -ENOENT where no
 * traced block begins at the address (tracemalloc's None). Looks at all processes first: for many
 * addresses take a snapshot.
 */
int collector__get_object_traceback(struct collector *collector, pid_t pid, uint64_t address,
				    struct snapshot **ret, struct reason *why);

/*
 * Bytes that the kernel's maps take for all that is traced. Before kernel 6.4, which does not tell,
 * what they could take.
 */
uint64_t collector__get_tracemalloc_memory(const struct collector *collector);

/* ---- what a recorder needs besides ---- */

/* How many processes are traced; view i is of the ith, in no order that lasts. */
size_t collector__process_nr(const struct collector *collector);

struct process_view {
	pid_t pid;
	pid_t parent; /* whose fork it was followed from; 0: it was started by the caller */
	const char *comm; /* until the next refresh */
	uint32_t user; /* whose it is: the same number for all processes of a user, less than 1024; users may share one */
	bool has_ended;
	bool is_drained; /* the last drain has it; else it came later, and there is nothing to save */
	bool is_final; /* the last drain was after its end */
	bool is_oom_victim; /* it has ended, and the OOM killer had chosen it */
	bool is_vforked; /* it runs in its parent's memory and has nothing of its own yet */
	struct traced_memory memory;
	uint64_t last_bytes; /* that the last snapshot written has; 0: there is none, or exec came */
	uint64_t most_bytes; /* that any of them has */
	bool is_near_oom; /* the OOM killer chose somebody in its memory cgroup, after the last of them */
	uint64_t allocations;
	uint64_t lost; /* the kernel's losses, all together */
	uint64_t cpu_ns;  /* CPU time, user and system, since the recording of it began */
	uint64_t cost_ns; /* of that, what recording took, by estimate */
	bool cost_is_known; /* it could be measured on ourselves what a probe costs */
	bool is_paused;	    /* to keep to the budget: nothing is recorded just now */
	bool is_estimated;  /* memory and allocations are estimates: samples are recorded */
	bool is_unsaved;    /* the last drain has it, and collector__save_view() was not called since */
	bool was_saved;	    /* there is a snapshot of it */
	bool is_empty;	    /* of everyone: a child that has nothing, and had less than min_bytes */
};

void collector__view(const struct collector *collector, size_t i, struct process_view *ret);

/*
 * Whether its probes are perf events, which take CAP_SYS_ADMIN each: the kernel has no links of many.
 * Elsewhere CAP_PERFMON and CAP_SYS_ADMIN can be given up once it is open.
 */
bool collector__has_events(const struct collector *collector);

/* Becomes readable when a process has ended, forked or called exec: time to refresh. */
int collector__event_fd(const struct collector *collector);

/*
 * Whether another process has killed a child of ours that recording needs, which a note says. Without the
 * one that keeps the probes nothing is recorded any more: each snapshot says so, as a gap. Without the one that
 * starts the readers of files no other file can be probed or named. Only another collector can record then.
 */
bool collector__is_blind(const struct collector *collector);

/*
 * Sees what has happened: children, execs, ends, allocators that have come. Once a second at
 * least. What cannot be had is counted in the snapshots.
 */
void collector__refresh(struct collector *collector);

/*
 * fn(what) is called between processes while something takes long. It returns whether a signal or something
 * else is waiting: then what can be done later is done later.
 */
void collector__set_between(struct collector *collector, bool (*fn)(void *what), void *what);

/*
 * Lets collector__event_fd() become readable when what is live in process i has risen to so many
 * bytes, once; 0: never. That is looked at where a block enters, so it is known within milliseconds.
 * Returns whether it has already: then nobody may ring.
 */
bool collector__ring_at(struct collector *collector, size_t i, uint64_t bytes);

/*
 * Reads the books of all processes, once for as many collector__save() as there are processes. The
 * snapshots are of this moment.
 */
int collector__drain(struct collector *collector, struct reason *why);

/* Of a snapshot that is written. Zero is the default, but for dir. */
struct save_options {
	const char *dir;
	const char *trigger; /* why it was taken: its metadata "trigger"; NULL: not said */
	bool is_compact; /* without addresses and threads, births to the second (snapshot.h), and compressed */
	const char *const *label; /* each NAME=VALUE: its metadata "label.NAME" */
	size_t label_nr;
	struct snapshot_batch *batch; /* not NULL: it is the caller's to publish; the tag is the PID */
};

/*
 * Writes the snapshot of a process as DIR/HOST/COMM.PID/TIME.snap (folders are made, mode
 * 0700). The caller frees *ret_path; with a batch it is NULL.
 */
int collector__save(struct collector *collector, pid_t pid, const struct save_options *options,
		    char **ret_path, struct reason *why);

/* ---- where everybody is recorded ---- */

/*
 * Begins to trace who is admitted and not traced yet: who was there before, and who has come to be
 * admitted otherwise than by fork and exec. How many those are, or a negative errno. Nothing without
 * options.everyone.
 */
int collector__admit(struct collector *collector, struct reason *why);

/*
 * As collector__save(), of view i: a pid can be given out again before an end was drained. Nothing, *ret_path NULL,
 * where it has called exec since, which its next snapshots count.
 */
int collector__save_view(struct collector *collector, size_t i, const struct save_options *options,
			 char **ret_path, struct reason *why);

/* A snapshot of it, which was in a batch, could not be written: its next ones say so. */
void collector__note_unsaved(struct collector *collector, pid_t pid);

/* For one that had ended when it was drained: its slot is for others at once. View i is another one then. */
void collector__forget_view(struct collector *collector, size_t i);

/*
 * After a drain and what was to be saved of it: forgets the processes that had ended by then, but for those that have a
 * last snapshot to come; the next drain has them again. Meanwhile it forgets none that the drain has.
 */
void collector__end_pass(struct collector *collector);

/* Of the whole recording. Numbers of processes and traps are since it began. */
struct collector_health {
	uint64_t processes;	    /* traced now, ended ones included */
	uint64_t processes_waiting; /* of these, ended: the next drain is due for them */
	uint64_t processes_small;   /* that ended with less than min_bytes, and left nothing */
	uint64_t processes_unprobed; /* that ended before their allocator was probed, and left nothing */
	uint64_t processes_dropped; /* that should have been traced: there was no room; of those that wait, at the last look */
	uint64_t processes_ever_dropped; /* the same, those that have been let in since included */
	uint64_t processes_all;	    /* ever, those that left nothing included */
	uint64_t allocations, frees; /* of all of them, as are the next; of a program that called exec, as of the last look */
	uint64_t cpu_ns, cost_ns;
	uint64_t bystander_traps;   /* probes hit by processes that are not traced; by kind: */
	uint64_t bystander_entry_traps, bystander_stepped_traps, bystander_return_traps;
	uint64_t bystander_cost_ns; /* what that has cost these, by estimate; 0: not known */
	bool is_drain_due; /* room runs out for what has ended: the next drain should not be waited for */
};

void collector__get_health(const struct collector *collector, struct collector_health *ret);

struct collector_loss {
	const char *name; /* as in snapshots */
	uint64_t value;
};

/*
 * Losses of all processes since the recording began: those that are not 0, max at most. How many. What is
 * found when a snapshot is made is in them from then on, by its growth since the process's last one.
 */
size_t collector__get_losses(const struct collector *collector, struct collector_loss *ret, size_t max);

/*
 * What was decided while recording and should be told: a line that the caller frees, or NULL.
 * Where return probes could end a process, it is recorded without them.
 */
char *collector__next_note(struct collector *collector);

#ifdef __cplusplus
}
#endif

#endif
