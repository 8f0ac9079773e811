// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* layout.h has what is shown; here is only how it gets to a terminal or a file. */
#include "top/top_view.h"

#define NCURSES_WIDECHAR 1 /* for musl: glibc has it by _GNU_SOURCE */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <ncurses.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/terminal.h"
#include "top/layout.h"
#include "top/viewer.h"

/* ---- as text -------------------------------------------------------------------------------- */

/* Returns 0 or a negative errno. */
static int write_screen(struct top_model *model, bool is_first)
{
	struct top_screen screen;
	int err = top_layout_draw(model, terminal_width(STDOUT_FILENO), 0, &screen);

	if (!err && !is_first && putchar('\n') == EOF)
		err = -errno ?: -EIO;
	for (size_t i = 0; i < screen.line_nr && !err; i++)
		if (puts(screen.line[i].text) == EOF)
			err = -errno ?: -EIO;
	if (!err && fflush(stdout))
		err = -errno;
	top_screen_release(&screen);
	return err;
}

/* Waits for the next answer; a list of processes is shown each interval. */
static bool wait_for_screen(struct viewer *viewer, uint64_t answer_nr)
{
	const struct viewer_options *options = viewer->options;
	uint64_t until_ns = viewer->model.now_ns + options->interval_ns;

	if (!options->live && !viewer->opened)
		return true;
	while (!viewer->stop && !viewer->has_failed && viewer->answer_nr == answer_nr) {
		bool was_over = viewer->model.is_over;

		viewer_step(viewer, -1, -1);
		if (!viewer->opened && viewer->model.now_ns >= until_ns)
			return true;
		if (was_over && !viewer->analyst.is_running && !viewer->added)
			return viewer->answer_nr != answer_nr;
	}
	return viewer->answer_nr != answer_nr;
}

static int report_write_failure(int err)
{
	if (err == -EPIPE)
		return EXIT_FAILED;
	return err ? log_failure("cannot write: %s", strerror(-err)) : EXIT_DONE;
}

int text_view_run(struct viewer *viewer)
{
	uint64_t count = viewer->options->live ? viewer->options->count : 1, answer_nr = 0;
	int err = 0;

	/* Allocations of the first moment show nothing, and with a count of one no other text follows. */
	viewer->next_ask_ns = monotonic_now_ns() + viewer->options->interval_ns;
	for (uint64_t nr = 0; (!count || nr < count) && !err && !viewer->stop; nr++) {
		if (!wait_for_screen(viewer, answer_nr))
			break;
		answer_nr = viewer->answer_nr;
		err = write_screen(&viewer->model, !nr);
	}
	return viewer->has_failed ? EXIT_FAILED : report_write_failure(err);
}

#define NOTES_MOST 65536
#define ESCAPE_DELAY_MS 25

/* ---- lines on stderr ------------------------------------------------------------------------ */

/* Lines that are logged meanwhile must not write over the screen. */
struct notes {
	int read_fd, stderr_fd; /* stderr_fd: the true one */
	char *text;
	size_t text_nr, text_alloc;
};

static int begin_notes(struct notes *notes)
{
	int fds[2];

	*notes = (struct notes){ .stderr_fd = -1, .read_fd = -1 };
	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	notes->read_fd = fds[0];
	notes->stderr_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	if (notes->stderr_fd < 0 || dup2(fds[1], STDERR_FILENO) < 0) {
		close(fds[1]);
		return -errno;
	}
	close(fds[1]);
	return 0;
}

static void append_notes(struct notes *notes, const char *bytes, size_t nr)
{
	if (notes->text_nr + nr > NOTES_MOST || array_reserve(&notes->text, &notes->text_alloc, notes->text_nr + nr + 1))
		return;
	memcpy(notes->text + notes->text_nr, bytes, nr);
	notes->text_nr += nr;
}

/* The last line is shown. */
static void read_stderr_notes(struct notes *notes, struct top_model *model)
{
	char bytes[4096];
	ssize_t nr;

	while ((nr = read(notes->read_fd, bytes, sizeof(bytes) - 1)) > 0) {
		char *line = bytes, *before;

		append_notes(notes, bytes, nr);
		bytes[nr] = '\0';
		while (nr && bytes[nr - 1] == '\n')
			bytes[--nr] = '\0';
		before = strrchr(bytes, '\n');
		line = before ? before + 1 : bytes;
		top_model_say(model, "%s", strncmp(line, "allocsnap: ", 11) ? line : line + 11);
	}
}

static void end_notes(struct notes *notes, struct top_model *model)
{
	if (notes->stderr_fd >= 0) {
		read_stderr_notes(notes, model);
		dup2(notes->stderr_fd, STDERR_FILENO);
		close(notes->stderr_fd);
	}
	if (notes->read_fd >= 0)
		close(notes->read_fd);
	for (size_t done = 0; done < notes->text_nr;) {
		ssize_t nr = write(STDERR_FILENO, notes->text + done, notes->text_nr - done);

		if (nr <= 0)
			break;
		done += nr;
	}
	free(notes->text);
}

/* ---- keys ----------------------------------------------------------------------------------- */

/* 0: the key means nothing. */
static int key_of_code(wint_t code)
{
	static const struct {
		wint_t code;
		int key;
	} keys[] = {
		{ KEY_UP, TOP_KEY_UP },	      { KEY_DOWN, TOP_KEY_DOWN },     { KEY_PPAGE, TOP_KEY_PAGE_UP },
		{ KEY_NPAGE, TOP_KEY_PAGE_DOWN }, { KEY_HOME, TOP_KEY_HOME }, { KEY_END, TOP_KEY_END },
		{ KEY_ENTER, TOP_KEY_ENTER }, { KEY_LEFT, TOP_KEY_BACK },     { KEY_BACKSPACE, TOP_KEY_ERASE },
		{ KEY_F(1), '?' },
	};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (keys[i].code == code)
			return keys[i].key;
	return 0;
}

static int key_of_character(wint_t character)
{
	if (character == '\r' || character == '\n')
		return TOP_KEY_ENTER;
	if (character == 27)
		return TOP_KEY_BACK;
	return character == 127 || character == 8 ? TOP_KEY_ERASE : (int)character;
}

static void read_keys(struct viewer *viewer)
{
	wint_t code;
	int kind;

	while ((kind = get_wch(&code)) != ERR && !viewer->stop) {
		int key = kind == KEY_CODE_YES ? key_of_code(code) : key_of_character(code);

		if (key)
			viewer_act(viewer, top_model_press(&viewer->model, key));
	}
}

/* ---- drawing -------------------------------------------------------------------------------- */

static attr_t attributes[TOP_STYLE_NR];

static void choose_attributes(void)
{
	static const struct {
		enum top_style style;
		short color;
	} colors[] = {
		{ TOP_STYLE_SURE, COLOR_RED }, { TOP_STYLE_LIKELY, COLOR_YELLOW }, { TOP_STYLE_WARNING, COLOR_YELLOW },
	};
	const char *no_color = getenv("NO_COLOR");

	attributes[TOP_STYLE_TITLE] = A_BOLD;
	attributes[TOP_STYLE_HEAD] = A_REVERSE;
	attributes[TOP_STYLE_SELECTED] = A_REVERSE | A_BOLD;
	attributes[TOP_STYLE_SURE] = attributes[TOP_STYLE_WARNING] = A_BOLD;
	attributes[TOP_STYLE_FOOT] = A_REVERSE;
	if ((no_color && *no_color) || !has_colors() || start_color() == ERR)
		return;
	use_default_colors();
	for (size_t i = 0; i < ARRAY_SIZE(colors); i++)
		if (init_pair(i + 1, colors[i].color, -1) != ERR)
			attributes[colors[i].style] |= COLOR_PAIR(i + 1);
}

static void draw_line(int y, int width, struct top_screen_line *line)
{
	bool fills = attributes[line->style] & A_REVERSE;
	int used;

	text_replace_unknown(line->text);
	used = text_columns(line->text);
	attrset(attributes[line->style]);
	mvaddstr(y, 0, line->text);
	for (; fills && used < width; used++)
		addch(' ');
	attrset(A_NORMAL);
}

static void draw_screen(struct viewer *viewer)
{
	struct top_screen screen;
	int height, width, err;

	getmaxyx(stdscr, height, width);
	err = top_layout_draw(&viewer->model, width, height, &screen);
	erase();
	for (size_t i = 0; i < screen.line_nr; i++)
		draw_line(i, width, &screen.line[i]);
	if (err)
		mvaddstr(0, 0, "out of memory");
	refresh();
	top_screen_release(&screen);
}

/* ---- life ----------------------------------------------------------------------------------- */

static void set_up_screen(void)
{
	cbreak();
	noecho();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	curs_set(0);
	set_escdelay(ESCAPE_DELAY_MS);
	choose_attributes();
}

/* Terminals that have only one screen keep the rows; the next line of the shell is below them. */
static void leave_screen(void)
{
	move(LINES - 1, 0);
	clrtoeol();
	refresh();
	endwin();
}

static void run_screen(struct viewer *viewer, struct notes *notes)
{
	while (!viewer->stop) {
		draw_screen(viewer);
		viewer_step(viewer, STDIN_FILENO, notes->read_fd);
		read_stderr_notes(notes, &viewer->model);
		read_keys(viewer); /* also after a resize, which is a key */
	}
}

int terminal_view_run(struct viewer *viewer)
{
	struct notes notes;
	SCREEN *terminal;
	int err;

	setlocale(LC_CTYPE, "C.UTF-8"); /* names are UTF-8 wherever they are shown */
	signal(SIGQUIT, SIG_IGN); /* it would leave the terminal as it is here */
	terminal = newterm(NULL, stdout, stdin);
	if (!terminal)
		return log_failure("this terminal is not known (TERM=%s); --batch prints text", getenv("TERM") ?: "");
	err = begin_notes(&notes);
	set_up_screen();
	if (!err)
		run_screen(viewer, &notes);
	leave_screen();
	delscreen(terminal);
	end_notes(&notes, &viewer->model);
	if (err)
		return log_failure("cannot make a pipe: %s", strerror(-err));
	return viewer->has_failed ? EXIT_FAILED : EXIT_DONE;
}
