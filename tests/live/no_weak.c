// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* An agent of a Java virtual machine in which every second weak reference fails, as without memory: NULL, and an exception. */
#include <jvmti.h>

static jweak (*made)(JNIEnv *env, jobject object);
static int nr;

static jweak make_or_fail(JNIEnv *env, jobject object)
{
	if (__atomic_fetch_add(&nr, 1, __ATOMIC_RELAXED) % 2)
		return made(env, object);
	(*env)->ThrowNew(env, (*env)->FindClass(env, "java/lang/OutOfMemoryError"), "no weak reference");
	return NULL;
}

static void JNICALL on_begin(jvmtiEnv *jvmti, JNIEnv *env, jthread thread)
{
	jniNativeInterface *table;

	(void)env, (void)thread;
	if ((*jvmti)->GetJNIFunctionTable(jvmti, &table))
		return;
	made = table->NewWeakGlobalRef;
	table->NewWeakGlobalRef = make_or_fail;
	(*jvmti)->SetJNIFunctionTable(jvmti, table);
}

JNIEXPORT jint JNICALL Agent_OnLoad(JavaVM *vm, char *options, void *reserved)
{
	jvmtiEventCallbacks callbacks = { .VMInit = on_begin };
	jvmtiEnv *jvmti;

	(void)options, (void)reserved;
	return (*vm)->GetEnv(vm, (void **)&jvmti, JVMTI_VERSION_1_2) || (*jvmti)->SetEventCallbacks(jvmti, &callbacks, sizeof(callbacks)) ||
	       (*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE, JVMTI_EVENT_VM_INIT, NULL);
}
