// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * against_libdw FILE…: our tables and elfutils' libdw, one step each, at the first byte of every
 * row of ours and of libdw's, the byte before and the byte behind. A line for each file:
 *
 *	STATUS TAB rows TAB addresses TAB unsupported TAB no fp TAB differences TAB FILE [TAB why]
 *
 * STATUS is same, differs, none (no call frame information: libdw finds none either) or error.
 */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unwind/unwind_table.h"

/*
 * A step from a frame to its caller, as libdw describes it: its expressions are worked out with
 * invented registers and an invented memory. A judge that shares no code with src/unwind.
 */

struct registers {
	uint64_t pc, sp, fp, link;
};

/* DWARF's numbers on the file's machine; the return address is a register that calls set on the second one. */
static struct numbers {
	int fp, sp, pc, link, return_address;
} numbers;

static const struct numbers on_x86_64 = { 6, 7, 16, -1, 16 }, on_arm64 = { 29, 31, -1, 30, 30 };

/* The word at an address, if there is one. */
typedef bool (*memory_fn)(void *memory, uint64_t address, uint64_t *ret);

enum told {
	TOLD,	       /* *ret is what the caller's register is */
	TOLD_UNDEFINED,
	TOLD_MORE,     /* it needs other registers or operations than these */
};

#define STACK_MAX 16

struct machine {
	const struct registers *registers;
	memory_fn read;
	void *memory;
	uint64_t cfa;
	uint64_t stack[STACK_MAX];
	unsigned int nr;
	bool is_more, is_value;
};

static void push(struct machine *machine, uint64_t value)
{
	if (machine->nr == STACK_MAX)
		machine->is_more = true;
	else
		machine->stack[machine->nr++] = value;
}

static uint64_t pop(struct machine *machine)
{
	if (machine->nr)
		return machine->stack[--machine->nr];
	machine->is_more = true;
	return 0;
}

static uint64_t register_value(struct machine *machine, uint64_t number)
{
	const struct registers *registers = machine->registers;

	if ((int)number == numbers.fp)
		return registers->fp;
	if ((int)number == numbers.sp)
		return registers->sp;
	if ((int)number == numbers.pc)
		return registers->pc;
	if ((int)number == numbers.link)
		return registers->link;
	machine->is_more = true;
	return 0;
}

static void binary(struct machine *machine, int atom)
{
	uint64_t right = pop(machine), left = pop(machine);

	switch (atom) {
	case DW_OP_plus:
		push(machine, left + right);
		break;
	case DW_OP_and:
		push(machine, left & right);
		break;
	case DW_OP_ge:
		push(machine, (int64_t)left >= (int64_t)right);
		break;
	case DW_OP_shl:
		push(machine, left << (right & 63));
		break;
	}
}

static void dereference(struct machine *machine)
{
	uint64_t value = 0;

	if (!machine->read(machine->memory, pop(machine), &value))
		machine->is_more = true;
	push(machine, value);
}

static void run_one(struct machine *machine, const Dwarf_Op *op)
{
	if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31) {
		push(machine, register_value(machine, op->atom - DW_OP_breg0) + op->number);
		return;
	}
	if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31) {
		push(machine, op->atom - DW_OP_lit0);
		return;
	}
	switch (op->atom) {
	case DW_OP_bregx:
		push(machine, register_value(machine, op->number) + op->number2);
		break;
	case DW_OP_call_frame_cfa:
		push(machine, machine->cfa);
		break;
	case DW_OP_plus_uconst:
		push(machine, pop(machine) + op->number);
		break;
	case DW_OP_deref:
		dereference(machine);
		break;
	case DW_OP_stack_value:
		machine->is_value = true;
		break;
	case DW_OP_plus:
	case DW_OP_and:
	case DW_OP_ge:
	case DW_OP_shl:
		binary(machine, op->atom);
		break;
	default:
		machine->is_more = true;
	}
}

static enum told run_all(struct machine *machine, const Dwarf_Op *ops, size_t nr, uint64_t *ret)
{
	for (size_t i = 0; i < nr; i++)
		run_one(machine, &ops[i]);
	*ret = pop(machine);
	return machine->is_more ? TOLD_MORE : TOLD;
}

static enum told evaluate_cfa(Dwarf_Frame *frame, const struct registers *registers, memory_fn read,
		       void *memory, uint64_t *ret)
{
	struct machine machine = { .registers = registers, .read = read, .memory = memory };
	Dwarf_Op *ops;
	size_t nr;

	if (dwarf_frame_cfa(frame, &ops, &nr) || !nr)
		return TOLD_MORE;
	return run_all(&machine, ops, nr, ret);
}

/* Also where the register is saved; 0: it isn't in memory. */
static enum told evaluate_register(Dwarf_Frame *frame, int number, const struct registers *registers,
			    memory_fn read, void *memory, uint64_t *ret, uint64_t *ret_at)
{
	struct machine machine = { .registers = registers, .read = read, .memory = memory };
	Dwarf_Op space[3], *ops;
	enum told told;
	size_t nr;

	*ret_at = 0;
	if (dwarf_frame_register(frame, number, space, &ops, &nr))
		return TOLD_MORE;
	if (!nr && ops)
		return TOLD_UNDEFINED;
	if (!nr) {
		*ret = register_value(&machine, number);
		return TOLD;
	}
	if (evaluate_cfa(frame, registers, read, memory, &machine.cfa) != TOLD)
		return TOLD_MORE;
	told = run_all(&machine, ops, nr, ret);
	if (told != TOLD || machine.is_value)
		return told;
	*ret_at = *ret;
	return read(memory, *ret_at, ret) ? TOLD : TOLD_MORE;
}

/* ---- invented registers, and a memory whose words are all above them ---- */

#define MEMORY_ABOVE 0x700000000000ULL

static bool invented(void *, uint64_t address, uint64_t *ret)
{
	*ret = MEMORY_ABOVE | (address * 0x9e3779b97f4a7c15ULL) >> 20;
	return true;
}

static struct registers registers_at(uint64_t pc)
{
	return (struct registers){ .pc = pc, .sp = 0x100000000000ULL, .fp = 0x200000000000ULL,
				    .link = 0x300000000000ULL };
}

struct unwind_memory {
	int unused;
};

static int unwind_memory__read(struct unwind_memory *memory, bpf_u64 address, bpf_u64 *ret_word)
{
	return !invented(memory, address, ret_word);
}

struct unwind_rows {
	const unwind_row *row;
};

static unwind_row unwind_rows__at(const struct unwind_rows *rows, bpf_u32 index)
{
	return rows->row[index];
}

#include "shared/unwind_step.h"

/* ---- libdw's answers ---- */

struct libdw {
	Elf *elf;
	Dwarf *dwarf;
	Dwarf_CFI *eh_frame, *debug_frame;
	Dwarf_Frame *frame; /* the last one asked for, for addresses [start, end) */
	Dwarf_Addr start, end;
	bool is_signal;
	int return_address; /* the register that functions there return to */
};

static void libdw__open(struct libdw *libdw, int fd)
{
	GElf_Ehdr header;

	*libdw = (struct libdw){ .elf = elf_begin(fd, ELF_C_READ_MMAP, NULL) };
	numbers = gelf_getehdr(libdw->elf, &header) && header.e_machine == EM_AARCH64 ? on_arm64 : on_x86_64;
	libdw->eh_frame = dwarf_getcfi_elf(libdw->elf);
	libdw->dwarf = dwarf_begin_elf(libdw->elf, DWARF_C_READ, NULL);
	if (libdw->dwarf)
		libdw->debug_frame = dwarf_getcfi(libdw->dwarf);
}

static void libdw__close(struct libdw *libdw)
{
	free(libdw->frame);
	dwarf_cfi_end(libdw->eh_frame);
	dwarf_end(libdw->dwarf); /* debug_frame is its */
	elf_end(libdw->elf);
}

static Dwarf_Frame *libdw__frame(struct libdw *libdw, uint64_t address)
{
	if (libdw->frame && address >= libdw->start && address < libdw->end)
		return libdw->frame;
	free(libdw->frame);
	libdw->frame = NULL;
	if (dwarf_cfi_addrframe(libdw->eh_frame, address, &libdw->frame) &&
	    dwarf_cfi_addrframe(libdw->debug_frame, address, &libdw->frame))
		libdw->frame = NULL;
	if (libdw->frame)
		libdw->return_address = dwarf_frame_info(libdw->frame, &libdw->start, &libdw->end, &libdw->is_signal);
	return libdw->frame;
}

/* ---- one address ---- */

struct file {
	const char *path;
	struct unwind_table *table;
	struct libdw libdw;
	uint64_t addresses, unsupported, no_fp, differences;
};

/* Whether rules could say it: the CFA is made of sp, fp and memory, and x86-64's return address lies below it. */
static bool can_be_said(Dwarf_Frame *frame, const struct registers *registers, uint64_t *ret_cfa,
			uint64_t *ret_pc, bool is_signal)
{
	uint64_t pc_at;

	return evaluate_cfa(frame, registers, invented, NULL, ret_cfa) == TOLD &&
	       evaluate_register(frame, numbers.return_address, registers, invented, NULL, ret_pc, &pc_at) == TOLD &&
	       (is_signal || numbers.link > 0 || pc_at == *ret_cfa - 8);
}

static bool same_fp(struct file *file, Dwarf_Frame *frame, const struct registers *registers,
		    const struct unwind_frame *ours)
{
	uint64_t fp, at;
	enum told told = evaluate_register(frame, numbers.fp, registers, invented, NULL, &fp, &at);

	file->no_fp += ours->is_fp_lost;
	return ours->is_fp_lost ? told != TOLD : told == TOLD && ours->fp == fp;
}

static bool same_caller(struct file *file, Dwarf_Frame *frame, const struct registers *registers,
			int end, const struct unwind_frame *ours)
{
	bool is_signal = file->libdw.is_signal;
	uint64_t cfa, pc;

	if (file->libdw.return_address != numbers.return_address || !can_be_said(frame, registers, &cfa, &pc, is_signal)) {
		file->unsupported++;
		return end == UNWIND_UNSUPPORTED;
	}
	if (!is_signal && (cfa < registers->sp || (cfa == registers->sp && pc != registers->link)))
		return end == UNWIND_BACKWARDS;
	return end == UNWIND_GOES_ON && ours->pc == pc && ours->sp == cfa &&
	       ours->is_exact == is_signal && same_fp(file, frame, registers, ours);
}

static bool same_step(struct file *file, uint64_t address)
{
	const struct registers registers = registers_at(address);
	struct unwind_frame ours = {
		.pc = registers.pc, .sp = registers.sp, .fp = registers.fp, .link = registers.link,
		.is_exact = 1,
	};
	struct unwind_rule rule = unwind_table__rule(file->table, unwind_rule_address(&ours));
	int end = unwind_step(rule, &ours, NULL);
	Dwarf_Frame *frame = libdw__frame(&file->libdw, address);
	uint64_t pc, at;

	if (!frame)
		return end == UNWIND_NO_RULE;
	if (evaluate_register(frame, numbers.return_address, &registers, invented, NULL, &pc, &at) == TOLD_UNDEFINED)
		return end == UNWIND_ROOT;
	return same_caller(file, frame, &registers, end, &ours);
}

/* ---- a file ---- */

#define SHOWN_MAX 5

static void check(struct file *file, uint64_t address)
{
	file->addresses++;
	if (same_step(file, address))
		return;
	if (file->differences++ < SHOWN_MAX)
		fprintf(stderr, "%s: %#" PRIx64 ": cfa kind %u, libdw has %s\n", file->path, address,
			unwind_table__rule(file->table, address).cfa_kind,
			libdw__frame(&file->libdw, address) ? "a row" : "nothing");
}

/* Between two addresses there is each row of libdw; and no row where libdw has none. */
static void check_between(struct file *file, uint64_t address, uint64_t next)
{
	while (libdw__frame(&file->libdw, address) && file->libdw.end < next) {
		address = file->libdw.end;
		check(file, address);
	}
}

static void check_row(struct file *file, uint64_t address, uint64_t *last)
{
	for (uint64_t at = address ? address - 1 : 0; at <= address + 1; at++) {
		if (at <= *last)
			continue;
		check_between(file, *last, at);
		check(file, at);
		*last = at;
	}
}

static void check_rows(struct file *file)
{
	const struct unwind_table *table = file->table;
	uint64_t last = 0;

	for (uint32_t page = 0; page < table->page_nr; page++)
		for (uint32_t row = table->page[page]; row < table->page[page + 1]; row++)
			check_row(file,
				  (table->first_page + page) << UNWIND_PAGE_SHIFT |
					  UNWIND_ROW_ADDRESS(table->row[row]),
				  &last);
}

static void log_info(const struct file *file, const char *status, const char *why)
{
	printf("%s\t%u\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%s\t%s\n", status,
	       file->table ? file->table->row_nr : 0, file->addresses, file->unsupported, file->no_fp,
	       file->differences, file->path, why);
	fflush(stdout);
}

static void compare(struct file *file, int fd)
{
	const struct unwind_table *table = file->table;

	libdw__open(&file->libdw, fd);
	check_rows(file);
	libdw__close(&file->libdw);
	file->differences += table->not_understood_nr + !unwind_table__is_sound(table);
	log_info(file, file->differences ? "differs" : "same",
	    table->not_understood_nr ? "entries that were not understood" : "");
}

static void run(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct file file = { .path = path };
	struct reason why = { "" };
	int err = fd < 0 ? -errno : unwind_table__from_file(fd, &file.table, &why);

	if (!err)
		compare(&file, fd);
	else
		log_info(&file, err == -ENODATA ? "none" : "error", *why.text ? why.text : strerror(-err));
	unwind_table__free(file.table);
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	elf_version(EV_CURRENT);
	for (int i = 1; i < argc; i++)
		run(argv[i]);
	return 0;
}
