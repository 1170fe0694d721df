/* status.h - how the whole project reports errors.
 *
 * A Status is a code and one line of text. It is sticky: the first failure is kept, later ones are ignored, so a kernel or a
 * writer may go on calling and look once at the end. Codes are the programs' exit codes. Functions that can fail take a
 * `Status *` last and return true on success; nothing below main() prints or exits.
 */
#ifndef ATTNLAB_STATUS_H
#define ATTNLAB_STATUS_H

#include <stdbool.h>

typedef enum {
    STATUS_OK = 0,          /* all is well */
    STATUS_MISMATCH = 1,    /* a verdict is not the expected one, or a closed form disagrees */
    STATUS_USAGE = 2,       /* bad option, name or number */
    STATUS_INFEASIBLE = 3,  /* the configuration cannot exist: does not fit, overflows, lacks an instruction, walk too long */
    STATUS_IO = 4,          /* input, output or memory */
    STATUS_SKIPPED = 77     /* nothing to do on this machine (CTest's skip code) */
} StatusCode;

typedef struct {
    StatusCode code;
    char text[1024];        /* one line without newline; a profile error may hold three (the line and its caret) */
} Status;

#if defined(__GNUC__)
#define STATUS_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define STATUS_PRINTF(fmt, args)
#endif

/* Records a failure unless one is recorded already. Always returns false, so that `return status_fail(...)` reads well. */
bool status_fail(Status *status, StatusCode code, const char *format, ...) STATUS_PRINTF(3, 4);

static inline bool status_ok(const Status *status) { return status->code == STATUS_OK; }

#endif
