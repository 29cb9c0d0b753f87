/* kit_pmix - suppressions for the sanitizers, for tests that start the server of libpmix 4.2: it
 * leaks a little memory each time, and closes a pipe that its other thread may be using. */
#ifndef DROVER_KIT_PMIX_H
#define DROVER_KIT_PMIX_H

#define KIT_EXPORT __attribute__((visibility("default")))

KIT_EXPORT const char *__lsan_default_suppressions(void);
KIT_EXPORT const char *__asan_default_options(void);
KIT_EXPORT const char *__tsan_default_suppressions(void);

const char *__lsan_default_suppressions(void)
{
    return "leak:PMIx_server_init\nleak:pmix_server_message_handler";
}

const char *__asan_default_options(void)
{
    return "fast_unwind_on_malloc=0"; /* else the stack ends inside libpmix */
}

const char *__tsan_default_suppressions(void)
{
    return "race:libpmix.so\nrace:pmix_ptl_base_stop_listening";
}

#endif
