// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

// C code in a Go program allocates, in the ways in which Go code calls C code and C code calls Go code. The size of its
// blocks says which way it was.
package main

/*
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define NOT_INLINE __attribute__((noinline, optimize("no-optimize-sibling-calls")))

static NOT_INLINE void *keep(int n) { return memset(malloc(n), 1, n); }

extern void goNested(int depth, int n);
static NOT_INLINE void nested(int depth, int n) { goNested(depth, n); }

// The frame is found by the frame pointer only.
static NOT_INLINE void realigned(int depth, int n)
{
	char room[depth + 64];

	memset(room, 0, sizeof(room));
	goNested(depth, n + room[depth]);
}

static void *start(void *n) { nested(0, (int)(long)n); return n; }
static NOT_INLINE void in_thread(long n)
{
	pthread_t thread;

	pthread_create(&thread, NULL, start, (void *)n);
	pthread_join(thread, NULL);
}

extern void goGrow(void);
static NOT_INLINE void *grow_and_keep(int n)
{
	goGrow();
	return keep(n);
}
*/
import "C"
import (
	"os"
	"runtime"
	"unsafe"
)

const times = 20

//go:noinline
func keepString() unsafe.Pointer {
	return unsafe.Pointer(C.CString("a text that nobody frees"))
}

//go:noinline
func keep(n int) {
	C.keep(C.int(n))
}

//export goNested
func goNested(depth, n C.int) {
	switch {
	case depth == 0:
		keep(int(n))
	case depth%2 == 0:
		C.realigned(depth-1, n)
	default:
		grow(100)
		C.nested(depth-1, n)
	}
}

//export goGrow
func goGrow() {
	grow(200)
}

// The stack grows, and so it moves.
//
//go:noinline
func grow(depth int) byte {
	var room [512]byte

	room[depth%7] = byte(depth)
	if depth > 0 {
		room[0] += grow(depth - 1)
	}
	return room[depth%11]
}

//go:noinline
func keepDeep(depth, n int) byte {
	var room [4096]byte

	room[depth%7] = byte(depth)
	if depth > 0 {
		return keepDeep(depth-1, n) + room[depth%11]
	}
	keep(n)
	return room[0]
}

func inGoroutine(work func()) {
	done := make(chan bool)
	go func() {
		for i := 0; i < times; i++ {
			work()
		}
		done <- true
	}()
	<-done
}

func init() {
	keep(1001)
}

func main() {
	for i := 0; i < times; i++ {
		keepString()
	}
	inGoroutine(func() { keep(1002) })
	inGoroutine(func() { keepDeep(20, 1003) })
	inGoroutine(func() { C.nested(0, 1004) })
	inGoroutine(func() { C.nested(3, 1005) })
	inGoroutine(func() { C.in_thread(1006) })
	inGoroutine(func() { C.grow_and_keep(1007) })
	inGoroutine(func() { runtime.LockOSThread(); keep(1008) })
	os.Stdout.WriteString("ready\n")
}
