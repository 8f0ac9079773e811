// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The doctor's report as text and as JSON: a machine, a process, and a process that is not there. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "collect/diagnosis/diagnosis.h"
#include "doctor/doctor.h"
#include "elf/runtime_detect.h"
#include "elf/placement.h"

static struct check checks[] = {
	{ "BTF", CHECK_GOOD, { "/sys/kernel/btf/vmlinux is there" } },
	{ "return probe", CHECK_COSTS, { "slower" } },
	{ "uprobe", CHECK_UNKNOWN, { "not permitted, so it cannot be tried" } },
	{ "CAP_BPF", CHECK_BAD, { "missing: no program can be loaded" } },
};

static struct diagnosed_file files[] = {
	{ .path = "/srv/shop", .build_id = "0123456789abcdef0123", .is_program = true, .has_traits = true,
	  .traits = TRAIT_BIT(SYMTAB) | TRAIT_BIT(DEBUG_INFO) | TRAIT_BIT(GO), .unwinding = UNWINDING_TABLE },
	{ .path = "/lib/libc.so.6", .build_id = "", .allocator = "glibc", .probe_nr = 1, .has_traits = true,
	  .traits = TRAIT_BIT(DYNAMIC), .unwinding = UNWINDING_NONE },
	{ .path = "/lib/a\033.so", .build_id = "", .unreadable = "Permission denied" },
	{ .path = "[vdso]", .build_id = "", .unwinding = UNWINDING_MISSING },
	{ .path = "/lib/copy.so", .build_id = "", .same_as = "/lib/libc.so.6", .allocator = "jemalloc",
	  .domain = 2, .probe_nr = 2, .has_debug_file = true, .unwinding = UNWINDING_TABLE },
	{ .path = "/lib/names.so", .build_id = "", .has_traits = true, .traits = TRAIT_BIT(SYMTAB) },
};

static const struct placement emulated = { 3, PLACEMENT_EMULATED, "je 0x9810a" };
static const struct placement stepped = { 0, PLACEMENT_BRANCH_INTO, "test %rdi,%rdi" };

static struct diagnosed_probe probes[] = {
	{ .file = 1, .function = "malloc", .offset = 0x98100, .placement = &emulated, .returns = RETURN_SESSION,
	  .is_placed = true },
	{ .file = 4, .function = "free", .offset = 0x200, .placement = &stepped, .is_placed = true },
	{ .file = 4, .function = "realloc", .offset = 0x300, .placement = &stepped, .returns = RETURN_RET,
	  .is_placed = true },
	{ .file = 4, .function = "cfree", .offset = 0x400, .placement = &stepped, .is_another = true },
	{ .file = 4, .function = "valloc", .offset = 0x500, .placement = &stepped, .returns = RETURN_PROBE },
};

static struct unseen unseens[] = {
	{ "go-heap", "Go's heap", { "Go gives it out itself" }, "net/http/pprof", true },
	{ "loader", "what the loader allocates", { "without a symbol" }, .is_common = true },
};

static char *notes[] = { "recorded without return probes" };

static struct exact_plan exact = {
	.is_python = true, .small_bytes_most = 5 << 19, .large_block_bytes = 24, .node_bytes = 20, .traceback_bytes = 32, .thread_bytes_most = 288 << 10,
};

static void set_exact_words(void)
{
	for (int i = 0; i < PYTHON_DOMAIN_NR * PYTHON_OPERATION_NR; i++) {
		exact.python.word[i / PYTHON_OPERATION_NR][i % PYTHON_OPERATION_NR].address = 0x5000 + 8 * i;
		exact.python.word[i / PYTHON_OPERATION_NR][i % PYTHON_OPERATION_NR].was = 0x9000 + 16 * i;
	}
}

static struct diagnosis machine_diagnosis(void)
{
	return (struct diagnosis){ .machine = {
		.kernel = "6.18.5", .records = true, .check = checks, .check_nr = ARRAY_SIZE(checks),
		.costs = { 700, 2100, 900 },
	} };
}

static struct diagnosis process_diagnosis(void)
{
	struct diagnosis diagnosis = machine_diagnosis();

	diagnosis.process = (struct diagnosed_process){
		.pid = 4711, .comm = "shop", .exe = "/srv/shop", .state = 'S', .thread_nr = 3, .child_nr = 1,
		.rss_bytes = 3 << 20, .in_pid_namespace = true, .in_root = true, .linking = "dynamic",
		.traits = TRAIT_BIT(GO) | TRAIT_BIT(PYTHON), .code_bytes = 4096, .probe_kind = "uprobe_session",
		.file = files, .file_nr = ARRAY_SIZE(files), .probe = probes, .probe_nr = ARRAY_SIZE(probes),
		.unseen = unseens, .unseen_nr = ARRAY_SIZE(unseens), .note = notes, .note_nr = ARRAY_SIZE(notes),
		.failed_nr = 1, .records = true, .not_exact = { "it runs no CPython" },
	};
	return diagnosis;
}

/* A machine and a process that cannot be recorded. */
static struct diagnosis refused_diagnosis(void)
{
	return (struct diagnosis){
		.machine = { .kernel = "6.1.0", .why = { "CAP_BPF is missing" }, .check = checks, .check_nr = 1 },
		.process = { .pid = 99, .comm = "", .exe = "", .why = { "no process 99" } },
	};
}

static char *written(const struct diagnosis *diagnosis, bool is_verbose, bool is_json)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	cr_assert(out);
	cr_expect_eq(doctor_put(out, diagnosis, is_verbose, is_json), 0);
	fclose(out);
	return text;
}

static void expect_short_text(const struct diagnosis *diagnosis, const char *expected)
{
	char *text = written(diagnosis, false, false);

	cr_expect_str_eq(text, expected, "%s", text);
	free(text);
}

static void expect_text(const struct diagnosis *diagnosis, const char *expected)
{
	char *text = written(diagnosis, true, false);

	cr_expect_str_eq(text, expected, "%s", text);
	free(text);
}

static json_t *json_of(const struct diagnosis *diagnosis)
{
	char *text = written(diagnosis, false, true);
	json_t *object = json_loads(text, 0, NULL);

	cr_assert(object, "%s", text);
	free(text);
	return object;
}

#define ADVICE \
	"which way, when\n" \
	"  in production, always on   run --fast, attach --inject: samples that the process takes itself: next to no cost\n" \
	"  the answer in minutes      attach --inject=exact, run --exact: every block, recorded in the process: about twice its CPU time at most\n" \
	"  nothing in the process     attach: every block by traps, up to 20 times its CPU time, a Python 150 times\n" \
	"  a limit on the cost        attach --max-overhead 10: traps as long as they fit, then samples, then gaps\n"

Test(doctor_report, of_a_machine_has_all_checks)
{
	const struct diagnosis diagnosis = machine_diagnosis();

	expect_text(&diagnosis,
		"this machine can record: kernel 6.18.5\n"
		"  ok      BTF                        /sys/kernel/btf/vmlinux is there\n"
		"  costs   return probe               slower\n"
		"  unknown uprobe                     not permitted, so it cannot be tried\n"
		"  NO      CAP_BPF                    missing: no program can be loaded\n");
}

Test(doctor_report, is_short_unless_more_is_asked_for)
{
	const struct diagnosis machine = machine_diagnosis(), process = process_diagnosis();

	expect_short_text(&machine,
		"this machine can record: kernel 6.18.5\n"
		"  costs   return probe               slower\n"
		"  unknown uprobe                     not permitted, so it cannot be tried\n"
		"  NO      CAP_BPF                    missing: no program can be loaded\n");
	expect_short_text(&process,
		"process 4711 (shop) can be recorded, but not Go's heap: 3 probes would be placed\n"
		"  program      /srv/shop, dynamic, 3 threads, RSS 3072 KiB\n"
		"  runtimes     Go, Python\n"
		"  is in        another pid namespace, another root directory, which is no obstacle\n"
		"  names        of 4 files with code 2 name functions and lines, 1 functions, 1 only exported functions\n"
		"  returns      seen by sessions of both ends of a call (uprobe_session)\n"
		"  note         recorded without return probes\n"
		"would not be seen\n"
		"  Go's heap: Go gives it out itself\n"
		"      to do: net/http/pprof\n"
		"allocators\n"
		"  glibc (domain 0): 1 probe in /lib/libc.so.6\n"
		"  jemalloc (domain 2): 2 probes in /lib/copy.so\n"
		"attach --inject=exact would be refused\n"
		"  it runs no CPython\n"
		ADVICE
		"this machine can record: kernel 6.18.5\n"
		"  costs   return probe               slower\n"
		"  unknown uprobe                     not permitted, so it cannot be tried\n"
		"  NO      CAP_BPF                    missing: no program can be loaded\n");
}

Test(doctor_report, of_a_process_has_the_verdict_first)
{
	const struct diagnosis diagnosis = process_diagnosis();

	expect_text(
		&diagnosis,
		"process 4711 (shop) can be recorded, but not Go's heap: 3 probes would be placed\n"
		"  program      /srv/shop, dynamic, 3 threads, RSS 3072 KiB\n"
		"  runtimes     Go, Python\n"
		"  is in        another pid namespace, another root directory, which is no obstacle\n"
		"  names        of 4 files with code 2 name functions and lines, 1 functions, 1 only exported functions\n"
		"  returns      seen by sessions of both ends of a call (uprobe_session)\n"
		"  note         recorded without return probes\n"
		"would not be seen\n"
		"  Go's heap: Go gives it out itself\n"
		"      to do: net/http/pprof\n"
		"  what the loader allocates: without a symbol\n"
		"allocators\n"
		"  glibc (domain 0): 1 probe in /lib/libc.so.6\n"
		"  jemalloc (domain 2): 2 probes in /lib/copy.so\n"
		"probes\n"
		"  malloc+3 (/lib/libc.so.6+0x98103): je 0x9810a, emulated; return by session\n"
		"  free (/lib/copy.so+0x200): test %rdi,%rdi, single-stepped: the function branches back to its start\n"
		"  realloc (/lib/copy.so+0x300): test %rdi,%rdi, single-stepped: the function branches back to its start; return by probes on `ret`\n"
		"  cfree (/lib/copy.so+0x400): not placed, all its calls go on in another function\n"
		"  valloc (/lib/copy.so+0x500): not placed, it cannot be probed\n"
		"attach --inject=exact would be refused\n"
		"  it runs no CPython\n"
		"files with code\n"
		"  /srv/shop [0123456789ab]: callers by unwind table; names and lines\n"
		"  /lib/libc.so.6: callers by frame pointers: no call frame information; stripped: exported names only\n"
		"  /lib/a\\x1b.so: cannot be read: Permission denied\n"
		"  [vdso]: no callers: its call frame information cannot be used\n"
		"  /lib/copy.so: callers by unwind table; names and lines by its debug file; the same bytes as /lib/libc.so.6\n"
		"  /lib/names.so: callers not looked at; names\n"
		ADVICE
		"this machine can record: kernel 6.18.5\n"
		"  ok      BTF                        /sys/kernel/btf/vmlinux is there\n"
		"  costs   return probe               slower\n"
		"  unknown uprobe                     not permitted, so it cannot be tried\n"
		"  NO      CAP_BPF                    missing: no program can be loaded\n");
}

Test(doctor_report, of_what_cannot_be_recorded_has_the_reasons)
{
	const struct diagnosis diagnosis = refused_diagnosis();
	json_t *object = json_of(&diagnosis), *process = json_object_get(object, "process");

	expect_short_text(&diagnosis,
		"cannot be recorded: no process 99\n"
		"this machine cannot record: CAP_BPF is missing\n");
	cr_expect(json_is_false(json_object_get(object, "records")));
	cr_expect(json_is_false(json_object_get(process, "records")));
	cr_expect_str_eq(json_string_value(json_object_get(process, "why")), "no process 99");
	cr_expect_null(json_object_get(process, "comm"), "nothing is known of it");
	cr_expect_eq(json_array_size(json_object_get(process, "files")), 0);
	cr_expect(json_is_array(json_object_get(process, "notes")), "an empty list is there, too");
	json_decref(object);
}

/* `attach --inject=exact --dry` prints these lines, and the whole report has them, too. */
Test(doctor_report, of_an_exact_recording_has_its_memory)
{
	static const char head[] = "attach --inject=exact would put hooks into the tables of CPython's allocators (threads are checked "
				   "when they are stopped)\n"
				   "  memory: for blocks of up to 512 bytes now up to 2560 KiB; 24 bytes a larger block, 20 bytes a node of "
				   "the trie, 32 a traceback, up to 288 KiB for each of 3 threads\n";
	struct diagnosis diagnosis = process_diagnosis();
	char *whole, *dry = NULL;
	size_t len;
	FILE *out = open_memstream(&dry, &len);
	json_t *object, *found;

	set_exact_words();
	diagnosis.process.exact = &exact;
	cr_expect_eq(doctor_put_injection(out, &diagnosis), 0);
	fclose(out);
	cr_expect(!strncmp(dry, head, strlen(head)), "%s", dry);
	cr_expect(strstr(dry, "\n  raw.malloc: the pointer at 0x5000, now to 0x9000\n"), "%s", dry);
	cr_expect(strstr(dry, "\n  object.free: the pointer at 0x5058, now to 0x90b0\n"), "%s", dry);
	whole = written(&diagnosis, false, false);
	cr_expect(strstr(whole, head) && !strstr(whole, "raw.malloc"), "%s", whole);
	object = json_of(&diagnosis);
	found = json_object_get(json_object_get(object, "process"), "exact");
	cr_expect(json_is_true(json_object_get(found, "works")));
	cr_expect_eq(json_integer_value(json_object_get(found, "small_bytes_most")), 5 << 19);
	json_decref(object);
	free(whole);
	free(dry);
}

/* Each item of a list is in the text, by its name. */
static void expect_list_in_text(const json_t *part, const char *list, size_t nr, const char *key, const char *text)
{
	const json_t *items = json_object_get(part, list);

	cr_assert_eq(json_array_size(items), nr, "%s: %zu", list, json_array_size(items));
	for (size_t i = 0; i < nr; i++) {
		const char *name = json_string_value(json_object_get(json_array_get(items, i), key));

		cr_assert(name, "%s without %s", list, key);
		cr_expect(strstr(text, name), "%s is not in the text", name);
	}
}

Test(doctor_report, is_the_same_as_text_and_as_json)
{
	const struct diagnosis diagnosis = process_diagnosis();
	char *text = written(&diagnosis, true, false);
	json_t *object = json_of(&diagnosis), *process = json_object_get(object, "process"), *row;

	expect_list_in_text(process, "unseen", ARRAY_SIZE(unseens), "what", text);
	expect_list_in_text(process, "allocators", 2, "name", text);
	expect_list_in_text(process, "probes", ARRAY_SIZE(probes), "function", text);
	expect_list_in_text(process, "files", ARRAY_SIZE(files), "path", text);
	cr_expect(strstr(text, json_string_value(json_array_get(json_object_get(process, "notes"), 0))));
	cr_expect(json_is_true(json_object_get(object, "records")));
	cr_expect_eq(json_integer_value(json_object_get(process, "functions_unprobed")), 1);
	cr_expect_str_eq(json_string_value(json_object_get(process, "probe_kind")), "uprobe_session");
	row = json_array_get(json_object_get(process, "unseen"), 0);
	cr_expect_str_eq(json_string_value(json_object_get(row, "name")), "go-heap");
	cr_expect(json_is_true(json_object_get(row, "grave")));
	row = json_array_get(json_object_get(process, "probes"), 1);
	cr_expect(json_is_true(json_object_get(row, "placed")));
	cr_expect_null(json_object_get(row, "returns"), "of a free nothing is seen to return");
	row = json_array_get(json_object_get(json_object_get(object, "machine"), "checks"), 3);
	cr_expect_str_eq(json_string_value(json_object_get(row, "state")), "no");
	json_decref(object);
	free(text);
}
