#include "collectives/bootstrap/task.h"

#include <semaphore.h>

#include "common/mem.h"
#include "tests/unit/test.h"

enum { LONG_MS = 60000 };

struct gated {
    struct task task;
    sem_t *open, *passed; /* outlive the task */
    pthread_t thread;
};

static void pass(struct task *t)
{
    struct gated *g = (struct gated *)t;
    g->thread = pthread_self();
    while (sem_wait(g->open) != 0)
        ;
    sem_post(g->passed);
}

static struct gated *make(sem_t *open, sem_t *passed)
{
    struct gated *g = xzalloc(sizeof *g);
    sem_init(open, 0, 0);
    sem_init(passed, 0, 0);
    g->open = open;
    g->passed = passed;
    return g;
}

TEST(a_task_runs_in_another_thread_and_its_end_is_awaited)
{
    sem_t open, passed;
    struct gated *g = make(&open, &passed);
    task_start(&g->task, pass);
    CHECK(!task_wait(&g->task, 1));
    CHECK(!task_wait(&g->task, -5)); /* a deadline that has passed */
    sem_post(&open);
    CHECK(task_wait(&g->task, LONG_MS));
    CHECK(!pthread_equal(g->thread, pthread_self()));
    CHECK(task_wait(&g->task, 0)); /* again */
    task_free(&g->task);
}

TEST(a_task_that_is_left_behind_keeps_its_memory_until_its_call_returns)
{
    sem_t open, passed;
    struct gated *g = make(&open, &passed);
    task_start(&g->task, pass);
    CHECK(!task_wait(&g->task, 1));
    task_free(&g->task);
    sem_post(&open); /* with a sanitizer, a use after free or a leak fails here */
    while (sem_wait(&passed) != 0)
        ;
    task_free(NULL);
}
