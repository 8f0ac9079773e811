// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sandbox/client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/privileges.h"
#include "sandbox/rpc.h"
#include "sandbox/worker.h"

#define MEMORY_BYTES (4ull << 30)
#define CPU_NS 30000000000ull

struct parser *parser__open(const struct parser_options *options, struct reason *why)
{
	struct parser *parser = calloc(1, sizeof(*parser));
	uint64_t cpu_ns;
	int err;

	if (!parser) {
		reason_set(why, 0, "out of memory");
		return NULL;
	}
	parser->options = (struct parser_options){
		.debug_root = options->debug_root ?: DEBUG_FILE_ROOT,
		.debug_dir_fd = options->debug_dir_fd,
		.debug_dir_nr = options->debug_dir_nr,
		.memory_bytes = options->memory_bytes ?: MEMORY_BYTES,
		.cpu_ns = options->cpu_ns ?: CPU_NS,
		.read = options->read ?: serve_questions,
	};
	parser->source = (struct symbol_source){ .look_up = ask_names, .forget = ask_names_forget_object, .self = parser };
	parser__limit(parser, UINT64_MAX, NULL);
	parser->channel.fd = -1;
	parser->debug_root_fd = open(parser->options.debug_root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	err = fork_server__start(&parser->fork_server, parser->options.read, parser->options.memory_bytes);
	if (!err)
		err = rpc__begin(parser, "", CPU_NS, why);
	if (!err)
		err = rpc__end(parser, 0, &cpu_ns, why);
	if (!err)
		return parser;
	if (!mounts_check(why))
		reason_set(why, 0, "cannot start the process that reads ELF files: %s", strerror(-err));
	parser__close(parser);
	errno = -err;
	return NULL;
}

void parser__close(struct parser *parser)
{
	if (!parser)
		return;
	if (parser->channel.fd >= 0)
		close(parser->channel.fd);
	fork_server__stop(&parser->fork_server);
	if (parser->debug_root_fd >= 0)
		close(parser->debug_root_fd);
	free(parser->asked);
	free(parser);
}

void parser__limit(struct parser *parser, uint64_t cpu_ns, bool (*gives_up)(void))
{
	parser->all_cpu_ns_left = cpu_ns;
	parser->gives_up = gives_up;
}

int parser__end_fd(const struct parser *parser)
{
	return parser->fork_server.end_fd;
}

bool parser__has_ended(const struct parser *parser)
{
	struct pollfd end = { .fd = parser->fork_server.end_fd, .events = POLLIN };

	return poll(&end, 1, 0) > 0;
}

const struct symbol_source *parser__source(struct parser *parser)
{
	return &parser->source;
}
