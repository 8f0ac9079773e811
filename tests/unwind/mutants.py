# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The rules of unwinding, each switched off: a unit test must notice (tests/mutants)."""

# name: (file, old text, new text)
MUTANTS = {
    # looking up
    "lookup: a row's own address is the row before's": (
        "bpf/shared/unwind_lookup.h", "<= last;", "<= (last & ~UNWIND_PAGE_MASK) - 1;"),
    "lookup: not enough steps for a full page": (
        "bpf/shared/unwind_types.h", "#define UNWIND_SEARCH_STEPS 16", "#define UNWIND_SEARCH_STEPS 15"),
    "lookup: the next page has no end": (
        "src/unwind/unwind_table.c", "if (page >= table->page_nr)", "if (page > table->page_nr)"),

    # stepping
    "step: a return address is looked up itself": (
        "bpf/shared/unwind_step.h", "frame->pc - !frame->is_exact", "frame->pc"),
    "step: so is the one before where a signal interrupted": (
        "bpf/shared/unwind_step.h", "frame->pc - !frame->is_exact", "frame->pc - 1"),
    "step: a signal's frame is a call's": (
        "bpf/shared/unwind_step.h", "\tframe->is_exact = 1;\n", "\tframe->is_exact = 0;\n"),
    "step: exact for ever": ("bpf/shared/unwind_step.h", "\tframe->is_exact = 0;\n", ""),
    "step: the frame may stand still": ("bpf/shared/unwind_step.h", "cfa <= frame->sp", "cfa < frame->sp"),
    "step: the frame may go back": ("bpf/shared/unwind_step.h", "cfa <= frame->sp", "0"),
    "step: no rule is the root": (
        "bpf/shared/unwind_step.h", "case UNWIND_CFA_NONE:\n\t\treturn UNWIND_NO_RULE;",
        "case UNWIND_CFA_NONE:\n\t\treturn UNWIND_ROOT;"),
    "step: PLT slots push early": ("bpf/shared/unwind_step.h", "(frame->pc & 15) >=", "(frame->pc & 15) + 1 >="),
    "step: PLT slots push late": ("bpf/shared/unwind_step.h", "(frame->pc & 15) >=", "(frame->pc & 15) >"),
    "step: nothing is added to what is read": ("bpf/shared/unwind_step.h", "\t\tcfa += rule.addend;\n", ""),
    "step: a lost frame pointer is used": (
        "bpf/shared/unwind_step.h", "needs_fp && frame->is_fp_lost", "0"),
    "step: a lost frame pointer's frame is read": (
        "bpf/shared/unwind_step.h", "rule.fp_kind == UNWIND_FP_AT_FP && frame->is_fp_lost", "0"),
    "step: a lost frame pointer stays lost": (
        "bpf/shared/unwind_step.h", "\tframe->is_fp_lost = 0;\n\treturn unwind_fp_base", "\treturn unwind_fp_base"),
    "step: a signal gives no frame pointer back": (
        "bpf/shared/unwind_step.h", "\tframe->is_exact = 1;\n\tframe->is_fp_lost = 0;\n",
        "\tframe->is_exact = 1;\n"),
    "step: fp is read from the CFA": (
        "bpf/shared/unwind_step.h", "rule.fp_kind == UNWIND_FP_AT_SP ? frame->sp : frame->fp", "cfa"),

    # stacks that code changes to
    "switch: to an odd place": ("bpf/shared/unwind_step.h", "depth & 7 || ", ""),
    "switch: to a place outside of the stack": (
        "bpf/shared/unwind_step.h", "*ret_cfa - start >= end - start", "0"),
    "switch: a stack has not moved": (
        "bpf/shared/unwind_step.h", "frame->is_fp_lost |= frame->fp - *ret_cfa >= end - *ret_cfa;", ""),
    "switch: back without having left": ("bpf/shared/unwind_step.h", "if (!frame->left_sp)", "if (0)"),
    "switch: back again and again": ("bpf/shared/unwind_step.h", "\t\tframe->left_sp = 0;\n", ""),
    "code on arm64: a call changes g": ("src/unwind/stack_rules.c", "i != kept && ", ""),
    "code: a switch begins at another field": (
        "src/unwind/stack_rules.c", " || callback->field != scan->begin.field", ""),
    "code: a switch begins right at the field": (
        "src/unwind/stack_rules.c", "scan->begin.below = -walk->sp->plus", "scan->begin.below = 0"),
    "code: a second change of stacks": (
        "src/unwind/stack_rules.c", "\tset_register(walk, walk->machine->sp, value);\n",
        "\tif (is_first)\n\t\tset_register(walk, walk->machine->sp, value);\n"),
    "code: a switch that begins anywhere": ("src/unwind/stack_rules.c", "is_known ? 1 : 2", "is_known"),
    "code: what has been stored before": ("src/unwind/stack_rules.c", "(walk->has_stored && value.kind != VALUE_OF)", "0"),
    "code: half a register": (
        "src/unwind/stack_code_x86.c", "\t\tret->kind = EFFECT_CLEAR;\n", "\t\tret->kind = EFFECT_NONE;\n"),
    "code: another field": ("src/unwind/stack_rules.c", " || effect->offset != sp->field", ""),
    "code: another register": (
        "src/unwind/stack_rules.c", "\t\t\twalk->reg[i].reg = NO_REGISTER;", "\t\t\t;"),
    "code: no saved frame pointer": ("src/unwind/stack_rules.c", "has_fp ? UNWIND_FP_AT_CFA : UNWIND_FP_LOST", "UNWIND_FP_LOST"),
    "stacks: of any program": ("src/unwind/stack_rules.c", "err || !has_go ? err", "err ? err"),
    "stacks: of described code": (
        "src/unwind/stack_rules.c", "entries_are_sure(scan->entries, found.address)", "0"),
    "stacks: loads of described code": (
        "src/unwind/stack_rules.c", " && !entries_are_sure(scan->entries, code->vaddr + i)", ""),
    "stacks: .debug_frame where not all was searched": (
        "src/unwind/unwind_table.c", " && c->stack_rules.is_partial", " && 0"),
    "stacks: not rounded down": ("src/unwind/stack_rules.c", "+ scan->begin.below) & 15", "+ scan->begin.below) & 0"),
    "stacks: a callback from nowhere": (
        "src/unwind/stack_rules.c",
        "if (!is_caller_of(scan, i, callback->return_at, &return_at))\n\t\t\tcontinue;",
        "is_caller_of(scan, i, callback->return_at, &return_at);"),
    "stacks: a rule does not end": (
        "src/unwind/unwind_table.c", "rows_add(&c->rows, next->address + 1, c->current)", "0"),
    "stacks: none before a rule": ("src/unwind/stack_rules.c", "!a->rule.cfa_kind - !b->rule.cfa_kind",
        "!b->rule.cfa_kind - !a->rule.cfa_kind"),

    # rows and pages
    "rows: a page has no first row": (
        "src/unwind/unwind_table.c", "\t\t\terr = push_row(rows, 0, rows->current);\n", "\t\t\terr = 0;\n"),
    "rows: a page begins with nothing": (
        "src/unwind/unwind_table.c", "push_row(rows, 0, rows->current)", "push_row(rows, 0, 0)"),
    "rows: equal neighbours": (
        "src/unwind/unwind_table.c", "if (err || id == rows->current)", "if (err)"),
    "rows: two at one address": (
        "src/unwind/unwind_table.c", "if (!has_row_at(rows, address))", "if (1)"),
    "rows: rules without end": (
        "src/unwind/unwind_table.c", "\tif (rows->rule_nr >= UNWIND_RULES_MAX - 1)\n", "\tif (0)\n"),
    "rows: the last pages are missing": (
        "src/unwind/unwind_table.c", "int err = begin_pages(rows, rows->page_max);", "int err = 0;"),

    # functions
    "functions: no end": (
        "src/unwind/unwind_table.c", "if (!err && fde->end < next)", "if (0)"),
    "functions: over the next one": (
        "src/unwind/unwind_table.c", "fde->end < next ? fde->end : next;", "fde->end;"),
    "functions: a CIE's rows are the last one's": (
        "src/unwind/unwind_table.c", "if (c->program.cie != cie)", "if (!c->program.cie)"),
    "functions: as they come": ("src/unwind/cfi_entries.c", "\tif (is_sorted(entries))\n", "\tif (1)\n"),
    "functions: twice at one address": (
        "src/unwind/cfi_entries.c", "!kept || entries->fde[kept - 1].start != entries->fde[i].start", "1"),
    "functions: before the code": (
        "src/unwind/cfi_entries.c", "fde.start < entries->text_start || fde.start >= fde.end ||",
        "fde.start < entries->text_start ||"),
    "functions: behind the code": (
        "src/unwind/cfi_entries.c", "\n\t    fde.end > entries->text_end", " 0"),
    "entries: an unknown form is like any other": (
        "src/unwind/cfi_entries.c", "\t\tdefault:\n\t\t\tdata.is_cut = true;", "\t\tdefault:\n\t\t\tbreak;"),
    "entries: addresses are absolute": (
        "src/unwind/cfi_entries.c", "\t\t*ret += here;\n", ""),

    # instructions
    "program: states are not restored": (
        "src/unwind/cfi_program.c", "program->row = program->remembered[--program->remembered_nr];",
        "--program->remembered_nr;"),
    "program: states without end": (
        "src/unwind/cfi_program.c", "program->remembered_nr == REMEMBERED_MAX",
        "program->remembered_nr == REMEMBERED_MAX - 1"),
    "program: long CIEs": (
        "src/unwind/cfi_program.c", "cursor_left(&cie->program) > CIE_PROGRAM_MAX", "0"),
    "program: registers are not restored": (
        "src/unwind/cfi_program.c", "*column_of(program, &program->initial, low);",
        "*column_of(program, &program->row, low);"),
    "program: what makes no sense is passed over": (
        "src/unwind/cfi_program.c", "\t\telse\n\t\t\tprogram->is_wrong = true;\n\t}", "\t}"),
    "program: what is cut off is whole": (
        "src/unwind/cfi_program.c", "\tprogram->is_wrong |= program->code.is_cut;\n", ""),
    "program: addresses go back": ("src/unwind/cfi_program.c", "program->address < before", "0"),
    "program: offsets overflow": (
        "src/unwind/cfi_program.c", "&product) ? INT64_MAX :\n\t\t\t\t\t\t\t\t\t\t    product",
        "&product) ? 16 :\n\t\t\t\t\t\t\t\t\t\t    product"),
    "program: a CIE that advances": (
        "src/unwind/cfi_program.c", "program->is_wrong || program->address;", "program->is_wrong;"),

    # rules
    "rule: large offsets are cut": ("src/unwind/cfi_program.c", "return offset >= UNWIND_OFFSET_MIN &&", "return 1 ||"),
    "rule: any register": (
        "src/unwind/cfi_program.c", "(cfa->reg != machine->sp && cfa->reg != machine->fp) ||", ""),
    "rule: the return address is anywhere": (
        "src/unwind/cfi_program.c", " && return_address->offset == -8", ""),
    "rule: the return address is somewhere": (
        "src/unwind/cfi_program.c", "return_address->kind == COLUMN_AT_CFA && ", ""),
    "rule: the stack pointer is not the CFA": (
        "src/unwind/cfi_program.c", "row->sp.kind != COLUMN_UNSAID || ", ""),
    "rule: the root goes on": (
        "src/unwind/cfi_program.c", "row->return_address.kind == COLUMN_UNDEFINED", "0"),
    "rule: any function may look like a signal's": (
        "src/unwind/cfi_program.c", "program->cie->is_signal ? rule_of_signal(program->machine, row) : rule_of_call(program->machine, row)",
        "row->cfa.kind == COLUMN_IS_EXPRESSION ? rule_of_signal(program->machine, row) : rule_of_call(program->machine, row)"),
    "rule: a signal's function is like any other": (
        "src/unwind/cfi_program.c", "program->cie->is_signal ? rule_of_signal(program->machine, row) : rule_of_call(program->machine, row)",
        "rule_of_call(program->machine, row)"),
    "rule: a signal's pc is anywhere": (
        "src/unwind/cfi_program.c", " ||\n\t    return_offset != rule.cfa_off + 8", ""),
    "rule: any PLT": (
        "src/unwind/cfi_program.c", "literal >= DW_OP_lit0 && literal <= DW_OP_lit15 &&\n\t       ", ""),
    "rule: a lost frame pointer is the same": (
        "src/unwind/cfi_program.c", "\trule->fp_kind = UNWIND_FP_LOST;\n\tif (is_unchanged(fp))", "\trule->fp_kind = UNWIND_FP_SAME;\n\tif (is_unchanged(fp))"),

    # arm64
    "link: a return address that is saved alone is beside the frame pointer": (
        "src/unwind/cfi_program.c", "\trule->return_kind = UNWIND_RETURN_AT_CFA;\n", ""),
    "link: it is there for ever": ("bpf/shared/unwind_step.h", "\tframe->link = 0;\n", ""),
    "link: a signature stays": ("bpf/shared/unwind_step.h", "\tframe->pc = UNWIND_UNSIGNED(frame->pc);\n", ""),
    "link: none after a signal": ("bpf/shared/unwind_step.h", "\t\tframe->link = UNWIND_UNSIGNED(frame->link);\n", "\t\tframe->link = 0;\n"),
    "link: the end of a guess is a stack pointer": (
        "bpf/shared/unwind_step.h", "\tif (!needs_fp && frame->is_sp_lost)\n\t\treturn UNWIND_NO_RULE;", "\tif (0)\n\t\treturn UNWIND_NO_RULE;"),
    "link: any code is a signal's end": (
        "src/unwind/stack_code_arm64.c", " && !entries_are_sure(entries, vaddr)", ""),

    # the object
    "object: any machine": (
        "src/unwind/cfi_entries.c", "*ret = cfi_machine_of(header.e_machine);", "*ret = cfi_machine_of(EM_X86_64);"),
    "object: any size": (
        "src/unwind/cfi_entries.c", ">> UNWIND_PAGE_SHIFT >= UNWIND_PAGES_MAX - 1", "== 0"),
}
