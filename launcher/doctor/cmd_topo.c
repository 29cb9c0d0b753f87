/* cmd_topo - `drover topo`: GPUs, interfaces, NUMA nodes and cores of each node, and how they are
 * connected. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/command.h"
#include "common/err.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/strbuf.h"
#include "launcher/doctor/node_query.h"
#include "launcher/doctor/topo_print.h"
#include "launcher/jobs/commands.h"
#include "launcher/node/topo.h"
#include "launcher/place/place_inventory.h"
#include "launcher/place/place_print.h"

enum { DEADLINE_MS = 20000 };

struct topo_options {
    struct node_query_nodes nodes;
    const char *machine, *labels;
    bool inventory, json;
};

static const struct opt options[] = {
    OPT_PART(node_query_options, offsetof(struct topo_options, nodes)),
    OPT_STR(0, "machine", "FILE.xml",
            "a recorded machine instead: the output of lstopo, with FILE.gpus.json next to it",
            struct topo_options, machine),
    OPT_FLAG(0, "inventory", "list memory, speed, load and users of this machine's GPUs",
             struct topo_options, inventory),
    OPT_STR(0, "labels", "FILE", "with --inventory: file with labels of GPUs", struct topo_options,
            labels),
    OPT_FLAG(0, "json", "print JSON", struct topo_options, json),
    OPT_END,
};

/* Nodes with the same topology. */
struct group {
    char *text;   /* the same for all of them */
    json_t *json; /* of the first one */
    char **names;
};

struct groups {
    struct group *at;
    size_t count;
};

static void groups_free(struct groups *g)
{
    for (size_t i = 0; i < g->count; i++) {
        free(g->at[i].text);
        json_decref(g->at[i].json);
        strv_free(g->at[i].names);
    }
    free(g->at);
}

static void add(struct groups *g, const char *name, const struct topo *t)
{
    AUTO(strbuf) struct strbuf b = {0};
    topo_print(&b, t);
    size_t i = 0;
    while (i < g->count && strcmp(g->at[i].text, strbuf_str(&b)) != 0)
        i++;
    if (i == g->count) {
        g->at = xrealloc(g->at, ++g->count, sizeof *g->at);
        g->at[i] = (struct group){xstrdup(strbuf_str(&b)), topo_print_json(t), NULL};
    }
    strv_push(&g->at[i].names, xstrdup(name));
}

/* ---- where the topologies come from --------------------------------------------------------- */

static int add_here(struct groups *g, const char *machine, struct err *e)
{
    AUTO(topo) struct topo *t = NULL;
    int rc = machine ? topo_load_file(&t, machine, e) : topo_load(&t, e);
    if (rc == 0 && !machine)
        rc = topo_add_nvlinks(t, e);
    if (rc == 0)
        add(g, topo_name(t), t);
    return rc;
}

static int add_answer(struct groups *g, const char *name, const char *text, struct err *e)
{
    AUTO(topo) struct topo *t = NULL;
    int rc = topo_import(&t, NULL, text, strlen(text), e);
    if (rc < 0)
        return err_wrap(e, "%s", name);
    add(g, name, t);
    return 0;
}

/* Nodes without an answer are named. Returns the error of the last one. */
static int add_nodes(struct groups *g, const struct hosts *hosts, struct err *e)
{
    static const char *const machine[] = {"machine", "--nvlinks", NULL};
    struct node_answer *answers = xcalloc((size_t)hosts->count, sizeof *answers);
    int rc = node_query(answers, hosts, machine, DEADLINE_MS, e), bad = 0;
    for (int i = 0; rc == 0 && i < hosts->count; i++) {
        struct err *why = &answers[i].error;
        if (answers[i].text && add_answer(g, hosts->at[i].name, answers[i].text, why) == 0)
            continue;
        if (bad)
            err_print(e, "drover topo");
        bad = why->code;
        *e = *why;
    }
    node_query_free(answers, hosts->count);
    return rc < 0 ? rc : bad;
}

/* ---- output --------------------------------------------------------------------------------- */

static void print_text(const struct groups *g)
{
    for (size_t i = 0; i < g->count; i++) {
        const struct group *one = &g->at[i];
        for (size_t n = 0; n < strv_len(one->names); n++)
            printf("%s%s", n ? ", " : i ? "\n" : "", one->names[n]);
        if (strv_len(one->names) > 1)
            printf(" (%zu identical nodes)", strv_len(one->names));
        printf("\n%s", one->text);
    }
}

static void print_json(const struct groups *g)
{
    json_t *list = json_array();
    for (size_t i = 0; i < g->count; i++) {
        json_t *names = json_array();
        for (size_t n = 0; n < strv_len(g->at[i].names); n++)
            json_array_append_new(names, json_text(g->at[i].names[n]));
        json_object_set_new(g->at[i].json, "nodes", names);
        json_array_append(list, g->at[i].json);
    }
    AUTO(json) json_t *all = json_pack("{s:i,s:o}", "v", 1, "machines", list);
    AUTO(free) char *line = json_line(all);
    puts(line);
}

static int print_inventory(const struct topo_options *o, struct err *e)
{
    AUTO(place_inventory) struct place_inventory in = {0};
    if (o->machine || o->nodes.file || o->nodes.list)
        return err_set(e, -EINVAL, "--inventory lists the GPUs of this machine only");
    int rc = place_inventory_read(&in, o->labels, e);
    if (rc < 0)
        return rc;
    if (o->json) {
        AUTO(json)
        json_t *all =
            json_pack("{s:i,s:o}", "v", 1, "gpus", place_print_inventory_json(in.gpus, in.count));
        AUTO(free) char *line = json_line(all);
        puts(line);
        return 0;
    }
    AUTO(strbuf) struct strbuf b = {0};
    place_print_inventory(&b, in.gpus, in.count);
    fputs(in.count ? strbuf_str(&b) : "no GPUs\n", stdout);
    return 0;
}

static int show(const struct topo_options *o, struct err *e)
{
    AUTO(hosts) struct hosts *hosts = NULL;
    if (o->inventory)
        return print_inventory(o, e);
    if (o->labels)
        return err_set(e, -EINVAL, "--labels needs --inventory");
    if (o->machine && (o->nodes.file || o->nodes.list))
        return err_set(e, -EINVAL, "--machine and the nodes of a job exclude each other");
    int rc = node_query_hosts(&hosts, &o->nodes, e);
    if (rc < 0)
        return rc;
    struct groups g = {0};
    rc = hosts ? add_nodes(&g, hosts, e) : add_here(&g, o->machine, e);
    if (g.count && o->json)
        print_json(&g);
    else
        print_text(&g);
    groups_free(&g);
    return rc;
}

static int run(char **no_words, void *into, struct err *e)
{
    int rc = show(into, e);
    return rc == -EACCES ? EXIT_STATUS_USAGE : rc;
}

int cmd_topo(int argc, char **argv)
{
    static const struct command command = {
        .help = {"drover topo", "[--hostfile FILE | --host LIST | --inventory] [--json]",
                 "Shows the GPUs, network interfaces, NUMA nodes and cores of each node, how they "
                 "are connected, and which interface and cores each GPU should use. Nodes that are "
                 "the same are shown once.",
                 "drover topo\ndrover topo --hostfile hosts --json"},
        .options = options,
        .run = run};
    struct topo_options o = {0};
    return command_run(&command, &o, argc, argv);
}
