// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "inject/hooks.h"

#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "exact/books.h"
#include "inject/inject_private.h"
#include "inject/stopped_threads.h"
#include "process/proc.h"

/* ---- the image ---- */

/* A block that is entered has a free that sees it: so frees come first, and go last. */
static const enum python_operation order[PYTHON_OPERATION_NR] = { PYTHON_FREE, PYTHON_REALLOC, PYTHON_CALLOC, PYTHON_MALLOC };

_Static_assert(INJECTED_WORDS_MAX == PYTHON_DOMAIN_NR * PYTHON_OPERATION_NR + 1, "each pointer has its place");

uint64_t hooks_image_room(const struct injected_file *file)
{
	return file->end + BOOKS_BYTES;
}

static uint64_t find_hook(const struct injected_file *file, int domain, int operation)
{
	static const char *const domains[] = { "raw", "mem", "object" };
	static const char *const operations[] = { "malloc", "calloc", "realloc", "free" };
	char name[32];

	snprintf(name, sizeof(name), "hook_%s_%s", domains[domain], operations[operation]);
	return injected_file_symbol(file, name, NULL);
}

static int fill_word(struct inject_word *word, uint64_t hook, struct injected_table *table)
{
	if (!hook)
		return -EIO;
	word->put = table->start + hook;
	table->word[table->word_nr].address = word->address;
	table->word[table->word_nr].put = word->put;
	table->word[table->word_nr++].was = word->was;
	return 0;
}

static int fill_words(const struct injected_file *file, struct inject_python *python, struct injected_table *table)
{
	int err = 0;

	for (int i = 0; i < PYTHON_OPERATION_NR; i++)
		for (int domain = 0; domain < PYTHON_DOMAIN_NR && !err; domain++)
			err = fill_word(&python->word[domain][order[i]], find_hook(file, domain, order[i]), table);
	if (!err && python->tracer.address)
		err = fill_word(&python->tracer, injected_file_symbol(file, "hook_reference", NULL), table);
	return err;
}

void fill_books(struct injected_table *table, uint64_t books_start)
{
	table->books_start = books_start;
	table->books_end = table->books_start + BOOKS_BYTES;
	table->off_at = BOOKS_AT_HEAD + offsetof(struct books_head, now);
	table->inside_at = BOOKS_AT_THREADS + offsetof(struct books_thread, inside);
	table->inside_step = BOOKS_THREAD_BYTES;
	table->inside_nr = BOOKS_THREADS;
	table->slots = table->books_start; /* no other file has the same */
}

static int fill_hooks(const struct injected_file *file, const struct inject_python *python, struct injected_image *image)
{
	struct python_hooks *hooks = injected_image_at(image, file, injected_file_symbol(file, "python_hooks", NULL));

	if (!hooks)
		return -EIO;
	*hooks = python->hooks;
	hooks->books = image->table->books_start;
	for (int domain = 0; domain < PYTHON_DOMAIN_NR; domain++)
		for (int operation = 0; operation < PYTHON_OPERATION_NR; operation++)
			hooks->old[domain][operation] = python->word[domain][operation].was;
	hooks->old_tracer = python->tracer.was;
	return 0;
}

int fill_on(const struct injected_file *file, const char *symbol, uint64_t start, struct injected_table *table)
{
	uint64_t bytes = 0, at = injected_file_symbol(file, symbol, &bytes);

	for (uint32_t i = 0; i < file->segment_nr; i++) {
		const struct injected_segment *segment = &file->segment[i];

		if (segment->is_zero && at - segment->vaddr < segment->bytes && !(at % PAGE_BYTES) &&
		    bytes == PYTHON_HOOKS_ON_BYTES) {
			table->on = start + at;
			return 0;
		}
	}
	return -EIO;
}

int hooks_image_build(const struct injected_file *file, struct inject_python *python, uint64_t start,
		      struct injected_image *ret, struct reason *why)
{
	int err = injected_image_make(file, hooks_image_room(file), 0, start, ret, why);

	if (err)
		return err;
	memcpy(ret->table->magic, INJECTED_HOOKS_MAGIC, sizeof(ret->table->magic));
	fill_books(ret->table, start + file->end);
	err = fill_words(file, python, ret->table) ?: fill_hooks(file, python, ret) ?:
	      fill_on(file, "python_hooks_on", start, ret->table);
	if (!err)
		return 0;
	injected_image_release(ret);
	return reason_set(why, err, "the hooks cannot be built: %s", strerror(-err));
}

/* ---- the tables ---- */

bool is_table_memory(const struct target_maps *maps, const struct inject_python *python, uint64_t address)
{
	const struct maps_line *line = target_maps_find(maps, address);

	if (!line || strcmp(line->perms, "rw-p") || address % sizeof(uint64_t))
		return false;
	while (!line->inode && !*line->path && line > maps->line && line[-1].end == line->start)
		line--;
	return line->inode && line->inode == python->inode && line->dev == python->dev;
}

static int check_word(const struct inject_python *python, const struct inject_word *expected, const struct target_maps *maps,
		      int mem_fd, struct reason *why)
{
	uint64_t word;

	if (!is_table_memory(maps, python, expected->address))
		return reason_set(why, -ENOTSUP, "the tables of Python's allocators are not in its own data");
	if (pread(mem_fd, &word, sizeof(word), expected->address) != sizeof(word))
		return reason_set(why, -EAGAIN, "the tables of Python's allocators cannot be read");
	if (word != expected->was)
		return reason_set(why, -EAGAIN, "Python's allocators have just been replaced (tracemalloc, PyMem_SetAllocator)");
	return 0;
}

static int check_words(const struct inject_python *python, const struct target_maps *maps, int mem_fd, struct reason *why)
{
	int err = 0;

	for (int domain = 0; domain < PYTHON_DOMAIN_NR; domain++)
		for (int i = 0; i < PYTHON_OPERATION_NR && !err; i++)
			err = check_word(python, &python->word[domain][i], maps, mem_fd, why);
	return err || !python->tracer.address ? err : check_word(python, &python->tracer, maps, mem_fd, why);
}

/* ---- what hooks count on ---- */

/* The number of a thread in its innermost PID namespace; 0: it has ended. ret_nr: of namespaces that are seen from here. */
static unsigned int inner_number(pid_t pid, pid_t tid, unsigned int *ret_nr)
{
	char name[64], *text, *at;
	unsigned int number = 0;

	snprintf(name, sizeof(name), "task/%d/status", tid);
	text = proc_read(pid, name, NULL);
	at = text ? strstr(text, "\nNSpid:") : NULL;
	*ret_nr = 0;
	for (at = at ? at + strlen("\nNSpid:") : NULL; at && *at == '\t'; ++*ret_nr)
		number = strtoul(at + 1, &at, 10);
	free(text);
	return number;
}

static int check_thread_numbers(const struct stopped_threads *threads, uint32_t tid_at, int mem_fd,
				struct reason *why)
{
	unsigned int nr = 0;

	for (size_t i = 0; i < threads->thread_nr; i++) {
		const struct stopped_thread *thread = &threads->thread[i];
		uint64_t at = thread->registers.fs_base;
		/* All threads of a process have the same namespace. */
		unsigned int wanted = nr == 1 ? (unsigned int)thread->tid : inner_number(threads->pid, thread->tid, &nr);
		uint32_t number;

		if (!at || pread(mem_fd, &number, sizeof(number), at + tid_at) != sizeof(number) || number != wanted)
			return reason_set(why, -ENOTSUP, "its C library keeps no thread numbers where they are looked for (thread %d)",
					  thread->tid);
	}
	return 0;
}

static int check_key(const struct python_hooks *hooks, int mem_fd, struct reason *why)
{
	uint64_t key;

	if (pread(mem_fd, &key, sizeof(key), hooks->key_at) == sizeof(key) && key == hooks->key_is)
		return 0;
	return reason_set(why, -ENOTSUP, "the key of Python's thread states is not where it is looked for");
}

int inject_check_overcommit(struct reason *why)
{
	char *text = proc_read(0, "sys/vm/overcommit_memory", NULL);
	bool is_strict = !text || *text == '2';

	free(text);
	return is_strict ? reason_set(why, -ENOTSUP, "the system promises no memory that it does not have "
				      "(vm.overcommit_memory is 2)") : 0;
}

bool is_any_thread_filtered(pid_t pid)
{
	char path[64];
	struct dirent *entry;
	uint64_t mode = 0;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	tasks = opendir(path);
	while (tasks && !mode && (entry = readdir(tasks)))
		if (*entry->d_name != '.')
			proc_status(atoi(entry->d_name), "Seccomp", &mode);
	if (tasks)
		closedir(tasks);
	return !tasks || mode;
}

int check_malloc_hooks_hold(const struct stopped_threads *threads, int mem_fd, uint64_t *ret_tid_at, struct reason *why)
{
	static const uint64_t known[] = { 0x2d0, 0x30 }; /* struct pthread of glibc (nptl/descr.h), and of musl */
	int err = inject_check_overcommit(why), not_there = -ENOTSUP;

	for (size_t i = 0; i < ARRAY_SIZE(known) && !err && not_there; i++) {
		*ret_tid_at = known[i];
		not_there = check_thread_numbers(threads, known[i], mem_fd, why);
	}
	return err ?: not_there;
}

int check_hooks_hold(const struct inject_python *python, const struct stopped_threads *threads, const struct target_maps *maps,
		     int mem_fd, struct reason *why)
{
	return inject_check_overcommit(why) ?: check_words(python, maps, mem_fd, why) ?: check_key(&python->hooks, mem_fd, why) ?:
	       check_thread_numbers(threads, python->tid_at, mem_fd, why);
}
