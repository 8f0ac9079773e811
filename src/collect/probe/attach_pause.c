// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Removes probes for a while, and attaches them again. */
#include <errno.h>
#include <stdlib.h>

#include "collect/probe/attach_methods.h"
#include "collect/probe/detach.h"

void probes_detach(struct probes *probes, struct detacher *detacher)
{
	for (size_t i = probes->link_nr; i-- > 0;)
		if (!probes->link[i].frees)
			detach_begin_link(probes, &probes->link[i], detacher);
	for (size_t i = probes->link_nr; i-- > 0;)
		detach_begin_link(probes, &probes->link[i], detacher);
}

void probes_pause(struct probes *probes, struct detacher *detacher)
{
	probes->is_paused = true;
	probes_detach(probes, detacher);
}

void probes_end(struct probes *probes, struct detacher *detacher)
{
	probes_detach(probes, detacher);
	while (probes->link_nr)
		free(probes->link[--probes->link_nr].places.place);
	probes_close(probes);
}

/* If its file is being written to, only this link stays detached: other files and processes are still recorded. */
static int place_link(const struct attachment *at, struct probe_link *link)
{
	int err = attach_again(at, link);

	link->is_put_off = err == -ETXTBSY || err == -ESTALE;
	return link->is_put_off ? 0 : err;
}

static int place_again(struct probes *probes, const struct allocsnap_bpf *bpf,
		       const struct objects *objects, bool frees)
{
	int err = 0;

	for (size_t i = 0; i < probes->link_nr && !err; i++) {
		struct probe_link *link = &probes->link[i];
		struct attachment at = attachment_to(probes, bpf, objects, link->object);

		if (link->frees == frees && !link->event && !link->kept)
			err = place_link(&at, link);
	}
	return err;
}

int probes_resume(struct probes *probes, const struct allocsnap_bpf *bpf,
		  const struct objects *objects, struct detacher *detacher)
{
	int err = place_again(probes, bpf, objects, true) ?:
		  place_again(probes, bpf, objects, false);

	if (err)
		probes_pause(probes, detacher);
	else
		probes->is_paused = false;
	return err;
}
