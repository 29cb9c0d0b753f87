/* kit_zmq - for tests that use ZeroMQ: its threads hand messages over in a way that the thread
 * sanitizer, which sees no code of libzmq's, cannot follow. */
#ifndef DROVER_KIT_ZMQ_H
#define DROVER_KIT_ZMQ_H

__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);

const char *__tsan_default_suppressions(void)
{
    return "called_from_lib:libzmq.so\nrace:libzmq.so\n";
}

#endif
