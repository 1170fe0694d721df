#!/bin/sh
# mutate.sh - do the tests notice when a counter is broken?
#
#     sh tests/mutate.sh --sample 32        what continuous integration runs
#     sh tests/mutate.sh                    every mutation (an hour)
#     sh tests/mutate.sh --only algos/fa2.c --list
#
# Each mutation changes one line of the counting code (mutate.awk: operators, constants, swapped names, left-out statements and
# factors). The changed file alone is compiled and linked with the other objects into the tests, in order of their speed; the
# first test that fails kills the mutation. A copy of the tree is used: nothing here is touched. Mutations that cannot matter are
# listed with the reason in mutate_equivalents.txt and are not drawn; those that do not compile are not counted.
#
#     --sample N   draw N mutations (by --seed, the same everywhere); default: all
#     --seed S     default 1
#     --floor P    exit 1 when less than P % are killed; default 75
#     --only "F"   mutate these files alone
#     --jobs J     default 2
#     --tests "T"  tests to run, fastest first
#     --list       print the mutations and stop
#     --cc CC, --cmake CMAKE
#
# Exit: 0 enough killed, 1 too few, 2 usage or the tests fail without any mutation, 77 no compiler.
# Needs sh, awk, a C compiler and CMake.
LC_ALL=C
export LC_ALL
root=$(cd "$(dirname "$0")/.." && pwd) || exit 2
sample='' seed=1 floor=75 only='' jobs=2 list=no cc=${CC:-cc} cmake=cmake
tests='test_coverage test_machine test_ops test_attention test_closed_forms test_field_cases test_invariants test_forward
    test_out_of_memory test_split_heuristics test_field_cases_splits test_decode test_counts test_fp8_counts test_counts_backward test_backward test_fa4'
while [ $# -gt 0 ]; do
    case $1 in
    --list) list=yes; shift; continue ;;
    --sample | --seed | --floor | --only | --jobs | --tests | --cc | --cmake) ;;
    *) echo "mutate: unknown option '$1'" >&2; exit 2 ;;
    esac
    [ $# -ge 2 ] || { echo "mutate: $1: the value is missing" >&2; exit 2; }
    case $1 in
    --sample) sample=$2 ;;
    --seed) seed=$2 ;;
    --floor) floor=$2 ;;
    --only) only=$2 ;;
    --jobs) jobs=$2 ;;
    --tests) tests=$2 ;;
    --cc) cc=$2 ;;
    --cmake) cmake=$2 ;;
    esac
    shift 2
done
command -v "$cc" >/dev/null 2>&1 || { echo "mutate: no compiler '$cc': skipped" >&2; exit 77; }

work=${TMPDIR:-/tmp}/attnlab-mutate.$$
tab=$(printf '\t')
mkdir "$work" || exit 2
workers=''
# shellcheck disable=SC2086
trap '[ -z "$workers" ] || kill $workers; rm -rf "$work"' EXIT
trap 'exit 2' HUP INT TERM

# ---- the mutations ----
cd "$root" || exit 2
# shellcheck disable=SC2086
if [ -n "$only" ]; then set -- $only; else
    set -- sim/ops.c sim/machine.c sim/coverage.c
    for file in algos/*.c; do
        [ "$file" = algos/oracle.c ] || set -- "$@" "$file"
    done
fi
table=tests/mutate_equivalents.txt
if [ -n "$only" ]; then
    for file in $only; do grep "^$file$tab" $table; done >"$work/equivalents"
    table=$work/equivalents
fi
awk -v equivalents="$table" -f tests/mutate.awk "$@" >"$work/all" || exit 2
total=$(wc -l <"$work/all")
if [ -n "$sample" ]; then
    # A small linear congruential generator: awk's own rand() differs from awk to awk.
    awk -v seed="$seed" '{ seed = (seed * 7141 + 54773 + NR) % 259200; printf "%06d\t%s\n", seed, $0 }' "$work/all" |
        sort | cut -f 2- | head -n "$sample" >"$work/chosen"
else
    cp "$work/all" "$work/chosen"
fi
if [ $list = yes ]; then
    cut -f 1-3 "$work/chosen" | paste - "$work/chosen" | cut -f 1-3,7
    exit 0
fi

# ---- a copy of the tree, its objects, and the tests without mutation ----
cp -R sim algos tests hw_profiles "$work"
cd "$work" || exit 2
for file in hw_profiles/*.txt; do basename "$file" .txt; done >names
"$cmake" -DDIRECTORY="$work/hw_profiles" -DSUFFIX=.txt -DNAMES="$work/names" -DHEADER=sim/profile_builtin.h \
    -DTYPE=BuiltinProfile -DPREFIX=builtin_profile -DOUTPUT="$work/sim/profile_builtin.c" -P sim/embed_files.cmake || exit 2

compile() { # source object [flag...]
    source=$1 object=$2
    shift 2
    "$cc" -std=c11 -O1 -w -ffp-contract=off -I "$work" -DATTNLAB_PROFILES_FROM_BIN='""' "-DTEST_DATA=\"$work/tests\"" \
        '-DMUTANT_FLOOR_DIV(a,b)=((a)/(b))' "$@" -c "$source" -o "$object" 2>/dev/null
}
object_of() { echo "$work/objects/$(echo "$1" | tr / _).o"; }

# A mutated object stands before the library, so that the library's own is not drawn.
link_and_run() { # test directory mutated-object
    "$cc" "$work/$1.o" $3 "$work/objects.a" -lm -o "$2/$1" 2>/dev/null || return 1
    (
        ulimit -t 60 2>/dev/null
        ulimit -v 4000000 2>/dev/null
        exec "$2/$1" >/dev/null 2>&1
    ) 2>/dev/null
}

mkdir objects
present=''
compile_share() { # number: every jobs-th source
    count=0
    for file in sim/*.c algos/*.c tests/support/*.c; do
        count=$((count + 1))
        [ $((count % jobs)) -ne "$1" ] || compile "$file" "$(object_of "$file")" || echo "$file" >>failed
    done
}
job=0
while [ $job -lt "$jobs" ]; do
    compile_share $job &
    workers="$workers $!" job=$((job + 1))
done
wait
workers=''
for test in $tests; do
    [ -f "tests/$test.c" ] || continue
    present="$present $test"
    compile "tests/$test.c" "$test.o" || echo "$test.c" >>failed
done
[ ! -f failed ] || { echo "mutate: does not compile: $(cat failed)" >&2; exit 2; }
ar rc objects.a objects/*.o || exit 2
for test in $present; do
    link_and_run "$test" "$work" '' || { echo "mutate: $test fails, or does not link, without any mutation" >&2; exit 2; }
done

# ---- one mutation after the other ----
judge() { # directory file line text: killed by which test, survived or invalid
    awk -v line="$3" 'NR == line { print ENVIRON["MUTANT"]; next } { print }' "$2" >"$1/mutant.c"
    compile "$1/mutant.c" "$1/mutant.o" -I "$work/$(dirname "$2")" || { echo invalid; return; }
    for test in $present; do
        { link_and_run "$test" "$1" "$1/mutant.o"; } 2>/dev/null || { echo "killed by $test"; return; }
    done
    echo survived
}
work_on_share() { # number
    directory=$work/job$1
    mkdir "$directory"
    awk -v jobs="$jobs" -v share="$1" 'NR % jobs == share' chosen >"$directory/share"
    while IFS=$tab read -r file line operator text; do
        MUTANT=$text
        export MUTANT
        verdict=$(judge "$directory" "$file" "$line" "$text")
        original=$(sed -n "${line}p" "$file" | sed "s/^ *//")
        printf "%s\t%s:%s\t%s\t%s\t%s\n" "$verdict" "$file" "$line" "$operator" "$original" "${text#"${text%%[! ]*}"}" \
            >>"$directory/results"
    done <"$directory/share"
}
job=0
while [ $job -lt "$jobs" ]; do
    work_on_share $job &
    workers="$workers $!" job=$((job + 1))
done
wait
workers=''

# ---- the account ----
cat job*/results 2>/dev/null | sort >results
awk -F '\t' -v total="$total" -v floor="$floor" -v seed="$seed" '
    { verdict = $1; sub(/ by .*/, "", verdict); count[verdict]++ }
    verdict == "killed" { test = $1; sub(/.* /, "", test); by[test]++ }
    verdict == "killed" { printf "killed    %s (%s; %s): %s\n", $2, $3, test, $5 }
    verdict == "survived" { printf "SURVIVED  %s (%s)\n            was  %s\n            now  %s\n", $2, $3, $4, $5 }
    END {
        judged = count["killed"] + count["survived"]
        rate = judged > 0 ? 100 * count["killed"] / judged : 0
        printf "mutations: %d of %d (seed %s): %d killed, %d survived, %d do not compile\n", NR, total, seed,
               count["killed"], count["survived"], count["invalid"]
        for (test in by) printf "  %d by %s\n", by[test], test
        printf "kill rate %.1f %%, floor %s %%\n", rate, floor
        exit rate < floor || judged == 0
    }' results
