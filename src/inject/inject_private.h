/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_INJECT_INJECT_PRIVATE_H
#define ALLOCSNAP_INJECT_INJECT_PRIVATE_H

/* Shared by the files of this room. */

#include "inject/inject.h"
#include "inject/injected_file.h"
#include "inject/target_maps.h"
#include "elf/entry_patch.h"
#include "sampler/injected.h"

struct found_samplers;

#define PAGE_BYTES UINT64_C(4096)
#define PAGE_OF(address) ((address) & ~(PAGE_BYTES - 1))

/* A function that gets a jump. */
struct planned_function {
	struct entry_patch patch;
	uint64_t address; /* of patch.vaddr in the process */
	uint32_t site;	  /* its number among INJECTED_SITES */
	uint32_t plain;	  /* if it throws: the index of its variant with std::nothrow */
	bool throws;
	bool is_above; /* it may call another allocator of the process; a free, another free */
};

struct planned_allocator {
	uint8_t *original; /* the pages that will be replaced, as in the file */
	struct planned_function *function; /* as many as inject_allocator has */
	uint64_t low, high; /* all its pages are in [low, high) */
};

/* Two places in the process's own code; a remote call needs them. */
#define CALL_GATE_BYTES 9 /* each has at most so many */
struct call_gate {
	uint64_t syscall;   /* syscall; ret */
	uint64_t sigreturn; /* mov $15, %eax, or %rax; syscall */
	uint32_t sigreturn_bytes;
	uint8_t sigreturn_code[CALL_GATE_BYTES];
};

struct inject_details {
	struct planned_allocator allocator[INJECT_ALLOCATORS_MAX];
	struct call_gate gate;
};

/* ---- plan.c ---- */

/* Looks at /proc only. 0, or an error as in inject.h. */
int check_target_process(pid_t pid, struct reason *why);

/* Mappings that the way back needs, and what the way in needs in addition for each file. */
struct mappings_needed mappings_to_eject(void);
void add_mappings_needed(const struct injected_file *file, const struct injected_table *table, struct mappings_needed *needed);

/* Whether nothing that was injected is active in it. 0 or -EEXIST. */
int check_not_injected(pid_t pid, struct reason *why);

/* Whether the kernel would grant them to the process. Call it while its threads stand still. 0, -EAGAIN or -EIO. */
int check_room_for_mappings(pid_t pid, const struct target_maps *maps, const struct mappings_needed *needed,
			    struct reason *why);

/* Opens the file of a mapping. 0 or -errno. */
int open_mapping(pid_t pid, const struct maps_line *line, int *ret_fd);

/*
 * Compares them with the memory of the process. Breakpoints are said in the functions; any other difference is refused.
 * It reads no file, as it is called while the threads are stopped.
 */
int check_code_pages(int mem_fd, const uint8_t *original, struct inject_allocator *allocator, struct reason *why);

/* ---- placing.c ---- */

/* Whether another process uses the same memory: asks all that run. 0, -EAGAIN, or another error if it is not known. */
int check_shared_memory(pid_t pid, struct reason *why);

/* The process or thread that began last, of all that this process can see. */
struct newest_process {
	pid_t pid; /* 0: not known */
	uint64_t seen_ns;
};

struct newest_process newest_process(void);

/*
 * The same for the time when the threads stand still: it asks only processes that have begun since `before`, which was
 * read before check_shared_memory() was called. That takes microseconds; if too much has happened since, it asks all.
 */
int check_new_sharers(pid_t pid, const struct newest_process *before, struct reason *why);

/* ---- found_samplers.c ---- */

/*
 * Looks for the call gate in the files of the program and of its dynamic linker, not in pages that these samplers have
 * parked (NULL: no samplers). Reads 64 MiB at most. 0 or -ENOTSUP.
 */
int find_call_gate(pid_t pid, const struct target_maps *maps, const struct found_samplers *found, struct call_gate *ret,
		   struct reason *why);

/* Whether memory has each byte of both places: the files say where they are, and a breakpoint may lie there. */
bool is_gate_whole(const struct call_gate *gate, int mem_fd);

/* ---- for tests ---- */

/* Called at each moment at which it matters that the injector may end. */
extern void (*inject_moment)(const char *what);

static inline void pass_moment(const char *what)
{
	if (inject_moment)
		inject_moment(what);
}

#endif
