// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Code objects as the kernel side reports them: every byte may be anything. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collect/python/python_codes.h"
#include "collect/python/target_python.h"

#define ASCII (1 << 2 | 1 << 6)

static struct python_codes codes;
static int reads;
static bool is_same = true;
static int read_err;

static int read_memory(void *what, uint64_t address, void *to, size_t bytes)
{
	(void)what, (void)address;
	reads++;
	memset(to, 'm', bytes);
	return read_err;
}

static bool is_same_code(void *what)
{
	(void)what;
	return is_same;
}

/* A record with room for a line table of 100 bytes. */
static struct python_code_record *make_record(uint32_t id, const char *file, const char *name, int first_line)
{
	struct python_code_record *record = calloc(1, sizeof(*record) + 100);

	record->id = id;
	record->first_line = first_line;
	record->file = (struct python_text){ .bytes = strlen(file), .state = ASCII, .is_read = 1 };
	record->name = (struct python_text){ .bytes = strlen(name), .state = ASCII, .is_read = 1 };
	record->lines = (struct python_text){ .bytes = 3, .is_read = 1 };
	memcpy(record->file_bytes, file, strlen(file));
	memcpy(record->name_bytes, name, strlen(name));
	memcpy(record->line_bytes, "\x80\0\1", 3);
	return record;
}

static int add_record(struct python_code_record *record)
{
	int err = python_codes_add(&codes, record, sizeof(*record) + 100, read_memory, is_same_code, NULL);

	free(record);
	return err;
}

static const struct python_code *code_with(uint32_t id)
{
	int32_t line;

	return python_codes_find(&codes, id, 0, &line);
}

static void release_codes(void)
{
	python_codes_release(&codes);
}

TestSuite(python_codes, .fini = release_codes);

Test(python_codes, has_what_the_record_has)
{
	cr_assert(!add_record(make_record(7, "app.py", "Shop.work", 12)));
	cr_assert(code_with(7));
	cr_expect_str_eq(code_with(7)->filename, "app.py");
	cr_expect_str_eq(code_with(7)->name, "Shop.work");
	cr_expect_eq(code_with(7)->first_line, 12);
	cr_expect_eq(code_with(7)->line_bytes, 3);
	cr_expect_eq(reads, 0);
	cr_expect(!code_with(8));
}

Test(python_codes, stores_equal_contents_once)
{
	for (uint32_t id = 1; id <= 100; id++)
		cr_assert(!add_record(make_record(id, "app.py", "work", 12)));
	cr_assert(!add_record(make_record(101, "app.py", "work", 13)));
	cr_expect_eq(codes.code_nr, 2);
	cr_expect_eq(code_with(1), code_with(100));
	cr_expect_neq(code_with(1), code_with(101));
}

Test(python_codes, reads_what_the_record_lacks)
{
	struct python_code_record *record = make_record(7, "app.py", "work", 12);

	record->file.is_read = 0;
	cr_assert(!add_record(record));
	cr_expect_str_eq(code_with(7)->filename, "mmmmmm");
	cr_expect_eq(reads, 1);
}

Test(python_codes, drops_a_code_object_that_has_become_another_one)
{
	struct python_code_record *record = make_record(7, "app.py", "work", 12);

	record->lines.is_read = 0;
	is_same = false;
	cr_expect_eq(add_record(record), -ESTALE);
	record = make_record(7, "app.py", "work", 12);
	record->file.is_read = 0;
	cr_expect_eq(add_record(record), -ESTALE);
	cr_expect(!code_with(7));
}

Test(python_codes, drops_a_code_object_that_cannot_be_read)
{
	struct python_code_record *record = make_record(7, "app.py", "work", 12);

	record->name.is_read = 0;
	read_err = -EFAULT;
	cr_expect_eq(add_record(record), -EFAULT);
	cr_expect(!code_with(7));
}

Test(python_codes, cuts_endless_names)
{
	struct python_code_record *record = make_record(7, "app.py", "work", 12);

	record->file = (struct python_text){ .bytes = 1ULL << 40, .state = ASCII };
	cr_assert(!add_record(record));
	cr_expect_eq(strlen(code_with(7)->filename), PYTHON_TEXT_MOST);
}

Test(python_codes, refuses_lengths_that_cannot_be)
{
	struct python_code_record *record = make_record(7, "app.py", "work", 12);

	record->lines.bytes = 101;
	cr_expect_eq(add_record(record), -EINVAL);
	record = make_record(7, "app.py", "work", 12);
	record->name.bytes = PYTHON_NAME_BYTES + 1;
	cr_expect_eq(add_record(record), -EINVAL);
	record = make_record(7, "app.py", "work", 12);
	record->lines = (struct python_text){ .bytes = UINT64_MAX };
	cr_expect_eq(add_record(record), -EINVAL);
	record = make_record(7, "app.py", "work", 12);
	cr_expect_eq(python_codes_add(&codes, record, sizeof(*record) - 1, read_memory, is_same_code, NULL), -EINVAL);
	free(record);
}

Test(python_codes, wants_each_instruction_once)
{
	cr_assert(!add_record(make_record(7, "app.py", "work", 12)));
	cr_assert(!python_codes_want(&codes, 7, 3));
	cr_assert(!python_codes_want(&codes, 7, 3));
	cr_assert(!python_codes_want(&codes, 7, -1));
	cr_assert(!python_codes_want(&codes, 8, 3));
	cr_expect_eq(codes.code[0].place_nr, 2);
}

/* ---- target python ---- */

/* The loader writes a process's CPython for the kernel side, and removes it. */

Test(target_python, is_told_and_forgotten_by_its_memory)
{
	static struct process account;
	struct python_process python = { .memory = 7, .tss_key = 0x1000 };

	python_process_tell(&account, &python, false);
	cr_expect_eq(account.python.memory, 7);
	cr_expect_eq(account.python.tss_key, 0x1000);
	account.python.code_nr = 3;
	cr_expect_eq(python_process_forget(&account, 8), 0);
	cr_expect_eq(account.python.memory, 7);
	cr_expect_eq(python_process_forget(&account, 7), 3);
	cr_expect_eq(account.python.memory, 0);
}

/* Its threads remember code objects by how many have ended so far (walk->met). */
Test(target_python, that_is_told_again_is_as_if_code_had_ended)
{
	static struct process account;
	struct python_process python = { .memory = 7 };
	uint64_t before;

	python_process_tell(&account, &python, false);
	before = account.python.code_ended_nr;
	account.python.code_ended_nr += 2;
	account.python.code_nr = 5;
	python_process_tell(&account, &python, true);
	cr_expect_gt(account.python.code_ended_nr, before + 2);
	cr_expect_eq(account.python.code_nr, 5, "they are still there");
	python_process_tell(&account, &python, false);
	cr_expect_eq(account.python.code_nr, 0, "those of another memory");
}
