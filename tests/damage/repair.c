// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * repair FILE…: makes the checksums of damaged snapshots right again, in place and as far as they
 * can be, so that a reader gets to the damage behind them. Nothing else is changed.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "snapshot/format.h"

static void repair(char *bytes, uint64_t len)
{
	struct snap_header *header = (struct snap_header *)bytes;
	struct snap_section *section = (struct snap_section *)(header + 1);

	if (header->section_nr > (len - sizeof(*header)) / sizeof(*section))
		return;
	for (uint32_t i = 0; i < header->section_nr; i++)
		if (section[i].offset <= len && section[i].size <= len - section[i].offset)
			section[i].checksum = snap_checksum(bytes + section[i].offset,
							    section[i].size);
	header->checksum = snap_header_checksum(header, section);
}

static int repair_file(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	struct stat st;
	char *bytes;

	if (fd < 0 || fstat(fd, &st))
		return -1;
	if (st.st_size < (off_t)sizeof(struct snap_header))
		return close(fd);
	bytes = mmap(NULL, st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (bytes == MAP_FAILED)
		return -1;
	repair(bytes, st.st_size);
	return munmap(bytes, st.st_size);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (repair_file(argv[i])) {
			perror(argv[i]);
			return 1;
		}
	}
	return 0;
}
