/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef FAKE_BPF_CORE_READ_H
#define FAKE_BPF_CORE_READ_H

/* BPF_CORE_READ(a, b, c) is a->b->c, and as in the kernel 0 where a pointer on the way is NULL. */
#define FAKE_CORE_2(src, field) \
	({ \
		__auto_type core_src_ = (src); \
		typeof((void)0, core_src_->field) core_value_; /* without its qualifiers */ \
		__builtin_memset(&core_value_, 0, sizeof(core_value_)); \
		if (core_src_) \
			core_value_ = core_src_->field; \
		core_value_; \
	})
#define FAKE_CORE_3(src, a, b) FAKE_CORE_2(FAKE_CORE_2(src, a), b)
#define FAKE_CORE_4(src, a, b, c) FAKE_CORE_2(FAKE_CORE_3(src, a, b), c)
#define FAKE_CORE_5(src, a, b, c, d) FAKE_CORE_2(FAKE_CORE_4(src, a, b, c), d)
#define FAKE_CORE_6(src, a, b, c, d, e) FAKE_CORE_2(FAKE_CORE_5(src, a, b, c, d), e)
#define FAKE_CORE_PICK(_1, _2, _3, _4, _5, _6, N, ...) N
#define BPF_CORE_READ(...) \
	FAKE_CORE_PICK(__VA_ARGS__, FAKE_CORE_6, FAKE_CORE_5, FAKE_CORE_4, FAKE_CORE_3, FAKE_CORE_2)(__VA_ARGS__)

/* An expression, or a type and a field: unless the test says otherwise, this kernel is a new one, which has it. */
#define bpf_core_field_exists(...) (!fake_lacks_fields)
extern bool fake_lacks_fields;
#define bpf_core_field_offset(type, field) __builtin_offsetof(type, field)

/* And all values of enums. */
#define bpf_core_enum_value_exists(type, value) 1
#define bpf_core_enum_value(type, value) (value)
#define bpf_core_read(to, bytes, from) \
	({ \
		const void *core_from_ = (from); \
		if (core_from_) \
			__builtin_memcpy((to), core_from_, (bytes)); \
	})

#endif
