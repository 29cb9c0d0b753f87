/* xid - Xid errors: what NVIDIA's driver writes to the kernel's log, and tells those who listen for
 * events, if a GPU or its program fails.
 * Pure. */
#pragma once

#include <stdbool.h>

/* What an error asks for. */
enum xid_class {
    XID_IGNORE,  /* nothing */
    XID_PROGRAM, /* start the program again: the GPU is well */
    XID_LOOK,    /* look further: the code alone does not tell */
    XID_RESET,   /* reset the GPU */
    XID_RESTART  /* restart the machine */
};

struct xid {
    int code;
    char bus_id[24]; /* "0000:3b:00"; empty: unknown */
};

/* Parses a message of the kernel's log: "NVRM: Xid (PCI:0000:3b:00): 79, pid=…". Returns false if
 * it is not an Xid. */
bool xid_parse(struct xid *out, const char *text);

/* Describes an error: "Xid 79 of GPU 0000:3b:00, 5 min ago: the GPU has fallen off the bus". The
 * caller frees the text. */
char *xid_describe(const struct xid *x, double age_s);

/* Returns what a code asks for: "reset the GPU", "restart the machine"; NULL: neither. */
const char *xid_advice(int code);

/* Returns the class of a code; XID_LOOK for an unknown one. `*meaning` is a text of a few words. */
enum xid_class xid_classify(int code, const char **meaning);
