#include "hpo/samplers/sweep_file.h"

#include "common/json.h"

static json_t *read_early_terminate(const struct config_node *n, struct err *e)
{
    AUTO(stopper) struct stopper *s = NULL;
    return stopper_new(&s, n, NULL, e) < 0 || stopper_check(s, n, e) < 0 ? NULL : stopper_json(s);
}

static json_t *read_stored(const struct config_node *n, struct err *e)
{
    AUTO(stopper) struct stopper *s = NULL;
    return stopper_new(&s, n, NULL, e) < 0 ? NULL : stopper_json(s);
}

static const struct spec_vocabulary vocabulary = {sampler_method, read_early_terminate},
                                    vocabulary_of_stored = {sampler_method, read_stored};

int sweep_file_read(struct spec **out, const struct yaml_doc *d, struct err *e)
{
    return spec_read(out, d, &vocabulary, e);
}

int sweep_file_read_stored(struct spec **out, const struct yaml_doc *d, struct err *e)
{
    return spec_read(out, d, &vocabulary_of_stored, e);
}

int sweep_file_method(const struct spec_method **out, const struct config_node *at, struct err *e)
{
    return spec_method_find(out, at, &vocabulary, e);
}

static void add_line(struct strbuf *b, const char *name, const char *help)
{
    strbuf_printf(b, "  %-12s%s\n", name, help);
}

void sweep_file_help(struct strbuf *b)
{
    const struct spec_method *m = NULL;
    const char *name = NULL, *help = NULL;
    strbuf_puts(b, "Samplers (method):\n");
    for (size_t i = 0; (m = sampler_method(i)); i++)
        add_line(b, m->name, m->help);
    strbuf_puts(b, "Early stopping (early_terminate: {type: …}):\n");
    for (size_t i = 0; (name = stopper_row(i, &help)); i++)
        add_line(b, name, help);
}
