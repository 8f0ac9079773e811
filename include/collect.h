/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_H
#define ALLOCSNAP_COLLECT_H

/*
 * liballocsnap-collect records live processes: the half of tracemalloc's module that works on a running program.
 * Python's functions act on their own process; these functions take the PID of a process.
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
 * As in CPython 3.11 (Lib/tracemalloc.py and Modules/_tracemalloc.c): after stop and clear the traced memory is (0, 0);
 * frees of cleared blocks change nothing; a second start changes nothing; taking a snapshot without tracing fails with
 * tracemalloc's message. Unlike there, the default traceback limit is 64. An ended process is traced until it is
 * stopped; until then its last snapshot can be taken.
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
 * allocsnap.h has the functions for snapshots. tests/example/heapwatch.c is a complete example.
 *
 * Everything in the kernel belongs to descriptors of this process and of a child process that keeps the probes. When
 * this process ends, in any way, the child ends, too, and nothing stays behind.
 *
 * A collector needs root, or CAP_BPF, CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_CHECKPOINT_RESTORE, CAP_PERFMON to open
 * it, and CAP_SYS_ADMIN on kernels before 6.10. It also needs the PID namespace of the machine. Only one thread at a
 * time may use it. It changes the whole program: it raises the limit of open files and silences libbpf. At open it
 * forks two child processes: one keeps the probes, the other reads ELF files without privileges. So open it before
 * the program starts threads.
 *
 * Functions that return int return 0 or a negative errno, with a line in *why that says what to do; outputs are
 * untouched then. A PID that is not traced gives -ESRCH.
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
#define COLLECTOR_PYTHON_SMALL_MAX 512 /* bytes of a block in CPython's pools; larger ones are the C library's */
#define COLLECTOR_SAMPLE_BYTES_MOST (1ULL << 36)
#define COLLECTOR_MAX_OVERHEAD_MOST 10000u /* percent */
#define COLLECTOR_PAGES_OVERHEAD 10 /* percent: see unseen_pages */
#define COLLECTOR_MAX_BLOCKS_MOST (1u << 27) /* the kernel's limit of a hash map (htab_map_alloc()) */

/* How to find callers. */
enum collector_unwinder {
	COLLECTOR_UNWIND_AUTO = 0, /* by unwind tables; by frame pointers in code without tables */
	COLLECTOR_UNWIND_DWARF,	   /* by unwind tables only */
	COLLECTOR_UNWIND_FP,	   /* by frame pointers only */
};

/* The frames in tracebacks of CPython's blocks. */
enum collector_python_frames {
	COLLECTOR_FRAMES_PYTHON = 0, /* Python code's, as in tracemalloc */
	COLLECTOR_FRAMES_MIXED,	     /* C code's, with Python code's where C code runs it; CPython 3.11 or later */
	COLLECTOR_FRAMES_NATIVE,     /* C code's */
};

/* The allocators to record: bits. */
enum collector_domains {
	COLLECTOR_MALLOC = 1, /* all heaps */
	COLLECTOR_MMAP = 2,   /* mmap, munmap, mremap, even if a heap calls them */
	COLLECTOR_GLIBC = 4,  /* this bit and the next ones choose single heaps */
	COLLECTOR_MUSL = 8,
	COLLECTOR_JEMALLOC = 16,
	COLLECTOR_TCMALLOC = 32,
	COLLECTOR_MIMALLOC = 64,
	COLLECTOR_PYTHON = 128, /* CPython's objects, with Python tracebacks, instead of the heaps of such a process */
	COLLECTOR_GO = 256, /* the heap of Go's runtime, as its own profile has it, beside the heap of C code */
	COLLECTOR_JAVA = 1024,	/* samples of the objects of a Java virtual machine, by an agent that it loads */
	COLLECTOR_PAGES = 4096, /* resident memory, by the page faults that brought it: of any program, and without the others */
};

/* The property of a process that a rule tests, as /proc shows it. */
enum admission_key {
	ADMISSION_COMM = 0, /* the name */
	ADMISSION_EXE,	    /* the path of the running program */
	ADMISSION_CGROUP,   /* the path in the unified hierarchy: /user.slice/… */
	ADMISSION_UID,	    /* the effective user: a name or a number */
	ADMISSION_PID,
};

#define ADMISSION_RULES_MOST 64
#define ADMISSION_PATTERN_MOST 255 /* bytes */

/* The first three keys take a pattern: * is any text, slashes included; ? is any byte. */
struct admission_rule {
	enum admission_key key;
	bool excludes;
	const char *pattern;
};

/* Checks whether a rule makes sense. Returns 0, or -EINVAL with a line in *why. */
int admission_rule_check(const struct admission_rule *rule, struct reason *why);

/* Zero is the default, which the comments give last. */
struct collector_options {
	/*
	 * enum collector_domains. 0 chooses: COLLECTOR_PYTHON if the program runs CPython, its objects can be recorded,
	 * and no option forbids it; else COLLECTOR_MALLOC. For a Python a note says which one it is. COLLECTOR_GO beside both.
	 */
	uint32_t domains;
	enum collector_unwinder unwinder;
	uint32_t traceback_limit; /* frames, at most COLLECTOR_TRACEBACK_LIMIT_MAX; 64 */
	uint32_t max_blocks;	  /* live blocks of all processes together; 4,194,304 */
	uint32_t max_tracebacks;  /* distinct tracebacks; 262,144 */

	/*
	 * Bytes that the kernel's maps may take when all are full, instead of the two limits above. In addition the
	 * kernel uses 6 KiB for each thread. -ERANGE if the value is too small.
	 */
	uint64_t max_memory;

	/*
	 * The blocks to record. With sample_bytes each allocated byte of a thread is a sample with the same
	 * probability, and samples are this many bytes apart on average. A block with a sample is recorded and
	 * stands for many (struct snap_trace, weight). Counters and the traced memory are estimates then, and
	 * frees of unknown blocks are not counted. All mappings (COLLECTOR_MMAP) are recorded.
	 */
	uint64_t sample_bytes; /* at most COLLECTOR_SAMPLE_BYTES_MOST; every block */
	uint64_t min_size, max_size; /* limits of the requested size, for mappings, too; no limit */

	/*
	 * Records every block by probes on malloc, also in a process that takes samples of its own heap and reports
	 * them (USDT probes of provider otel_memory). Without this its samples are recorded, and nothing else of its
	 * heap: sums are estimates then, as with sample_bytes, which does not apply to it.
	 */
	bool no_sampler;

	/*
	 * With allocsnap's own sampler in the process: how many samples a second it may take. If there are more, their
	 * distance grows, and shrinks again, down to the one that it was started with; 1,000.
	 */
	uint32_t sampler_rate;

	/*
	 * Traces the children of a traced process, too, from their first allocation on, each with its own account. The
	 * probes then apply to all users of a file: every process of the machine that uses the same allocator pays
	 * for a trap, although only traced processes are recorded.
	 */
	bool follow_forks;

	/*
	 * System-wide recording: traces every process that the rules admit, now and later, from its first
	 * allocation on. The rules admit a process if for each key with including rules at least one of them holds,
	 * and if no excluding rule holds. Without rules this is every process of the machine except the recorder
	 * itself. Call collector__admit() at the start and from time to time; starting and stopping processes is
	 * not necessary. Probes are as with follow_forks. The allocators that new programs will use are probed from
	 * the start, and a note names each of them.
	 */
	bool system_wide;
	const struct admission_rule *rule; /* at most ADMISSION_RULES_MOST; only needed until open returns */
	size_t rule_nr;
	uint64_t min_bytes; /* system-wide: forget a process with a lower peak if it ends before a drain has it */

	/*
	 * Percent of a process's own CPU time that recording it may take, at most COLLECTOR_MAX_OVERHEAD_MOST; 0: no limit.
	 * Its CPU time counts as a tenth of a core at least, and as one core or its control group's quota at most.
	 * To stay within the limit the recording samples (struct process_view, is_estimated), and pauses if samples
	 * cost too much, too; the snapshots have the gaps. With a limit collector__event_fd() becomes readable often;
	 * call collector__refresh() then. With follow_forks all pause together, and share this limit for each core.
	 */
	uint32_t max_overhead;

	/*
	 * Does not look up names of functions and lines: frames are places in files, with build-ids, and
	 * `allocsnap symbolize` names them later.
	 */
	bool no_names;

	/*
	 * Uses single-stepped probes on `ret` instructions instead of return probes. Return probes change the return
	 * address on the stack. Without them backtraces of the process itself, its core dumps, profilers in it and
	 * tracers of its system calls do not notice the recording.
	 */
	bool no_return_probes;

	/* An object in memory of a free list gets its own traceback if the file shows where objects begin; retag insists. */
	bool python_retag, python_no_retag;
	/* With COLLECTOR_PYTHON: of blocks of up to COLLECTOR_PYTHON_SMALL_MAX the pools for them, as samples: sums are estimates. */
	bool python_pools;
	/* With COLLECTOR_PYTHON, as the two before: if no domain is named, each of them stands for it. */
	enum collector_python_frames python_frames; /* mixed: not with COLLECTOR_UNWIND_FP */

	/*
	 * Also records the pages, one in eight, of each process that nothing else sees: no file that it maps has a heap that
	 * could be probed, and no other source is for it. Without effect beside options that COLLECTOR_PAGES excludes. But its cost
	 * is 3 to 14 % while a process grows, and is not measured: max_overhead may be COLLECTOR_PAGES_OVERHEAD or more.
	 */
	bool unseen_pages;

	/* Switches on the heap profile of a running Go program that was linked without it (docs/go.md), or refuses to. */
	bool go_profile;

	/* With COLLECTOR_JAVA: the virtual machine collects its whole heap in each pass, and the program stands still meanwhile. */
	bool java_collects;

	bool on_oom; /* watch the OOM killer: is_near_oom of struct process_view */

	/*
	 * User allocators of the programs, each described in a line as for --probe:
	 * "name=NAME,object=FILE,alloc=SYM(size=N),free=SYM(ptr=N)". Their blocks get the domains from 16 on, in
	 * this order. The strings are only needed until open returns.
	 */
	const char *const *probe;
	size_t probe_nr;

	/*
	 * collector__run() starts programs as this user, a name or a number, with the user's groups, HOME, USER,
	 * LOGNAME and SHELL. NULL: our own user.
	 */
	const char *run_user;

	/*
	 * The caller has put liballocsnap-sampler.so into LD_PRELOAD, with this interval: collector__run() refuses
	 * programs that would not load it (-ENOTSUP), and fails if the program has not loaded it. 0: it has not.
	 */
	uint64_t run_interval_bytes;

	/*
	 * collector__run() records every block, in the program itself. Needs injects. A program that runs CPython, if the domain
	 * python is chosen or none is: by functions in front of its allocators (COLLECTOR_INJECT_EXACT), from the begin of its
	 * Python on. Any other program, if the domain malloc is chosen or none is: its heap, by liballocsnap-exact.so, which the
	 * caller has put into LD_PRELOAD. If only python is chosen, a program that runs no CPython is let run, and not recorded, until it
	 * has become one that does (exec), if it can; else it is not started: -ENOTSUP.
	 */
	bool run_exact;

	bool injects; /* collector__inject() will be called: the process that keeps the probes retains the privileges to eject */
};

struct collector;

/* options may be NULL. Returns NULL on failure, with errno: EPERM no privilege, ENOTSUP no BTF, EINVAL… */
struct collector *collector__open(const struct collector_options *options, struct reason *why);

/* Stops all tracing and frees the collector. NULL is allowed. */
void collector__close(struct collector *collector);

/* The version of the libbpf in use: "v1.1". */
const char *collector__libbpf_version(void);

/* ---- tracemalloc ---- */

/*
 * Traces the process that a PID or TID belongs to. If the process is traced already, nothing changes. Errors: -ESRCH no
 * such process; -ENOENT the files that it maps have no allocator function, or no function of one of options.probe;
 * -EEXIST the PID is still traced for an ended process…
 */
int collector__start(struct collector *collector, pid_t id, struct reason *why);

/*
 * Puts a sampler into a process that runs, before collector__start() of it; its samples are then recorded, and no other
 * blocks of its heap. Samples lie sample_bytes apart on average; 0: 512 KiB. Its threads are stopped for some
 * milliseconds. The sampler goes with collector__eject(), collector__close(), and when the caller ends, for whatever
 * reason. Needs options.injects. On an error nothing has changed in the process: -ENOTSUP (refused), -EAGAIN (refused
 * now), -EEXIST (it has a sampler), -EPERM, -ESRCH…
 *
 * COLLECTOR_INJECT_EXACT in place of sample_bytes: functions in front of the allocators of its CPython, which enter every
 * block. Nothing in the process is probed then. The domain is python.
 */
#define COLLECTOR_INJECT_EXACT UINT64_MAX
int collector__inject(struct collector *collector, pid_t pid, uint64_t sample_bytes, struct reason *why);

/* Stops tracing the processes with such samplers, and takes these out. Returns how many keep some; notes say what. */
size_t collector__eject(struct collector *collector);

/*
 * Starts a program and traces it from the C library's first allocation on. argv ends with NULL. *ret_pid is set as soon
 * as the program runs, even if tracing it fails: it is a child of the caller, which must wait for it. It is -1 if
 * the program could not be executed: the error is then exec's. Other errors as above. Of a launcher (env, nice and
 * the like) the program that it becomes is traced; -ECHILD: it has ended without becoming one.
 */
int collector__run(struct collector *collector, const char *const argv[], pid_t *ret_pid,
		   struct reason *why);

/*
 * Removes the probes of the process (probes that apply to all processes go with the last traced one) and forgets its
 * traces. Does nothing if the process is not traced. Its followed children stay traced.
 */
void collector__stop(struct collector *collector, pid_t pid);

bool collector__is_tracing(const struct collector *collector, pid_t pid);

/*
 * Takes a snapshot of all live blocks of the process, in memory. The caller closes it with snapshot__close()
 * (snapshot.h). -ESRCH with tracemalloc's message if the process is not traced.
 */
int collector__take_snapshot(struct collector *collector, pid_t pid, struct snapshot **ret,
			     struct reason *why);

/*
 * Empties the account of the process at one instant. Frees of older blocks are unknown frees then. Old blocks that clear
 * and stop leave in the kernel's maps go with the next drain or snapshot. A program that takes no snapshots must drain
 * from time to time. -ESRCH also if the process has ended: its last snapshot can be taken until it is stopped.
 */
int collector__clear_traces(struct collector *collector, pid_t pid);

/*
 * The same for all processes that have not ended. Both functions wait once for the running BPF programs, for some
 * milliseconds. Events of the processes during the wait are cleared, too.
 */
int collector__clear_all_traces(struct collector *collector);

/* Sets the peak to the memory that is live now. -ESRCH also if the process has ended. */
int collector__reset_peak(struct collector *collector, pid_t pid);

struct traced_memory {
	uint64_t current_bytes, peak_bytes;
	uint64_t current_blocks, peak_blocks;
};

/* Zeros if the process is not traced, as in tracemalloc; this is no error. */
void collector__get_traced_memory(const struct collector *collector, pid_t pid,
				  struct traced_memory *ret);

/* The most frames of a traceback. */
uint32_t collector__get_traceback_limit(const struct collector *collector);

/*
 * Finds where a block was allocated: a snapshot with this one trace, without churn. -ENOENT if no traced block begins
 * at the address (tracemalloc's None). Each call first updates all processes, so take a snapshot for many addresses.
 */
int collector__get_object_traceback(struct collector *collector, pid_t pid, uint64_t address,
				    struct snapshot **ret, struct reason *why);

/*
 * Bytes that the kernel's maps take for all traced processes. Kernels before 6.4 do not report it; there it is the most
 * that the maps can take.
 */
uint64_t collector__get_tracemalloc_memory(const struct collector *collector);

/* ---- further functions for a recorder ---- */

/* The number of traced processes. View i is for process i; the order may change. */
size_t collector__process_nr(const struct collector *collector);

struct process_view {
	pid_t pid;
	pid_t parent; /* the traced parent whose fork was followed; 0: none */
	const char *comm; /* valid until the next refresh, as the next */
	const char *pod_name, *pod_namespace, *container_name; /* of Kubernetes; "" if not known, or in none */
	uint32_t user; /* the same number for all processes of a user, below 1024; users may share a number */
	bool has_ended;
	bool is_drained; /* the last drain has it; otherwise it came later, and there is nothing to save */
	bool is_final; /* the last drain was after its end */
	bool is_oom_victim; /* it has ended, and the OOM killer chose it */
	bool is_vforked; /* it runs in the memory of its parent and has no blocks of its own yet */
	struct traced_memory memory;
	uint64_t last_bytes; /* live bytes in its last written snapshot; 0: none, or exec came since */
	uint64_t most_bytes; /* the most live bytes in any of its written snapshots */
	bool is_near_oom; /* since its last snapshot the OOM killer chose a process in its memory cgroup */
	uint64_t allocations;
	uint64_t lost; /* sum of the kernel's losses, without losses by pauses (blocks_gone_in_gap) */
	uint64_t cpu_ns;  /* CPU time, user and system, since its recording began */
	uint64_t cost_ns; /* the part of cpu_ns that recording took, estimated */
	uint64_t recorded_ns; /* wall-clock time since its recording began, up to its end */
	uint64_t gaps_ns;     /* the part of recorded_ns in which pauses left it unrecorded */
	bool cost_is_known; /* the collector could measure on itself what a probe costs */
	bool is_paused;	    /* its recording pauses now to stay within max_overhead */
	bool is_thinned;    /* only samples are recorded now, for the same reason */
	bool is_estimated;  /* memory and allocations are estimates, because the recording is sampled */
	bool is_unsaved;    /* the last drain has it, and collector__save_view() was not called since */
	bool was_saved;	    /* it has a snapshot */
	bool is_empty;	    /* system-wide: a child without blocks whose peak was below min_bytes */
};

void collector__view(const struct collector *collector, size_t i, struct process_view *ret);

/*
 * Whether the probes are perf events, which need CAP_SYS_ADMIN, because the kernel has no links for many probes; whether
 * programs for CPython are loaded when it is met, with CAP_PERFMON. Otherwise both can be dropped once it is open.
 */
bool collector__has_events(const struct collector *collector);
bool collector__loads_later(const struct collector *collector);

/* A descriptor that becomes readable when a process has exited, forked or called exec: time to refresh. */
int collector__event_fd(const struct collector *collector);

/*
 * Whether another process has killed a child process that the recording needs; a note says so. Without the child that
 * keeps the probes nothing is recorded any more, and each snapshot shows this as a gap. Without the child that starts
 * the file readers no further file can be probed or named. Only a new collector can record then.
 */
bool collector__is_blind(const struct collector *collector);

/*
 * Handles events: children, execs, exits, newly mapped allocators. Call it at least once a second. Failures are counted
 * in the snapshots.
 */
void collector__refresh(struct collector *collector);

/*
 * Sets a function that the collector calls as fn(what) between processes during long work. fn returns whether a signal
 * or other work is waiting; then the collector postpones what it can do later.
 */
void collector__set_between(struct collector *collector, bool (*fn)(void *what), void *what);

/*
 * Makes collector__event_fd() readable once when the live bytes of process i reach `bytes`; 0: never. The kernel checks
 * this at each new block, so it is known within milliseconds. Returns whether the limit is already reached: then the
 * descriptor may stay silent.
 */
bool collector__ring_at(struct collector *collector, size_t i, uint64_t bytes);

/* Reads the account of all processes, for one collector__save() of each process. The snapshots show this moment. */
int collector__drain(struct collector *collector, struct reason *why);

/* Options of a snapshot to write. Zero is the default, except for dir. */
struct save_options {
	const char *dir;
	const char *trigger; /* why it was taken, for the metadata "trigger"; NULL: no such metadata */
	uint64_t interval_ns; /* when the next one is due, for the metadata "interval_ns"; 0: no such metadata */
	bool is_compact; /* no addresses and threads, births in seconds (snapshot.h), compressed */
	const char *const *label; /* each is NAME=VALUE, for the metadata "label.NAME" */
	size_t label_nr;
	struct snapshot_batch *batch; /* if not NULL, the caller publishes it; the tag is the PID */
	const char *file; /* if not NULL: the path of the snapshot, which ends in ".snap", instead of one below dir */
	const struct snapshot_file_owner *owner; /* of new files and folders (snapshot.h); NULL: the caller */
};

/*
 * Writes the snapshot of a process as DIR/HOST/COMM.PID/TIME.snap. It makes missing folders with mode 0700. The caller
 * frees *ret_path; with a batch it is NULL. An existing file is not replaced: *ret_path has the new file's name.
 */
int collector__save(struct collector *collector, pid_t pid, const struct save_options *options,
		    char **ret_path, struct reason *why);

/* ---- system-wide recording ---- */

/*
 * Begins to trace admitted processes that are not traced yet: those that ran before the recording, and those that
 * became admissible without fork or exec. Returns their number or a negative errno. Does nothing without
 * options.system_wide.
 */
int collector__admit(struct collector *collector, struct reason *why);

/*
 * As collector__save(), for view i, because a PID can be reused before the drain after an exit. In system-wide mode, if
 * the process has called exec since the drain, this writes nothing, *ret_path is NULL, and the next snapshots of the
 * process count that.
 */
int collector__save_view(struct collector *collector, size_t i, const struct save_options *options,
			 char **ret_path, struct reason *why);

/* Notes that a snapshot of the process in a batch could not be written. Its next snapshots say so. */
void collector__note_unsaved(struct collector *collector, pid_t pid);

/* Forgets view i, a process that had ended when it was drained, and frees its slot. View i is another process then. */
void collector__forget_view(struct collector *collector, size_t i);

/*
 * Call this after a drain and its saves. It forgets the processes that had ended before the drain, except those whose
 * last snapshot is still to come; the next drain has these again. Until this call the collector forgets no process of
 * the drain.
 */
void collector__end_pass(struct collector *collector);

/* Facts about the whole recording. Numbers of processes and traps count from its start. */
struct collector_health {
	uint64_t processes;	    /* traced now, ended ones included */
	uint64_t processes_waiting; /* of these, ended ones that wait for the next drain */
	uint64_t processes_small;   /* ended with a peak below min_bytes and left nothing */
	uint64_t processes_unprobed; /* ended before their allocator was probed and left nothing */
	uint64_t processes_dropped; /* not traced for lack of room; running ones as of the last check */
	uint64_t processes_ever_dropped; /* the same, with those that got room since */
	uint64_t processes_all;	    /* traced ever, with those that left nothing */
	uint64_t allocations, frees; /* of all processes, like the next two; after an exec as of the last check */
	uint64_t cpu_ns, cost_ns;
	uint64_t bystander_traps;   /* probes hit by processes that are not traced; next, by kind */
	uint64_t bystander_entry_traps, bystander_stepped_traps, bystander_return_traps;
	uint64_t bystander_cost_ns; /* the estimated cost of these traps; 0: not known */
	bool cost_is_known; /* see struct process_view */
};

void collector__get_health(const struct collector *collector, struct collector_health *ret);

/*
 * Whether to drain now. In system-wide mode: ended processes use a quarter of the room for them. Otherwise: a process
 * has ended.
 */
bool collector__is_drain_due(const struct collector *collector);

struct collector_loss {
	const char *name; /* as in snapshots */
	uint64_t value;
};

/*
 * Stores the losses of all processes since the recording began that are not 0, at most max. Returns how many it
 * stored. Losses that only the making of a snapshot finds are added then, by their growth since the last snapshot of
 * the process.
 */
size_t collector__get_losses(const struct collector *collector, struct collector_loss *ret, size_t max);

/*
 * The next note about a decision of the recording, as a line that the caller frees, or NULL. Example: return probes
 * could kill a process, so it is recorded without them.
 */
char *collector__next_note(struct collector *collector);

#ifdef __cplusplus
}
#endif

#endif
