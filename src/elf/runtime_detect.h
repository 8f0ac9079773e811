/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_RUNTIME_DETECT_H
#define ALLOCSNAP_ELF_RUNTIME_DETECT_H

/*
 * Properties of a file that explain why some of its allocations are not seen: how it is linked,
 * which functions it describes, which runtime it contains. Recording does not depend on them. To
 * report another runtime or allocator, add a line to the list and a row in runtime_detect.c.
 */

#include <stdint.h>

#include "base/reason.h"

/* X(NAME, description). */
#define OBJECT_TRAITS(X) \
	X(DYNAMIC, "has a dynamic section: uses libraries, is one, or is a static PIE") \
	X(INTERPRETER, "names a loader: uses libraries") \
	X(SYMTAB, "has a full symbol table: is not stripped") \
	X(DEBUG_INFO, "has debug information of its own") \
	X(EH_FRAME, "has call frame information") \
	X(LOCAL_MALLOC, "has a malloc that is local to it") \
	X(GO, "Go") \
	X(PYTHON, "Python") \
	X(V8, "V8 (JavaScript)") \
	X(JVM, "a Java virtual machine") \
	X(DOTNET, ".NET") \
	X(RUBY, "Ruby") \
	X(PHP, "PHP") \
	X(OCAML, "OCaml") \
	X(HASKELL, "Haskell") \
	X(LUAJIT, "LuaJIT") \
	X(BOEHM_GC, "the Boehm-Demers-Weiser collector") \
	X(RUST, "Rust") \
	X(JEMALLOC, "jemalloc under names of its own") \
	X(TCMALLOC, "tcmalloc under names of its own") \
	X(MIMALLOC, "mimalloc under names of its own")

enum object_trait {
#define X(NAME, what) TRAIT_##NAME,
	OBJECT_TRAITS(X)
#undef X
	TRAIT_NR,
};

#define TRAIT_BIT(NAME) (1ull << TRAIT_##NAME)

struct runtime_traits {
	uint64_t bits; /* of enum object_trait */
};

/* The description of a trait. */
const char *object_trait_text(enum object_trait trait);

/* Errors as from probe_info_read(). */
int runtime_traits_read(int fd, struct runtime_traits *ret, struct reason *why);

#endif
