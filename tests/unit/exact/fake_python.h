/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TESTS_UNIT_FAKE_PYTHON_H
#define TESTS_UNIT_FAKE_PYTHON_H

/*
 * A CPython for the hooks: memory as struct python_offsets says, of one version; threads with chains of frames; generators;
 * code objects, which are blocks of its object domain, and whose addresses soon have others. The memory of frames that have
 * ended cannot be read. All blocks are in a ledger, with the traceback that they must have.
 *
 * Functions are called by the holder of the GIL, but for the raw domain's.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "books_fixture.h"

#define FAKE_DEPTH 64
#define FAKE_CHAINS 3
#define FAKE_GENERATORS 8
#define FAKE_CONTENTS 24
#define FAKE_CODES 12
#define FAKE_BLOCKS 256

struct fake_row {
	uint64_t address, size, hash; /* hash: of its frames */
	uint32_t frame_nr, tid;
};

struct fake_code {
	uint64_t at; /* 0: it is not there */
	int content, refs;
	struct fake_row row;
};

struct fake_frame {
	uint64_t at;
	struct fake_code *code; /* NULL: no Python code runs in it (a shim) */
	int unit;
	bool is_generator;
	int generator; /* its number */
};

/* Frames of a thread or of a greenlet. */
struct fake_chain {
	struct fake_frame frame[FAKE_DEPTH]; /* the outermost first */
	int nr;
	uint64_t cframe[4];
};

struct fake_thread {
	uint64_t state[64];
	struct fake_chain chain[FAKE_CHAINS];
	int current;
	struct fake_frame generator[FAKE_GENERATORS]; /* at 0: not there. A generator that runs is in a chain, too */
	bool is_running[FAKE_GENERATORS];
	struct fake_row block[FAKE_BLOCKS]; /* address 0: none */
	bool is_raw[FAKE_BLOCKS], is_object[FAKE_BLOCKS];
	uint64_t random;
	uint64_t twice_nr; /* frees that the hooks see twice */
};

struct fake_python {
	unsigned char minor;
	struct fake_code code[FAKE_CODES];
	struct fake_thread *thread;
	int thread_nr;
	pthread_mutex_t gil;
	bool has_seen; /* the ledgers were compared before */
};

/* The hooks write these books from here on. */
void fake_python_begin(struct fake_python *python, unsigned char minor, struct fake_thread *threads, int thread_nr, uint64_t seed,
		       struct made_books *made);
void fake_python_end(struct fake_python *python);

/* The calling thread is this one from here on. NULL: it is none of Python's. */
void be_fake_thread(struct fake_thread *thread);

/*
 * Its key of thread states, and the calling thread's sequence number of it; ending: the state that ends the interpreter, or 0.
 */
void fake_key(bool is_made, uint64_t own_sequence, uint64_t ending);

uint32_t fake_random(struct fake_thread *thread, uint32_t most);

/* Changes frames or codes, or allocates, reallocates, frees a block. */
void fake_step(struct fake_python *python, struct fake_thread *thread);

/* The same of the raw domain alone, without the GIL. */
void fake_raw_step(struct fake_thread *thread);

/* A block of the raw domain, which is in no thread's ledger. */
void fake_raw_block(struct fake_thread *thread, struct fake_row *ret);

/* The block is in this thread's ledger from here on; frees the row. */
void fake_adopt_row(struct fake_thread *thread, struct fake_row *row);

/* An object begins in a block of at least FAKE_OBJECT_BYTES; of one of four types. */
#define FAKE_OBJECT_BYTES 48
void fake_object(uint64_t block, int type);

/* Compares the books with all ledgers, while no thread runs. */
void check_ledgers(struct fake_python *python, struct made_books *made, const char *what);

#endif
