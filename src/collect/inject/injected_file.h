/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_INJECT_INJECTED_FILE_H
#define ALLOCSNAP_COLLECT_INJECT_INJECTED_FILE_H

/* The file that is injected (sampler/injected.c), as it was built; it is part of this program. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
int injected_file_open(struct injected_file *ret);

/* The address of a symbol, relative to the beginning; 0: there is none. ret_bytes may be NULL. */
uint64_t injected_file_symbol(const struct injected_file *file, const char *name, uint64_t *ret_bytes);

/* The place in the file of an address that lies in it; SIZE_MAX: it does not. */
size_t injected_file_offset(const struct injected_file *file, uint64_t vaddr);

#endif
