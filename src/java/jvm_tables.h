/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_JAVA_JVM_TABLES_H
#define ALLOCSNAP_JAVA_JVM_TABLES_H

/*
 * The functions of a Java virtual machine that the agent calls, by their place in its tables. The places are part of both
 * specifications, and stay: "JNI Functions", chapter 4 of the Java Native Interface Specification, and "Functions" of the JVM Tool
 * Interface, version 11, which counts from 1. tests/unit/java/java_tables.c compares them with the headers of a JDK.
 */

#include <stdint.h>

typedef const void *const *jvm_table; /* what a JNIEnv, a JavaVM or a jvmtiEnv begins with: its functions */

enum jni_place {
	JNI_FIND_CLASS = 6,
	JNI_EXCEPTION_CLEAR = 17,
	JNI_NEW_GLOBAL_REF = 21,
	JNI_DELETE_GLOBAL_REF = 22,
	JNI_DELETE_LOCAL_REF = 23,
	JNI_IS_SAME_OBJECT = 24,
	JNI_NEW_OBJECT_A = 30,
	JNI_GET_METHOD_ID = 33,
	JNI_NEW_STRING_UTF = 167,
	JNI_NEW_WEAK_GLOBAL_REF = 226,
	JNI_DELETE_WEAK_GLOBAL_REF = 227,
};

enum jvm_place {
	JVM_GET_ENV = 6,
};

/* From 0 on. */
enum jvmti_place {
	JVMTI_SET_EVENT_NOTIFICATION_MODE = 1,
	JVMTI_RUN_AGENT_THREAD = 11,
	JVMTI_DEALLOCATE = 46,
	JVMTI_GET_CLASS_SIGNATURE = 47,
	JVMTI_GET_SOURCE_FILE_NAME = 49,
	JVMTI_GET_CLASS_LOADER = 56,
	JVMTI_GET_METHOD_NAME = 63,
	JVMTI_GET_METHOD_DECLARING_CLASS = 64,
	JVMTI_GET_LINE_NUMBER_TABLE = 69,
	JVMTI_GET_STACK_TRACE = 103,
	JVMTI_SET_EVENT_CALLBACKS = 121,
	JVMTI_DISPOSE_ENVIRONMENT = 126,
	JVMTI_ADD_CAPABILITIES = 141,
	JVMTI_SET_HEAP_SAMPLING_INTERVAL = 155,
};

/* Places in the table of callbacks, and numbers of their events. */
enum jvmti_callback {
	JVMTI_ON_COLLECTED = 32,
	JVMTI_ON_SAMPLED = 36,
	JVMTI_CALLBACKS, /* up to the last one that is used */
	JVMTI_EVENT_COLLECTED = 82,
	JVMTI_EVENT_SAMPLED = 86,
};

/* Bits of struct jvmtiCapabilities, which has 128. */
enum jvmti_capability {
	JVMTI_CAN_GET_SOURCE_FILES = 11,
	JVMTI_CAN_GET_LINES = 12,
	JVMTI_CAN_SEE_COLLECTIONS = 31,
	JVMTI_CAN_SAMPLE = 43,
};

#define JNI_VERSION_WANTED 0x00010008
#define JVMTI_VERSION_WANTED 0x300b0000 /* 11 */
#define JVMTI_NOT_AVAILABLE 98

struct jvmti_frame {
	void *method;
	int64_t location;
};

struct jvmti_line {
	int64_t start;
	int32_t line;
};

union jni_value {
	void *object;
	int64_t number;
};

/* Calls a function of the table that an environment begins with; *_TYPE is its type without the environment. */
#define JVM_CALL(env, place, result, types, ...) \
	(((result (*) types)(*(const jvm_table *)(env))[place])((env), __VA_ARGS__))

#endif
