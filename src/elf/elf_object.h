/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_OBJECT_H
#define ALLOCSNAP_ELF_OBJECT_H

/*
 * What probing needs to know of an ELF file that a process maps: its build-id, where given
 * functions lie, and the bytes there. The file is only ever a descriptor, never a path.
 *
 * The file is not trusted: each number in it is checked against the file's size or a limit,
 * and everything is read, not mapped, so that a file cut short meanwhile is an error and not a
 * signal. 64-bit files of this machine's own kind only.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/reason.h"

struct elf_object;

/*
 * Opens the file behind fd, which is duplicated and may be closed at once. Returns NULL and
 * errno: ENOEXEC not an ELF program or library (or a broken one), ENOTSUP 32-bit, or for
 * another machine; else what dup or fstat gave, or ENOMEM.
 */
struct elf_object *elf_object__open(int fd, struct reason *why);
void elf_object__close(struct elf_object *obj); /* NULL is fine */

/*
 * The NT_GNU_BUILD_ID note in lower-case hex, "" if there is none; valid until close. Found by
 * the program headers, so that a file without section headers has one too; else by sections.
 */
const char *elf_object__build_id(const struct elf_object *obj);

uint16_t elf_object__machine(const struct elf_object *obj); /* e_machine */
uint64_t elf_object__entry(const struct elf_object *obj);   /* the vaddr where it begins to run; 0: none */

/* Has PT_DYNAMIC: a library, a program that uses some, or a static PIE. */
bool elf_object__is_dynamic(const struct elf_object *obj);

/* The loader that a program names (PT_INTERP), an absolute path that has room there; or "". */
void elf_object__interpreter(const struct elf_object *obj, char *text, size_t room);

struct elf_function {
	size_t name;	 /* index into the names asked for */
	uint64_t vaddr;	 /* the symbol's value */
	uint64_t size;	 /* the symbol's size, 0 if it says none; its code lies in the file */
	uint64_t offset; /* of its first byte in the file: what a uprobe wants */
	bool is_ifunc;	 /* the code is a resolver that returns the function: nothing to probe */
	bool is_local;	 /* STB_LOCAL, static in C: may be another function of the same name */
};

/*
 * The functions that the file defines under one of name[0 … name_nr), sorted by name index,
 * then address. Looks at .dynsym, which is found as the loader finds it (PT_DYNAMIC; no section
 * headers needed), and at .symtab; symbol versions ("memalign@GLIBC_2.2.5") are ignored, and a
 * (name, address) that occurs twice is one function. Names that share an address are each
 * reported: merging them is the caller's. If name[] itself has doubles, the first one counts.
 *
 * Not seen: symbols whose address lies in no executable segment of the file, and those that are
 * only in a separate debug file or in .gnu_debugdata.
 *
 * 0, and an array in *ret (NULL if empty) for the caller to free(); -ENOMEM; -ENOEXEC if the
 * symbol tables make no sense; -E2BIG if more than ELF_FUNCTIONS_MAX functions match.
 */
#define ELF_FUNCTIONS_MAX 4096
int elf_object__find_functions(struct elf_object *obj, const char *const *name, size_t name_nr,
			       struct elf_function **ret, size_t *ret_nr);

/*
 * Whether the file defines or wants a symbol, of whatever kind, under one of name[0 … name_nr), or
 * has a section of one of these names: the index of the first found. -ENOENT, or as above.
 */
int elf_object__find_name(struct elf_object *obj, const char *const *name, size_t name_nr,
			  size_t *ret_name);

/*
 * The function, or part of one, that an address belongs to, as .eh_frame_hdr tells it: where the
 * unwinder looks. 0 or -ENOENT.
 */
int elf_object__extent(const struct elf_object *obj, uint64_t vaddr, uint64_t *ret_start,
		       uint64_t *ret_end);

/*
 * What the loader writes to vaddr (a PLT's slot): the address of a function named *ret_name, which
 * the caller frees, or where that is NULL what the resolver (STT_GNU_IFUNC) at *ret_resolver
 * returns. 0; -ENOENT where no relocation says so, -ENOMEM.
 */
int elf_object__slot_function(const struct elf_object *obj, uint64_t vaddr, char **ret_name,
			      uint64_t *ret_resolver);

/* Reads up to len bytes at a virtual address: how many the file has there. */
size_t elf_object__read_at(const struct elf_object *obj, uint64_t vaddr, void *buf, size_t len);

/* Where a virtual address lies in the file. 0; -ENOENT if no loaded segment has it there. */
int elf_object__offset_of(const struct elf_object *obj, uint64_t vaddr, uint64_t *ret_offset);

/* Reads exactly len bytes at a file offset. 0, -ENODATA if the file ends before, or -errno. */
int elf_object__read(const struct elf_object *obj, uint64_t offset, void *buf, size_t len);

/* Up to len bytes there: how many the file has. */
size_t elf_object__read_some(const struct elf_object *obj, uint64_t offset, void *buf, size_t len);

#endif
