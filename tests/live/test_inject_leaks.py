# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A leak in a service in C++ and in redis, found by `leaks PID` from samples: of the process's own sampler, of a preloaded
and of an injected one.
"""
import concurrent.futures
import os
import pathlib
import re

from harness import ALLOCSNAP, NO_LINKS, check, check_equal, tool
from load import Redis
from test_inject import has_sampler
from test_leaks import RedisLoad
import truth

SHOP = pathlib.Path(__file__).parent.parent / "answers/planted/shopcache.cc"
OWN_OPERATORS = """
#include <cstdlib>
#include <new>
extern "C" void *sampled_malloc(size_t size);
extern "C" void sampled_free(void *block);
void *operator new(size_t size) { return sampled_malloc(size); }
void operator delete(void *block) noexcept { sampled_free(block); }
void operator delete(void *block, size_t) noexcept { sampled_free(block); }
"""
OWN_SAMPLER = """
#include "own_sampler.h"
void *sampled_malloc(size_t size) { return own_malloc(size); }
void sampled_free(void *block) { own_free(block); }
"""

# Any program's malloc with a sampler, as a library before the allocator.
OWN_MALLOC = """
#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
static void *(*next_malloc)(size_t);
static void (*next_free)(void *);
static char early[1 << 16]; /* for dlsym() */
static size_t early_bytes;
static int is_looking;
static void *call_malloc(size_t size)
{
	if (is_looking) {
		early_bytes += (size + 15) & ~15ul;
		return early + early_bytes - ((size + 15) & ~15ul);
	}
	if (!next_malloc) {
		is_looking = 1;
		next_malloc = dlsym(RTLD_NEXT, "malloc");
		next_free = dlsym(RTLD_NEXT, "free");
		is_looking = 0;
	}
	return next_malloc(size);
}
static void call_free(void *block)
{
	if ((char *)block < early || (char *)block >= early + sizeof(early))
		next_free(block);
}
#define malloc call_malloc
#define free call_free
#include "own_sampler.h"
#undef malloc
#undef free
__attribute__((constructor)) static void begin(void) { own_interval = 256; }
void *malloc(size_t size) { return own_malloc(size); }
void free(void *block) { if (block) own_free(block); }
void *calloc(size_t nr, size_t size)
{
	void *block = size && nr > (size_t)-1 / size ? NULL : own_malloc(nr * size);
	return block ? memset(block, 0, nr * size) : NULL;
}
void *realloc(void *old, size_t size)
{
	void *block = own_malloc(size);
	if (old && block) {
		size_t before = malloc_usable_size(old);
		memcpy(block, old, before < size ? before : size);
		own_free(old);
	}
	return block;
}
"""
HEADERS = pathlib.Path(__file__).parent.parent / "workloads"


def build_shop(bench):
    """The service as it is, and with a sampler of its own below its operators."""
    plain, own = bench.path("shopcache"), bench.path("shopcache-own")
    flags = ["-O2", "-g", "-pthread", "-fno-optimize-sibling-calls"]  # operator new stays in the tracebacks
    for name, text in (("operators.cc", OWN_OPERATORS), ("sampler.c", OWN_SAMPLER)):
        pathlib.Path(bench.path(name)).write_text(text, encoding="ascii")
    bench.run([tool("gcc"), *flags, f"-I{HEADERS}", "-c", bench.path("sampler.c"), "-o", bench.path("sampler.o")])
    bench.run([tool("g++"), *flags, "-std=c++17", str(SHOP), "-o", plain], seconds=90)
    bench.run([tool("g++"), *flags, "-std=c++17", str(SHOP), bench.path("operators.cc"), bench.path("sampler.o"),
               "-o", own], seconds=90)
    return plain, own


def check_first_leak(bench, pid, row, way, *options, seconds=10):
    """The first row of the answer; how the samples came is said above it."""
    answer = bench.run([ALLOCSNAP, "leaks", str(pid), "--for", f"{seconds}s", *options], seconds=60)[0]
    first = next((line for line in answer.splitlines() if line.startswith(("LEAKS", "MAY LEAK"))), "")
    check(re.match(f"LEAKS .* {row}", first), f"{way}: first row {first!r}")
    check(f"by {way} sampler" in answer.splitlines()[0], f"{way}: {answer.splitlines()[0]!r}")


def preloaded(interval="4K"):
    return os.environ | {"LD_PRELOAD": truth.LIBRARY, "ALLOCSNAP_SAMPLE": interval}


LOGINS = "100"  # a second, of each thread
PLANTED = r"shop::SessionStore::\w+ at \S*shopcache\.cc:\d+"


def test_inject_and_other_ways_find_a_leak_in_a_service(bench):
    """leaks PID: by the process's own sampler, a preloaded one, and an injected one; at the same time."""
    plain, own = build_shop(bench)
    ways = [(bench.start([own, LOGINS]), "the process's own"),
            (bench.start([plain, LOGINS], env=preloaded()), "a preloaded")]
    if not NO_LINKS:
        ways.append((bench.start([plain, LOGINS]), "an injected", "--inject=4K"))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        answers = [pool.submit(check_first_leak, bench, shop.pid, PLANTED, *way) for shop, *way in ways]
    for answer in answers:
        answer.result()
    for shop, way, *_ in ways:
        check(shop.popen.poll() is None, f"{way}: the service has ended")
    check(NO_LINKS or not has_sampler(ways[-1][0].pid), "the sampler has stayed")


def check_redis_leak(bench, redis, way, *options):
    with RedisLoad(redis, leaks=True):
        check_first_leak(bench, redis.pid, r".*\b(saddCommand|setTypeAdd)", way, *options, seconds=20)
    check_equal(redis.command(b"PING"), b"PONG", f"redis, {way}")


def own_malloc(bench):
    """A library that samples for any program."""
    source, library = bench.path("own_malloc.c"), bench.path("own_malloc.so")
    pathlib.Path(source).write_text(OWN_MALLOC, encoding="ascii")
    bench.run([tool("gcc"), "-O2", "-g", "-D_GNU_SOURCE", "-fno-builtin", "-ftls-model=initial-exec", "-shared", "-fPIC",
               f"-I{HEADERS}", source, "-o", library])
    return library


def test_inject_and_other_ways_find_a_leak_in_redis(bench):
    """Debian's redis has no sampler of its own: one comes with a malloc before jemalloc's."""
    redis = Redis.start_on(bench, os.environ | {"LD_PRELOAD": own_malloc(bench)})
    check_redis_leak(bench, redis, "the process's own")
    redis.kill()
    redis = Redis.start_on(bench, preloaded("256"))
    check_redis_leak(bench, redis, "a preloaded")
    redis.kill()
    if not NO_LINKS:
        redis = Redis.start_on(bench)
        check_redis_leak(bench, redis, "an injected", "--inject=256")
        check(not has_sampler(redis.pid), "the sampler has stayed")
