/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_JAVA_JVM_H
#define ALLOCSNAP_JAVA_JVM_H

/*
 * A Java virtual machine describes itself, and is read from outside: nothing in the process is changed, and no signal is sent. HotSpot describes its own structures for debuggers (gHotSpotVMStructs, hotspot/share/runtime/vmStructs.cpp): a
 * process without that description is no HotSpot, whatever its files are called.
 *
 * Functions that return int return 0 or a negative errno, with a line in *why. Their lines need no "process N" in front.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct reason;

/* The first Java with sampled allocations for agents (JEP 331). */
#define JAVA_WITH_SAMPLES 11
/* The first one that warns on its standard error when an agent is loaded (JEP 451). */
#define JAVA_WITH_WARNING 21

struct jvm {
	pid_t pid, own_pid; /* own_pid: in its innermost PID namespace */
	uid_t uid;	    /* the effective ones */
	gid_t gid;
	uint32_t version; /* of Java: 17; below 11 it is only known to be so, and 0 */
	bool catches_quit; /* SIGQUIT ends a process that does not catch it */
	pid_t quit_thread; /* takes SIGQUIT, and runs none of the program's code; 0: no thread does */
	bool listens;	   /* a tool has talked to it before, or -Xrs is set: it needs no signal */
	bool is_stopped;
	bool refuses_attach; /* -XX:+DisableAttachMechanism */
	bool refuses_agents; /* -XX:-EnableDynamicAgentLoading */
	bool keeps_young; /* -XX:MaxTenuringThreshold=16: objects do not become old by their age */
};

/* -ENOENT: it has no libjvm.so. -ENOTSUP: it is no HotSpot, or has just begun to load its library; *ret has what the kernel says. */
int jvm_look(pid_t pid, struct jvm *ret, struct reason *why);

/* Sends SIGQUIT, where jvm_check_signal() allows it. -ESRCH: it has ended, or another program has begun in it. */
int jvm_send_quit(const struct jvm *jvm, struct reason *why);

/* Whether the program runs that was looked at. */
bool jvm_is_there(const struct jvm *jvm);

/* Whether it can be asked at all, whether a signal may be sent to it for that, and whether it takes an agent for sampled allocations. 0, or -ENOTSUP. */
int jvm_check_attach(const struct jvm *jvm, struct reason *why);
int jvm_check_signal(const struct jvm *jvm, struct reason *why);
int jvm_check_agent(const struct jvm *jvm, struct reason *why);

#endif
