// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/recording/admission.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "base/units.h"
#include "collect.h"
#include "collect/bpf.h"

_Static_assert((int)ADMISSION_COMM == RULE_COMM && (int)ADMISSION_EXE == RULE_EXE &&
	       (int)ADMISSION_CGROUP == RULE_CGROUP && (int)ADMISSION_UID == RULE_UID &&
	       (int)ADMISSION_PID == RULE_PID, "the same keys");
_Static_assert(ADMISSION_RULES_MOST == RULES_MAX, "the same limit");
_Static_assert(ADMISSION_PATTERN_MOST == RULE_PATTERN_MAX - 1, "the same limit");

/* ---- rules ---- */

static int parse_pattern(const char *text, struct rule *ret, struct reason *why)
{
	size_t bytes = strlen(text);

	if (!bytes || bytes > ADMISSION_PATTERN_MOST)
		return reason_set(why, -EINVAL, "a pattern has 1 to %d bytes", ADMISSION_PATTERN_MOST);
	if (strpbrk(text, "[]"))
		return reason_set(why, -EINVAL, "'%.100s': a pattern has * and ?, and no []", text);
	memcpy(ret->pattern, text, bytes + 1);
	return 0;
}

static int parse_uid(const char *text, struct rule *ret, struct reason *why)
{
	const struct passwd *user;
	uint64_t uid;

	if (!parse_count(text, 0, UINT32_MAX - 1, &uid)) {
		ret->number = uid;
		return 0;
	}
	user = getpwnam(text);
	if (!user)
		return reason_set(why, -EINVAL, "'%.100s' is no user", text);
	ret->number = user->pw_uid;
	return 0;
}

static int parse_pid(const char *text, struct rule *ret, struct reason *why)
{
	uint64_t pid;

	if (parse_count(text, 1, INT32_MAX, &pid))
		return reason_set(why, -EINVAL, "'%.100s' is no PID", text);
	ret->number = pid;
	return 0;
}

int admission_parse(const struct admission_rule *rule, struct rule *ret, struct reason *why)
{
	static int (*const parse[RULE_KEY_NR])(const char *, struct rule *, struct reason *) = {
		[RULE_COMM] = parse_pattern,
		[RULE_EXE] = parse_pattern,
		[RULE_CGROUP] = parse_pattern,
		[RULE_UID] = parse_uid,
		[RULE_PID] = parse_pid,
	};

	if ((unsigned int)rule->key >= RULE_KEY_NR)
		return reason_set(why, -EINVAL, "a rule of an unknown kind");
	*ret = (struct rule){ .key = rule->key, .excludes = rule->excludes };
	return parse[rule->key](rule->pattern, ret, why);
}

int admission_rule_check(const struct admission_rule *rule, struct reason *why)
{
	return admission_parse(rule, &(struct rule){}, why);
}

int admission_configure(struct rules *rules, const struct collector_options *options,
			struct reason *why)
{
	int err = 0;

	if (options->rule_nr > RULES_MAX)
		return reason_set(why, -EINVAL, "there can be %d rules at most", RULES_MAX);
	rules->system_wide = options->system_wide;
	rules->min_bytes = options->min_bytes;
	for (size_t i = 0; i < options->rule_nr && !err; i++) {
		err = admission_parse(&options->rule[i], &rules->rule[i], why);
		rules->has_pids |= rules->rule[i].key == RULE_PID;
		rules->has_texts |= 1ULL << rules->rule[i].key;
	}
	rules->nr = options->rule_nr;
	return err;
}

/* ---- the walk ---- */

int admission_begin(const struct allocsnap_bpf *bpf)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts);

	return bpf_prog_test_run_opts(bpf_program__fd(bpf->progs.note_own), &opts);
}

#define READ_AT_ONCE 1024

static int read_found(int fd, struct admissible_process **ret, size_t *ret_nr)
{
	struct {
		struct admissible_process *process;
		size_t process_nr, process_alloc;
	} found = {};
	ssize_t got = 1;
	int err = 0;

	while (got > 0 && !err) {
		err = array_reserve(&found.process, &found.process_alloc,
				    found.process_nr + READ_AT_ONCE);
		if (err)
			break;
		got = read(fd, found.process + found.process_nr, READ_AT_ONCE * sizeof(*found.process));
		if (got > 0)
			found.process_nr += got / sizeof(*found.process);
		else if (got < 0 && errno != EINTR)
			err = -errno;
		else if (got < 0)
			got = 1;
	}
	if (err) {
		free(found.process);
		return err;
	}
	*ret = found.process;
	*ret_nr = found.process_nr;
	return 0;
}

int admission_find(const struct allocsnap_bpf *bpf, struct admissible_process **ret, size_t *ret_nr)
{
	struct bpf_link *link = bpf_program__attach_iter(bpf->progs.admissible_processes, NULL);
	int fd, err;

	if (!link)
		return -errno;
	fd = bpf_iter_create(bpf_link__fd(link));
	err = fd < 0 ? fd : read_found(fd, ret, ret_nr);
	if (fd >= 0)
		close(fd);
	bpf_link__destroy(link);
	return err;
}
