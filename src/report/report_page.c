// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report/report_page.h"

#include <errno.h>
#include <string.h>

#define PLACE "@DATA@" /* once in the page */

__asm__(".pushsection .rodata\n"
	"report_page_start:\n"
	".incbin \"src/report/page/page.html\"\n"
	"report_page_end:\n"
	".popsection\n");

/* Hidden: binutils 2.40 gives local labels in one section the same entry in arm64's global offset table. */
__attribute__((visibility("hidden"))) extern const char report_page_start[], report_page_end[];

/* Where the data go. */
static const char *find_data_place(void)
{
	return memmem(report_page_start, report_page_end - report_page_start, PLACE, strlen(PLACE));
}

size_t report_page_len(void)
{
	return report_page_end - report_page_start - strlen(PLACE);
}

static void put_base64_group(FILE *out, const uint8_t *byte, size_t nr)
{
	static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	uint32_t bits = byte[0] << 16 | (nr > 1 ? byte[1] << 8 : 0) | (nr > 2 ? byte[2] : 0);

	putc_unlocked(digit[bits >> 18], out);
	putc_unlocked(digit[bits >> 12 & 63], out);
	putc_unlocked(nr > 1 ? digit[bits >> 6 & 63] : '=', out);
	putc_unlocked(nr > 2 ? digit[bits & 63] : '=', out);
}

int report_page_write(FILE *out, const uint8_t *bytes, size_t bytes_nr)
{
	const char *place = find_data_place();

	if (!place)
		return -ENODATA;
	fwrite(report_page_start, 1, place - report_page_start, out);
	for (size_t i = 0; i < bytes_nr; i += 3)
		put_base64_group(out, bytes + i, bytes_nr - i < 3 ? bytes_nr - i : 3);
	place += strlen(PLACE);
	fwrite(place, 1, report_page_end - place, out);
	return ferror(out) ? -errno ?: -EIO : 0;
}
