// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/runtime_detect.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "elf/elf_object.h"
#include "elf/known_functions.h"

const struct stack_switch stack_switches[] = {
	{ "swapcontext", "switches stacks (swapcontext)" },
	{ "makecontext", "switches stacks (makecontext)" },
	{ "jump_fcontext", "switches stacks (Boost.Context)" },
	{ "make_fcontext", "switches stacks (Boost.Context)" },
	{ "ontop_fcontext", "switches stacks (Boost.Context)" },
	{ "bthread_jump_fcontext", "switches stacks (bthread)" },
	{ "co_switch", "switches stacks (libco)" },
	{ "coctx_swap", "switches stacks (libco)" },
	{ "acosw", "switches stacks (libaco)" },
	{ "coro_transfer", "switches stacks (libcoro)" },
	{ "_mco_switch", "switches stacks (minicoro)" },
	{ "coroutine_transfer", "switches stacks (Ruby's fibers)" },
	{ "qemu_coroutine_switch", "switches stacks (QEMU's coroutines)" },
	{ "pth_yield", "switches stacks (GNU Pth)" },
	{ "st_thread_create", "switches stacks (State Threads)" },
	{ "__splitstack_getcontext", "switches stacks (split stacks)" },
	{ "__morestack", "switches stacks (split stacks)" },
	{ "runtime.morestack", "is a Go program" },
	{ "runtime.mcall", "is a Go program" },
	{ ".note.go.buildid", "is a Go program" },
	{ ".go.buildinfo", "is a Go program" },
	{ ".gopclntab", "is a Go program" },
	{ ".data.rel.ro.gopclntab", "is a Go program" },
	{ ".go.module", "is a Go program" },
};

const size_t stack_switch_nr = ARRAY_SIZE(stack_switches);

int stack_switch_find(struct elf_object *elf, size_t *ret_index)
{
	const char *name[ARRAY_SIZE(stack_switches)];

	for (size_t i = 0; i < ARRAY_SIZE(stack_switches); i++)
		name[i] = stack_switches[i].name;
	return elf_object__find_name(elf, name, ARRAY_SIZE(name), ret_index);
}

const char *object_trait_text(enum object_trait trait)
{
	static const char *const text[] = {
#define X(NAME, what) what,
		OBJECT_TRAITS(X)
#undef X
	};

	return text[trait];
}

#define NAMES_MAX 5

/*
 * A file has the trait if it has one of these names: of a symbol, defined or referenced, or of a
 * section.
 */
static const struct {
	enum object_trait trait;
	const char *name[NAMES_MAX];
} rows[] = {
	{ TRAIT_INTERPRETER, { ".interp" } },
	{ TRAIT_SYMTAB, { ".symtab" } },
	{ TRAIT_MINI_SYMTAB, { ".gnu_debugdata" } },
	{ TRAIT_DEBUG_INFO, { ".debug_info", ".zdebug_info" } },
	{ TRAIT_EH_FRAME, { ".eh_frame" } },
	{ TRAIT_GO, { ".gopclntab", ".data.rel.ro.gopclntab", ".go.buildinfo", "runtime.mallocgc" } },
	{ TRAIT_PYTHON, { "PyObject_Malloc" } },
	{ TRAIT_V8, { "_ZN2v87Isolate10GetCurrentEv" } },
	{ TRAIT_JVM, { "JVM_GC" } },
	{ TRAIT_DOTNET, { "coreclr_initialize" } },
	{ TRAIT_RUBY, { "ruby_xmalloc" } },
	{ TRAIT_PHP, { "_emalloc" } },
	{ TRAIT_OCAML, { "caml_alloc_shr" } },
	{ TRAIT_HASKELL, { "hs_init" } },
	{ TRAIT_LUAJIT, { "luaJIT_setmode" } },
	{ TRAIT_BOEHM_GC, { "GC_malloc" } },
	{ TRAIT_RUST, { "rust_eh_personality", "rust_begin_unwind", "rust_panic" } },
	{ TRAIT_JEMALLOC, { "je_malloc", "je_mallocx", "_rjem_malloc", "_rjem_mallocx", "_rjem_je_malloc_default" } },
	{ TRAIT_TCMALLOC, { "tc_malloc", "TCMallocInternalMalloc" } },
	{ TRAIT_MIMALLOC, { "mi_malloc", "_mi_malloc_generic" } },
};

static size_t names_in(const char *const name[NAMES_MAX])
{
	size_t nr = 0;

	while (nr < NAMES_MAX && name[nr])
		nr++;
	return nr;
}

static int find_by_names(struct elf_object *elf, struct runtime_traits *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		size_t found;
		int err = elf_object__find_name(elf, rows[i].name, names_in(rows[i].name), &found);

		if (err && err != -ENOENT)
			return err;
		if (!err)
			ret->bits |= 1ull << rows[i].trait;
	}
	return 0;
}

int runtime_heap_find(struct elf_object *elf, uint64_t *ret_bits)
{
	const char *name[ARRAY_SIZE(rows) * NAMES_MAX];
	enum object_trait trait[ARRAY_SIZE(name)];
	size_t nr = 0, found;
	int err;

	*ret_bits = 0;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		for (size_t k = 0; RUNTIME_HEAP_BITS >> rows[i].trait & 1 && k < names_in(rows[i].name); k++) {
			trait[nr] = rows[i].trait;
			name[nr++] = rows[i].name[k];
		}
	err = elf_object__find_name(elf, name, nr, &found);
	if (!err)
		*ret_bits = 1ull << trait[found];
	return err == -ENOENT ? 0 : err;
}

/* A static PIE may have a local malloc: no other file can see the symbol, and it gets no probe. */
static int find_local_malloc(struct elf_object *elf, struct runtime_traits *ret)
{
	static const char *const name[] = { "malloc" };
	struct elf_function *found;
	size_t nr;
	int err = elf_object__find_functions(elf, name, ARRAY_SIZE(name), &found, &nr);

	if (err)
		return err == -ENOMEM ? err : 0;
	for (size_t i = 0; i < nr; i++)
		if (found[i].is_local)
			ret->bits |= TRAIT_BIT(LOCAL_MALLOC);
	free(found);
	return 0;
}

static int find_new_pool(struct elf_object *elf, struct runtime_traits *ret)
{
	bool has_pool;
	int err = heap_owner_has_pool(elf, &has_pool);

	if (!err && has_pool)
		ret->bits |= TRAIT_BIT(NEW_POOL);
	return err;
}

/* The panics of Rust's standard library name its source files, even in a stripped file. */
#define RUST_TEXT "library/std/src/"
#define SEARCHED_MAX (64u << 20)

/* Only as part of a path: this program itself contains the text, too. */
static bool names_rust(const char *block, size_t bytes)
{
	const char *at = bytes ? memmem(block + 1, bytes - 1, RUST_TEXT, sizeof(RUST_TEXT) - 1) : NULL;

	return at && at[-1] == '/';
}

static bool is_rust(const struct elf_object *elf)
{
	const size_t bytes = 1 << 20, overlap = sizeof(RUST_TEXT);
	char *block = malloc(bytes);
	bool found = false;
	size_t got = bytes;

	for (uint64_t at = 0; block && !found && got == bytes && at < SEARCHED_MAX; at += bytes - overlap) {
		got = elf_object__read_some(elf, at, block, bytes);
		found = names_rust(block, got);
	}
	free(block);
	return found;
}

/*
 * Only programs are searched for Rust: libraries would take long, and every library written in Rust
 * would match.
 */
static bool is_main_program(const struct runtime_traits *traits)
{
	return traits->bits & TRAIT_BIT(INTERPRETER) || !(traits->bits & TRAIT_BIT(DYNAMIC));
}

int runtime_traits_read(int fd, struct runtime_traits *ret, struct reason *why)
{
	struct elf_object *elf = elf_object__open(fd, why);
	struct runtime_traits traits = {};
	int err;

	if (!elf)
		return -errno;
	if (elf_object__is_dynamic(elf))
		traits.bits |= TRAIT_BIT(DYNAMIC);
	err = find_by_names(elf, &traits);
	err = err ?: find_local_malloc(elf, &traits) ?: find_new_pool(elf, &traits);
	if (!err && is_main_program(&traits) && is_rust(elf))
		traits.bits |= TRAIT_BIT(RUST);
	elf_object__close(elf);
	if (err)
		return reason_set(why, err, "its symbols make no sense");
	*ret = traits;
	return 0;
}
