// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The loader writes a process's CPython for the kernel side, and removes it. */
#include <criterion/criterion.h>

#include "collect/python/target_python.h"

Test(target_python, is_told_and_forgotten_by_its_memory)
{
	static struct process books;
	struct python_process python = { .memory = 7, .tss_key = 0x1000 };

	python_process_tell(&books, &python, false);
	cr_expect_eq(books.python.memory, 7);
	cr_expect_eq(books.python.tss_key, 0x1000);
	books.python.code_nr = 3;
	cr_expect_eq(python_process_forget(&books, 8), 0);
	cr_expect_eq(books.python.memory, 7);
	cr_expect_eq(python_process_forget(&books, 7), 3);
	cr_expect_eq(books.python.memory, 0);
}

/* Its threads remember code objects by how many have ended so far (walk->met). */
Test(target_python, that_is_told_again_is_as_if_code_had_ended)
{
	static struct process books;
	struct python_process python = { .memory = 7 };
	uint64_t before;

	python_process_tell(&books, &python, false);
	before = books.python.code_ended_nr;
	books.python.code_ended_nr += 2;
	books.python.code_nr = 5;
	python_process_tell(&books, &python, true);
	cr_expect_gt(books.python.code_ended_nr, before + 2);
	cr_expect_eq(books.python.code_nr, 5, "they are still there");
	python_process_tell(&books, &python, false);
	cr_expect_eq(books.python.code_nr, 0, "those of another memory");
}
