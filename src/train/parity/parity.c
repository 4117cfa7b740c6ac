/* parity.c - comparing a reference case with what all ranks compute of it. */
#include "train/parity/parity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/waiting.h"
#include "backend/comm/agree.h"
#include "train/hf/weights.h"
#include "train/executor/arrays.h"
#include "train/parity/step.h"

static double relative(squares q)
{
    return sqrt(q.difference) / sqrt(q.golden > 0 ? q.golden : 1);
}

/* ---- gradients */

static bool is_gradient(const safetensor *t)
{
    return strncmp(t->name, "grad.", 5) == 0 && safetensor_elements(t) > 0;
}

/* What this rank answers for of each gradient. */
static status compare_own(parity *q, hf_compared *out, error *err)
{
    array_loan g;
    status s = array_borrow(&g, q->e, q->p, ARRAY_GRADIENTS, err);
    if (s) return s;
    hf_flat flat = {q->s, &q->p->weights, g.values, true};
    for (int i = 0; i < q->g->tensors.n_tensors && !s; i++) {
        const safetensor *t = &q->g->tensors.tensors[i];
        if (!is_gradient(t)) continue;
        int64_t n = safetensor_elements(t);
        hf_golden golden = {t->name + 5, golden_floats(q->g, t->name, n), n};
        if (!golden.values)
            s = error_set(err, ERR_INPUT, "golden.safetensors: %s is not float32", t->name);
        else
            s = hf_compare(&flat, &q->p->at, &golden, &out[i], err);
    }
    array_return(&g, ARRAY_READ);
    return s;
}

static void add_up(comm *c, hf_compared *list, int n, arena *a)
{
    double *sums = ARENA_ARRAY(a, double, 3 * n + 1), *most = ARENA_ARRAY(a, double, n + 1);
    for (int i = 0; i < n; i++) {
        sums[3 * i] = list[i].difference;
        sums[3 * i + 1] = list[i].golden;
        sums[3 * i + 2] = (double)list[i].elements;
        most[i] = list[i].largest;
    }
    comm_sum(c, GROUP_WORLD, sums, 3 * n);
    comm_max(c, GROUP_WORLD, most, n);
    for (int i = 0; i < n; i++)
        list[i] = (hf_compared){sums[3 * i], sums[3 * i + 1], most[i], (int64_t)sums[3 * i + 2]};
}

/* Where a reference gradient is zero everywhere the bound is absolute, 1e-7: scaled so that 1e-7 is
 * the tolerance. */
static double gradient_error(const hf_compared *c, double tolerance)
{
    squares q = {c->difference, c->golden};
    return c->golden > 0 ? relative(q) : c->largest / 1e-7 * tolerance;
}

static status compare_gradients(parity *q, parity_result *r, error *err)
{
    int n = q->g->tensors.n_tensors;
    hf_compared *all = ARENA_ARRAY(q->a, hf_compared, n + 1);
    TRY(ranks_agree(q->c, compare_own(q, all, err), err));
    add_up(q->c, all, n, q->a);
    for (int i = 0; i < n; i++) {
        const safetensor *t = &q->g->tensors.tensors[i];
        if (!is_gradient(t)) continue;
        if (all[i].elements != safetensor_elements(t))
            return error_set(
                err, ERR_MACHINE,
                "%s: the ranks own %lld of its %lld elements; this is a bug in moefold",
                t->name + 5, (long long)all[i].elements, (long long)safetensor_elements(t));
        double e = gradient_error(&all[i], r->tolerance[2]);
        r->n_gradients++;
        if (!(e <= r->grad_rel_err_max)) {
            r->grad_rel_err_max = e;
            r->grad_worst = arena_copy(q->a, t->name + 5, strlen(t->name + 5));
        }
    }
    return OK;
}

/* ---- the curve: AdamW on this one batch, again and again */

/* The case says how it was trained: without moving biases of routers. */
static void take_optimizer(setup *s, const golden_case *g)
{
    static const struct {
        const char *name;
        knob_id knob;
        double usual;
    } numbers[] = {{"beta1", K_BETA1, 0.9},
                   {"beta2", K_BETA2, 0.95},
                   {"eps", K_ADAM_EPS, 1e-8},
                   {"clip", K_CLIP, 1.0}};
    const json_t *adam = json_object_get(g->json, "adamw");
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        double x = golden_number(adam, numbers[i].name, numbers[i].usual);
        setup_set(s, numbers[i].knob, value_of_float(x), "of the reference case");
    }
    setup_set(s, K_BIAS_RATE, value_of_float(0), "of the reference case");
}

static void open_optimizer(parity *q)
{
    const json_t *adam = json_object_get(q->g->json, "adamw");
    double lr = golden_number(adam, "lr", 1e-4);
    q->rates = (step_rates){lr, lr, golden_number(adam, "weight_decay_matrices", 0.1), 1};
    optimizer_init(&q->o, q->p, DECAY_FILE, q->a);
    step_table(q->e, q->p, &q->o);
}

static void compare_curve(parity *q, parity_result *r, int max_steps)
{
    const json_t *losses = json_object_get(q->g->json, "losses");
    int n = (int)json_array_size(losses);
    if (max_steps > 0 && max_steps < n) n = max_steps;
    double *ours = ARENA_ARRAY(q->a, double, n);
    r->curve = ours;
    r->n_curve = n;
    for (int i = 0; i < n; i++) {
        const double loss = ours[i] = i ? parity_step(q, NULL) : r->loss;
        double golden = json_number_value(json_array_get(losses, (size_t)i));
        double e = fabs(loss - golden) / fabs(golden);
        if (!(e <= r->curve_rel_err_max)) {
            r->curve_rel_err_max = e;
            r->curve_worst = i;
        }
        parity_update(q);
        waiting_part((double)(i + 1) / (double)n);
    }
}

/* ---- the case */

static void compare_logits(parity *q, parity_result *r, squares logits)
{
    double sums[2] = {logits.difference, logits.golden};
    comm_sum(q->c, GROUP_WORLD, sums, 2);
    r->logits_rel_err = relative((squares){sums[0], sums[1]});
}

static status run_case(parity *q, parity_result *r, const parity_options *o, error *err)
{
    const char *names[] = {"loss", "logits", "grad", "curve"};
    const json_t *tolerance = json_object_get(q->g->json, "tolerance");
    for (int i = 0; i < 4; i++) r->tolerance[i] = golden_number(tolerance, names[i], 1e-4);
    hf_report report;
    array_loan w;
    status s = ranks_agree(q->c, array_borrow(&w, q->e, q->p, ARRAY_WEIGHTS, err), err);
    if (s) return s;
    s = hf_load(&(hf_rank){q->s, &q->p->at, &q->p->weights, w.values}, o->folder, &report, err);
    array_return(&w, ARRAY_ROUNDED);
    s = ranks_agree(q->c, s, err);
    if (s) return s;
    batch_tables(q->e, q->p);
    open_optimizer(q);
    squares logits = {0};
    r->loss = parity_step(q, &logits);
    r->loss_golden = golden_number(q->g->json, "loss", NAN);
    r->loss_rel_err = fabs(r->loss - r->loss_golden) / fabs(r->loss_golden);
    compare_logits(q, r, logits);
    s = compare_gradients(q, r, err);
    if (s) return s;
    compare_curve(q, r, o->max_steps);
    r->ok = r->loss_rel_err <= r->tolerance[0] && r->logits_rel_err <= r->tolerance[1] &&
            r->grad_rel_err_max <= r->tolerance[2] && r->curve_rel_err_max <= r->tolerance[3];
    return OK;
}

/* As in Megatron, the rows that pad a vocabulary take part in the softmax of the loss. */
static status vocabulary_fits(const parity *q, const char *folder, error *err)
{
    const model *m = &q->s->m;
    if (m->padded_vocab == m->vocab) return OK;
    return error_set(
        err, ERR_INPUT,
        "%s: the vocabulary of %lld is padded to %lld, and the added rows take part in "
        "the softmax, which the reference does not have; repair: %s=false and a %s "
        "that divides %lld",
        folder, (long long)m->vocab, (long long)m->padded_vocab, knobs[K_VOCAB_PAD].key,
        knobs[K_TP].key, (long long)m->vocab);
}

static status fits_case(const parity *q, const char *folder, error *err)
{
    TRY(vocabulary_fits(q, folder, err));
    const program *p = q->p;
    int64_t samples = p->B * p->micros * q->s->lay.dp;
    if (samples == q->g->batch && batch_seq(p) == q->g->seq) return OK;
    return error_set(err, ERR_INPUT,
                     "%s: the case has %lld samples of %lld tokens, the recipe asks for %lld of "
                     "%lld; repair: train.global_batch_size=%lld model.seq_length=%lld and sizes "
                     "that divide them",
                     folder, (long long)q->g->batch, (long long)q->g->seq, (long long)samples,
                     (long long)batch_seq(p), (long long)q->g->batch, (long long)q->g->seq);
}

/* Builds and runs the program of a setup. */
static status run_setup(parity *q, parity_result *r, const parity_options *o, error *err)
{
    *r = (parity_result){0};
    q->overflow = 0;
    program_build(q->p, q->s, q->p->at.rank, q->a);
    double bytes = (double)q->p->arena_bytes;
    status s = fits_case(q, o->folder, err);
    if (!s) s = executor_open(&q->e, q->p, q->c, (executor_options){.plain = o->plain}, err);
    s = ranks_agree(q->c, s, err);
    if (!s) s = run_case(q, r, o, err);
    if (!s) executor_settle(q->e);
    executor_close(q->e);
    q->e = NULL;
    comm_max(q->c, GROUP_WORLD, &bytes, 1);
    r->arena_bytes = (int64_t)bytes;
    return s;
}

/* Again with larger routed buffers, as long as some were too small. */
static status run_grown(parity *q, parity_result *r, const parity_options *o, error *err)
{
    for (;;) {
        TRY(run_setup(q, r, o, err));
        if (q->overflow <= 1) return OK;
        double factor = q->s->j.buffer_factor * q->overflow * 1.5;
        if (q->s->j.on_overflow == J_ON_OVERFLOW_STOP || factor > 1024)
            return error_set(err, ERR_MACHINE,
                             "a routed buffer would need %.2f times its size; stopped because "
                             "moefold.on_overflow=stop; repair: moefold.moe_buffer_factor=%.1f",
                             q->overflow, factor);
        setup *larger = ARENA_NEW(q->a, setup);
        *larger = *q->s;
        setup_set(larger, K_BUFFER_FACTOR, value_of_float(ceil(factor * 10) / 10),
                  "routed buffers were too small");
        q->s = larger;
    }
}

status parity_run(parity_result *out, const setup *given, arena *a, const parity_options *o,
                  comm *c, error *err)
{
    golden_case g = {0};
    comm *own = NULL;
    setup *s = ARENA_NEW(a, setup);
    parity q = {.g = &g, .s = s, .p = ARENA_NEW(a, program), .a = a};
    *out = (parity_result){0};
    *s = *given;
    status st = OK;
    if (!c) st = comm_open_self(&own, err);
    q.c = c ? c : own;
    if (!st) st = comm_groups(q.c, s, err);
    if (!st) st = ranks_agree(q.c, golden_open(&g, a, o->folder, err), err);
    if (!st) {
        q.p->at.rank = comm_rank(q.c);
        take_optimizer(s, &g);
        q.mask = ARENA_ARRAY(a, float, g.batch *g.seq);
        for (int64_t i = 0; i < g.batch * g.seq; i++) q.mask[i] = g.labels[i] >= 0;
        st = run_grown(&q, out, o, err);
    }
    json_decref(g.json);
    comm_close(own);
    return st;
}
