/* search_nodes.c - attention of layouts: precision, TP, CP and microbatch, listed for the outer
 * loop in the order of their promise. */
#include <math.h>
#include <stdlib.h>

#include "plan/search_parts.h"

enum { TOKENS_A_RANK = 4096 };

static int far_from_guess(const search *s, const choice *c)
{
    int64_t guess = s->sp.seq / TOKENS_A_RANK > 1 ? s->sp.seq / TOKENS_A_RANK : 1;
    int64_t cut = c->tp * c->cp;
    int far = 0;
    for (; cut * 2 <= guess; cut *= 2) far++;
    for (; cut >= guess * 2; cut /= 2) far++;
    return far;
}

/* GEMMs of the MLP at the peak of the chip; a rank has as many wherever experts are. */
static double fastest_gemms(search *s, const choice *c)
{
    choice x = *c;
    x.ep = x.etp = 1;
    x.to = TO_ALLTOALL;
    double sum = 0;
    for (int i = 0; i < cards_kinds(s->k); i++) {
        const card_light *l = card_bound_of(s->k, &x, CARD_MLP, i);
        double layers = (double)(s->layers[i] + (i == s->module));
        sum += layers * (l->fastest[0] + l->fastest[1]);
    }
    return sum;
}

static void add_node(search *s, node *list, int *n, const choice *c, double gemms)
{
    node *x = &list[*n];
    *x = (node){.c = *c, .far = far_from_guess(s, c), .wide = s->sp.m->wide[c->precision]};
    double inside = 0, messages = 0;
    for (int i = 0; i < cards_kinds(s->k); i++) {
        const card_light *l = card_light_of(s->k, c, CARD_ATTENTION, i);
        inside += (double)s->layers[i] * (l->inside[0] + l->inside[1]);
        messages += (double)s->layers[i] * (l->messages[0] + l->messages[1]);
        if (i == s->module)
            inside += fmax(l->waited[0] + l->waited[1], l->compute[0] + l->compute[1]);
    }
    double each = (double)s->sp.gbs * (double)(c->tp * c->cp) / (double)(c->mbs * s->sp.world);
    x->attention = inside;
    x->each = each;
    x->least = each * fmax(inside + gemms, messages);
    ++*n;
}

/* Every combination of picks, the plain one first. False: that was the last. */
static bool next_picks(choice *c)
{
    for (pick_id p = 0; p < PICKS; p++) {
        if (++c->pick[p] < (int)pick_values[p].n) return true;
        c->pick[p] = 0;
    }
    return false;
}

static void add_nodes(search *s, node *list, int *n, choice c)
{
    if (!space_dense_ok(&s->sp, &c)) return;
    double gemms = fastest_gemms(s, &c);
    for (int kind = 0; kind < CP_KINDS; kind++) {
        c.kind = (cp_kind)kind;
        do {
            if (space_kind_ok(&s->sp, &c)) add_node(s, list, n, &c, gemms);
        } while (next_picks(&c));
    }
}

/* First those that cut sequences as the rule of thumb has it: good layouts are found early, and
 * bounds exclude more of the rest. Last those that have to have their optimizer on the host. */
static int by_promise(const void *a, const void *b)
{
    const node *x = a, *y = b;
    if (x->wide != y->wide) return x->wide - y->wide;
    if (x->far != y->far) return x->far - y->far;
    if (x->c.mbs != y->c.mbs) return x->c.mbs < y->c.mbs ? -1 : 1;
    return (x->least > y->least) - (x->least < y->least);
}

int search_list_nodes(search *s, node **out)
{
    const space *sp = &s->sp;
    int n = 0, most = sp->m->n_precisions * sp->tp.n * sp->cp.n * sp->mbs.n * CP_KINDS;
    for (pick_id p = 0; p < PICKS; p++) most *= (int)pick_values[p].n;
    node *list = *out = ARENA_ARRAY(s->a, node, most + 1);
    choice c = {0};
    for (c.precision = 0; c.precision < s->sp.m->n_precisions; c.precision++)
        for (int i = 0; i < s->sp.tp.n; i++)
            for (int k = 0; k < s->sp.cp.n; k++)
                for (int m = 0; m < s->sp.mbs.n && !search_over(s); m++) {
                    c.tp = s->sp.tp.v[i];
                    c.cp = s->sp.cp.v[k];
                    c.mbs = s->sp.mbs.v[m];
                    add_nodes(s, list, &n, c);
                }
    qsort(list, (size_t)n, sizeof *list, by_promise);
    return n;
}

/* Memory excludes the same experts there: state and inputs of layers do not depend on the kind of
 * CP. */
void search_tell_others(const search *s, node *list, int i, int n)
{
    const choice *c = &list[i].c;
    if (s->experts_least == INFINITY) return;
    for (int k = i + 1; k < n; k++) {
        const choice *x = &list[k].c;
        if (x->tp != c->tp || x->cp != c->cp || x->mbs != c->mbs || x->precision != c->precision ||
            choice_picks(x) != choice_picks(c))
            continue;
        list[k].least = fmax(list[k].least, list[k].each * (list[k].attention + s->experts_least));
    }
}
