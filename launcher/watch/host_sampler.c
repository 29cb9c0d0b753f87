#include "launcher/watch/host_sampler.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "launcher/node/cpu_list.h"

enum { UNKNOWN = JOB_USAGE_UNKNOWN };

struct host_sampler {
    hwloc_bitmap_t cpus; /* NULL: all */
    char *root;
};

struct host_sampler *host_sampler_open(const char *cpus, const char *root)
{
    struct host_sampler *h = xzalloc(sizeof *h);
    h->root = xstrdup(root);
    if (cpus && (h->cpus = hwloc_bitmap_alloc()) && cpu_list_parse(h->cpus, cpus, NULL) < 0) {
        hwloc_bitmap_free(h->cpus); /* cannot happen: a plan has written the list */
        h->cpus = NULL;
    }
    return h;
}

void host_sampler_close(struct host_sampler *h)
{
    if (!h)
        return;
    hwloc_bitmap_free(h->cpus);
    free(h->root);
    free(h);
}

/* ---- files ---------------------------------------------------------------------------------- */

static char *read_text(const struct host_sampler *h, const char *path)
{
    AUTO(free) char *whole = xasprintf("%s%s", h->root, path);
    return file_text(whole);
}

/* Returns the number with which a file begins, or UNKNOWN. */
static int64_t read_number(const struct host_sampler *h, const char *dir, const char *name)
{
    AUTO(free) char *path = xasprintf("%s%s/%s", h->root, dir, name);
    long long value;
    return file_scan(path, "%lld", &value) == 1 && value >= 0 ? value : UNKNOWN;
}

static void add(int64_t *sum, int64_t value)
{
    if (value >= 0)
        *sum = (*sum < 0 ? 0 : *sum) + value;
}

/* ---- CPUs and disks ------------------------------------------------------------------------- */

/* Sums the lines "cpu3 USER NICE SYSTEM IDLE IOWAIT IRQ SOFTIRQ STEAL …", in clock ticks. */
static void read_cpus(const struct host_sampler *h, struct host_sample *out)
{
    AUTO(free) char *text = read_text(h, "/proc/stat");
    double all = 0, idle = 0, wait = 0, tick_s = 1.0 / (double)sysconf(_SC_CLK_TCK);
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) && strncmp(line, "cpu", 3) == 0;) {
        unsigned cpu;
        unsigned long long t[8] = {0};
        if (sscanf(line, "cpu%u %llu %llu %llu %llu %llu %llu %llu %llu", &cpu, &t[0], &t[1], &t[2],
                   &t[3], &t[4], &t[5], &t[6], &t[7]) < 6 ||
            (h->cpus && !hwloc_bitmap_isset(h->cpus, cpu)))
            continue;
        for (size_t i = 0; i < COUNT_OF(t); i++)
            all += (double)t[i];
        idle += (double)t[3];
        wait += (double)t[4];
    }
    if (all <= 0)
        return;
    out->cpu_s = all * tick_s;
    out->cpu_busy_s = (all - idle - wait) * tick_s;
    out->cpu_wait_s = wait * tick_s;
}

/* The kernel counts each transfer once here, however many layers the block devices have. */
static void read_disks(const struct host_sampler *h, struct host_sample *out)
{
    enum { KIB = 1024 };
    AUTO(free) char *text = read_text(h, "/proc/vmstat");
    char name[64];
    long long value;
    for (char *rest = text, *line;
         (line = strsep(&rest, "\n")) && sscanf(line, "%63s %lld", name, &value) == 2;) {
        if (strcmp(name, "pgpgin") == 0)
            out->disk_read_bytes = value * KIB;
        if (strcmp(name, "pgpgout") == 0)
            out->disk_written_bytes = value * KIB;
    }
}

/* ---- the network ---------------------------------------------------------------------------- */

/* Adds an Ethernet device. Bridges and tunnels, whose traffic passes a device, have no `device`. */
static void add_interface(const struct host_sampler *h, struct host_sample *out, const char *name)
{
    enum { MBIT = 1000000 / 8 };
    AUTO(free) char *dir = xasprintf("/sys/class/net/%s", name);
    AUTO(free) char *device = xasprintf("%s%s/device", h->root, dir);
    if (access(device, F_OK) != 0)
        return;
    add(&out->net_received_bytes, read_number(h, dir, "statistics/rx_bytes"));
    add(&out->net_sent_bytes, read_number(h, dir, "statistics/tx_bytes"));
    int64_t mbit = read_number(h, dir, "speed"); /* virtual devices and closed links: unknown */
    add(&out->net_max_bytes_per_s, mbit < 0 ? UNKNOWN : mbit * MBIT);
}

/* Adds a port of InfiniBand or RoCE. Its counters count units of four bytes. */
static void add_port(const struct host_sampler *h, struct host_sample *out, const char *device)
{
    enum { GBIT = 1000000000 / 8, UNIT = 4 };
    AUTO(free) char *dir = xasprintf("/sys/class/infiniband/%s/ports/1", device);
    int64_t received = read_number(h, dir, "counters/port_rcv_data");
    int64_t sent = read_number(h, dir, "counters/port_xmit_data");
    int64_t gbit = read_number(h, dir, "rate"); /* "100 Gb/sec (4X EDR)" */
    add(&out->net_received_bytes, received < 0 ? UNKNOWN : received * UNIT);
    add(&out->net_sent_bytes, sent < 0 ? UNKNOWN : sent * UNIT);
    add(&out->net_max_bytes_per_s, gbit < 0 ? UNKNOWN : gbit * GBIT);
}

static void for_each_entry(const struct host_sampler *h, struct host_sample *out, const char *path,
                           void (*f)(const struct host_sampler *, struct host_sample *,
                                     const char *))
{
    AUTO(free) char *whole = xasprintf("%s%s", h->root, path);
    AUTO(dir) DIR *d = opendir(whole);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.')
            f(h, out, e->d_name);
}

void host_sampler_read(const struct host_sampler *h, struct host_sample *out)
{
    *out = (struct host_sample){UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN,
                                UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN};
    read_cpus(h, out);
    read_disks(h, out);
    for_each_entry(h, out, "/sys/class/net", add_interface);
    for_each_entry(h, out, "/sys/class/infiniband", add_port);
}
