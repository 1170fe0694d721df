/* fuzz_profile.c - the profile parser under libFuzzer; not part of the build. From the project's top, with the table of built-in
 * profiles taken from a build in build/:
 *
 *     clang -std=c11 -g -O1 -fsanitize=fuzzer,address,undefined -I. tests/fuzz_profile.c sim/profile*.c sim/suggest.c
 * sim/status.c \ sim/alloc.c build/sim/profile_builtin.c -o fuzz_profile mkdir corpus && ./fuzz_profile -max_total_time=60 corpus
 * hw_profiles tests/profiles
 */
#include "sim/profile.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Profile profile;
    Status status = {0};
    const bool ok = profile_parse((const char *)data, size, "fuzz", &profile, &status);
    if (ok != status_ok(&status)) abort(); /* the result and the status say the same */
    if (!ok && (status.code != STATUS_USAGE || strncmp(status.text, "fuzz:", 5) != 0)) abort();
    return 0;
}
