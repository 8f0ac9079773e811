// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Facts about files that the worker process finds, for placing probes. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file_copy.h"
#include "elf/allocators.h"
#include "elf/argument_source.h"
#include "elf/probe_info.h"
#include "elf/runtime_detect.h"
#include "sandbox_fixture.h"

static const char *const files[] = {
	"/proc/self/exe", "/bin/sh", "/usr/lib/x86_64-linux-gnu/libc.so.6", "/etc/passwd", "/dev/null",
};

/* ---- are the same ---- */

static void expect_same_returns(struct sandbox *sandbox, int fd, uint64_t vaddr)
{
	struct object_returns ours = {}, theirs = {};
	struct reason why = {}, their_why = {};
	int err = object_returns_read(fd, vaddr, &ours, &why);

	cr_expect_eq(sandbox__returns(sandbox, fd, vaddr, &theirs, &their_why), err);
	cr_expect_str_eq(their_why.text, why.text);
	cr_assert_eq(theirs.place_nr, ours.place_nr);
	cr_expect_eq(theirs.leads_to_probed, ours.leads_to_probed);
	for (uint32_t i = 0; i < ours.place_nr; i++)
		cr_expect_eq(theirs.place[i].offset, ours.place[i].offset);
	object_returns_release(&ours);
	object_returns_release(&theirs);
}

static void expect_same_facts(const struct probe_info *ours, const struct probe_info *theirs)
{
	cr_expect_str_eq(theirs->build_id, ours->build_id);
	cr_expect_str_eq(theirs->interpreter, ours->interpreter);
	cr_expect_eq(theirs->entry, ours->entry);
	cr_assert_eq(theirs->function_nr, ours->function_nr);
	for (uint32_t i = 0; i < ours->function_nr; i++) {
		const struct object_function *a = &ours->function[i], *b = &theirs->function[i];

		cr_expect(a->name == b->name && a->offset == b->offset && a->vaddr == b->vaddr);
		cr_expect_eq(a->placement.offset, b->placement.offset);
		cr_expect_str_eq(a->placement.instruction, b->placement.instruction);
	}
}

Test(sandbox_probe_info, equal_the_facts_found_without_a_worker)
{
	struct sandbox *sandbox = parser_with(NULL, 0);

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		struct probe_info ours = {}, theirs = {};
		struct reason why = {}, their_why = {};
		int fd = open(files[i], O_RDONLY | O_CLOEXEC);
		int err = probe_info_read(fd, NULL, &ours, &why);

		cr_expect_eq(sandbox__probe_info(sandbox, fd, NULL, &theirs, &their_why), err, "%s: %s", files[i],
			     their_why.text);
		cr_expect_str_eq(their_why.text, why.text);
		if (!err)
			expect_same_facts(&ours, &theirs);
		for (uint32_t f = 0; f < ours.function_nr && f < 5; f++)
			expect_same_returns(sandbox, fd, ours.function[f].vaddr);
		probe_info_release(&ours);
		probe_info_release(&theirs);
		close(fd);
	}
	sandbox__close(sandbox);
}

/* A program that has not run yet names its loader; the loader leads to the C library. */
Test(sandbox_probe_info, include_the_loader_that_a_program_names)
{
	struct sandbox *sandbox = parser_with(NULL, 0);
	int own = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int alone = open("/usr/lib/x86_64-linux-gnu/libm.so.6", O_RDONLY | O_CLOEXEC);
	struct probe_info probe_info = {};

	cr_assert_eq(sandbox__probe_info(sandbox, own, NULL, &probe_info, NULL), 0);
	cr_expect_eq(*probe_info.interpreter, '/', "%s", probe_info.interpreter);
	cr_expect_eq(access(probe_info.interpreter, X_OK), 0, "%s", probe_info.interpreter);
	memset(probe_info.interpreter, 'x', sizeof(probe_info.interpreter));
	cr_expect(!probe_info_are_sound(&probe_info, NULL, UINT64_MAX), "it has no end");
	probe_info_release(&probe_info);
	cr_assert_eq(sandbox__probe_info(sandbox, alone, NULL, &probe_info, NULL), 0);
	cr_expect_str_empty(probe_info.interpreter);
	probe_info_release(&probe_info);
	sandbox__close(sandbox);
}

/* ---- of functions that are wanted ---- */

static __attribute__((noinline, used)) int static_once(int a, int b)
{
	return a * b;
}

/* Another one is in user_allocators.c. */
static __attribute__((noinline, used)) int static_twice(void)
{
	return 2;
}

static const struct functions_wanted wanted = {
	4, { { "static_once", 2 }, { "static_twice", 0 }, { "parser_with", 6 }, { "not_there", 1 } },
};

static const struct object_function *function_wanted(const struct probe_info *probe_info, uint32_t i)
{
	for (uint32_t f = 0; f < probe_info->function_nr; f++)
		if (probe_info->function[f].name == allocator_function_nr + i)
			return &probe_info->function[f];
	return NULL;
}

Test(sandbox_probe_info, include_wanted_functions_static_or_not)
{
	struct sandbox *sandbox = parser_with(NULL, 0);
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct probe_info probe_info = {}, without = {};
	struct reason why = {};

	cr_assert_eq(sandbox__probe_info(sandbox, fd, &wanted, &probe_info, &why), 0, "%s", why.text);
	cr_assert_eq(sandbox__probe_info(sandbox, fd, NULL, &without, &why), 0, "%s", why.text);
	cr_expect_eq(probe_info.function_nr, without.function_nr + 3);
	for (uint32_t i = 0; i < 3; i++)
		cr_assert(function_wanted(&probe_info, i), "%s", wanted.function[i].name);
	cr_expect_null(function_wanted(&probe_info, 3));
	cr_expect(!function_wanted(&probe_info, 0)->is_ambiguous);
	cr_expect(function_wanted(&probe_info, 1)->is_ambiguous);
	cr_expect(!function_wanted(&probe_info, 2)->is_ambiguous);
	cr_expect(*function_wanted(&probe_info, 0)->placement.instruction);
	probe_info_release(&probe_info);
	probe_info_release(&without);
	sandbox__close(sandbox);
}

/* Numbers of wanted functions are invalid in an answer to a question without such functions. */
Test(sandbox_probe_info, about_unwanted_functions_are_refused)
{
	struct object_function function = { .name = allocator_function_nr + 3 };
	struct probe_info probe_info = { .function_nr = 1, .function = &function };

	cr_expect(probe_info_are_sound(&probe_info, &wanted, 1));
	function.name++;
	cr_expect(!probe_info_are_sound(&probe_info, &wanted, 1));
	function.name = allocator_function_nr;
	cr_expect(!probe_info_are_sound(&probe_info, NULL, 1));
}

/* So are places of USDT probes that are of a function's row. */
Test(sandbox_probe_info, about_unwanted_usdt_probes_are_refused)
{
	static struct usdt_places places;
	struct probe_info probe_info = { .has_usdt = 1, .usdt = &places };
	struct functions_wanted asked = { .nr = 2, .function = { { .name = "get" }, { .name = "p:malloc", .is_usdt = 1 } } };

	places = (struct usdt_places){ .nr = 1, .place[0] = { .offset = 0, .wanted = 1 } };
	for (size_t i = 0; i < USDT_ARGUMENTS; i++)
		places.place[0].call.argument[i] = argument_constant(1);
	cr_expect(probe_info_are_sound(&probe_info, &asked, 1));
	places.place[0].wanted = 0;
	cr_expect(!probe_info_are_sound(&probe_info, &asked, 1));
	places.place[0].wanted = 2;
	cr_expect(!probe_info_are_sound(&probe_info, &asked, 1));
	cr_expect(!probe_info_are_sound(&probe_info, NULL, 1));
}

Test(sandbox_probe_info, include_functions_that_switch_stacks)
{
	struct sandbox *sandbox = parser_with(NULL, 0);
	int sh = open("/bin/sh", O_RDONLY | O_CLOEXEC);
	int libc = open("/usr/lib/x86_64-linux-gnu/libc.so.6", O_RDONLY | O_CLOEXEC);
	const char *what = NULL;

	cr_expect_eq(sandbox__stack_switch(sandbox, sh, &what), -ENOENT);
	cr_expect_eq(sandbox__stack_switch(sandbox, libc, &what), 0);
	cr_expect(what && strstr(what, "context"), "%s", what);
	sandbox__close(sandbox);
}

Test(sandbox_probe_info, include_the_traits_of_a_file)
{
	struct sandbox *sandbox = parser_with(NULL, 0);
	int sh = open("/bin/sh", O_RDONLY | O_CLOEXEC), own = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int libc = open("/usr/lib/x86_64-linux-gnu/libc.so.6", O_RDONLY | O_CLOEXEC);
	uint64_t linked = TRAIT_BIT(DYNAMIC) | TRAIT_BIT(EH_FRAME) | TRAIT_BIT(INTERPRETER);
	struct runtime_traits traits = {};

	cr_expect_eq(sandbox__traits(sandbox, sh, &traits, NULL), 0);
	cr_expect_eq(traits.bits, linked, "/bin/sh: %jx", (uintmax_t)traits.bits);
	cr_expect_eq(sandbox__traits(sandbox, libc, &traits, NULL), 0);
	cr_expect_eq(traits.bits & ~TRAIT_BIT(INTERPRETER), linked & ~TRAIT_BIT(INTERPRETER));
	cr_expect_eq(sandbox__traits(sandbox, own, &traits, NULL), 0);
	linked |= TRAIT_BIT(SYMTAB) | TRAIT_BIT(DEBUG_INFO);
	cr_expect_eq(traits.bits, linked, "this program: %jx", (uintmax_t)traits.bits);
	sandbox__close(sandbox);
}

/* ---- each reader of facts for probes has read no other file before ---- */

/* In the reader. */
static uint32_t earlier_nr = UINT32_MAX; /* questions before this one */
static struct probe_info said_facts = { .function_nr = 1 };
static struct object_function said_function;

static void say_facts(int fd, void (*before)(int object))
{
	parser_say(fd, &(struct parser_said){
		.kind = FACTS, .piece_nr = 2, .before = before,
		.piece = { { &said_facts, sizeof(said_facts) }, { &said_function, sizeof(said_function) } },
	});
}

/* The first answer is true to its place in the reader's life: the offset is how many came before. */
static void count_facts(int)
{
	said_function.offset = ++earlier_nr;
}

static void count(int fd)
{
	say_facts(fd, count_facts);
}

Test(sandbox_probe_info, about_probed_files_come_from_a_new_reader)
{
	struct sandbox *sandbox = parser_with(count, 0);
	int fd = open("/bin/sh", O_RDONLY | O_CLOEXEC);

	for (int i = 0; i < 3; i++) {
		struct probe_info probe_info = {};

		cr_assert_eq(sandbox__probe_info(sandbox, fd, NULL, &probe_info, NULL), 0);
		cr_expect_eq(probe_info.function[0].offset, 0);
		probe_info_release(&probe_info);
	}
	sandbox__close(sandbox);
}

/* The offset is how many names the file has that the reader got. */
static void take_links(int object)
{
	struct stat st = {};

	fstat(object, &st);
	said_function.offset = st.st_nlink;
}

static void count_links(int fd)
{
	say_facts(fd, take_links);
}

/* Otherwise the file could change between the copy and the reading. */
Test(sandbox_probe_info, that_come_with_a_copy_are_read_from_the_copy)
{
	struct sandbox *sandbox = parser_with(count_links, 0);
	int fd = open("/bin/sh", O_RDONLY | O_CLOEXEC);
	struct probe_info probe_info = {};
	struct file_copy *copy = NULL;

	cr_assert_eq(sandbox__probe_info_and_copy(sandbox, fd, NULL, &probe_info, &copy, NULL), 0);
	cr_expect_eq(probe_info.function[0].offset, 0, "it was not read from the copy");
	cr_assert(copy);
	cr_expect(file_copy__is_of(copy, fd));
	probe_info_release(&probe_info);
	file_copy__free(copy);
	cr_assert_eq(sandbox__probe_info(sandbox, fd, NULL, &probe_info, NULL), 0);
	cr_expect_geq(probe_info.function[0].offset, 1);
	probe_info_release(&probe_info);
	sandbox__close(sandbox);
}

static void count_question(int)
{
	earlier_nr++;
}

static void count_switches(int fd)
{
	parser_say(fd, &(struct parser_said){
		.kind = SWITCH, .piece = { { &earlier_nr, sizeof(earlier_nr) } }, .piece_nr = 1, .before = count_question,
	});
}

Test(sandbox_probe_info, about_stack_switches_come_from_a_new_reader)
{
	struct sandbox *sandbox = parser_with(count_switches, 0);
	int fd = open("/bin/sh", O_RDONLY | O_CLOEXEC);
	const char *what;

	for (int i = 0; i < 3; i++) {
		cr_assert_eq(sandbox__stack_switch(sandbox, fd, &what), 0);
		cr_expect_str_eq(what, stack_switches[0].what, "the answer of one that has read before");
	}
	sandbox__close(sandbox);
}

/* ---- are not believed ---- */

static const struct lie {
	const char *name;
	int err; /* the error that follows */
	struct probe_info probe_info;
	struct object_function function; /* one goes with it */
	int claimed_err;
} lies[] = {
	{ "nothing", 0, { .function_nr = 1 } },
	{ "no build-id", -EIO, { .build_id = "../../etc", .function_nr = 1 } },
	{ "half a byte", -EIO, { .build_id = "abc", .function_nr = 1 } },
	{ "fewer functions", -EIO, { .function_nr = 0 } },
	{ "more functions", -EIO, { .function_nr = 2 } },
	{ "all functions", -EIO, { .function_nr = UINT32_MAX } },
	{ "a function of none", -EIO, { .function_nr = 1 }, { .name = UINT32_MAX } },
	{ "one behind the file", -EIO, { .function_nr = 1 }, { .offset = 1ull << 40 } },
	{ "one that begins behind it", -EIO, { .function_nr = 1 }, { .offset = UINT64_MAX } },
	{ "a place far away", -EIO, { .function_nr = 1 }, { .placement.offset = 1u << 20 } },
	{ "a place that is none", -EIO, { .function_nr = 1 },
	  { .placement = { .offset = 1, .why = PLACEMENT_BRANCH_INTO } } },
	{ "a reason that is none", -EIO, { .function_nr = 1 }, { .placement.why = 77 } },
	{ "an odd resolver", -EIO, { .function_nr = 1 }, { .is_ifunc = 2 } },
	{ "an odd doubt", -EIO, { .function_nr = 1 }, { .is_ambiguous = 2 } },
	{ "a sign that is none", -EIO, { .copies_text = UINT32_MAX, .function_nr = 1 } },
	{ "functions and an error", -EIO, { .functions_err = -ENOEXEC, .function_nr = 1 } },
	{ "an error that is ours", -EIO, { .functions_err = -ENOMEM } },
	{ "pointers", 0, { .function = (void *)64, .function_nr = 1 } },
	{ "that we are short of memory", -EIO, {}, {}, -ENOMEM },
	{ "that the process is gone", -EIO, {}, {}, -ESRCH },
	{ "that it must be tried again", -EIO, {}, {}, -EINTR },
};

static const struct lie *lie; /* the reader's from its fork on */

static void tell(int fd)
{
	parser_say(fd, &(struct parser_said){
		.kind = FACTS, .err = lie->claimed_err, .piece_nr = lie->claimed_err ? 0 : 2,
		.piece = { { (void *)&lie->probe_info, sizeof(lie->probe_info) }, { (void *)&lie->function, sizeof(lie->function) } },
	});
}

Test(sandbox_probe_info, that_are_invalid_are_refused, .timeout = 600)
{
	int fd = open("/bin/sh", O_RDONLY | O_CLOEXEC);

	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		struct probe_info probe_info = {};
		struct reason why = {};
		struct sandbox *sandbox;

		lie = &lies[i];
		sandbox = parser_with(tell, 0);
		cr_expect_eq(sandbox__probe_info(sandbox, fd, NULL, &probe_info, &why), lie->err, "%s: %s", lie->name,
			     why.text);
		cr_expect(!lie->err || *why.text, "%s", lie->name);
		probe_info_release(&probe_info);
		sandbox__close(sandbox);
	}
	close(fd);
}

/* ---- do not come for ever ---- */

/* Sends a byte of a long answer every 20 ms. Reads of a bad descriptor take the time, since sleeping is forbidden. */
static void trickle(int fd)
{
	const struct channel channel = { .fd = fd };
	const struct message long_one = { FACTS, sizeof(struct verdict) + sizeof(struct probe_info) };
	struct message head;
	const char *at = (const char *)&long_one;
	int object;

	parser_question(&channel, &head, &object);
	for (size_t i = 0;; i++) {
		struct iovec byte = { (void *)(at + i % sizeof(long_one)), 1 };
		struct msghdr msg = { .msg_iov = &byte, .msg_iovlen = 1 };

		if (i >= sizeof(long_one))
			byte.iov_base = (void *)"";
		if (sendmsg(fd, &msg, MSG_NOSIGNAL) < 0)
			_exit(0);
		for (volatile int pause = 0; pause < 10000000; pause++)
			;
	}
}

Test(sandbox_probe_info, that_arrive_too_slowly_are_abandoned, .timeout = 600)
{
	struct sandbox *sandbox = parser_with(trickle, 100000000);
	struct probe_info probe_info = {};
	struct reason why = {};
	int fd = open("/bin/sh", O_RDONLY | O_CLOEXEC);

	cr_expect_eq(sandbox__probe_info(sandbox, fd, NULL, &probe_info, &why), -EIO);
	cr_expect(strstr(why.text, "too long"), "%s", why.text);
	close(fd);
	sandbox__close(sandbox);
}
