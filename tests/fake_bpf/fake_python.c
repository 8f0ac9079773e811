// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fake_python.h"

#include <bpf/bpf_tracing.h>

int python_place(struct pt_regs *ctx);
int python_heap(struct pt_regs *ctx);

_Alignas(ARENA) char arena[ARENA];
struct arena_object arenas[3];
static const struct arena_object *arenas_at = arenas;
static __u32 max_arenas = 2;
__u64 usable_arenas;
static struct pool empty_pool[CLASSES];
__u64 used_pools[2 * CLASSES];
static struct {
	__u64 current, interpreter;
	int is_made;
	__u32 number;
} tss_key;
struct thread_state thread_state;
__u64 main_interpreter = 77;
static __u64 control_block[0x720 / 8], second_table[2 * GLIBC_KEYS_OF_TABLE]; /* as glibc's */
struct frame frames[600];
struct code codes[2];
struct string file_name = { 6, 1 << 2 | 1 << 6, 0, "app.py" }, code_name = { 4, 1 << 2 | 1 << 6, 0, "work" };
struct bytes line_table = { 5, "lines" };

#define IN(name) \
	{ .kind = ARGUMENT_REGISTER, .bytes = 8, .base = offsetof(struct pt_regs, name), .index = ARGUMENT_NO_REGISTER }
#define NONE { .kind = ARGUMENT_CONSTANT, .bytes = 8, .base = ARGUMENT_NO_REGISTER, .index = ARGUMENT_NO_REGISTER }
#define CALL(what, ...) { .operation = PYTHON_##what, .domain = PYTHON_OBJECT, .is_used = 1, .asks_zf = 1, __VA_ARGS__ }

static const struct python_call rows[ROW_NR] = {
	[ROW_MALLOC] = CALL(MALLOC, .size = IN(r14), .count = NONE, .pointer = NONE),
	[ROW_CALLOC] = CALL(CALLOC, .size = IN(dx), .count = IN(si), .pointer = NONE),
	[ROW_REALLOC] = CALL(REALLOC, .size = IN(dx), .count = NONE, .pointer = IN(si)),
	[ROW_FREE] = CALL(FREE, .size = NONE, .count = NONE, .pointer = IN(bx)),
	[ROW_CREATION] = { .operation = PYTHON_CREATION, .domain = PYTHON_OBJECT, .is_used = 1,
			   .size = NONE, .count = NONE, .pointer = IN(r12) },
	[ROW_RAW] = { .operation = PYTHON_MALLOC, .domain = PYTHON_RAW, .is_used = 1,
		      .size = IN(di), .count = NONE, .pointer = NONE },
	[ROW_TRACK] = { .operation = PYTHON_TRACK, .domain = PYTHON_RAW, .is_used = 1,
			.size = IN(dx), .count = IN(di), .pointer = IN(si) },
	[ROW_UNTRACK] = { .operation = PYTHON_UNTRACK, .domain = PYTHON_RAW, .is_used = 1,
			  .size = NONE, .count = IN(di), .pointer = IN(si) },
	[ROW_POOL_OPEN] = { .operation = PYTHON_POOL_OPEN, .domain = PYTHON_OBJECT, .is_used = 1,
			    .size = IN(bp), .count = NONE, .pointer = IN(ax) },
	[ROW_POOL_CLOSE] = { .operation = PYTHON_POOL_CLOSE, .domain = PYTHON_OBJECT, .is_used = 1,
			     .size = NONE, .count = NONE, .pointer = IN(si) },
	[ROW_CODE_END] = { .operation = PYTHON_CODE_END, .domain = PYTHON_RAW, .is_used = 1,
			   .size = NONE, .count = NONE, .pointer = IN(di) },
	[ROW_HOOK] = { .operation = PYTHON_MALLOC, .domain = PYTHON_RAW, .is_used = 1, .asks_letter = 1,
		       .size = IN(si), .count = NONE, .pointer = NONE },
	[ROW_HOOK_FREE] = { .operation = PYTHON_FREE, .domain = PYTHON_RAW, .is_used = 1, .asks_letter = 1,
			    .size = NONE, .count = NONE, .pointer = IN(si) },
};

struct python_offsets python_layout = {
	.code_mask = ~0ULL, .tstate_frame = 0, .cframe_frame = PYTHON_NO_OFFSET, .cframe_back = PYTHON_NO_OFFSET,
	.tstate_interp = 8,
	.frame_code = offsetof(struct frame, code), .frame_back = offsetof(struct frame, back),
	.frame_instruction = offsetof(struct frame, instruction), .frame_owner = offsetof(struct frame, owner),
	.frame_bytes = 32, .instruction_kind = PYTHON_POINTER, .owner_generator = 1, .owner_shim = 3,
	.code_first_line = offsetof(struct code, first_line), .code_filename = offsetof(struct code, filename),
	.code_name = offsetof(struct code, name), .code_lines = offsetof(struct code, lines),
	.code_instructions = offsetof(struct code, instruction),
	.code_first_traceable = offsetof(struct code, first_traceable),
	.string_length = 0, .string_state = 8, .string_ascii = 16, .string_compact = 16,
	.bytes_length = 0, .bytes_data = 8,
	.object_type = offsetof(struct object, type), .object_header = 16, .object_preheader = 32,
};

void pool_make(struct pool *pool, __u32 class)
{
	*pool = (struct pool){ .freeblock = (__u64)pool + 48, .arenaindex = 1, .szidx = class };
}

struct pool *pool_at(unsigned int nr)
{
	return (struct pool *)(arena + nr * POOL);
}

void pool_use(struct pool *pool, __u32 class)
{
	pool_make(pool, class);
	used_pools[2 * class] = (__u64)pool;
}

static void code_begin(struct code *code, int first_line)
{
	*code = (struct code){ .filename = (__u64)&file_name, .name = (__u64)&code_name, .lines = (__u64)&line_table,
			       .first_line = first_line };
}

void frames_make(unsigned int nr)
{
	for (unsigned int i = 0; i < nr; i++)
		frames[i] = (struct frame){ .code = (__u64)&codes[i % 2], .back = i + 1 < nr ? (__u64)&frames[i + 1] : 0,
					    .instruction = (__u64)&codes[i % 2].instruction[i % 64] };
	thread_state.frame = nr ? (__u64)frames : 0;
}

void thread_state_use(__u64 state)
{
	__u64 table = *(__u64 *)GLIBC_SPECIFIC_TABLE((__u64)control_block, tss_key.number);

	*(__u64 *)GLIBC_SPECIFIC_VALUE(table, tss_key.number) = state;
	tss_key.current = state;
}

void thread_state_runs(__u64 state)
{
	tss_key.current = state;
}

void thread_state_key(int is_made, __u32 number)
{
	tss_key.is_made = is_made;
	tss_key.number = number;
	memset(control_block, 0, sizeof(control_block));
	*(__u64 *)GLIBC_SPECIFIC_TABLE((__u64)control_block, 0) = (__u64)control_block + GLIBC_SPECIFIC_FIRST;
	if (number >= GLIBC_KEYS_OF_TABLE && number < GLIBC_KEYS_MAX)
		*(__u64 *)GLIBC_SPECIFIC_TABLE((__u64)control_block, number) = (__u64)second_table;
}

void python_tell(void)
{
	struct python_process told = {
		.tss_key = (__u64)&tss_key.number, .main_interpreter = (__u64)&main_interpreter,
		.used_pools = (__u64)used_pools, .usable_arenas = (__u64)&usable_arenas, .arenas = (__u64)&arenas_at,
		.max_arenas = (__u64)&max_arenas, .pool_bytes = POOL, .arena_bytes = ARENA, .offsets = python_layout,
	};

	told.memory = book_of(process)->memory;
	book_of(process)->python = told;
}

void python_begin_world(bool tells)
{
	settings.has_python = true;
	fake_map_resize(&python_code_cache, 1 << PYTHON_CACHE_SHIFT);
	fake_map_resize(&python_code_marks, 1 << PYTHON_MARKS_SHIFT);
	memcpy(python_calls, rows, sizeof(rows));
	for (__u32 i = 0; i < CLASSES; i++) {
		empty_pool[i].nextpool = (__u64)&empty_pool[i];
		used_pools[2 * i] = (__u64)&empty_pool[i];
	}
	arenas[1] = (struct arena_object){ .address = (__u64)arena, .pool_address = (__u64)arena };
	usable_arenas = (__u64)&arenas[1];
	((struct task_struct *)fake.current)->thread.fsbase = (__u64)control_block;
	thread_state_key(true, 0);
	thread_state_use((__u64)&thread_state);
	thread_state.interpreter = main_interpreter;
	code_begin(&codes[0], 10);
	code_begin(&codes[1], 20);
	frames_make(1);
	if (tells)
		python_tell();
}

void pass_place(__u32 row, struct pt_regs regs)
{
	bool frees = row == ROW_FREE || row == ROW_UNTRACK || row == ROW_POOL_CLOSE || row == ROW_CODE_END ||
		     row == ROW_HOOK_FREE;
	__u32 shape = frees ? SHAPE_PYTHON_FREE : SHAPE_PYTHON;

	regs.sp = regs.sp ?: sp_at(5);
	fake.attach_cookie = SITE_COOKIE(90 + shape, shape, LAYER_POOL, DOMAIN_PYTHON) | USER_CALL_COOKIE(row);
	python_place(&regs);
}

void object_malloc(__u64 size) { pass_place(ROW_MALLOC, (struct pt_regs){ .r14 = size, .flags = ZF }); }
void object_free(__u64 pointer) { pass_place(ROW_FREE, (struct pt_regs){ .bx = pointer, .flags = ZF }); }
void pool_opens(__u64 pool, __u64 class) { pass_place(ROW_POOL_OPEN, (struct pt_regs){ .ax = pool, .bp = class }); }
void pool_closes(__u64 pool) { pass_place(ROW_POOL_CLOSE, (struct pt_regs){ .si = pool }); }
void raw_malloc(__u64 size) { pass_place(ROW_RAW, (struct pt_regs){ .di = size }); }

void object_realloc(__u64 pointer, __u64 size)
{
	pass_place(ROW_REALLOC, (struct pt_regs){ .si = pointer, .dx = size, .flags = ZF });
}

void object_begins(__u64 object)
{
	struct pt_regs regs = { .r12 = object, .sp = sp_at(5) };

	fake.attach_cookie = SITE_COOKIE(90 + SHAPE_PYTHON_CREATION, SHAPE_PYTHON_CREATION, LAYER_POOL, DOMAIN_PYTHON) |
			     USER_CALL_COOKIE(ROW_CREATION);
	python_place(&regs);
}

bool heap_call(enum call_shape shape, __u64 first, __u64 second, __u64 returned)
{
	struct pt_regs regs = { .ip = PROBE_ADDRESS, .di = first, .si = second, .sp = sp_at(2) };

	fake.func_ip = PROBE_ADDRESS;
	fake.attach_cookie = SITE_COOKIE(95 + shape, shape, LAYER_POOL, DOMAIN_PYTHON);
	*(__u64 *)regs.sp = 0x401000;
	if (python_heap(&regs))
		return false;
	regs = (struct pt_regs){ .ip = 0x401000, .ax = returned, .sp = sp_at(2) + RET_POPS };
	python_heap(&regs);
	return true;
}

__u64 *free_list(__u32 class)
{
	return &((struct pool *)used_pools[2 * class])->freeblock;
}

struct traceback *traceback_of(__u64 address)
{
	const struct block *block = block_in(process, LAYER_POOL, address);

	return block ? bpf_map_lookup_elem(&tracebacks, &block->traceback) : NULL;
}
