/* test_history_peaks - the peaks of a program, from the stored jobs. */
#include "launcher/jobs/history_peaks.h"

#include "launcher/jobs/history_jobs.h"
#include "tests/unit/kit_root.h"

TEST(peaks_are_those_of_the_program_and_its_options)
{
    const char *root = new_root();
    setenv("XDG_STATE_HOME", root, 1);
    struct history_peak *peaks = NULL;
    int n = -1;
    CHECK_INT(history_peaks_read(&peaks, &n, "/home/ada/train.py", NULL, NULL), 0);
    CHECK_INT(n, 0);
    CHECK(!peaks);
    struct history_job j = {.job = (char *)"j",
                            .program = (char *)"/home/ada/train.py",
                            .hash = "0123456789abcdef",
                            .batch = 8,
                            .gpu = (char *)"NVIDIA H100",
                            .peaks = (char *)"{}",
                            .end_ms = 9000,
                            .peak_bytes = 30};
    CHECK_INT(history_jobs_put(&j, NULL), 0);
    j.end_ms = 10000;
    j.batch = 16;
    j.peak_bytes = 50;
    CHECK_INT(history_jobs_put(&j, NULL), 0);
    j.end_ms = 11000;
    j.peak_bytes = -1; /* unknown: not a peak */
    CHECK_INT(history_jobs_put(&j, NULL), 0);
    j.peak_bytes = 70;
    snprintf(j.hash, sizeof j.hash, "fedcba9876543210");
    CHECK_INT(history_jobs_put(&j, NULL), 0);
    j.program = (char *)"other";
    CHECK_INT(history_jobs_put(&j, NULL), 0);
    CHECK_INT(history_peaks_read(&peaks, &n, "/home/ada/train.py", "0123456789abcdef", NULL), 0);
    CHECK_INT(n, 2);
    CHECK_INT(peaks[0].batch, 16); /* newest first */
    CHECK_INT(peaks[0].peak_bytes, 50);
    CHECK_STR(peaks[0].gpu, "NVIDIA H100");
    CHECK_INT(peaks[1].batch, 8);
    CHECK_INT(peaks[1].peak_bytes, 30);
    free(peaks);
    CHECK_INT(history_peaks_read(&peaks, &n, "/home/ada/train.py", NULL, NULL), 0);
    CHECK_INT(n, 3);
    free(peaks);
    remove_root(root);
}
