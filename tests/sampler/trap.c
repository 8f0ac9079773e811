// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "trap.h"

#include <elf.h>
#include <err.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

__thread struct events seen;
struct sampler_info *trap_info;
char trap_path[4096];

struct probe {
	const char *name;
	uint8_t *nop;
	volatile uint16_t *semaphore;
};

static struct probe probes[] = { { "free" }, { "alloc" } };
enum { FREE, ALLOC };

static void on_trap(int, siginfo_t *, void *context)
{
	const greg_t *reg = ((ucontext_t *)context)->uc_mcontext.gregs;
	bool is_alloc = (uint8_t *)reg[REG_RIP] == probes[ALLOC].nop + 1;

	if (!is_alloc && (uint8_t *)reg[REG_RIP] != probes[FREE].nop + 1)
		_exit(99);
	if (seen.nr < EVENTS_MAX)
		seen.event[seen.nr] = (struct event){ is_alloc, reg[REG_RDI], reg[REG_RSI], reg[REG_RDX] };
	seen.nr++;
}

/* ---- finding it ---- */

/* The preloaded library, or the first one of the injected files: only that one has sections. */
static bool is_sampler(const char *line, uint64_t start)
{
	return strstr(line, "liballocsnap-sampler") ||
	       (strstr(line, "/memfd:allocsnap-sampler") && ((const Elf64_Ehdr *)start)->e_shnum);
}

static uint64_t mapped_at(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long start, end, offset, found = 0;
	char line[4200];

	while (!found && maps && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx %*s %lx %*s %*s %4095s", &start, &end, &offset, trap_path) != 4 || offset ||
		    !is_sampler(line, start))
			continue;
		found = start;
		if (strstr(line, " (deleted)")) /* the memory file has no other name */
			snprintf(trap_path, sizeof(trap_path), "/proc/self/map_files/%lx-%lx", start, end);
	}
	if (maps)
		fclose(maps);
	if (!found)
		errx(2, "the library is not preloaded, and no sampler injected");
	return found;
}

/* INJECT: a command that injects into the process that is its last argument but one, with the interval that is the last. */
static void inject_here(void)
{
	const char *inject = getenv("INJECT");
	char command[4200];

	if (!inject)
		return;
	snprintf(command, sizeof(command), "%s %d %s >&2", inject, getpid(), getenv("INTERVAL") ?: "");
	if (system(command))
		errx(2, "%s fails", command);
}

static void read_note(const uint8_t *note, uint64_t base)
{
	const Elf64_Nhdr *head = (const Elf64_Nhdr *)note;
	const uint64_t *place = (const uint64_t *)(note + sizeof(*head) + ((head->n_namesz + 3) & ~3u));
	const char *provider = (const char *)&place[3], *name = provider + strlen(provider) + 1;
	const char *arguments = name + strlen(name) + 1;

	for (int i = FREE; i <= ALLOC; i++) {
		if (strcmp(provider, "otel_memory") || strcmp(name, probes[i].name))
			continue;
		if (probes[i].nop)
			errx(2, "%s: two probes of this name", name);
		if (strcmp(arguments, i == ALLOC ? "8@%rdi 8@%rsi 8@%rdx" : "8@%rdi"))
			errx(2, "%s: its arguments are \"%s\"", name, arguments);
		probes[i].nop = (uint8_t *)(base + place[0]);
		probes[i].semaphore = (uint16_t *)(base + place[2]);
	}
}

static void read_symbols(const uint8_t *file, const Elf64_Shdr *section, const Elf64_Shdr *strings, uint64_t base)
{
	const Elf64_Sym *symbol = (const Elf64_Sym *)(file + section->sh_offset);

	for (size_t i = 0; i < section->sh_size / sizeof(*symbol); i++)
		if (!strcmp((const char *)file + strings->sh_offset + symbol[i].st_name, SAMPLER_INFO_SYMBOL))
			trap_info = (struct sampler_info *)(base + symbol[i].st_value);
}

void trap_find_library(void)
{
	const Elf64_Ehdr *head;
	const Elf64_Shdr *section;
	const uint8_t *file;
	struct stat status;
	uint64_t base;
	int fd;

	inject_here();
	base = mapped_at();
	fd = open(trap_path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &status) ||
	    (file = mmap(NULL, status.st_size, PROT_READ, MAP_PRIVATE, fd, 0)) == MAP_FAILED)
		err(2, "%s", trap_path);
	close(fd);
	head = (const Elf64_Ehdr *)file;
	section = (const Elf64_Shdr *)(file + head->e_shoff);
	for (int i = 0; i < head->e_shnum; i++) {
		const char *name = (const char *)file + section[head->e_shstrndx].sh_offset + section[i].sh_name;
		const uint8_t *at = file + section[i].sh_offset, *end = at + section[i].sh_size;

		if (section[i].sh_type == SHT_DYNSYM)
			read_symbols(file, &section[i], &section[section[i].sh_link], base);
		while (!strcmp(name, ".note.stapsdt") && at < end) {
			const Elf64_Nhdr *note = (const Elf64_Nhdr *)at;

			read_note(at, base);
			at += sizeof(*note) + ((note->n_namesz + 3) & ~3u) + ((note->n_descsz + 3) & ~3u);
		}
	}
	if (!trap_info || !probes[FREE].nop || !probes[ALLOC].nop)
		errx(2, "%s: a probe or the symbol is missing", trap_path);
	if (memcmp(trap_info->magic, SAMPLER_INFO_MAGIC, 8) || trap_info->version != SAMPLER_INFO_VERSION ||
	    trap_info->bytes != sizeof(*trap_info))
		errx(2, "%s: wrong magic, version or size", trap_path);
}

/* ---- listening ---- */

static void write_byte(uint8_t *at, uint8_t from, uint8_t to)
{
	void *page = (void *)((uintptr_t)at & ~UINT64_C(4095));

	if (*at != from)
		errx(2, "a probe has the byte %02x", *at);
	if (mprotect(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC))
		err(2, "mprotect");
	*at = to;
	mprotect(page, 4096, PROT_READ | PROT_EXEC);
}

void trap_listen(void)
{
	struct sigaction action = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_RESTART };

	sigfillset(&action.sa_mask);
	sigaction(SIGTRAP, &action, NULL);
	for (int i = FREE; i <= ALLOC; i++) {
		write_byte(probes[i].nop, 0x90, 0xcc);
		++*probes[i].semaphore;
	}
}

void trap_stop_listening(void)
{
	for (int i = ALLOC; i >= FREE; i--) {
		--*probes[i].semaphore;
		write_byte(probes[i].nop, 0xcc, 0x90);
	}
}
