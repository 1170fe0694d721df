/* measured.c - see measured.h. */
#include "measured.h"

#include <string.h>

static const MeasuredFile *built_in(const char *name)
{
    for (size_t i = 0; i < measured_file_count; i++)
        if (strcmp(measured_files[i].name, name) == 0) return &measured_files[i];
    return NULL;
}

bool measured_load(CsvTable *table, const char *path, const char *name, Alloc *alloc, Status *status)
{
    const MeasuredFile *file = built_in(path != NULL ? path : name);
    *table = (CsvTable){.alloc = alloc};
    if (file != NULL) return csv_parse(table, file->name, (const char *)file->text, file->length, alloc, status);
    if (path != NULL) return csv_load(table, path, alloc, status);
    return status_fail(status, STATUS_IO, "no measurement '%.60s' is built in", name);
}
