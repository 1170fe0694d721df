/* published_rows.h - printed bars beside the time model: the rows that s3_5, s4_6 and s5_5 share. */
#ifndef ATTNLAB_PUBLISHED_ROWS_H
#define ATTNLAB_PUBLISHED_ROWS_H

#include "timed_run.h"

/* Who the model takes for a printed kernel. */
typedef struct {
    const char *kernel; /* as in published.h */
    const Algorithm *algorithm;
    const BackwardVariant *backward; /* NULL: forward */
    Fa4Options fa4;
    uint64_t longest; /* longer sequences are left out: their walk takes seconds. 0: all */
} PublishedModel;

enum { PUBLISHED_COLUMNS = 10 };
extern const Column published_columns[PUBLISHED_COLUMNS];

/* Of the errors in percent, over rows with a model. */
typedef struct {
    uint64_t count;
    double low, high, sum_of_absolutes;
    double slowest, fastest; /* the model's TFLOP/s */
} ModelErrors;

double mean_absolute(const ModelErrors *errors);

/* A row for each bar of the kernel in the figure: printed and modelled TFLOP/s, the error, and what binds in the model. `errors`
 * adds up over calls. False as timed_run. */
bool published_rows(Table *table, PublishedFigure figure, const PublishedModel *model, const Profile *chip, ModelErrors *errors,
                    Alloc *alloc, Status *status);

/* The error in percent, without a sign that a rounded zero would carry. */
void cell_error(Table *table, double ours, double theirs);

/* Which bars, and what is asked of each: its TFLOP/s over those of the kernel `over` in the same figure, or over `scale` (0: 1)
 * when that is NULL. */
typedef struct {
    PublishedFigure figure;
    const char *kernel, *over;
    double scale;
    uint64_t head_dim; /* 0: all */
    uint64_t from;     /* the shortest sequence */
    bool causal_only;
} BarQuery;

typedef struct {
    double low, high, mean;
    uint64_t count;
} BarRange;

/* All zero when there is no such bar. */
BarRange bar_range(const BarQuery *query);

#endif
