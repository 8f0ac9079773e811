/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_JAVA_SAMPLES_H
#define ALLOCSNAP_JAVA_SAMPLES_H

/*
 * The memory file in which the agent (agent.c) writes its samples, and the recorder reads them (samples_reader.h):
 *
 *	java_head │ java_orders │ slots: live samples │ nodes: a tree of stacks │ frames │ texts
 *
 * The agent only adds nodes, frames and texts. A slot changes: its sequence is odd meanwhile. Only the orders are the
 * recorder's. Everything has its place and its room, so the file is as large as it can become: what is not used takes no memory.
 */

#include <stdint.h>

#define JAVA_SAMPLES_MAGIC UINT64_C(0x31534c504d53564a)
#define JAVA_SAMPLES_VERSION 1
#define JAVA_SAMPLES_NAME "allocsnap-java-" /* of the file; a token follows */
#define JAVA_TOKEN_BYTES 16

#define JAVA_SLOTS 65536
#define JAVA_NODES 131072
#define JAVA_FRAMES 65536
#define JAVA_TEXT_BYTES (4u << 20)
#define JAVA_STACK_MAX 64 /* frames */

enum java_state {
	JAVA_OFF = 0,
	JAVA_ON,
};

/* A child of the virtual machine's fork has this memory, too, but not the agent's thread. */
struct java_head {
	uint64_t magic;
	uint32_t version, state;
	uint64_t interval; /* mean distance of samples in bytes */
	uint64_t begun_ns; /* CLOCK_MONOTONIC of the process */
	uint64_t gc_nr;	   /* collections since it began, */
	uint64_t looks;	   /* how often the agent has looked whether there was a collection, and swept then */
	uint64_t sweeps;   /* odd: the agent is looking which objects live */
	uint64_t swept_nr; /* of these, the last one after which the agent has looked which objects live */
	uint64_t whole_nr;  /* collections of the whole heap, and of what was born before this time: it lives if it is still there */
	uint64_t judged_ns;
	uint64_t taken, died; /* samples */
	uint64_t cost_ns;     /* CPU time that the agent has taken, in threads of the program and in its own */
	uint64_t slots_lost, nodes_lost, frames_lost; /* for lack of room: samples, stacks, frames */
	uint32_t slot_nr, node_nr, frame_nr, text_bytes; /* used so far */
};

/* The lease is another number now and then, as long as the recorder lives. */
struct java_orders {
	uint64_t lease;
	uint32_t stops;
};

#define JAVA_LEASE_SECONDS 30 /* without a new lease the agent ends its work */

/* survived: collections, young ones too. An object that none of the whole heap has judged may be garbage. */
struct java_slot {
	uint32_t sequence;
	uint32_t node; /* 0: none is in use */
	uint64_t size, birth_ns;
	uint32_t tid, survived;
};

/*
 * Sums of the objects of a stack that a collection has judged: those that have died, and those that have
 * survived one. count: of java_sample_count().
 */
struct java_node {
	uint32_t parent, frame;
	uint64_t count, bytes;
};

/* The roots have no frame: the tree's, the one of stacks whose oldest frames are missing, and the one of stacks without room. */
#define JAVA_NODE_ROOT 1
#define JAVA_NODE_DEEP 2
#define JAVA_NODE_LOST 3
#define JAVA_NODE_FIRST 4

/* Places of texts; 0: no text. A type has a class only: the innermost frame of each stack is the class of its object. */
struct java_frame {
	uint32_t class, method, file;
	int32_t line; /* -1: not known */
	uint32_t is_type, is_platform; /* is_platform: of Java itself, by its class loader */
};

#define JAVA_FRAME_LOST 0
#define JAVA_FRAME_FIRST 1
#define JAVA_TEXT_FIRST 8
#define JAVA_TEXT_MOST 1000 /* bytes of one; a uint16_t with their number comes first */

#define JAVA_ORDERS_AT 4096
#define JAVA_SLOTS_AT 8192
#define JAVA_NODES_AT (JAVA_SLOTS_AT + JAVA_SLOTS * sizeof(struct java_slot))
#define JAVA_FRAMES_AT (JAVA_NODES_AT + JAVA_NODES * sizeof(struct java_node))
#define JAVA_TEXTS_AT (JAVA_FRAMES_AT + JAVA_FRAMES * sizeof(struct java_frame))
#define JAVA_FILE_BYTES (JAVA_TEXTS_AT + JAVA_TEXT_BYTES)

/* Agent_OnAttach() returns one of these. */
enum java_agent_error {
	JAVA_AGENT_WORKS = 0,
	JAVA_AGENT_BUSY,      /* it samples for another recording */
	JAVA_AGENT_TAKEN,     /* another agent samples allocations */
	JAVA_AGENT_NO_MEMORY, /* no memory file, or none of that size */
	JAVA_AGENT_FAILED,    /* the virtual machine has refused a call */
};

/* Bytes that a sample stands for: size / (1 - exp(-size / interval)). The agent has no C library. */
static inline uint64_t java_sample_bytes(uint64_t size, uint64_t interval)
{
	double x = (double)size / (double)interval, part = 0, term;
	int halvings = 0;

	if (x > 40)
		return size;
	for (; x > 0.5; x /= 2)
		halvings++;
	term = x;
	for (int i = 2; i < 14; i++) {
		part += term;
		term *= -x / i;
	}
	while (halvings--)
		part *= 2 - part;
	return part > 0 ? (uint64_t)((double)size / part + 0.5) : size;
}

/* Objects that a sample stands for, in parts of JAVA_COUNT_PARTS. */
#define JAVA_COUNT_PARTS 1024

static inline uint64_t java_sample_count(uint64_t size, uint64_t bytes)
{
	return size ? (bytes * JAVA_COUNT_PARTS + size / 2) / size : 0;
}

#endif
