/* search_rules.c - what rules exclude: all layouts, or those that agree with one that broke them.
 *
 * I1  A rule that is broken at one layout is broken at every layout with the same values on the
 *     axes that its condition reads (search_axes.h). Such values are remembered, and whatever has
 *     them is left out at the first level of the loops that knows them all.
 *     And one that holds at a layout holds wherever those axes have the same values: of a layout
 *     only those rules are looked at that read what it has other than the last that broke none.
 * I2  A rule that reads nothing that is searched is checked before the search: no layout can
 *     satisfy it. */
#include <string.h>

#include "plan/search_parts.h"

enum { BREAKS_MOST = 16 };

void search_rules_open(search *s)
{
    int n;
    const rule *list = rules_table(&n);
    rule_memory *w = &s->rules;
    w->ranges = &list[RULE_value_in_range];
    axes_of_knobs(w->of_knob, s->out->maker);
    w->closed = axes_closed(w->of_knob);
    w->of_rule = ARENA_ARRAY(s->a, unsigned, n);
    w->left_out = ARENA_ARRAY(s->a, bool, n);
    for (int i = 0; i < n; i++) {
        w->of_rule[i] = axes_of_rule(&list[i], w->of_knob, NULL);
    }
    memo_init(&w->known, (1 + AXES) * sizeof(int64_t), s->a);
}

static unsigned axes_of(const search *s, const rule *r)
{
    int n;
    return s->rules.of_rule[r - rules_table(&n)];
}

/* ---- before the search (I2) */

bool search_rules_never(search *s, const setup *probe)
{
    violations all, *never = &s->out->never;
    rules_check(&all, probe, false, s->a);
    never->list = ARENA_ARRAY(s->a, violation, all.n_errors + 1);
    for (int i = 0; i < all.n_errors; i++)
        if (!(axes_of(s, all.list[i].rule) & ~s->rules.closed))
            never->list[never->n++] = all.list[i];
    never->n_errors = never->n;
    return never->n > 0;
}

/* ---- in the search (I1) */

static void key_of(int64_t key[1 + AXES], unsigned mask, const choice *c)
{
    choice_values(key + 1, c);
    key[0] = mask;
    for (int i = 0; i < AXES; i++)
        if (!(mask >> i & 1)) key[1 + i] = 0;
}

static bool is_known(const search *s, const choice *c, unsigned decided)
{
    const rule_memory *w = &s->rules;
    int64_t key[1 + AXES];
    for (int i = 0; i < w->n_masks && !s->o->judge_all; i++) {
        if (w->masks[i] & ~decided) continue;
        key_of(key, w->masks[i], c);
        if (memo_get(&w->known, key)) return true;
    }
    return false;
}

/* Also where every kind of overlap is known to break one. */
bool search_forbidden(const search *s, const choice *c, unsigned decided)
{
    if (is_known(s, c, decided)) return true;
    if (decided & ON_OVERLAP || !(decided & ON_TO) || !s->rules.n_masks) return false;
    choice x = *c;
    x.drop = 0; /* what is made again only excludes */
    if (!(decided & ON_PP)) x.pp = 1;
    for (int b = 0; b < OVERLAP_KINDS; b++) {
        x.overlap = (overlap_kind)b;
        if (space_overlap_ok(&s->sp, &x) && !is_known(s, &x, decided | ON_OVERLAP)) return false;
    }
    return true;
}

static void remember(search *s, const rule *r, const choice *c)
{
    rule_memory *w = &s->rules;
    unsigned mask = r->reads ? axes_of(s, r) : AXES_ALL; /* a range is that of any knob */
    int64_t key[1 + AXES];
    int i = 0;
    while (i < w->n_masks && w->masks[i] != mask) i++;
    if (i == MASKS_MOST) return;
    if (i == w->n_masks) w->masks[w->n_masks++] = mask;
    key_of(key, mask, c);
    memo_put(&w->known, key, s);
}

static void count_rule(search_result *r, const rule *of, const choice *c)
{
    int i = 0;
    while (i < r->n_breaks && r->breaks[i].rule != of) i++;
    if (i == BREAKS_MAX) return;
    if (i == r->n_breaks) r->breaks[r->n_breaks++] = (rule_break){.rule = of, .c = *c};
    r->breaks[i].n++;
}

static bool values_in_range(const search *s, const setup *t, unsigned changed)
{
    value near;
    for (int k = 0; k < K_COUNT; k++)
        if ((s->rules.of_knob[k] & changed) &&
            recipe_out_of_range(&t->r, (knob_id)k, s->scratch, &near))
            return false;
    return true;
}

/* The rules that this layout breaks: at most BREAKS_MOST (I1). */
static int find_broken(search *s, const choice *c, const setup *t, const rule *broken[])
{
    rule_memory *w = &s->rules;
    int n, many = 0;
    const rule *list = rules_table(&n);
    int64_t own[AXES];
    unsigned changed = 0;
    choice_values(own, c);
    for (int i = 0; i < AXES; i++) changed |= (unsigned)(own[i] != w->fine[i]) << i;
    for (int i = 0; i < n && w->any_fine; i++)
        w->left_out[i] = list[i].reads ? !(w->of_rule[i] & changed) : &list[i] == w->ranges;
    if (w->any_fine && !values_in_range(s, t, changed)) broken[many++] = w->ranges;
    many += rules_errors(broken + many, BREAKS_MOST - many, t, w->left_out, s->scratch);
    if (many) return many;
    memcpy(w->fine, own, sizeof own);
    w->any_fine = true;
    return 0;
}

bool search_breaks_rule(search *s, const choice *c, setup *t)
{
    const rule *broken[BREAKS_MOST];
    arena_place mark = arena_mark(s->scratch);
    arena *own = t->r.a;
    t->r.a = s->scratch;
    int n = find_broken(s, c, t, broken);
    t->r.a = own;
    arena_release(s->scratch, mark);
    for (int i = 0; i < n; i++) {
        remember(s, broken[i], c);
        count_rule(s->out, broken[i], c);
    }
    return n > 0;
}
