// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/python/python_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "elf/elf_object.h"
#include "elf/elf_object_private.h"

/* Whether a file is CPython, and which one. */

#define VERSION_CODE_MAX 512 /* bytes of Py_GetVersion() */

static const char *const symbol_names[SYMBOL_NR] = {
	[SYMBOL_RUNTIME] = "_PyRuntime",
	[SYMBOL_VERSION] = "Py_Version",
	[SYMBOL_GET_VERSION] = "Py_GetVersion",
	[SYMBOL_RAW_MALLOC] = "PyMem_RawMalloc",
	[SYMBOL_MEM_MALLOC] = "PyMem_Malloc",
	[SYMBOL_OBJECT_MALLOC] = "PyObject_Malloc",
	[SYMBOL_TRACK] = "PyTraceMalloc_Track",
	[SYMBOL_UNTRACK] = "PyTraceMalloc_Untrack",
	[SYMBOL_TYPE_TYPE] = "PyType_Type",
	[SYMBOL_NEW_REFERENCE] = "_Py_NewReference",
	[SYMBOL_CODE_TYPE] = "PyCode_Type",
	[SYMBOL_GET_TRACER] = "PyRefTracer_GetTracer",
	[SYMBOL_DEBUG_BUILD] = "_Py_NegativeRefcount",
};

static bool is_symbol_named(const struct name_key *key, const char *name)
{
	return key->len == strlen(name) && !memcmp(key->bytes, name, key->len);
}

int python_find_symbols(struct python_search *search)
{
	struct symbol_table table = {};
	int err = elf_object__load_dynamic_symbols(search->elf, &table);

	for (size_t i = 0; !err && i < table.symbol_nr; i++) {
		const Elf64_Sym *symbol = &table.symbol[i];
		struct name_key name;

		if (symbol->st_shndx == SHN_UNDEF)
			continue;
		name = symbol_table__name(&table, symbol);
		for (unsigned int k = 0; k < SYMBOL_NR; k++)
			if (is_symbol_named(&name, symbol_names[k])) {
				search->symbol[k] = symbol->st_value;
				search->symbol_bytes[k] = symbol->st_size;
			}
	}
	return err ?: search->symbol[SYMBOL_RUNTIME] ? err : -ENOENT;
}

/* ---- the version ---- */

/* "3.10.13", as a string of its own. */
static bool version_text_at(const struct python_search *search, uint64_t vaddr, struct python_version *ret)
{
	char text[16] = "";
	int end = 0;

	if (!elf_object__read_at(search->elf, vaddr, text, sizeof(text) - 1))
		return false;
	return sscanf(text, "%hhu.%hhu.%hhu%n", &ret->major, &ret->minor, &ret->micro, &end) == 3 && ret->major == 3 &&
	       strspn(text + end, "abcr+0123456789") == strlen(text + end);
}

/* Until 3.10 only Py_GetVersion() knows: one of the texts that it refers to. */
static bool version_in_code(struct python_search *search, struct python_version *ret)
{
	uint64_t at = search->symbol[SYMBOL_GET_VERSION], end = at + VERSION_CODE_MAX;
	struct python_code *code = &search->code;

	for (; at && at < end && python_code__decode(code, at); at += code->insn->size) {
		const cs_x86 *x86 = &code->insn->detail->x86;
		const cs_x86_op *from = &x86->operands[1];

		if (x86->op_count != 2)
			continue;
		if (from->type == X86_OP_IMM && version_text_at(search, from->imm, ret))
			return true;
		if (from->type == X86_OP_MEM && from->mem.base == X86_REG_RIP &&
		    version_text_at(search, code->insn->address + code->insn->size + from->mem.disp, ret))
			return true;
	}
	return false;
}

bool python_find_version(struct python_search *search)
{
	struct python_version *version = &search->info->version;
	uint32_t number;

	if (search->symbol[SYMBOL_VERSION]) {
		if (elf_object__read_at(search->elf, search->symbol[SYMBOL_VERSION], &number, sizeof(number)) != sizeof(number))
			return python_info__refuse(search->info, "a CPython whose Py_Version cannot be read");
		*version = (struct python_version){ number >> 24, number >> 16, number >> 8, number };
		return true;
	}
	if (!version_in_code(search, version))
		return python_info__refuse(search->info, "a CPython of an unknown version");
	return true;
}

#define NONE PYTHON_NO_OFFSET
#define RELEASE_LEVEL 0xf0 /* below: alpha, beta, candidate */

/* Facts about a version besides struct python_offsets: offsets in _PyRuntime and in the interpreter. */
struct release {
	unsigned char minor;
	uint32_t tss_key, main_interpreter;
	uint32_t pools; /* in the interpreter; 0: static variables */
	struct python_states states; /* 0: _PyRuntime says it */
	struct python_offsets offsets;
};

#define OBJECTS .bytes_length = 16, .bytes_data = 32, .type_name = 24, .object_type = 8, .object_header = 16
#define STRINGS_OLD .string_length = 16, .string_state = 32, .string_ascii = 48, .string_compact = 72
#define STRINGS .string_length = 16, .string_state = 32, .string_ascii = 40, .string_compact = 56

/* Until 3.10 a frame is an object, and its instruction a number. */
#define FRAME_OBJECTS \
	.code_mask = -1ull, .tstate_frame = 24, .cframe_frame = NONE, .tstate_interp = 16, .frame_code = 32, \
	.frame_back = 24, .frame_owner = NONE, .frame_bytes = 112, .owner_generator = NONE, .owner_shim = NONE, \
	.code_first_line = 40, .code_filename = 104, .code_name = 112, .code_lines = 120, .code_instructions = NONE, \
	.code_first_traceable = NONE, .cframe_back = NONE, STRINGS_OLD, OBJECTS

#define NEW_CODE .code_first_line = 68, .code_filename = 112, .code_name = 128, .code_lines = 136
#define NEW_FRAMES .tstate_interp = 16, .frame_code = 0, .frame_back = 8, .frame_instruction = 56, \
	.frame_bytes = 80, .instruction_kind = PYTHON_POINTER, .owner_generator = 1, .owner_shim = 3, .cframe_back = NONE

static const struct release releases[] = {
	{ 9, 588, 40, 0, { 8, 176 }, { FRAME_OBJECTS, .frame_instruction = 104, .instruction_kind = PYTHON_LASTI_BYTES } },
	{ 10, 588, 40, 0, { 8, 176 }, { FRAME_OBJECTS, .frame_instruction = 96, .instruction_kind = PYTHON_LASTI_UNITS } },
	{ 11, 596, 48, 0, { 16, 152 },
	  { .code_mask = -1ull, .tstate_frame = 56, .cframe_frame = 8, .tstate_interp = 16, .frame_code = 32,
	    .frame_back = 48, .frame_instruction = 56, .frame_owner = 69, .frame_bytes = 72,
	    .instruction_kind = PYTHON_POINTER, .owner_generator = 1, .owner_shim = NONE, .code_first_line = 72,
	    .code_filename = 112, .code_name = 128, .code_lines = 136, .code_instructions = 184,
	    .code_first_traceable = 168, .cframe_back = 16, STRINGS_OLD, OBJECTS } },
	{ 12, 1548, 48, 3960, { 72, 136 },
	  { .code_mask = -1ull, .tstate_frame = 56, .cframe_frame = 0, NEW_FRAMES, .frame_owner = 70, NEW_CODE,
	    .code_instructions = 192, .code_first_traceable = 176, STRINGS, OBJECTS, .object_preheader = 16 } },
	{ 13, 2164, 640, 10800, {},
	  { .code_mask = -1ull, .tstate_frame = 72, .cframe_frame = NONE, NEW_FRAMES, .frame_owner = 70, NEW_CODE,
	    .code_instructions = 200, .code_first_traceable = 184, STRINGS, OBJECTS, .object_preheader = 16 } },
	{ 14, 2340, 816, 10904, {},
	  { .code_mask = ~3ull, .tstate_frame = 72, .cframe_frame = NONE, NEW_FRAMES, .frame_owner = 74, NEW_CODE,
	    .code_instructions = 208, .code_first_traceable = 192, STRINGS, OBJECTS, .object_preheader = 16 } },
};

static const struct release *release_of(struct python_version version)
{
	for (size_t i = 0; i < ARRAY_SIZE(releases); i++)
		if (version.major == 3 && releases[i].minor == version.minor)
			return &releases[i];
	return NULL;
}

bool python_offsets_of(struct python_version version, struct python_offsets *ret)
{
	const struct release *release = release_of(version);

	if (release)
		*ret = release->offsets;
	return release;
}

/* ---- what _PyRuntime says of itself: _Py_DebugOffsets, 3.13 on ---- */

#define COOKIE "xdebugpy"
#define SAID_STATES 7
#define SAID_MAX 80 /* numbers of 8 bytes behind the cookie and the version; the first one: without GIL */

/* Positions in that list, for 3.13 and 3.14, and the field that must be the same. */
#define SAID(nr13, nr14, field) { { nr13, nr14 }, offsetof(struct python_offsets, field) }

static const struct {
	unsigned char at[2];
	unsigned char field;
} said_fields[] = {
	SAID(20, 23, tstate_interp), SAID(21, 24, tstate_frame), SAID(27, 30, frame_back), SAID(28, 31, frame_code),
	SAID(29, 32, frame_instruction), SAID(31, 34, frame_owner), SAID(33, 38, code_filename),
	SAID(35, 40, code_name), SAID(36, 41, code_lines), SAID(37, 42, code_first_line),
	SAID(41, 46, code_instructions), SAID(43, 49, object_type), SAID(45, 51, type_name),
	SAID(63, 73, bytes_length), SAID(64, 74, bytes_data), SAID(66, 76, string_state),
	SAID(67, 77, string_length), SAID(68, 78, string_ascii),
};

static bool check_said(struct python_search *search)
{
	struct python_info *info = search->info;
	bool is_later = info->version.minor > 13;
	struct {
		char cookie[8];
		uint64_t version, number[SAID_MAX];
	} said;

	if (elf_object__read_at(search->elf, info->runtime, &said, sizeof(said)) != sizeof(said) ||
	    memcmp(said.cookie, COOKIE, sizeof(said.cookie)))
		return python_info__refuse(info, "its _PyRuntime does not describe itself as CPython's");
	if (said.number[0])
		return python_info__refuse(info, "a CPython without GIL (free-threaded): not supported yet");
	for (size_t i = 0; i < ARRAY_SIZE(said_fields); i++) {
		unsigned short expected;

		memcpy(&expected, (const char *)&info->offsets + said_fields[i].field, sizeof(expected));
		if (said.number[said_fields[i].at[is_later]] != expected)
			return python_info__refuse(info, "its structures are not CPython 3.%u's", info->version.minor);
	}
	info->states = (struct python_states){ said.number[SAID_STATES], said.number[is_later ? 25 : 22] };
	return true;
}

bool python_check_offsets(struct python_search *search)
{
	const struct release *release = release_of(search->info->version);
	struct python_info *info = search->info;

	if (!release)
		return python_info__refuse(info, "CPython %u.%u, which was never tested: 3.9 to 3.14 are known",
					   info->version.major, info->version.minor);
	if (info->version.level && info->version.level < RELEASE_LEVEL)
		return python_info__refuse(info, "CPython %u.%u.%u before its release, which was never tested", info->version.major,
					   info->version.minor, info->version.micro);
	info->offsets = release->offsets;
	info->states = release->states;
	info->tss_key = info->runtime + release->tss_key;
	info->main_interpreter = info->runtime + release->main_interpreter;
	info->pools.state = release->pools;
	info->pools.in_interpreter = !release->pools ? 0 : release->minor == 12 ? 1 : 2;
	if (search->symbol[SYMBOL_DEBUG_BUILD])
		return python_info__refuse(info, "a debug build of CPython (--with-pydebug): not supported");
	return release->minor < 13 || check_said(search);
}
