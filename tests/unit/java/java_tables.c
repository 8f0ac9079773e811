// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The places in the tables of a virtual machine, as the headers of a JDK have them. */
#include <criterion/criterion.h>

#if __has_include(<jvmti.h>)
#include <jvmti.h>
#include <stddef.h>
#include <string.h>

#include "java/jvm_tables.h"

#define PLACE(type, member) (offsetof(struct type, member) / sizeof(void *))
#define JNI(member) PLACE(JNINativeInterface_, member)
#define JVMTI(member) PLACE(jvmtiInterface_1_, member)

Test(java_tables, places_are_those_of_the_headers)
{
	const size_t places[][2] = {
		{ JNI_FIND_CLASS, JNI(FindClass) }, { JNI_EXCEPTION_CLEAR, JNI(ExceptionClear) },
		{ JNI_NEW_GLOBAL_REF, JNI(NewGlobalRef) }, { JNI_DELETE_GLOBAL_REF, JNI(DeleteGlobalRef) },
		{ JNI_DELETE_LOCAL_REF, JNI(DeleteLocalRef) }, { JNI_IS_SAME_OBJECT, JNI(IsSameObject) },
		{ JNI_NEW_OBJECT_A, JNI(NewObjectA) }, { JNI_GET_METHOD_ID, JNI(GetMethodID) },
		{ JNI_NEW_STRING_UTF, JNI(NewStringUTF) }, { JNI_NEW_WEAK_GLOBAL_REF, JNI(NewWeakGlobalRef) },
		{ JNI_DELETE_WEAK_GLOBAL_REF, JNI(DeleteWeakGlobalRef) }, { JVM_GET_ENV, PLACE(JNIInvokeInterface_, GetEnv) },
		{ JVMTI_SET_EVENT_NOTIFICATION_MODE, JVMTI(SetEventNotificationMode) },
		{ JVMTI_RUN_AGENT_THREAD, JVMTI(RunAgentThread) }, { JVMTI_DEALLOCATE, JVMTI(Deallocate) },
		{ JVMTI_GET_CLASS_SIGNATURE, JVMTI(GetClassSignature) }, { JVMTI_GET_SOURCE_FILE_NAME, JVMTI(GetSourceFileName) },
		{ JVMTI_GET_CLASS_LOADER, JVMTI(GetClassLoader) }, { JVMTI_GET_METHOD_NAME, JVMTI(GetMethodName) },
		{ JVMTI_GET_METHOD_DECLARING_CLASS, JVMTI(GetMethodDeclaringClass) },
		{ JVMTI_GET_LINE_NUMBER_TABLE, JVMTI(GetLineNumberTable) }, { JVMTI_GET_STACK_TRACE, JVMTI(GetStackTrace) },
		{ JVMTI_SET_EVENT_CALLBACKS, JVMTI(SetEventCallbacks) }, { JVMTI_DISPOSE_ENVIRONMENT, JVMTI(DisposeEnvironment) },
		{ JVMTI_ADD_CAPABILITIES, JVMTI(AddCapabilities) },
		{ JVMTI_SET_HEAP_SAMPLING_INTERVAL, JVMTI(SetHeapSamplingInterval) },
		{ JVMTI_ON_COLLECTED, offsetof(jvmtiEventCallbacks, GarbageCollectionFinish) / sizeof(void *) },
		{ JVMTI_ON_SAMPLED, offsetof(jvmtiEventCallbacks, SampledObjectAlloc) / sizeof(void *) },
		{ JVMTI_EVENT_COLLECTED, JVMTI_EVENT_GARBAGE_COLLECTION_FINISH }, { JVMTI_EVENT_SAMPLED, JVMTI_EVENT_SAMPLED_OBJECT_ALLOC },
		{ JVMTI_VERSION_WANTED, JVMTI_VERSION_11 }, { JNI_VERSION_WANTED, JNI_VERSION_1_8 },
		{ JVMTI_NOT_AVAILABLE, JVMTI_ERROR_NOT_AVAILABLE }, { sizeof(jvmtiFrameInfo), sizeof(struct jvmti_frame) },
		{ sizeof(jvmtiLineNumberEntry), sizeof(struct jvmti_line) }, { sizeof(jvalue), sizeof(union jni_value) },
	};

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		cr_assert_eq(places[i][0], places[i][1], "row %zu", i);
}

Test(java_tables, capabilities_are_those_of_the_headers)
{
	const jvmtiCapabilities wanted = {
		.can_get_source_file_name = 1, .can_get_line_numbers = 1, .can_generate_garbage_collection_events = 1,
		.can_generate_sampled_object_alloc_events = 1,
	};
	const int bit[] = { JVMTI_CAN_GET_SOURCE_FILES, JVMTI_CAN_GET_LINES, JVMTI_CAN_SEE_COLLECTIONS, JVMTI_CAN_SAMPLE };
	unsigned char own[16] = {};

	for (size_t i = 0; i < sizeof(bit) / sizeof(bit[0]); i++)
		own[bit[i] / 8] |= 1 << bit[i] % 8;
	cr_assert_eq(sizeof(own), sizeof(wanted));
	cr_assert_eq(memcmp(own, &wanted, sizeof(own)), 0);
}
#else
#include "skip.h"

Test(java_tables, places_are_those_of_the_headers)
{
	skip_because("no JDK with headers (default-jdk-headless) is installed");
}
#endif
