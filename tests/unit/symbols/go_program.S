/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A program with a table of Go's, as small as can be: gcc -DMAGIC=0xf1 -DTREES=40 -nostdlib -Wl,-e,code. Two functions of
 * 16 bytes. main.leak has lines of a.go, and calls inlined from byte 4 on: main.small, and from byte 6 on main.tiny in
 * main.small, both of b.go. main.part has a.go:20.
 */
#define OFFSETS (MAGIC == 0xf0 || MAGIC == 0xf1) /* from the code's beginning, in place of addresses */

	.text
	.globl code
	.balign 16
code:	.fill 32, 1, 0x90
code_end:

#if OFFSETS
#define ADDRESS(of) .long of - code
#define TREE(of) .long of - trees
#define NO_TREE .long -1
#else
#define ADDRESS(of) .quad of
#define TREE(of) .balign 8; .quad of
#define NO_TREE .balign 8; .quad 0
#endif
#if OFFSETS
#define ROW(address, function) .long address - code, function
#else
#define ROW(address, function) .quad address, function
#endif

	.section .data.rel.ro, "aw"
	.balign 32
#ifdef FALSE_FIRST /* what looks like a table, and is none */
	.byte MAGIC, 0xff, 0xff, 0xff, 0, 0, 1, 8
	.quad 2, 2, code, 72, 80, 88, 96, 104
#endif
table:	.byte MAGIC, 0xff, 0xff, 0xff, 0, 0, 1, 8
#if MAGIC == 0xfb
	.set functions, table
	.quad 2
#else
	.quad 2, 2
#if OFFSETS
	.quad 0
#endif
	.quad names - table, units - table, files - table, lists - table, rows - table
#endif

#if MAGIC == 0xfb
	.set names, table
	.set files, table
	.set lists, table
#else
	.set functions, rows
names:
#endif
#if MAGIC != 0xfb
leak:	.asciz "main.leak"
part:	.asciz "main.part"
small:	.asciz "main.small"
tiny:	.asciz "main.tiny"
	.balign 4
units:	.long a - files, b - files
files:
a:	.asciz "/src/a.go"
b:	.asciz "/src/b.go"
lists:	.byte 0
#define FIRST_FILE 2 /* the first number of a list is one more than what it means */
#else
rows:	ROW(code, leak_function - functions)
	ROW(code + 16, part_function - functions)
	.quad code_end, units - table
	.byte 0
leak:	.asciz "main.leak"
part:	.asciz "main.part"
small:	.asciz "main.small"
tiny:	.asciz "main.tiny"
	.balign 4
units:	.long 3, a - files, b - files
a:	.asciz "/src/a.go"
b:	.asciz "/src/b.go"
	.byte 0
#define FIRST_FILE 4
#endif
leak_files: .byte FIRST_FILE, 4, 2, 4, 1, 8, 0
leak_lines: .byte 22, 4, 9, 2, 8, 2, 6, 8, 0
leak_calls: .byte 0, 4, 2, 2, 2, 2, 3, 8, 0
part_files: .byte FIRST_FILE, 16, 0
part_lines: .byte 42, 16, 0
	.balign 8
#if MAGIC != 0xfb
rows:	ROW(code, leak_function - functions)
	ROW(code + 16, part_function - functions)
	ROW(code_end, 0)
#endif

	/* name, size of arguments, deferreturn, lists of stack, files, lines, how many further ones */
#define FUNCTION(name, files, lines, lists_nr) \
	.long name - names, 0, 0, 0, files - lists, lines - lists, lists_nr
#if MAGIC == 0xfb
#define REST(first_line, trees_nr) .byte 0, 0, 0, trees_nr
#elif MAGIC == 0xf1
#define REST(first_line, trees_nr) .long 0, first_line; .byte 0, 0, 0, trees_nr
#else
#define REST(first_line, trees_nr) .long 0; .byte 0, 0, 0, trees_nr
#endif

	.balign 8
leak_function:
	ADDRESS(code)
	FUNCTION(leak, leak_files, leak_lines, 3)
	REST(8, 5)
	.long 0, 0, leak_calls - lists
	NO_TREE
	NO_TREE
	NO_TREE
#if MAGIC == 0xfb
	NO_TREE
	TREE(tree)
#else
	TREE(tree)
	NO_TREE
#endif
	.balign 8
part_function:
	ADDRESS(code + 16)
	FUNCTION(part, part_files, part_lines, 0)
	REST(19, 0)
	.balign 8
	.long 0

#if MAGIC == 0xf1
#define CALL(name, first_line, parent) .long 0, name - names, parent, first_line
#else
#define CALL(name, first_line, parent) .long 0, 0, 0, name - names, parent
#endif
	.balign 8
trees:	.quad 0
tree:	CALL(small, 3, 3)
	CALL(tiny, 7, 5)

#if OFFSETS
	.data
	.balign 8
module:	.quad table
	.fill 19, 8, 0
	.quad code, code_end, code, code_end
	.fill TREES - 24, 8, 0
	.quad trees
	.fill 8, 8, 0
#else
	.data
	.balign 8
module:	.quad table
#endif
	.section .note.GNU-stack, "", @progbits
