/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_INJECT_INJECTED_FILE_H
#define ALLOCSNAP_INJECT_INJECTED_FILE_H

/*
 * The files that are injected, as they were built: the sampler (sampler/injected.c), and the hooks of an exact recording
 * (exact/python_hooks.c, exact/malloc_hooks.c). They are part of this program. And the content of a sealed memory file made of one of them:
 *
 *	the file as built, with what the injector fills in	mapped from `start` on
 *	more pages, if there are any				sampler_image.h
 *	struct injected_table					not mapped
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inject/inject.h"
#include "sampler/injected.h"

#define INJECTED_SEGMENTS_MAX 4

/* Pages that are mapped alike. */
struct injected_segment {
	uint64_t vaddr, bytes; /* multiples of pages */
	uint64_t offset;       /* in the file */
	int prot;	       /* PROT_… */
	bool is_zero;	       /* not from the file */
};

struct injected_file {
	const uint8_t *byte;
	size_t bytes;
	uint32_t segment_nr;
	struct injected_segment segment[INJECTED_SEGMENTS_MAX];
	uint64_t end;	   /* of all segments */
	uint64_t text_end; /* code: [0, text_end) */
};

/* 0 or -EIO: it was built wrongly. */
int injected_file_open(enum inject_kind kind, struct injected_file *ret);

/* The address of a symbol, relative to the beginning; 0: no such symbol. ret_bytes may be NULL. */
uint64_t injected_file_symbol(const struct injected_file *file, const char *name, uint64_t *ret_bytes);

struct injected_image {
	uint8_t *byte;
	size_t bytes;
	struct injected_table *table; /* in it: the addresses, and what the caller fills in of its owner */
};

/* room: bytes that it will take in the process, from `start` on. more_bytes: whole pages before the table. 0 or -ENOMEM. */
int injected_image_make(const struct injected_file *file, uint64_t room, uint64_t more_bytes, uint64_t start,
			struct injected_image *ret, struct reason *why);
void injected_image_release(struct injected_image *image);

/* Where the pages behind the file begin. */
uint64_t injected_image_copies(const struct injected_image *image);

/* The byte of the image that will be mapped at this address of the file; NULL: it is not in the file, or the address is 0. */
void *injected_image_at(const struct injected_image *image, const struct injected_file *file, uint64_t vaddr);

#endif
