# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A mistake in each room of the source (scripts/arrows), in each folder of bpf/ and in include/, as a developer could make
it: name: (file, old text, new text, the suite and the test that must notice). The name is the room's, and what is wrong.
The suite is the part of the check that must run for the room. src/collect itself has only a header of includes.
"""

MUTANTS = {
    "base: a minute has 60 ms": (
        "src/base/units.c", '{ "m", 60e9 }', '{ "m", 60e6 }',
        "unit base_units/parse_duration_accepts_units_and_refuses_the_rest"),
    "helper: the descriptor of an answer of another kind stays open": (
        "src/helper/channel.c", "\tif (err && ret_fd && *ret_fd >= 0)\n\t\tclose(*ret_fd);\n", "",
        "unit helper_channel/leaves_no_descriptor_open_that_nobody_wants"),
    "go: one free more than allocations is taken": (
        "src/go/go_profile.c", "now.frees <= now.allocations;", "now.frees <= now.allocations + 1;",
        "unit go_profile/of_counts_that_cannot_be_is_refused"),
    "java: a sample that is being written counts": (
        "src/java/samples_reader.c", "!(samples->slot[i].sequence & 1);", "true;",
        "unit java_samples/a_slot_that_is_being_written_does_not_count"),
    "snapshot: copied rows are one too far": (
        "src/snapshot/select.c", "mark[i] = kept++;", "mark[i] = ++kept;",
        "unit snapshot_select/keeps_only_what_the_selected_traces_need"),
    "formats: 128 is written as one byte": (
        "src/formats/byte_buffer.c", "for (; value >= 0x80; value >>= 7)", "for (; value > 0x80; value >>= 7)",
        "unit formats_protobuf/numbers_are_read_as_they_were_written"),
    "engine: the smallest comes first": (
        "src/engine/order.c", "return (a < b) - (a > b);", "return (a > b) - (a < b);", "golden stats-lineno"),
    "fleet: a day ends where the next one begins": (
        "src/fleet/selection.c", "\tret->last_ns--;\n", "", "unit fleet_selection/accepts_each_form_of_a_time"),
    "fleet/sql: blocks are rows": (
        "src/fleet/sql/stats.sql", "sum(count) AS blocks", "count(*) AS blocks", "fleet test_sums_match_sql"),
    "render: an age is in thousands of seconds": (
        "src/render/show.c", "block->age_ns / 1e9", "block->age_ns / 1e6", "golden sampled-block"),
    "push: the end of a line belongs to the path": (
        "src/push/push_queue.c", 'strcspn(path + 1, "\\n")', "strlen(path + 1)",
        "unit pushing/a_file_that_comes_back_is_pushed_again"),
    "fleet/cluster: a block's length has no head": (
        "src/fleet/cluster/cluster_push.c", "packed->byte_nr - CHECKSUM_LEN", "packed->byte_nr - sizeof(mark)",
        "unit native_rows/are_a_block_of_columns"),
    "elf: a short jump ends one byte early": (
        "src/elf/x86_machine.c", "return at == NOP5_BYTES - 2 &&", "return at == NOP5_BYTES - 3 &&",
        "unit placement/recognizes_nops_of_five_bytes"),
    "elf/python: debug hooks are passed over, too": (
        "src/elf/python/python_layers.c", "kind == PYTHON_LAYER_TRACEMALLOC)", "kind != PYTHON_LAYER_PLAIN)",
        "unit python_layers/tracemalloc_before_debug_hooks"),
    "unwind: the next page has no end": (
        "src/unwind/unwind_table.c", "if (page >= table->page_nr)", "if (page > table->page_nr)",
        "unit unwind_pages/hold_no_rules_outside_the_code"),
    "symbols: a range begins behind its first byte": (
        "src/symbols/ranges.c", "range[i].low > address", "range[i].low >= address",
        "unit symbols_ranges/find_the_innermost_range"),
    "sandbox: capabilities stay": (
        "src/sandbox/seccomp.c", "\t\terr = capabilities_keep(0);\n", "\t\terr = 0;\n",
        "unit sandbox_confined/runs_as_its_own_user_with_one_socket"),
    "debuginfod: what a server sends is kept": (
        "src/debuginfod/download.c", "\tret->end = DOWNLOAD_FAILED;\n\tif (pread", "\tif (pread",
        "live test_debuginfod_that_is_no_help_another_program"),
    "symbolize: an exact address is the place of a call": (
        "src/symbolize/share_names.c", "\t       !((frame->flags ^ key->frame->flags) & SNAP_FRAME_EXACT) &&\n", "",
        "unit share_names/an_exact_address_is_another_place"),
    "process: only the last rule says whether there are PIDs": (
        "src/collect/recording/admission.c", "rules->has_pids |=", "rules->has_pids =",
        "unit admission/records_which_facts_the_rules_need"),
    "inject: Linux 5.13 is too old": (
        "src/inject/target_maps.c", "minor < 13", "minor <= 13",
        "unit inject_rules/refuse_old_and_hardened_kernels"),
    "exact: parents may have greater numbers": (
        "src/exact/books_stacks.c", "at->parent < node ? at->parent : 0", "at->parent",
        "unit exact_books/have_tracebacks_that_end"),
    "collect/drain: what is dropped is what is kept": (
        "src/collect/drain/block_set.c", "image->nr -= chunk->nr - kept;", "image->nr -= kept;",
        "unit drained_blocks/are_filtered"),
    "collect/unwind: free words at the end are there twice": (
        "src/collect/unwind/unwind_tables.c", "\tpool->hole_nr--;\n}\n\nstatic void join", "}\n\nstatic void join",
        "unit word_pool/matches_a_model_under_random_use"),
    "collect/probe: a sampler that is busy is given up": (
        "src/collect/probe/kept_samplers.c", "(ret->value != -EAGAIN && !again_nr) ||", "!again_nr ||",
        "unit kept_samplers/are_ejected_with_patience"),
    "collect/python: a part that was read is forgotten": (
        "src/collect/python/python_codes.c", "*is_read |= !text->is_read;", "*is_read = !text->is_read;",
        "unit python_codes/drops_a_code_object_that_has_become_another_one"),
    "collect/budget: gaps that overlap count twice": (
        "src/collect/budget/budget.c", "end_ns - last->end_ns;", "end_ns - start_ns;",
        "unit pause_gaps/may_be_known_afterwards"),
    "collect/target: a PID that is used again is the same process": (
        "src/collect/target/target.c", "ticks != target->identity.start_ticks", "ticks == 0",
        "unit target/ends_when_its_pid_was_reused"),
    "collect/build: code of no known machine has no calls": (
        "src/collect/build/resolve_tracebacks.c", "!machine || machine->follows_call", "machine && machine->follows_call",
        "unit return_address/comes_directly_after_a_call"),
    "collect/recording: less than no room is very much": (
        "src/collect/recording/map_shares.c", "held < capacity ? capacity - held : 0;", "capacity - held;",
        "unit fair/share_is_never_zero"),
    "collect/files: a file that no process maps stays": (
        "src/collect/files/unused_files.c", "\t\t\tdrop_unused_object(collector, i);\n", "\t\t\t;\n",
        "live test_files_do_not_prevent_an_unmount"),
    "collect/sources: a program that is called python is none": (
        "src/collect/sources/python_choice.c", 'path_name(path), "python", strlen("python")', 'path_name(path), "pythons", strlen("pythons")',
        "unit python_choice/programs_are_told_by_their_names"),
    "collect/limits: all pause while shared links come back": (
        "src/collect/limits/own_links.c", "\tif (links_phase(collector) == LINKS_TO_SHARED)\n\t\treturn true;\n", "",
        "unit own_links/nobody_pauses_while_shared_links_come_back"),
    "collect/session: a process near its limit of memory is not named": (
        "src/collect/session/events.c", "\t\ttarget->snapshots.is_near_oom = true;\n}\n\nstatic void mark_all",
        "\t\ttarget->snapshots.is_near_oom = false;\n}\n\nstatic void mark_all",
        "live test_oom_kill_triggers_snapshots_of_the_whole_cgroup"),
    "census: lists of a tcache are 8 bytes apart": (
        "src/census/glibc_heap.c", "is_exact ? CHUNK_MIN + 16 * bin", "is_exact ? CHUNK_MIN + 8 * bin",
        "unit census_heap/has_chunks_in_each_state"),
    "collect/diagnosis: a static program with symbols is called stripped": (
        "src/collect/diagnosis/blind_spots.c", "!(program->traits & TRAIT_BIT(SYMTAB))", "program->traits & TRAIT_BIT(SYMTAB)",
        "live test_doctor_describes_a_stripped_static_program"),
    "report: the newest snapshot comes first": (
        "src/report/report_series.c", ".compare_rest = compare_series_paths,", ".compare_rest = compare_series_paths, .newest_first = true,",
        "unit report_series/is_sorted_by_time"),
    "report/page: a part is a share of itself": (
        "src/report/page/js/numbers.js", "100 * part / whole", "100 * part / part", "page test_modules_without_a_browser"),
    "record: a threshold is reached one byte late": (
        "src/record/triggers.c", "return bytes >= growth_at(", "return bytes > growth_at(",
        "unit trigger/fires_at_the_threshold"),
    "base: the wall clock orders the moments of one boot": (
        "src/base/moment.c", " ?: order_numbers(a->monotonic_ns, b->monotonic_ns)", "",
        "unit archive_order/of_files_that_are_found_is_that_of_the_monotonic_clock"),
    "archive: a removed file's blocks stay in the sum": (
        "src/archive/archive.c", "\tarchive->blocks -= item->blocks;\n", "",
        "unit archive_bounds/keep_the_first_and_the_newest_snapshot_longest"),
    "top: the smallest process comes first": (
        "src/top/model.c", "compare_numbers(a->bytes, b->bytes)", "compare_numbers(b->bytes, a->bytes)",
        "unit top_model/sorts_processes_and_follows_the_selected_one"),
    "doctor: details are shown at once": (
        "src/doctor/doctor.c", " || (is_detail && !doctor->is_verbose)", "",
        "unit doctor_report/is_short_unless_more_is_asked_for"),
    "cli: a closed output takes what is written": (
        "src/cli/cmd.c", "fd ? O_RDONLY : O_WRONLY", "fd ? O_WRONLY : O_RDONLY", "golden stdout-closed"),
    "cli: a line of help is one column too long": (
        "src/cli/cmd_help.c", "column + 1 + text_width(word) > HELP_COLUMNS", "column + text_width(word) > HELP_COLUMNS",
        "golden help-every-command"),
    "main: a command is not there": (
        "src/main.c", "&cmd_census, &cmd_eject, NULL", "&cmd_census, NULL", "golden help-eject"),
    "sampler: a freed sample stays in the filter": (
        "src/sampler/sampled_set.h", "\t\tfilter_count(address, -1);\n", "", "sampler test_set_of_samples_under_sanitizers"),
    "bpf: only bytes get a new peak": (
        "bpf/process.bpf.c", "\tlower_peak(process, COUNTER_peak_blocks, COUNTER_current_blocks);\n", "",
        "unit-bpf clear/of_the_peak_sets_it_to_the_live_bytes_and_blocks"),
    "bpf/account: a place of another image is the block's": (
        "bpf/account/nursery.bpf.h", " && lies->address == key->address &&\n\t       lies->image == key->image;",
        " && lies->address == key->address;", "unit-bpf nursery/is_shared_by_processes"),
    "bpf/unwind: the rest of a page has bytes in place of words": (
        "bpf/unwind/unwind.bpf.h", "walk->window_words = in_page / 8;", "walk->window_words = in_page;",
        "unit-bpf unwind/reads_across_the_end_of_a_page"),
    "bpf/filter: a text that goes on matches": (
        "bpf/filter/rules.bpf.h", "admission->matches = !wanted;", "admission->matches = 1;",
        "unit-bpf rules/match_patterns"),
    "bpf/python: a row of arenas has 40 bytes": (
        "bpf/python/python_calls.bpf.h", "#define ARENA_OBJECT_BYTES 48", "#define ARENA_OBJECT_BYTES 40",
        "unit-bpf python/realloc_stays_if_it_wastes_less_than_a_quarter"),
    "bpf/shared: a return address lies at the end of the frame": (
        "bpf/shared/unwind_step.h", "cfa - 8, &frame->pc", "cfa, &frame->pc",
        "unit-bpf unwind/follows_rules_to_the_root"),
    "include: the header of all has no renderers": (
        "include/allocsnap.h", '#include "render.h"\n', "", "example example"),
}
