/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_ENTRY_PATCH_H
#define ALLOCSNAP_ELF_ENTRY_PATCH_H

/*
 * Whether the first instructions of an allocator's functions can be moved elsewhere, so that a jump of five bytes takes
 * their place:
 *
 *	function: [endbr64] jmp hook, rest		moved: the instructions that lay there, jmp rest
 *
 * They cannot if they call or return (a return address would lie amid the jump), if a branch of the file leads among
 * them, if the function is shorter, or if the jump would lie on two pages. A branch to the first one is all right: it is a call once more.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reason;

#define ENTRY_JUMP_BYTES 5
#define ENTRY_MOVED_MAX 20 /* bytes: four of a short instruction, and one of 15 */
#define ENTRY_INSNS_MAX 5
#define ENTRY_MOVED_ROOM 64 /* the moved instructions with the jump behind them */
#define ENTRY_PATCHES_MAX 128
#define ENTRY_FAULT_MAX 128

enum entry_insn_kind {
	ENTRY_COPY, /* the same bytes */
	ENTRY_RIP,  /* has an operand relative to its place */
	ENTRY_JCC,  /* a branch that becomes one of six bytes */
	ENTRY_JMP,  /* the last one */
	ENTRY_INSN_KIND_NR,
};

struct entry_insn {
	uint8_t size;
	uint8_t kind;
	uint8_t at; /* of its displacement: 4 bytes, or 1 in a short branch */
	uint8_t displacement_bytes;
};

struct entry_patch {
	uint64_t vaddr;	 /* of the first instruction that moves: the function, or behind its endbr64 */
	uint64_t offset; /* of the same place in the file */
	uint32_t name;	 /* index into allocator_functions[] */
	uint32_t skipped; /* bytes of endbr64 */
	uint32_t calls_giver; /* it calls, or jumps to, another function that gives blocks, or itself */
	uint32_t calls_taker; /* … that frees blocks */
	uint32_t passes_on;   /* it calls a giver by its name: perhaps another file's */
	uint32_t goes_out;    /* it calls or jumps out of itself */
	uint32_t insn_nr;
	struct entry_insn insn[ENTRY_INSNS_MAX];
	uint8_t code[ENTRY_MOVED_MAX];
	char fault[ENTRY_FAULT_MAX]; /* why it cannot be done, or "" */
};

struct entry_patches {
	uint64_t nr; /* each address once */
	struct entry_patch *patch;
};

/* The functions of the heap: those without blocks (mmap) are left out. Errors as from probe_info_read(). */
int entry_patches_read(int fd, struct entry_patches *ret, struct reason *why);
void entry_patches_release(struct entry_patches *patches);

/* Checks what another process sent, for a file of this size. */
bool entry_patches_are_sound(const struct entry_patches *patches, uint64_t file_bytes);

/* The number of bytes that move. */
size_t entry_patch_moved_bytes(const struct entry_patch *patch);

/*
 * Writes the instructions as they run at address `to`, and the jump behind them, if the function lies at `from`. Returns
 * the number of bytes; 0: something is out of reach. ret_at gets the place of each instruction.
 */
size_t entry_patch_move(const struct entry_patch *patch, uint64_t from, uint64_t to, uint8_t code[ENTRY_MOVED_ROOM],
			uint8_t ret_at[ENTRY_INSNS_MAX]);

#endif
