// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Finds the places where calls return, for probes that hijack no return address (returns.h). */
#include <errno.h>

#include "base/array.h"
#include "base/reason.h"
#include "collect/probe/attach_methods.h"
#include "collect/process/objects.h"
#include "elf/probe_info.h"
#include "sandbox/client.h"

/*
 * Some functions that throw jump to another allocator function. That function returns instead of them, and its
 * return is not seen while a call of the first is pending. -EALREADY: all calls end in the other function.
 */
static int check_jumps(const struct attachment *at, const struct probe_site *site,
		       const struct object_returns *returns, struct reason *why)
{
	if (!site->throws || at->probes->by_ret || !returns->leads_to_probed)
		return 0;
	if (!returns->place_nr)
		return -EALREADY;
	return reason_set(why, -ENOTSUP, "some of its calls go on in another allocator function");
}

#define RETS_MAX 1000 /* in one object; beyond this no more functions are added: each new return is compared with all */

static size_t rets_of(const struct probes *probes, uint32_t object)
{
	size_t nr = 0;

	for (size_t i = 0; i < probes->ret_nr; i++)
		nr += probes->ret[i].object == object;
	return nr;
}

static bool is_ret_probed(const struct probes *probes, const struct probed_ret *ret)
{
	for (size_t i = 0; i < probes->ret_nr; i++)
		if (probes->ret[i].object == ret->object && probes->ret[i].offset == ret->offset)
			return true;
	return false;
}

static int add_ret(const struct attachment *at, const struct probe_site *site,
		   const struct object_return *where, struct probe_places *places,
		   struct reason *why)
{
	const struct probed_ret ret = { .object = site->object, .offset = where->offset };
	const struct probe_place place = {
		.offset = where->offset,
		.cookie = (where->is_in_argument ? RESULT_IS_ARGUMENT : RESULT_IS_RETURNED | COOKIE_STEPPED) |
			  (at->probes->is_beside ? COOKIE_OWN_LINK : 0),
	};
	int err;

	if (is_ret_probed(at->probes, &ret))
		return 0;
	if (place.offset == site_entry(at->probes, site).offset)
		return reason_set(why, -ENOTSUP, "it returns at its entry");
	err = check_place(at, place.offset, why) ?: array_push(at->probes, ret, ret);
	return err ?: array_push(places, place, place);
}

static int add_all(const struct attachment *at, const struct probe_site *site,
		   const struct object_returns *returns, struct probe_places *ret,
		   struct reason *why)
{
	size_t known = at->probes->ret_nr, before = ret->place_nr;
	int err = check_jumps(at, site, returns, why);

	for (uint32_t i = 0; i < returns->place_nr && !err; i++)
		err = add_ret(at, site, &returns->place[i], ret, why);
	if (!err)
		return 0;
	at->probes->ret_nr = known;
	ret->place_nr = before;
	return err;
}

int add_rets(const struct attachment *at, const struct probe_site *site,
	     struct probe_places *ret, struct reason *why)
{
	struct object_returns returns = {};
	int err;

	if (rets_of(at->probes, site->object) > RETS_MAX)
		return reason_set(why, -ENOTSUP, "its file has too many returns");
	err = parser__returns(at->parser, at->object->fd, site->vaddr, &returns, why);
	if (!err)
		err = add_all(at, site, &returns, ret, why);
	object_returns_release(&returns);
	return err;
}
