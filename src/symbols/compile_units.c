// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "symbols/compile_units.h"

#include <dwarf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "symbols/ranges.h"

#define DEPTH_MAX 100 /* nesting of dies: namespaces, functions, blocks */
#define CHAIN_MAX 256 /* inlined calls around one address that are followed */
#define SCOPED_MOST 2000 /* about so many bytes has the name of a function with its namespaces */
#define ORIGINS_MOST 8	 /* descriptions of a function that refer to each other */

#define NO_SCOPE UINT32_MAX

/* A namespace or class. */
struct scope {
	const char *name;
	uint32_t around; /* index, or NO_SCOPE */
};

/* A function in a scope: only where the compiler gives no mangled name, which has the scopes. */
struct scoped_function {
	Dwarf_Off offset; /* of the die that has its name */
	uint32_t scope;
	char *name; /* with its scopes; NULL: not read yet */
};

struct unit {
	Dwarf_Die die;
	bool is_skeleton;
	bool is_walked;
	struct scope *scope;
	size_t scope_nr, scope_alloc;
	struct scoped_function *scoped; /* by offset */
	size_t scoped_nr, scoped_alloc;
	Dwarf_Die *function;
	size_t function_nr, function_alloc;
	struct ranges ranges; /* of the functions; ids are indices in function */
};

struct units {
	struct unit *unit;
	size_t unit_nr, unit_alloc;
	struct ranges ranges; /* ids are indices in unit */
};

/* The linker leaves descriptions of dropped code at address 0 (ld) or −1, −2 (lld). */
static bool is_discarded(Dwarf_Addr low, Dwarf_Addr high)
{
	return low == 0 || high < low;
}

static int add_ranges(struct ranges *ranges, Dwarf_Die *die, uint32_t id)
{
	Dwarf_Addr base, low, high;
	ptrdiff_t at = 0;
	int err = 0;

	while (!err && (at = dwarf_ranges(die, at, &base, &low, &high)) > 0)
		if (!is_discarded(low, high))
			err = ranges_add(ranges, low, high, id);
	return err;
}

static int add_unit(struct units *units, Dwarf_Die *die, uint8_t unit_type)
{
	struct unit unit = { .die = *die, .is_skeleton = unit_type == DW_UT_skeleton };
	int err;

	if (unit_type != DW_UT_compile && unit_type != DW_UT_skeleton)
		return 0;
	err = array_push(units, unit, unit);
	return err ? err : add_ranges(&units->ranges, die, units->unit_nr - 1);
}

struct units *units__new(Dwarf *dwarf)
{
	struct units *units = calloc(1, sizeof(*units));
	Dwarf_CU *cu = NULL;
	uint8_t unit_type;
	Dwarf_Die die;
	int err = 0;

	if (!units)
		return NULL;
	while (!err && !dwarf_get_units(dwarf, cu, &cu, NULL, &unit_type, &die, NULL))
		if (die.cu)
			err = add_unit(units, &die, unit_type);
	if (err) {
		units__free(units);
		errno = -err;
		return NULL;
	}
	ranges_sort(&units->ranges);
	return units;
}

void units__free(struct units *units)
{
	if (!units)
		return;
	for (size_t i = 0; i < units->unit_nr; i++) {
		free(units->unit[i].function);
		for (size_t k = 0; k < units->unit[i].scoped_nr; k++)
			free(units->unit[i].scoped[k].name);
		free(units->unit[i].scoped);
		free(units->unit[i].scope);
		ranges_release(&units->unit[i].ranges);
	}
	ranges_release(&units->ranges);
	free(units->unit);
	free(units);
}

/* ---- names ---- */

static const char *string_attribute(Dwarf_Die *die, unsigned int name)
{
	Dwarf_Attribute attribute;

	return dwarf_formstring(dwarf_attr_integrate(die, name, &attribute));
}

/*
 * Returns only mangled names. A C function gets a linkage name from an asm label, which is further
 * from the source than its name (glibc's __GI_…).
 */
static const char *linkage_name(Dwarf_Die *die)
{
	const char *name = string_attribute(die, DW_AT_linkage_name);

	if (!name)
		name = string_attribute(die, DW_AT_MIPS_linkage_name);
	return name && name[0] == '_' && name[1] && strchr("ZRD", name[1]) ? name : NULL;
}

static bool is_scope(int tag)
{
	return tag == DW_TAG_namespace || tag == DW_TAG_class_type || tag == DW_TAG_structure_type ||
	       tag == DW_TAG_union_type;
}

/* "std::_Function_base::_M_create"; NULL: no memory. */
static char *scoped_name(const struct unit *unit, uint32_t scope, const char *name)
{
	char *text = strdup(name);

	for (; scope != NO_SCOPE && text && strlen(text) < SCOPED_MOST; scope = unit->scope[scope].around) {
		char *longer = NULL;

		if (asprintf(&longer, "%.*s::%s", SCOPED_MOST, unit->scope[scope].name, text) < 0)
			longer = NULL;
		free(text);
		text = longer;
	}
	return text;
}

static int unit_add_scoped(struct unit *unit, Dwarf_Die *die, uint32_t scope)
{
	const struct scoped_function function = { .offset = dwarf_dieoffset(die), .scope = scope };

	return dwarf_hasattr(die, DW_AT_name) && !linkage_name(die) ? array_push(unit, scoped, function) : 0;
}

/* Enters the scope that a die is; any other die is in none. */
static int enter_scope(struct unit *unit, Dwarf_Die *die, uint32_t around, uint32_t *ret)
{
	int tag = dwarf_tag(die);
	struct scope scope = { .around = around };

	*ret = is_scope(tag) ? unit->scope_nr : NO_SCOPE;
	if (*ret == NO_SCOPE)
		return 0;
	scope.name = dwarf_diename(die) ?: tag == DW_TAG_namespace ? "(anonymous namespace)" : "(anonymous)";
	return array_push(unit, scope, scope);
}

/* The die that has the name of a function, or of one that is inlined. */
static Dwarf_Off find_named_die(Dwarf_Die *die)
{
	Dwarf_Attribute attribute;
	Dwarf_Die at = *die;

	for (int i = 0; i < ORIGINS_MOST && !dwarf_hasattr(&at, DW_AT_name); i++)
		if (!dwarf_formref_die(dwarf_attr(&at, DW_AT_abstract_origin, &attribute) ?:
				       dwarf_attr(&at, DW_AT_specification, &attribute), &at))
			break;
	return dwarf_dieoffset(&at);
}

static int compare_scoped(const void *a, const void *b)
{
	const struct scoped_function *x = a, *y = b;

	return (x->offset > y->offset) - (x->offset < y->offset);
}

static void place_set_name(struct place *place, struct unit *unit, Dwarf_Die *die)
{
	struct scoped_function *scoped, wanted = {};

	place->linkage_name = linkage_name(die);
	place->name = string_attribute(die, DW_AT_name);
	if (place->linkage_name || !unit->scoped_nr)
		return;
	wanted.offset = find_named_die(die);
	scoped = bsearch(&wanted, unit->scoped, unit->scoped_nr, sizeof(*scoped), compare_scoped);
	if (scoped && !scoped->name && place->name)
		scoped->name = scoped_name(unit, scoped->scope, place->name);
	if (scoped && scoped->name)
		place->name = scoped->name;
}

/* ---- the functions of a unit ---- */

static int unit_add_function(struct unit *unit, Dwarf_Die *die)
{
	int err = array_push(unit, function, *die);

	return err ? err : add_ranges(&unit->ranges, die, unit->function_nr - 1);
}

/* `last` is the offset of the last die seen: a die that is not after it ends the walk. */
static int walk_dies(struct unit *unit, Dwarf_Die *parent, uint32_t around, Dwarf_Off *last, int depth)
{
	uint32_t scope;
	Dwarf_Die die;
	int err = 0;

	if (depth > DEPTH_MAX || dwarf_child(parent, &die))
		return 0;
	do {
		int tag = dwarf_tag(&die);

		if (dwarf_dieoffset(&die) <= *last)
			break;
		*last = dwarf_dieoffset(&die);
		if (tag == DW_TAG_subprogram)
			err = unit_add_function(unit, &die);
		if (!err && tag == DW_TAG_subprogram && around != NO_SCOPE)
			err = unit_add_scoped(unit, &die, around);
		if (!err && tag != DW_TAG_inlined_subroutine)
			err = enter_scope(unit, &die, around, &scope) ?: walk_dies(unit, &die, scope, last, depth + 1);
	} while (!err && !dwarf_siblingof(&die, &die));
	return err;
}

static int find_function_die(struct unit *unit, uint64_t address, Dwarf_Die **ret_function)
{
	Dwarf_Off last = dwarf_dieoffset(&unit->die);
	uint32_t id;
	int err;

	*ret_function = NULL;
	if (unit->is_skeleton)
		return 0;
	if (!unit->is_walked) {
		unit->is_walked = true;
		err = walk_dies(unit, &unit->die, NO_SCOPE, &last, 0);
		ranges_sort(&unit->ranges);
		if (err)
			return err;
	}
	id = ranges_find(&unit->ranges, address);
	if (id != RANGE_NONE)
		*ret_function = &unit->function[id];
	return 0;
}

/* ---- the chain of inlined calls ---- */

static bool holds_code(int tag)
{
	return tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block ||
	       tag == DW_TAG_try_block || tag == DW_TAG_catch_block || tag == DW_TAG_with_stmt;
}

/*
 * Finds the inlined call at the address that is next below parent, through blocks. Blocks beside each other may have the same
 * address, and one of them the call.
 */
static bool find_inlined(Dwarf_Die *parent, uint64_t address, int *blocks, Dwarf_Die *ret)
{
	Dwarf_Die die;

	if (dwarf_child(parent, &die))
		return false;
	do {
		if (!holds_code(dwarf_tag(&die)) || dwarf_haspc(&die, address) <= 0)
			continue;
		if (dwarf_tag(&die) == DW_TAG_inlined_subroutine) {
			*ret = die;
			return true;
		}
		if ((*blocks)++ < CHAIN_MAX && find_inlined(&die, address, blocks, ret))
			return true;
	} while (!dwarf_siblingof(&die, &die));
	return false;
}

/*
 * Sets chain[0] to the function, and the following elements to the calls inlined there, the
 * innermost last.
 */
static int find_chain(Dwarf_Die *function, uint64_t address, Dwarf_Die chain[CHAIN_MAX])
{
	int nr = 1, blocks = 0;

	chain[0] = *function;
	while (nr < CHAIN_MAX && find_inlined(&chain[nr - 1], address, &blocks, &chain[nr]))
		nr++;
	return nr;
}

/* "???" is libdw's name for file 0 in DWARF versions that count files from 1. */
static void place_set_line(struct place *place, Dwarf_Die *unit, const char *filename, uint64_t lineno)
{
	if (!filename || !*filename || !strcmp(filename, "???") || !lineno || lineno > INT32_MAX)
		return;
	place->directory = string_attribute(unit, DW_AT_comp_dir);
	place->filename = filename;
	place->lineno = lineno;
}

static void set_line_of_address(struct place *place, Dwarf_Die *unit, uint64_t address)
{
	Dwarf_Line *line = dwarf_getsrc_die(unit, address);
	int lineno;

	if (line && !dwarf_lineno(line, &lineno) && lineno > 0)
		place_set_line(place, unit, dwarf_linesrc(line, NULL, NULL), lineno);
}

static uint64_t number_attribute(Dwarf_Die *die, unsigned int name)
{
	Dwarf_Attribute attribute;
	Dwarf_Word number;

	if (dwarf_formudata(dwarf_attr(die, name, &attribute), &number))
		return 0;
	return number;
}

static void set_line_of_call(struct place *place, Dwarf_Die *unit, Dwarf_Die *inlined)
{
	Dwarf_Files *files;
	size_t nr;

	if (dwarf_hasattr(inlined, DW_AT_call_file) && !dwarf_getsrcfiles(unit, &files, &nr))
		place_set_line(place, unit,
			       dwarf_filesrc(files, number_attribute(inlined, DW_AT_call_file), NULL, NULL),
			       number_attribute(inlined, DW_AT_call_line));
}

/*
 * Finds the declaration of the function, or of its abstract origin, which may be in another unit.
 * The file number then refers to that unit's file table.
 */
static void set_declaration(struct place *place, Dwarf_Die *die)
{
	Dwarf_Attribute file, line;
	Dwarf_Word file_nr, lineno;
	struct place declared = {};
	Dwarf_Files *files;
	Dwarf_Die unit;
	size_t nr;

	if (dwarf_formudata(dwarf_attr_integrate(die, DW_AT_decl_line, &line), &lineno) ||
	    dwarf_formudata(dwarf_attr_integrate(die, DW_AT_decl_file, &file), &file_nr) ||
	    !dwarf_cu_die(file.cu, &unit, NULL, NULL, NULL, NULL, NULL, NULL) ||
	    dwarf_getsrcfiles(&unit, &files, &nr))
		return;
	place_set_line(&declared, &unit, dwarf_filesrc(files, file_nr, NULL, NULL), lineno);
	place->decl_directory = declared.directory;
	place->decl_filename = declared.filename;
	place->decl_line = declared.lineno;
}

int units__lookup(struct units *units, uint64_t address, struct place *ret_place, int max)
{
	uint32_t id = ranges_find(&units->ranges, address);
	Dwarf_Die chain[CHAIN_MAX], *function;
	int chain_nr = 0, nr = 0, err;
	struct unit *unit;

	if (id == RANGE_NONE)
		return 0;
	unit = &units->unit[id];
	err = find_function_die(unit, address, &function);
	if (err)
		return err;

	memset(ret_place, 0, max * sizeof(*ret_place));
	set_line_of_address(&ret_place[0], &unit->die, address);
	if (!function) {
		ret_place[0].is_outermost = true;
		return 1;
	}
	chain_nr = find_chain(function, address, chain);
	for (int i = chain_nr; i-- && nr < max; nr++) {
		place_set_name(&ret_place[nr], unit, &chain[i]);
		set_declaration(&ret_place[nr], &chain[i]);
		ret_place[nr].is_outermost = i == 0;
		if (i && nr + 1 < max)
			set_line_of_call(&ret_place[nr + 1], &unit->die, &chain[i]);
	}
	return nr;
}
