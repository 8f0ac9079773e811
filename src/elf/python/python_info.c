// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/python/python_info.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf/argument_source.h"
#include "elf/elf_object_private.h"
#include "elf/python/python_private.h"

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
