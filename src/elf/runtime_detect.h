/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_RUNTIME_DETECT_H
#define ALLOCSNAP_ELF_RUNTIME_DETECT_H

/*
 * Properties of a file that explain why some of its allocations are not seen: how it is linked,
 * which functions it describes, which runtime it contains. Recording does not depend on them. To
 * report another runtime or allocator, add a line to the list and a row in runtime_detect.c.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/reason.h"

struct elf_object;

/* X(NAME, description). */
#define OBJECT_TRAITS(X) \
	X(DYNAMIC, "has a dynamic section: uses libraries, is one, or is a static PIE") \
	X(INTERPRETER, "names a loader: uses libraries") \
	X(SYMTAB, "has a full symbol table: is not stripped") \
	X(MINI_SYMTAB, "has its functions' names compressed (.gnu_debugdata)") \
	X(DEBUG_INFO, "has debug information of its own") \
	X(EH_FRAME, "has call frame information") \
	X(LOCAL_MALLOC, "has a malloc that is local to it") \
	X(NEW_POOL, "has an operator new that calls no allocator function by name") \
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

/* A file with one of them has names of functions that it does not export. */
#define TRAITS_OF_NAMES (TRAIT_BIT(SYMTAB) | TRAIT_BIT(MINI_SYMTAB) | TRAIT_BIT(DEBUG_INFO) | TRAIT_BIT(GO))

/*
 * Runtimes that get their heap from the kernel and divide it themselves, so that no allocator function shows what is in
 * it. X(NAME, "a word for its heap", "the heap", "a tool that shows what is in it").
 */
#define RUNTIME_HEAPS(X) \
	X(GO, "go-heap", "Go's heap", "net/http/pprof, GODEBUG=gctrace=1") \
	X(V8, "v8-heap", "JavaScript's heap", "start it with node --heap-prof, or --heapsnapshot-signal=SIGUSR2, which stops it for seconds") \
	X(JVM, "java-heap", "Java's heap", "--domain java, jcmd PID GC.class_histogram, -XX:NativeMemoryTracking") \
	X(DOTNET, "dotnet-heap", ".NET's heap", "dotnet-gcdump") \
	X(RUBY, "ruby-objects", "single Ruby objects", "ObjectSpace.dump_all") \
	X(PHP, "php-heap", "PHP's heap", "start it with USE_ZEND_ALLOC=0") \
	X(OCAML, "ocaml-heap", "OCaml's heap", "memtrace") \
	X(HASKELL, "haskell-heap", "Haskell's heap", "+RTS -h") \
	X(LUAJIT, "luajit-heap", "LuaJIT's heap", "collectgarbage('count')") \
	X(BOEHM_GC, "boehm-heap", "the collector's heap", "GC_PRINT_STATS=1")
#define RUNTIME_HEAP_BIT(NAME, word, what, tool) | TRAIT_BIT(NAME)
#define RUNTIME_HEAP_BITS (0 RUNTIME_HEAPS(RUNTIME_HEAP_BIT) | TRAIT_BIT(PYTHON))

struct runtime_traits {
	uint64_t bits; /* of enum object_trait */
};

/*
 * The bit of a file's runtime in RUNTIME_HEAP_BITS; if the file has two runtimes, the bit of one. 0, -ENOMEM, or
 * -ENOEXEC: its symbols make no sense.
 */
int runtime_heap_find(struct elf_object *elf, uint64_t *ret_bits);

/* The description of a trait. */
const char *object_trait_text(enum object_trait trait);

/* Errors as from probe_info_read(). */
int runtime_traits_read(int fd, struct runtime_traits *ret, struct reason *why);

/* Signs that an object switches stacks: symbols, defined or referenced, and sections. */

struct stack_switch {
	const char *name;
	const char *what; /* a description: "switches stacks (libco)" */
};

extern const struct stack_switch stack_switches[];
extern const size_t stack_switch_nr;

/* The first sign in an object. 0; -ENOENT, -ENOMEM, -ENOEXEC as from elf_object__find_name(). */
int stack_switch_find(struct elf_object *elf, size_t *ret_index);

#endif
