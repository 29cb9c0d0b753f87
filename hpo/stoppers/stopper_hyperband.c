/* stopper_hyperband - W&B's early_terminate.
 *
 * This is Hyperband as W&B's open engine implements it. A band is a number of reports. A trial is
 * compared at the highest band that it has reached, with the n trials that reached this band. Their
 * values at the band are sorted; the trial stops if its value is worse than the one at index
 * floor(n / eta). With `strict` the trial's value at the band counts, otherwise its best value so
 * far. Costs O(n). */
#include <errno.h>
#include <limits.h>
#include <math.h>

#include "hpo/stoppers/stopper_internal.h"

static const double standard_eta = 3;

struct hyperband {
    struct stopper_rungs rungs; /* the file has min_iter, or max_iter and s */
    int s;                      /* number of bands; 0: not given */
    bool strict;
};

static int read_keys(struct stopper *s, const struct config_node *n, struct err *e)
{
    struct hyperband *h = s->config = xzalloc(sizeof *h);
    h->strict = true;
    /* Bands may be close to each other, as with W&B, if there are not too many. */
    if (config_node_int(&h->s, n, "s", 1, INT_MAX, e) < 0 ||
        stopper_rungs_read(&h->rungs, n, h->s <= STOPPER_BANDS_MAX, standard_eta, e) < 0 ||
        config_node_bool(&h->strict, n, "strict", e) < 0)
        return -EINVAL;
    if (!h->rungs.min_iter && !(h->rungs.max_iter && h->s)) {
        config_node_error(n, e, "hyperband needs 'min_iter', or 'max_iter' and 's'");
        return err_hint(e, h->rungs.max_iter ? "s: 2" : "min_iter: 3");
    }
    s->max_iter = h->rungs.max_iter;
    bool down = h->rungs.max_iter && h->s; /* as in stopper_hyperband_band() */
    s->first =
        down ? fmax(trunc(h->rungs.max_iter / pow(h->rungs.eta, h->s)), 1) : h->rungs.min_iter;
    s->least = down ? h->rungs.eta : s->first + 1;
    return 0;
}

static void json(const struct stopper *s, json_t *to)
{
    const struct hyperband *h = s->config;
    stopper_rungs_json(&h->rungs, to);
    if (h->s)
        json_object_set_new(to, "s", json_integer(h->s));
    json_object_set_new(to, "strict", json_boolean(h->strict));
}

/* If max_iter and s are given, there are s bands: max_iter/eta, max_iter/eta², … Otherwise the
 * bands are min_iter, min_iter·eta, … and, if max_iter is given, below max_iter. All bands are
 * truncated to integers. */
int stopper_hyperband_band(const struct stopper *s, int iterations)
{
    const struct hyperband *h = s->config;
    const struct stopper_rungs *r = &h->rungs;
    int highest = 0;
    bool down = r->max_iter > 0 && h->s > 0;
    int last = r->max_iter > iterations || !r->max_iter ? iterations : r->max_iter - 1;
    double band = down ? r->max_iter / r->eta : r->min_iter;
    for (int k = 0; k < (down ? h->s : STOPPER_BANDS_MAX); k++) {
        if (band < 1 || (!down && trunc(band) > last))
            break;
        if (trunc(band) <= iterations && trunc(band) > highest)
            highest = (int)band;
        /* pow() would differ from W&B in the last bits */
        band = down ? band / r->eta : band * r->eta;
    }
    return highest;
}

static enum stopper_verdict judge(struct stopper *s, bool maximize, const struct trial_view *view,
                                  const struct trial *t)
{
    const struct hyperband *h = s->config;
    int band = stopper_hyperband_band(s, (int)t->curve.count);
    if (band == 0)
        return STOPPER_CONTINUE;
    double own = h->strict ? t->curve.points[band - 1].value : t->curve.best;
    size_t reached = 0, better = 0;
    for (size_t i = 0; i < view->count; i++) {
        const struct trial *other = view->trials[i];
        if (other->curve.count < (size_t)band)
            continue;
        double value = other->curve.points[band - 1].value;
        reached++;
        better += maximize ? value > own : value < own;
    }
    /* A value is worse than the one at index i of the sorted values if more than i values are
     * better. */
    return (double)better > floor(1 / h->rungs.eta * (double)reached) ? STOPPER_STOP
                                                                      : STOPPER_CONTINUE;
}

const struct stopper_ops stopper_hyperband = {
    .name = "hyperband",
    .help = "bands of reports, as W&B decides",
    .keys = {"min_iter", "max_iter", "eta", "s", "strict"},
    .read = read_keys,
    .json = json,
    .judge = judge,
};
