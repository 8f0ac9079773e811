// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "census/java_census.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/reason.h"
#include "base/units.h"
#include "java/attach.h"
#include "java/type_name.h"
#include "render/emitter.h"

#define PATIENCE_NS (120 * SECOND_NS) /* a full collection of a large heap takes long */

/* "   1:         13671       18189472  [B (java.base@17.0.15)" */
static bool parse_class_row(const char *line, size_t bytes, struct java_class *ret, char name[JAVA_TYPE_MAX])
{
	char text[JAVA_TYPE_MAX + 64];
	unsigned int number;
	int at = 0;

	snprintf(text, sizeof(text), "%.*s", (int)(bytes < sizeof(text) ? bytes : sizeof(text) - 1), line);
	if (sscanf(text, " %u: %" SCNu64 " %" SCNu64 " %n", &number, &ret->count, &ret->bytes, &at) < 3 || !at || !text[at])
		return false;
	java_type_name(text + at, strcspn(text + at, " "), name);
	return true;
}

/* "Total         13678       18189640": the last line. */
static bool parse_total(const char *line, uint64_t *ret_count, uint64_t *ret_bytes)
{
	return sscanf(line, "Total %" SCNu64 " %" SCNu64, ret_count, ret_bytes) == 2;
}

int java_census_parse(const char *text, struct java_census *ret)
{
	uint64_t total_count = 0, total_bytes = 0;
	char name[JAVA_TYPE_MAX];
	int err = 0;

	for (size_t bytes; *text && !err; text += bytes + (text[bytes] == '\n')) {
		struct java_class class = {};

		bytes = strcspn(text, "\n");
		if (parse_total(text, &total_count, &total_bytes) || !parse_class_row(text, bytes, &class, name))
			continue;
		class.name = strdup(name);
		err = class.name ? array_push(ret, class, class) : -ENOMEM;
		if (err)
			free(class.name);
		ret->count += class.count;
		ret->bytes += class.bytes;
	}
	if (!err && !ret->class_nr)
		err = -ENODATA;
	return err ?: ret->count == total_count && ret->bytes == total_bytes ? 0 : -EBADMSG;
}

int java_census_take(pid_t pid, enum java_census_kind kind, struct java_census *ret, struct reason *why)
{
	const uint64_t begun_ns = monotonic_now_ns();
	const struct jvm_command command = {
		.name = "inspectheap", .argument = { kind == JAVA_CENSUS_ALL ? "-all" : "-live" }, .until_ns = begun_ns + PATIENCE_NS,
	};
	char *text = NULL;
	struct jvm jvm;
	int err = jvm_look(pid, &jvm, why), fd;

	if (err)
		return err;
	fd = err = jvm_open_tmp(&jvm, why);
	if (fd < 0)
		return err;
	err = jvm_ask(&jvm, fd, &command, &text, why);
	close(fd);
	*ret = (struct java_census){ .pid = pid, .version = jvm.version, .kind = kind };
	if (!err) {
		err = java_census_parse(text, ret);
		if (err == -EBADMSG)
			reason_set(why, err, "its answer is not whole: its classes are not as many as their total");
		else if (err)
			reason_set(why, err, "its answer has no classes: %.*s", (int)strcspn(text, "\n"), text);
	}
	ret->took_ns = monotonic_now_ns() - begun_ns;
	free(text);
	return err;
}

void java_census_release(struct java_census *census)
{
	for (size_t i = 0; i < census->class_nr; i++)
		free(census->class[i].name);
	free(census->class);
	*census = (struct java_census){};
}

static void put_java_class(struct emitter *out, const struct java_class *class)
{
	emit_object(out, NULL);
	emit_line(out, "  %10s %12" PRIu64 "  %s", format_size((char[UNIT_TEXT_MAX]){}, class->bytes, false), class->count, class->name);
	emit_text(out, "class", class->name);
	emit_uint(out, "count", class->count);
	emit_uint(out, "bytes", class->bytes);
	emit_end(out);
}

int java_census_put(FILE *file, const struct java_census *census, uint64_t top, bool is_json)
{
	struct emitter out = emit_to(file, is_json);
	size_t shown = top && !is_json && top < census->class_nr ? top : census->class_nr;
	bool is_live = census->kind == JAVA_CENSUS_LIVE;

	emit_line(&out, "process %d, Java %u: %s in %" PRIu64 " objects %s", census->pid, census->version,
		  format_size((char[UNIT_TEXT_MAX]){}, census->bytes, false), census->count,
		  is_live ? "after a full collection, for which the program stood still" :
			    "in the heap, with those that the next collection will take away");
	emit_line(&out, "  %10s %12s  class", "bytes", "objects");
	emit_text(&out, "schema", JAVA_CENSUS_SCHEMA);
	emit_int(&out, "pid", census->pid);
	emit_uint(&out, "version", census->version);
	emit_bool(&out, "is_live", is_live);
	emit_uint(&out, "took_ns", census->took_ns);
	emit_uint(&out, "count", census->count);
	emit_uint(&out, "bytes", census->bytes);
	emit_list(&out, "classes");
	for (size_t i = 0; i < shown; i++)
		put_java_class(&out, &census->class[i]);
	emit_end(&out);
	if (shown < census->class_nr)
		emit_line(&out, "  … and %zu more (--top 0 lists all)", census->class_nr - shown);
	return emit_finish(&out);
}
