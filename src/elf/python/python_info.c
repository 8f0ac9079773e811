// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/python/python_info.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "elf/argument_source.h"
#include "elf/elf_object.h"
#include "elf/elf_object_private.h"
#include "elf/placement.h"
#include "elf/python/python_private.h"
#include "elf/x86_registers.h"

/* The places for probes: entries of functions, and the bodies that python_inlined.c finds. */

#define ENTRY_ARGUMENTS 3 /* the context, and up to two more */

bool python_wants_call(const struct python_search *search, enum python_domain domain)
{
	enum python_pools_asked pools = search->asked ? search->asked->pools : PYTHON_POOLS_NOT;

	return pools == PYTHON_POOLS_NOT || (pools == PYTHON_POOLS_AND_LARGE && domain == PYTHON_RAW);
}

int python_add_site(struct python_search *search, const struct python_site *site)
{
	struct python_info *info = search->info;
	int err;

	if (site->operation < PYTHON_OPERATION_NR && !python_wants_call(search, site->domain))
		return 0;
	if (info->site_nr == PYTHON_SITES_MAX)
		return -E2BIG;
	err = array_reserve(&info->site, &search->site_alloc, info->site_nr + 1);
	if (err)
		return err;
	info->site[info->site_nr] = *site;
	if (elf_object__offset_of(search->elf, site->vaddr, &info->site[info->site_nr].offset))
		return 0; /* not in the file: it cannot be probed */
	info->creation_nr += site->operation == PYTHON_CREATION;
	info->inlined_nr += !site->is_entry && site->operation < PYTHON_OPERATION_NR;
	info->site_nr++;
	return 0;
}

/* ---- entries ---- */

#define IN(field, width) \
	{ .kind = ARGUMENT_REGISTER, .bytes = width, .scale = 1, .base = offsetof(struct x86_registers, field), \
	  .index = ARGUMENT_NO_REGISTER }

/* The functions of a table have the context in rdi. */
static const struct python_site entries[] = {
	[PYTHON_MALLOC] = { .size = IN(rsi, 8), .count = NO_ARGUMENT, .pointer = NO_ARGUMENT },
	[PYTHON_CALLOC] = { .size = IN(rdx, 8), .count = IN(rsi, 8), .pointer = NO_ARGUMENT },
	[PYTHON_REALLOC] = { .size = IN(rdx, 8), .count = NO_ARGUMENT, .pointer = IN(rsi, 8) },
	[PYTHON_FREE] = { .size = NO_ARGUMENT, .count = NO_ARGUMENT, .pointer = IN(rsi, 8) },
	[PYTHON_TRACK] = { .size = IN(rdx, 8), .count = IN(rdi, 4), .pointer = IN(rsi, 8) },
	[PYTHON_UNTRACK] = { .size = NO_ARGUMENT, .count = IN(rdi, 4), .pointer = IN(rsi, 8) },
	[PYTHON_CODE_END] = { .size = NO_ARGUMENT, .count = NO_ARGUMENT, .pointer = IN(rdi, 8) }, /* tp_dealloc(object) */
};

static int add_entry_site(struct python_search *search, uint64_t vaddr, enum python_domain domain,
		     enum python_operation operation)
{
	struct python_site site = entries[operation];
	struct python_code *code = &search->code;
	struct placement placement;
	uint64_t start, end;
	int err;

	if (!python_code__has(code, vaddr))
		return 0;
	if (!python_code__extent(code, vaddr, &start, &end) || start > vaddr)
		end = vaddr + 1;
	err = placement_find(&(struct placement_function){
				     .code = code->byte + (vaddr - code->start), .size = end - vaddr, .address = vaddr,
				     .elf_machine = elf_object__machine(search->elf), .argument_nr = ENTRY_ARGUMENTS,
				     .stack_may_move = true },
			     &placement);
	site.vaddr = vaddr + placement.offset;
	site.operation = operation;
	site.domain = domain;
	site.is_entry = 1;
	site.asks_letter = search->info->is_hooked && domain == PYTHON_RAW && operation < PYTHON_OPERATION_NR;
	return err ?: python_add_site(search, &site);
}

/* mem and obj often have the same functions. */
static bool is_listed(const struct python_site *site, uint32_t nr, uint64_t vaddr)
{
	for (uint32_t i = 0; i < nr; i++)
		if (site[i].vaddr == vaddr)
			return true;
	return false;
}

/* Each place once: of two functions at one address the first one counts, in this order. */
static void drop_last_if_listed(struct python_info *info)
{
	if (info->site_nr && is_listed(info->site, info->site_nr - 1, info->site[info->site_nr - 1].vaddr))
		info->site_nr--;
}

static int add_entries(struct python_search *search)
{
	static const enum python_domain order[] = { PYTHON_OBJECT, PYTHON_MEM, PYTHON_RAW };
	struct python_info *info = search->info;
	int err = 0;

	for (size_t i = 0; i < ARRAY_SIZE(order); i++)
		for (unsigned int k = 0; k < PYTHON_OPERATION_NR && !err; k++) {
			uint64_t wanted = search->asked ? search->asked->function[order[i]][k] : 0;

			err = add_entry_site(search, wanted ?: info->function[order[i]][k], order[i], k);
			drop_last_if_listed(info);
		}
	if (!err && search->symbol[SYMBOL_TRACK])
		err = add_entry_site(search, search->symbol[SYMBOL_TRACK], PYTHON_RAW, PYTHON_TRACK);
	if (!err && search->symbol[SYMBOL_UNTRACK])
		err = add_entry_site(search, search->symbol[SYMBOL_UNTRACK], PYTHON_RAW, PYTHON_UNTRACK);
	return err;
}

static int add_pool_sites(struct python_search *search)
{
	uint64_t code_end = python_code_end(search);
	int err = code_end ? add_entry_site(search, code_end, PYTHON_RAW, PYTHON_CODE_END) : 0;

	return err || !code_end || search->asked->pools == PYTHON_TRACKED_ONLY ? err : python_find_growth(search);
}

/* Places. 0, -ENOMEM, or -E2BIG: there are too many. */
static int python_find_sites(struct python_search *search)
{
	struct python_info *info = search->info;
	uint32_t kept = 0;
	int err;

	info->is_hooked = search->asked && search->asked->function[PYTHON_RAW][PYTHON_MALLOC];
	err = add_entries(search);
	if (!err && !info->is_hooked && !(search->asked && search->asked->pools == PYTHON_TRACKED_ONLY))
		err = python_find_inlined(search);
	if (!err && search->asked && search->asked->creations)
		err = python_find_creations(search);
	if (!err && search->asked && search->asked->pools)
		err = add_pool_sites(search);
	if (err)
		return err;
	if (info->site_nr)
		qsort(info->site, info->site_nr, sizeof(*info->site), array_by_number);
	for (uint32_t i = 0; i < info->site_nr; i++)
		if (!kept || info->site[kept - 1].vaddr != info->site[i].vaddr)
			info->site[kept++] = info->site[i];
	info->inlined_nr -= info->site_nr - kept;
	info->site_nr = kept;
	return 0;
}

bool python_info__refuse(struct python_info *info, const char *fmt, ...)
{
	va_list args;

	if (*info->fault)
		return false;
	va_start(args, fmt);
	vsnprintf(info->fault, sizeof(info->fault), fmt, args);
	va_end(args);
	return false;
}

/* The bounds of the code, and of the writable segments with .bss. */
static void find_segments(const struct elf_object *elf, struct python_info *info)
{
	GElf_Phdr segment;

	for (size_t i = 0; i < elf->segment_nr && gelf_getphdr(elf->elf, i, &segment); i++) {
		uint64_t end = segment.p_vaddr + segment.p_memsz;

		if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_W) || end < segment.p_vaddr)
			continue;
		if (!info->data_end || segment.p_vaddr < info->data_start)
			info->data_start = segment.p_vaddr;
		if (end > info->data_end)
			info->data_end = end;
	}
}

static int find_everything(struct python_search *search)
{
	struct python_info *info = search->info;
	int err;

	info->runtime = search->symbol[SYMBOL_RUNTIME];
	info->type_type = search->symbol[SYMBOL_TYPE_TYPE];
	info->text_start = search->code.start;
	info->text_end = search->code.start + search->code.size;
	find_segments(search->elf, info);
	if (!python_find_version(search) || !python_check_offsets(search) || !python_find_tables(search))
		return 0;
	python_find_pools(search);
	err = python_find_sites(search);
	if (err == -E2BIG)
		python_info__refuse(info, "it has more than %u places where it allocates", PYTHON_SITES_MAX);
	return err == -E2BIG ? 0 : err;
}

/* A CPython that cannot be recorded has a version, an address and a fault, and nothing else. */
static void keep_fault_only(struct python_info *info)
{
	struct python_info kept = { .version = info->version, .runtime = info->runtime };

	memcpy(kept.fault, info->fault, sizeof(kept.fault));
	free(info->site);
	*info = kept;
}

static int read_python(struct elf_object *elf, const struct python_asked *asked, struct python_info *ret,
		       struct reason *why)
{
	struct python_search search = { .elf = elf, .info = ret, .asked = asked };
	int err = python_find_symbols(&search);

	if (err)
		return err;
	err = python_code__open(&search.code, elf, why);
	if (err)
		return err;
	err = find_everything(&search);
	python_code__close(&search.code);
	return err;
}

int python_info_read(int fd, const struct python_asked *asked, struct python_info *ret, struct reason *why)
{
	struct elf_object *elf = elf_object__open(fd, why);
	int err;

	if (!elf)
		return -errno;
	*ret = (struct python_info){};
	err = read_python(elf, asked, ret, why);
	elf_object__close(elf);
	if (err) {
		python_info_release(ret);
		return reason_set(why, err, "%s", err == -ENOENT ? "not CPython" : strerror(-err));
	}
	if (*ret->fault)
		keep_fault_only(ret);
	return 0;
}

void python_info_release(struct python_info *info)
{
	free(info->site);
	*info = (struct python_info){};
}

/* ---- checks of data from another process ---- */

static bool is_sound_site(const struct python_info *info, uint32_t i, uint64_t file_bytes)
{
	const struct python_site *site = &info->site[i];

	return site->offset < file_bytes && site->vaddr >= info->text_start && site->vaddr < info->text_end &&
	       (!i || info->site[i - 1].vaddr < site->vaddr) && site->operation < PYTHON_OPERATION_MAX &&
	       site->domain < PYTHON_DOMAIN_NR && site->asks_zf <= 1 && site->is_entry <= 1 && site->asks_letter <= 1 &&
	       argument_source_is_sound(&site->size) && argument_source_is_sound(&site->count) && argument_source_is_sound(&site->pointer);
}

/* The offsets are not the other process's to choose. */
static bool has_known_offsets(const struct python_info *info)
{
	struct python_offsets offsets;

	return python_offsets_of(info->version, &offsets) && !memcmp(&offsets, &info->offsets, sizeof(offsets));
}

bool python_info_is_sound(const struct python_info *info, uint64_t file_bytes)
{
	if (!memchr(info->fault, '\0', sizeof(info->fault)) || info->site_nr > PYTHON_SITES_MAX ||
	    info->inlined_nr > info->site_nr || info->unknown_nr > PYTHON_SITES_MAX ||
	    info->creation_nr > info->site_nr)
		return false;
	if (*info->fault)
		return !info->site_nr;
	if (!has_known_offsets(info) || info->text_start >= info->text_end || info->pools.is_known > 1 || info->is_hooked > 1 ||
	    info->pools.in_interpreter > 2)
		return false;
	for (uint32_t i = 0; i < info->site_nr; i++)
		if (!is_sound_site(info, i, file_bytes))
			return false;
	return true;
}
