/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef PYTHON_SNIPPETS_H
#define PYTHON_SNIPPETS_H

/* Code that is made here, in a file that looks like a program. */

#include <stdint.h>

/* The file: headers, a page of code, a page with .eh_frame_hdr, which says that the code is one function. */
#define CODE 0x401000u
#define FRAMES 0x402000u
#define PAGE 0x1000u

#define TEXT_(number) #number
#define TEXT(number) "$" TEXT_(number)

struct snippet {
	const uint8_t *start, *end;
	const char *what;
};

/* Code that is copied to the begin of the page; its jumps lead within it. */
#define SNIPPET(name, code) \
	asm(".pushsection .rodata\n" #name "_start: " code "\n" #name "_end:\n.popsection\n"); \
	extern const uint8_t name##_start[], name##_end[]

/* A descriptor of the file, which the caller closes. */
int snippet_file(const struct snippet *snippet);

#endif
