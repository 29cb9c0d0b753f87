/* no_memory - if there is no memory, jansson and libuv end the process with a message, as xzalloc()
 * does. */
#ifndef DROVER_NO_MEMORY_H
#define DROVER_NO_MEMORY_H

/* Main programs call this first. Otherwise, without memory, libuv calls abort() without a message,
 * and jansson returns a NULL that the next of its functions takes for a missing value. A library
 * must not call this: the allocators are those of the whole process. */
void no_memory_exits(void);

#endif
