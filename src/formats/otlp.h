/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FORMATS_OTLP_H
#define ALLOCSNAP_FORMATS_OTLP_H

/*
 * The profiles signal of OpenTelemetry (OTLP): the message ExportProfilesServiceRequest, and what a server answers. The field numbers
 * are as in opentelemetry-proto v1.11.0, profiles/v1development/profiles.proto, whose status is alpha: later ones may differ.
 *
 *	request ──► dictionary: mappings, locations, functions, strings, attributes, stacks; entry 0 of each is empty
 *	        └─► resource ──► scope ──► a profile for each type of value: samples, which refer to stacks and attributes
 */

#include <stddef.h>
#include <stdint.h>

#include "formats/byte_buffer.h"

#define OTLP_PROFILES_PATH "/v1development/profiles" /* where servers take them, by HTTP */

enum otlp_request_field {
	OTLP_REQUEST_RESOURCE = 1,
	OTLP_REQUEST_DICTIONARY = 2,
};

enum otlp_dictionary_field {
	OTLP_DICTIONARY_MAPPING = 1,
	OTLP_DICTIONARY_LOCATION = 2,
	OTLP_DICTIONARY_FUNCTION = 3,
	OTLP_DICTIONARY_LINK = 4,
	OTLP_DICTIONARY_STRING = 5,
	OTLP_DICTIONARY_ATTRIBUTE = 6,
	OTLP_DICTIONARY_STACK = 7,
};

enum otlp_resource_profiles_field {
	OTLP_RESOURCE_PROFILES_RESOURCE = 1, /* whose field 1 are its attributes */
	OTLP_RESOURCE_PROFILES_SCOPE = 2,
};

enum otlp_scope_profiles_field {
	OTLP_SCOPE_PROFILES_SCOPE = 1, /* name 1, version 2 */
	OTLP_SCOPE_PROFILES_PROFILE = 2,
};

enum otlp_profile_field {
	OTLP_PROFILE_TYPE = 1, /* type 1, unit 2 */
	OTLP_PROFILE_SAMPLE = 2,
	OTLP_PROFILE_TIME = 3, /* fixed64 */
	OTLP_PROFILE_DURATION = 4,
	OTLP_PROFILE_PERIOD_TYPE = 5,
	OTLP_PROFILE_PERIOD = 6,
	OTLP_PROFILE_ID = 7,
	OTLP_PROFILE_ATTRIBUTES = 11,
};

enum otlp_sample_field {
	OTLP_SAMPLE_STACK = 1,
	OTLP_SAMPLE_ATTRIBUTES = 2,
	OTLP_SAMPLE_VALUES = 4,
};

enum otlp_mapping_field {
	OTLP_MAPPING_FILENAME = 4,
	OTLP_MAPPING_ATTRIBUTES = 5,
};

enum otlp_location_field {
	OTLP_LOCATION_MAPPING = 1,
	OTLP_LOCATION_ADDRESS = 2,
	OTLP_LOCATION_LINE = 3, /* function 1, line 2 */
};

enum otlp_function_field {
	OTLP_FUNCTION_NAME = 1,
	OTLP_FUNCTION_FILENAME = 3,
};

enum otlp_attribute_field { /* in the dictionary */
	OTLP_ATTRIBUTE_KEY = 1,
	OTLP_ATTRIBUTE_VALUE = 2,
};

enum otlp_value_field {
	OTLP_VALUE_STRING = 1,
	OTLP_VALUE_INT = 3,
	OTLP_VALUE_ARRAY = 5, /* whose field 1 are its values */
};

/*
 * Appends a request with the profiles of a pprof that pprof_put_report() made, not in gzip: one for each type of its values,
 * without the samples whose value is 0. Labels that say which blocks (domain, thread) become attributes of the samples, all others
 * attributes of the resource, by OpenTelemetry's names where it has one. service: its service.name; NULL: the process's name.
 * Returns 0, -ENOMEM, or -EBADMSG: this is no such pprof.
 */
int otlp_from_pprof(const void *pprof, size_t len, const char *service, struct byte_buffer *ret);

/*
 * How many profiles a server has rejected, by its answer; *ret_text: why, which may be empty, within the answer. An answer that
 * is no ExportProfilesServiceResponse rejects none.
 */
uint64_t otlp_rejected(const void *answer, size_t len, const char **ret_text, size_t *ret_text_len);

#endif
