// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The memory file that the agent in a Java virtual machine writes, and that the process may fill with anything: its head, and then a
 * quarter of the rest each for slots, nodes, frames and texts. Every stack and every name that is read is sound.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/reason.h"
#include "check.h"
#include "java/samples_reader.h"

static char *memory;

static int memory_file(void)
{
	static int fd = -1;

	if (fd >= 0)
		return fd;
	fd = memfd_create("samples", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	MUST(fd >= 0 && !ftruncate(fd, JAVA_FILE_BYTES) && !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW));
	memory = mmap(NULL, JAVA_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	MUST(memory != MAP_FAILED);
	return fd;
}

static size_t copy_part(size_t at, const uint8_t *bytes, size_t nr)
{
	memcpy(memory + at, bytes, nr);
	return nr;
}

static int check_sample(void *samples_, const struct java_sample *sample)
{
	struct java_samples *samples = samples_;
	struct java_stack stack;
	struct java_frame_text text;
	uint64_t nr, bytes;

	MUST(sample->node && sample->node < java_samples__node_nr(samples) && sample->size && sample->bytes >= sample->size);
	java_samples__node_sums(samples, sample->node, &nr, &bytes);
	if (!java_samples__stack(samples, sample->node, &stack))
		return 0;
	MUST(stack.nr && stack.nr <= JAVA_STACK_MAX + 1);
	for (uint32_t i = 0; i < stack.nr; i++)
		if (java_samples__frame(samples, stack.frame[i], &text))
			MUST(strnlen(text.function, sizeof(text.function)) < sizeof(text.function) &&
			     strnlen(text.file, sizeof(text.file)) < sizeof(text.file));
	return 0;
}

/* So that most inputs get beyond the head. */
static void make_likely(struct java_head *head)
{
	head->interval &= UINT32_MAX >> (head->interval >> 32 & 31);
	head->slot_nr %= JAVA_SLOTS + 2;
	head->node_nr %= JAVA_NODES + 2;
	head->frame_nr %= JAVA_FRAMES + 2;
	head->text_bytes %= JAVA_TEXT_BYTES + 2;
	head->sweeps &= ~UINT64_C(1); /* the reader would wait */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const size_t part_at[] = { JAVA_SLOTS_AT, JAVA_NODES_AT, JAVA_FRAMES_AT, JAVA_TEXTS_AT };
	struct java_head head = { .magic = JAVA_SAMPLES_MAGIC, .version = JAVA_SAMPLES_VERSION };
	size_t kept = offsetof(struct java_head, state), at = sizeof(head) - kept, part;
	struct java_samples *samples;
	struct reason why = {};
	int fd = memory_file();

	if (size < at || size > (1u << 20))
		return 0;
	memcpy((char *)&head + kept, data, at);
	make_likely(&head);
	memcpy(memory, &head, sizeof(head));
	part = (size - at) / 4;
	for (int i = 0; i < 4; i++)
		at += copy_part(part_at[i], data + at, part);
	if (java_samples__open(dup(fd), &samples, &why)) {
		MUST(*why.text);
		return 0;
	}
	if (!java_samples__read(samples))
		MUST(!java_samples__each(samples, check_sample, samples));
	java_samples__close(samples);
	for (int i = 0; i < 4; i++)
		memset(memory + part_at[i], 0, part);
	return 0;
}
