// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The domain of a probe, and the domain's name. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "snapshot_sample.h"

TestSuite(snapshot_domains, .timeout = 600);

static struct snapshot *make(unsigned int columns)
{
	struct snapshot_builder *builder = sample_builder(columns);
	struct snap_probe probe = { .offset = 0x10 };

	cr_assert_eq(snapshot_builder__probe(builder, &probe), 0);
	cr_assert_eq(snapshot_builder__probe_domain(builder, 16), 0);
	cr_assert_eq(snapshot_builder__domain_name(builder, 16, "pool"), 0);
	return sample_finish(builder);
}

static void expect(const struct snapshot *snapshot)
{
	const struct snapshot_tables *t = snapshot__tables(snapshot);

	cr_assert(t->probe_nr == 2 && t->probe_domain);
	cr_expect(t->probe_domain[0] == 0 && t->probe_domain[1] == 16);
	cr_expect_str_eq(snapshot__domain_name(snapshot, 16), "pool");
	cr_expect_null(snapshot__domain_name(snapshot, 1));
}

Test(snapshot_domains, are_kept_in_a_file_and_in_a_part)
{
	struct snapshot *snapshot = make(SNAP_WITH_PROBE_DOMAIN), *part, *again;
	struct sample sample = sample_serialize(snapshot, NULL);

	expect(snapshot);
	again = snapshot__open_memory(sample.bytes, sample.len, NULL);
	cr_assert(again);
	expect(again);
	cr_assert_eq(snapshot__select(snapshot, (const uint8_t[4]){ 1 }, &part), 0);
	expect(part);
	snapshot__close(part);
	snapshot__close(again);
	snapshot__close(snapshot);
	sample_release(&sample);
}

Test(snapshot_domains, are_absent_unless_requested)
{
	struct snapshot *snapshot = make(0);

	cr_expect_null(snapshot__tables(snapshot)->probe_domain);
	snapshot__close(snapshot);
}

Test(snapshot_domains, without_a_probe_are_refused)
{
	struct snapshot_builder *builder = snapshot_builder__new(SNAP_WITH_PROBE_DOMAIN);

	cr_expect_eq(snapshot_builder__probe_domain(builder, 16), -EINVAL);
	snapshot_builder__free(builder);
}

Test(snapshot_domains, must_be_as_many_as_probes)
{
	struct snapshot *snapshot = make(SNAP_WITH_PROBE_DOMAIN);
	struct sample sample = sample_serialize(snapshot, NULL);
	struct snap_section *section = sample_section(&sample, SNAP_PROBE_DOMAIN);

	section->size -= sizeof(uint32_t);
	section->count--;
	memset(sample.bytes + section->offset + section->size, 0, sizeof(uint32_t));
	sample_seal(&sample);
	sample_expect_refused(&sample, "rows", EBADMSG, "section probe domains: 1 rows for 2 probes");
	sample_release(&sample);
	snapshot__close(snapshot);
}
