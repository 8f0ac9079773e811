/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_DICTIONARY_H
#define ALLOCSNAP_FLEET_DICTIONARY_H

/*
 * The tracebacks and frames that a catalogue's rows refer to, as a snapshot for the engine (engine/tally.h): trace n
 * is origin n.
 *
 * If some snapshots have names for a place (build-id and offset) and others have not, all get them.
 * Filters see the frames' own names. A frame with a line or a function has no build-id and no offset: they differ
 * from build to build and say nothing more. Code in no file has no offset either.
 *
 * Keys are the same across builds. The key of a frame with a line is its file and line. Without a line it is its
 * function and object, wherever the object was mapped. Without a name it is build-id and offset, and its object is
 * called PATH@BUILD-ID (the first 12 digits). If the caller asks for files or objects as keys, keys are their paths.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine.h"

struct catalogue;
struct dictionary_maker;
struct snapshot;

struct dictionary_options {
	enum key_type key_type; /* the key type of the questions that follow */
	const char *const *strip_prefix; /* prefixes of filenames and objects; the first that matches is removed */
	size_t strip_prefix_nr;
	/*
	 * Makes a line's key independent of code above its function: the key's filename is FILE:FUNCTION, its lineno
	 * the distance from the function's first line. The key has no object, which would split it by build, and no
	 * first line. A line keeps its own number if the function's first line is not known.
	 */
	bool line_drift;
};

struct dictionary {
	struct snapshot *snapshot;
	uint32_t *key_frame; /* for struct engine_options; may be NULL */
	int64_t *traceback_id; /* of each trace */
	uint64_t refused_nr; /* places that got no names, since snapshots differ about them */
};

/* The caller ends it with dictionary_release(). A zeroed struct is valid there. */
int dictionary_read_catalogue(struct catalogue *catalogue, const struct dictionary_options *options,
		    struct dictionary *ret, struct reason *why);
void dictionary_release(struct dictionary *dictionary);

/* ---- a dictionary from another source --------------------------------------------------------------- */

/* A frame as a catalogue has it. */
struct dictionary_frame {
	int64_t id;
	const char *filename, *function, *object, *build_id;
	int64_t lineno, first_line, flags;
	uint64_t offset;
};

/*
 * Makes a dictionary: first all frames; then what names are learnt from, in the order of tracebacks; then the tracebacks
 * by any id but 0, their origins in order, and domains. Frames are listed by id, most recent call first. Errors are
 * -ENOMEM, and -EINVAL: a number is out of range, or an id is unknown. The options must outlive the maker.
 */
int dictionary_maker__new(const struct dictionary_options *options, struct dictionary_maker **ret);
void dictionary_maker__free(struct dictionary_maker *maker); /* NULL is allowed */

int dictionary_maker__frame(struct dictionary_maker *maker, const struct dictionary_frame *frame);
int dictionary_maker__learn(struct dictionary_maker *maker, const void *frame_id, size_t nr);

/* Counts the places that get no names, as a traceback would, and adds none. */
int dictionary_maker__look_up(struct dictionary_maker *maker, const void *frame_id, size_t nr);
int dictionary_maker__traceback(struct dictionary_maker *maker, int64_t id, const void *frame_id, size_t nr);
int dictionary_maker__origin(struct dictionary_maker *maker, int64_t traceback_id, int64_t domain);
int dictionary_maker__domain(struct dictionary_maker *maker, int64_t number, const char *name);
int dictionary_maker__finish(struct dictionary_maker *maker, struct dictionary *ret);

#define NAME_CHAIN_MAX 32 /* frames of a place; recordings have no more, and a false snapshot gains little */

enum name_detail {
	DETAIL_NONE,
	DETAIL_FUNCTION,
	DETAIL_LINE, /* or inlined calls */
};

/* A hash; 0: the frame has no place. flags: enum of snap_frame. */
int64_t nameable_place(const char *build_id, uint64_t offset, uint32_t flags);

#endif
