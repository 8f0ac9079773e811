// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "symbols_fixture.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "symbols/debug_file.h"
#include "symbols/direct.h"
#include "symbols/symbols.h"

static char workshop[64];

void workshop_open(void)
{
	strcpy(workshop, "/tmp/allocsnap-symbols-XXXXXX");
	cr_assert(mkdtemp(workshop));
}

void workshop_close(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", workshop);
	cr_expect(!system(command));
}

const char *workshop_path(const char *name)
{
	static char path[4][256];
	static unsigned int next;

	next = (next + 1) % ARRAY_SIZE(path);
	snprintf(path[next], sizeof(path[next]), "%s/%s", workshop, name);
	return path[next];
}

void workshop_write(const char *name, const char *text)
{
	FILE *file = fopen(workshop_path(name), "w");

	cr_assert(file);
	fputs(text, file);
	cr_assert(!fclose(file));
}

/* "cd WORKSHOP && (COMMAND)"; the caller frees it. */
static char *in_workshop(const char *fmt, va_list args)
{
	char *command, *line;

	cr_assert(vasprintf(&command, fmt, args) >= 0);
	cr_assert(asprintf(&line, "cd '%s' && (%s)", workshop, command) >= 0);
	free(command);
	return line;
}

void workshop_run(const char *fmt, ...)
{
	va_list args;
	char *line;

	va_start(args, fmt);
	line = in_workshop(fmt, args);
	va_end(args);
	cr_assert(!system(line), "%s", line);
	free(line);
}

bool workshop_can(const char *fmt, ...)
{
	va_list args;
	char *line;
	bool can;

	va_start(args, fmt);
	line = in_workshop(fmt, args);
	va_end(args);
	can = !system(line);
	free(line);
	return can;
}

char *workshop_output(const char *fmt, ...)
{
	char *line, *text = NULL;
	size_t text_nr = 0;
	va_list args;
	FILE *pipe;

	va_start(args, fmt);
	line = in_workshop(fmt, args);
	va_end(args);
	pipe = popen(line, "r");
	cr_assert(pipe);
	if (getdelim(&text, &text_nr, '\0', pipe) < 0) {
		free(text);
		text = strdup("");
	}
	cr_assert(!pclose(pipe), "%s", line);
	free(line);
	return text;
}

/* ---- calls ---- */

struct load {
	uint64_t offset, address, size;
};

static size_t read_loads(const char *file, struct load *load, size_t load_max)
{
	char *text = workshop_output("readelf -lW '%s'", file), *line, *rest = text;
	size_t nr = 0;

	while ((line = strsep(&rest, "\n")) && nr < load_max)
		if (sscanf(line, " LOAD %lx %lx %*x %lx", &load[nr].offset, &load[nr].address,
			   &load[nr].size) == 3)
			nr++;
	free(text);
	return nr;
}

static uint64_t offset_of(uint64_t address, const struct load *load, size_t load_nr)
{
	for (size_t i = 0; i < load_nr; i++)
		if (address - load[i].address < load[i].size)
			return address - load[i].address + load[i].offset;
	cr_assert_fail("%lx lies in no segment", address);
	return 0;
}

static bool is_call(const char *instruction)
{
	while (*instruction == ' ' || *instruction == '\t')
		instruction++;
	return !strncmp(instruction, "call", 4) || !strncmp(instruction, "bnd call", 8) ||
	       !strncmp(instruction, "bl\t", 3) || !strncmp(instruction, "blr\t", 4);
}

size_t workshop_calls(const char *file, struct call **ret_call)
{
	char *text = workshop_output("objdump -d --no-show-raw-insn '%s'", file);
	char *line, *rest = text, *instruction;
	struct { struct call *call; size_t call_nr, call_alloc; } calls = {};
	struct load load[16];
	size_t load_nr = read_loads(file, load, ARRAY_SIZE(load));
	bool after_call = false;

	while ((line = strsep(&rest, "\n"))) {
		struct call call;
		uint64_t address = strtoul(line, &instruction, 16);

		if (line[0] != ' ' || instruction[0] != ':') {
			after_call = false;
			continue;
		}
		call.return_address = address;
		if (after_call) {
			call.return_offset = offset_of(address - 1, load, load_nr) + 1;
			cr_assert(!array_push(&calls, call, call));
		}
		after_call = is_call(instruction + 1);
	}
	free(text);
	cr_assert(calls.call_nr);
	*ret_call = calls.call;
	return calls.call_nr;
}

/* ---- the same as other tools ---- */

/* How a tool's line is compared with ours. */
typedef void (*compare_fn)(const struct symbol *frame, const char *function, const char *location,
			   uint64_t address);

/* "./" and " (discriminator 3)" are no difference; "?" and 0 are no line. */
static void normalise(char *location)
{
	char *cut = strstr(location, " (disc"), *dot;
	size_t len;

	if (cut)
		*cut = '\0';
	while ((dot = strstr(location, "/./")))
		memmove(dot, dot + 2, strlen(dot + 2) + 1);
	while (!strncmp(location, "./", 2))
		memmove(location, location + 2, strlen(location + 2) + 1);
	len = strlen(location);
	if (len >= 2 && (!strcmp(location + len - 2, ":?") || !strcmp(location + len - 2, ":0")))
		strcpy(location, "??:0");
}

/*
 * Equal, or ours is the end of theirs: the tools put a relative compilation directory ("./io")
 * before names that have it already.
 */
static bool same_location(const char *ours, const char *theirs)
{
	size_t ours_len = strlen(ours), theirs_len = strlen(theirs);

	if (!strcmp(ours, theirs))
		return true;
	return ours[0] != '/' && ours_len < theirs_len &&
	       !strcmp(theirs + theirs_len - ours_len, ours) &&
	       theirs[theirs_len - ours_len - 1] == '/';
}

static void compare_lines(const struct symbol *frame, const char *, const char *location,
			  uint64_t address)
{
	char ours[1024], theirs[1024];

	snprintf(ours, sizeof(ours), "%s:%u", frame->filename ? frame->filename : "??",
		 frame->lineno);
	snprintf(theirs, sizeof(theirs), "%s", location);
	normalise(ours);
	normalise(theirs);
	cr_expect(same_location(ours, theirs), "%lx: we say %s, not %s", address, ours, theirs);
}

static void compare_names(const struct symbol *frame, const char *function, const char *,
			  uint64_t address)
{
	const char *name = frame->function ? frame->function : "??";

	cr_expect(!strcmp(name, function), "%lx: we say %s, not %s", address, name, function);
}

static void compare_cxx_names(const struct symbol *frame, const char *function, const char *,
			      uint64_t address)
{
	const char *name = frame->function ? frame->function : "??";

	cr_expect(strstr(name, function) || strstr(function, name), "%lx: we say %s, not %s",
		  address, name, function);
}

static void expect_call(struct symbols *symbols, uint32_t object, const struct call *call,
			char **rest, compare_fn compare)
{
	struct symbol frame[SYMBOL_INLINE_MAX];
	int nr = symbols__lookup(symbols, object, call->return_offset, frame), theirs = 0;
	char *function, *location;

	while (*rest && **rest && strncmp(*rest, "0x", 2)) {
		function = strsep(rest, "\n");
		location = strsep(rest, "\n");
		if (theirs < nr)
			compare(&frame[theirs], function, location, call->return_address);
		theirs++;
	}
	cr_expect_eq(nr, theirs, "%lx: we say %d frames, not %d", call->return_address, nr, theirs);
}

/* A program that prints what addr2line -a -i -f prints. */
struct oracle {
	const char *tool, *filter;
	const char *file;
	compare_fn compare;
};

static void expect_as(const struct oracle *oracle, struct symbols *symbols, uint32_t object,
		      const struct call *call, size_t call_nr)
{
	FILE *list = fopen(workshop_path("addresses"), "w");
	char *text, *rest, *address;

	cr_assert(list);
	for (size_t i = 0; i < call_nr; i++)
		fprintf(list, "0x%lx\n", call[i].return_address - 1);
	cr_assert(!fclose(list));
	text = workshop_output("<addresses %s -a -i -f -e '%s' %s", oracle->tool, oracle->file,
			       oracle->filter);
	rest = text;
	for (size_t i = 0; i < call_nr; i++) {
		address = strsep(&rest, "\n");
		cr_assert(rest && strtoul(address, NULL, 16) == call[i].return_address - 1);
		expect_call(symbols, object, &call[i], &rest, oracle->compare);
	}
	free(text);
}

void expect_same_lines(struct symbols *symbols, const char *file, const char *debug_file,
		       const struct call *call, size_t call_nr)
{
	struct oracle lines = { "llvm-addr2line", "", debug_file, compare_lines };

	expect_as(&lines, symbols, open_object(symbols, file, file), call, call_nr);
}

void expect_same(struct symbols *symbols, const char *file, const struct call *call,
		 size_t call_nr, bool is_c)
{
	struct oracle c_names = { "addr2line", "", file, compare_names };
	struct oracle cxx_names = {
		"llvm-addr2line", "| sed -E 's/(\\.(cold|constprop|isra)(\\.[0-9]+)?)+$//' | c++filt",
		file, compare_cxx_names,
	};
	uint32_t object = open_object(symbols, file, file);

	expect_same_lines(symbols, file, file, call, call_nr);
	expect_as(is_c ? &c_names : &cxx_names, symbols, object, call, call_nr);
}

/* ---- both ways ---- */

static struct both {
	struct symbols *symbols;
	struct sandbox *sandbox; /* or the rest, to read in this process */
	struct symbol_source source;
	struct debug_opener opener;
	int debug_root_fd;
} both[4];

static struct both *of(const struct symbols *symbols)
{
	for (size_t i = 0; i < ARRAY_SIZE(both); i++)
		if (both[i].symbols == symbols)
			return &both[i];
	cr_assert_fail("too many at once");
	return NULL;
}

static int open_candidate(void *self, const char *object_path, const struct debug_want *want)
{
	return want->nr ? -1 : debug_file__candidate(((struct both *)self)->debug_root_fd, object_path, want);
}

static void read_here(struct both *new, const char *debug_root)
{
	new->debug_root_fd = open(debug_root ?: DEBUG_FILE_ROOT, O_PATH | O_DIRECTORY | O_CLOEXEC);
	new->opener = (struct debug_opener){ .open = open_candidate, .self = new };
	new->source = (struct symbol_source){ .look_up = direct__look_up, .self = direct__new(&new->opener) };
	cr_assert(new->source.self);
	new->symbols = symbols__new(&new->source);
}

struct symbols *names_new(const char *debug_root)
{
	const struct sandbox_options options = { .debug_root = debug_root };
	struct both *new = of(NULL);
	struct reason why;

	new->sandbox = NULL;
	if (getenv("SYMBOLS_PARSER")) {
		new->sandbox = sandbox__open(&options, &why);
		cr_assert(new->sandbox, "%s", why.text);
		new->symbols = symbols__new(sandbox__source(new->sandbox));
	} else {
		read_here(new, debug_root);
	}
	cr_assert(new->symbols);
	return new->symbols;
}

void names_free(struct symbols *symbols)
{
	struct both *old = of(symbols);

	old->symbols = NULL;
	symbols__free(symbols);
	sandbox__close(old->sandbox);
	if (old->sandbox)
		return;
	direct__free(old->source.self);
	close(old->debug_root_fd);
}

/* ---- single questions ---- */

uint32_t open_object(struct symbols *symbols, const char *file, const char *path)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	uint32_t object = UINT32_MAX;

	cr_assert(fd >= 0, "%s", file);
	cr_assert(!symbols__object(symbols, path, "", fd, &object));
	return object; /* fd stays open: names are read from it later */
}

uint64_t offset_in(const char *file, const char *nm_file, const char *function)
{
	char *text = workshop_output("nm '%s' | grep ' %s$'", nm_file, function);
	uint64_t address = strtoul(text, NULL, 16);
	struct load load[16];

	free(text);
	return offset_of(address, load, read_loads(file, load, ARRAY_SIZE(load))) + 1;
}

const char *function_at(struct symbols *symbols, uint32_t object, uint64_t offset)
{
	struct symbol frame[SYMBOL_INLINE_MAX];
	int nr = symbols__lookup(symbols, object, offset, frame);

	cr_assert(nr >= 1);
	return frame[nr - 1].function;
}
