/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_MACHINE_H
#define ALLOCSNAP_ELF_MACHINE_H

/*
 * The machine that a file is for: what its instructions do, and which of them a probe may sit on. Every program has the
 * code for all machines, and a file's e_machine chooses.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where an instruction leads. */
enum flow {
	FLOW_ON, /* to the next one, as calls of the kernel do */
	FLOW_RETURN,
	FLOW_STOP,   /* it traps */
	FLOW_JUMP,   /* to the target */
	FLOW_BRANCH, /* on a condition */
	FLOW_CALL,
	FLOW_CALL_ANYWHERE,
	FLOW_JUMP_SLOT, /* to the address in the word at the target, as a PLT does */
	FLOW_CALL_SLOT,
	FLOW_JUMP_OFFSETS,   /* by a table of offsets */
	FLOW_JUMP_ADDRESSES, /* by a table of addresses, at the target */
	FLOW_JUMP_ANYWHERE,
	FLOW_UNKNOWN, /* `what` it is */
};

/* The changes by an instruction: bit i for the register of argument i. Flags and other registers do not count. */
#define CHANGES_ARGUMENTS 0xff
#define CHANGES_STACK 0x100 /* the stack pointer */
#define CHANGES_LINK 0x200  /* the register with the return address, on machines that have one */
#define CHANGES_MORE 0x400  /* memory; or what it changes is not known */

struct insn {
	uint64_t vaddr, target;
	uint32_t bytes, word; /* word: where instructions are words */
	enum flow flow;
	const char *what;
	uint16_t changes;
	bool is_emulated;  /* every kernel from 6.1 on emulates it under a uprobe */
	bool is_of_stub;   /* a PLT's stub may have it before its jump */
	bool is_long_nop;  /* a nop of five bytes: a probe goes behind it (placement.h) */
	bool is_ambiguous; /* which instruction is next depends on the processor */
	bool may_be_data;  /* what compilers do not write amid code that runs on */
};

/* Instructions before on the same line, as far as jumps depend on them; the last one first. */
#define EARLIER_NR 8
struct earlier {
	unsigned int what, to; /* as the machine numbers them; to: a register */
	uint64_t value;
};

struct insn_reader {
	const struct machine *machine;
	void *decoder; /* of the machine */
	struct earlier earlier[EARLIER_NR];
};

#define INSN_BYTES_MAX 15
#define STUB_BYTES_MAX 24
#define INSN_TEXT_MAX 64

/* Relocations by which the loader writes an address. */
enum relocation {
	RELOCATION_OTHER,
	RELOCATION_JUMP_SLOT, /* of a function that has a name */
	RELOCATION_GLOB_DAT,
	RELOCATION_ABSOLUTE, /* of a symbol, and more */
	RELOCATION_RELATIVE, /* in the same file */
	RELOCATION_IRELATIVE, /* that a function gives */
	RELOCATION_NR,
};

struct argument_source;
struct reason;

struct machine {
	uint16_t elf_machine;
	uint8_t step; /* bytes between places where an instruction may be */
	uint8_t argument_nr; /* registers that have arguments */
	uint16_t relocation[RELOCATION_NR]; /* their numbers */
	uint16_t register_bytes;    /* of the registers that a probe can read, at the begin of struct pt_regs */
	uint16_t argument_place[6]; /* of the arguments among them */
	int (*parse_operand)(const char **at, struct argument_source *ret, struct reason *why); /* operand_text.h */

	int (*open)(struct insn_reader *reader); /* NULL: needs no decoder */
	void (*close)(struct insn_reader *reader);
	/* The instruction at the first byte. False: it is none that is known. */
	bool (*read)(struct insn_reader *reader, const uint8_t *byte, size_t left, uint64_t vaddr, struct insn *ret);
	/* The text of the instruction that was read last. */
	void (*text)(const struct insn_reader *reader, const struct insn *insn, char text[INSN_TEXT_MAX]);

	/* Where a probe cannot sit; NULL: it can. */
	const char *(*refusal)(const uint8_t *code, size_t size);
	bool (*is_long_nop)(const uint8_t *code, size_t size); /* placement.h; NULL: the machine has no such nops */
	/* Whether a USDT probe may sit there: it does nothing. */
	bool (*is_nop)(const uint8_t *code, size_t size);
	/* Whether a call may return to `code`. Up to `before` bytes before it and `after` bytes from it on can be read. */
	bool (*follows_call)(const uint8_t *code, size_t before, size_t after);
};

extern const struct machine machine_x86, machine_a64;

/* NULL: none that is known. */
const struct machine *machine_of(uint16_t elf_machine);
uint16_t machine_here(void); /* e_machine of the running program */

/* 0; -ENOTSUP: no machine that is known; -ENOMEM. To be closed in any case. */
int insn_reader__open(struct insn_reader *reader, uint16_t elf_machine);
void insn_reader__close(struct insn_reader *reader);

/* Before instructions of another line. */
void insn_reader__begin_line(struct insn_reader *reader);
void insn_reader__remember(struct insn_reader *reader, struct earlier earlier);

/* Whether the code, at most STUB_BYTES_MAX, is a stub of the PLT: it only jumps to what the loader writes to a slot. */
bool code_is_stub(const struct insn_reader *reader, const uint8_t *code, size_t size, uint64_t vaddr, uint64_t *ret_slot);

#endif
