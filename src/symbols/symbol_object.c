// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "symbols/symbol_object.h"

#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "elf/elf_object.h"
#include "symbols/debug_file.h"
#include "symbols/go_table.h"
#include "symbols/ranges.h"

/*
 * The function symbols of a module, sorted. libdwfl finds the best table (.symtab of the file or of
 * its debug file; .dynsym with .gnu_debugdata), but searches the whole table for every address.
 *
 * A symbol names an address only if it contains the address. In a stripped file a static function
 * lies between exported ones: it gets no name instead of the name of the symbol before it.
 *
 * Symbols of size 0 (hand-written assembly) extend to the next symbol or the end of their section.
 * They count only if no sized symbol contains the address, and only in a table that has local
 * functions. A table without local functions may come from a stripped file, where any code may
 * follow the symbol.
 *
 * Among several names at one address the order is: the longest symbol, then fewest leading
 * underscores, global before weak before local, the shorter name, the first in byte order
 * ("malloc", not "__libc_malloc").
 */

struct known_symbol {
	const char *name; /* the module's string */
	bool is_local;
};

struct symtab {
	struct ranges sized, unsized; /* ids are indices in known */
	struct known_symbol *known;
	size_t known_nr, known_alloc;
};

struct entry {
	uint64_t address, size;
	uint64_t section_end;
	const char *name;
	uint8_t binding;
};

struct entries {
	struct entry *entry;
	size_t entry_nr, entry_alloc;
	bool has_local_functions;
};

static bool is_code_type(uint8_t type)
{
	return type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE;
}

/*
 * Finds the section that holds the symbol. Returns false if it is no code, or for SHN_ABS and other
 * special indices.
 */
static bool code_section(Elf *elf, GElf_Word index, GElf_Shdr *ret)
{
	Elf_Scn *section = elf && index != SHN_UNDEF ? elf_getscn(elf, index) : NULL;

	return section && gelf_getshdr(section, ret) && (ret->sh_flags & SHF_EXECINSTR);
}

/* On arm64 and RISC-V the local symbols $x and $d mark code and data. */
static bool is_symbol_name(const char *name)
{
	return name && *name && *name != '$';
}

static int add_entry(struct entries *entries, Dwfl_Module *module, int index)
{
	GElf_Word section_index;
	GElf_Shdr section;
	GElf_Addr bias;
	struct entry entry;
	GElf_Sym symbol;
	Elf *elf;

	entry.name = dwfl_module_getsym_info(module, index, &symbol, &entry.address,
					     &section_index, &elf, &bias);
	if (!is_symbol_name(entry.name) || !is_code_type(GELF_ST_TYPE(symbol.st_info)) ||
	    !code_section(elf, section_index, &section))
		return 0;
	entry.size = symbol.st_size;
	entry.binding = GELF_ST_BIND(symbol.st_info);
	entry.section_end = section.sh_addr + section.sh_size + bias;
	if (entry.address >= entry.section_end)
		return 0;
	if (entry.size > entry.section_end - entry.address)
		entry.size = entry.section_end - entry.address;
	if (entry.binding == STB_LOCAL && GELF_ST_TYPE(symbol.st_info) == STT_FUNC)
		entries->has_local_functions = true;
	return array_push(entries, entry, entry);
}

/*
 * The underscore of _Z, _R and _D is part of the mangling. __GI_… is glibc's own name for a
 * function that it exports as ….
 */
static size_t underscores(const char *name)
{
	size_t nr = strspn(name, "_");

	if (!strncmp(name, "__GI_", 5))
		return nr + strspn(name + 5, "_");
	return nr == 1 && strchr("ZRD", name[1]) ? 0 : nr;
}

static int binding_rank(uint8_t binding)
{
	return binding == STB_LOCAL ? 2 : binding == STB_WEAK;
}

static int compare_names(const struct entry *a, const struct entry *b)
{
	size_t a_len = strlen(a->name), b_len = strlen(b->name);
	int by = (int)underscores(a->name) - (int)underscores(b->name);

	if (!by)
		by = binding_rank(a->binding) - binding_rank(b->binding);
	if (!by)
		by = (a_len > b_len) - (a_len < b_len);
	return by ? by : strcmp(a->name, b->name);
}

static int compare_entries(const void *left, const void *right)
{
	const struct entry *a = left, *b = right;

	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	if (a->size != b->size)
		return a->size > b->size ? -1 : 1;
	return compare_names(a, b);
}

static int add_symbol(struct symtab *symtab, struct ranges *ranges, const struct entry *entry,
		      uint64_t end)
{
	const struct known_symbol known = { entry->name, entry->binding == STB_LOCAL };
	int err = array_push(symtab, known, known);

	return err ? err : ranges_add(ranges, entry->address, end, symtab->known_nr - 1);
}

/* The index of the first entry after i at another address. */
static size_t next_address(const struct entries *entries, size_t i)
{
	size_t next = i + 1;

	while (next < entries->entry_nr && entries->entry[next].address == entries->entry[i].address)
		next++;
	return next;
}

static int add_sized(struct symtab *symtab, const struct entries *entries)
{
	int err = 0;

	for (size_t i = 0; i < entries->entry_nr && !err; i = next_address(entries, i)) {
		const struct entry *entry = &entries->entry[i];

		if (entry->size)
			err = add_symbol(symtab, &symtab->sized, entry, entry->address + entry->size);
	}
	ranges_sort(&symtab->sized);
	return err;
}

static int add_unsized(struct symtab *symtab, const struct entries *entries)
{
	size_t next;
	int err = 0;

	for (size_t i = 0; i < entries->entry_nr && !err; i = next) {
		const struct entry *entry = &entries->entry[i];
		uint64_t end = entry->section_end;

		next = next_address(entries, i);
		if (next < entries->entry_nr && entries->entry[next].address < end)
			end = entries->entry[next].address;
		if (!entry->size && ranges_find(&symtab->sized, entry->address) == RANGE_NONE)
			err = add_symbol(symtab, &symtab->unsized, entry, end);
	}
	ranges_sort(&symtab->unsized);
	return err;
}

/* Fills a zeroed symtab. A module without symbols gives an empty one. 0 or -ENOMEM. */
static int symtab_load(struct symtab *symtab, Dwfl_Module *module)
{
	int nr = dwfl_module_getsymtab(module), err = 0;
	struct entries entries = {};

	for (int i = 1; i < nr && !err; i++)
		err = add_entry(&entries, module, i);
	if (!err && entries.entry_nr) {
		qsort(entries.entry, entries.entry_nr, sizeof(*entries.entry), compare_entries);
		err = add_sized(symtab, &entries);
		if (!err && entries.has_local_functions)
			err = add_unsized(symtab, &entries);
	}
	free(entries.entry);
	return err;
}

/* The symbol, or NULL; the address is the module's (libdwfl's). */
static const struct known_symbol *symtab_find(const struct symtab *symtab, uint64_t address)
{
	uint32_t id = ranges_find(&symtab->sized, address);

	if (id == RANGE_NONE)
		id = ranges_find(&symtab->unsized, address);
	return id == RANGE_NONE ? NULL : &symtab->known[id];
}

static void symtab_release(struct symtab *symtab)
{
	ranges_release(&symtab->sized);
	ranges_release(&symtab->unsized);
	free(symtab->known);
	memset(symtab, 0, sizeof(*symtab));
}

struct segment {
	uint64_t offset, size, address;
};

struct object {
	char *path;
	const struct debug_opener *opener;

	Dwfl *dwfl; /* NULL: no ELF file, no names */
	Dwfl_Module *module;
	Elf *elf;
	GElf_Addr bias; /* the module's addresses − the file's addresses */
	struct segment *segment; /* the executable ones */
	size_t segment_nr, segment_alloc;

	struct elf_object *file; /* for the table of Go, which takes it over */
	unsigned int loaded; /* how many rows of the table of sources were needed so far */
	struct go_table *go; /* NULL: it is no Go program */
	struct symtab symtab;
	struct units *units; /* NULL: no DWARF */
	GElf_Addr dwarf_bias;
	Dwarf *shared; /* the DWARF's shared part (dwz) */
	int shared_fd;
};

/*
 * libdwfl asks for a debug file by the object's own .gnu_debuglink, and for the shared part of
 * debug files by the name in the DWARF. load_shared() opens the shared part instead, because the id
 * to check it by is not known here.
 */
static int find_debug_file(Dwfl_Module *, void **userdata, const char *, Dwarf_Addr, const char *,
			   const char *link, GElf_Word, char **)
{
	struct object *object = *userdata;
	GElf_Word checksum;

	errno = 0;
	if (link != dwelf_elf_gnu_debuglink(object->elf, &checksum))
		return -1;
	return debug_file__open(object->opener, object->elf, object->path);
}

static int find_no_elf(Dwfl_Module *, void **, const char *, Dwarf_Addr, char **, Elf **)
{
	return -1;
}

static const Dwfl_Callbacks callbacks = {
	.find_elf = find_no_elf,
	.find_debuginfo = find_debug_file,
	.section_address = dwfl_offline_section_address,
};

/*
 * Without this check libdwfl would also decompress files, relocate object files and read archives. Returns 1 for a
 * program or library, 0, or a negative errno.
 */
static int is_program_or_library(int fd)
{
	Elf64_Ehdr header; /* e_ident and e_type are the same in Elf32_Ehdr */
	ssize_t got = pread(fd, &header, sizeof(header), 0);

	if (got < 0) /* a pipe and a folder are no files with places */
		return errno == ESPIPE || errno == EISDIR ? 0 : -errno;
	return got >= (ssize_t)sizeof(Elf32_Ehdr) && !memcmp(header.e_ident, ELFMAG, SELFMAG) &&
	       (header.e_type == ET_EXEC || header.e_type == ET_DYN);
}

static int read_segments(struct object *object)
{
	size_t nr;
	int err = 0;

	if (elf_getphdrnum(object->elf, &nr))
		return 0;
	for (size_t i = 0; i < nr && !err; i++) {
		struct segment segment;
		GElf_Phdr header;

		if (!gelf_getphdr(object->elf, i, &header))
			break;
		if (header.p_type != PT_LOAD || !(header.p_flags & PF_X))
			continue;
		segment = (struct segment){ header.p_offset, header.p_filesz, header.p_vaddr };
		err = array_push(object, segment, segment);
	}
	return err;
}

static void drop_module(struct object *object)
{
	dwfl_end(object->dwfl);
	object->dwfl = NULL;
}

static int open_module(struct object *object, int fd)
{
	void **userdata;
	int own_fd, err = 0;

	object->dwfl = dwfl_begin(&callbacks);
	if (!object->dwfl)
		return -ENOMEM;
	own_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (own_fd < 0)
		err = -errno;
	errno = 0;
	if (!err)
		object->module = dwfl_report_offline(object->dwfl, "object", "object", own_fd);
	if (!object->module) {
		err = err ?: errno == ENOMEM ? -ENOMEM : 0; /* else it is no file with names, which is no failure */
		if (own_fd >= 0)
			close(own_fd);
		drop_module(object);
		return err;
	}
	dwfl_report_end(object->dwfl, NULL, NULL);
	dwfl_module_info(object->module, &userdata, NULL, NULL, NULL, NULL, NULL, NULL);
	*userdata = object;
	object->file = elf_object__open(fd, NULL);
	object->elf = dwfl_module_getelf(object->module, &object->bias);
	if (!object->elf) {
		drop_module(object);
		return 0;
	}
	return read_segments(object);
}

/* The decompressed size that a section claims; 0: it is not compressed. */
static uint64_t unpacked_bytes(Elf *elf, Elf_Scn *section)
{
	GElf_Shdr header;
	GElf_Chdr packed;
	const char *name;
	Elf_Data *gnu; /* "ZLIB", and the size, big-endian */
	uint64_t bytes;
	size_t names;

	if (!gelf_getshdr(section, &header) || header.sh_type == SHT_NOBITS)
		return 0;
	if (header.sh_flags & SHF_COMPRESSED)
		return gelf_getchdr(section, &packed) ? packed.ch_size : 0;
	name = elf_getshdrstrndx(elf, &names) ? NULL : elf_strptr(elf, names, header.sh_name);
	if (!name || strncmp(name, ".zdebug", strlen(".zdebug")))
		return 0;
	gnu = elf_getdata_rawchunk(elf, header.sh_offset, 4 + sizeof(bytes), ELF_T_BYTE);
	if (!gnu || memcmp(gnu->d_buf, "ZLIB", 4))
		return 0;
	memcpy(&bytes, (char *)gnu->d_buf + 4, sizeof(bytes));
	return be64toh(bytes);
}

static int check_unpacked(Elf *elf, struct reason *why)
{
	Elf_Scn *section = NULL;
	uint64_t sum = 0;

	while (sum <= OBJECT_UNPACKED_MAX && (section = elf_nextscn(elf, section))) {
		uint64_t bytes = unpacked_bytes(elf, section);

		sum = bytes > OBJECT_UNPACKED_MAX ? bytes : sum + bytes;
	}
	if (sum <= OBJECT_UNPACKED_MAX)
		return 0;
	return reason_set(why, -EIO, "its compressed sections would unpack to more than 2 GiB");
}

struct object *object__open(int fd, const char *path, const struct debug_opener *opener,
			    struct reason *why)
{
	struct object *object = calloc(1, sizeof(*object));
	int err = 0;

	if (!object)
		return NULL;
	object->opener = opener;
	object->shared_fd = -1;
	object->path = strdup(path);
	err = object->path ? is_program_or_library(fd) : -ENOMEM;
	if (err > 0)
		err = open_module(object, fd);
	if (!err && object->elf)
		err = check_unpacked(object->elf, why);
	if (err) {
		object__close(object);
		errno = -err;
		return NULL;
	}
	return object;
}

void object__close(struct object *object)
{
	if (!object)
		return;
	go_table__free(object->go);
	elf_object__close(object->file);
	units__free(object->units);
	symtab_release(&object->symtab);
	dwfl_end(object->dwfl);
	dwarf_end(object->shared);
	if (object->shared_fd >= 0)
		close(object->shared_fd);
	free(object->segment);
	free(object->path);
	free(object);
}

/*
 * Returns false if the DWARF needs a shared file that is not available. libdw would search for it
 * by the name in the DWARF as soon as a die refers to it, so such a DWARF is not used at all.
 */
static bool load_shared(struct object *object, Dwarf *dwarf)
{
	const char *name;
	const void *build_id;
	ssize_t len = dwelf_dwarf_gnu_debugaltlink(dwarf, &name, &build_id);

	if (len <= 0)
		return true;
	object->shared_fd = debug_file__open_shared(object->opener, name, build_id, len);
	if (object->shared_fd < 0)
		return false;
	object->shared = dwarf_begin(object->shared_fd, DWARF_C_READ);
	if (!object->shared)
		return false;
	dwarf_setalt(dwarf, object->shared);
	return true;
}

static int load_debug_info(struct object *object)
{
	Dwarf *dwarf;
	int err;

	err = symtab_load(&object->symtab, object->module);
	if (err)
		return err;
	dwarf = dwfl_module_getdwarf(object->module, &object->dwarf_bias);
	if (!dwarf || !load_shared(object, dwarf))
		return 0;
	object->units = units__new(dwarf);
	return object->units ? 0 : -errno;
}

/* The address of the call in the file, from the file offset of its return address. */
static bool call_address(const struct object *object, uint64_t return_offset, uint64_t *ret)
{
	uint64_t offset = return_offset - 1;

	for (size_t i = 0; i < object->segment_nr; i++) {
		const struct segment *segment = &object->segment[i];

		if (return_offset && offset >= segment->offset &&
		    offset - segment->offset < segment->size) {
			*ret = segment->address + (offset - segment->offset);
			return true;
		}
	}
	return false;
}

/*
 * Whether the name in the source says more than the symbol: "nested.0" is the symbol of a function that the source calls
 * "nested". And a compiler gives equal static functions one code, to which each has a symbol.
 */
static bool is_better_named(const struct place *place, const struct known_symbol *symbol)
{
	size_t len = strlen(place->name), less = underscores(symbol->name), more = underscores(place->name);

	if (!strncmp(symbol->name, place->name, len) && symbol->name[len] == '.')
		return true;
	if (!symbol->is_local || !strncmp(symbol->name, "_Z", 2) || !strncmp(symbol->name, "_R", 2))
		return false;
	return less >= more || strcmp(symbol->name + less, place->name + more);
}

/*
 * Names the outermost function by its symbol if the DWARF has no mangled name: a C function
 * (malloc, not __libc_malloc), a static C++ function (with its namespace and parameters), code
 * without DWARF.
 */
static void name_outermost(struct place *place, const struct known_symbol *symbol)
{
	if (!place->is_outermost || place->linkage_name || !symbol)
		return;
	if (!place->name || !is_better_named(place, symbol))
		place->linkage_name = symbol->name;
}

static int look_up_in_debug_info(const struct object *object, uint64_t address, struct place *ret_place)
{
	int nr = 0;

	address += object->bias;
	if (object->units)
		nr = units__lookup(object->units, address - object->dwarf_bias, ret_place,
				   SYMBOL_INLINE_MAX);
	if (nr < 0)
		return nr;
	if (!nr)
		nr = 1;
	name_outermost(&ret_place[nr - 1], symtab_find(&object->symtab, address));
	return nr;
}

static int load_go_table(struct object *object)
{
	struct elf_object *file = object->file;

	object->file = NULL;
	return file ? go_table__open(file, &object->go) : 0;
}

static int look_up_in_go_table(const struct object *object, uint64_t address, struct place *ret_place)
{
	return object->go ? go_table__lookup(object->go, address, ret_place, SYMBOL_INLINE_MAX) : 0;
}

/*
 * Where names come from. The first row that knows an address names it, so that code has the same names in a stripped file as
 * before it was stripped. A row is loaded when the rows above it do not know an address. The last row knows each one.
 */
static const struct name_source {
	int (*load)(struct object *object); /* 0 or -ENOMEM */
	/* The frames at an address in the file, innermost first. Their number; 0: it is not known; -ENOMEM. */
	int (*look_up)(const struct object *object, uint64_t address, struct place *ret_place);
} sources[] = {
	{ load_go_table, look_up_in_go_table },
	{ load_debug_info, look_up_in_debug_info },
};

int object__lookup(struct object *object, uint64_t return_offset,
		   struct place ret_place[SYMBOL_INLINE_MAX])
{
	uint64_t address;
	int nr = 0;

	ret_place[0] = (struct place){ .is_outermost = true };
	if (!object->dwfl || !call_address(object, return_offset, &address))
		return 1;
	for (unsigned int i = 0; i < ARRAY_SIZE(sources) && !nr; i++) {
		if (object->loaded == i) {
			nr = sources[i].load(object);
			object->loaded++;
		}
		nr = nr ?: sources[i].look_up(object, address, ret_place);
	}
	return nr;
}
