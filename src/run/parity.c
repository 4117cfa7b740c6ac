/* parity.c - running a reference case. */
#include "run/parity.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "model/safetensors.h"
#include "run/batch.h"
#include "run/hf_weights.h"
#include "run/optimizer.h"

enum { GOLDEN_BYTES_MAX = 1 << 30 };

typedef struct golden_case {
    json_t *json;
    safetensors tensors;
    const unsigned char *bytes; /* of golden.safetensors */
    int64_t batch, seq;
} golden_case;

static status bad_case(const char *folder, const char *what, error *err)
{
    return error_set(err, ERR_INPUT, "%s: is no reference case: %s", folder, what);
}

static status golden_open(golden_case *g, arena *a, const char *folder, error *err)
{
    char *bytes;
    size_t n;
    const char *path = arena_text(a, "%s/golden.safetensors", folder);
    status s = json_read(arena_text(a, "%s/golden.json", folder), &g->json, err);
    if (!s) s = file_read(a, path, GOLDEN_BYTES_MAX, &bytes, &n, err);
    if (s) return s;
    safetensors_head head = {path, bytes, n, (int64_t)n};
    s = safetensors_parse(&g->tensors, a, &head, err);
    if (s) return s;
    g->bytes = (const unsigned char *)bytes + g->tensors.data;
    const safetensor *ids = safetensors_find(&g->tensors, "input_ids");
    const safetensor *labels = safetensors_find(&g->tensors, "labels");
    if (!ids || !labels || ids->n_dims != 2 ||
        safetensor_elements(ids) != safetensor_elements(labels) || strcmp(ids->dtype, "I32") != 0 ||
        strcmp(labels->dtype, "I32") != 0)
        return bad_case(
            folder, "golden.safetensors has no input_ids and labels (int32, [batch, seq])", err);
    g->batch = ids->dim[0];
    g->seq = ids->dim[1];
    return OK;
}

static const float *golden_floats(const golden_case *g, const char *name, int64_t elements)
{
    const safetensor *t = safetensors_find(&g->tensors, name);
    if (!t || strcmp(t->dtype, "F32") != 0 || safetensor_elements(t) != elements) return NULL;
    return (const float *)(const void *)(g->bytes + t->begin);
}

status parity_recipe(recipe *r, const char *folder, error *err)
{
    golden_case g = {0};
    status s = golden_open(&g, r->a, folder, err);
    json_decref(g.json);
    if (s) return s;
    const char *fixed[] = {"cluster.gpu=cpu",
                           "train.micro_batch_size=1",
                           "model.moe_aux_loss_coeff=0.0",
                           "model.moe_z_loss_coeff=null",
                           "model.moe_router_bias_update_rate=0.0",
                           arena_text(r->a, "model.seq_length=%lld", (long long)g.seq),
                           arena_text(r->a, "train.global_batch_size=%lld", (long long)g.batch)};
    recipe_set(r, K_MODEL, value_of_text(folder), "reference case");
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0] && !s; i++)
        s = recipe_override(r, fixed[i], "reference case", err);
    return s;
}

/* ---- one step */

typedef struct parity {
    const golden_case *g;
    setup *s;
    program *p;
    executor *e;
    float *mask; /* ones */
    arena *a;
} parity;

static batch micro_batch(const parity *q, int64_t micro)
{
    const safetensor *ids = safetensors_find(&q->g->tensors, "input_ids");
    const safetensor *labels = safetensors_find(&q->g->tensors, "labels");
    int64_t at = micro * q->p->T * 4;
    return (batch){(const int32_t *)(const void *)(q->g->bytes + ids->begin + at),
                   (const int32_t *)(const void *)(q->g->bytes + labels->begin + at), q->mask};
}

/* Forward and backward of the whole batch; the loss. */
static double run_step(parity *q, void (*after_forward)(parity *q, int64_t micro, void *with),
                       void *with)
{
    executor_clear(q->e);
    for (int64_t i = 0; i < q->p->order.n; i++) {
        const order_entry *entry = &q->p->order.list[i];
        if (entry->phase == SEG_FORWARD) {
            batch b = micro_batch(q, entry->micro);
            batch_load(q->e, q->p, &b, 0);
        }
        executor_run(q->e, entry->phase, entry->chunk, entry->micro);
        if (entry->phase == SEG_FORWARD && after_forward) after_forward(q, entry->micro, with);
    }
    const float *main = executor_step_buffer(q->e, STEP_LOSS);
    const float *mtp = executor_step_buffer(q->e, STEP_MTP_LOSS);
    double loss = 0;
    for (int64_t m = 0; m < q->p->micros; m++) {
        loss += (double)main[2 * m];
        if (q->s->m.n_mtp) loss += (double)mtp[2 * m];
    }
    return loss;
}

/* ---- comparisons */

typedef struct squares {
    double difference, golden;
} squares;

static void add_squares(squares *q, const float *ours, const float *golden, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double d = (double)ours[i] - (double)golden[i];
        q->difference += d * d;
        q->golden += (double)golden[i] * (double)golden[i];
    }
}

static double relative(squares q)
{
    return sqrt(q.difference) / sqrt(q.golden > 0 ? q.golden : 1);
}

/* Logits exist only here: final norm and head on the hidden states of a microbatch. */
static void compare_logits(parity *q, int64_t micro, void *with)
{
    const program *p = q->p;
    int64_t T = p->T, H = q->s->m.hidden, V = q->s->m.padded_vocab, n_vocab = q->s->m.vocab;
    const float *all = golden_floats(q->g, "logits", q->g->batch * q->g->seq * n_vocab);
    if (!all) return;
    arena_place mark = arena_mark(q->a);
    float *hidden = ARENA_ARRAY(q->a, float, T *H), *rstd = ARENA_ARRAY(q->a, float, T);
    float *logits = ARENA_ARRAY(q->a, float, T *V);
    const chunk *c = &p->chunks[p->n_chunks - 1];
    const segment *head = c->list[c->n - 1].seg;
    int n_rows;
    const kernel *rows = kernels_cpu(&n_rows);
    for (int phase = 0; phase < 2; phase++)
        for (int i = 0; i < head->n_ops[phase]; i++) {
            const op *o = &head->ops[phase][i];
            bool norm = o->kind == OP_NORM && strcmp(o->name, "final norm") == 0;
            bool loss = o->kind == OP_HEAD_LOSS && head->bufs[o->in[2]].step == STEP_LABELS;
            if (!norm && !loss) continue;
            int64_t w = program_place(p, p->n_chunks - 1, c->n - 1, o->in[1], phase, micro);
            void *from = executor_arena(q->e) + w;
            op made = *o;
            made.kind = norm ? OP_NORM : OP_HEAD_LOGITS;
            void *in[OP_IN_MAX] = {norm ? executor_hidden(q->e, micro) : hidden, from};
            void *out[OP_OUT_MAX] = {norm ? hidden : logits, norm ? rstd : NULL};
            kernel_pick(rows, n_rows, &made, false)->run(&made, in, out);
        }
    for (int64_t t = 0; t < T; t++)
        add_squares(with, logits + t * V, all + (micro * T + t) * n_vocab, n_vocab);
    arena_release(q->a, mark);
}

/* Where a reference gradient is zero everywhere the bound is absolute, 1e-7: scaled so that 1e-7 is
 * the tolerance. */
static double gradient_error(const float *ours, const float *golden, int64_t n, double tolerance)
{
    squares q = {0};
    double largest = 0;
    add_squares(&q, ours, golden, n);
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs((double)ours[i]));
    return q.golden > 0 ? relative(q) : largest / 1e-7 * tolerance;
}

/* A fixed buffer (the router's correction bias) has no gradient: ours is zero. */
static bool is_buffer(const parity *q, const char *name)
{
    arena_place mark = arena_mark(q->a);
    hf_walk walk = {.s = q->s, .w = &q->p->weights};
    bool buffer = false;
    for (hf_part part; hf_walk_next(&walk, &part, q->a);)
        buffer = buffer || (!part.w->row->trained && strcmp(part.name, name) == 0);
    arena_release(q->a, mark);
    return buffer;
}

static status compare_gradients(parity *q, parity_result *r, error *err)
{
    hf_flat flat = {q->s, &q->p->weights, executor_region(q->e, REGION_GRADIENTS), true};
    for (int i = 0; i < q->g->tensors.n_tensors; i++) {
        const safetensor *t = &q->g->tensors.tensors[i];
        if (strncmp(t->name, "grad.", 5) != 0) continue;
        int64_t n = safetensor_elements(t);
        const float *golden = golden_floats(q->g, t->name, n);
        if (!golden)
            return error_set(err, ERR_INPUT, "golden.safetensors: %s is not float32", t->name);
        arena_place mark = arena_mark(q->a);
        float *ours = ARENA_ARRAY(q->a, float, n);
        bool buffer = is_buffer(q, t->name + 5);
        status s = buffer ? OK : hf_tensor(&flat, t->name + 5, ours, n, err);
        double e = s ? 0 : gradient_error(ours, golden, n, r->tolerance[2]);
        arena_release(q->a, mark);
        if (s) return s;
        r->n_gradients++;
        if (!(e <= r->grad_rel_err_max)) {
            r->grad_rel_err_max = e;
            r->grad_worst = arena_copy(q->s->r.a, t->name + 5, strlen(t->name + 5));
        }
    }
    return OK;
}

static double number(const json_t *object, const char *key, double otherwise)
{
    const json_t *v = json_object_get(object, key);
    return json_is_number(v) ? json_number_value(v) : otherwise;
}

/* The curve: AdamW on this one batch, again and again. */
static void compare_curve(parity *q, parity_result *r, double first, int max_steps)
{
    const json_t *adam = json_object_get(q->g->json, "adamw");
    const json_t *losses = json_object_get(q->g->json, "losses");
    int n = (int)json_array_size(losses);
    if (max_steps > 0 && max_steps < n) n = max_steps;
    optimizer o;
    optimizer_init(&o, &q->s->r, &q->p->weights, DECAY_FILE, q->a);
    o.beta1 = number(adam, "beta1", 0.9);
    o.beta2 = number(adam, "beta2", 0.95);
    o.eps = number(adam, "eps", 1e-8);
    o.clip = number(adam, "clip", 1.0);
    double lr = number(adam, "lr", 1e-4);
    step_rates rates = {lr, lr, number(adam, "weight_decay_matrices", 0.1), 1};
    float *w = executor_region(q->e, REGION_WEIGHTS), *g = executor_region(q->e, REGION_GRADIENTS);
    float *m = executor_region(q->e, REGION_OPTIMIZER), *v = m + q->p->weights.trained;
    for (int i = 0; i < n; i++) {
        double loss = i ? run_step(q, NULL, NULL) : first;
        double golden = json_number_value(json_array_get(losses, (size_t)i));
        double e = fabs(loss - golden) / fabs(golden);
        if (!(e <= r->curve_rel_err_max)) {
            r->curve_rel_err_max = e;
            r->curve_worst = i;
        }
        optimizer_step(&o, w, g, m, v, rates);
    }
}

static status run_case(parity *q, parity_result *r, const char *folder, const parity_options *o,
                       error *err)
{
    const char *names[] = {"loss", "logits", "grad", "curve"};
    const json_t *tolerance = json_object_get(q->g->json, "tolerance");
    for (int i = 0; i < 4; i++) r->tolerance[i] = number(tolerance, names[i], 1e-4);
    hf_report report;
    status s =
        hf_load(q->s, &q->p->weights, folder, executor_region(q->e, REGION_WEIGHTS), &report, err);
    if (s) return s;
    batch_tables(q->e, q->p);
    squares logits = {0};
    r->loss = run_step(q, compare_logits, &logits);
    r->loss_golden = number(q->g->json, "loss", NAN);
    r->loss_rel_err = fabs(r->loss - r->loss_golden) / fabs(r->loss_golden);
    r->logits_rel_err = relative(logits);
    s = compare_gradients(q, r, err);
    if (s) return s;
    compare_curve(q, r, r->loss, o->max_steps);
    r->ok = r->loss_rel_err <= r->tolerance[0] && r->logits_rel_err <= r->tolerance[1] &&
            r->grad_rel_err_max <= r->tolerance[2] && r->curve_rel_err_max <= r->tolerance[3];
    return OK;
}

status parity_run(parity_result *out, const recipe *given, const char *folder,
                  const parity_options *o, error *err)
{
    arena *a = given->a;
    golden_case g = {0};
    setup *s = ARENA_NEW(a, setup);
    program *p = ARENA_NEW(a, program);
    parity q = {.g = &g, .s = s, .p = p, .a = a};
    *out = (parity_result){0};
    status st = golden_open(&g, a, folder, err);
    if (!st) st = setup_init(s, given, a, err);
    if (!st) {
        program_build(p, s, a);
        out->arena_bytes = p->arena_bytes;
        if (p->B * p->micros != g.batch || p->S != g.seq)
            st = error_set(err, ERR_INPUT, "%s: the case has %lld samples of %lld tokens", folder,
                           (long long)g.batch, (long long)g.seq);
    }
    if (!st) st = executor_open(&q.e, p, o->plain, err);
    if (!st) {
        q.mask = ARENA_ARRAY(a, float, p->T);
        for (int64_t i = 0; i < p->T; i++) q.mask[i] = 1;
        st = run_case(&q, out, folder, o, err);
    }
    executor_close(q.e);
    json_decref(g.json);
    return st;
}
