/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SNAPSHOT_H
#define ALLOCSNAP_SNAPSHOT_H

/*
 * A snapshot has every live block of one process at one time, with the traceback that allocated it.
 *
 * A snapshot is a few tables, the same in memory and in the file. Small integer ids join them, never pointers. In each
 * table id 0 means "none": row 0 exists and is all zero; string 0 is empty.
 *
 *	traces (columns)        tracebacks            frames               objects      strings
 *	size[i]                 first, nframe ──────► filename ───────────────────────► "a.c"
 *	traceback[i] ─────────► total_nframe,         lineno
 *	domain[i] birth_ns[i]   flags                 function ───────────────────────► "leaf"
 *	address[i] thread[i]                          object, offset ────► path, build_id ►
 *	weight[i]
 *
 * The frames of a traceback are in traceback_frame[first … first + nframe), the most recent call first.
 *
 * The file is little-endian and has fixed-width fields. Every section starts on a multiple of 8. Gaps between sections
 * are at most 4,096 bytes. Readers check that the gaps and the reserved fields are zero.
 *
 *	struct snap_header                          at 0
 *	struct snap_section × header.section_nr     at header.header_size
 *	the sections, in the order of their table
 *
 * Checksums are XXH3 (64 bits, seed 0, canonical specification of xxHash 0.8). The checksum of the header covers the
 * header with that field zero, then the section table. The checksum of a section covers its bytes as they are in the
 * file. So every byte of the file is covered or must be zero. file_size must be the length of the file. A column that
 * was not recorded has no section. Readers refuse an unknown version, section type or encoding. They also refuse a file
 * whose rows take more than 1 GiB and more than 32 times its size. Writers only append to the enums.
 *
 * A compact file has no addresses and no threads, and it has births in seconds: the second of the birth, or 0 (not
 * known). The next second is stored if the own second is 0, or if it began before the last gap but the birth did not.
 * Without weights, equal rows may become one row with a count of at least 1; a reader makes as many traces as the
 * counts add up to. Without counts each row is one trace.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "reason.h"

#define SNAP_MAGIC "ALOCSNAP"
#define SNAP_VERSION 1
#define SNAP_TRACEBACK_MAX 65535 /* frames in one traceback; CPython's limit */

struct snap_header {
	char magic[8];
	uint32_t version;
	uint32_t header_size; /* sizeof(struct snap_header) */
	uint64_t file_size;
	uint32_t section_nr;
	uint32_t reserved;
	uint64_t checksum;
};
_Static_assert(sizeof(struct snap_header) == 40, "snap_header is a file format");

enum snap_section_type {
	SNAP_METADATA = 1,	   /* struct snap_pair[], up to 4,096 */
	SNAP_COUNTERS = 2,	   /* struct snap_counter[], up to 4,096 */
	SNAP_PROBES = 3,	   /* struct snap_probe[] */
	SNAP_STRING_START = 4,	   /* uint64_t[]: where each string begins in SNAP_STRING_BYTES */
	SNAP_STRING_BYTES = 5,	   /* the strings, each followed by a NUL and without a NUL inside */
	SNAP_OBJECTS = 6,	   /* struct snap_object[] */
	SNAP_FRAMES = 7,	   /* struct snap_frame[] */
	SNAP_TRACEBACKS = 8,	   /* struct snap_traceback[] */
	SNAP_TRACEBACK_FRAMES = 9, /* uint32_t[]: frame ids */
	SNAP_TRACE_SIZE = 10,	   /* uint64_t[]: bytes asked for */
	SNAP_TRACE_TRACEBACK = 11, /* uint32_t[]: traceback ids */
	SNAP_TRACE_DOMAIN = 12,	   /* uint32_t[]; absent: all 0 */
	SNAP_TRACE_BIRTH = 13,	   /* uint64_t[]: CLOCK_MONOTONIC at the allocation's return, ns */
	SNAP_TRACE_ADDRESS = 14,   /* uint64_t[] */
	SNAP_TRACE_THREAD = 15,	   /* uint32_t[]: TID of the allocating thread, in the root PID namespace */
	SNAP_TRACEBACK_CHURN = 16, /* struct snap_churn[]: one for each traceback */
	SNAP_PROBE_DOMAIN = 17,	   /* uint32_t[]: for each probe the domain of its blocks */
	SNAP_TRACE_WEIGHT = 18,	   /* double[] (binary64): see struct snap_trace; absent: all 1 */
	SNAP_GAPS = 19,		   /* struct snap_gap[], ascending, without overlap */
	SNAP_TRACE_BIRTH_SECOND = 20, /* uint32_t[]: births in a compact file, instead of SNAP_TRACE_BIRTH */
	SNAP_TRACE_COUNT = 21,	   /* uint32_t[]: in a compact file, how many traces a row stands for */
	SNAP_FRAME_FIRST_LINE = 22, /* uint32_t[]: for each frame the line that declares its function; absent: all 0 */
	SNAP_SECTION_TYPE_MAX,
};

enum snap_encoding {
	SNAP_RAW = 0,
	SNAP_ZSTD = 1, /* one zstd frame with exactly the section's rows; the frame states its content size */
};

struct snap_section {
	uint32_t type;	   /* enum snap_section_type; each at most once */
	uint32_t encoding; /* enum snap_encoding */
	uint64_t offset;   /* from the start of the file, a multiple of 8 */
	uint64_t size;	   /* bytes in the file, padding not included */
	uint64_t count;	   /* elements */
	uint64_t checksum;
};
_Static_assert(sizeof(struct snap_section) == 40, "snap_section is a file format");

/*
 * One line of metadata, e.g. "pid" → "4711". Keys are unique; numbers are decimal text. Names of domains are metadata,
 * too: "domain.16" → "pool". For such a domain "layer.16" says whether its blocks lie in blocks of the heap ("pool") or
 * replace them ("heap").
 */
struct snap_pair {
	uint32_t key;
	uint32_t value;
};
_Static_assert(sizeof(struct snap_pair) == 8, "snap_pair is a file format");

enum snap_counter_kind {
	SNAP_COUNTED = 1, /* an event or a sum: allocations, frees, traced bytes… */
	SNAP_LOST = 2,	  /* an event that was lost, guessed or truncated */
};

struct snap_counter {
	uint32_t name; /* string: the name in bpf/shared/bpf_types.h, unique */
	uint32_t kind; /* enum snap_counter_kind */
	uint64_t value;
};
_Static_assert(sizeof(struct snap_counter) == 16, "snap_counter is a file format");

/* One probe of the recording. */
struct snap_probe {
	uint32_t object;      /* object id */
	uint32_t function;    /* string: the probed symbol */
	uint64_t offset;      /* file offset of the function's first instruction */
	uint32_t placement;   /* the probe is at offset + placement */
	uint32_t instruction; /* string: the probed instruction, disassembled */
};
_Static_assert(sizeof(struct snap_probe) == 24, "snap_probe is a file format");

struct snap_object {
	uint32_t path;	   /* string: the path as the process sees it */
	uint32_t build_id; /* string: lower-case hex, or 0 */
};
_Static_assert(sizeof(struct snap_object) == 8, "snap_object is a file format");

enum snap_frame_flag {
	SNAP_FRAME_INLINE = 1, /* inlined into the next older frame; both have the same offset */
	SNAP_FRAME_SKIPPED = 2, /* no frame: one or more unknown frames are missing here */
	SNAP_FRAME_GUESSED = 4, /* a frame pointer gave it, in code without unwind tables */
	SNAP_FRAME_EXACT = 8, /* a signal interrupted at offset, or its handler returns there: no call before it */
	SNAP_FRAME_LOGICAL = 16, /* calls that were inlined there are frames of their own: it is the innermost one */
};

struct snap_frame {
	uint32_t filename; /* string: the source file; if lineno is 0, the path of the object */
	uint32_t lineno;   /* 0: not known */
	uint32_t function; /* string, demangled; 0: not known */
	uint32_t object;   /* object id; 0: the address was in no file */
	uint64_t offset;   /* file offset of the return address; if object is 0, an address */
	uint32_t flags;	   /* enum snap_frame_flag */
	uint32_t reserved;
};
_Static_assert(sizeof(struct snap_frame) == 32, "snap_frame is a file format");

enum snap_traceback_flag {
	SNAP_TRACEBACK_LIMITED = 1, /* cut at the traceback limit */
	SNAP_TRACEBACK_BROKEN = 2,  /* cut where a frame could not be a return address */
	SNAP_TRACEBACK_END = 0xff00, /* enum snap_traceback_end << 8 */
};

/* How the stack walk ended, even if fewer frames are stored: X(NAME, name, meaning). Append only. */
#define SNAP_TRACEBACK_ENDS(X) \
	X(UNKNOWN, unknown, "it was walked by frame pointers, or is not of a recording") \
	X(ROOT, complete, "the last function has no caller") \
	X(NO_RULE, no_rule, "code that its file has no call frame information of") \
	X(UNSUPPORTED, unsupported, "call frame information of a kind that is not followed") \
	X(UNREADABLE, unreadable, "the stack could not be read") \
	X(BACKWARDS, backwards, "the caller's frame would not lie above") \
	X(NO_FP, no_fp, "a frame pointer was needed and not known") \
	X(NO_TABLE, no_table, "code without an unwind table, or before it was there") \
	X(NO_CODE, no_code, "a return address that is not in code") \
	X(BUSY, busy, "the mappings could not be looked at just then")

enum snap_traceback_end {
#define X(NAME, name, meaning) SNAP_END_##NAME,
	SNAP_TRACEBACK_ENDS(X)
#undef X
	SNAP_END_NR,
};

#define SNAP_TRACEBACK_END_FLAG(end) ((uint32_t)(end) << 8)
#define SNAP_TRACEBACK_END_OF(flags) (((flags) & SNAP_TRACEBACK_END) >> 8)

struct snap_traceback {
	uint64_t first;	       /* index into the traceback frames; row n + 1 begins at the end of row n */
	uint32_t nframe;       /* frames stored */
	uint32_t total_nframe; /* frames that the recorder counted; 0: not known */
	uint32_t flags;	       /* enum snap_traceback_flag */
	uint32_t reserved;
};
_Static_assert(sizeof(struct snap_traceback) == 24, "snap_traceback is a file format");

/* Totals of a traceback since the recording began, with the blocks that are gone. */
struct snap_churn {
	uint64_t allocations;	  /* blocks */
	uint64_t allocated_bytes;
	uint64_t temporary;	  /* those blocks that were freed before their thread allocated again */
	uint64_t temporary_bytes;
};
_Static_assert(sizeof(struct snap_churn) == 32, "snap_churn is a file format");

/*
 * A time without recording, in CLOCK_MONOTONIC. A block that was born before the start of the last gap lived through a
 * gap: it may be gone. start_ns < end_ns, and end_ns is at most the start of the next gap.
 */
struct snap_gap {
	uint64_t start_ns, end_ns;
};
_Static_assert(sizeof(struct snap_gap) == 16, "snap_gap is a file format");

/*
 * One live block: a row of the trace columns. In a sampled recording it stands for `weight` blocks of its size and
 * traceback. The weight is one over the probability of its sample: finite, and at least 1.
 */
struct snap_trace {
	uint64_t size;
	uint64_t birth_ns;
	uint64_t address;
	uint32_t traceback;
	uint32_t domain;
	uint32_t thread;
	double weight; /* a builder takes 0 as 1 */
};

/* ---- reading ------------------------------------------------------------------------------ */

/*
 * A snapshot in memory, read-only and checked: every id and index in it is in range. It comes from a file, from bytes,
 * from a builder, or from another snapshot; all of these behave the same.
 */
struct snapshot;

/* The tables of a snapshot. The pointers are valid as long as the snapshot. A column that was not recorded is NULL. */
struct snapshot_tables {
	const struct snap_pair *metadata;
	const struct snap_counter *counter;
	const struct snap_probe *probe;
	const uint32_t *probe_domain; /* for each probe; NULL: not recorded */
	const struct snap_object *object;
	const struct snap_frame *frame;
	const uint32_t *frame_first_line; /* the line that declares its function; 0: not known, or in another file */
	const struct snap_traceback *traceback;
	const struct snap_churn *churn; /* for each traceback; NULL: not recorded */
	const uint32_t *traceback_frame;
	uint32_t metadata_nr, counter_nr, probe_nr, object_nr, frame_nr, traceback_nr, string_nr;
	uint64_t traceback_frame_nr;
	const struct snap_gap *gap;
	uint32_t gap_nr;

	uint64_t trace_nr;
	const uint64_t *trace_size;	 /* never NULL if trace_nr > 0 */
	const uint32_t *trace_traceback; /* never NULL if trace_nr > 0 */
	const uint32_t *trace_domain;
	const uint64_t *trace_birth_ns;
	const uint64_t *trace_address;
	const uint32_t *trace_thread;
	const double *trace_weight; /* NULL: every block was recorded and stands for itself */
};

/*
 * Snapshot.load(): reads a file and checks all of it. On failure it returns NULL with errno set and a line in *why:
 * the errno of the system if the file cannot be read (ENOENT, EISDIR…), EBADMSG if it is not a whole snapshot, ENOTSUP
 * if a later version wrote it, or ENOMEM. It needs memory for the file once (for the rows of compressed sections).
 */
struct snapshot *snapshot__open(const char *path, struct reason *why);

/* The same for the bytes of a file. They must be aligned to 8 and stay until close. */
struct snapshot *snapshot__open_memory(const void *bytes, size_t len, struct reason *why);

/* NULL is allowed. */
void snapshot__close(struct snapshot *snapshot);

const struct snapshot_tables *snapshot__tables(const struct snapshot *snapshot);

/* A string by id; ids from the tables are always in range. It is valid as long as the snapshot. */
const char *snapshot__string(const struct snapshot *snapshot, uint32_t id);

/* Trace number `at` (below trace_nr). Fields that were not recorded are 0; a weight is 1. */
struct snap_trace snapshot__trace(const struct snapshot *snapshot, uint64_t at);

/*
 * tracemalloc's get_object_traceback(): *ret_at is the trace of the live block that holds an address. If several blocks
 * hold it, such as a mapping and a heap block inside, it is the smallest one. Returns 0, -ENOENT, or -ENODATA if
 * addresses were not recorded.
 */
int snapshot__find_address(const struct snapshot *snapshot, uint64_t address, uint64_t *ret_at);

/* The value of a metadata key, or NULL. */
const char *snapshot__metadata(const struct snapshot *snapshot, const char *key);

/*
 * Sets the value of a metadata key. Strings and tables move, so no other thread or pointer may use the snapshot yet.
 * Returns 0, -EINVAL (an empty key), -EOVERFLOW or -ENOMEM.
 */
int snapshot__set_metadata(struct snapshot *snapshot, const char *key, const char *value);

/* The value of a metadata key as a number; `otherwise` if the key is absent or not a number. */
uint64_t snapshot__metadata_u64(const struct snapshot *snapshot, const char *key, uint64_t otherwise);

/* The name of a domain, or NULL. */
const char *snapshot__domain_name(const struct snapshot *snapshot, uint32_t domain);

/* The value of a counter or a loss by name; 0 if it was not recorded. */
uint64_t snapshot__counter(const struct snapshot *snapshot, const char *name);

/* ---- writing ------------------------------------------------------------------------------ */

struct file_version;

struct snapshot_file_owner {
	bool is_set; /* false: the caller keeps a new file */
	uid_t uid;
	gid_t gid;
};

/* Zero is the default. */
struct snapshot_save_options {
	bool compress; /* use zstd for the sections that become smaller */
	bool compact;  /* see above; a snapshot from a compact file stays compact without it, too */
	/* For snapshot__save(): replaces the file that was read, unchanged (-ESTALE); keeps owner, mode, time. */
	const struct file_version *rewrite;
	const int *dir_fd; /* for builders and batches: the directory; NULL: it is opened by its path */
	const struct snapshot_file_owner *owner; /* the same; NULL: the caller */
};

/* How the file of a snapshot was written. All false if the snapshot is not from a file. */
struct snapshot_save_options snapshot__saved_with(const struct snapshot *snapshot);

/* The value for `rewrite`, valid as long as the snapshot; NULL: the snapshot is not from a file. */
const struct file_version *snapshot__file(const struct snapshot *snapshot);

/*
 * Snapshot.dump(): writes the file, mode 0600, synced, and never half: when the file is whole, it replaces the old file
 * of this name. An existing path that is not a regular file (device, pipe) is written to directly. options may be NULL.
 * Returns 0, or a negative errno with a line in *why; then the old file is unchanged.
 */
int snapshot__save(const struct snapshot *snapshot, const char *path,
		   const struct snapshot_save_options *options, struct reason *why);

/* The file's bytes, in memory that the caller frees with free(). 0 or -ENOMEM. */
int snapshot__serialize(const struct snapshot *snapshot,
			const struct snapshot_save_options *options, void **ret_bytes,
			size_t *ret_len);

/*
 * A copy with only the traces `at` with keep[at] != 0 (keep NULL: all), in their order, and only the tracebacks,
 * frames, objects and strings that these traces and the probes need. Metadata, counters, losses, probes and gaps
 * stay. Churn stays only if keep is NULL, because it covers more than these traces. Returns 0 or -ENOMEM.
 */
int snapshot__select(const struct snapshot *snapshot, const uint8_t *keep, struct snapshot **ret);

/* ---- CPython's tuple form, as JSON -------------------------------------------------------- */

/*
 *	{"traceback_limit": N, "traces": [[domain, size, [[filename, lineno], …], total_nframe], …]}
 *
 * This is the content of tracemalloc.Snapshot: frames most recent call first; total_nframe may be missing or null
 * (Python ≤ 3.8). The form has no function names, objects, offsets, addresses, births, gaps and threads.
 *
 * If the snapshot has weights, a trace has its weight as a fifth element, after a total_nframe or null. CPython ignores
 * the weight and sees only the samples.
 */

/*
 * Reads this form from memory. On failure it returns NULL with errno set and a line in *why with the place: EBADMSG if
 * the text is not JSON or not of this form; ERANGE if a number does not fit (domain, lineno and total_nframe 32 bits,
 * size 63 bits, a weight at least 1, 65,535 frames) or if one trace or another member is 2 GiB long; ENOMEM. The
 * snapshot has weights if a trace has one. name is the name of the file, for messages. The function needs memory for
 * the snapshot and for one trace.
 */
struct snapshot *snapshot__import_json(const char *text, size_t len, const char *name,
				       struct reason *why);

/*
 * Writes this form. Strings are exact; a byte that is not UTF-8 becomes \xNN. A trace without frames gets CPython's
 * frame ["<unknown>", 0]. An unknown total_nframe is left out. Returns 0 or a negative errno.
 */
int snapshot__export_json(const struct snapshot *snapshot, FILE *out);

/* ---- building ----------------------------------------------------------------------------- */

struct snapshot_builder;

/* The columns of struct snap_trace to write, besides size and traceback. */
enum snap_columns {
	SNAP_WITH_DOMAIN = 1,
	SNAP_WITH_BIRTH = 2,
	SNAP_WITH_ADDRESS = 4,
	SNAP_WITH_THREAD = 8,
	SNAP_WITH_ALL = 15,
	SNAP_WITH_CHURN = 16, /* not a column of the traces, but optional, too */
	SNAP_WITH_PROBE_DOMAIN = 32, /* not a column of the traces, either */
	SNAP_WITH_WEIGHT = 64, /* for sampled recordings only: readers treat sums as estimates then */
	SNAP_WITH_FIRST_LINE = 128, /* a column of the frames */
};

/*
 * Returns NULL and errno ENOMEM on failure. `columns` is a set of enum snap_columns. The functions below return 0 or a
 * negative errno. Equal strings, objects, frames and tracebacks get equal ids. After a failure the builder can only be
 * freed.
 */
struct snapshot_builder *snapshot_builder__new(unsigned int columns);
void snapshot_builder__free(struct snapshot_builder *builder);

/* text is a C string; NULL and "" give id 0. */
int snapshot_builder__string(struct snapshot_builder *builder, const char *text, uint32_t *ret_id);
int snapshot_builder__object(struct snapshot_builder *builder, const struct snap_object *object,
			     uint32_t *ret_id);

/* The id is never 0: even a frame without any known field is a frame. */
int snapshot_builder__frame(struct snapshot_builder *builder, const struct snap_frame *frame,
			    uint32_t *ret_id);

/*
 * The same, with the line that declares the function of the frame (struct snapshot_tables). Frames are equal only if
 * these lines are equal. The builder needs SNAP_WITH_FIRST_LINE. -EINVAL if the frame itself has no line.
 */
int snapshot_builder__frame_declared(struct snapshot_builder *builder,
				     const struct snap_frame *frame, uint32_t first_line,
				     uint32_t *ret_id);

/* frame: most recent call first. Tracebacks are equal only if total_nframe and flags are equal, too. */
int snapshot_builder__traceback(struct snapshot_builder *builder, const uint32_t *frame,
				uint32_t nframe, uint32_t total_nframe, uint32_t flags,
				uint32_t *ret_id);
/* Adds to the churn of a traceback. The builder needs SNAP_WITH_CHURN. */
int snapshot_builder__churn(struct snapshot_builder *builder, uint32_t traceback,
			    const struct snap_churn *churn);

/* -EINVAL if the weight is not valid. */
int snapshot_builder__trace(struct snapshot_builder *builder, const struct snap_trace *trace);

/*
 * Adds many traces: makes room for nr traces, all zero. *ret_first is the first of them. Then the caller sets them;
 * several threads may set different traces at the same time.
 */
int snapshot_builder__add_traces(struct snapshot_builder *builder, uint64_t nr, uint64_t *ret_first);
int snapshot_builder__set_traces(struct snapshot_builder *builder, uint64_t first,
				 const struct snap_trace *trace, size_t nr);

/* A later value for a key or a name replaces the earlier one. */
int snapshot_builder__metadata(struct snapshot_builder *builder, const char *key, const char *value);
int snapshot_builder__counter(struct snapshot_builder *builder, enum snap_counter_kind kind,
			      const char *name, uint64_t value);
int snapshot_builder__probe(struct snapshot_builder *builder, const struct snap_probe *probe);
/* Sets the domain of the probe added last; the default is 0. -EINVAL if there is no probe. */
int snapshot_builder__probe_domain(struct snapshot_builder *builder, uint32_t domain);
int snapshot_builder__domain_name(struct snapshot_builder *builder, uint32_t domain, const char *name);

/* Adds a gap from start_ns to end_ns. -EINVAL: the gap is empty, or begins before the last one ended. */
int snapshot_builder__gap(struct snapshot_builder *builder, uint64_t start_ns, uint64_t end_ns);

/* Makes a snapshot from the builder. Frees the builder even on failure. Returns 0 or a negative errno. */
int snapshot_builder__finish(struct snapshot_builder *builder, struct snapshot **ret);

/* The file's bytes, in memory that the caller frees with free(). */
int snapshot_builder__serialize(struct snapshot_builder *builder, void **ret_bytes, size_t *ret_len);

/*
 * Writes the snapshot as DIR/NAME.snap, mode 0600, synced, and never half: the file has no name until it is whole. It
 * never replaces an existing file, but tries NAME-2.snap, NAME-3.snap… instead. dir must exist; options may be NULL.
 * *ret_path is the path of the new file; the caller frees it.
 */
int snapshot_builder__save(struct snapshot_builder *builder, const char *dir, const char *name,
			   const struct snapshot_save_options *options, char **ret_path,
			   struct reason *why);

/*
 * A batch of snapshots, written one after another and synced together. This takes little longer than one snapshot,
 * because one commit of the disk's journal has them all. No file has a name before all files are whole.
 */
struct snapshot_batch;

/* NULL: no memory. */
struct snapshot_batch *snapshot_batch__new(void);

/* Files that were not published leave nothing on the disk. NULL is allowed. */
void snapshot_batch__free(struct snapshot_batch *batch);

size_t snapshot_batch__nr(const struct snapshot_batch *batch);

/* As snapshot_builder__save(), but the file gets no name yet. tag: a value for the done function. */
int snapshot_batch__add(struct snapshot_batch *batch, struct snapshot_builder *builder, const char *dir,
			const char *name, const struct snapshot_save_options *options, uint64_t tag,
			struct reason *why);

/* path is valid until the function returns. On failure it is NULL, with an error and a line in *why. */
typedef void (*snapshot_batch_done_fn)(void *what, uint64_t tag, const char *path, int err,
				       const struct reason *why);

/* Gives all files their names, or removes them. Calls done() for each file, in order. The batch is empty then. */
void snapshot_batch__publish(struct snapshot_batch *batch, snapshot_batch_done_fn done, void *what);

#endif
