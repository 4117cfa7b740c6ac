/* plan_against.c - a recipe beside its plan, as an answer. */
#include "library/plan_parts.h"

static void add_knob(textbuf *t, const recipe *r, knob_id k, const char *word, arena *a)
{
    if (recipe_given(r, k)) text_add(t, ", %s %s", word, value_text(a, r->knob[k].v));
}

const char *plan_sizes_text(const setup *s, arena *a)
{
    const recipe *r = &s->r;
    textbuf t = text_init(a);
    text_add(&t, "TP%lld CP%lld EP%lld ETP%lld PP%lld VPP%lld DP%lld mbs %lld; %s",
             (long long)recipe_int(r, K_TP), (long long)recipe_int(r, K_CP),
             (long long)recipe_int(r, K_EP), (long long)recipe_int(r, K_ETP), (long long)s->pipe.pp,
             (long long)s->pipe.vpp, (long long)s->lay.dp, (long long)recipe_int(r, K_MBS),
             recipe_word(r, K_PRECISION));
    if (recipe_int(r, K_CP) > 1)
        text_add(&t, ", CP by %s",
                 recipe_on(r, K_LATENT_RING) ? "ring over the latent" : recipe_word(r, K_CP_COMM));
    add_knob(&t, r, K_DISPATCHER, "dispatcher", a);
    add_knob(&t, r, K_RECOMPUTE_MODULES, "recompute", a);
    if (recipe_is(r, K_RECOMPUTE, "full")) text_add(&t, ", full recompute");
    if (recipe_on(r, K_EP_OVERLAP)) text_add(&t, ", EP overlap");
    if (recipe_on(r, K_OPT_OFFLOAD)) text_add(&t, ", optimizer on the host");
    if (!recipe_is(r, K_GRAPHS, "none")) add_knob(&t, r, K_GRAPH_MODULES, "graphs of", a);
    return t.s;
}

const against_answer *plan_against_answer(const plan_answer *p, arena *a)
{
    const against *g = p->compared;
    against_answer *x = ARENA_NEW(a, against_answer);
    *x = (against_answer){.recipe = p->own->name, .why_not = g->why_not};
    x->violations = answer_violations(&x->n_violations, &g->found, a);
    if (g->why_not) return x;
    ranked_answer *ranked = ARENA_NEW(a, ranked_answer);
    move_answer *path = ARENA_ARRAY(a, move_answer, g->n_path);
    *ranked = (ranked_answer){.layout = plan_sizes_text(g->s, a),
                              .step_s = g->p.step_s,
                              .tokens_per_s_per_gpu = g->p.tokens_per_s_per_gpu,
                              .tflops_per_gpu = g->p.tflops_per_gpu,
                              .peak_bytes = g->p.peak_bytes,
                              .fits = g->p.fits,
                              .place = g->place,
                              .same_sizes = g->same ? g->same : FIELD_NONE,
                              .path = path,
                              .n_path = g->n_path,
                              .faster_after = g->faster ? g->faster : FIELD_NONE};
    x->ranked = ranked;
    for (int i = 0; i < g->n_path; i++) {
        const path_step *s = &g->path[i];
        seconds_answer *kinds = ARENA_ARRAY(a, seconds_answer, s->n_kinds);
        for (int k = 0; k < s->n_kinds; k++)
            kinds[k] = (seconds_answer){s->kinds[k].name, s->kinds[k].seconds};
        path[i] = (move_answer){s->names,        s->words,  s->gain, s->p.step_s,
                                s->p.peak_bytes, s->p.fits, kinds,   s->n_kinds};
    }
    return x;
}
