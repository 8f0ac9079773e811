/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FILTER_TYPES_H
#define ALLOCSNAP_FILTER_TYPES_H

/* The rules that say which processes a system-wide recording admits: the loader sets them, the programs apply them. */

#include "shared/bpf_types.h"

#define RULES_MAX 64
#define RULE_PATTERN_MAX 256 /* with its NUL; a power of two */
#define GROUP_PATH_BYTES 1024 /* of a path that a rule tests, with its NUL */

/* The property of a process that a rule tests. */
enum rule_key {
	RULE_COMM = 0, /* the first three compare with a pattern: * is any text, ? any byte */
	RULE_EXE,
	RULE_CGROUP,
	RULE_UID, /* this and the next compare with a number */
	RULE_PID,
	RULE_KEY_NR,
};

struct rule {
	bpf_u32 key; /* enum rule_key */
	bpf_u32 excludes;
	bpf_u64 number;
	char pattern[RULE_PATTERN_MAX];
};
_Static_assert(sizeof(struct rule) == 16 + RULE_PATTERN_MAX, "no padding");

/*
 * The processes that a system-wide recording admits. For each key with including rules at least one of them
 * must hold, and no excluding rule may hold. The loader sets the rules before it loads the programs.
 */
struct rules {
	bpf_u64 system_wide; /* 0: rules admit no process */
	bpf_u64 nr;
	bpf_u64 has_pids; /* a rule has the key RULE_PID */
	bpf_u64 has_texts; /* keys that rules use: 1 << RULE_EXE, 1 << RULE_CGROUP */
	bpf_u64 by_ret;	   /* as in struct process */
	bpf_u64 min_bytes; /* a process with a lower peak leaves nothing if it ends before the loader sees it */
	struct rule rule[RULES_MAX];
};
_Static_assert(sizeof(struct rules) == 48 + RULES_MAX * sizeof(struct rule), "no padding");

/* A process to be recorded, as a walk over all processes reports it to the loader. */
struct admissible_process {
	bpf_u32 tgid;
	bpf_u32 user; /* as in struct process */
};

#endif
