/* space_list - a space as a list of parameters, for `drover suggest`. */
#include <errno.h>
#include <string.h>

#include "common/json.h"
#include "hpo/space/space_internal.h"

static int read_item(struct space *s, const char *name, const struct node *n, struct err *e)
{
    static const char *const keys[] = {"name", "type", "low", "high", "log", "choices", "when"};
    struct dist *d = NULL;
    if (json_object_get(s->by_path, name))
        return node_error(n, e, "the name comes twice");
    if (node_only_keys(n, keys, COUNT_OF(keys), "a parameter", e) < 0 ||
        dist_read_item(&d, n, e) < 0)
        return -EINVAL;
    space_in_add(s, name, 0, d);
    return 0;
}

int space_read_list(struct space **out, const struct node *list, char ***notices, struct err *e)
{
    (void)notices; /* nothing here is easily meant otherwise */
    AUTO(space) struct space *s = xzalloc(sizeof *s);
    s->by_path = json_object();
    space_in_add_group(s, "", 0);
    if (json_array_size(list->value) == 0)
        return node_error(list, e, "a space must be a list of at least one parameter");
    for (size_t i = 0; i < json_array_size(list->value); i++) {
        struct node at = node_item(list, i), name = node_member(&at, "name");
        if (json_string_length(name.value) == 0)
            return node_error(&at, e, "the 'name' of a parameter is missing");
        if (read_item(s, json_string_value(name.value), &at, e) < 0)
            return err_wrap(e, "parameter '%s'", json_string_value(name.value));
    }
    for (size_t i = 0; i < s->count; i++) {
        struct node item = node_item(list, i), at = node_member(&item, "when");
        if (at.value && space_in_read_when(s, i, &at, e) < 0)
            return err_wrap(e, "parameter '%s'", s->params[i].name);
    }
    if (space_in_finish(s, list, e) < 0)
        return -EINVAL;
    *out = TAKE(s);
    return 0;
}
