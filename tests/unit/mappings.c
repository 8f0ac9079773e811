// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/reason.h"
#include "elf/elf_object.h"
#include "parser_fixture.h"
#include "collect/process/mapping_events.h"
#include "collect/process/mappings.h"

#define NO_PROCESS 0x3fffffff

struct fixture {
	struct objects objects;
	struct mappings mappings;
};

static struct objects new_objects(void)
{
	return (struct objects){ .parser = parser_with(NULL, 0) };
}

static void release(struct objects *objects)
{
	parser__close(objects->parser);
	objects_release(objects);
}

static struct fixture *new_fixture(void)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	fixture->objects = new_objects();
	fixture->mappings.objects = &fixture->objects;
	return fixture;
}

static void free_fixture(struct fixture *fixture)
{
	mappings_release(&fixture->mappings);
	release(&fixture->objects);
	free(fixture);
}

/* Memory without a file. */
static void add(struct fixture *fixture, uint64_t start, uint64_t end, uint64_t offset)
{
	const struct mapped_file file = { .pid = NO_PROCESS, .start = start, .end = end,
					  .path = "[vdso]" };

	cr_assert_eq(mappings_add(&fixture->mappings, &file, offset), 0);
}

static void expect_at(struct fixture *fixture, uint64_t address, uint64_t offset)
{
	const struct mapping *mapping = mappings_find(&fixture->mappings, address);

	cr_assert(mapping, "nothing at 0x%llx", (unsigned long long)address);
	cr_expect_eq(address - mapping->start + mapping->offset, offset,
		     "0x%llx is not at offset 0x%llx", (unsigned long long)address,
		     (unsigned long long)offset);
}

static void expect_nothing_at(struct fixture *fixture, uint64_t address)
{
	cr_expect_null(mappings_find(&fixture->mappings, address));
}

Test(mappings, replace_older_mappings_at_the_same_addresses)
{
	struct fixture *fixture = new_fixture();

	add(fixture, 0x1000, 0x9000, 0x10000);
	add(fixture, 0x3000, 0x5000, 0x50000);
	expect_at(fixture, 0x1000, 0x10000);
	expect_at(fixture, 0x2fff, 0x11fff);
	expect_at(fixture, 0x3000, 0x50000);
	expect_at(fixture, 0x4fff, 0x51fff);
	expect_at(fixture, 0x5000, 0x14000);
	expect_at(fixture, 0x8fff, 0x17fff);
	expect_nothing_at(fixture, 0x9000);
	cr_expect_eq(fixture->mappings.replaced_nr, 1);
	free_fixture(fixture);
}

Test(mappings, replace_several_older_mappings_at_once)
{
	struct fixture *fixture = new_fixture();

	add(fixture, 0x1000, 0x3000, 0x10000);
	add(fixture, 0x3000, 0x4000, 0x20000);
	add(fixture, 0x6000, 0x8000, 0x30000);
	add(fixture, 0x2000, 0x7000, 0x80000);
	cr_expect_eq(fixture->mappings.mapping_nr, 3);
	expect_at(fixture, 0x1fff, 0x10fff);
	expect_at(fixture, 0x2000, 0x80000);
	expect_at(fixture, 0x6fff, 0x84fff);
	expect_at(fixture, 0x7000, 0x31000);
	cr_expect_eq(fixture->mappings.replaced_nr, 3);
	free_fixture(fixture);
}

Test(mappings, replace_nothing_when_they_are_added_again)
{
	struct fixture *fixture = new_fixture();

	add(fixture, 0x1000, 0x3000, 0x10000);
	add(fixture, 0x1000, 0x3000, 0x10000);
	add(fixture, 0x2000, 0x3000, 0x11000); /* a part of it */
	expect_at(fixture, 0x1000, 0x10000);
	expect_at(fixture, 0x2000, 0x11000);
	cr_expect_eq(fixture->mappings.replaced_nr, 0);
	free_fixture(fixture);
}

Test(mappings, may_be_copied_independently)
{
	struct fixture *fixture = new_fixture();
	struct mappings copy = {};

	add(fixture, 0x1000, 0x3000, 0x10000);
	cr_assert_eq(mappings_copy(&copy, &fixture->mappings), 0);
	mappings_forget(&fixture->mappings);
	cr_expect_not_null(mappings_find(&copy, 0x1000));
	cr_expect_eq(copy.used_nr, 1);
	expect_nothing_at(fixture, 0x1000);
	mappings_release(&copy);
	free_fixture(fixture);
}

/* ---- mappings that are unmapped ---- */

/* As /proc/PID/maps has it, of the vDSO, which is one file for all of these; "" ends them. */
static void read_maps(struct fixture *fixture, const char *lines)
{
	char *text = strdup(lines);

	cr_assert_eq(mappings_read(&fixture->mappings, NO_PROCESS, text, false), 0);
	free(text);
}

#define LINE_1 "1000-2000 r-xp 00001000 00:00 0   [vdso]\n"
#define LINE_3 "3000-4000 r-xp 00003000 00:00 0   [vdso]\n"
#define OTHER_3 "3000-4000 r-xp 00009000 00:00 0   [vdso]\n"
#define DATA "5000-6000 rw-p 00001000 00:00 0   [vdso]\n"

static bool is_there(struct fixture *fixture, uint64_t address)
{
	const struct mapping *mapping = mappings_find(&fixture->mappings, address);

	return mapping && mapping_is_there(&fixture->mappings, mapping);
}

Test(mappings, that_were_unmapped_stay_known_as_unmapped)
{
	struct fixture *fixture = new_fixture();

	read_maps(fixture, LINE_1 LINE_3 DATA);
	cr_expect(is_there(fixture, 0x1000) && is_there(fixture, 0x3000));
	expect_nothing_at(fixture, 0x5000);
	read_maps(fixture, LINE_1);
	cr_expect(is_there(fixture, 0x1000));
	cr_expect_not(is_there(fixture, 0x3000));
	expect_at(fixture, 0x3800, 0x3800);
	add(fixture, 0x3000, 0x4000, 0x3000); /* again */
	cr_expect(is_there(fixture, 0x3000));
	cr_expect_eq(fixture->mappings.replaced_nr, 0);
	free_fixture(fixture);
}

Test(mappings, that_were_unmapped_before_the_last_pass_are_forgotten)
{
	struct fixture *fixture = new_fixture();

	read_maps(fixture, LINE_1 LINE_3);
	mappings_end_pass(&fixture->mappings);
	read_maps(fixture, LINE_1); /* the next drain resolves earlier tracebacks */
	mappings_end_pass(&fixture->mappings);
	expect_at(fixture, 0x3000, 0x3000);
	mappings_end_pass(&fixture->mappings);
	expect_nothing_at(fixture, 0x3000);
	mappings_end_pass(&fixture->mappings);
	cr_expect(is_there(fixture, 0x1000), "it is mapped still");
	cr_expect_eq(fixture->mappings.forgotten_nr, 0, "nothing that was needed");
	free_fixture(fixture);
}

/* Tracebacks that were cached for the old code must not be used for the new code. */
Test(mappings, added_over_forgotten_mappings_are_a_change)
{
	struct fixture *fixture = new_fixture();

	read_maps(fixture, LINE_1 LINE_3);
	read_maps(fixture, LINE_1);
	cr_expect_eq(mappings_forget_unmapped(&fixture->mappings, fixture->mappings.reading), 1);
	cr_expect_eq(fixture->mappings.changed_nr, 0);
	add(fixture, 0x8000, 0x9000, 0x8000);
	cr_expect_eq(fixture->mappings.changed_nr, 0);
	add(fixture, 0x2000, 0x3001, 0x2000);
	cr_expect_eq(fixture->mappings.changed_nr, 1);
	cr_expect_eq(fixture->mappings.replaced_nr, 1);
	add(fixture, 0x3001, 0x4000, 0x3001);
	cr_expect_eq(fixture->mappings.changed_nr, 1, "it is told already");
	free_fixture(fixture);
}

Test(mappings, read_over_forgotten_mappings_are_a_change)
{
	struct fixture *fixture = new_fixture();

	read_maps(fixture, LINE_1 LINE_3);
	read_maps(fixture, LINE_1);
	mappings_forget_unmapped(&fixture->mappings, fixture->mappings.reading);
	read_maps(fixture, LINE_1 OTHER_3);
	cr_expect_eq(fixture->mappings.changed_nr, 1);
	cr_expect_eq(fixture->mappings.replaced_nr, 1);
	free_fixture(fixture);
}

static uint64_t unmapped_address(unsigned int i)
{
	return 0x100000 + i * 0x2000;
}

/* Maps one after the other; each reading of the maps finds the earlier ones gone. */
static void map_and_unmap(struct fixture *fixture, unsigned int nr)
{
	for (unsigned int i = 0; i < nr; i++) {
		add(fixture, unmapped_address(i), unmapped_address(i) + 0x1000, 0);
		if (i % 100 == 99)
			read_maps(fixture, LINE_1);
	}
	read_maps(fixture, LINE_1);
}

#define FORGOTTEN 250

Test(mappings, forget_the_oldest_unmapped_mappings_first)
{
	struct fixture *fixture = new_fixture();

	map_and_unmap(fixture, MAPPINGS_UNMAPPED_MAX + FORGOTTEN);
	cr_expect_eq(fixture->mappings.mapping_nr, MAPPINGS_UNMAPPED_MAX + 1);
	cr_expect_eq(fixture->mappings.forgotten_nr, FORGOTTEN);
	cr_expect(is_there(fixture, 0x1000));
	for (unsigned int i = 0; i < MAPPINGS_UNMAPPED_MAX + FORGOTTEN; i++)
		cr_expect_eq(!mappings_find(&fixture->mappings, unmapped_address(i)), i < FORGOTTEN, "%u", i);
	cr_expect_gt(fixture->mappings.changed_nr, 0, "too many places to be remembered");
	free_fixture(fixture);
}

Test(mappings, beyond_the_limit_of_a_pass_are_counted_as_skipped)
{
	struct fixture *fixture = new_fixture();

	for (unsigned int i = 0; i < MAPPINGS_ADDED_MAX + 5; i++)
		add(fixture, unmapped_address(i), unmapped_address(i) + 0x1000, 0);
	cr_expect_eq(fixture->mappings.mapping_nr, MAPPINGS_ADDED_MAX);
	cr_expect_eq(fixture->mappings.skipped_nr, 5);
	read_maps(fixture, LINE_1);
	add(fixture, 0x8000, 0x9000, 0);
	cr_expect(is_there(fixture, 0x8000));
	cr_expect_eq(fixture->mappings.skipped_nr, 5);
	free_fixture(fixture);
}

Test(mappings, after_the_end_of_a_truncated_maps_text_stay_mapped)
{
	struct fixture *fixture = new_fixture();
	char text[] = LINE_1;

	read_maps(fixture, LINE_1 LINE_3);
	cr_assert_eq(mappings_read(&fixture->mappings, NO_PROCESS, text, true), 0);
	cr_expect(is_there(fixture, 0x1000) && is_there(fixture, 0x3000));
	cr_expect_eq(fixture->mappings.skipped_nr, 1);
	free_fixture(fixture);
}

/* The kernel goes on behind the last line's end; what has grown over that since comes with its begin. */
Test(mappings, on_overlapping_lines_are_cut)
{
	struct fixture *fixture = new_fixture();

	read_maps(fixture, LINE_1 "1000-3000 r-xp 00001000 00:00 0   [vdso]\n" LINE_1 LINE_3);
	cr_expect_eq(fixture->mappings.mapping_nr, 3);
	expect_at(fixture, 0x1800, 0x1800);
	expect_at(fixture, 0x2800, 0x2800);
	expect_at(fixture, 0x3800, 0x3800);
	free_fixture(fixture);
}

/* ---- the same as a model that knows each page ---- */

#define PAGES 64
#define PAGE 0x1000UL
#define BASE 0x10000UL

/* A page of code. Its bias, start - offset, distinguishes it from another mapping's page. */
struct model_page {
	bool is_known;
	uint64_t bias, seen;
};

struct model {
	struct model_page page[PAGES];
	uint64_t reading;
};

struct piece {
	unsigned int first, nr;
	uint64_t bias;
};

static struct piece any_piece(unsigned int first)
{
	struct piece piece = { .first = first, .bias = rand() % 3 * 0x100000 };

	piece.nr = 1 + rand() % 6;
	if (piece.first + piece.nr > PAGES)
		piece.nr = PAGES - piece.first;
	return piece;
}

static void model_map(struct model *model, const struct piece *piece)
{
	for (unsigned int i = piece->first; i < piece->first + piece->nr; i++)
		model->page[i] = (struct model_page){ true, piece->bias, model->reading };
}

static void add_piece(struct fixture *fixture, struct model *model)
{
	struct piece piece = any_piece(rand() % PAGES);
	uint64_t start = BASE + piece.first * PAGE;

	add(fixture, start, start + piece.nr * PAGE, start + piece.bias);
	model_map(model, &piece);
}

static void read_pieces(struct fixture *fixture, struct model *model)
{
	char text[PAGES * 64] = "", *end = text;

	model->reading++;
	for (unsigned int at = rand() % 8; at < PAGES; at += rand() % 8) {
		struct piece piece = any_piece(at);
		uint64_t start = BASE + piece.first * PAGE;

		end += sprintf(end, "%lx-%lx r-xp %lx 00:00 0 [vdso]\n", start, start + piece.nr * PAGE,
			       start + piece.bias);
		model_map(model, &piece);
		at += piece.nr;
	}
	if (*text)
		read_maps(fixture, text);
	else
		model->reading--;
}

static void forget_pieces(struct fixture *fixture, struct model *model)
{
	uint64_t reading = model->reading - (model->reading ? rand() % 2 : 0);

	mappings_forget_unmapped(&fixture->mappings, reading);
	for (unsigned int i = 0; i < PAGES; i++)
		model->page[i].is_known &= model->page[i].seen >= reading;
}

static void expect_sorted(const struct mappings *mappings)
{
	for (size_t i = 0; i < mappings->mapping_nr; i++) {
		const struct mapping *mapping = &mappings->mapping[i];

		cr_assert_lt(mapping->start, mapping->end);
		cr_assert(!i || mapping[-1].end <= mapping->start);
	}
}

static void expect_model(struct fixture *fixture, const struct model *model, unsigned int step)
{
	expect_sorted(&fixture->mappings);
	cr_assert_eq(fixture->mappings.reading, model->reading);
	for (unsigned int i = 0; i < PAGES; i++) {
		uint64_t address = BASE + i * PAGE + 0x800;
		const struct mapping *mapping = mappings_find(&fixture->mappings, address);
		const struct model_page *page = &model->page[i];

		cr_assert_eq(!mapping, !page->is_known, "step %u, page %u", step, i);
		if (!mapping)
			continue;
		cr_assert_eq(mapping->offset - mapping->start, page->bias, "step %u, page %u", step, i);
		cr_assert_eq(mapping->seen, page->seen, "step %u, page %u", step, i);
	}
}

Test(mappings, match_a_model_of_single_pages)
{
	struct fixture *fixture = new_fixture();
	struct model model = {};

	srand(1);
	for (unsigned int step = 0; step < 20000; step++) {
		unsigned int what = rand() % 8;

		if (what == 0)
			read_pieces(fixture, &model);
		else if (what == 1)
			forget_pieces(fixture, &model);
		else
			add_piece(fixture, &model);
		expect_model(fixture, &model, step);
	}
	free_fixture(fixture);
}

/* ---- files ---- */

/* The build-id of this very program. */
static void read_own_build_id(char text[BUILD_ID_TEXT_MAX])
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct elf_object *elf = elf_object__open(fd, NULL);

	cr_assert_not_null(elf);
	snprintf(text, BUILD_ID_TEXT_MAX, "%s", elf_object__build_id(elf));
	cr_assert_neq(*text, '\0');
	elf_object__close(elf);
	close(fd);
}

static char own_path[4096];

static const struct object *get(struct objects *objects, const char *path, const char *build_id)
{
	const struct mapped_file file = { .pid = NO_PROCESS, .start = 0x1000, .end = 0x2000,
					  .dev = build_id ? 0 : 1, .inode = build_id ? 0 : 1,
					  .path = path, .build_id = build_id, .root = "/" };
	uint32_t object;

	cr_assert_eq(objects_get(objects, &file, &object), 0);
	cr_assert_neq(object, OBJECT_NONE);
	return objects->object[object];
}

static void find_ourselves(char build_id[BUILD_ID_TEXT_MAX])
{
	read_own_build_id(build_id);
	cr_assert_gt(readlink("/proc/self/exe", own_path, sizeof(own_path) - 1), 0);
}

Test(objects, of_an_exited_process_are_opened_by_path)
{
	char build_id[BUILD_ID_TEXT_MAX];
	struct objects objects = new_objects();
	const struct object *object;

	find_ourselves(build_id);
	object = get(&objects, own_path, build_id);
	cr_expect_not_null(object->facts);
	cr_expect_null(object->unreadable);
	cr_expect_eq(get(&objects, own_path, build_id), object, "opened once");
	release(&objects);
}

Test(objects, are_not_the_file_that_replaced_them_at_their_path)
{
	char build_id[BUILD_ID_TEXT_MAX];
	struct objects objects = new_objects();
	const struct object *object;

	find_ourselves(build_id);
	build_id[0] = build_id[0] == '0' ? '1' : '0';
	object = get(&objects, own_path, build_id);
	cr_expect_null(object->facts);
	cr_expect_not_null(object->unreadable);
	cr_expect_str_eq(object->path, own_path);
	object = get(&objects, own_path, NULL);
	cr_expect_null(object->facts, "a path alone says nothing");
	release(&objects);
}

/* A program was rebuilt between two runs, and both runs were over before the file was opened. */
Test(objects, that_were_replaced_differ_from_their_successors)
{
	char build_id[BUILD_ID_TEXT_MAX], old_id[BUILD_ID_TEXT_MAX];
	struct objects objects = new_objects();
	const struct object *old, *new;

	find_ourselves(build_id);
	strcpy(old_id, build_id);
	old_id[0] = build_id[0] == '0' ? '1' : '0';
	old = get(&objects, own_path, old_id);
	new = get(&objects, own_path, build_id);
	cr_expect_neq(old, new);
	cr_expect_null(old->facts);
	cr_expect_not_null(new->facts);
	cr_expect_eq(get(&objects, own_path, old_id), old, "its names are not those of the new one");
	cr_expect_eq(objects.object_nr, 2);
	release(&objects);
}

/* Where our code is mapped, as /proc/PID/maps has it. */
static struct mapped_file own_line(void)
{
	struct mapped_file file = { .pid = getpid(), .path = own_path };
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned int major, minor;
	char line[8192];

	cr_assert_not_null(maps);
	while (!file.inode && fgets(line, sizeof(line), maps))
		if (!strstr(line, own_path) ||
		    sscanf(line, "%lx-%lx r-xp %*x %x:%x %lu", &file.start, &file.end, &major,
			   &minor, &file.inode) != 5)
			file.inode = 0;
	fclose(maps);
	cr_assert_neq(file.inode, 0);
	file.dev = (uint64_t)major << 32 | minor;
	return file;
}

/* First an event tells of the file, with a build-id; then the maps do, with an inode. */
Test(objects, are_opened_once_whether_found_by_event_or_by_maps)
{
	char build_id[BUILD_ID_TEXT_MAX];
	struct objects objects = new_objects();
	struct mapped_file line;
	uint32_t object;

	find_ourselves(build_id);
	get(&objects, own_path, build_id);
	line = own_line();
	cr_assert_eq(objects_get(&objects, &line, &object), 0);
	cr_expect_eq(object, 0);
	line.pid = NO_PROCESS;
	cr_expect_eq(objects_get(&objects, &line, &object), -ENOENT, "a number is no file");
	release(&objects);
}

Test(objects, are_not_opened_when_they_are_a_fifo_or_a_device)
{
	char path[] = "/tmp/allocsnap-unit-XXXXXX", fifo[64], build_id[BUILD_ID_TEXT_MAX];
	struct objects objects = new_objects();

	read_own_build_id(build_id);
	cr_assert_not_null(mkdtemp(path));
	snprintf(fifo, sizeof(fifo), "%s/fifo", path);
	cr_assert_eq(mkfifo(fifo, 0600), 0);
	cr_expect_not_null(get(&objects, fifo, build_id)->unreadable);
	cr_expect_not_null(get(&objects, "/dev/zero", build_id)->unreadable);
	cr_expect_not_null(get(&objects, "/no/such/file", build_id)->unreadable);
	release(&objects);
	unlink(fifo);
	rmdir(path);
}

Test(objects, that_are_not_mapped_any_more_are_not_found)
{
	const struct mapped_file gone = { .pid = NO_PROCESS, .start = 0x1000, .end = 0x2000,
					  .dev = 1, .inode = 2, .path = "/bin/true" };
	const struct mapped_file unmapped = { .pid = getpid(), .start = 0x1000, .end = 0x2000,
					      .dev = 1, .inode = 2, .path = "/bin/true" };
	struct objects objects = new_objects();
	uint32_t object;

	cr_expect_eq(objects_get(&objects, &gone, &object), -ENOENT);
	cr_expect_eq(objects_get(&objects, &unmapped, &object), -ENOENT);
	cr_expect_eq(objects.object_nr, 0);
	release(&objects);
}

/* ---- events; needs root, as recording does ---- */

struct seen {
	pid_t pid;
	unsigned int execs, mappings, named, out_of_order;
	uint64_t skipped;
	uint64_t last_ns;
	char build_id[BUILD_ID_TEXT_MAX];
	char path[4096];
};

static int see(void *what, const struct mapping_event *event)
{
	struct seen *seen = what;

	seen->out_of_order += event->time_ns < seen->last_ns;
	seen->last_ns = event->time_ns;
	if (event->pid != seen->pid)
		return 0;
	seen->execs += event->is_exec;
	seen->mappings += !event->is_exec;
	if (!event->is_exec && *event->path == '/' && *event->build_id) {
		seen->named++;
		if (seen->named == 1)
			snprintf(seen->path, sizeof(seen->path), "%s", event->path);
	}
	return 0;
}

static pid_t run_true(void)
{
	pid_t pid = fork();

	if (!pid) {
		execl("/bin/true", "true", NULL);
		_exit(127);
	}
	waitpid(pid, NULL, 0);
	return pid;
}

static struct mapping_events *open_events(void)
{
	struct reason why = {};
	struct mapping_events *events = mapping_events__open(&why);

	cr_assert_not_null(events, "%s", why.text);
	return events;
}

Test(mapping_events, include_a_program_that_has_exited)
{
	struct mapping_events *events = open_events();
	struct seen seen = { .pid = run_true() };

	cr_assert_eq(mapping_events__collect(events), 0);
	cr_assert_eq(mapping_events__hand_out(events, UINT64_MAX, see, &seen), 0);
	cr_expect_eq(seen.execs, 1);
	cr_expect_geq(seen.named, 3, "itself, the loader, the C library: %u", seen.named);
	cr_expect_not_null(strstr(seen.path, "/true"), "the program comes first: %s", seen.path);
	cr_expect_eq(seen.out_of_order, 0);
	seen.execs = 0;
	cr_assert_eq(mapping_events__collect(events), 0);
	cr_assert_eq(mapping_events__hand_out(events, UINT64_MAX, see, &seen), 0);
	cr_expect_eq(seen.execs, 0, "each is handed out once");
	mapping_events__close(events);
}

static void count_exec(void *what, pid_t pid, uint64_t time_ns)
{
	struct seen *seen = what;

	seen->execs += pid == seen->pid;
	seen->last_ns = pid == seen->pid ? time_ns : seen->last_ns;
}

/* Execs are found before their events are collected, too; those events stay uncollected. */
Test(mapping_events, execs_are_found_before_they_are_handed_out)
{
	struct mapping_events *events = open_events();
	struct seen early = {}, late = {}, found = {};

	early.pid = run_true();
	cr_assert_eq(mapping_events__collect(events), 0);
	late.pid = run_true();
	for (int i = 0; i < 2; i++) {
		found = (struct seen){ .pid = i ? late.pid : early.pid };
		cr_assert_eq(mapping_events__find_execs(events, count_exec, &found), 0);
		cr_expect_eq(found.execs, 1);
	}
	cr_assert_eq(mapping_events__hand_out(events, UINT64_MAX, see, &late), 0);
	cr_expect_eq(late.execs, 0, "not collected");
	cr_assert_eq(mapping_events__collect(events), 0);
	late.last_ns = 0;
	cr_assert_eq(mapping_events__hand_out(events, UINT64_MAX, see, &late), 0);
	cr_expect_eq(late.execs, 1);
	cr_expect_eq(late.out_of_order, 0);
	found = (struct seen){ .pid = late.pid };
	cr_assert_eq(mapping_events__find_execs(events, count_exec, &found), 0);
	cr_expect_eq(found.execs, 0, "handed out");
	mapping_events__close(events);
}

Test(mapping_events, are_handed_out_up_to_a_time)
{
	struct mapping_events *events = open_events();
	struct seen first = { .pid = run_true() }, second = {};
	struct timespec between;

	clock_gettime(CLOCK_MONOTONIC, &between);
	second.pid = run_true();
	cr_assert_eq(mapping_events__collect(events), 0);
	mapping_events__hand_out(events, between.tv_sec * 1000000000ULL + between.tv_nsec, see,
				 &first);
	cr_expect_eq(first.execs, 1);
	mapping_events__hand_out(events, between.tv_sec * 1000000000ULL + between.tv_nsec, see,
				 &second);
	cr_expect_eq(second.execs, 0);
	mapping_events__hand_out(events, UINT64_MAX, see, &second);
	cr_expect_eq(second.execs, 1);
	mapping_events__close(events);
}

/* The rings are smaller than this: the thread has emptied them. */
#define MORE_THAN_FITS 8000 /* of them MAPPING_EVENTS_EACH are kept */

static void map_ourselves(unsigned int nr)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	for (unsigned int i = 0; i < nr; i++) {
		void *page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

		cr_assert_neq(page, MAP_FAILED);
		munmap(page, 4096);
		if (i % 100 == 0)
			sched_yield();
	}
	close(fd);
}

static int note_skipped(void *what, const struct mapping_event *event)
{
	struct seen *seen = what;

	if (event->pid == seen->pid)
		seen->skipped += event->skipped_nr;
	if (event->skipped_nr)
		return 0;
	return see(what, event);
}

static void expect_most(struct mapping_events *events)
{
	struct seen seen = { .pid = getpid() };

	cr_assert_eq(mapping_events__collect(events), 0);
	cr_assert_eq(mapping_events__hand_out(events, UINT64_MAX, note_skipped, &seen), 0);
	cr_expect_geq(seen.mappings + seen.skipped + mapping_events__missed(events), MORE_THAN_FITS,
		      "%u seen, %llu missed", seen.mappings,
		      (unsigned long long)mapping_events__missed(events));
	cr_expect_gt(seen.mappings, MORE_THAN_FITS / 2, "%u seen", seen.mappings);
}

Test(mapping_events, are_kept_until_they_are_collected)
{
	struct mapping_events *events = open_events();

	map_ourselves(MORE_THAN_FITS);
	expect_most(events);
	mapping_events__close(events);
}

/* A process that maps all the time does not fill the room of all others. */
Test(mapping_events, of_one_process_are_limited)
{
	struct mapping_events *events = open_events();
	struct seen seen = { .pid = getpid() }, next = { .pid = getpid() }, other = {};

	map_ourselves(MORE_THAN_FITS);
	other.pid = run_true();
	cr_assert_eq(mapping_events__collect(events), 0);
	map_ourselves(10);
	cr_assert_eq(mapping_events__hand_out(events, UINT64_MAX, note_skipped, &seen), 0);
	cr_expect_leq(seen.mappings, MAPPING_EVENTS_EACH);
	cr_expect_geq(seen.mappings + seen.skipped + mapping_events__missed(events), MORE_THAN_FITS);
	cr_expect_gt(seen.skipped, 0);
	map_ourselves(MAPPING_EVENTS_EACH / 2);
	other.pid = run_true();
	cr_assert_eq(mapping_events__collect(events), 0);
	cr_assert_eq(mapping_events__hand_out(events, UINT64_MAX, note_skipped, &next), 0);
	cr_expect_gt(next.mappings, 0, "it is told of again");
	cr_expect_geq(next.mappings + next.skipped + mapping_events__missed(events),
		      MAPPING_EVENTS_EACH / 2);
	map_ourselves(MORE_THAN_FITS);
	other.pid = run_true();
	cr_assert_eq(mapping_events__collect(events), 0);
	cr_assert_eq(mapping_events__hand_out(events, UINT64_MAX, see, &other), 0);
	cr_expect_eq(other.execs, 1);
	cr_expect_geq(other.named, 3, "what others map is told of");
	mapping_events__close(events);
}

static int be_slow(void *what, const struct mapping_event *event)
{
	bool *is_done = what;

	(void)event;
	if (!*is_done)
		map_ourselves(MORE_THAN_FITS);
	*is_done = true;
	return 0;
}

/* The handler of one event may open and read a large file, so other events must be kept meanwhile. */
Test(mapping_events, are_kept_while_one_is_handed_out)
{
	struct mapping_events *events = open_events();
	bool is_done = false;

	run_true();
	cr_assert_eq(mapping_events__collect(events), 0);
	cr_assert_eq(mapping_events__hand_out(events, UINT64_MAX, be_slow, &is_done), 0);
	cr_expect(is_done);
	expect_most(events);
	mapping_events__close(events);
}
