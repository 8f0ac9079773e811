// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The blind spots of a recording of a process, the most serious first: one table row each. */
#include <inttypes.h>
#include <string.h>

#include "base/array.h"
#include "base/units.h"
#include "collect/diagnosis/diagnosis.h"
#include "elf/runtime_detect.h"

/* ---- files ---- */

static const struct diagnosed_file *program_of(const struct diagnosed_process *process)
{
	return array_find(process, file, i, process->file[i].is_program);
}

/*
 * Names the files with a property: the first one and the number of the others, as in "/a/b.so and 3 more".
 * Returns whether there are any.
 */
static bool name_files(const struct diagnosed_process *process,
		       bool (*has)(const struct diagnosed_file *file), struct reason *ret,
		       const char *after)
{
	const char *first = NULL;
	size_t nr = 0;

	for (size_t i = 0; i < process->file_nr; i++) {
		if (!has(&process->file[i]))
			continue;
		first = first ?: process->file[i].path;
		nr++;
	}
	if (nr == 1)
		reason_set(ret, 0, "%s %s", first, after);
	else if (nr)
		reason_set(ret, 0, "%s and %zu more %s", first, nr - 1, after);
	return nr;
}

static bool is_kernels(const struct diagnosed_file *file)
{
	return *file->path == '[';
}

/* ---- nothing, or part of it ---- */

static bool no_allocator(const struct diagnosed_process *process, struct reason *why)
{
	const struct diagnosed_file *program = program_of(process);

	for (size_t i = 0; i < process->file_nr; i++)
		if (process->file[i].probe_nr)
			return false;
	if (!program || program->is_32_bit || process->traits & TRAIT_BIT(GO))
		return false;
	if (program->traits & TRAIT_BIT(LOCAL_MALLOC))
		reason_set(why, 0, "its malloc is a local symbol of %s, which may be another function of that name", program->path);
	else if (program->has_traits && !(program->traits & TRAIT_BIT(SYMTAB)))
		reason_set(why, 0, "%s is linked statically and stripped: nothing says where its malloc is", program->path);
	else
		reason_set(why, 0, "no file that it maps defines an allocator function by a known name");
	return true;
}

static bool is_program_32_bit(const struct diagnosed_process *process, struct reason *why)
{
	const struct diagnosed_file *program = program_of(process);

	if (!program || !program->is_32_bit)
		return false;
	reason_set(why, 0, "%s is 32-bit: its calls pass arguments in another way, and its files are not read", program->path);
	return true;
}

static bool has_failed(const struct diagnosed_process *process, struct reason *why)
{
	reason_set(why, 0, "%zu found that cannot be probed (functions_unprobed)", process->failed_nr);
	return process->failed_nr;
}

static bool is_copied(const struct diagnosed_file *file)
{
	return file->is_copied;
}

static bool has_copied(const struct diagnosed_process *process, struct reason *why)
{
	return name_files(process, is_copied, why,
			  "may be copied to other memory while it runs; a breakpoint there would end the process, so no probe is placed");
}

static bool is_unread(const struct diagnosed_file *file)
{
	return file->unreadable && !file->is_32_bit && !is_kernels(file);
}

static bool has_unread(const struct diagnosed_process *process, struct reason *why)
{
	return name_files(process, is_unread, why, "could not be read: neither probes nor names");
}

/* ---- runtimes ---- */

static bool has_trait(const struct diagnosed_process *process, enum object_trait trait)
{
	return process->traits >> trait & 1;
}

/* Without C code its runtime makes system calls itself, so that there is no function to probe. */
static bool has_heap_GO(const struct diagnosed_process *process, struct reason *why)
{
	if (process->go.why_not)
		reason_set(why, 0, "%s", process->go.why_not);
	else
		reason_set(why, 0, "Go's runtime gets its memory from the kernel and divides it itself (runtime.mallocgc), and %s",
			   process->probe_nr ? "only what C code in it (cgo) allocates is recorded" : "nothing else in it allocates");
	return has_trait(process, TRAIT_GO) && !(process->go.is_there && !process->go.why_not);
}

static bool is_python(const struct diagnosed_process *process, struct reason *why)
{
	reason_set(
		why, 0,
		"Python places objects of up to 512 bytes in arenas that it gets by mmap; larger objects, and blocks of C libraries, are recorded");
	return has_trait(process, TRAIT_PYTHON) && !process->python_malloc && !process->python.is_used && !process->python.is_refused;
}

/* A recording would refuse the domain python. */
static bool is_refused_python(const struct diagnosed_process *process, struct reason *why)
{
	is_python(process, why);
	return has_trait(process, TRAIT_PYTHON) && !process->python_malloc && process->python.is_refused;
}

static bool has_python_heap(const struct diagnosed_process *process, struct reason *why)
{
	reason_set(why, 0, "only Python objects are recorded; memory that C libraries get from malloc is not");
	return process->python.is_used;
}

/* Defines the check for a runtime that gets its heap by mmap and gives it out itself. */
#define RUNTIME(TRAIT, text) \
	static bool has_heap_##TRAIT(const struct diagnosed_process *process, struct reason *why) \
	{ \
		reason_set(why, 0, "%s", text); \
		return has_trait(process, TRAIT_##TRAIT); \
	}
RUNTIME(V8, "V8 gets its heap by mmap and divides it itself; what C++ code allocates is recorded")
RUNTIME(JVM,
	"the virtual machine gets its heap by mmap and divides it itself; what its C++ code and native libraries allocate is recorded")
RUNTIME(DOTNET,
	"the runtime gets its heap by mmap and divides it itself; what native code allocates is recorded")
RUNTIME(RUBY,
	"Ruby places objects in slots of whole pages; the pages, and data longer than a slot, are recorded")
RUNTIME(PHP, "Zend's memory manager gets chunks of 2 MiB by mmap and divides them itself")
RUNTIME(OCAML, "OCaml places blocks in heap chunks of its own; chunks that come from malloc are recorded")
RUNTIME(HASKELL, "the runtime gets its heap by mmap and divides it itself")
RUNTIME(LUAJIT, "LuaJIT gets its memory by mmap and divides it itself")
RUNTIME(BOEHM_GC, "the collector gets its heap by mmap and divides it itself (GC_malloc)")

/* ---- allocators under other names ---- */

static bool has_own_allocator(const struct diagnosed_file *file)
{
	const uint64_t own = TRAIT_BIT(JEMALLOC) | TRAIT_BIT(TCMALLOC) | TRAIT_BIT(MIMALLOC);

	return file->traits & own && !file->probe_nr;
}

static bool has_more_heaps(const struct diagnosed_file *file)
{
	return file->has_more_heaps;
}

static bool is_renamed(const struct diagnosed_process *process, struct reason *why)
{
	return name_files(process, has_own_allocator, why,
			  "has jemalloc, tcmalloc or mimalloc, but under none of the known function names") ||
	       name_files(process, has_more_heaps, why,
			  "may have more allocators under prefixes of its own than are recorded");
}

static bool has_nameless_heap(const struct diagnosed_file *file)
{
	return file->has_nameless_heap;
}

static bool is_nameless_allocator(const struct diagnosed_process *process, struct reason *why)
{
	return name_files(process, has_nameless_heap, why,
			  "has the texts of jemalloc, tcmalloc or mimalloc, but none of its functions has a name (stripped)");
}

static bool has_new_pool(const struct diagnosed_file *file)
{
	return file->traits & TRAIT_BIT(NEW_POOL);
}

static bool is_new_pool(const struct diagnosed_process *process, struct reason *why)
{
	return name_files(process, has_new_pool, why,
			  "has an operator new of its own that calls no allocator function by name: it may give out memory of its own");
}

static bool has_inlined(const struct diagnosed_process *process, struct reason *why)
{
	const uint64_t known = TRAIT_BIT(JEMALLOC) | TRAIT_BIT(TCMALLOC) | TRAIT_BIT(MIMALLOC);
	const struct diagnosed_file *program = program_of(process);

	if (!program || !program->probe_nr || !(program->traits & known))
		return false;
	reason_set(why, 0, "%s has its allocator linked in; calls that link-time optimization has inlined are not seen",
		   program->path);
	return true;
}

/* ---- always, or nearly ---- */

static bool is_older(const struct diagnosed_process *process, struct reason *why)
{
	char size[UNIT_TEXT_MAX];

	reason_set(why, 0,
		   "its RSS is %s now; the tracebacks of that memory are unknown, and its frees are counted separately",
		   format_size(size, process->rss_bytes, false));
	return process->probe_nr;
}

static bool has_code(const struct diagnosed_process *process, struct reason *why)
{
	char size[UNIT_TEXT_MAX];

	reason_set(
		why, 0,
		"%s of code lie in no file: callers there are guessed by frame pointers (tracebacks_guessed), %s",
		format_size(size, process->code_bytes, false),
		process->has_perf_map	  ? "with the names of the process's perf map" :
		process->is_map_too_large ? "and have no names, as the process's perf map is too large to be read" :
					    "and have no names, as there is no perf map or jitdump");
	return process->code_bytes && !process->python.is_used;
}

static bool has_no_table(const struct diagnosed_file *file)
{
	return file->unwinding == UNWINDING_NONE && !file->unreadable && !is_kernels(file);
}

static bool lacks_tables(const struct diagnosed_process *process, struct reason *why)
{
	return !process->python.is_used && name_files(process, has_no_table, why,
			  "has no call frame information: callers there are guessed by frame pointers");
}

static bool misses_table(const struct diagnosed_file *file)
{
	return file->unwinding == UNWINDING_MISSING && !is_kernels(file);
}

static bool misses_tables(const struct diagnosed_process *process, struct reason *why)
{
	return !process->python.is_used && name_files(process, misses_table, why,
			  "has call frame information that could not be made into a table: tracebacks end there");
}

enum diagnosed_names diagnosed_names(const struct diagnosed_file *file)
{
	if (file->has_debug_file || file->traits & (TRAIT_BIT(DEBUG_INFO) | TRAIT_BIT(GO)))
		return DIAGNOSED_LINES;
	if (!file->has_traits)
		return DIAGNOSED_UNKNOWN;
	return file->traits & TRAITS_OF_NAMES ? DIAGNOSED_FUNCTIONS : DIAGNOSED_EXPORTED;
}

static bool is_stripped(const struct diagnosed_file *file)
{
	return diagnosed_names(file) == DIAGNOSED_EXPORTED;
}

static bool lacks_names(const struct diagnosed_process *process, struct reason *why)
{
	return process->probe_nr && !process->python.is_used && name_files(process, is_stripped, why,
			  "stripped, without a debug file: frames there are an exported function or an offset, without lines");
}

static bool has_children(const struct diagnosed_process *process, struct reason *why)
{
	reason_set(why, 0, "it has %" PRIu64 " child processes, and each is recorded separately",
		   process->child_nr);
	return process->child_nr && process->probe_nr;
}

static bool maps_memory(const struct diagnosed_process *process, struct reason *why)
{
	reason_set(why, 0, "probes sit on allocator functions only");
	return process->probe_nr;
}

static bool has_loader(const struct diagnosed_process *process, struct reason *why)
{
	reason_set(why, 0, "ld.so has a small allocator of its own, without a symbol");
	return process->probe_nr && process->linking && !strcmp(process->linking, "dynamic");
}

/* ---- all ---- */

#define HEAP_ROW(NAME, word, what, tool) { word, what, tool, has_heap_##NAME, true },

static const struct {
	const char *name, *what, *todo;
	bool (*applies)(const struct diagnosed_process *process, struct reason *why);
	bool is_grave; /* likely the data that the user wants */
	bool is_common; /* true of nearly every process */
} rows[] = {
	{ "no-allocator", "its heap", "a build with its symbol table (not stripped), or one that is linked dynamically; --domain pages shows which code made its RSS",
	  no_allocator, true },
	{ "32-bit", "a 32-bit program", "a 64-bit build of it", is_program_32_bit, true },
	{ "functions-unprobed", "some of its allocator functions", NULL, has_failed, true },
	{ "copied-code", "allocators in code that is copied while it runs",
	  "a build that has the allocator as a library: probes in that stay", has_copied, true },
	{ "files-unreadable", "files that it maps", "run as root, on the host; see the reason at the file", has_unread,
	  true },
	RUNTIME_HEAPS(HEAP_ROW)
	{ "python-objects", "Python's small objects",
	  "--domain python records every object, with Python's lines; --domain malloc,mmap its arenas: a sample of one block for each MiB that they grow",
	  is_python, true },
	{ "python-objects", "Python's small objects",
	  "--domain malloc,mmap records its arenas: a sample of one block for each MiB that they grow; each object: start it with PYTHONMALLOC=malloc",
	  is_refused_python, true },
	{ "python-heap", "memory that Python has not asked for", "--domain malloc records the heap instead, which costs less",
	  has_python_heap },
	{ "renamed-allocator", "an allocator under other names",
	  "name its functions: --probe 'name=NAME,object=FILE,alloc=X_malloc(size=1),realloc=X_realloc(ptr=1,size=2),free=X_free(ptr=1)'",
	  is_renamed, true },
	{ "nameless-allocator", "an allocator that is linked in without names",
	  "a build of the file that is not stripped: its functions are found under any prefix; or name the exported functions that give out its memory: --probe 'name=NAME,object=FILE,alloc=FUNCTION(size=1),free=FUNCTION(ptr=1)'",
	  is_nameless_allocator, true },
	{ "own-operator-new", "what its operator new gives out",
	  "--probe 'name=new,object=exe,alloc=_Znwm(size=1),alloc=_Znam(size=1),free=_ZdlPv(ptr=1),free=_ZdaPv(ptr=1),free=_ZdlPvm(ptr=1),free=_ZdaPvm(ptr=1)', for a library with its name in place of exe; inlined calls of operator delete are not seen",
	  is_new_pool, true },
	{ "inlined-calls", "inlined allocator calls, if there are any",
	  "build without -flto, or compare with the allocator's own statistics", has_inlined },
	{ "older-memory", "memory from before the recording", "attach earlier, or start it with: allocsnap run -- CMD",
	  is_older, .is_common = true },
	{ "tables-missing", "callers through some files", NULL, misses_tables },
	{ "no-tables", "exact callers through some files",
	  "build with -fasynchronous-unwind-tables, or with frame pointers", lacks_tables },
	{ "code-at-run-time", "callers in code made at run time", "let the runtime keep frame pointers, where it can, and write a perf map: node --perf-basic-prof --interpreted-frames-native-stack, python -X perf, an agent of Java",
	  has_code },
	{ "no-names", "names in some files", "install their debug files (Debian: packages -dbgsym, -dbg)",
	  lacks_names },
	{ "children", "the processes that it starts", "allocsnap attach --children; with --follow-forks also those that come later", has_children },
	{ "mappings", "memory that it maps itself (mmap, brk)", "--domain malloc,mmap; a pool of its own: --probe",
	  maps_memory, .is_common = true },
	{ "loader", "what the dynamic loader allocates for itself", NULL, has_loader, .is_common = true },
};

int diagnose_unseen(struct diagnosed_process *process)
{
	int err = 0;

	for (size_t i = 0; i < ARRAY_SIZE(rows) && !err; i++) {
		struct unseen unseen = {
			.name = rows[i].name, .what = rows[i].what, .todo = rows[i].todo,
			.is_grave = rows[i].is_grave, .is_common = rows[i].is_common,
		};

		if (rows[i].applies(process, &unseen.why))
			err = array_push(process, unseen, unseen);
	}
	return err;
}
