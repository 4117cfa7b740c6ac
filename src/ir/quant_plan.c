/* quant_plan.c - from knobs of precision to forms, and where copies of weights lie. */
#include "ir/quant_plan.h"

#include "base/maths.h"
#include "ir/memory/plan.h"
#include "config/target.h"

static quant_form form_of(const recipe *r)
{
    static const struct {
        const char *word;
        quant_form form;
    } forms[] = {{"tensorwise", QUANT_TENSOR}, {"blockwise", QUANT_BLOCK}, {"mxfp8", QUANT_MX}};
    if (target_of(r) != TARGET_MOEFOLD) return QUANT_NONE;
    if (recipe_given(r, K_FP4)) return QUANT_NV;
    for (size_t i = 0; recipe_given(r, K_FP8) && i < sizeof forms / sizeof forms[0]; i++)
        if (recipe_is(r, K_FP8_RECIPE, forms[i].word)) return forms[i].form;
    return QUANT_NONE;
}

/* Blocks have scales of their own, so that gradients need no wider range: E4M3 throughout. */
quant_plan quant_plan_of(const recipe *r)
{
    quant_plan p = {.form = form_of(r), .weights = recipe_on(r, K_FP8_WGRAD)};
    p.forward = p.gradient = p.form == QUANT_NV ? DTYPE_FP4 : DTYPE_E4M3;
    bool hybrid = recipe_is(r, K_FP8, "hybrid");
    if (hybrid && (p.form == QUANT_TENSOR || p.form == QUANT_MX)) p.gradient = DTYPE_E5M2;
    return p;
}

bool quant_layer(const recipe *r, const model *m, int64_t layer)
{
    if (!recipe_on(r, K_BF16_ENDS) || layer >= m->n_layers) return true;
    return layer >= recipe_int(r, K_BF16_START) && layer < m->n_layers - recipe_int(r, K_BF16_END);
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
