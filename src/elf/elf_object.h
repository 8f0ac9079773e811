/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_ELF_OBJECT_H
#define ALLOCSNAP_ELF_ELF_OBJECT_H

/*
 * The facts about a mapped ELF file that probing needs: its build-id, the addresses of given
 * functions, and the bytes there. The file is always given by a descriptor, never by a path.
 *
 * The file is not trusted: each number in it is checked against the file's size or a limit.
 * Everything is read, not mapped, so that a file that is truncated meanwhile causes an error and
 * not a signal. Only 64-bit files of this machine's own architecture are accepted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/reason.h"

struct elf_object;

/*
 * Opens the file behind fd. It duplicates fd, so the caller may close fd at once. Returns NULL and
 * errno: ENOEXEC the file is no ELF program or library (or a broken one), ENOTSUP it is 32-bit or
 * for another machine, ENOMEM, or the error of dup or fstat.
 */
struct elf_object *elf_object__open(int fd, struct reason *why);
struct elf_object *elf_object__open_of(int fd, uint16_t machine, struct reason *why); /* of another one (e_machine), to look at */
void elf_object__close(struct elf_object *obj); /* NULL is allowed */

/*
 * The NT_GNU_BUILD_ID note in lower-case hex, "" if the file has none; valid until close. It is found
 * by the program headers, so a file without section headers has one, too; else by the sections.
 */
const char *elf_object__build_id(const struct elf_object *obj);

uint16_t elf_object__machine(const struct elf_object *obj); /* e_machine */
uint64_t elf_object__entry(const struct elf_object *obj);   /* the vaddr where the program begins to run; 0: none */

/* Whether it has PT_DYNAMIC: a library, a program that uses libraries, or a static PIE. */
bool elf_object__is_dynamic(const struct elf_object *obj);

/* The loader that a program names (PT_INTERP), an absolute path that fits into the room; or "". */
void elf_object__interpreter(const struct elf_object *obj, char *text, size_t room);

struct elf_function {
	size_t name;	 /* index into the names that were searched */
	uint64_t vaddr;	 /* the symbol's value */
	uint64_t size;	 /* the symbol's size, 0 if the symbol has none; the code lies in the file */
	uint64_t offset; /* of its first byte in the file: the offset that a uprobe needs */
	bool is_ifunc;	 /* the code is a resolver that returns the function's address: do not probe it */
	bool is_local;	 /* STB_LOCAL, static in C: may be another function of the same name */
	uint8_t renamed; /* 1 + an index into the prefixes of known_functions.h; 0: its name is one that was searched */
};

int elf_function_compare(const void *a, const void *b); /* for qsort(): by name, then by address */

/*
 * Text before the ends of other functions' names: "je_arrow_" of je_arrow_mallocx, for the end "mallocx". The first few
 * that are found, each once.
 */
#define ELF_PREFIX_MAX 64 /* bytes, with the NUL */
#define ELF_PREFIXES_MAX 16
struct elf_prefixes {
	const char *const *end; /* what to look for */
	size_t end_nr;
	struct elf_prefix {
		size_t end; /* index */
		char text[ELF_PREFIX_MAX];
	} found[ELF_PREFIXES_MAX];
	size_t found_nr;
	bool are_more; /* or longer ones */
};

/*
 * The functions that the file defines under one of name[0 … name_nr), sorted by name index, then
 * address. It searches .dynsym, located as the loader does (PT_DYNAMIC; no section headers needed),
 * and .symtab. It ignores symbol versions ("memalign@GLIBC_2.2.5"). A (name, address) that occurs
 * twice is one function. Names that share an address are reported separately; the caller may merge
 * them. If name[] itself has duplicates, the first one counts.
 *
 * Not found: symbols whose address lies in no executable segment of the file, and symbols that
 * exist only in a separate debug file or in .gnu_debugdata.
 *
 * 0, and an array in *ret (NULL if empty) for the caller to free(); -ENOMEM; -ENOEXEC if the symbol
 * tables are malformed; -E2BIG if more than ELF_FUNCTIONS_MAX functions match.
 */
#define ELF_FUNCTIONS_MAX 4096
int elf_object__find_functions(struct elf_object *obj, const char *const *name, size_t name_nr,
			       struct elf_function **ret, size_t *ret_nr);

/* The same, with the prefixes of functions that have none of the names. */
int elf_object__find_functions_and_prefixes(struct elf_object *obj, const char *const *name, size_t name_nr,
					    struct elf_prefixes *prefixes, struct elf_function **ret, size_t *ret_nr);

/*
 * Whether the file defines or references a symbol, of any kind, under one of name[0 … name_nr), or
 * has a section of one of these names. Stores the index of the first one found. -ENOENT, or as
 * above.
 */
int elf_object__find_name(struct elf_object *obj, const char *const *name, size_t name_nr,
			  size_t *ret_name);

/*
 * The bounds of the function, or part of one, that contains an address, according to .eh_frame_hdr,
 * which the unwinder uses. 0 or -ENOENT.
 */
int elf_object__extent(const struct elf_object *obj, uint64_t vaddr, uint64_t *ret_start,
		       uint64_t *ret_end);

/*
 * The value that the loader writes to vaddr (a PLT's slot). Either the address of a function: its
 * name is in *ret_name, which the caller frees. Or the address that the resolver (STT_GNU_IFUNC) at
 * *ret_resolver returns: *ret_name is NULL then. 0; -ENOENT if there is no such relocation;
 * -ENOMEM.
 */
int elf_object__slot_function(const struct elf_object *obj, uint64_t vaddr, char **ret_name,
			      uint64_t *ret_resolver);

/*
 * The pointer that lies at vaddr after the loader's work, if it leads to the same file: as the file has it, or a
 * relocation. 0; -ENOENT: none, or it is in no segment.
 */
int elf_object__pointer_at(const struct elf_object *obj, uint64_t vaddr, uint64_t *ret);

/* A pointer that the loader writes for its own file: where it lies, and the address in the file that it leads to. */
struct elf_pointer {
	uint64_t at, to;
};

/*
 * All of them that relocations name, sorted by place. A program that always lies at the same address has no relocations for
 * them: the file has the addresses themselves. 0, and an array for the caller to free(); -ENOMEM.
 */
int elf_object__pointers(const struct elf_object *obj, struct elf_pointer **ret, size_t *ret_nr);

/*
 * The first word (8 bytes, at a multiple of 8) at or above `from` that is `want` under the mask, as the file has it. 0,
 * -ENOENT or -ENOMEM.
 */
int elf_object__find_word(const struct elf_object *obj, uint64_t from, uint64_t mask, uint64_t want, uint64_t *ret_vaddr);

/* Reads up to len bytes at a virtual address. Returns how many the file has there. */
size_t elf_object__read_at(const struct elf_object *obj, uint64_t vaddr, void *buf, size_t len);

/*
 * The file offset of vaddr, in a PT_LOAD segment that has all these flags, and the number of bytes
 * that follow in that segment. 0 or -ENOENT.
 */
int elf_object__locate(const struct elf_object *obj, uint64_t vaddr, uint32_t flags,
		       uint64_t *ret_offset, uint64_t *ret_left);

/* The file offset of a virtual address. 0; -ENOENT if no loaded segment has it. */
int elf_object__offset_of(const struct elf_object *obj, uint64_t vaddr, uint64_t *ret_offset);

/* Reads exactly len bytes at a file offset. 0, -ENODATA if the file ends before, or -errno. */
int elf_object__read(const struct elf_object *obj, uint64_t offset, void *buf, size_t len);

/* Reads up to len bytes at a file offset. Returns how many the file has. */
size_t elf_object__read_some(const struct elf_object *obj, uint64_t offset, void *buf, size_t len);

#endif
