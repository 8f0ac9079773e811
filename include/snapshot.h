/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SNAPSHOT_H
#define ALLOCSNAP_SNAPSHOT_H

/*
 * A snapshot: every live block of one process at one time, with the traceback that allocated it.
 *
 * In memory and in the file a snapshot is the same few tables, joined by small integer ids,
 * never by pointers. Id 0 means "none" in each of them (row 0 exists and is all zero; string 0
 * is empty).
 *
 *	traces (columns)        tracebacks            frames               objects      strings
 *	size[i]                 first, nframe ──────► filename ───────────────────────► "a.c"
 *	traceback[i] ─────────► total_nframe,         lineno
 *	domain[i] birth_ns[i]   flags                 function ───────────────────────► "leaf"
 *	address[i] thread[i]                          object, offset ────► path, build_id ►
 *	weight[i]
 *
 * The frames of a traceback are in traceback_frame[first … first + nframe), the most recent
 * call first.
 *
 * The file. Little-endian, fixed-width, every section starts on a multiple of 8; the gaps between
 * sections, of 4,096 bytes at most, and the reserved fields are zero, and checked.
 *
 *	struct snap_header                          at 0
 *	struct snap_section × header.section_nr     at header.header_size
 *	the sections, in the order of their table
 *
 * Checksums are XXH3 (64 bits, seed 0, canonical specification of xxHash 0.8). The header's
 * covers the header with that field zero, then the section table; a section's covers its
 * bytes as they are in the file. So every byte of the file is covered or must be zero, and
 * file_size must be the file's length. A column that was not recorded has no section. Readers
 * refuse a version or a section type or an encoding that they do not know, and a file whose rows
 * take more than 1 GiB and 32 times its size; writers only ever append to the enums.
 *
 * A compact file has no addresses and threads, and births to the second (the one that a birth is in, or the
 * next where that would be before the last gap, or 0). Rows that are equal then may be one with a count, at
 * least 1, where there are no weights: a reader has as many traces as they add up to. Without counts each row is one.
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
	SNAP_STRING_BYTES = 5,	   /* the strings, each followed by a NUL, none holding one */
	SNAP_OBJECTS = 6,	   /* struct snap_object[] */
	SNAP_FRAMES = 7,	   /* struct snap_frame[] */
	SNAP_TRACEBACKS = 8,	   /* struct snap_traceback[] */
	SNAP_TRACEBACK_FRAMES = 9, /* uint32_t[]: frame ids */
	SNAP_TRACE_SIZE = 10,	   /* uint64_t[]: bytes asked for */
	SNAP_TRACE_TRACEBACK = 11, /* uint32_t[]: traceback ids */
	SNAP_TRACE_DOMAIN = 12,	   /* uint32_t[]; absent: all 0 */
	SNAP_TRACE_BIRTH = 13,	   /* uint64_t[]: CLOCK_MONOTONIC at the allocation's return, ns */
	SNAP_TRACE_ADDRESS = 14,   /* uint64_t[] */
	SNAP_TRACE_THREAD = 15,	   /* uint32_t[]: the TID that allocated, in the root pid namespace */
	SNAP_TRACEBACK_CHURN = 16, /* struct snap_churn[]: of each traceback */
	SNAP_PROBE_DOMAIN = 17,	   /* uint32_t[]: of each probe: its blocks' */
	SNAP_TRACE_WEIGHT = 18,	   /* double[] (binary64): see struct snap_trace; absent: all 1 */
	SNAP_GAPS = 19,		   /* struct snap_gap[], ascending, none within another */
	SNAP_TRACE_BIRTH_SECOND = 20, /* uint32_t[]: of a compact file, in the place of births */
	SNAP_TRACE_COUNT = 21,	   /* uint32_t[]: of a compact file: how many traces a row stands for */
	SNAP_FRAME_FIRST_LINE = 22, /* uint32_t[]: of each frame: where its function is declared; absent: all 0 */
	SNAP_SECTION_TYPE_MAX,
};

enum snap_encoding {
	SNAP_RAW = 0,
	SNAP_ZSTD = 1, /* one zstd frame that holds exactly the section's rows and says so */
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
 * One line of metadata, e.g. "pid" → "4711". Keys are unique; numbers are decimal text. What a domain
 * is called is one, too: "domain.16" → "pool"; and whether such a domain's blocks lie in blocks of the
 * heap or take their place: "layer.16" → "pool" or "heap".
 */
struct snap_pair {
	uint32_t key;
	uint32_t value;
};
_Static_assert(sizeof(struct snap_pair) == 8, "snap_pair is a file format");

enum snap_counter_kind {
	SNAP_COUNTED = 1, /* what happened: allocations, frees, traced bytes… */
	SNAP_LOST = 2,	  /* an event that was lost, guessed or truncated */
};

struct snap_counter {
	uint32_t name; /* string: the name in bpf/shared/bpf_types.h, unique */
	uint32_t kind; /* enum snap_counter_kind */
	uint64_t value;
};
_Static_assert(sizeof(struct snap_counter) == 16, "snap_counter is a file format");

/* One place where the recording was listening. */
struct snap_probe {
	uint32_t object;      /* object id */
	uint32_t function;    /* string: the probed symbol */
	uint64_t offset;      /* file offset of the function's first instruction */
	uint32_t placement;   /* the probe sits on offset + placement */
	uint32_t instruction; /* string: what is there, disassembled */
};
_Static_assert(sizeof(struct snap_probe) == 24, "snap_probe is a file format");

struct snap_object {
	uint32_t path;	   /* string: as the process saw it */
	uint32_t build_id; /* string: lower-case hex, or 0 */
};
_Static_assert(sizeof(struct snap_object) == 8, "snap_object is a file format");

enum snap_frame_flag {
	SNAP_FRAME_INLINE = 1, /* inlined into the next older frame; both have the same offset */
	SNAP_FRAME_SKIPPED = 2, /* no frame: one or more were passed over here, not known which */
	SNAP_FRAME_GUESSED = 4, /* found by a frame pointer, in code without unwind tables */
	SNAP_FRAME_EXACT = 8, /* a signal came at offset, or its handler returns there: no call before it */
};

struct snap_frame {
	uint32_t filename; /* string: the source file, or the object's path where lineno is 0 */
	uint32_t lineno;   /* 0: not known */
	uint32_t function; /* string, demangled; 0: not known */
	uint32_t object;   /* object id; 0: the address was in no file */
	uint64_t offset;   /* file offset of the return address; an address where object is 0 */
	uint32_t flags;	   /* enum snap_frame_flag */
	uint32_t reserved;
};
_Static_assert(sizeof(struct snap_frame) == 32, "snap_frame is a file format");

enum snap_traceback_flag {
	SNAP_TRACEBACK_LIMITED = 1, /* cut at the traceback limit */
	SNAP_TRACEBACK_BROKEN = 2,  /* cut where a frame could not be a return address */
	SNAP_TRACEBACK_END = 0xff00, /* enum snap_traceback_end << 8 */
};

/*
 * How the walk over the stack ended, also where fewer frames are stored. X(NAME, name, meaning).
 * Appended to, never reused.
 */
#define SNAP_TRACEBACK_ENDS(X) \
	X(UNKNOWN, unknown, "it was walked by frame pointers, or is not of a recording") \
	X(ROOT, complete, "nobody called the last function") \
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
	uint64_t first;	       /* index into the traceback frames; row n + 1 starts where row n ends */
	uint32_t nframe;       /* frames stored */
	uint32_t total_nframe; /* frames there were, by who recorded it; 0: not known */
	uint32_t flags;	       /* enum snap_traceback_flag */
	uint32_t reserved;
};
_Static_assert(sizeof(struct snap_traceback) == 24, "snap_traceback is a file format");

/* What came of a traceback since the recording began; blocks that are gone by now, too. */
struct snap_churn {
	uint64_t allocations;	  /* blocks */
	uint64_t allocated_bytes;
	uint64_t temporary;	  /* of these, freed before their thread allocated again */
	uint64_t temporary_bytes;
};
_Static_assert(sizeof(struct snap_churn) == 32, "snap_churn is a file format");

/*
 * A time when nothing was recorded, CLOCK_MONOTONIC. A block that was born before the last gap
 * began lived through one: it may be gone. start_ns < end_ns, and that is at most the next one's start.
 */
struct snap_gap {
	uint64_t start_ns, end_ns;
};
_Static_assert(sizeof(struct snap_gap) == 16, "snap_gap is a file format");

/*
 * One live block: a row of the trace columns. Where the recording took samples of the blocks, it
 * stands for `weight` blocks of its size and traceback, one over the probability that it was taken:
 * finite, and at least 1.
 */
struct snap_trace {
	uint64_t size;
	uint64_t birth_ns;
	uint64_t address;
	uint32_t traceback;
	uint32_t domain;
	uint32_t thread;
	double weight; /* to a builder 0 is 1 */
};

/* ---- reading ------------------------------------------------------------------------------ */

/*
 * A snapshot in memory, read-only and checked: every id and index in it is in range. It comes
 * from a file, from bytes, from a builder, or from another snapshot; where from makes no
 * difference afterwards.
 */
struct snapshot;

/*
 * The tables of a snapshot. The pointers live as long as it does. A column that was not
 * recorded is NULL.
 */
struct snapshot_tables {
	const struct snap_pair *metadata;
	const struct snap_counter *counter;
	const struct snap_probe *probe;
	const uint32_t *probe_domain; /* of each probe; NULL: not recorded */
	const struct snap_object *object;
	const struct snap_frame *frame;
	/*
	 * Of each frame the line of its file where its function is declared; 0: not known, or in another file,
	 * and always where the frame has no line. NULL: not recorded.
	 */
	const uint32_t *frame_first_line;
	const struct snap_traceback *traceback;
	const struct snap_churn *churn; /* of each traceback; NULL: not recorded */
	const uint32_t *traceback_frame;
	uint32_t metadata_nr, counter_nr, probe_nr, object_nr, frame_nr, traceback_nr, string_nr;
	uint64_t traceback_frame_nr;
	const struct snap_gap *gap;
	uint32_t gap_nr;

	uint64_t trace_nr;
	const uint64_t *trace_size;	 /* never NULL where trace_nr > 0 */
	const uint32_t *trace_traceback; /* never NULL where trace_nr > 0 */
	const uint32_t *trace_domain;
	const uint64_t *trace_birth_ns;
	const uint64_t *trace_address;
	const uint32_t *trace_thread;
	const double *trace_weight; /* NULL: every block was recorded, each stands for itself */
};

/*
 * Snapshot.load(): reads a file and checks all of it. NULL with errno set and a line in *why:
 * the system's own errno where the file cannot be read (ENOENT, EISDIR…), EBADMSG where it is no
 * whole snapshot, ENOTSUP where a later version wrote it, ENOMEM. Needs memory for the file (for
 * its rows where sections are compressed), once.
 */
struct snapshot *snapshot__open(const char *path, struct reason *why);

/* The same for a file's bytes, which must stay until close and be aligned to 8. */
struct snapshot *snapshot__open_memory(const void *bytes, size_t len, struct reason *why);

/* NULL is allowed. */
void snapshot__close(struct snapshot *snapshot);

const struct snapshot_tables *snapshot__tables(const struct snapshot *snapshot);

/* A string by id; ids out of the tables are always in range. Lives as long as the snapshot. */
const char *snapshot__string(const struct snapshot *snapshot, uint32_t id);

/* Trace number `at` (below trace_nr); what was not recorded is 0, a weight 1. */
struct snap_trace snapshot__trace(const struct snapshot *snapshot, uint64_t at);

/*
 * tracemalloc's get_object_traceback(): the trace of the live block that holds an address, in *ret_at;
 * of several, such as a heap's block in a mapping, the smallest.
 * 0, -ENOENT, or -ENODATA where addresses were not recorded.
 */
int snapshot__find_address(const struct snapshot *snapshot, uint64_t address, uint64_t *ret_at);

/* The value of a metadata key, or NULL. */
const char *snapshot__metadata(const struct snapshot *snapshot, const char *key);

/*
 * Sets it, in a snapshot of one's own, before anybody else looks at it: strings and tables move. 0,
 * -EINVAL (an empty key), -EOVERFLOW or -ENOMEM.
 */
int snapshot__set_metadata(struct snapshot *snapshot, const char *key, const char *value);

/* The same as a number; `otherwise` where it is absent or not a number. */
uint64_t snapshot__metadata_u64(const struct snapshot *snapshot, const char *key, uint64_t otherwise);

/* What a domain is called, or NULL. */
const char *snapshot__domain_name(const struct snapshot *snapshot, uint32_t domain);

/* The value of a counter or a loss by name; 0 where it was not recorded. */
uint64_t snapshot__counter(const struct snapshot *snapshot, const char *name);

/* ---- writing ------------------------------------------------------------------------------ */

struct file_stamp;

/* Zero is the default. */
struct snapshot_save_options {
	bool compress; /* zstd, for the sections that it makes smaller */
	bool compact;  /* see above; what was read from a compact file stays compact without it, too */
	/*
	 * Of snapshot__save(): the file must be the one that was read, unchanged (-ESTALE), and keeps
	 * its owner, mode, time and attributes.
	 */
	const struct file_stamp *rewrite;
};

/* How the file was written that a snapshot was read from; all false of one that was made. */
struct snapshot_save_options snapshot__saved_with(const struct snapshot *snapshot);

/* For `rewrite`, as long as the snapshot lives; NULL: it is not from a file. */
const struct file_stamp *snapshot__file(const struct snapshot *snapshot);

/*
 * Snapshot.dump(): writes the file, mode 0600, synced, and never half: it takes the place of
 * what had this name when it is whole. A path that is there and no regular file (a device, a
 * pipe) is written to. options may be NULL. 0, or a negative errno with a line in *why, and then
 * the old file is as it was.
 */
int snapshot__save(const struct snapshot *snapshot, const char *path,
		   const struct snapshot_save_options *options, struct reason *why);

/* The file's bytes, in memory that the caller frees with free(). 0 or -ENOMEM. */
int snapshot__serialize(const struct snapshot *snapshot,
			const struct snapshot_save_options *options, void **ret_bytes,
			size_t *ret_len);

/*
 * A copy that holds only the traces `at` with keep[at] != 0 (keep NULL: all), in their order,
 * and only the tracebacks, frames, objects and strings that these (and the probes) need. Metadata,
 * counters, losses, probes and gaps stay; churn, which is not of these traces alone, only where keep is
 * NULL. 0 or -ENOMEM.
 */
int snapshot__select(const struct snapshot *snapshot, const uint8_t *keep, struct snapshot **ret);

/* ---- CPython's tuple form, as JSON -------------------------------------------------------- */

/*
 *	{"traceback_limit": N, "traces": [[domain, size, [[filename, lineno], …], total_nframe], …]}
 *
 * which is what tracemalloc.Snapshot holds: frames most recent call first; total_nframe may be
 * missing or null (Python ≤ 3.8). Function names, objects, offsets, addresses, births, gaps and
 * threads have no place in it.
 *
 * Where the snapshot has weights, a trace has its weight as a fifth element, after a total_nframe or
 * null. CPython does not look at it: to it these are the samples alone.
 */

/*
 * Reads it from memory. NULL with errno set and a line in *why that says where: EBADMSG where it
 * is not JSON or not of this form, ERANGE where a number does not fit (domain, lineno and
 * total_nframe 32 bits, size 63 bits, a weight at least 1, 65,535 frames) or one trace or other member
 * is 2 GiB long, ENOMEM. The snapshot has weights where a trace has one. name is the file's, for messages. Needs memory for what it makes, and for one trace.
 */
struct snapshot *snapshot__import_json(const char *text, size_t len, const char *name,
				       struct reason *why);

/*
 * Writes it. Strings are exact; a byte that is not UTF-8 becomes \xNN. A trace without frames
 * has CPython's frame ["<unknown>", 0]; total_nframe is left out where it is not known. 0 or a
 * negative errno.
 */
int snapshot__export_json(const struct snapshot *snapshot, FILE *out);

/* ---- building ----------------------------------------------------------------------------- */

struct snapshot_builder;

/* The columns of struct snap_trace that are written, beside size and traceback. */
enum snap_columns {
	SNAP_WITH_DOMAIN = 1,
	SNAP_WITH_BIRTH = 2,
	SNAP_WITH_ADDRESS = 4,
	SNAP_WITH_THREAD = 8,
	SNAP_WITH_ALL = 15,
	SNAP_WITH_CHURN = 16, /* no column of the traces, but optional, too */
	SNAP_WITH_PROBE_DOMAIN = 32, /* the same */
	SNAP_WITH_WEIGHT = 64, /* of samples only: whoever reads it takes sums for estimates */
	SNAP_WITH_FIRST_LINE = 128, /* of the frames */
};

/*
 * NULL and errno ENOMEM on failure. `columns` is a set of enum snap_columns. The functions
 * below return 0 or a negative errno; equal strings, objects, frames and tracebacks get equal
 * ids. After a failure the builder can only be freed.
 */
struct snapshot_builder *snapshot_builder__new(unsigned int columns);
void snapshot_builder__free(struct snapshot_builder *builder);

/* text is a C string; NULL and "" give id 0. */
int snapshot_builder__string(struct snapshot_builder *builder, const char *text, uint32_t *ret_id);
int snapshot_builder__object(struct snapshot_builder *builder, const struct snap_object *object,
			     uint32_t *ret_id);

/* Never id 0: a frame of which nothing is known is still a frame. */
int snapshot_builder__frame(struct snapshot_builder *builder, const struct snap_frame *frame,
			    uint32_t *ret_id);

/*
 * The same with the line where its function is declared (struct snapshot_tables), which is part of what makes
 * two equal, in a builder that was made with it; -EINVAL for one of a frame without a line.
 */
int snapshot_builder__frame_declared(struct snapshot_builder *builder,
				     const struct snap_frame *frame, uint32_t first_line,
				     uint32_t *ret_id);

/* frames: most recent call first. total_nframe and flags are part of what makes two equal. */
int snapshot_builder__traceback(struct snapshot_builder *builder, const uint32_t *frame,
				uint32_t nframe, uint32_t total_nframe, uint32_t flags,
				uint32_t *ret_id);
/* Adds to the churn of a traceback, which the builder must have been made with. */
int snapshot_builder__churn(struct snapshot_builder *builder, uint32_t traceback,
			    const struct snap_churn *churn);

/* -EINVAL where its weight is none. */
int snapshot_builder__trace(struct snapshot_builder *builder, const struct snap_trace *trace);

/*
 * Many: makes room for nr traces, the first of them in *ret_first, all zero; then they are set, different
 * ones by several threads at once if the caller likes.
 */
int snapshot_builder__add_traces(struct snapshot_builder *builder, uint64_t nr, uint64_t *ret_first);
int snapshot_builder__set_traces(struct snapshot_builder *builder, uint64_t first,
				 const struct snap_trace *trace, size_t nr);

/* A later value for a key or a name replaces the earlier one. */
int snapshot_builder__metadata(struct snapshot_builder *builder, const char *key, const char *value);
int snapshot_builder__counter(struct snapshot_builder *builder, enum snap_counter_kind kind,
			      const char *name, uint64_t value);
int snapshot_builder__probe(struct snapshot_builder *builder, const struct snap_probe *probe);
/* The domain of the probe added last, 0 unless it is said; -EINVAL where there is none. */
int snapshot_builder__probe_domain(struct snapshot_builder *builder, uint32_t domain);
int snapshot_builder__domain_name(struct snapshot_builder *builder, uint32_t domain, const char *name);

/* Nothing was recorded from start_ns to end_ns. -EINVAL: it is empty, or begins before the last one ended. */
int snapshot_builder__gap(struct snapshot_builder *builder, uint64_t start_ns, uint64_t end_ns);

/*
 * What was built, as a snapshot. Frees the builder, also where it fails: 0 or a negative errno.
 */
int snapshot_builder__finish(struct snapshot_builder *builder, struct snapshot **ret);

/* The file's bytes, in memory that the caller frees with free(). */
int snapshot_builder__serialize(struct snapshot_builder *builder, void **ret_bytes, size_t *ret_len);

/*
 * Writes the snapshot as DIR/NAME.snap, mode 0600, synced, and never half: it has no name until
 * it is whole. An existing file is never replaced: NAME-2.snap, NAME-3.snap… are tried.
 * dir must exist; options may be NULL. *ret_path (the caller frees it) is the path that was written.
 */
int snapshot_builder__save(struct snapshot_builder *builder, const char *dir, const char *name,
			   const struct snapshot_save_options *options, char **ret_path,
			   struct reason *why);

/*
 * Several that are written one after another and made safe on the disk together, which takes little
 * longer than one: the disk's journal has them all in one go. None has a name before all are whole.
 */
struct snapshot_batch;

/* NULL: no memory. */
struct snapshot_batch *snapshot_batch__new(void);

/* What was not published leaves nothing. NULL is allowed. */
void snapshot_batch__free(struct snapshot_batch *batch);

size_t snapshot_batch__nr(const struct snapshot_batch *batch);

/* As snapshot_builder__save(), but the file has no name yet; tag: for whoever asks later. */
int snapshot_batch__add(struct snapshot_batch *batch, struct snapshot_builder *builder, const char *dir,
			const char *name, const struct snapshot_save_options *options, uint64_t tag,
			struct reason *why);

/* path, valid until it returns, or NULL, an error and a line. */
typedef void (*snapshot_batch_done_fn)(void *what, uint64_t tag, const char *path, int err,
				       const struct reason *why);

/* All of them get their names, or are gone, and done() is told of each, in their order; the batch is empty then. */
void snapshot_batch__publish(struct snapshot_batch *batch, snapshot_batch_done_fn done, void *what);

#endif
