/* measured.c - see measured.h. */
#include "measured.h"

#include <string.h>

bool measured_load(CsvTable *table, const char *path, const char *name, Alloc *alloc, Status *status)
{
    if (path != NULL) return csv_load(table, path, alloc, status);
    *table = (CsvTable){.alloc = alloc};
    for (size_t i = 0; i < measured_file_count; i++) {
        const MeasuredFile *file = &measured_files[i];
        if (strcmp(file->name, name) == 0) return csv_parse(table, name, (const char *)file->text, file->length, alloc, status);
    }
    return status_fail(status, STATUS_IO, "no measurement '%.60s' is built in", name);
}
