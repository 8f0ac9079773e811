// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/elf_object.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "elf/elf_object_private.h"
#include "elf/machine.h"

#define NOTES_MAX (1u << 20) /* bytes of all notes: libelf keeps every note that it has read in memory */

/* ---- bytes and segments ---- */

int elf_object__read(const struct elf_object *obj, uint64_t offset, void *buf, size_t len)
{
	char *to = buf;

	if (offset > obj->file_size || len > obj->file_size - offset)
		return -ENODATA;
	while (len) {
		ssize_t got = pread(obj->fd, to, len, (off_t)offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got ? -errno : -ENODATA;
		to += got;
		offset += got;
		len -= got;
	}
	return 0;
}

size_t elf_object__read_some(const struct elf_object *obj, uint64_t offset, void *buf, size_t len)
{
	uint64_t left = offset < obj->file_size ? obj->file_size - offset : 0;

	if (len > left)
		len = left;
	return elf_object__read(obj, offset, buf, len) ? 0 : len;
}

Elf_Data *elf_object__chunk(const struct elf_object *obj, uint64_t offset, uint64_t size,
			    Elf_Type type)
{
	if (!size || size > ELF_TABLE_MAX || offset > obj->file_size ||
	    size > obj->file_size - offset)
		return NULL;
	return elf_getdata_rawchunk(obj->elf, (int64_t)offset, size, type);
}

int elf_object__locate(const struct elf_object *obj, uint64_t vaddr, uint32_t flags,
		       uint64_t *ret_offset, uint64_t *ret_left)
{
	GElf_Phdr segment;

	for (size_t i = 0; i < obj->segment_nr && gelf_getphdr(obj->elf, i, &segment); i++) {
		uint64_t into = vaddr - segment.p_vaddr, offset;

		if (segment.p_type != PT_LOAD || (segment.p_flags & flags) != flags ||
		    vaddr < segment.p_vaddr || into >= segment.p_filesz)
			continue;
		if (__builtin_add_overflow(segment.p_offset, into, &offset) ||
		    offset >= obj->file_size)
			continue;
		*ret_offset = offset;
		*ret_left = segment.p_filesz - into;
		return 0;
	}
	return -ENOENT;
}

int elf_object__offset_of(const struct elf_object *obj, uint64_t vaddr, uint64_t *ret_offset)
{
	uint64_t left;

	return elf_object__locate(obj, vaddr, 0, ret_offset, &left);
}

bool elf_object__segment(const struct elf_object *obj, uint32_t type, GElf_Phdr *ret)
{
	for (size_t i = 0; i < obj->segment_nr && gelf_getphdr(obj->elf, i, ret); i++)
		if (ret->p_type == type)
			return true;
	return false;
}

bool elf_object__is_dynamic(const struct elf_object *obj)
{
	GElf_Phdr segment;

	return elf_object__segment(obj, PT_DYNAMIC, &segment);
}

void elf_object__interpreter(const struct elf_object *obj, char *text, size_t room)
{
	GElf_Phdr segment;

	if (!elf_object__segment(obj, PT_INTERP, &segment) || !segment.p_filesz || segment.p_filesz > room ||
	    elf_object__read(obj, segment.p_offset, text, segment.p_filesz) || text[segment.p_filesz - 1] ||
	    *text != '/')
		*text = '\0';
}

uint64_t elf_object__entry(const struct elf_object *obj)
{
	return obj->header.e_entry;
}

uint16_t elf_object__machine(const struct elf_object *obj)
{
	return obj->header.e_machine;
}

/* ---- build-id ---- */

static bool read_build_id(struct elf_object *obj, uint64_t offset, uint64_t size, uint64_t align,
			  uint64_t *left)
{
	Elf_Type type = align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR;
	size_t at = 0, name, desc;
	Elf_Data *notes = NULL;
	GElf_Nhdr note;

	if (size <= *left) {
		notes = elf_object__chunk(obj, offset, size, type);
		*left -= size;
	}
	while (notes && (at = gelf_getnote(notes, at, &note, &name, &desc)) > 0) {
		const unsigned char *bytes = notes->d_buf;

		if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != sizeof("GNU") ||
		    memcmp(bytes + name, "GNU", sizeof("GNU")) || !note.n_descsz ||
		    note.n_descsz > ELF_BUILD_ID_MAX)
			continue;
		for (size_t i = 0; i < note.n_descsz; i++)
			sprintf(obj->build_id + 2 * i, "%02x", bytes[desc + i]);
		return true;
	}
	return false;
}

static void find_build_id(struct elf_object *obj)
{
	uint64_t left = NOTES_MAX;
	Elf_Scn *scn = NULL;
	GElf_Phdr segment;
	GElf_Shdr section;

	for (size_t i = 0; i < obj->segment_nr && gelf_getphdr(obj->elf, i, &segment); i++)
		if (segment.p_type == PT_NOTE &&
		    read_build_id(obj, segment.p_offset, segment.p_filesz, segment.p_align,
				  &left))
			return;
	while ((scn = elf_nextscn(obj->elf, scn)) && gelf_getshdr(scn, &section))
		if (section.sh_type == SHT_NOTE &&
		    read_build_id(obj, section.sh_offset, section.sh_size, section.sh_addralign,
				  &left))
			return;
}

const char *elf_object__build_id(const struct elf_object *obj)
{
	return obj->build_id;
}

/* ---- opening ---- */

static int check_elf_kind(struct elf_object *obj, uint16_t machine, struct reason *why)
{
	if (elf_kind(obj->elf) != ELF_K_ELF || !gelf_getehdr(obj->elf, &obj->header))
		return reason_set(why, -ENOEXEC, "not an ELF file");
	if (gelf_getclass(obj->elf) != ELFCLASS64)
		return reason_set(why, -ENOTSUP, "a 32-bit ELF file");
	if (obj->header.e_machine != machine || obj->header.e_ident[EI_DATA] != ELFDATA2LSB)
		return reason_set(why, -ENOTSUP, "an ELF file for another machine (%u)",
				  obj->header.e_machine);
	if (obj->header.e_type != ET_EXEC && obj->header.e_type != ET_DYN)
		return reason_set(why, -ENOEXEC, "neither a program nor a library");
	if (elf_getphdrnum(obj->elf, &obj->segment_nr))
		return reason_set(why, -ENOEXEC, "broken program headers");
	return 0;
}

static int open_elf(struct elf_object *obj, int fd, uint16_t machine, struct reason *why)
{
	struct stat st;

	obj->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (obj->fd < 0 || fstat(obj->fd, &st))
		return reason_set(why, -errno, "%s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return reason_set(why, -ENOEXEC, "not a regular file");
	obj->file_size = st.st_size;
	elf_version(EV_CURRENT);
	obj->elf = elf_begin(obj->fd, ELF_C_READ, NULL);
	if (!obj->elf)
		return reason_set(why, -ENOEXEC, "not readable as ELF: %s", elf_errmsg(-1));
	return check_elf_kind(obj, machine, why);
}

struct elf_object *elf_object__open_of(int fd, uint16_t machine, struct reason *why)
{
	struct elf_object *obj = calloc(1, sizeof(*obj));
	int err;

	if (!obj) {
		reason_set(why, -ENOMEM, "out of memory");
		errno = ENOMEM;
		return NULL;
	}
	err = open_elf(obj, fd, machine, why);
	if (err) {
		elf_object__close(obj);
		errno = -err;
		return NULL;
	}
	find_build_id(obj);
	return obj;
}

struct elf_object *elf_object__open(int fd, struct reason *why)
{
	return elf_object__open_of(fd, machine_here(), why);
}

void elf_object__close(struct elf_object *obj)
{
	if (!obj)
		return;
	elf_end(obj->elf);
	if (obj->fd >= 0)
		close(obj->fd);
	free(obj);
}

#define GNU_CHAIN_MAX (1u << 16)
#define NAME_BYTES_MAX 4096 /* longer names are none of ours, and comparing them would take too long */

static int symbol_table__load(struct symbol_table *table, const struct elf_object *obj,
			      uint64_t symbols, uint64_t symbol_nr, uint64_t strings,
			      uint64_t strings_size)
{
	Elf_Data *symbol_data, *string_data;

	if (!symbol_nr)
		return 0;
	symbol_data = elf_object__chunk(obj, symbols, symbol_nr * sizeof(Elf64_Sym), ELF_T_SYM);
	string_data = elf_object__chunk(obj, strings, strings_size, ELF_T_BYTE);
	if (!symbol_data || !string_data)
		return -ENOEXEC;
	*table = (struct symbol_table){
		.symbol = symbol_data->d_buf,
		.symbol_nr = symbol_nr,
		.strings = string_data->d_buf,
		.strings_size = strings_size,
	};
	return 0;
}

/*
 * A GNU hash table does not store the number of symbols: the last symbol is at the end of the chain
 * of the highest bucket. Undefined symbols come first and are not in the table.
 */
static int count_gnu_hashed(const struct elf_object *obj, uint64_t offset, uint64_t *ret_nr)
{
	uint32_t head[4], word; /* buckets, first symbol, 8-byte words of the filter, shift */
	uint64_t last = 0, at;
	Elf_Data *data;

	if (elf_object__read(obj, offset, head, sizeof(head)))
		return -ENOEXEC;
	at = offset + sizeof(head) + head[2] * 8ull;
	data = elf_object__chunk(obj, at, head[0] * 4ull, ELF_T_WORD);
	if (!data)
		return -ENOEXEC;
	for (uint32_t i = 0; i < head[0]; i++)
		if (((const uint32_t *)data->d_buf)[i] > last)
			last = ((const uint32_t *)data->d_buf)[i];
	*ret_nr = 0;
	if (last < head[1] || !last)
		return 0;
	at += head[0] * 4ull + (last - head[1]) * 4;
	for (uint32_t i = 0; i < GNU_CHAIN_MAX; i++) {
		if (elf_object__read(obj, at + i * 4ull, &word, sizeof(word)))
			break;
		*ret_nr = last + i + 1;
		if (word & 1)
			return 0;
	}
	return -ENOEXEC;
}

static int count_dynamic_symbols(const struct elf_object *obj, uint64_t hash, uint64_t gnu_hash,
				 uint64_t *ret_nr)
{
	uint32_t head[2]; /* buckets, symbols */
	uint64_t offset;

	*ret_nr = 0;
	if (!hash && !gnu_hash)
		return 0;
	if (elf_object__offset_of(obj, hash ?: gnu_hash, &offset))
		return -ENOEXEC;
	if (!hash)
		return count_gnu_hashed(obj, offset, ret_nr);
	if (elf_object__read(obj, offset, head, sizeof(head)))
		return -ENOEXEC;
	*ret_nr = head[1];
	return 0;
}

int elf_object__load_dynamic(const struct elf_object *obj, struct dynamic *dynamic)
{
	GElf_Phdr segment;
	Elf_Data *data;
	GElf_Dyn entry;

	memset(dynamic, 0, sizeof(*dynamic));
	if (!elf_object__segment(obj, PT_DYNAMIC, &segment))
		return 0;
	data = elf_object__chunk(obj, segment.p_offset, segment.p_filesz, ELF_T_DYN);
	for (int i = 0; data && gelf_getdyn(data, i, &entry) && entry.d_tag != DT_NULL; i++)
		if (entry.d_tag > 0 && entry.d_tag < DT_NUM)
			dynamic->tag[entry.d_tag] = entry.d_un.d_val;
		else if (entry.d_tag == DT_GNU_HASH)
			dynamic->gnu_hash = entry.d_un.d_ptr;
	return data ? 0 : -ENOEXEC;
}

int elf_object__load_dynamic_symbols(const struct elf_object *obj, struct symbol_table *table)
{
	uint64_t symbol_nr, symbols, strings;
	struct dynamic dynamic;
	int err;

	err = elf_object__load_dynamic(obj, &dynamic);
	if (!err)
		err = count_dynamic_symbols(obj, dynamic.tag[DT_HASH], dynamic.gnu_hash,
					    &symbol_nr);
	if (err || !symbol_nr)
		return err;
	if (elf_object__offset_of(obj, dynamic.tag[DT_SYMTAB], &symbols) ||
	    elf_object__offset_of(obj, dynamic.tag[DT_STRTAB], &strings))
		return -ENOEXEC;
	return symbol_table__load(table, obj, symbols, symbol_nr, strings, dynamic.tag[DT_STRSZ]);
}

int elf_object__load_section_symbols(const struct elf_object *obj, uint32_t type,
				     struct symbol_table *table)
{
	GElf_Shdr section, strings;
	Elf_Scn *scn = NULL;

	while ((scn = elf_nextscn(obj->elf, scn)) && gelf_getshdr(scn, &section)) {
		if (section.sh_type != type)
			continue;
		if (!gelf_getshdr(elf_getscn(obj->elf, section.sh_link), &strings))
			return -ENOEXEC;
		return symbol_table__load(table, obj, section.sh_offset,
					  section.sh_size / sizeof(Elf64_Sym), strings.sh_offset,
					  strings.sh_size);
	}
	return 0;
}

struct name_key symbol_table__name(const struct symbol_table *table, const Elf64_Sym *symbol)
{
	struct name_key name = { .bytes = "" };
	const char *bytes;
	size_t left;

	if (symbol->st_name >= table->strings_size)
		return name;
	bytes = table->strings + symbol->st_name;
	left = table->strings_size - symbol->st_name;
	if (!memchr(bytes, 0, left < NAME_BYTES_MAX ? left : NAME_BYTES_MAX))
		return name;
	name.bytes = bytes;
	name.len = strchrnul(bytes, '@') - bytes;
	return name;
}
