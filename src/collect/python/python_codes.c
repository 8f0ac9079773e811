// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/python/python_codes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "collect/bpf.h"
#include "collect/probe/attach_methods.h"
#include "process/objects.h"
#include "elf/python/python_info.h"
#include "elf/python/python_lines.h"
#include "sandbox/client.h"

/* ---- places in CPython ---- */

/* Debug hooks: the size and a letter before the block, as many bytes behind it as the size has (without serial numbers). */
#define HOOK_HEAD 16
#define HOOK_BYTES 24

/* Finds the row with these values, or fills a new one. */
static int find_python_call(const struct allocsnap_bpf *bpf, const struct python_call *call, uint32_t *ret)
{
	struct python_call *rows = bpf->bss->python_calls;

	for (*ret = 0; *ret < PYTHON_CALLS_MAX; ++*ret) {
		if (!rows[*ret].is_used)
			rows[*ret] = *call;
		if (!memcmp(&rows[*ret], call, sizeof(*call)))
			return 0;
	}
	return -ENOSPC;
}

static int add_python_place(const struct allocsnap_bpf *bpf, const struct python_site *place, uint32_t site,
			    enum call_shape shape, struct probe_places *ret)
{
	const struct python_call call = {
		.size = place->size, .count = place->count, .pointer = place->pointer,
		.operation = place->operation, .domain = place->domain, .asks_zf = place->asks_zf,
		.asks_letter = place->asks_letter, .is_used = true,
	};
	struct probe_place probe = { .offset = place->offset };
	uint32_t row;
	int err = find_python_call(bpf, &call, &row);

	if (err)
		return err;
	if (place->operation == PYTHON_POOL_OPEN || place->operation == PYTHON_POOL_CLOSE)
		probe.cookie = COOKIE_STEPPED; /* they are stores */
	probe.cookie |= SITE_COOKIE(site, shape, LAYER_POOL, DOMAIN_PYTHON) | USER_CALL_COOKIE(row);
	return array_push(ret, place, probe);
}

/* SHAPE_NR: it is not probed. */
static enum call_shape shape_of_operation(enum python_operation operation)
{
	if (operation == PYTHON_FREE || operation == PYTHON_UNTRACK || operation == PYTHON_POOL_CLOSE ||
	    operation == PYTHON_CODE_END)
		return SHAPE_PYTHON_FREE;
	if (operation == PYTHON_CREATION)
		return SHAPE_PYTHON_CREATION;
	return operation < PYTHON_OPERATION_NR || operation == PYTHON_TRACK || operation == PYTHON_POOL_OPEN ? SHAPE_PYTHON :
														 SHAPE_NR;
}

static int add_python_places(const struct allocsnap_bpf *bpf, const struct python_info *info, uint32_t site,
			     enum call_shape shape, struct probe_places *ret)
{
	int err = 0;

	for (uint32_t i = 0; i < info->site_nr && !err; i++)
		if (shape_of_operation(info->site[i].operation) == shape)
			err = add_python_place(bpf, &info->site[i], site, shape, ret);
	return err;
}

static const char *name_of_shape(enum call_shape shape)
{
	if (shape == SHAPE_PYTHON_CREATION)
		return "CPython's new objects";
	return shape == SHAPE_PYTHON_FREE ? "CPython's free" : "CPython's malloc, calloc, realloc";
}

static int attach_python_site(const struct attachment *at, const struct python_info *info, enum call_shape shape,
			      struct reason *why)
{
	struct probes *probes = at->probes;
	const struct probe_sites sites = { probes->site_nr, 1, shape_is_free(shape) };
	struct probe_places places = {};
	struct probe_site site = {
		.object = at->object_index,
		.function = name_of_shape(shape),
		.shape = shape,
		.layer = LAYER_POOL,
		.domain = DOMAIN_PYTHON,
		.is_attached = true,
	};
	int err = add_python_places(at->bpf, info, sites.first, shape, &places);

	if (!err && places.place_nr)
		site.offset = places.place[0].offset;
	err = err ?: attach_places(at, PROBE_PYTHON, &places, &sites) ?: array_push(probes, site, site);
	free(places.place);
	return err ? reason_set(why, err, "cannot probe CPython in %s: %s", at->object->path,
				err == -ENOSPC ? "too many different places" : strerror(-err)) : 0;
}

static bool python_is_probed(const struct probes *probes, uint32_t object)
{
	return array_any(probes->site_nr, i,
			 probes->site[i].object == object && shape_is_python(probes->site[i].shape));
}

int python_places_attach(struct probes *probes, const struct allocsnap_bpf *bpf, const struct objects *objects,
			 uint32_t object, const struct python_info *info, struct reason *why)
{
	struct attachment at = attachment_to(probes, bpf, objects, object);
	size_t link_nr = probes->link_nr, site_nr = probes->site_nr;
	int err;

	if (python_is_probed(probes, object))
		return 0;
	err = attach_python_site(&at, info, SHAPE_PYTHON_FREE, why) ?: attach_python_site(&at, info, SHAPE_PYTHON, why);
	if (!err && info->creation_nr)
		err = attach_python_site(&at, info, SHAPE_PYTHON_CREATION, why);
	if (!err)
		return 0;
	detach_from(probes, link_nr);
	probes->site_nr = site_nr;
	return err;
}

void python_process_make(const struct python_info *info, uint64_t bias, struct python_process *ret)
{
	const struct python_pools *pools = &info->pools;

	*ret = (struct python_process){
		.tss_key = info->tss_key + bias,
		.main_interpreter = info->main_interpreter + bias,
		.used_pools = pools->used_pools,
		.usable_arenas = pools->usable_arenas,
		.arenas = pools->arenas,
		.max_arenas = pools->max_arenas,
		.pools_at = pools->in_interpreter ? 0 : bias,
		.pool_bytes = pools->pool_bytes,
		.arena_bytes = pools->arena_bytes,
		.in_interpreter = pools->in_interpreter,
		.state = pools->state,
		.hook_bytes = info->is_hooked ? HOOK_BYTES : 0,
		.hook_head = info->is_hooked ? HOOK_HEAD : 0,
		.offsets = info->offsets,
	};
}

/* ---- the parts of a record ---- */

/* A part of a code object in our memory. */
struct part {
	uint8_t *bytes;
	size_t nr;
};

struct code_parts {
	struct part file, name, lines;
};

static void parts_release(struct code_parts *parts)
{
	free(parts->file.bytes);
	free(parts->name.bytes);
	free(parts->lines.bytes);
}

/* Whole characters only. */
static size_t text_bytes(const struct python_text *text)
{
	return text->bytes < PYTHON_TEXT_MOST ? text->bytes : PYTHON_TEXT_MOST;
}

/* Takes the bytes from the record, or else from the process. */
static int part_take(const struct python_text *text, const uint8_t *in_record, size_t nr, python_read_fn read,
		     void *what, bool *is_read, struct part *ret)
{
	ret->bytes = malloc(nr + 1);
	if (!ret->bytes)
		return -ENOMEM;
	ret->nr = nr;
	if (text->is_read)
		memcpy(ret->bytes, in_record, nr);
	*is_read |= !text->is_read;
	return text->is_read || !nr ? 0 : read(what, text->address, ret->bytes, nr) ? -EFAULT : 0;
}

/* The line table has what is left of the record. */
static bool is_record_sound(const struct python_code_record *record, size_t bytes)
{
	if (bytes < sizeof(*record) || record->lines.bytes > PYTHON_LINES_MOST)
		return false;
	return (!record->file.is_read || record->file.bytes <= sizeof(record->file_bytes)) &&
	       (!record->name.is_read || record->name.bytes <= sizeof(record->name_bytes)) &&
	       (!record->lines.is_read || record->lines.bytes <= bytes - sizeof(*record));
}

static int parts_take(const struct python_code_record *record, python_read_fn read, void *what, bool *is_read,
		      struct code_parts *ret)
{
	int err = part_take(&record->file, record->file_bytes, text_bytes(&record->file), read, what, is_read, &ret->file);

	err = err ?: part_take(&record->name, record->name_bytes, text_bytes(&record->name), read, what, is_read,
			       &ret->name);
	return err ?: part_take(&record->lines, record->line_bytes, record->lines.bytes, read, what, is_read, &ret->lines);
}

/* ---- contents ---- */

/* A UTF-8 text that the caller frees, or NULL. */
static char *utf8_text(const struct python_text *text, const struct part *part)
{
	size_t room = 6 * part->nr + 1;
	char *utf8 = malloc(room);

	if (utf8)
		python_text(text->state, part->bytes, part->nr, utf8, room, NULL);
	return utf8;
}

static void code_release(struct python_code *code)
{
	free(code->filename);
	free(code->name);
	free(code->lines);
	free(code->place);
}

static int code_make(const struct python_code_record *record, struct code_parts *parts, struct python_code *ret)
{
	*ret = (struct python_code){
		.filename = utf8_text(&record->file, &parts->file),
		.name = utf8_text(&record->name, &parts->name),
		.first_line = record->first_line > 0 ? record->first_line : 0,
		.lines = parts->lines.bytes,
		.line_bytes = parts->lines.nr,
	};
	parts->lines.bytes = NULL;
	if (!ret->filename || !ret->name)
		return -ENOMEM;
	ret->hash = hash_bytes(ret->filename, strlen(ret->filename), ret->first_line);
	ret->hash = hash_bytes(ret->name, strlen(ret->name), ret->hash);
	ret->hash = hash_bytes(ret->lines, ret->line_bytes, ret->hash);
	return 0;
}

static bool is_same_content(uint32_t i, const void *key, const void *table)
{
	const struct python_code *code = &((const struct python_codes *)table)->code[i], *other = key;

	return code->first_line == other->first_line && code->line_bytes == other->line_bytes &&
	       !strcmp(code->filename, other->filename) && !strcmp(code->name, other->name) &&
	       !memcmp(code->lines, other->lines, code->line_bytes);
}

/* Finds the content, or takes it over. The caller releases *code if it was not taken over (*ret_is_new). */
static int content_add(struct python_codes *codes, const struct python_code *code, uint32_t *ret, bool *ret_is_new)
{
	uint64_t bytes = sizeof(*code) + strlen(code->filename) + strlen(code->name) + code->line_bytes;
	int err;

	*ret = idmap_find(&codes->contents, code->hash, is_same_content, code, codes);
	*ret_is_new = false;
	if (*ret != IDMAP_NONE)
		return 0;
	if (codes->bytes + bytes > PYTHON_CODES_BYTES_MOST)
		return -E2BIG;
	err = array_push(codes, code, *code);
	if (err)
		return err;
	err = idmap_add(&codes->contents, code->hash, codes->code_nr - 1);
	if (err) {
		codes->code_nr--;
		return err;
	}
	codes->bytes += bytes;
	*ret = codes->code_nr - 1;
	*ret_is_new = true;
	return 0;
}

/* ---- ids ---- */

static bool is_same_id(uint32_t i, const void *id, const void *table)
{
	return ((const struct python_codes *)table)->id[i].id == *(const uint32_t *)id;
}

static struct python_code *find_code(const struct python_codes *codes, uint32_t id)
{
	uint32_t i = idmap_find(&codes->ids, hash_number(id), is_same_id, &id, codes);

	return i == IDMAP_NONE ? NULL : &codes->code[codes->id[i].code];
}

static int id_add(struct python_codes *codes, uint32_t id, uint32_t code)
{
	const struct python_code_id row = { id, code };

	return array_push(codes, id, row) ?: idmap_add(&codes->ids, hash_number(id), codes->id_nr - 1);
}

int python_codes_add(struct python_codes *codes, const struct python_code_record *record, size_t bytes,
		     python_read_fn read, bool (*is_same)(void *what), void *what)
{
	struct code_parts parts = {};
	struct python_code code = {};
	bool is_read = false, is_new = false;
	uint32_t index = 0;
	int err;

	if (!is_record_sound(record, bytes))
		return -EINVAL;
	if (codes->id_nr >= PYTHON_CODES_MOST)
		return -E2BIG;
	err = parts_take(record, read, what, &is_read, &parts);
	if (!err && is_read && !is_same(what))
		err = -ESTALE;
	err = err ?: code_make(record, &parts, &code) ?: content_add(codes, &code, &index, &is_new);
	if (!is_new)
		code_release(&code);
	parts_release(&parts);
	return err ?: id_add(codes, record->id, index);
}

/* ---- lines ---- */

static struct python_place *code_place(const struct python_code *code, int64_t instruction)
{
	return array_find(code, place, i, code->place[i].instruction == instruction);
}

int python_codes_want(struct python_codes *codes, uint32_t id, int64_t instruction)
{
	struct python_code *code = find_code(codes, id);
	struct python_place place = { .instruction = instruction };

	return !code || code_place(code, instruction) ? 0 : array_push(code, place, place);
}

/* Asks for the lines of one code object. If the reader fails, its places stay without a line. */
static int code_look_up(struct python_code *code, size_t first, struct sandbox *sandbox, unsigned int kind)
{
	const struct python_line_table table = {
		.kind = kind, .first_line = code->first_line, .table = code->lines, .bytes = code->line_bytes,
	};
	size_t nr = code->place_nr - first;
	int64_t *instruction = calloc(nr, sizeof(*instruction));
	int32_t *line = calloc(nr, sizeof(*line));
	int err = instruction && line ? 0 : -ENOMEM;

	for (size_t i = 0; i < nr && !err; i++)
		instruction[i] = code->place[first + i].instruction;
	if (!err && !sandbox__python_lines(sandbox, &table, instruction, nr, line, NULL))
		for (size_t i = 0; i < nr; i++)
			code->place[first + i].line = line[i] > 0 ? line[i] : 0;
	for (size_t i = 0; i < nr && !err; i++)
		code->place[first + i].is_known = true;
	free(instruction);
	free(line);
	return err;
}

/* Places are added at the end, so those that are not known yet are the last ones. */
int python_codes_look_up(struct python_codes *codes, struct sandbox *sandbox, unsigned int kind)
{
	int err = 0;

	for (size_t i = 0; i < codes->code_nr && !err; i++) {
		struct python_code *code = &codes->code[i];
		size_t first = code->place_nr;

		while (first && !code->place[first - 1].is_known)
			first--;
		if (first < code->place_nr)
			err = code_look_up(code, first, sandbox, kind);
	}
	return err;
}

const struct python_code *python_codes_find(const struct python_codes *codes, uint32_t id, int64_t instruction,
					    int32_t *ret_line)
{
	const struct python_code *code = find_code(codes, id);
	const struct python_place *place = code ? code_place(code, instruction) : NULL;

	*ret_line = place ? place->line : 0;
	return code;
}

void python_codes_release(struct python_codes *codes)
{
	for (size_t i = 0; i < codes->code_nr; i++)
		code_release(&codes->code[i]);
	free(codes->code);
	free(codes->id);
	idmap_release(&codes->contents);
	idmap_release(&codes->ids);
	*codes = (struct python_codes){};
}
