/* bridge_derive.c - what Megatron-Bridge makes of a configuration before it looks at it: which of
 * two copies of a setting counts, and what old words mean.
 *
 * I1  Nothing is changed in silence: a copy that does not count names in `instead` what counts, and
 *     a rule says so; a word that was read anew is noted.
 * I2  Copies that Bridge compares and refuses are left alone; the rule aliases-agree refuses
 *     them. */
#include "config/bridge_derive.h"

#include <string.h>

#include "config/precision.h"

/* ---- two copies of one setting */

static bool starts(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* CommOverlapConfig.setup and MixedPrecisionConfig.setup write theirs over those of model,
 * optimizer and ddp, ConfigContainer.validate the deprecated ones of train over validation's; a
 * number of SMs by an old name, of one dispatcher, gives way to the new. */
static int standing(knob_id k, const char *key)
{
    if (starts(key, "comm_overlap.") || starts(key, "mixed_precision.")) return 2;
    if (starts(key, "train.eval_")) return 2;
    return k != K_FLEX_SMS || text_equal(key, knobs[k].key);
}

/* One copy that is on turns the others on. */
static bool either_counts(knob_id k)
{
    return k == K_DIST_OPT || k == K_PARAM_OVERLAP || k == K_ROUTER_PAD || k == K_TE_RNG ||
           k == K_FSDP;
}

/* Copies of one knob that were given: first its own key, where it was, then aliases. */
typedef struct copies {
    alias_use own;
    alias_use *list[ALIASES_MAX + 1];
    int n;
} copies;

static void collect(copies *c, recipe *r, knob_id k)
{
    *c = (copies){.own.knob = k};
    const setting *now = &r->knob[k];
    bool own = now->from == FROM_USER;
    for (int i = 0; i < r->n_aliases; i++)
        if (r->aliases[i].knob == k && r->aliases[i].alone) own = false;
    if (own && !(now->v.kind == V_NULL && starts(knobs[k].key, "comm_overlap."))) {
        c->own = (alias_use){.knob = k, .key = knobs[k].key, .why = now->why, .v = now->v};
        c->list[c->n++] = &c->own;
    }
    for (int i = 0; i < r->n_aliases; i++)
        if (r->aliases[i].knob == k && !r->aliases[i].instead) c->list[c->n++] = &r->aliases[i];
}

static bool is_on(value v)
{
    return v.kind == V_BOOL && v.flag;
}

static const alias_use *one_that_counts(const copies *c, knob_id k)
{
    const alias_use *best = c->list[0];
    for (int i = 1; i < c->n; i++) {
        const alias_use *x = c->list[i];
        int more = standing(k, x->key) - standing(k, best->key);
        if (more > 0 || (!more && either_counts(k) && is_on(x->v) && !is_on(best->v))) best = x;
    }
    return best;
}

static const char *said(recipe *r, const alias_use *x)
{
    return arena_text(r->a, "%s=%s (%s)", x->key, value_text(r->a, x->v), x->why);
}

static void settle(recipe *r, knob_id k)
{
    copies c;
    collect(&c, r, k);
    if (c.n < 2) return;
    alias_use counts = *one_that_counts(&c, k);
    for (int i = 0; i < c.n; i++) {
        alias_use *x = c.list[i];
        bool gives_way = standing(k, x->key) < standing(k, counts.key) || either_counts(k);
        if (value_equal(x->v, counts.v) || !gives_way) continue;
        x->instead = said(r, &counts);
        if (x == &c.own && r->n_aliases < ALIASES_MAX) r->aliases[r->n_aliases++] = *x;
    }
    if (!value_equal(r->knob[k].v, counts.v)) recipe_set(r, k, counts.v, counts.why);
}

/* mixed_precision=NAME is a whole section, which counts before copies elsewhere. */
static void settle_named_precision(recipe *r)
{
    const setting *named = &r->knob[K_PRECISION];
    if (named->from != FROM_USER || named->v.kind != V_TEXT) return;
    for (int i = 0; i < r->n_aliases; i++) {
        alias_use *use = &r->aliases[i];
        value implied;
        if (use->instead || !use->alone || standing(use->knob, use->key) == 2 ||
            !precision_implies(named->v.text, use->knob, &implied) || value_equal(implied, use->v))
            continue;
        use->instead =
            arena_text(r->a, "%s=%s (%s)", knobs[K_PRECISION].key, named->v.text, named->why);
        r->knob[use->knob] = (setting){0};
    }
}

const char *bridge_key_that_counts(const recipe *r, knob_id k)
{
    for (int i = 0; i < r->n_aliases; i++) {
        const alias_use *use = &r->aliases[i];
        if (use->knob == k && !use->instead && standing(k, use->key) > standing(k, knobs[k].key))
            return use->key;
    }
    return knobs[k].key;
}

/* ---- old words */

static void read_anew(recipe *r, knob_id k, value v, const char *as)
{
    recipe_note(r, "%s: %s=%s: an old spelling, read as %s as Megatron-Bridge does", r->knob[k].why,
                knobs[k].key, value_text(r->a, r->knob[k].v), as);
    for (int i = 0; i < r->n_aliases; i++)
        if (r->aliases[i].knob == k && !r->aliases[i].instead) r->aliases[i].v = v;
    recipe_set(r, k, v, r->knob[k].why);
}

static void migrate_graphs(recipe *r)
{
    static const value no_modules = {.kind = V_LIST};
    bool local = recipe_is(r, K_GRAPHS, "local") || recipe_is(r, K_GRAPHS, "full_iteration");
    if (r->knob[K_GRAPH_MODULES].from != FROM_USER || recipe_count(r, K_GRAPH_MODULES) != 1) return;
    if (recipe_has(r, K_GRAPH_MODULES, "full"))
        read_anew(r, K_GRAPH_MODULES, no_modules, "[] (whole layers)");
    if (!recipe_has(r, K_GRAPH_MODULES, "full_iteration")) return;
    if (local) {
        read_anew(r, K_GRAPH_MODULES, no_modules, "model.cuda_graph_impl=full_iteration");
        recipe_set(r, K_GRAPHS, value_of_text("full_iteration"), r->knob[K_GRAPH_MODULES].why);
    } else if (!recipe_given(r, K_GRAPHS) || recipe_is(r, K_GRAPHS, "none")) {
        read_anew(r, K_GRAPH_MODULES, no_modules, "[], since there are no graphs,");
    }
}

/* get_megatron_optimizer and TopKRouter compare with these words, and others pass by; a step
 * validates where the interval is not 0. */
static void migrate_words(recipe *r)
{
    const char *name = recipe_word(r, K_OPTIMIZER);
    if (r->knob[K_OPTIMIZER].from == FROM_USER && name && starts(name, "dist_"))
        read_anew(r, K_OPTIMIZER, value_of_text(name + strlen("dist_")), name + strlen("dist_"));
    if (r->knob[K_ROUTER_DTYPE].from == FROM_USER && recipe_is(r, K_ROUTER_DTYPE, "bf16"))
        read_anew(r, K_ROUTER_DTYPE, (value){.kind = V_NULL}, "null (the precision of weights)");
    if (r->knob[K_EVAL_INTERVAL].from == FROM_USER && recipe_given(r, K_EVAL_INTERVAL) &&
        !recipe_int(r, K_EVAL_INTERVAL))
        read_anew(r, K_EVAL_INTERVAL, (value){.kind = V_NULL}, "null (no validation)");
}

/* ---- a layout in lists */

static char letter_of(value v)
{
    static const char *const words[] = {"embedding", "decoder", "mtp", "loss"};
    for (int i = 0; v.kind == V_TEXT && i < 4; i++)
        if (text_equal(v.text, words[i])) return "EtmL"[i];
    return 0;
}

static bool stage_print(textbuf *t, value stage)
{
    if (stage.kind != V_LIST) return false;
    for (int i = 0, same; i < stage.list.n; i += same) {
        char letter = letter_of(stage.list.items[i]);
        if (!letter) return false;
        for (same = 1; i + same < stage.list.n; same++)
            if (letter_of(stage.list.items[i + same]) != letter) break;
        text_add(t, same > 1 ? "%c*%d" : "%c", letter, same);
    }
    return true;
}

value bridge_layout(arena *a, value v)
{
    textbuf t = text_init(a);
    if (v.kind != V_LIST || v.list.n < 2) return v;
    for (int i = 0; i < v.list.n; i++) {
        if (i) text_add(&t, "|");
        if (!stage_print(&t, v.list.items[i])) return v;
    }
    return value_of_text(t.s);
}

/* ---- all of it */

void bridge_derive(recipe *r)
{
    for (int i = 0; i < r->n_aliases; i++)
        if (!r->aliases[i].instead) settle(r, r->aliases[i].knob);
    settle_named_precision(r);
    migrate_graphs(r);
    migrate_words(r);
}
