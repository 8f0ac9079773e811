// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "python_snippets.h"

#include <criterion/criterion.h>
#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int snippet_file(const struct snippet *snippet)
{
	static uint8_t bytes[3 * PAGE];
	const Elf64_Ehdr header = {
		.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT }, .e_type = ET_EXEC,
		.e_machine = EM_X86_64, .e_version = 1, .e_phoff = sizeof(header), .e_ehsize = sizeof(header),
		.e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 3,
	};
	const Elf64_Phdr segments[] = {
		{ PT_LOAD, PF_R | PF_X, PAGE, CODE, CODE, PAGE, PAGE, PAGE },
		{ PT_LOAD, PF_R, 2 * PAGE, FRAMES, FRAMES, PAGE, PAGE, PAGE },
		{ PT_GNU_EH_FRAME, PF_R, 2 * PAGE, FRAMES, FRAMES, 64, 64, 4 },
	};
	const struct {
		uint8_t encoding[4];
		int32_t eh_frame;
		uint32_t row_nr;
		int32_t start, description;
		uint32_t bytes, cie;
		int32_t function;
		uint32_t size;
	} frames = { { 1, 0x1b, 3, 0x3b }, 0, 1, CODE - FRAMES, 20, 16, 0, CODE - (FRAMES + 28), PAGE };
	int fd = memfd_create("made", MFD_CLOEXEC);

	memset(bytes, 0x90, sizeof(bytes));
	memcpy(bytes, &header, sizeof(header));
	memcpy(bytes + sizeof(header), segments, sizeof(segments));
	memcpy(bytes + PAGE, snippet->start, snippet->end - snippet->start);
	memcpy(bytes + 2 * PAGE, &frames, sizeof(frames));
	cr_assert_eq(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
	return fd;
}
