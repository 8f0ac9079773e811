// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/elf_object_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __aarch64__
#define MACHINE EM_AARCH64
#else
#define MACHINE EM_X86_64
#endif

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

static int check_elf_kind(struct elf_object *obj, struct reason *why)
{
	if (elf_kind(obj->elf) != ELF_K_ELF || !gelf_getehdr(obj->elf, &obj->header))
		return reason_set(why, -ENOEXEC, "not an ELF file");
	if (gelf_getclass(obj->elf) != ELFCLASS64)
		return reason_set(why, -ENOTSUP, "a 32-bit ELF file");
	if (obj->header.e_machine != MACHINE || obj->header.e_ident[EI_DATA] != ELFDATA2LSB)
		return reason_set(why, -ENOTSUP, "an ELF file for another machine (%u)",
				  obj->header.e_machine);
	if (obj->header.e_type != ET_EXEC && obj->header.e_type != ET_DYN)
		return reason_set(why, -ENOEXEC, "neither a program nor a library");
	if (elf_getphdrnum(obj->elf, &obj->segment_nr))
		return reason_set(why, -ENOEXEC, "broken program headers");
	return 0;
}

static int open_elf(struct elf_object *obj, int fd, struct reason *why)
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
	return check_elf_kind(obj, why);
}

struct elf_object *elf_object__open(int fd, struct reason *why)
{
	struct elf_object *obj = calloc(1, sizeof(*obj));
	int err;

	if (!obj) {
		reason_set(why, -ENOMEM, "out of memory");
		errno = ENOMEM;
		return NULL;
	}
	err = open_elf(obj, fd, why);
	if (err) {
		elf_object__close(obj);
		errno = -err;
		return NULL;
	}
	find_build_id(obj);
	return obj;
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
