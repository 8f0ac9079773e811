// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "inject/sampler_image.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/reason.h"
#include "inject/hooks.h"
#include "inject/inject_private.h"
#include "elf/allocators.h"
#include "sampler/sampler_info.h"

struct building {
	const struct injected_file *file;
	const struct inject_allocator *allocator;
	const struct planned_allocator *planned;
	struct injected_image *image;
	uint64_t start, first; /* of this sampler, and of the first one of the process */
};

bool injected_jump(const struct injected_table *table, uint64_t function, uint8_t ret[ENTRY_JUMP_BYTES])
{
	uint64_t from = table->function[function].entry;
	int64_t distance = table->function[function].hook - (from + ENTRY_JUMP_BYTES);
	int32_t narrow = distance;

	ret[0] = 0xe9;
	memcpy(ret + 1, &narrow, sizeof(narrow));
	return narrow == distance && PAGE_OF(from) == PAGE_OF(from + ENTRY_JUMP_BYTES - 1);
}

uint64_t sampler_image_room(const struct injected_file *file, const struct inject_allocator *allocator)
{
	return file->end + allocator->page_nr * PAGE_BYTES;
}

static void *image_place_of(const struct building *building, uint64_t vaddr)
{
	return injected_image_at(building->image, building->file, vaddr);
}

/* ---- what the hooks need ---- */

struct hook_places {
	uint64_t hook[INJECTED_KIND_NR], trampolines, sites;
};

static int find_hook_places(const struct injected_file *file, struct hook_places *ret)
{
	static const char *const name[INJECTED_KIND_NR] = { "hook_malloc", "hook_calloc", "hook_free", "hook_outer", "hook_other" };

	*ret = (struct hook_places){
		.trampolines = injected_file_symbol(file, "trampolines", NULL),
		.sites = injected_file_symbol(file, "injected_sites", NULL),
	};
	for (int i = 0; i < INJECTED_KIND_NR; i++)
		if (!(ret->hook[i] = injected_file_symbol(file, name[i], NULL)))
			return -EIO;
	return ret->trampolines && ret->sites ? 0 : -EIO;
}

static uint64_t hook_of_site(const struct hook_places *places, uint32_t site)
{
	static const uint32_t nr[INJECTED_KIND_NR] = {
		INJECTED_MALLOC_SITES, INJECTED_CALLOC_SITES, INJECTED_FREE_SITES, INJECTED_OUTER_SITES, INJECTED_OTHER_SITES,
	};
	int kind = 0;

	while (site >= nr[kind])
		site -= nr[kind++];
	return places->hook[kind] + site * INJECTED_HOOK_BYTES;
}

static uint64_t trampoline_of_site(const struct building *building, const struct hook_places *places, uint32_t site)
{
	return building->start + places->trampolines + site * INJECTED_TRAMPOLINE_BYTES;
}

/* std::nothrow is the last argument: behind the size, or behind size and alignment. */
static uint64_t nothrow_argument(const char *name)
{
	return strstr(name, "align") ? 2 : 1;
}

static int fill_site(const struct building *building, const struct hook_places *places, uint32_t i)
{
	const struct planned_function *function = &building->planned->function[i];
	const struct allocator_function *row = &allocator_functions[function->patch.name];
	struct injected_site *site = image_place_of(building, places->sites + function->site * sizeof(*site));

	if (!site)
		return -EIO;
	*site = (struct injected_site){
		.trampoline = trampoline_of_site(building, places, function->site),
		.shape = row->shape,
		.flags = (row->of_heap ? INJECTED_OF_HEAP : 0) | (function->throws ? INJECTED_THROWS : 0) |
			 (function->is_above ? INJECTED_ABOVE : 0),
	};
	if (function->throws) {
		site->plain = trampoline_of_site(building, places, building->planned->function[function->plain].site);
		site->nothrow_argument = nothrow_argument(row->name);
	}
	return 0;
}

static int fill_trampoline(const struct building *building, const struct hook_places *places, uint32_t i,
			   struct reason *why)
{
	const struct planned_function *function = &building->planned->function[i];
	uint64_t at = trampoline_of_site(building, places, function->site);
	uint8_t *code = image_place_of(building, at - building->start), insn_at[ENTRY_INSNS_MAX];
	struct injected_table *table = building->image->table;
	uint64_t from = function->address;
	uint8_t jump[ENTRY_JUMP_BYTES];

	if (!code)
		return -EIO;
	if (!entry_patch_move(&function->patch, from, at, code, insn_at))
		return reason_set(why, -ENOTSUP, "the entry of %s would be out of reach", building->allocator->function[i].name);
	table->function[i].hook = building->start + hook_of_site(places, function->site);
	table->function[i].entry = from;
	if (!injected_jump(table, i, jump))
		return reason_set(why, -ENOTSUP, "a jump at the entry of %s would be out of reach, or on two pages",
				  building->allocator->function[i].name);
	for (uint32_t k = 0; k < function->patch.insn_nr; k++) {
		table->moved[table->moved_nr].from = from;
		table->moved[table->moved_nr++].to = at + insn_at[k];
		from += function->patch.insn[k].size;
	}
	return 0;
}

static int fill_common(const struct building *building)
{
	const struct injected_file *file = building->file;
	struct injected_common *common = image_place_of(building, injected_file_symbol(file, "injected_common", NULL));
	uint64_t slow = injected_file_symbol(file, "slow", NULL), slot_bytes = 0;

	if (!common || !slow)
		return -EIO;
	*common = (struct injected_common){
		.slots = building->first + injected_file_symbol(file, "injected_slots", &slot_bytes),
		.filter = building->first + injected_file_symbol(file, "injected_filter", NULL),
		.slow = building->first + slow,
		.outer = building->first + injected_file_symbol(file, "outer", NULL),
	};
	building->image->table->slots = common->slots;
	building->image->table->slot_nr = slot_bytes / INJECTED_SLOT_BYTES;
	return 0;
}

static int fill_exact(const struct building *building, const struct malloc_hooks *settings)
{
	struct malloc_hooks *hooks = image_place_of(building, injected_file_symbol(building->file, "malloc_hooks", NULL));

	if (!hooks)
		return -EIO;
	*hooks = *settings;
	memcpy(building->image->table->magic, INJECTED_HOOKS_MAGIC, sizeof(building->image->table->magic));
	fill_books(building->image->table, settings->books);
	return fill_on(building->file, "malloc_hooks_on", building->first, building->image->table);
}

/* The probes of the others are passed by no thread. Without sections they are no samplers to those that look for one. */
static void hide_probes(const struct building *building)
{
	Elf64_Ehdr *head = (Elf64_Ehdr *)building->image->byte;

	if (building->start == building->first)
		return;
	head->e_shoff = 0;
	head->e_shnum = head->e_shstrndx = 0;
}

static int fill_settings(const struct building *building, const struct sampler_image_options *options)
{
	struct sampler_info *info = image_place_of(building, injected_file_symbol(building->file, SAMPLER_INFO_SYMBOL, NULL));
	uint64_t *seed = image_place_of(building, injected_file_symbol(building->file, "countdown_seed", NULL));

	if (!info || !seed || getrandom(seed, sizeof(*seed), 0) != sizeof(*seed))
		return -EIO;
	info->interval = info->interval_most = info->interval_chosen = options->interval;
	if (options->has_unseen_new)
		info->flags |= SAMPLER_OPERATORS_UNSEEN;
	return 0;
}

/* ---- the allocator's pages ---- */

/* The file's bytes: another program's breakpoints are not in them. */
static void copy_pages(const struct building *building)
{
	struct injected_table *table = building->image->table;

	table->page_nr = building->allocator->page_nr;
	memcpy(building->image->byte + injected_image_copies(building->image), building->planned->original,
	       table->page_nr * PAGE_BYTES);
	for (uint32_t i = 0; i < table->page_nr; i++) {
		const struct inject_page *page = &building->allocator->page[i];

		table->offset[i] = page->offset;
		table->page[i].address = page->address;
		table->page[i].parked = building->start + building->file->end + i * PAGE_BYTES;
	}
	table->dev = building->allocator->dev;
	table->inode = building->allocator->inode;
}

/* ---- the whole ---- */

static int fill_image(const struct building *building, const struct sampler_image_options *options, struct reason *why)
{
	struct injected_table *table = building->image->table;
	struct hook_places places;
	int err = find_hook_places(building->file, &places);

	memcpy(table->magic, INJECTED_MAGIC, sizeof(table->magic));
	table->interval = options->interval;
	table->function_nr = building->allocator->function_nr;
	for (uint32_t i = 0; i < building->allocator->function_nr && !err; i++)
		err = fill_site(building, &places, i) ?: fill_trampoline(building, &places, i, why);
	copy_pages(building);
	hide_probes(building);
	err = err ?: fill_common(building);
	if (!err)
		err = options->exact ? fill_exact(building, options->exact) : fill_settings(building, options);
	return err;
}

int sampler_image_build(const struct injected_file *file, const struct inject_allocator *allocator,
			const struct planned_allocator *planned, const struct sampler_image_options *options,
			struct injected_image *ret, struct reason *why)
{
	struct building building = { file, allocator, planned, ret, options->start, options->first_start };
	int err = injected_image_make(file, sampler_image_room(file, allocator), allocator->page_nr * PAGE_BYTES,
				      options->start, ret, why);

	if (err)
		return err;
	why->text[0] = '\0';
	err = fill_image(&building, options, why);
	if (err && !*why->text)
		reason_set(why, err, "the sampler of %s cannot be built: %s", allocator->path, strerror(-err));
	if (err)
		injected_image_release(ret);
	return err;
}
