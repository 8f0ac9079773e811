// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "python_target.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/reason.h"
#include "elf/python/python_info.h"
#include "elf/python/python_layers.h"
#include "exact/books.h"
#include "inject/target_maps.h"
#include "process/proc.h"


static int read_memory(void *process, uint64_t address, void *to, size_t bytes)
{
	struct iovec ours = { to, bytes }, theirs = { (void *)address, bytes };

	return process_vm_readv(*(pid_t *)process, &ours, 1, &theirs, 1, 0) == (ssize_t)bytes ? 0 : -EIO;
}

/* Whether a file of code is a CPython. */
static bool read_info(pid_t pid, const struct maps_line *line, struct python_info *ret, struct reason *why)
{
	const struct python_asked asked = { .creations = 1 };
	char path[96];
	int fd, err;

	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, pid, line->start, line->end);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	err = python_info_read(fd, &asked, ret, why);
	close(fd);
	return !err;
}

static int fill_words(pid_t pid, const struct python_info *info, uint64_t bias, struct inject_python *ret, struct reason *why)
{
	const struct python_memory memory = { &pid, read_memory };
	int err = 0;

	for (int domain = 0; domain < PYTHON_DOMAIN_NR && !err; domain++) {
		struct python_layers layers;

		err = python_layers_read(info, bias, domain, &memory, &layers, why);
		for (int i = 0; i < PYTHON_OPERATION_NR && !err; i++) {
			ret->word[domain][i].address = info->table[domain] + bias + 8 * (i + 1);
			ret->word[domain][i].was = layers.layer[0].function[i];
		}
	}
	return err;
}

static int fill_python(pid_t pid, const struct maps_line *line, const struct python_info *info, struct inject_python *ret,
		       struct reason *why)
{
	uint64_t bias = line->start - (info->text_start & ~UINT64_C(4095));
	const char *wrong = getenv("WRONG") ?: "";
	int err;

	*ret = (struct inject_python){
		.dev = line->dev,
		.inode = line->inode + !strcmp(wrong, "file"),
		.hooks = { .key_at = info->tss_key - 4 + bias, .offsets = info->offsets,
			   .finalizing_at = info->main_interpreter + bias - (info->version.minor < 13 ? 24 : 32) },
		.tid_at = PYTHON_HOOKS_TID_AT + 4 * !strcmp(wrong, "tid"),
	};
	err = read_memory(&pid, ret->hooks.key_at, &ret->hooks.key_is, sizeof(ret->hooks.key_is));
	if (err)
		return reason_set(why, err, "the key cannot be read");
	ret->hooks.state_at = GLIBC_SPECIFIC_FIRST + 16 * (ret->hooks.key_is >> 32) + 8;
	ret->hooks.key_is += !strcmp(wrong, "key");
	ret->tracer.address = info->tracer ? info->tracer + bias : 0;
	if (info->tracer && read_memory(&pid, ret->tracer.address, &ret->tracer.was, sizeof(ret->tracer.was)))
		return reason_set(why, -EIO, "the function that sees objects cannot be read");
	return fill_words(pid, info, bias, ret, why);
}

int read_python_target(pid_t pid, struct inject_python *ret, uint64_t *ret_start_time, struct reason *why)
{
	struct python_info info = {};
	const struct maps_line **file = NULL;
	struct target_maps maps;
	size_t nr = 0, i = 0;
	int err = proc_start_time(pid, ret_start_time) ?: target_maps_read(pid, &maps);

	if (err)
		return reason_set(why, err, "process %d has ended", pid);
	err = target_maps_code_files(&maps, &file, &nr);
	while (!err && i < nr && !read_info(pid, file[i], &info, why))
		i++;
	if (!err)
		err = i < nr ? fill_python(pid, file[i], &info, ret, why) : reason_set(why, -ENOENT, "no CPython is in it");
	python_info_release(&info);
	free(file);
	target_maps_release(&maps);
	return err;
}

int visit_books(pid_t pid, const struct inject_books *books, unsigned int slot, uint64_t inside)
{
	struct books_head head;
	int fd, err = inject_open_books(pid, books, &fd);

	if (err)
		return err;
	if (pread(fd, &head, sizeof(head), BOOKS_AT_HEAD) != sizeof(head) ||
	    pwrite(fd, &inside, sizeof(inside),
		   BOOKS_AT_THREADS + slot * BOOKS_THREAD_BYTES + offsetof(struct books_thread, inside)) != sizeof(inside))
		err = -EIO;
	close(fd);
	printf("books %.8s version %u epoch %u off %u\n", head.magic, head.version, head.now == BOOKS_OFF ? 0 : (uint32_t)head.now,
	       head.now == BOOKS_OFF);
	return err;
}
