/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FORMATS_PPROF_H
#define ALLOCSNAP_FORMATS_PPROF_H

/* The field numbers of pprof's profile.proto. Ids of strings are indexes of the string table, in which 0 is "". */

enum pprof_profile_field {
	PPROF_SAMPLE_TYPE = 1, /* ValueType */
	PPROF_SAMPLE = 2,
	PPROF_MAPPING = 3,
	PPROF_LOCATION = 4,
	PPROF_FUNCTION = 5,
	PPROF_STRING_TABLE = 6,
	PPROF_TIME_NANOS = 9,
	PPROF_DURATION_NANOS = 10,
	PPROF_PERIOD_TYPE = 11, /* ValueType */
	PPROF_PERIOD = 12,
	PPROF_COMMENT = 13, /* string */
	PPROF_DEFAULT_SAMPLE_TYPE = 14, /* string */
};

enum pprof_value_type_field {
	PPROF_TYPE_TYPE = 1,
	PPROF_TYPE_UNIT = 2,
};

enum pprof_sample_field {
	PPROF_SAMPLE_LOCATION = 1, /* the most recent call first */
	PPROF_SAMPLE_VALUE = 2,
	PPROF_SAMPLE_LABEL = 3,
};

enum pprof_label_field {
	PPROF_LABEL_KEY = 1,
	PPROF_LABEL_STR = 2,
};

enum pprof_mapping_field {
	PPROF_MAPPING_ID = 1,
	PPROF_MAPPING_START = 2,
	PPROF_MAPPING_LIMIT = 3,
	PPROF_MAPPING_OFFSET = 4,
	PPROF_MAPPING_FILENAME = 5,
	PPROF_MAPPING_BUILD_ID = 6,
	PPROF_MAPPING_HAS_FUNCTIONS = 7,
	PPROF_MAPPING_HAS_FILENAMES = 8,
	PPROF_MAPPING_HAS_LINE_NUMBERS = 9,
	PPROF_MAPPING_HAS_INLINE_FRAMES = 10,
};

enum pprof_location_field {
	PPROF_LOCATION_ID = 1,
	PPROF_LOCATION_MAPPING = 2,
	PPROF_LOCATION_ADDRESS = 3,
	PPROF_LOCATION_LINE = 4, /* inlined calls first */
};

enum pprof_line_field {
	PPROF_LINE_FUNCTION = 1,
	PPROF_LINE_LINE = 2,
};

enum pprof_function_field {
	PPROF_FUNCTION_ID = 1,
	PPROF_FUNCTION_NAME = 2,
	PPROF_FUNCTION_SYSTEM_NAME = 3,
	PPROF_FUNCTION_FILENAME = 4,
};

#endif
