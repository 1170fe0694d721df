/* test_output.c - files are written whole or not at all. Works in a directory of its own under the current one. */
#include "tests/test.h"

#include "experiments/support/output.h"
#include "experiments/support/platform.h"

#include <stdlib.h>

#define DIRECTORY "test_output_files/deeper"

/* What a file holds; "(none)" when there is none. */
static const char *content(const char *path, char buffer[64])
{
    FILE *file = fopen(path, "rb");
    strcpy(buffer, "(none)");
    if (file == NULL) return buffer;
    const size_t length = fread(buffer, 1, 63, file);
    buffer[length] = '\0';
    fclose(file);
    return buffer;
}

static void put(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL) return;
    fputs(text, file);
    fclose(file);
}

static void test_files(Test *t)
{
    char buffer[64];
    Status status = {0};
    check_true(t, output_write(DIRECTORY "/a.txt", "one", 3, &status), "a new file");
    check_text(t, content(DIRECTORY "/a.txt", buffer), "one", "its content");
    check_true(t, output_write(DIRECTORY "/a.txt", "second", 6, &status), "an old file");
    check_text(t, content(DIRECTORY "/a.txt", buffer), "second", "is replaced");
    check_text(t, content(DIRECTORY "/a.txt.part0", buffer), "(none)", "no part is left");
    check_true(t, output_write(DIRECTORY "/empty.txt", NULL, 0, &status), "nothing to write");
    check_text(t, content(DIRECTORY "/empty.txt", buffer), "", "an empty file");

    put(DIRECTORY "/b.txt.part0", "of another run");
    check_true(t, output_write(DIRECTORY "/b.txt", "mine", 4, &status), "beside the part of another run");
    check_text(t, content(DIRECTORY "/b.txt.part0", buffer), "of another run", "which stays");
    check_text(t, content(DIRECTORY "/b.txt", buffer), "mine", "and does not disturb");
    check_true(t, status_ok(&status), status.text);
}

static void test_failures(Test *t)
{
    static const char *const paths[] = {DIRECTORY "/no/such/directory/a.txt", DIRECTORY, ""};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        Status status = {0};
        check_true(t, !output_write(paths[i], "x", 1, &status), paths[i]);
        check_i64(t, status.code, STATUS_IO, "exit code");
        check_true(t, strncmp(status.text, "cannot write ", 13) == 0, status.text);
    }
    if (platform_is_special("/dev/full")) {
        Status status = {0};
        check_true(t, !output_write("/dev/full", "x", 1, &status), "a full device");
        check_i64(t, status.code, STATUS_IO, "exit code of a full device");
        check_true(t, platform_is_special("/dev/full"), "the device is still one");
    }
    Status failed = {.code = STATUS_USAGE};
    char buffer[64];
    check_true(t, !output_write(DIRECTORY "/never.txt", "x", 1, &failed), "after a failure");
    check_text(t, content(DIRECTORY "/never.txt", buffer), "(none)", "nothing is written");
}

int main(void)
{
    Test t = {0};
    check_true(&t, platform_make_directories(DIRECTORY), "make directories");
    check_true(&t, platform_make_directories(DIRECTORY "/"), "again");
    test_files(&t);
    test_failures(&t);
    static const char *const left[] = {"/a.txt", "/b.txt", "/b.txt.part0", "/empty.txt", ""};
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++) {
        char path[128];
        snprintf(path, sizeof path, DIRECTORY "%s", left[i]);
        check_true(&t, remove(path) == 0, path);
    }
    check_true(&t, remove("test_output_files") == 0, "nothing else was left");
    return test_end(&t, "test_output");
}
