/* space_parse_list - reads a space from a list of parameters, for `drover suggest`. */
#include <errno.h>
#include <string.h>

#include "common/json.h"
#include "hpo/space/space_internal.h"

static int read_item(struct space *s, const char *name, const struct config_node *n, struct err *e)
{
    static const char *const keys[] = {"name", "type", "low", "high", "log", "choices", "when"};
    struct distribution *d = NULL;
    if (json_object_get(s->by_path, name))
        return config_node_error(n, e, "the name is used twice");
    if (config_node_only_keys(n, keys, COUNT_OF(keys), "a parameter", e) < 0 ||
        distribution_read_item(&d, n, e) < 0)
        return -EINVAL;
    space_add(s, name, 0, d);
    return 0;
}

int space_read_list(struct space **out, const struct config_node *list, char ***notices,
                    struct err *e)
{
    (void)notices; /* the list form has no ambiguous entries */
    AUTO(space) struct space *s = xzalloc(sizeof *s);
    s->by_path = json_object();
    space_add_group(s, "", 0);
    if (json_array_size(list->value) == 0)
        return config_node_error(list, e, "a space must be a list of at least one parameter");
    for (size_t i = 0; i < json_array_size(list->value); i++) {
        struct config_node at = config_node_item(list, i), name = config_node_member(&at, "name");
        if (json_string_length(name.value) == 0)
            return config_node_error(&at, e, "the 'name' of a parameter is missing");
        if (read_item(s, json_string_value(name.value), &at, e) < 0)
            return err_wrap(e, "parameter '%s'", json_string_value(name.value));
    }
    for (size_t i = 0; i < s->count; i++) {
        struct config_node item = config_node_item(list, i), at = config_node_member(&item, "when");
        if (at.value && space_read_conditions(s, i, &at, e) < 0)
            return err_wrap(e, "parameter '%s'", s->params[i].name);
    }
    if (space_finish(s, list, e) < 0)
        return -EINVAL;
    *out = TAKE(s);
    return 0;
}
