/* quant_plan.c - from knobs of precision to forms, and where copies of weights lie. */
#include "ir/quant_plan.h"

#include "base/maths.h"
#include "ir/segment.h"

static quant_form form_of(const job *j)
{
    if (!job_is_ours(j)) return QUANT_NONE;
    if (job_has(j, K_FP4)) return QUANT_NV;
    if (!job_has(j, K_FP8)) return QUANT_NONE;
    switch (j->fp8_recipe) {
    case J_FP8_RECIPE_TENSORWISE:
        return QUANT_TENSOR;
    case J_FP8_RECIPE_BLOCKWISE:
        return QUANT_BLOCK;
    case J_FP8_RECIPE_MXFP8:
        return QUANT_MX;
    default:
        return QUANT_NONE;
    }
}

/* Blocks have scales of their own, so that gradients need no wider range: E4M3 throughout. */
quant_plan quant_plan_of(const job *j)
{
    quant_plan p = {.form = form_of(j), .weights = j->fp8_wgrad};
    p.forward = p.gradient = p.form == QUANT_NV ? DTYPE_FP4 : DTYPE_E4M3;
    bool hybrid = j->fp8 == J_FP8_HYBRID;
    if (hybrid && (p.form == QUANT_TENSOR || p.form == QUANT_MX)) p.gradient = DTYPE_E5M2;
    return p;
}

bool quant_layer(const job *j, const model *m, int64_t layer)
{
    if (!j->bf16_ends || layer >= m->n_layers) return true;
    return layer >= j->bf16_start && layer < m->n_layers - j->bf16_end;
}

static int64_t put(int64_t *end, int64_t bytes)
{
    int64_t at = *end;
    *end = round_up(at + bytes, PLAN_ALIGN);
    return at;
}

quant_places quant_places_of(const quant_plan *p, int64_t parts, int64_t n, int64_t k)
{
    quant_info info = quant_info_of(p->form);
    quant_shape row = {p->form, info.square, n, k}, turned = {p->form, info.square, k, n};
    int64_t end = 0;
    quant_places z;
    z.q = put(&end, parts * dtype_bytes(p->forward, n * quant_row(p->forward, k)));
    z.s = put(&end, parts * dtype_bytes(info.scale, quant_scales(row)));
    z.g = put(&end, info.factor ? parts * 4 : 0);
    z.qt = put(&end, parts * dtype_bytes(p->forward, k * quant_row(p->forward, n)));
    z.st = put(&end, parts * dtype_bytes(info.scale, quant_scales(turned)));
    z.bytes = end;
    return z;
}
