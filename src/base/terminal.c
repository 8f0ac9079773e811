// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/terminal.h"

#include <errno.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/units.h"

static locale_t utf8_locale;

static void open_locale(void)
{
	utf8_locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
}

/* The locale is made once and stays until the program ends. (locale_t)0: the C library has none. */
static locale_t find_locale(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, open_locale);
	return utf8_locale;
}

static wchar_t decode_character(const char *text, size_t len)
{
	const unsigned char *byte = (const unsigned char *)text;
	static const unsigned char first_bits[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
	uint32_t code = byte[0] & first_bits[len];

	for (size_t i = 1; i < len; i++)
		code = code << 6 | (byte[i] & 0x3f);
	return code;
}

/* -1: not known. Sets the length in bytes; a byte that is not UTF-8 is a character of its own. */
static int character_columns(const char *text, size_t *ret_len)
{
	size_t len = utf8_len(text);

	*ret_len = len ?: 1;
	if (!len)
		return -1;
	return len == 1 ? 1 : wcwidth(decode_character(text, len));
}

/* wcwidth() knows the characters of the thread's locale only. */
static locale_t enter_locale(void)
{
	locale_t locale = find_locale();

	return locale ? uselocale(locale) : (locale_t)0;
}

static void leave_locale(locale_t before)
{
	if (before)
		uselocale(before);
}

size_t text_columns(const char *text)
{
	locale_t before = enter_locale();
	size_t nr = 0, len;

	for (; *text; text += len) {
		int columns = character_columns(text, &len);

		nr += columns < 0 ? 1 : columns;
	}
	leave_locale(before);
	return nr;
}

const char *text_after_columns(const char *text, size_t nr)
{
	locale_t before = enter_locale();
	size_t len;

	for (; *text; text += len) {
		int columns = character_columns(text, &len);

		columns = columns < 0 ? 1 : columns;
		if ((size_t)columns > nr)
			break;
		nr -= columns;
	}
	leave_locale(before);
	return text;
}

const char *text_last_columns(const char *text, size_t nr)
{
	size_t all = text_columns(text), skipped = 0, len;
	locale_t before = enter_locale();

	while (*text && all - skipped > nr) {
		int columns = character_columns(text, &len);

		skipped += columns < 0 ? 1 : columns;
		text += len;
		while (*text && !character_columns(text, &len)) /* a mark without its character */
			text += len;
	}
	leave_locale(before);
	return text;
}

void text_replace_unknown(char *text)
{
	locale_t before = enter_locale();
	char *to = text;
	size_t len;

	for (; *text; text += len) {
		if (character_columns(text, &len) < 0) {
			*to++ = '?';
			continue;
		}
		memmove(to, text, len);
		to += len;
	}
	*to = '\0';
	leave_locale(before);
}

static int paged_width; /* 0: standard output goes where it went at the start */

void terminal_set_paged(int width)
{
	paged_width = width;
}

static bool is_paged(int fd)
{
	return fd == STDOUT_FILENO && paged_width;
}

int terminal_width(int fd)
{
	struct winsize size;

	if (is_paged(fd))
		return paged_width;
	if (!isatty(fd))
		return 0;
	return ioctl(fd, TIOCGWINSZ, &size) || !size.ws_col ? 80 : size.ws_col;
}

static bool is_dumb(void)
{
	const char *term = getenv("TERM");

	return !term || !*term || !strcmp(term, "dumb");
}

bool terminal_has_cursor(int fd)
{
	return isatty(fd) && !is_dumb();
}

/* Whether a variable is set to something other than 0. */
static bool is_switched_on(const char *name)
{
	const char *text = getenv(name);

	return text && *text && strcmp(text, "0");
}

static bool has_colour(int fd)
{
	const char *none = getenv("NO_COLOR"), *wanted = getenv("CLICOLOR");

	if (none && *none)
		return false;
	if (is_switched_on("CLICOLOR_FORCE"))
		return true;
	if (is_dumb() || (wanted && !strcmp(wanted, "0")))
		return false;
	return is_paged(fd) || isatty(fd);
}

/* Yellow and cyan differ for all kinds of colour blindness, and on dark and light grounds. */
static const char *const tones[TONE_NR] = {
	[TONE_HEAD] = "\033[1m",
	[TONE_GROWTH] = "\033[33m",
	[TONE_SHRINK] = "\033[36m",
	[TONE_ALARM] = "\033[1;31m",
};

/* Keeps errno, which may hold the error of an earlier write. */
static void put_escape(FILE *out, enum tone tone, const char *escape)
{
	int before = errno;
	bool is_wanted = tones[tone] && has_colour(fileno(out));

	errno = before;
	if (is_wanted)
		fputs(escape, out);
}

void tone_begin(FILE *out, enum tone tone)
{
	put_escape(out, tone, tones[tone]);
}

void tone_end(FILE *out, enum tone tone)
{
	put_escape(out, tone, "\033[0m");
}

#define SHOW_EVERY_NS (SECOND_NS / 10)
#define CLEAR "\r\033[K"

static volatile sig_atomic_t is_shown;
static uint64_t shown_ns; /* 0: never */

bool status_line_is_due(void)
{
	if (shown_ns && monotonic_now_ns() - shown_ns < SHOW_EVERY_NS && is_shown)
		return false;
	return terminal_has_cursor(STDERR_FILENO);
}

/* The last column stays free: a terminal may wrap a full line, and a wrapped line cannot be cleared. */
int status_line_columns(void)
{
	int width = terminal_width(STDERR_FILENO);

	return width ? width - 1 : 0;
}

/* The signal's default action follows, which ends the program. */
static void clear_before_end(int signal_nr)
{
	if (is_shown && write(STDERR_FILENO, CLEAR, strlen(CLEAR)) < 0)
		is_shown = false;
	raise(signal_nr);
}

/* Signals that the program handles, blocks or ignores are its own business. */
static void clear_at_signals(void)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	const struct sigaction clear = { .sa_handler = clear_before_end, .sa_flags = SA_RESETHAND };
	struct sigaction now;

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (!sigaction(ends[i], NULL, &now) && !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL)
			sigaction(ends[i], &clear, NULL);
}

void status_line_show(const char *text)
{
	if (!shown_ns)
		clear_at_signals();
	status_line_clear();
	is_shown = true; /* a signal may come before the text is complete */
	fputs(text, stderr);
	shown_ns = monotonic_now_ns();
}

void status_line_clear(void)
{
	if (is_shown)
		fputs(CLEAR, stderr);
	is_shown = false;
}
