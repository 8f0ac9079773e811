// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * victim_code MODE [THREADS]: a program whose threads execute code that an injector easily harms, and which checks that: the
 * modes are the rows of `modes`. victim.h says how it is asked.
 */
#include <asm/ldt.h>
#include <sys/rseq.h>
#include <sys/time.h>
#include <ucontext.h>

#include "victim.h"

#define CPUS 256
#define NODES 1000

/* ---- restartable sequences ---- */

struct node {
	struct node *next;
	atomic_int is_taken;
};

static struct {
	union {
		uint64_t count;
		struct node *head;
	};
	char room[56];
} per_cpu[CPUS];

static struct node nodes[NODES];

/*
 * A section: %rcx is this CPU's row; after some turns, in which it is interrupted, `body` sets %rdx, which is stored: that
 * commits. `body` may go to 2, the end.
 */
#define SECTION(body, ...)                                                                                              \
	__asm__ goto volatile(".pushsection __rseq_cs, \"aw\"\n.balign 32\n3: .long 0, 0\n.quad 1f, (2f - 1f), 4f\n"    \
			      ".popsection\n"                                                                           \
			      "movq $3b, 8(%[rseq])\n"                                                                  \
			      "1: movl 4(%[rseq]), %%ecx\n shl $6, %%rcx\n addq %[rows], %%rcx\n movq (%%rcx), %%rdx\n" \
			      body "movq %%rdx, (%%rcx)\n2:\n"                                                           \
			      ".pushsection __rseq_failure, \"ax\"\n.byte 0x0f, 0xb9, 0x3d\n.long 0x53053053\n"         \
			      "4: jmp %l[aborted]\n.popsection\n"                                                       \
			      :                                                                                         \
			      : [rseq] "r"((char *)__builtin_thread_pointer() + __rseq_offset), [rows] "r"(per_cpu),    \
				__VA_ARGS__                                                                             \
			      : "rax", "rcx", "rdx", "memory", "cc"                                                     \
			      : aborted)
#define SOME_TURNS "movl $200, %%eax\n5: decl %%eax\n jnz 5b\n"

/* As long as a section: a thread that is hardly ever outside would be refused most of the time. */
static void spend_as_long_outside(void)
{
	__asm__ volatile(SOME_TURNS : : : "rax", "cc");
}

static int count_once(void)
{
	SECTION(SOME_TURNS "incq %%rdx\n", "r"(0));
	return 1;
aborted:
	return 0;
}

static struct node *pop(void)
{
	struct node *node;

again:
	node = NULL;
	SECTION("movq %%rdx, (%[node])\n testq %%rdx, %%rdx\n jz 2f\n" SOME_TURNS "movq (%%rdx), %%rdx\n", [node] "r"(&node));
	return node;
aborted:
	goto again;
}

static void push(struct node *node)
{
again:
	SECTION("movq %%rdx, (%[node])\n" SOME_TURNS "movq %[node], %%rdx\n", [node] "r"(node));
	return;
aborted:
	goto again;
}

/* Signals come amid sections, too: the kernel aborts these. */
static atomic_long begun_by_handler, ended_by_handler;

static void count_too(int, siginfo_t *, void *)
{
	begun_by_handler++;
	while (!count_once())
		;
	ended_by_handler++;
}

/* Counts while no handler is at work. */
static long count_quietly(long (*count)(void), long *ret_by_handler)
{
	long begun, ended, sum;

	do {
		ended = ended_by_handler;
		sum = count();
		begun = begun_by_handler;
	} while (begun != ended);
	*ret_by_handler = ended;
	return sum;
}

static void start_timer(void (*handler)(int, siginfo_t *, void *))
{
	const struct itimerval period = { { 0, 1000 }, { 0, 1000 } };

	handle(SIGALRM, handler);
	setitimer(ITIMER_REAL, &period, NULL);
}

static void prepare_count(void)
{
	start_timer(count_too);
}

static void work_count(int nr)
{
	for (int i = 0; i < 8000; i++) {
		made[nr] += count_once();
		spend_as_long_outside();
		if (i % 256 == 0)
			allocate(1);
	}
}

static long sum_of_counters(void)
{
	long sum = 0;

	for (int i = 0; i < CPUS; i++)
		sum += per_cpu[i].count;
	return sum;
}

static void check_count(void)
{
	long by_handler, sum = count_quietly(sum_of_counters, &by_handler);

	expect(sum == by_handler + all_made(), "the counters of CPUs are not what the threads have counted");
}

static void pop_too(int, siginfo_t *, void *)
{
	struct node *node;

	begun_by_handler++;
	node = pop();
	expect(!node || !atomic_exchange(&node->is_taken, 1), "a block is given out twice");
	if (node) {
		node->is_taken = 0;
		push(node);
	}
	ended_by_handler++;
}

static void fill_lists(void)
{
	for (int i = 0; i < NODES; i++)
		push(&nodes[i]);
	start_timer(pop_too);
}

static void work_list(int)
{
	struct node *mine[8];

	for (int i = 0; i < 500; i++) {
		for (int k = 0; k < 8; k++) {
			mine[k] = pop();
			spend_as_long_outside();
			expect(!mine[k] || !atomic_exchange(&mine[k]->is_taken, 1), "a block is given out twice");
		}
		if (i % 32 == 0)
			allocate(1);
		for (int k = 0; k < 8; k++)
			if (mine[k]) {
				mine[k]->is_taken = 0;
				push(mine[k]);
				spend_as_long_outside();
			}
	}
}

static long nodes_in_lists(void)
{
	long nr = 0;

	for (int i = 0; i < CPUS; i++)
		for (struct node *node = per_cpu[i].head; node && nr <= NODES; node = node->next)
			nr++;
	return nr;
}

/* No thread has a block now: all are in the lists. */
static void check_list(void)
{
	long by_handler;

	expect(count_quietly(nodes_in_lists, &by_handler) == NODES, "blocks are lost, or in two lists");
}

/* ---- 32-bit code ---- */

void enter32(const void *far, void *stack_end, uint32_t turns, uint32_t address);
extern char turn32[], call32[], stay32[];

__asm__(".text\n"
	"enter32: push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n"
	"mov %rsp, -8(%rsi)\n lea -8(%rsi), %rsp\n mov %ecx, %ebx\n mov %edx, %ecx\n"
	"mov $0x2b, %eax\n mov %eax, %ds\n mov %eax, %es\n lcall *(%rdi)\n mov (%rsp), %rsp\n"
	"xor %eax, %eax\n mov %eax, %ds\n mov %eax, %es\n"
	"pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret\n"
	".code32\n"
	"turn32: push %ebp\n mov %esp, %ebp\n 1: call 2f\n decl %ecx\n jnz 1b\n pop %ebp\n lret\n 2: ret\n"
	"call32: mov $20, %eax\n int $0x80\n cmp %ebx, %eax\n jne 1f\n decl %ecx\n jnz call32\n 1: mov %eax, %ebx\n lret\n"
	"stay32: mov $100000, %ecx\n 1: decl %ecx\n jnz 1b\n lock incl (%ebx)\n jmp stay32\n"
	".code64\n");

static uint16_t code_segment = 0x23;

static void run32(int nr, const char *code, uint32_t turns, const void *address)
{
	static char stack[THREADS][4096] __attribute__((aligned(16)));
	const struct { uint32_t offset; uint16_t segment; } __attribute__((packed)) far = { (uintptr_t)code, code_segment };

	enter32(&far, stack[nr + 1], turns, (uintptr_t)address);
}

/* The first thread only, or all: NUMBER is how many threads there are. */
static void work_code32(int nr)
{
	if (nr)
		return work_nothing(nr);
	run32(nr, turn32, 1000000, NULL);
	run32(nr, call32, 2000, (void *)(uintptr_t)getpid());
	allocate(1);
}

static void work_code32_by_turns(int nr)
{
	for (int i = 0; i < 20; i++) {
		run32(nr, turn32, 10000, NULL);
		allocate(500);
	}
}

static void use_ldt(void)
{
	const struct user_desc code = {
		.limit = 0xfffff, .seg_32bit = 1, .contents = MODIFY_LDT_CONTENTS_CODE, .limit_in_pages = 1, .useable = 1,
	};

	if (syscall(SYS_modify_ldt, 1, &code, sizeof(code)))
		err(2, "modify_ldt");
	code_segment = 7; /* the first one of this table */
}

static void stay_in_code32(int nr)
{
	shared->is_between = 1;
	run32(nr, stay32, 0, &shared->rounds);
}

/* ---- calls that go to a handler (syscall user dispatch) ---- */

long allowed_call(long number, long a, long b, long c, long d, long e, long f);
extern char allowed[], allowed_end[], allowed_return[];

__asm__(".text\n.balign 4096\n"
	"allowed: allowed_call: mov %rdi, %rax\n mov %rsi, %rdi\n mov %rdx, %rsi\n mov %rcx, %rdx\n mov %r8, %r10\n"
	"mov %r9, %r8\n mov 8(%rsp), %r9\n syscall\n nop\n ret\n"
	"allowed_return: mov $15, %eax\n syscall\n.balign 4096\nallowed_end:\n");

static void make_call_for(int, siginfo_t *, void *context)
{
	greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;

	handled += r[REG_RAX] == SYS_getppid;
	expect(r[REG_RAX] != SYS_memfd_create && r[REG_RAX] != SYS_mremap, "a call that the program does not make");
	r[REG_RAX] = allowed_call(r[REG_RAX], r[REG_RDI], r[REG_RSI], r[REG_RDX], r[REG_R10], r[REG_R8], r[REG_R9]);
}

/* The C library's way back from a handler would be dispatched, too. */
static void handle_calls(void)
{
	const struct { void *handler; unsigned long flags; void *restorer; unsigned long mask; } action = {
		make_call_for, SA_SIGINFO | SA_NODEFER | 0x04000000 /* SA_RESTORER */, allowed_return, 0,
	};

	if (syscall(SYS_rt_sigaction, SIGSYS, &action, NULL, 8))
		err(2, "sigaction");
}

static volatile char selector[THREADS];

static void dispatch(int nr, int is_on)
{
	if (prctl(59 /* PR_SET_SYSCALL_USER_DISPATCH */, is_on, is_on ? allowed : 0, is_on ? allowed_end - allowed : 0,
		  is_on ? &selector[nr] : 0))
		err(2, "prctl");
}

static void make_dispatched_calls(int nr)
{
	selector[nr] = 1;
	for (int i = 0; i < 40; i++) {
		syscall(SYS_getppid);
		allocate(20);
	}
	selector[nr] = 0;
	made[nr] += 40;
}

static void work_dispatched(int nr)
{
	static int is_on[THREADS];

	if (!is_on[nr]++)
		dispatch(nr, 1);
	make_dispatched_calls(nr);
}

static void work_dispatched_by_one(int nr)
{
	return nr ? work_nothing(nr) : work_dispatched(nr);
}

static void work_dispatched_by_turns(int nr)
{
	dispatch(nr, 1);
	make_dispatched_calls(nr);
	dispatch(nr, 0);
	allocate(100);
}

/* ---- steps ---- */

/* Each instruction traps. */
static void work_steps(int nr)
{
	static long traps;
	long before = handled;

	__asm__ volatile("sub $128, %%rsp\n pushfq\n orl $0x100, (%%rsp)\n popfq\n"
			 "mov $200, %%eax\n1: dec %%eax\n jnz 1b\n"
			 "pushfq\n andl $~0x100, (%%rsp)\n popfq\n add $128, %%rsp" : : : "rax", "memory", "cc");
	made[nr] += handled - before;
	traps = traps ?: handled - before;
	expect(handled - before == traps, "a step is lost, or made twice");
	allocate(1);
}

/* ---- the whole ---- */

static const struct mode modes[] = {
	{ "rseq-count", work_count, check_count, prepare_count },
	{ "rseq-list", work_list, check_list, fill_lists },
	{ "code32", work_code32 },
	{ "code32-by-turns", work_code32_by_turns },
	{ "code32-ldt", work_code32_by_turns, .prepare = use_ldt },
	{ "only32", stay_in_code32, .thread_nr = 1 },
	{ "dispatched", work_dispatched, check_handled, handle_calls },
	{ "dispatched-by-one", work_dispatched_by_one, check_handled, handle_calls, .thread_nr = 3 },
	{ "dispatched-by-turns", work_dispatched_by_turns, check_handled, handle_calls },
	{ "steps", work_steps, check_handled, handle_traps, .thread_nr = 1 },
	{},
};

int main(int argc, char **argv)
{
	run_modes(modes, argc, argv);
}
