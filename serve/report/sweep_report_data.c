#include "serve/report/sweep_report_data.h"

#include <math.h>
#include <sodium.h>
#include <string.h>
#include <zlib.h>

#include "common/json.h"
#include "hpo/space/space.h"
#include "serve/data/serve_curves.h"
#include "serve/data/serve_overview.h"
#include "serve/data/serve_pack.h"
#include "serve/data/serve_surface.h"
#include "serve/report/sweep_report_totals.h"

enum {
    METRICS_MAX = 4,     /* with curves */
    POINTS_MAX = 40000,  /* of the curves of a metric */
    DENSITY_WIDTH = 500, /* cells */
    DENSITY_HEIGHT = 200,
    SURFACES_MAX = 8, /* parameters with the model's expectation */
    SURFACE_CELLS = 40,
    GZIP_WINDOW = 15 + 16, /* 16: with gzip's header, which browsers read */
    GZIP_MEMORY = 9
};

/* Appends the bytes as gzip. */
static void compress_into(struct strbuf *out, const struct strbuf *in)
{
    z_stream z = {.next_in = (unsigned char *)in->data, .avail_in = (uInt)in->len};
    if (deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, GZIP_MEMORY,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        abort(); /* without memory, as in the allocators of mem.h */
    size_t most = deflateBound(&z, in->len);
    strbuf_reserve(out, most);
    z.next_out = (unsigned char *)out->data + out->len;
    z.avail_out = (uInt)most;
    deflate(&z, Z_FINISH);
    out->len += z.total_out;
    deflateEnd(&z);
}

static void add_element(struct strbuf *out, const char *answer, const struct strbuf *body)
{
    AUTO(strbuf) struct strbuf packed = {0};
    compress_into(&packed, body);
    size_t most = sodium_base64_encoded_len(packed.len, sodium_base64_VARIANT_ORIGINAL);
    strbuf_printf(out, "<script type=\"application/gzip\" data-answer=\"%s\">", answer);
    strbuf_reserve(out, most);
    sodium_bin2base64(out->data + out->len, most, (const unsigned char *)packed.data, packed.len,
                      sodium_base64_VARIANT_ORIGINAL);
    out->len += most - 1; /* without the NUL */
    strbuf_puts(out, "</script>\n");
}

/* The same for a body of serve_pack.h, whose header may have names. */
static void add_pack(struct strbuf *out, const char *answer, const struct strbuf *body,
                     struct report_anonymous *a)
{
    AUTO(strbuf) struct strbuf changed = {0};
    AUTO(json) json_t *head = serve_pack_head(body);
    AUTO(json) json_t *shown = report_anonymous_json(a, head);
    const char *data = serve_pack_data(body);
    serve_pack_join(&changed, shown, data, (size_t)(body->data + body->len - data));
    add_element(out, answer, &changed);
}

static void add_overview(struct strbuf *out, struct serve_sweep *s, struct report_anonymous *a)
{
    AUTO(json) json_t *o = serve_overview_json(s);
    AUTO(json) json_t *shown = report_anonymous_json(a, o);
    AUTO(free) char *text = json_line(shown);
    AUTO(strbuf) struct strbuf body = {0};
    strbuf_puts(&body, text);
    add_element(out, "overview", &body);
}

/* The curves of the best trials, as many as fit. */
static void add_curves(struct strbuf *out, const struct serve_sweep *s, const char *metric,
                       int number, const struct sweep_report_totals *t, struct report_anonymous *a)
{
    const struct sweep_columns *c = s->reader->columns;
    const struct spec *spec = s->reader->spec;
    size_t n = 0, points = 0;
    for (; n < t->order_count && n < SERVE_CURVES_TRIALS_MAX && points < POINTS_MAX; n++) {
        const struct columns_metric *m = sweep_columns_metric(c, (size_t)t->order[n], metric);
        points += m ? m->curve.count : 0;
    }
    bool maximize = false;
    for (int i = 0; i < spec->metric_count; i++)
        maximize |= spec->metrics[i].maximize && strcmp(spec->metrics[i].name, metric) == 0;
    const struct serve_curves_grid grid = {metric, DENSITY_WIDTH, DENSITY_HEIGHT, false};
    AUTO(strbuf) struct strbuf density = {0}, curves = {0};
    AUTO(free) char *density_name = xasprintf("density %d", number);
    AUTO(free) char *curves_name = xasprintf("curves %d", number);
    serve_curves_density(&density, c, &grid, maximize);
    serve_curves_of(&curves, c, metric, t->order, n);
    add_pack(out, density_name, &density, a);
    add_pack(out, curves_name, &curves, a);
}

static int number_of(const struct spec *spec, const char *name)
{
    for (size_t i = 0; i < space_dims(spec->space); i++)
        if (strcmp(space_name(spec->space, i), name) == 0)
            return (int)i;
    return -1;
}

/* What the model expects over each important parameter, and over the first two. */
static void add_surfaces(struct strbuf *out, struct serve_sweep *s, struct report_anonymous *a)
{
    AUTO(free) struct sweep_report_importance *list = NULL;
    size_t n = sweep_report_importance(&list, s->importance);
    const struct spec *spec = s->reader->spec;
    for (size_t i = 0; i < n && i < SURFACES_MAX; i++) {
        AUTO(strbuf) struct strbuf body = {0};
        struct serve_surface_plan plan = {number_of(spec, list[i].name), -1, -1, SURFACE_CELLS};
        AUTO(free) char *name = xasprintf("surface %d", plan.x);
        if (serve_surface_body(&body, s->reader, &plan, NULL) < 0)
            return; /* the method has no model */
        add_pack(out, name, &body, a);
    }
    if (n > 1) {
        AUTO(strbuf) struct strbuf body = {0};
        struct serve_surface_plan plan = {number_of(spec, list[0].name),
                                          number_of(spec, list[1].name), -1, SURFACE_CELLS};
        AUTO(free) char *name = xasprintf("surface %d %d", plan.x, plan.y);
        if (serve_surface_body(&body, s->reader, &plan, NULL) == 0)
            add_pack(out, name, &body, a);
    }
}

void sweep_report_data(struct strbuf *out, struct serve_sweep *s, struct report_anonymous *a)
{
    struct sweep_report_totals t;
    AUTO(strbuf) struct strbuf columns = {0};
    serve_overview_columns(&columns, s, 0);
    add_pack(out, "columns", &columns, a);
    add_overview(out, s, a);
    AUTO(json) json_t *head = serve_pack_head(&columns);
    const json_t *metrics = json_object_get(head, "metrics");
    sweep_report_totals(&t, s->reader->columns, s->reader->spec, 0);
    for (size_t i = 0; i < json_array_size(metrics) && i < METRICS_MAX; i++)
        add_curves(out, s, json_string_value(json_array_get(metrics, i)), (int)i, &t, a);
    sweep_report_totals_end(&t);
    add_surfaces(out, s, a);
}
