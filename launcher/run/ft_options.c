#include "launcher/run/ft_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/yaml.h"
#include "launcher/jobs/section_learning.h"

enum kind { SECTIONS, LIMIT, NUMBER };

/* `limit` is the key of the setting for section_limits_read(). */
static const struct {
    const char *key, *limit;
    enum kind kind;
    double value; /* the extension's default; 0: none */
} settings[FT_SETTINGS] = {
    [FT_SECTION_TIMEOUTS] = {"rank_section_timeouts", "sections", SECTIONS, 0},
    [FT_OUT_OF_SECTION_TIMEOUT] = {"rank_out_of_section_timeout", "out_of_section", LIMIT, 0},
    [FT_HEARTBEAT_TIMEOUT] = {"rank_heartbeat_timeout", "heartbeat", LIMIT, 2700},
    [FT_INITIAL_HEARTBEAT_TIMEOUT] = {"initial_rank_heartbeat_timeout", "initial_heartbeat", LIMIT,
                                      3600},
    [FT_WORKLOAD_CHECK_INTERVAL] = {"workload_check_interval", NULL, NUMBER, 5},
    [FT_SAFETY_FACTOR] = {"safety_factor", NULL, NUMBER, 5},
};

static const char *const without_effect[] = {
    "node_health_check_interval",
    "rank_termination_signal",
    "log_level",
    "restart_check_interval",
    "enable_nic_monitor",
    "pci_topo_file",
    "link_down_path_template",
    NULL,
};

static json_t *defaults(void)
{
    json_t *all = json_object();
    for (size_t i = 0; i < FT_SETTINGS; i++)
        json_object_set_new(all, settings[i].key,
                            settings[i].kind == SECTIONS ? json_object()
                            : settings[i].value > 0      ? json_real(settings[i].value)
                                                         : json_null());
    return all;
}

/* ---- the file ------------------------------------------------------------------------------- */

/* Returns the value of the first key "fault_tolerance", at any depth, or NULL. Borrowed. */
static const json_t *find_section(const json_t *in)
{
    const json_t *found = json_object_get(in, "fault_tolerance"), *value;
    const char *key;
    size_t i;
    json_object_foreach ((json_t *)in, key, value)
        found = found ? found : find_section(value);
    json_array_foreach (in, i, value)
        found = found ? found : find_section(value);
    return found;
}

static int find_setting(const char *key)
{
    for (int i = 0; i < FT_SETTINGS; i++)
        if (strcmp(settings[i].key, key) == 0)
            return i;
    return -1;
}

static int check_number(const char *key, const json_t *value, struct err *e)
{
    if (json_is_number(value) && json_number_value(value) > 0)
        return 0;
    return err_set(e, -EINVAL, "%s: not a number greater than 0", key);
}

static int read_file(json_t *all, const char *path, char ***warnings, struct err *e)
{
    AUTO(yaml_doc) struct yaml_doc *doc = NULL;
    int rc = yaml_read_file(&doc, path, e);
    if (rc < 0)
        return rc;
    const json_t *section = find_section(yaml_root(doc)), *value;
    const char *key;
    if (!section || !json_is_object(section)) {
        strv_push(warnings,
                  xasprintf("--ft-cfg-path %s: it has no mapping 'fault_tolerance', so it "
                            "has no effect",
                            path));
        return 0;
    }
    json_object_foreach ((json_t *)section, key, value) {
        int i = find_setting(key);
        if (i >= 0 && settings[i].kind == NUMBER && check_number(key, value, e) < 0)
            return err_wrap(e, "%s: fault_tolerance", path);
        if (i >= 0)
            json_object_set_new(all, key, json_deep_copy(value));
        else if (!strv_has(without_effect, key))
            strv_push(warnings, xasprintf("%s: fault_tolerance: '%s' is unknown and has no effect",
                                          path, key));
    }
    return 0;
}

/* ---- the options ---------------------------------------------------------------------------- */

static json_t *limit_json(int64_t ms)
{
    return ms > 0 ? json_real((double)ms / 1000) : json_null();
}

static int read_sections(json_t **out, const char *text, struct err *e)
{
    struct section_limits l = {0};
    int rc = section_limits_parse(&l, text, e);
    *out = json_object();
    for (int i = 0; i < l.count; i++)
        json_object_set_new(*out, l.at[i].name, limit_json(l.at[i].ms));
    section_limits_free(&l);
    return rc;
}

static int read_value(json_t **out, enum kind kind, const char *text, struct err *e)
{
    int64_t ms = 0;
    if (kind == SECTIONS)
        return read_sections(out, text, e);
    if (kind == LIMIT) {
        int rc = section_limits_read_ms(&ms, text, e);
        *out = limit_json(ms);
        return rc;
    }
    char *end = NULL;
    double number = strtod(text, &end);
    *out = json_real(end != text && !*end ? number : 0);
    return check_number(text, *out, e);
}

static int read_option(json_t *all, int i, const char *text, struct err *e)
{
    AUTO(json) json_t *value = NULL;
    if (read_value(&value, settings[i].kind, text, e) < 0)
        return err_wrap(e, "--ft-%s", settings[i].key);
    json_object_set_new(all, settings[i].key, TAKE(value));
    return 0;
}

static int set_limits(struct section_limits *limits, const json_t *all, struct err *e)
{
    AUTO(json) json_t *from = json_object();
    for (int i = 0; i < FT_SETTINGS; i++)
        if (settings[i].limit)
            json_object_set(from, settings[i].limit, json_object_get(all, settings[i].key));
    return section_limits_read(limits, from, e);
}

/* A limit that has the extension's default value is not one of the user. */
static void drop_defaults(json_t *all)
{
    for (int i = 0; i < FT_SETTINGS; i++)
        if (settings[i].kind == LIMIT &&
            json_number_value(json_object_get(all, settings[i].key)) == settings[i].value)
            json_object_set_new(all, settings[i].key, json_null());
}

/* Sets the settings from the limits; those without a limit get the extension's default. */
static void set_settings(json_t *all, const struct section_limits *l)
{
    for (int i = 1; i < SECTION_LIMITS_KINDS; i++) {
        int64_t ms = l->other_ms[i];
        if (ms > 0 || settings[i].value > 0)
            json_object_set_new(all, settings[i].key,
                                json_real(ms > 0 ? (double)ms / 1000 : settings[i].value));
    }
    json_t *sections = json_object_get(all, settings[FT_SECTION_TIMEOUTS].key);
    for (int i = 0; i < l->count; i++)
        if (l->at[i].ms > 0)
            json_object_set_new(sections, l->at[i].name, json_real((double)l->at[i].ms / 1000));
}

/* Adds the limits of earlier jobs, also to the settings, which the clients get. */
static int learn(json_t *all, const struct ft_options *o, struct strbuf *learnt, struct err *e)
{
    struct section_limits l = {0};
    double factor = json_number_value(json_object_get(all, settings[FT_SAFETY_FACTOR].key));
    drop_defaults(all);
    int rc = set_limits(&l, all, e);
    if (rc == 0)
        rc = section_learning_read(&l, learnt, o->learn_argv, o->learn_wdir, factor, e);
    if (rc == 0)
        set_settings(all, &l);
    section_limits_free(&l);
    return rc;
}

int ft_options_read(char **config, struct section_limits *limits, const struct ft_options *o,
                    char ***warnings, struct strbuf *learnt, struct err *e)
{
    AUTO(json) json_t *all = defaults();
    int rc = o->config_path ? read_file(all, o->config_path, warnings, e) : 0;
    for (int i = 0; i < FT_SETTINGS && rc == 0; i++)
        if (o->value[i])
            rc = read_option(all, i, o->value[i], e);
    if (rc == 0 && json_is_null(json_object_get(all, settings[FT_SECTION_TIMEOUTS].key)))
        json_object_set_new(all, settings[FT_SECTION_TIMEOUTS].key, json_object());
    if (rc == 0 && o->learn_argv)
        rc = learn(all, o, learnt, e);
    if (rc == 0 && (rc = set_limits(limits, all, e)) < 0 && o->config_path)
        err_wrap(e, "%s: fault_tolerance", o->config_path);
    if (rc == 0)
        *config = json_line(all);
    return rc;
}
