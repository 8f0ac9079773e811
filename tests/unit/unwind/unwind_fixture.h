/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_TESTS_UNWIND_FIXTURE_H
#define ALLOCSNAP_TESTS_UNWIND_FIXTURE_H

/*
 * A library written by hand: an ELF header, one segment with TEXT_SIZE bytes of code from address 0
 * on, PT_GNU_EH_FRAME, and the call frame information that a test puts together.
 */

#include <criterion/criterion.h>
#include <dwarf.h>

#include "unwind/unwind_table.h"

#define TEXT_SIZE 0x80000u
#define IMAGE_MAX (1u << 20)

struct image {
	uint8_t bytes[IMAGE_MAX];
	size_t size;
	size_t cie; /* the last one */
};

void image_begin(struct image *image);
void image_begin_arm64(struct image *image); /* with the CIE that compilers write: first the CFA is sp */

/* Instructions as bytes: CIE(image, "zR", DW_CFA_def_cfa, 7, 8, …). */
#define BYTES(...) (const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ })
#define CIE(image, letters, ...) image_cie(image, letters, BYTES(__VA_ARGS__))
#define FDE(image, start, size, ...) image_fde(image, start, size, BYTES(__VA_ARGS__))

/* code_align 1, data_align -8, return address in 16 (arm64: 30), addresses relative and of 4 bytes. */
void image_cie(struct image *image, const char *letters, const uint8_t *program, size_t nr);
void image_fde(struct image *image, uint32_t start, uint32_t size, const uint8_t *program, size_t nr);

/* The rules that compilers write: first the CFA is sp + 8, and the return address is below it. */
void image_usual_cie(struct image *image);

/* Words with a length before them, in a place of their own. */
void image_raw(struct image *image, const void *bytes, size_t nr);

/* Sections: an empty one of this name, and .debug_frame with a function at `start` whose CFA is sp + 8. */
void image_add_sections(struct image *image, const char *name, uint64_t start, uint64_t size);

/* It must compile. */
struct unwind_table *image_table(const struct image *image);
/* It must be refused so. */
void image_refused(const struct image *image, int err);

void expect_rule(const struct unwind_table *table, uint64_t vaddr, struct unwind_rule want);

#define NOTHING ((struct unwind_rule){ 0 })
#define SP_PLUS(offset) ((struct unwind_rule){ .cfa_kind = UNWIND_CFA_SP, .cfa_off = (offset) })
#define UNSUPPORTED ((struct unwind_rule){ .cfa_kind = UNWIND_CFA_UNSUPPORTED })
#define ROOT ((struct unwind_rule){ .cfa_kind = UNWIND_CFA_ROOT })

#endif
