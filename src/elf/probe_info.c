// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/probe_info.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "elf/allocators.h"
#include "elf/elf_object.h"
#include "elf/known_functions.h"
#include "elf/returns.h"
#include "elf/runtime_detect.h"
#include "elf/text_copies.h"

/* The part of a function that is searched for a probe's place; functions are far smaller. */
#define CODE_MAX (64 << 10)

static size_t wanted_nr(const struct functions_wanted *wanted)
{
	return wanted ? wanted->nr : 0;
}

static unsigned int wanted_argument_nr(const struct functions_wanted *wanted, size_t name)
{
	const struct allocator_function *known = &allocator_functions[name];

	return name < allocator_function_nr ? shape_argument_nr(known->shape) + known->of_heap :
					      wanted->function[name - allocator_function_nr].argument_nr;
}

static int place_probe(struct elf_object *elf, const struct functions_wanted *wanted,
		       const struct elf_function *function, struct placement *ret)
{
	size_t size = function->size < CODE_MAX ? function->size : CODE_MAX;
	uint8_t *code = malloc(size ?: 1);
	int err;

	if (!code)
		return -ENOMEM;
	if (elf_object__read(elf, function->offset, code, size))
		size = 0; /* nothing to decode: the probe goes to the entry */
	err = placement_find(&(struct placement_function){
		.code = code,
		.size = size,
		.address = function->vaddr,
		.elf_machine = elf_object__machine(elf),
		.argument_nr = wanted_argument_nr(wanted, function->name),
	}, ret);
	free(code);
	return err;
}

/* Among wanted functions of one name the global ones win. If all are static, the first stands for all. */
static bool is_passed_over(const struct elf_function *found, size_t nr, size_t i)
{
	size_t first = i;

	if (!found[i].is_local || found[i].name < allocator_function_nr)
		return false;
	while (first && found[first - 1].name == found[i].name)
		first--;
	for (size_t j = first; j < nr && found[j].name == found[i].name; j++)
		if (!found[j].is_local || j < i)
			return true;
	return false;
}

static bool is_ambiguous_name(const struct elf_function *found, size_t nr, size_t i)
{
	return found[i].is_local && found[i].name >= allocator_function_nr && i + 1 < nr &&
	       found[i + 1].name == found[i].name;
}

static int take_functions(struct elf_object *elf, const struct functions_wanted *wanted,
			  const struct elf_function *found, size_t nr, struct probe_info *ret)
{
	int err = 0;

	ret->function = calloc(nr + 1, sizeof(*ret->function));
	if (!ret->function)
		return -ENOMEM;
	for (size_t i = 0; i < nr && !err; i++) {
		struct object_function *function = &ret->function[ret->function_nr];

		if (is_passed_over(found, nr, i))
			continue;
		if (ret->function_nr == OBJECT_FUNCTIONS_MAX)
			return -E2BIG;
		function->vaddr = found[i].vaddr;
		function->offset = found[i].offset;
		function->name = found[i].name;
		function->is_ifunc = found[i].is_ifunc;
		function->renamed = found[i].renamed;
		function->is_ambiguous = is_ambiguous_name(found, nr, i);
		ret->function_nr++;
		if (!found[i].is_ifunc && !function->is_ambiguous)
			err = place_probe(elf, wanted, &found[i], &function->placement);
	}
	return err;
}

static int read_functions(struct elf_object *elf, const struct functions_wanted *wanted,
			  struct probe_info *ret)
{
	struct known_functions known;
	int err = known_functions_find(elf, wanted, &known);

	if (err == -ENOMEM)
		return err;
	if (!err) {
		err = take_functions(elf, wanted, known.function, known.function_nr, ret);
		memcpy(ret->heap_prefix, known.prefix, sizeof(ret->heap_prefix));
		ret->has_more_heaps = known.has_more_heaps;
		known_functions_release(&known);
	}
	if (err == -ENOMEM)
		return err;
	ret->functions_err = err;
	if (err) {
		free(ret->function);
		ret->function = NULL;
		ret->function_nr = 0;
	}
	return 0;
}

static int read_signs(struct elf_object *elf, struct probe_info *ret)
{
	size_t row;
	int err = text_copy_find(elf, ret->function_nr, &row, &ret->nameless_heap);

	if (!err)
		ret->copies_text = row + 1;
	if (err != -ENOMEM)
		err = runtime_heap_find(elf, &ret->heaps);
	return err == -ENOMEM ? err : 0;
}

/* By which functions a program becomes another one. Libraries have such functions for their callers. */
static int read_exec(struct elf_object *elf, struct probe_info *ret)
{
	static const char *const execs[] = {
		"execve", "execv", "execvp", "execvpe", "execl", "execlp", "execle", "fexecve", "execveat",
	};
	static const char *const loaders[] = { "_r_debug", "_dl_debug_addr" }; /* glibc, musl: for debuggers */
	bool is_program = *ret->interpreter;
	size_t row;
	int err = is_program ? elf_object__find_name(elf, execs, ARRAY_SIZE(execs), &row) :
		  ret->entry ? elf_object__find_name(elf, loaders, ARRAY_SIZE(loaders), &row) : -ENOENT;

	ret->calls_exec = !err && is_program;
	ret->is_loader = !err && !is_program;
	return err == -ENOMEM ? err : 0;
}

/* Keeps places that the file has, or why they cannot be used. *ret has room for them then. */
static void keep_places(struct usdt_places **places, uint32_t *ret_has)
{
	*ret_has = (*places)->nr || *(*places)->fault;
	if (*ret_has)
		return;
	free(*places);
	*places = NULL;
}

static int read_sampler(struct elf_object *elf, struct probe_info *ret)
{
	ret->sampler = malloc(sizeof(*ret->sampler));
	if (!ret->sampler)
		return -ENOMEM;
	sampler_places_read(elf, ret->sampler);
	keep_places(&ret->sampler, &ret->has_sampler);
	return 0;
}

/* The rows of functions are none that a note can name. */
static int read_usdt(struct elf_object *elf, const struct functions_wanted *wanted, struct probe_info *ret)
{
	struct usdt_wanted probe[FUNCTIONS_WANTED_MAX] = {};

	if (!array_any(wanted_nr(wanted), i, wanted->function[i].is_usdt))
		return 0;
	ret->usdt = malloc(sizeof(*ret->usdt));
	if (!ret->usdt)
		return -ENOMEM;
	for (size_t i = 0; i < wanted->nr; i++) {
		probe[i].name = wanted->function[i].is_usdt ? wanted->function[i].name : "";
		memcpy(probe[i].position, wanted->function[i].position, sizeof(probe[i].position));
		memcpy(probe[i].constant, wanted->function[i].constant, sizeof(probe[i].constant));
	}
	usdt_places_read(elf, probe, wanted->nr, ret->usdt);
	keep_places(&ret->usdt, &ret->has_usdt);
	return 0;
}

int probe_info_read(int fd, const struct functions_wanted *wanted, struct probe_info *ret,
		      struct reason *why)
{
	struct elf_object *elf = elf_object__open(fd, why);
	int err;

	if (!elf)
		return -errno;
	*ret = (struct probe_info){ .entry = elf_object__entry(elf) };
	strcpy(ret->build_id, elf_object__build_id(elf));
	elf_object__interpreter(elf, ret->interpreter, sizeof(ret->interpreter));
	err = read_functions(elf, wanted, ret) ?: read_signs(elf, ret) ?: read_exec(elf, ret) ?:
	      read_sampler(elf, ret) ?: read_usdt(elf, wanted, ret);
	if (err)
		probe_info_release(ret);
	elf_object__close(elf);
	return err ? reason_set(why, err, "%s", strerror(-err)) : 0;
}

bool probe_info_has_places(const struct probe_info *probe_info)
{
	return probe_info->function_nr || probe_info->has_sampler || probe_info->has_usdt;
}

void probe_info_release(struct probe_info *probe_info)
{
	free(probe_info->function);
	free(probe_info->sampler);
	free(probe_info->usdt);
	memset(probe_info, 0, sizeof(*probe_info));
}

/* ---- checks of data from another process ---- */

static bool is_hex(const char *text, size_t room)
{
	size_t len = strspn(text, "0123456789abcdef");

	return len < room && !text[len] && len % 2 == 0;
}

static bool is_sound_placement(const struct placement *placement)
{
	bool moves = placement->why == PLACEMENT_EMULATED || placement->why == PLACEMENT_BEHIND_NOP;

	return placement->why <= PLACEMENT_BEHIND_NOP && placement->offset < CODE_MAX &&
	       (moves || !placement->offset) &&
	       memchr(placement->instruction, '\0', sizeof(placement->instruction));
}

static bool is_sound_function(const struct object_function *function,
			      const struct functions_wanted *wanted, uint64_t file_bytes)
{
	uint64_t left = function->offset < file_bytes ? file_bytes - function->offset : 0;

	return function->name < allocator_function_nr + wanted_nr(wanted) &&
	       function->is_ifunc <= 1 && function->is_ambiguous <= 1 && function->renamed <= HEAP_PREFIXES_MAX &&
	       (!function->renamed ||
		(function->name < allocator_function_nr && allocator_functions[function->name].prefix)) &&
	       is_sound_placement(&function->placement) && function->placement.offset < left;
}

static bool have_sound_prefixes(const struct probe_info *probe_info)
{
	for (size_t i = 0; i < HEAP_PREFIXES_MAX; i++)
		if (!memchr(probe_info->heap_prefix[i], '\0', sizeof(probe_info->heap_prefix[i])))
			return false;
	return true;
}

/* Each place is of a row that is a USDT probe: a function's would be probed as such. */
static bool have_sound_usdt(const struct probe_info *probe_info, const struct functions_wanted *wanted, uint64_t file_bytes)
{
	const struct usdt_places *usdt = probe_info->usdt;

	return probe_info->has_usdt <= 1 &&
	       (!usdt || (usdt_places_are_sound(usdt, wanted_nr(wanted), file_bytes) &&
			  !array_any(usdt->nr, i, !wanted->function[usdt->place[i].wanted].is_usdt)));
}

bool probe_info_are_sound(const struct probe_info *probe_info,
			    const struct functions_wanted *wanted, uint64_t file_bytes)
{
	if (!memchr(probe_info->build_id, '\0', sizeof(probe_info->build_id)) ||
	    !is_hex(probe_info->build_id, sizeof(probe_info->build_id)) ||
	    !memchr(probe_info->interpreter, '\0', sizeof(probe_info->interpreter)) ||
	    !have_sound_prefixes(probe_info) || probe_info->has_more_heaps > 1 ||
	    probe_info->function_nr > OBJECT_FUNCTIONS_MAX || probe_info->copies_text > text_copy_nr ||
	    probe_info->heaps & ~RUNTIME_HEAP_BITS ||
	    probe_info->nameless_heap > DOMAIN_MIMALLOC ||
	    probe_info->calls_exec > 1 || probe_info->is_loader > 1 || probe_info->has_sampler > 1 ||
	    (probe_info->sampler && !sampler_places_are_sound(probe_info->sampler, file_bytes)) ||
	    !have_sound_usdt(probe_info, wanted, file_bytes))
		return false;
	if (probe_info->functions_err &&
	    (probe_info->function_nr ||
	     (probe_info->functions_err != -ENOEXEC && probe_info->functions_err != -E2BIG)))
		return false;
	for (uint32_t i = 0; i < probe_info->function_nr; i++)
		if (!is_sound_function(&probe_info->function[i], wanted, file_bytes))
			return false;
	return true;
}

/* ---- where functions return ---- */

static int take_places(const struct elf_object *elf, const struct returns *found,
		       struct object_returns *ret, struct reason *why)
{
	if (found->place_nr > OBJECT_RETURNS_MAX)
		return reason_set(why, -ENOTSUP, "it returns at %zu places", found->place_nr);
	*ret = (struct object_returns){
		.place = calloc(found->place_nr + 1, sizeof(*ret->place)),
		.leads_to_probed = found->leads_to_probed,
	};
	if (!ret->place)
		return -ENOMEM;
	for (size_t i = 0; i < found->place_nr; i++) {
		struct object_return *place = &ret->place[ret->place_nr++];

		place->is_in_argument = found->place[i].is_in_argument;
		if (elf_object__offset_of(elf, found->place[i].vaddr, &place->offset))
			return reason_set(why, -ENOTSUP, "a return that is not in the file");
	}
	return 0;
}

int object_returns_read(int fd, uint64_t vaddr, struct object_returns *ret, struct reason *why)
{
	struct elf_object *elf = elf_object__open(fd, why);
	struct returns found = {};
	struct code_source source;
	struct elf_code code;
	int err;

	if (!elf)
		return -errno;
	*ret = (struct object_returns){};
	err = elf_code_open(&code, elf, &source);
	if (!err)
		err = returns_find(&source, vaddr, &found, why);
	if (!err)
		err = take_places(elf, &found, ret, why);
	returns_release(&found);
	if (err)
		object_returns_release(ret);
	elf_object__close(elf);
	return err;
}

void object_returns_release(struct object_returns *returns)
{
	free(returns->place);
	memset(returns, 0, sizeof(*returns));
}

bool object_returns_are_sound(const struct object_returns *returns, uint64_t file_bytes)
{
	if (returns->place_nr > OBJECT_RETURNS_MAX || returns->leads_to_probed > 1)
		return false;
	for (uint32_t i = 0; i < returns->place_nr; i++)
		if (returns->place[i].is_in_argument > 1 || returns->place[i].offset >= file_bytes)
			return false;
	return true;
}
