/* status.c - see status.h. */
#include "status.h"

#include <stdarg.h>
#include <stdio.h>

bool status_fail(Status *status, StatusCode code, const char *format, ...)
{
    if (status->code != STATUS_OK) return false;
    status->code = code;
    va_list args;
    va_start(args, format);
    vsnprintf(status->text, sizeof status->text, format, args);
    va_end(args);
    return false;
}
