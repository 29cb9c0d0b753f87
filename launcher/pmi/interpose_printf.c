/* Linked into drover-hpo only. */
#include <dlfcn.h>
#include <printf.h>
#include <string.h>

#include "launcher/pmi/interpose.h"

/* libquadmath calls this when it is loaded. The result -1 means that there is no room for a further
 * type. */
__attribute__((visibility("default"))) int register_printf_type(printf_va_arg_function *read_arg)
{
    int (*original)(printf_va_arg_function *) = NULL;
    if (!interpose_enabled()) {
        void *f = dlsym(RTLD_NEXT, "register_printf_type");
        memcpy(&original, &f, sizeof f);
    }
    return original ? original(read_arg) : -1;
}
