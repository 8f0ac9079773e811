// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "inject/injected_file.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/reason.h"

#define PAGE UINT64_C(4096)

__asm__(".pushsection .rodata\n"
	".balign 16\n"
	"injected_sampler_start:\n"
	".incbin \"injected.so\"\n"
	"injected_sampler_end:\n"
	".balign 16\n"
	"injected_hooks_start:\n"
	".incbin \"python_hooks.so\"\n"
	"injected_hooks_end:\n"
	".balign 16\n"
	"injected_malloc_hooks_start:\n"
	".incbin \"malloc_hooks.so\"\n"
	"injected_malloc_hooks_end:\n"
	".popsection\n");

extern const uint8_t injected_sampler_start[], injected_sampler_end[], injected_hooks_start[], injected_hooks_end[];
extern const uint8_t injected_malloc_hooks_start[], injected_malloc_hooks_end[];

static uint64_t page_floor(uint64_t address)
{
	return address & ~(PAGE - 1);
}

static uint64_t page_ceil(uint64_t address)
{
	return page_floor(address + PAGE - 1);
}

static const Elf64_Ehdr *elf_head(const struct injected_file *file)
{
	return (const Elf64_Ehdr *)file->byte;
}

static int add_mapped_segment(struct injected_file *file, const Elf64_Phdr *head)
{
	struct injected_segment *segment = &file->segment[file->segment_nr];
	uint64_t end = page_ceil(head->p_vaddr + head->p_memsz);

	if (file->segment_nr == INJECTED_SEGMENTS_MAX || page_floor(head->p_vaddr) < file->end ||
	    (head->p_filesz && head->p_filesz != head->p_memsz))
		return -EIO;
	*segment = (struct injected_segment){
		.vaddr = page_floor(head->p_vaddr),
		.bytes = end - page_floor(head->p_vaddr),
		.offset = page_floor(head->p_offset),
		.prot = PROT_READ | (head->p_flags & PF_W ? PROT_WRITE : 0) | (head->p_flags & PF_X ? PROT_EXEC : 0),
		.is_zero = !head->p_filesz,
	};
	if (head->p_flags & PF_X)
		file->text_end = end;
	file->end = end;
	file->segment_nr++;
	return 0;
}

int injected_file_open(enum inject_kind kind, struct injected_file *ret)
{
	static const uint8_t *const start[] = { [INJECT_SAMPLER] = injected_sampler_start, [INJECT_HOOKS] = injected_hooks_start,
						[INJECT_MALLOC_HOOKS] = injected_malloc_hooks_start };
	static const uint8_t *const end[] = { [INJECT_SAMPLER] = injected_sampler_end, [INJECT_HOOKS] = injected_hooks_end,
					      [INJECT_MALLOC_HOOKS] = injected_malloc_hooks_end };
	const Elf64_Phdr *head;
	int err = 0;

	*ret = (struct injected_file){ start[kind], end[kind] - start[kind] };
	head = (const Elf64_Phdr *)(ret->byte + elf_head(ret)->e_phoff);
	for (int i = 0; i < elf_head(ret)->e_phnum && !err; i++)
		if (head[i].p_type == PT_LOAD)
			err = add_mapped_segment(ret, &head[i]);
	return err ?: ret->segment_nr && !ret->segment[0].vaddr && !ret->segment[0].offset && ret->text_end ? 0 : -EIO;
}

uint64_t injected_file_symbol(const struct injected_file *file, const char *name, uint64_t *ret_bytes)
{
	const Elf64_Shdr *section = (const Elf64_Shdr *)(file->byte + elf_head(file)->e_shoff);

	for (int i = 0; i < elf_head(file)->e_shnum; i++) {
		const Elf64_Sym *symbol = (const Elf64_Sym *)(file->byte + section[i].sh_offset);
		const char *names = (const char *)file->byte + section[section[i].sh_link].sh_offset;

		if (section[i].sh_type != SHT_SYMTAB)
			continue;
		for (size_t k = 0; k < section[i].sh_size / sizeof(*symbol); k++) {
			if (strcmp(names + symbol[k].st_name, name) || !symbol[k].st_value)
				continue;
			if (ret_bytes)
				*ret_bytes = symbol[k].st_size;
			return symbol[k].st_value;
		}
	}
	return 0;
}

/* The place in the file of an address that lies in it; SIZE_MAX: it does not. */
static size_t offset_in_file(const struct injected_file *file, uint64_t vaddr)
{
	for (uint32_t i = 0; i < file->segment_nr; i++) {
		const struct injected_segment *segment = &file->segment[i];

		if (!segment->is_zero && vaddr - segment->vaddr < segment->bytes)
			return vaddr - segment->vaddr + segment->offset;
	}
	return SIZE_MAX;
}

/* ---- its image ---- */

int injected_image_make(const struct injected_file *file, uint64_t room, uint64_t more_bytes, uint64_t start,
			struct injected_image *ret, struct reason *why)
{
	uint64_t table_at = page_ceil(file->bytes) + more_bytes;

	*ret = (struct injected_image){ .bytes = table_at + INJECTED_TABLE_BYTES };
	ret->byte = calloc(1, ret->bytes);
	if (!ret->byte)
		return reason_set(why, -ENOMEM, "out of memory");
	ret->table = (struct injected_table *)(ret->byte + table_at);
	memcpy(ret->byte, file->byte, file->bytes);
	ret->table->version = INJECTED_VERSION;
	ret->table->start = start;
	ret->table->end = start + room;
	ret->table->text_end = start + file->text_end;
	return 0;
}

void injected_image_release(struct injected_image *image)
{
	free(image->byte);
	*image = (struct injected_image){};
}

uint64_t injected_image_copies(const struct injected_image *image)
{
	return (const uint8_t *)image->table - image->byte - image->table->page_nr * PAGE;
}

void *injected_image_at(const struct injected_image *image, const struct injected_file *file, uint64_t vaddr)
{
	size_t offset = vaddr ? offset_in_file(file, vaddr) : SIZE_MAX;

	return offset < file->bytes ? image->byte + offset : NULL;
}
