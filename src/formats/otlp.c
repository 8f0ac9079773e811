// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "formats/otlp.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/idmap.h"
#include "formats/pprof.h"

/* Labels by OpenTelemetry's names (its semantic conventions). Others keep theirs. */
static const struct label_name {
	const char *label, *attribute;
	bool is_number, is_of_blocks;
} label_names[] = {
	{ "comm", "process.executable.name" },
	{ "pid", "process.pid", .is_number = true },
	{ "host", "host.name" },
	{ "container_id", "container.id" },
	{ "domain", "allocsnap.domain", .is_of_blocks = true },
	{ "thread", "thread.id", .is_number = true, .is_of_blocks = true },
};

struct value_type {
	uint64_t type, unit; /* strings */
};

/* An attribute in the dictionary. */
struct attribute {
	uint32_t key, value; /* strings */
	uint32_t is_number;  /* the value is the text of a number */
};

/* Messages of one kind, in the order of the pprof. */
struct message_list {
	struct protobuf_reader *message;
	size_t message_nr, message_alloc;
};

struct otlp_writer {
	/* The pprof. */
	struct message_list sample, mapping, location, function;
	struct value_type *type;
	size_t type_nr, type_alloc;
	struct value_type period_type;
	uint64_t time_ns, duration_ns, period;
	uint32_t *comment;
	size_t comment_nr, comment_alloc;

	/* The dictionary. Strings have the same ids in both. */
	struct strpool strings;
	struct protobuf_reader *stack; /* packed locations; id is index + 1 */
	size_t stack_nr, stack_alloc;
	struct idmap stack_index;
	struct attribute *attribute; /* id is index + 1, or + 2 where comments are the first one */
	size_t attribute_nr, attribute_alloc;
	struct idmap attribute_index;

	struct byte_buffer dictionary, message, part, packed;
};

/* ---- reading a pprof -------------------------------------------------------------------------------- */

static int read_value_type(struct protobuf_reader reader, struct value_type *ret)
{
	struct protobuf_field field;
	int more;

	*ret = (struct value_type){};
	while ((more = protobuf_next(&reader, &field)) > 0) {
		if (field.number == PPROF_TYPE_TYPE)
			ret->type = field.value;
		if (field.number == PPROF_TYPE_UNIT)
			ret->unit = field.value;
	}
	return more;
}

/* A table's messages follow each other by id, from 1 on. */
static int add_message(struct message_list *list, struct protobuf_reader message)
{
	return array_push(list, message, message);
}

static int add_string(struct otlp_writer *writer, struct protobuf_reader text)
{
	uint32_t id, expected = writer->strings.start_nr;

	return strpool_add(&writer->strings, (const char *)text.at, text.end - text.at, &id) ?: (id == expected ? 0 : -EBADMSG);
}

static int read_profile_field(struct otlp_writer *writer, const struct protobuf_field *field)
{
	struct value_type type;

	switch (field->number) {
	case PPROF_SAMPLE_TYPE:
		return read_value_type(field->bytes, &type) ?: array_push(writer, type, type);
	case PPROF_SAMPLE:
		return add_message(&writer->sample, field->bytes);
	case PPROF_MAPPING:
		return add_message(&writer->mapping, field->bytes);
	case PPROF_LOCATION:
		return add_message(&writer->location, field->bytes);
	case PPROF_FUNCTION:
		return add_message(&writer->function, field->bytes);
	case PPROF_STRING_TABLE:
		return add_string(writer, field->bytes);
	case PPROF_PERIOD_TYPE:
		return read_value_type(field->bytes, &writer->period_type);
	case PPROF_COMMENT:
		return array_push(writer, comment, field->value);
	case PPROF_TIME_NANOS:
		writer->time_ns = field->value;
		break;
	case PPROF_DURATION_NANOS:
		writer->duration_ns = field->value;
		break;
	case PPROF_PERIOD:
		writer->period = field->value;
		break;
	}
	return 0;
}

static int read_pprof(struct otlp_writer *writer, const void *bytes, size_t len)
{
	struct protobuf_reader reader = { bytes, (const uint8_t *)bytes + len };
	struct protobuf_field field;
	int more, err = 0;

	while (!err && (more = protobuf_next(&reader, &field)) > 0)
		err = read_profile_field(writer, &field);
	return err ?: more ?: writer->strings.start_nr ? 0 : -EBADMSG;
}

/* The number of a field in a message; 0: it has no such field. */
static uint64_t number_in(struct protobuf_reader message, uint32_t number)
{
	struct protobuf_field field;

	while (protobuf_next(&message, &field) > 0)
		if (field.number == number)
			return field.value;
	return 0;
}

static struct protobuf_reader bytes_in(struct protobuf_reader message, uint32_t number)
{
	struct protobuf_field field;

	while (protobuf_next(&message, &field) > 0)
		if (field.number == number && field.wire == WIRE_BYTES)
			return field.bytes;
	return (struct protobuf_reader){};
}

/* ---- attributes ------------------------------------------------------------------------------------- */

static uint32_t otlp_string(struct otlp_writer *writer, const char *text)
{
	uint32_t id = 0;
	int err = strpool_add(&writer->strings, text, strlen(text), &id);

	writer->dictionary.err = writer->dictionary.err ?: err;
	return id;
}

static const char *string_of(const struct otlp_writer *writer, uint64_t id)
{
	return id < writer->strings.start_nr ? strpool_get(&writer->strings, id) : "";
}

static bool same_attribute(uint32_t id, const void *key, const void *table)
{
	return !memcmp(&((const struct attribute *)table)[id], key, sizeof(struct attribute));
}

static uint32_t attribute_id(struct otlp_writer *writer, const struct attribute *attribute)
{
	uint64_t hash = hash_bytes(attribute, sizeof(*attribute), 0);
	uint32_t id = idmap_find(&writer->attribute_index, hash, same_attribute, attribute, writer->attribute);

	if (id == IDMAP_NONE) {
		id = writer->attribute_nr;
		if (array_push(writer, attribute, *attribute) ?: idmap_add(&writer->attribute_index, hash, id))
			writer->dictionary.err = -ENOMEM;
	}
	return id + 1 + (writer->comment_nr != 0);
}

static const struct label_name *name_of_label(const char *label)
{
	for (size_t i = 0; i < ARRAY_SIZE(label_names); i++)
		if (!strcmp(label_names[i].label, label))
			return &label_names[i];
	return NULL;
}

static void put_any_value(struct byte_buffer *out, const char *text, bool is_number)
{
	if (is_number)
		protobuf_put_number(out, OTLP_VALUE_INT, strtoull(text, NULL, 10));
	else
		protobuf_put_bytes(out, OTLP_VALUE_STRING, text, strlen(text));
}

/* ---- the dictionary --------------------------------------------------------------------------------- */

static void put_mapping(struct otlp_writer *writer, struct protobuf_reader from)
{
	uint64_t build_id = number_in(from, PPROF_MAPPING_BUILD_ID);
	struct byte_buffer *message = &writer->message;

	protobuf_put_number(message, OTLP_MAPPING_FILENAME, number_in(from, PPROF_MAPPING_FILENAME));
	if (build_id) {
		const struct attribute attribute = { otlp_string(writer, "process.executable.build_id.gnu"), build_id };

		protobuf_put_packed(&writer->packed, attribute_id(writer, &attribute));
		protobuf_put_message(message, OTLP_MAPPING_ATTRIBUTES, &writer->packed);
	}
	protobuf_put_message(&writer->dictionary, OTLP_DICTIONARY_MAPPING, message);
}

static void put_location(struct otlp_writer *writer, struct protobuf_reader from)
{
	struct protobuf_reader line = bytes_in(from, PPROF_LOCATION_LINE);
	struct byte_buffer *message = &writer->message;

	protobuf_put_number(message, OTLP_LOCATION_MAPPING, number_in(from, PPROF_LOCATION_MAPPING));
	protobuf_put_number(message, OTLP_LOCATION_ADDRESS, number_in(from, PPROF_LOCATION_ADDRESS));
	protobuf_put_number(&writer->part, PPROF_LINE_FUNCTION, number_in(line, PPROF_LINE_FUNCTION)); /* the same numbers */
	protobuf_put_number(&writer->part, PPROF_LINE_LINE, number_in(line, PPROF_LINE_LINE));
	protobuf_put_message(message, OTLP_LOCATION_LINE, &writer->part);
	protobuf_put_message(&writer->dictionary, OTLP_DICTIONARY_LOCATION, message);
}

static void put_function(struct otlp_writer *writer, struct protobuf_reader from)
{
	protobuf_put_number(&writer->message, OTLP_FUNCTION_NAME, number_in(from, PPROF_FUNCTION_NAME));
	protobuf_put_number(&writer->message, OTLP_FUNCTION_FILENAME, number_in(from, PPROF_FUNCTION_FILENAME));
	protobuf_put_message(&writer->dictionary, OTLP_DICTIONARY_FUNCTION, &writer->message);
}

/* Comments are an attribute of profiles, an array of texts: the first one. */
static void put_comments_attribute(struct otlp_writer *writer)
{
	struct byte_buffer array = {};

	for (size_t i = 0; i < writer->comment_nr; i++) {
		put_any_value(&writer->part, string_of(writer, writer->comment[i]), false);
		protobuf_put_message(&array, 1, &writer->part);
	}
	protobuf_put_message(&writer->part, OTLP_VALUE_ARRAY, &array);
	protobuf_put_number(&writer->message, OTLP_ATTRIBUTE_KEY, otlp_string(writer, "pprof.profile.comment"));
	protobuf_put_message(&writer->message, OTLP_ATTRIBUTE_VALUE, &writer->part);
	protobuf_put_message(&writer->dictionary, OTLP_DICTIONARY_ATTRIBUTE, &writer->message);
	writer->dictionary.err = writer->dictionary.err ?: array.err;
	buffer_release(&array);
}

static void put_attributes(struct otlp_writer *writer)
{
	for (size_t i = 0; i < writer->attribute_nr; i++) {
		const struct attribute *attribute = &writer->attribute[i];

		put_any_value(&writer->part, string_of(writer, attribute->value), attribute->is_number);
		protobuf_put_number(&writer->message, OTLP_ATTRIBUTE_KEY, attribute->key);
		protobuf_put_message(&writer->message, OTLP_ATTRIBUTE_VALUE, &writer->part);
		protobuf_put_message(&writer->dictionary, OTLP_DICTIONARY_ATTRIBUTE, &writer->message);
	}
}

/* Other attributes, stacks and strings come last: the other tables and the samples add some. */
static void put_dictionary_begin(struct otlp_writer *writer)
{
	for (enum otlp_dictionary_field table = OTLP_DICTIONARY_MAPPING; table <= OTLP_DICTIONARY_STACK; table++)
		if (table != OTLP_DICTIONARY_STRING)
			protobuf_put_bytes(&writer->dictionary, table, "", 0);
	if (writer->comment_nr)
		put_comments_attribute(writer);
	for (size_t i = 0; i < writer->mapping.message_nr; i++)
		put_mapping(writer, writer->mapping.message[i]);
	for (size_t i = 0; i < writer->location.message_nr; i++)
		put_location(writer, writer->location.message[i]);
	for (size_t i = 0; i < writer->function.message_nr; i++)
		put_function(writer, writer->function.message[i]);
}

static void put_dictionary_end(struct otlp_writer *writer)
{
	put_attributes(writer);
	for (size_t i = 0; i < writer->stack_nr; i++) {
		protobuf_put_bytes(&writer->message, 1, writer->stack[i].at, writer->stack[i].end - writer->stack[i].at);
		protobuf_put_message(&writer->dictionary, OTLP_DICTIONARY_STACK, &writer->message);
	}
	for (uint32_t i = 0; i < writer->strings.start_nr; i++)
		protobuf_put_bytes(&writer->dictionary, OTLP_DICTIONARY_STRING, string_of(writer, i), strlen(string_of(writer, i)));
}

/* ---- samples ---------------------------------------------------------------------------------------- */

static bool same_packed_stack(uint32_t id, const void *key, const void *table)
{
	const struct protobuf_reader *a = &((const struct protobuf_reader *)table)[id], *b = key;

	return a->end - a->at == b->end - b->at && !memcmp(a->at, b->at, a->end - a->at);
}

/* Packed ids of locations are the same in both formats. */
static uint32_t stack_id(struct otlp_writer *writer, struct protobuf_reader packed)
{
	uint64_t hash = hash_bytes(packed.at, packed.end - packed.at, 0);
	uint32_t id = idmap_find(&writer->stack_index, hash, same_packed_stack, &packed, writer->stack);

	if (packed.at == packed.end)
		return 0;
	if (id != IDMAP_NONE)
		return id + 1;
	if (array_push(writer, stack, packed) ?: idmap_add(&writer->stack_index, hash, writer->stack_nr - 1))
		writer->dictionary.err = -ENOMEM;
	return writer->stack_nr;
}

/* Calls fn for each label of a sample. */
static void each_label(struct otlp_writer *writer, struct protobuf_reader sample, struct byte_buffer *out,
		       void (*fn)(struct otlp_writer *writer, const struct label_name *name, const struct attribute *label,
				  struct byte_buffer *out))
{
	struct protobuf_field field;

	while (protobuf_next(&sample, &field) > 0) {
		struct attribute label;

		if (field.number != PPROF_SAMPLE_LABEL)
			continue;
		label = (struct attribute){ number_in(field.bytes, PPROF_LABEL_KEY), number_in(field.bytes, PPROF_LABEL_STR) };
		fn(writer, name_of_label(string_of(writer, label.key)), &label, out);
	}
}

static void put_block_attribute(struct otlp_writer *writer, const struct label_name *name, const struct attribute *label,
				struct byte_buffer *out)
{
	if (name && name->is_of_blocks)
		protobuf_put_packed(out, attribute_id(writer, &(struct attribute){
			otlp_string(writer, name->attribute), label->value, name->is_number }));
}

static bool value_at(struct protobuf_reader sample, size_t at, uint64_t *ret)
{
	struct protobuf_reader values = bytes_in(sample, PPROF_SAMPLE_VALUE);

	for (size_t i = 0; i <= at; i++)
		if (protobuf_next_packed(&values, ret) <= 0)
			return false;
	return *ret;
}

static void put_sample_of(struct otlp_writer *writer, struct byte_buffer *profile, struct protobuf_reader sample, size_t at)
{
	struct byte_buffer *message = &writer->message;
	uint64_t value;

	if (!value_at(sample, at, &value))
		return;
	protobuf_put_number(message, OTLP_SAMPLE_STACK, stack_id(writer, bytes_in(sample, PPROF_SAMPLE_LOCATION)));
	each_label(writer, sample, &writer->packed, put_block_attribute);
	if (writer->packed.byte_nr)
		protobuf_put_message(message, OTLP_SAMPLE_ATTRIBUTES, &writer->packed);
	protobuf_put_packed(&writer->part, value);
	protobuf_put_message(message, OTLP_SAMPLE_VALUES, &writer->part);
	protobuf_put_message(profile, OTLP_PROFILE_SAMPLE, message);
}

/* ---- profiles --------------------------------------------------------------------------------------- */

static void put_type(struct otlp_writer *writer, struct byte_buffer *out, enum otlp_profile_field field,
		     const struct value_type *type)
{
	protobuf_put_number(&writer->message, 1, type->type);
	protobuf_put_number(&writer->message, 2, type->unit);
	protobuf_put_message(out, field, &writer->message);
}

static void put_fixed64(struct byte_buffer *out, enum otlp_profile_field field, uint64_t value)
{
	uint8_t bytes[8];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = value >> 8 * i;
	protobuf_put_packed(out, field << 3 | WIRE_FIXED64);
	buffer_add(out, bytes, sizeof(bytes));
}

/* Equal profiles have equal ids. */
static void put_profile_id(struct byte_buffer *profile)
{
	const uint64_t id[2] = { hash_bytes(profile->byte, profile->byte_nr, 1), hash_bytes(profile->byte, profile->byte_nr, 2) | 1 };

	protobuf_put_bytes(profile, OTLP_PROFILE_ID, id, sizeof(id));
}

/* All values are of one type. Its time is when the recording began, so that time and duration are a span. */
static void put_profile(struct otlp_writer *writer, struct byte_buffer *scope, size_t type)
{
	struct byte_buffer profile = {};

	put_type(writer, &profile, OTLP_PROFILE_TYPE, &writer->type[type]);
	for (size_t i = 0; i < writer->sample.message_nr; i++)
		put_sample_of(writer, &profile, writer->sample.message[i], type);
	put_fixed64(&profile, OTLP_PROFILE_TIME, writer->time_ns - writer->duration_ns);
	protobuf_put_number(&profile, OTLP_PROFILE_DURATION, writer->duration_ns);
	if (writer->period) {
		put_type(writer, &profile, OTLP_PROFILE_PERIOD_TYPE, &writer->period_type);
		protobuf_put_number(&profile, OTLP_PROFILE_PERIOD, writer->period);
	}
	put_profile_id(&profile);
	if (writer->comment_nr) {
		protobuf_put_packed(&writer->packed, 1);
		protobuf_put_message(&profile, OTLP_PROFILE_ATTRIBUTES, &writer->packed);
	}
	protobuf_put_message(scope, OTLP_SCOPE_PROFILES_PROFILE, &profile);
	buffer_release(&profile);
}

/* A KeyValue: key 1, value 2. */
static bool has_attribute(const struct byte_buffer *resource, const char *key)
{
	struct protobuf_reader reader = { resource->byte, resource->byte_nr ? resource->byte + resource->byte_nr : NULL };
	struct protobuf_field field;

	while (protobuf_next(&reader, &field) > 0) {
		struct protobuf_reader name = bytes_in(field.bytes, 1);

		if ((size_t)(name.end - name.at) == strlen(key) && !memcmp(name.at, key, strlen(key)))
			return true;
	}
	return false;
}

/* Keys are unique, but any label may be a user's: the first one of a name stays. */
static void put_resource_text(struct otlp_writer *writer, struct byte_buffer *resource, const char *key, const char *value, bool is_number)
{
	if (has_attribute(resource, key))
		return;
	protobuf_put_bytes(&writer->message, 1, key, strlen(key));
	put_any_value(&writer->part, value, is_number);
	protobuf_put_message(&writer->message, 2, &writer->part);
	protobuf_put_message(resource, 1, &writer->message);
}

static void put_resource_label(struct otlp_writer *writer, const struct label_name *name, const struct attribute *label,
			       struct byte_buffer *resource)
{
	if (!name || !name->is_of_blocks)
		put_resource_text(writer, resource, name ? name->attribute : string_of(writer, label->key),
				  string_of(writer, label->value), name && name->is_number);
}

static void put_service_label(struct otlp_writer *writer, const struct label_name *name, const struct attribute *label,
			      struct byte_buffer *resource)
{
	if (name && !strcmp(name->label, "comm"))
		put_resource_text(writer, resource, "service.name", string_of(writer, label->value), false);
}

/* All samples are of one process, if they have its labels. */
static void put_resource(struct otlp_writer *writer, const char *service, struct byte_buffer *out)
{
	struct byte_buffer resource = {};

	if (service)
		put_resource_text(writer, &resource, "service.name", service, false);
	if (writer->sample.message_nr && !service)
		each_label(writer, writer->sample.message[0], &resource, put_service_label);
	if (writer->sample.message_nr)
		each_label(writer, writer->sample.message[0], &resource, put_resource_label);
	protobuf_put_message(out, OTLP_RESOURCE_PROFILES_RESOURCE, &resource);
	buffer_release(&resource);
}

static void put_scope(struct otlp_writer *writer, struct byte_buffer *out)
{
	struct byte_buffer scope = {};

	protobuf_put_bytes(&writer->message, 1, "allocsnap", strlen("allocsnap"));
	protobuf_put_bytes(&writer->message, 2, ALLOCSNAP_VERSION, strlen(ALLOCSNAP_VERSION));
	protobuf_put_message(&scope, OTLP_SCOPE_PROFILES_SCOPE, &writer->message);
	for (size_t i = 0; i < writer->type_nr; i++)
		put_profile(writer, &scope, i);
	protobuf_put_message(out, OTLP_RESOURCE_PROFILES_SCOPE, &scope);
	buffer_release(&scope);
}

static void release(struct otlp_writer *writer)
{
	free(writer->sample.message);
	free(writer->mapping.message);
	free(writer->location.message);
	free(writer->function.message);
	free(writer->type);
	free(writer->comment);
	free(writer->attribute);
	free(writer->stack);
	strpool_release(&writer->strings);
	idmap_release(&writer->attribute_index);
	idmap_release(&writer->stack_index);
	buffer_release(&writer->dictionary);
	buffer_release(&writer->message);
	buffer_release(&writer->part);
	buffer_release(&writer->packed);
}

int otlp_from_pprof(const void *pprof, size_t len, const char *service, struct byte_buffer *ret)
{
	struct otlp_writer writer = {};
	struct byte_buffer resource = {};
	int err = read_pprof(&writer, pprof, len);

	if (!err) {
		put_dictionary_begin(&writer);
		put_resource(&writer, service, &resource);
		put_scope(&writer, &resource);
		put_dictionary_end(&writer);
		protobuf_put_message(ret, OTLP_REQUEST_RESOURCE, &resource);
		err = writer.dictionary.err ?: writer.message.err ?: writer.part.err ?: writer.packed.err;
		protobuf_put_message(ret, OTLP_REQUEST_DICTIONARY, &writer.dictionary);
		err = err ?: ret->err;
	}
	buffer_release(&resource);
	release(&writer);
	return err;
}

/* ---- the answer ------------------------------------------------------------------------------------- */

uint64_t otlp_rejected(const void *answer, size_t len, const char **ret_text, size_t *ret_text_len)
{
	const struct protobuf_reader whole = { answer, (const uint8_t *)answer + len };
	struct protobuf_reader partial = bytes_in(whole, 1), text = bytes_in(partial, 2);

	*ret_text = (const char *)text.at;
	*ret_text_len = text.end - text.at;
	return number_in(partial, 1);
}
