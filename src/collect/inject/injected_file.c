// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/inject/injected_file.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE UINT64_C(4096)

__asm__(".pushsection .rodata\n"
	".balign 16\n"
	"injected_file_start:\n"
	".incbin \"injected.so\"\n"
	"injected_file_end:\n"
	".popsection\n");

extern const uint8_t injected_file_start[], injected_file_end[];

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

int injected_file_open(struct injected_file *ret)
{
	const Elf64_Phdr *head;
	int err = 0;

	*ret = (struct injected_file){ injected_file_start, injected_file_end - injected_file_start };
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

size_t injected_file_offset(const struct injected_file *file, uint64_t vaddr)
{
	for (uint32_t i = 0; i < file->segment_nr; i++) {
		const struct injected_segment *segment = &file->segment[i];

		if (!segment->is_zero && vaddr - segment->vaddr < segment->bytes)
			return vaddr - segment->vaddr + segment->offset;
	}
	return SIZE_MAX;
}
