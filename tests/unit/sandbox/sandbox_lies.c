// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Answers that only a compromised reader gives. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/array.h"
#include "sandbox_fixture.h"
#include "unwind/unwind_table.h"

/* ---- names ---- */

/* An answer to one question. Fields that are not set are as they should be. */
static struct lie {
	const char *name;
	struct names_answer head;
	uint32_t frames_of[2];
	struct wire_frame frame;
	uint32_t kind; /* of the message */
	int32_t err;
} lies[] = {
	{ "that is none", { 0, 0, 5 }, { 1 } },
	{ "of more than was asked", { 2, 2, 5 }, { 1, 1 } },
	{ "without frames", { 1, 0, 5 }, { 0 } },
	{ "of too many frames", { 1, 33, 5 }, { 33 } },
	{ "of fewer frames than it has", { 1, 2, 5 }, { 1 } },
	{ "of billions of frames", { 1, UINT32_MAX, 5 }, { 1 } },
	{ "of billions of answers", { UINT32_MAX, 1, 5 }, { 1 } },
	{ "of more text than it has", { 1, 1, UINT32_MAX }, { 1 } },
	{ "of less text than it has", { 1, 1, 4 }, { 1 } },
	{ "with a name outside", { 1, 1, 5 }, { 1 }, { .function = 6 } },
	{ "with a name far outside", { 1, 1, 5 }, { 1 }, { .function = UINT32_MAX } },
	{ "with a file outside", { 1, 1, 5 }, { 1 }, { .filename = 7, .lineno = 1 } },
	{ "with a line and no file", { 1, 1, 5 }, { 1 }, { .lineno = 1 } },
	{ "with a file and no line", { 1, 1, 5 }, { 1 }, { .filename = 1 } },
	{ "with a line above all", { 1, 1, 5 }, { 1 }, { .filename = 1, .lineno = 1u << 31 } },
	{ "with a first line and no line", { 1, 1, 5 }, { 1 }, { .first_line = 1 } },
	{ "with a first line above all", { 1, 1, 5 }, { 1 },
	  { .filename = 1, .lineno = 1, .first_line = 1u << 31 } },
	{ "of an error that there is not", { 0, 0, 5 }, { 1 }, .err = -1 },
	{ "of another kind", { 1, 1, 5 }, { 1 }, .kind = TABLE },
	{ "of no kind", { 1, 1, 5 }, { 1 }, .kind = 4711 },
	{ "that wants what is too short", { 1, 1, 5 }, { 1 }, .kind = WANT_FILE },
};

static const struct lie *lie; /* the reader's from its fork on */

static void tell(int fd)
{
	const struct channel channel = { .fd = fd };
	struct verdict verdict = { .err = lie->err };
	struct iovec piece[6] = {
		{ &verdict, sizeof(verdict) }, { (void *)&lie->head, sizeof(lie->head) },
		{ (void *)lie->frames_of, sizeof(uint32_t) * (lie->head.answer_nr == 2 ? 2 : 1) },
	};
	struct message asked;
	int piece_nr = 3, object;

	parser_question(&channel, &asked, &object);
	for (uint32_t i = 0; i < lie->head.frame_nr && i < 2; i++)
		piece[piece_nr++] = (struct iovec){ (void *)&lie->frame, sizeof(lie->frame) };
	piece[piece_nr++] = (struct iovec){ (void *)"name", 5 };
	channel__send(&channel, lie->kind ?: NAMES, piece, piece_nr, -1);
	parser_question(&channel, &asked, &object);
}

/* The head of a message with nothing behind it. */
static void tell_of_too_much(int fd)
{
	const struct channel channel = { .fd = fd };
	const struct message head = { NAMES, UINT32_MAX };
	struct iovec piece = { (void *)&head, sizeof(head) };
	struct message asked;
	int object;

	parser_question(&channel, &asked, &object);
	sendmsg(fd, &(struct msghdr){ .msg_iov = &piece, .msg_iovlen = 1 }, 0);
	parser_question(&channel, &asked, &object);
}

/* Wants one file after another. */
static void want(int fd)
{
	const struct channel channel = { .fd = fd };
	const struct file_wanted wanted = { .kind = DEBUG_BY_LINK, .name = "x" };
	struct message head;
	int object;

	parser_question(&channel, &head, &object);
	for (;;)
		if (channel__send(&channel, WANT_FILE, &(struct iovec){ (void *)&wanted, sizeof(wanted) },
				  1, -1) || channel__head(&channel, &head, &object))
			_exit(0);
}

/* It has no descriptor left, say. */
static void tell_own_trouble(int fd)
{
	const struct channel channel = { .fd = fd };
	struct verdict verdict = { .err = -EMFILE };
	struct message asked;
	int object;

	parser_question(&channel, &asked, &object);
	channel__send(&channel, NAMES, &(struct iovec){ &verdict, sizeof(verdict) }, 1, -1);
	parser_question(&channel, &asked, &object);
}

static void expect_unreadable(read_fn read, const char *name, const char *said)
{
	struct sandbox *sandbox = parser_with(read, 0);
	struct symbols *symbols = symbols__new(sandbox__source(sandbox));
	uint32_t object = open_object(symbols, "/proc/self/exe", "/x");
	struct symbol frame[SYMBOL_INLINE_MAX];
	const char *why;

	cr_expect_eq(symbols__lookup(symbols, object, 1, frame), 1);
	cr_expect_null(frame[0].function, "%s", name);
	why = symbols__unreadable(symbols, object);
	cr_expect(why && strstr(why, said), "an answer %s: %s", name, why);
	symbols__free(symbols);
	sandbox__close(sandbox);
}

static void expect_disbelief(read_fn read, const char *name)
{
	expect_unreadable(read, name, "makes no sense");
}

Test(sandbox_lies, that_are_none_have_their_cause)
{
	expect_unreadable(tell_own_trouble, "of its own trouble", "the process that read it failed: Too many open files");
}

Test(sandbox_lies, about_names_are_refused, .timeout = 600)
{
	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		lie = &lies[i];
		expect_disbelief(tell, lie->name);
	}
	expect_disbelief(tell_of_too_much, "of too many bytes");
	expect_disbelief(want, "that wants file after file");
}

