// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "binutils.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* Gives each line that a command prints about a file to `take`. */
static void read_lines(const char *command, const char *path, void (*take)(void *list, char *line), void *list)
{
	char line[1024];
	FILE *f;

	snprintf(line, sizeof(line), "LC_ALL=C %s %s 2>/dev/null", command, path);
	f = popen(line, "r");
	while (f && fgets(line, sizeof(line), f))
		take(list, line);
	if (f)
		pclose(f);
}

/* "   442: 0000000000099f10   487 FUNC    WEAK   DEFAULT   16 malloc_stats@@GLIBC_2.2.5" */
static void take_symbol(void *list, char *line)
{
	struct listed_symbols *symbols = list;
	char type[16], bind[16], section[16], name[256];
	struct listed_symbol symbol = { 0 };
	unsigned long long vaddr, size;

	if (sscanf(line, " %*d: %llx %lli %15s %15s %*s %15s %255s", &vaddr, &size, type, bind,
		   section, name) != 6)
		return;
	if ((strcmp(type, "FUNC") && strcmp(type, "IFUNC")) || !strcmp(section, "UND"))
		return;
	symbol.vaddr = vaddr;
	symbol.size = size;
	symbol.is_ifunc = type[0] == 'I';
	symbol.is_local = !strcmp(bind, "LOCAL");
	*strchrnul(name, '@') = 0;
	strcpy(symbol.name, name);
	array_push(symbols, item, symbol);
}

void readelf_functions(struct listed_symbols *symbols, const char *path)
{
	read_lines("readelf --wide --dyn-syms", path, take_symbol, symbols);
}

/* "   9a287:\t41 54                \tpush   %r12" */
static void take_insn(void *list, char *line)
{
	struct listed_code *code = list;
	char *bytes = strchr(line, '\t'), *text = bytes ? strchr(bytes + 1, '\t') : NULL;
	struct listed_insn insn = { 0 };
	char *end;

	if (!text)
		return;
	*text++ = 0;
	insn.vaddr = strtoull(line, &end, 16);
	if (*end != ':')
		return;
	for (char *at = bytes + 1;; at = end) {
		unsigned long byte = strtoul(at, &end, 16);

		if (end == at || insn.byte_nr == sizeof(insn.byte))
			break;
		insn.byte[insn.byte_nr++] = byte;
	}
	snprintf(insn.text, sizeof(insn.text), "%s", text);
	insn.text[strcspn(insn.text, "#\n")] = 0;
	for (size_t len = strlen(insn.text); len && insn.text[len - 1] == ' ';)
		insn.text[--len] = 0;
	array_push(code, item, insn);
}

void objdump_between(struct listed_code *code, const char *path, uint64_t from, uint64_t to)
{
	char command[128];

	snprintf(command, sizeof(command), "objdump --disassemble --insn-width=16 --start-address=%#" PRIx64 " --stop-address=%#" PRIx64, from,
		 to);
	read_lines(command, path, take_insn, code);
}

/* "   9a284:\td65f03c0 \tret": a word; its text has the comment behind two slashes */
static void take_word(void *list, char *line)
{
	struct listed_code *code = list;
	struct listed_insn insn = { .byte_nr = 4 };
	unsigned long long vaddr;
	char mnemonic[24], operands[64] = "", *comment;
	uint32_t word;

	if (sscanf(line, " %llx:\t%" SCNx32 " \t%23[^\t\n]\t%63[^\t\n]", &vaddr, &word, mnemonic, operands) < 3)
		return;
	insn.vaddr = vaddr;
	memcpy(insn.byte, &word, sizeof(word));
	comment = strstr(operands, " //");
	if (comment)
		*comment = 0;
	snprintf(insn.text, sizeof(insn.text), "%s %s", mnemonic, operands);
	array_push(code, item, insn);
}

void objdump_a64(struct listed_code *code, const char *path)
{
	read_lines("aarch64-linux-gnu-objdump --disassemble", path, take_word, code);
}

void objdump_code(struct listed_code *code, const char *path)
{
	objdump_between(code, path, 0, UINT64_MAX);
}

static int by_address(const void *key, const void *item)
{
	uint64_t want = *(const uint64_t *)key, have = ((const struct listed_insn *)item)->vaddr;

	return want < have ? -1 : want > have;
}

const struct listed_insn *listed_code__at(const struct listed_code *code, uint64_t vaddr)
{
	return code->item_nr ? bsearch(&vaddr, code->item, code->item_nr, sizeof(*code->item),
				       by_address)
			     : NULL;
}

void first_line(char *line, size_t room, const char *command)
{
	FILE *f = popen(command, "r");

	line[0] = 0;
	if (f && !fgets(line, room, f))
		line[0] = 0;
	if (f)
		pclose(f);
	line[strcspn(line, "\n")] = 0;
}
