// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Notices that a helper process has ended. */
#include "collect/recording/helpers.h"

#include <sys/epoll.h>

#include "collect/process/open_file.h"
#include "collect/session/session.h"
#include "sandbox/client.h"

static void become_blind(struct helpers *helpers, struct event_sources *events, struct notes *notes, int end_fd,
			 const char *why)
{
	helpers->has_lost_helper = true;
	epoll_ctl(events->fd, EPOLL_CTL_DEL, end_fd, NULL);
	notes_add(notes, why);
}

static void notice_end_of_link_holder(struct collector *collector)
{
	if (!collector->helpers.link_holder || !link_holder__has_ended(collector->helpers.link_holder))
		return;
	become_blind(&collector->helpers, &collector->events, &collector->notes,
		     link_holder__end_fd(collector->helpers.link_holder),
		     "the process that keeps the probes (allocsnap-links) has ended: nothing is recorded any more");
	epoll_ctl(collector->events.fd, EPOLL_CTL_DEL, link_holder__news_fd(collector->helpers.link_holder), NULL);
	budget_lose_probes(collector);
}

/* Existing probes go on. But new files would get neither probes nor names. */
static void notice_end_of_fork_server(struct helpers *helpers, struct event_sources *events, struct notes *notes)
{
	if (parser__has_ended(helpers->parser))
		become_blind(
			helpers, events, notes, parser__end_fd(helpers->parser),
			"the process that starts the readers of ELF files (allocsnap-spawn) has ended: no other file can be probed or named");
}

static void notice_end_of_opener(struct helpers *helpers, struct event_sources *events, struct notes *notes)
{
	const struct file_opener *opener = helpers->opener;

	if (file_opener__has_ended(opener))
		become_blind(helpers, events, notes, file_opener__end_fd(opener),
			     "the process that opens files of file systems that may hang (allocsnap-files) has ended");
}

void notice_blindness(struct collector *collector)
{
	if (!collector->helpers.has_lost_helper)
		notice_end_of_link_holder(collector);
	if (!collector->helpers.has_lost_helper)
		notice_end_of_fork_server(&collector->helpers, &collector->events, &collector->notes);
	if (!collector->helpers.has_lost_helper)
		notice_end_of_opener(&collector->helpers, &collector->events, &collector->notes);
}
