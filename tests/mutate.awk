# mutate.awk - lists one-line mutations of C sources: file, line, operator, mutated line (tabs between). See mutate.sh.
#
#   awk -v equivalents=mutate_equivalents.txt -f mutate.awk sim/ops.c algos/fa2.c ...
#
# A line is searched with its strings and comments blanked, so that only code is mutated. Left alone, because no count and no
# number depends on it: error texts, memory management, declarations, preprocessor lines, the warps of a stream (for timelines).

function trimmed(text) { sub(/^ +/, "", text); sub(/ +$/, "", text); return text }

function emit(operator, text,    key) {
    key = FILENAME "\t" trimmed($0) "\t" trimmed(text)
    if (key in reason) { seen[key] = 1; return }
    print FILENAME "\t" FNR "\t" operator "\t" text
}

function splice(start, width, to) { return substr($0, 1, start - 1) to substr($0, start + width) }

# Every occurrence of a literal.
function each(operator, from, to,    offset, at) {
    for (offset = 0; (at = index(substr(code, offset + 1), from)) > 0; offset += at)
        emit(operator, splice(offset + at, length(from), to))
}

# Every occurrence of a whole identifier.
function each_word(from, to,    offset, at, before, after) {
    for (offset = 0; (at = index(substr(code, offset + 1), from)) > 0; offset += at) {
        before = substr(code, offset + at - 1, 1)
        after = substr(code, offset + at + length(from), 1)
        if (offset + at == 1) before = ""
        if (before !~ /[A-Za-z0-9_]/ && after !~ /[A-Za-z0-9_]/) emit(from " -> " to, splice(offset + at, length(from), to))
    }
}

function swap_words(a, b) { each_word(a, b); each_word(b, a) }

# Decimal constants one up and one down; not in names, reals or hexadecimal numbers.
function constants(    rest, offset, number, before, after) {
    rest = code
    offset = 0
    while (match(rest, /[0-9]+/)) {
        number = substr(rest, RSTART, RLENGTH)
        before = substr(code, offset + RSTART - 1, 1)
        after = substr(code, offset + RSTART + RLENGTH, 1)
        if (offset + RSTART == 1) before = ""
        if (before !~ /[A-Za-z0-9_.]/ && after !~ /[A-Za-z0-9_.]/) {
            emit("constant + 1", splice(offset + RSTART, RLENGTH, number + 1))
            if (number > 0) emit("constant - 1", splice(offset + RSTART, RLENGTH, number - 1))
        }
        offset += RSTART + RLENGTH - 1
        rest = substr(code, offset + 1)
    }
}

# checked_mul(a, b, ...) without its second factor.
function dropped_factors(    rest, offset, head) {
    rest = code
    offset = 0
    while (match(rest, /checked_mul\([^(),]+, [^(),]+,/)) {
        head = substr(rest, RSTART, RLENGTH)
        sub(/, [^,]+,$/, "", head)
        emit("dropped factor", splice(offset + RSTART, RLENGTH, head ", 1,"))
        offset += RSTART + RLENGTH - 1
        rest = substr(code, offset + 1)
    }
}

# A statement of one line is left out.
function dropped_statement(    indent) {
    if (!begins || code !~ /;[ ]*$/ || code !~ /^ +[A-Za-z_*]/) return
    if (code ~ /^ *(return|const|static|typedef|struct|enum|else)/) return
    if (code ~ /^ +[A-Za-z_][A-Za-z0-9_]* \*?[a-z_A-Z0-9]+( =.*)?;/) return            # a declaration
    indent = $0
    sub(/[^ ].*/, "", indent)
    emit("dropped statement", indent ";")
}

# Blanks comments and strings; keeps every column.
function blank(line,    i, c, out, quote) {
    out = ""
    for (i = 1; i <= length(line); i++) {
        c = substr(line, i, 1)
        if (comment) {
            if (c == "*" && substr(line, i + 1, 1) == "/") { comment = 0; out = out " "; i++ }
            out = out " "
        } else if (quote != "") {
            if (c == "\\") { out = out " "; i++ }
            else if (c == quote) quote = ""
            out = out " "
        } else if (c == "/" && substr(line, i + 1, 1) == "*") { comment = 1; out = out "  "; i++ }
        else if (c == "\"" || c == "'") { quote = c; out = out " " }
        else out = out c
    }
    return out
}

BEGIN {
    FS = "\t"
    while (equivalents != "" && (getline entry < equivalents) > 0) {
        if (entry ~ /^#/ || entry == "") continue
        split(entry, field, "\t")
        reason[field[1] "\t" field[2] "\t" field[3]] = field[4]
    }
}

FNR == 1 { comment = 0; failing = 0; begins = 1 }

{
    code = blank($0)
    if (code ~ /^ *$/) next
    if (code ~ /status_fail/) failing = 1
    skip = failing || code ~ /^#|^[a-z].*[^;{]$|^[a-z].*;$|^static [a-zA-Z_ *]*\(/ ||
           code ~ /alloc|capacity|sizeof|snprintf|strncat|strcmp|names|\[[0-9]+\]( =|;)|Status attempt|_check\(|= stream\(/
    if (!skip) {
        each("+ to -", " + ", " - ");     each("- to +", " - ", " + ");     each("* to +", " * ", " + ")
        each("/ to *", " / ", " * ");     each("% to /", " % ", " / ");     each("+= to -=", " += ", " -= ")
        each("< to <=", " < ", " <= ");   each("<= to <", " <= ", " < ");   each("> to >=", " > ", " >= ")
        each(">= to >", " >= ", " > ");   each("== to !=", " == ", " != "); each("!= to ==", " != ", " == ")
        each("&& to ||", " && ", " || "); each("|| to &&", " || ", " && "); each("dropped !", "(!", "(")
        each("ceil to floor", "ceil_div(", "MUTANT_FLOOR_DIV(")
        swap_words("min_u64", "max_u64")
        swap_words("true", "false")
        swap_words("Br", "Bc");           swap_words("Nq", "Nk");           swap_words("seqlen_q", "seqlen_k")
        swap_words("low", "high");        swap_words("first", "end");       swap_words("whole", "tail")
        swap_words("l2_to_sm", "sm_to_l2"); swap_words("hbm_read", "hbm_write"); swap_words("touched", "written")
        swap_words("shape_m", "shape_n"); swap_words("left_reads", "right_reads");
        if (code !~ /simple/) swap_words("area", "visible")     # what takes a shortcut is not masked
        swap_words("rows", "cols");       each_word("seeing_rows", "rows"); each_word("heads", "batch")
        constants()
        dropped_factors()
        dropped_statement()
    }
    if (failing && code ~ /;/) failing = 0
    begins = code ~ /[;{}:] *$/ || code ~ /^ *(if|for|while|else)/
}

END {
    for (key in reason)
        if (!(key in seen)) {
            sub(/\t/, ": ", key)
            sub(/\t/, " -> ", key)
            print "mutate: no such mutation any more, take it out of the table of equivalents: " key >"/dev/stderr"
        }
}
