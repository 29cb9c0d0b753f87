/* top_model - decides what `drover top` shows: rows of cells for GPUs, processes and jobs. */
#pragma once

#include "launcher/top/top_node.h"

/* ---- whose process it is -------------------------------------------------------------------- */

/* What /proc shows of a process's job. A text is NULL if the variable is not set, or cannot be
 * read. */
struct top_origin {
    const char *job_id, *rank, *sweep, *trial; /* its environment, as drover sets it for ranks */
    const pid_t *ancestors;                    /* from its parent on */
    int ancestor_count;
};

/* Sets the process's job, sweep, trial and rank. The environment decides. A process without one
 * belongs to the job whose drover is its nearest ancestor, unless that has several. */
void top_model_assign(struct top_process *p, const struct top_origin *from,
                      const struct registry_list *jobs);

/* ---- rows ----------------------------------------------------------------------------------- */

enum top_section { TOP_GPUS, TOP_PROCESSES, TOP_JOBS, TOP_SECTIONS };

struct top_column {
    const char *title;
    int least;    /* cells that it has at least, so that it does not move; 0: those of the title */
    int priority; /* a narrow terminal drops the highest first; 0: never */
    bool right;   /* aligned to the right */
    bool fills;   /* gets the rest of the line, and is cut to it */
};
enum { TOP_COLUMNS_MAX = 16 };

/* Writes the columns of a section, and returns their number. */
int top_model_columns(struct top_column out[TOP_COLUMNS_MAX], enum top_section section);

struct top_row {
    enum top_section section;
    char **cells; /* strv, one per column */
};

struct top_view {
    struct top_row *rows; /* in the order of the sections */
    int count;
    char **notes;       /* strv: what is not shown, and why */
    char *summary;      /* "a01: 8 GPUs, 3 processes, 2 jobs, 1 sweep, 4 trials" */
    bool several_nodes; /* otherwise the first column, NODE, is empty */
};

enum top_sort { TOP_BY_INDEX, TOP_BY_UTILISATION, TOP_BY_MEMORY, TOP_BY_POWER, TOP_SORTS };
extern const char *const top_model_sort_names[TOP_SORTS];

/* Makes the rows. GPUs are sorted by node and index, or by a value, largest first and unknown ones
 * last. The processes have the order of their GPUs; the larger ones precede. The oldest jobs
 * precede, and a sweep precedes its trials. */
void top_model_view(struct top_view *out, const struct top_node *nodes, int count,
                    enum top_sort sort);
void top_model_view_end(struct top_view *v);
AUTO_DEFINE_STRUCT(top_view, struct top_view, top_model_view_end)
