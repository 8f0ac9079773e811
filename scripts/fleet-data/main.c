// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * fleet-data [OPTION VALUE]… DIR: the snapshot files of a fleet, below DIR, the same for the same options.
 *
 *	--rows FILE		the row tables of the same fleet, too, for SQLite
 *	--hosts 500		and on each --processes 5, with snapshots at --times 4
 *	--sites 1000		what each process has: a traceback and a domain, of 1 to 4 blocks
 *	--tracebacks 20000	that there are, with --frames 6000, of all builds together
 *	--seed 1  --threads 2
 *
 * Prints as JSON what it has planted (model.h).
 */
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "files.h"
#include "rows.h"

struct work {
	const struct model *model;
	uint32_t next_host;
	uint64_t bytes, rows;
};

void must(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "fleet-data: %s: %s\n", what, strerror(-err));
	exit(1);
}

static void *make_files(void *work_)
{
	struct work *work = work_;
	uint32_t host;

	while ((host = __atomic_fetch_add(&work->next_host, 1, __ATOMIC_RELAXED)) < work->model->options.hosts)
		__atomic_fetch_add(&work->bytes, files_make_host(work->model, host), __ATOMIC_RELAXED);
	return NULL;
}

static void *make_rows(void *work_)
{
	struct work *work = work_;

	work->rows = rows_write(work->model, work->model->options.rows);
	return make_files(work_);
}

/* All threads write files. If rows are wanted, the first thread writes them first, and then helps with the files. */
static void make_all(struct work *work)
{
	const struct fleet_options *options = &work->model->options;
	pthread_t thread[64];

	for (uint64_t i = 0; i < options->threads; i++)
		must(-pthread_create(&thread[i], NULL, !i && options->rows ? make_rows : make_files, work),
		     "thread");
	for (uint64_t i = 0; i < options->threads; i++)
		pthread_join(thread[i], NULL);
}

static void print_site(const struct model *m, uint32_t program, const char *name)
{
	const struct frame_facts *frame = &m->frame[program][1][m->planted % m->frame_nr];

	printf("\"%s\": {\"function\": \"%s\", \"filename\": \"%s\", \"lineno\": %u, \"comm\": \"%s\"", name,
	       frame->function, frame->file, frame->line, programs[program].comm);
}

static void print_planted(const struct work *work)
{
	const struct model *m = work->model;
	struct moment outlier = model_moment(m, m->outlier_host, 1, 0);
	uint32_t hosts = 0;

	for (uint32_t host = 0; host < m->options.hosts; host++)
		hosts += model_grows(m, host, 0, model_moment(m, host, 0, 0).version);
	printf("{\"snapshots\": %lu, \"rows\": %lu, \"bytes\": %lu,\n ",
	       m->options.hosts * m->options.processes * m->options.times,
	       m->options.hosts * m->options.processes * m->options.times * m->options.sites, work->bytes);
	print_site(m, 0, "leak");
	printf(", \"version\": \"%s\", \"hosts\": %u},\n ", version_name[1], hosts);
	print_site(m, 1, "outlier");
	printf(", \"host\": \"%s\"}}\n", outlier.host_name);
}

static void parse(int argc, char **argv, struct fleet_options *options)
{
	uint64_t *const number[] = {
		&options->hosts, &options->processes, &options->times,	&options->sites,
		&options->tracebacks, &options->frames, &options->seed, &options->threads,
	};
	static const struct option names[] = {
		{ "hosts", 1, NULL, 0 },      { "processes", 1, NULL, 1 }, { "times", 1, NULL, 2 },
		{ "sites", 1, NULL, 3 },      { "tracebacks", 1, NULL, 4 }, { "frames", 1, NULL, 5 },
		{ "seed", 1, NULL, 6 },	      { "threads", 1, NULL, 7 },   { "rows", 1, NULL, 8 },
		{},
	};
	int at;

	while ((at = getopt_long(argc, argv, "", names, NULL)) != -1) {
		if (at == 8)
			options->rows = optarg;
		else if (at >= 0 && at < 8)
			*number[at] = strtoull(optarg, NULL, 10);
		else
			exit(2);
	}
	options->dir = argv[optind];
	if (optind + 1 != argc || !options->threads || options->threads > 64) {
		fprintf(stderr, "usage: fleet-data [--rows FILE] [--hosts N] [--processes N] [--times N] "
				"[--sites N] [--tracebacks N] [--frames N] [--seed N] [--threads N] DIR\n");
		exit(2);
	}
}

int main(int argc, char **argv)
{
	struct fleet_options options = {
		.hosts = 500, .processes = 5, .times = 4, .sites = 1000,
		.tracebacks = 20000, .frames = 6000, .seed = 1, .threads = 2,
	};
	struct model model;
	struct work work = { .model = &model };

	parse(argc, argv, &options);
	model_init(&model, &options);
	must(mkdir(options.dir, 0700) && errno != EEXIST ? -errno : 0, options.dir);
	make_all(&work);
	print_planted(&work);
	model_release(&model);
	return 0;
}
