# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Mistakes in the engine that the comparison must notice (tests/mutants)."""

# name: (file, (old text, new text)…)
MUTANTS = {
    # statistics
    "cumulative: a recursive frame counts once": (
        "src/engine/statistics.c",
        ("\t\tif (!err)\n\t\t\terr = engine_cost_add(&column->cost[key], cost, why);",
         "\t\tbool again = false;\n"
         "\t\tfor (size_t j = 0; j < i; j++)\n"
         "\t\t\tagain |= list->id[j] == key;\n"
         "\t\tif (!err && !again)\n\t\t\terr = engine_cost_add(&column->cost[key], cost, why);")),
    "cumulative: the total counts a block once a frame": (
        "src/engine/statistics.c",
        ("return engine_cost_add(&column->total, cost, why);",
         "return engine_cost_add(&column->total, &(struct cost){ cost->size * (int64_t)list->id_nr, "
         "cost->count * (int64_t)list->id_nr }, why);")),
    "compare_to: zero differences are dropped": (
        "src/engine/statistics.c",
        ("\trows_fill(row, nr, keys, new, old);",
         "\trows_fill(row, nr, keys, new, old);\n"
         "\tfor (size_t i = 0; old && i < nr;)\n"
         "\t\tif (row[i].diff.size || row[i].diff.count)\n"
         "\t\t\ti++;\n"
         "\t\telse\n"
         "\t\t\t__builtin_memmove(&row[i], &row[i + 1], (--nr - i) * sizeof(*row));")),
    "compare_to: groups that are gone are dropped": (
        "src/engine/statistics.c",
        ("\trows_fill(row, nr, keys, new, old);",
         "\trows_fill(row, nr, keys, new, old);\n"
         "\tfor (size_t i = 0; old && i < nr;)\n"
         "\t\tif (row[i].cost.count)\n"
         "\t\t\ti++;\n"
         "\t\telse\n"
         "\t\t\t__builtin_memmove(&row[i], &row[i + 1], (--nr - i) * sizeof(*row));")),
    "compare_to: the size is the old one": (
        "src/engine/statistics.c", ("row[i].cost = now;", "row[i].cost = before;")),
    "filename: the key keeps the line": (
        "src/engine/frame.c", ("\tif (key_type == KEY_FILENAME)\n\t\treturn view;\n", "")),
    "traceback: total_nframe takes part in equality": (
        "src/engine/keys.c",
        ("static int find_traceback(", "static uint32_t total;\n\nstatic int find_traceback("),
        ("list->id_nr * sizeof(*list->id), 0);", "list->id_nr * sizeof(*list->id), total);"),
        ("struct frame_span span = source_frames(source->traces, traceback);",
         "struct frame_span span = (total = source->traces->tables->traceback[traceback].total_nframe, "
         "source_frames(source->traces, traceback));")),
    "lineno: the oldest frame instead of the most recent": (
        "src/engine/keys.c",
        ("span.frame[nr - 1 - i], &list->id[i]", "span.frame[span.nframe - 1 - i], &list->id[i]")),

    # order
    "order: ties ascend": (
        "src/engine/order.c", ("traceback_compare(b, a)", "traceback_compare(a, b)")),
    "order: count before size": (
        "src/engine/order.c",
        ("descending(a->cost.size, b->cost.size) ?:\n"
         "\t       descending(a->cost.count, b->cost.count) ?: by_key",
         "descending(a->cost.count, b->cost.count) ?:\n"
         "\t       descending(a->cost.size, b->cost.size) ?: by_key")),
    "order: size_diff without abs": (
        "src/engine/order.c",
        ("descending(llabs(a->diff.size), llabs(b->diff.size))",
         "descending(a->diff.size, b->diff.size)")),
    "order: count_diff without abs": (
        "src/engine/order.c",
        ("descending(llabs(a->diff.count), llabs(b->diff.count))",
         "descending(a->diff.count, b->diff.count)")),
    "order: a prefix is larger": (
        "src/engine/frame.c",
        ("return compare_frame_number(a->nframe, b->nframe);",
         "return compare_frame_number(b->nframe, a->nframe);")),
    "order: tracebacks from the most recent frame": (
        "src/engine/frame.c",
        ("compare(&a->frame[i], &b->frame[i])",
         "compare(&a->frame[a->nframe - 1 - i], &b->frame[b->nframe - 1 - i])")),
    "order: lines as text": (
        "src/engine/frame.c",
        ("?: compare_frame_number(a->lineno, b->lineno);",
         "?: compare_frame_number(__builtin_bswap32(a->lineno), __builtin_bswap32(b->lineno));")),

    # samples
    "estimates: weights are ignored": (
        "src/engine/estimate.c", ("double beyond = size * (weight - 1);", "double beyond = 0 * size * weight;")),
    "estimates: what is beyond the samples is cut": (
        "src/engine/estimate.c", ("llround(beyond)", "(int64_t)beyond")),
    "estimates: a frame that is there twice is there by two chances": (
        "src/engine/estimate.c",
        ("to->variance += times * times * what->variance;", "to->variance += times * what->variance;")),
    "estimates: a frame that is there twice skews like two": (
        "src/engine/estimate.c", ("times * times * times * what->covariance", "times * what->covariance")),
    "estimates: a frame that is there twice is two samples": (
        "src/engine/estimate.c",
        ("to->samples += sums->samples;", "to->samples += *times * sums->samples;")),
    "intervals: Wald's": (
        "src/engine/estimate.c",
        ("shift = z * z * moments->covariance / moments->variance / 2;", "shift = 0;")),
    "intervals: of 90 %": ("src/engine/estimate.c", ("1.959963984540054", "1.6448536269514722")),
    "intervals: may be below the samples": (
        "src/engine/estimate.c", ("if (interval.low < sampled)", "if (0 && interval.low < sampled)")),
    "intervals: the variance is that of a Poisson process": (
        "src/engine/estimate.c",
        (".variance = size * weight * beyond,", ".variance = size * weight * size * weight,")),
    "intervals: of a difference, variances are subtracted": (
        "src/engine/estimate.c",
        (".variance = now->variance + old->variance,", ".variance = now->variance - old->variance,")),
    "intervals: of a difference, both skew the same way": (
        "src/engine/estimate.c",
        (".covariance = now->covariance - old->covariance,",
         ".covariance = now->covariance + old->covariance,")),
    "pairs: a block in both is two samples": (
        "src/engine/statistics.c",
        ("if (!err && has_weights(old) && has_weights(new) && !options->measure)", "if (0)")),
    "pairs: the new one's alone are paired": (
        "src/engine/statistics.c", ("pairing->old_pairs[at] = pair << 4;", "pairing->old_pairs[at] = 0;")),
    "pairs: an address is enough": (
        "src/engine/statistics.c",
        ("\t       trace.size == want->size && trace.domain == want->domain &&\n",
         "\t       trace.domain == want->domain &&\n")),
    "pairs: a block of another allocator is the same": (
        "src/engine/statistics.c",
        ("trace.size == want->size && trace.domain == want->domain &&", "trace.size == want->size &&")),
    "pairs: a block of another weight is the same": (
        "src/engine/statistics.c",
        ("trace.thread == want->thread && trace.weight == want->weight",
         "trace.thread == want->thread")),
    "import: weights are lost": (
        "src/snapshot/json_import.c", ("*ret = json_number_value(value);", "*ret = 1;")),
    "import: what ends alike weighs 1": (
        "src/snapshot/json_import.c", ("trace.weight = in->tail[id].weight;", "trace.weight = 1;")),
    "export: weights have six digits": (
        "src/snapshot/json_export.c", ("&& digits++ < 17", "&& digits++ < 6")),
    "select: weights stay where they were": (
        "src/snapshot/select.c",
        ("copy_column_u64(s, SNAP_TRACE_WEIGHT)",
         "(s->from->rows[SNAP_TRACE_WEIGHT].row ? copy_all(s, SNAP_TRACE_WEIGHT) ?: "
         "(s->to->rows[SNAP_TRACE_WEIGHT].nr = s->to->rows[SNAP_TRACE_SIZE].nr, 0) : 0)")),

    # filters
    "filters: one exclusive filter that lets pass is enough": (
        "src/engine/selector.c",
        ("bool is_asked = false, is_included = false;",
         "bool is_asked = false, is_included = false;\n\tint vetoes = 0, vetoers = 0;"),
        ("\t\tif (matches && !filter->inclusive)\n\t\t\treturn false;\n",
         "\t\tvetoers += !filter->inclusive;\n\t\tvetoes += matches && !filter->inclusive;\n"),
        ("return is_included || !is_asked;",
         "return (is_included || !is_asked) && (!vetoers || vetoes < vetoers);")),
    "filters: inclusive ones are and-ed": (
        "src/engine/selector.c",
        ("\t\tif (matches && !filter->inclusive)", "\t\tif (matches != filter->inclusive)")),
    "filters: a domain that nothing has keeps all": (
        "src/engine/selector.c",
        ("is_asked |= filter->inclusive;", "is_asked |= filter->inclusive && !filter->has_domain;")),
    "filters: all_frames is ignored": (
        "src/engine/selector.c",
        ("selector->selection->filter[filter].all_frames ? span->nframe : 1", "1")),
    "filters: the oldest frame instead of the most recent": (
        "src/engine/selector.c",
        ("matches_frame(selector, filter, span->frame[i])",
         "matches_frame(selector, filter, span->frame[span->nframe - 1 - i])")),
    "filters: an exclusive domain vetoes alone": (
        "src/engine/selector.c",
        ("\t\t\t(!filter->has_domain || domain_class(selector, selector->filter_domain[i]) == class) &&\n"
         "\t\t\tmatches_frames(selector, i, &span);",
         "\t\t\t!filter->has_domain || filter->inclusive\n"
         "\t\t\t? (!filter->has_domain || domain_class(selector, selector->filter_domain[i]) == class) &&\n"
         "\t\t\t\tmatches_frames(selector, i, &span)\n"
         "\t\t\t: domain_class(selector, selector->filter_domain[i]) == class ||\n"
         "\t\t\t\tmatches_frames(selector, i, &span);")),
    "filters: line 0 is any line": (
        "src/engine/selector.c", ("if (filter->has_lineno && ", "if (filter->lineno && ")),
    "filters: lines have 32 bits": (
        "src/engine/selector.c",
        ("filter->lineno != frame->lineno", "(uint32_t)filter->lineno != frame->lineno")),
    "filters: the smallest size is left out": (
        "src/engine/selector.c", ("size < selection->min_size", "size <= selection->min_size")),
    "SPEC: a line follows the first colon": (
        "src/engine/selector.c", ("strrchr(text, ':')", "strchr(text, ':')")),
    "SPEC: a file ends at any comma": (
        "src/engine/selector.c", ("\t\tif (spec_key_at(comma + 1)) {", "\t\t{")),

    # patterns
    "pattern: [^x] negates": (
        "src/engine/pattern.c",
        ("bool negated = starts_with(&set, '!'), is_front = !negated, found",
         "bool negated = starts_with(&set, '!') || starts_with(&set, '^'), is_front = !negated, found")),
    "pattern: .pyc is not .py": (
        "src/engine/pattern.c", ("if (text.end - text.at >= 4 &&", "if (0 &&")),
    "pattern: .pyc is .py in names only": (
        "src/engine/pattern.c",
        ("matches_pattern(filename_of(pattern), filename_of(filename))",
         "matches_pattern(make_text(pattern), filename_of(filename))")),
    "pattern: a range that is reversed is turned round": (
        "src/engine/pattern.c",
        ("return range->first > range->last;", "return false;"),
        ("return range->first <= code && code <= range->last;",
         "return (range->first <= code && code <= range->last) || "
         "(range->last <= code && code <= range->first);")),
    "pattern: * stops at /": (
        "src/engine/pattern.c",
        ("\tif (name->at == name->end)\n\t\treturn false;\n\ttake_code_point(name);",
         "\tif (name->at == name->end || *name->at == '/')\n\t\treturn false;\n\ttake_code_point(name);")),
    "pattern: ? is a byte": (
        "src/engine/pattern.c", ("matches = take_code_point(name) > 0;", "matches = name->at++ != NULL;")),
    "pattern: a backslash escapes": (
        "src/engine/pattern.c",
        ("\tif (element == '*')\n\t\treturn STEP_STAR;\n",
         "\tif (element == '\\\\' && pattern->at < pattern->end) {\n"
         "\t\telement = take_code_point(pattern);\n"
         "\t\treturn name->at < name->end && take_code_point(name) == element ? STEP_TAKES : STEP_FAILS;\n"
         "\t}\n"
         "\tif (element == '*')\n\t\treturn STEP_STAR;\n")),
    "pattern: a ] that is first ends a set": (
        "src/engine/pattern.c", ("\tclose += close < pattern->end && *close == ']';\n", "")),
    "pattern: an open [ matches nothing": (
        "src/engine/pattern.c",
        ("\telse if (element == '[' && take_set(pattern, &set))\n\t\tmatches =",
         "\telse if (element == '[')\n\t\tmatches = take_set(pattern, &set) &&")),

    # in, out, texts
    "import: total_nframe is lost": (
        "src/snapshot/json_import.c",
        ("in->frame_nr, total_nframe, 0,", "in->frame_nr, 0, 0,")),
    "export: frames oldest first": (
        "src/snapshot/json_export.c",
        ("t->traceback_frame[traceback->first + i]);\n\t}",
         "t->traceback_frame[traceback->first + traceback->nframe - 1 - i]);\n\t}")),
    "text: averages are whole": (
        "src/render/statistic_text.c",
        ("(double)cost->size / cost->count", "cost->size / cost->count")),
    "text: 100 KiB have a decimal": (
        "src/base/units.c", ("fabs(value) < 100 &&", "fabs(value) <= 100 &&")),
    "format: limit takes the oldest": (
        "src/render/statistic_text.c",
        ("return (struct slice){ nframe - nr, nr };", "return (struct slice){ 0, nr };")),
    "format: a negative limit counts as positive": (
        "src/render/statistic_text.c", ("if (options->limit > 0)", "if (options->limit)")),
}
