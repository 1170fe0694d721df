/* measured.h - the measurements of hw_profiles/measured/ as the build embeds them (h200_*.csv; that folder's README.md says how they were
 * taken), and their reading. */
#ifndef ATTNLAB_MEASURED_H
#define ATTNLAB_MEASURED_H

#include "csv_table.h"

typedef struct {
    const char *name;          /* the file's name without .csv */
    const unsigned char *text; /* not terminated */
    size_t length;
} MeasuredFile;

extern const MeasuredFile measured_files[]; /* sorted by name */
extern const size_t measured_file_count;

/* The built-in file called `path`, else the file there; when `path` is NULL, the built-in one called `name`. csv_free is the caller's even after a failure. */
bool measured_load(CsvTable *table, const char *path, const char *name, Alloc *alloc, Status *status);

#endif
