/* quant.c - sizes of quantised GEMMs' operands. */
#include "op/quant.h"

#include "base/maths.h"
#include "op/op.h"

quant_pair quant_pair_of(const op *o)
{
    const op_info *kind = &op_infos[o->kind];
    const int64_t *d = o->dim;
    bool grouped = kind->cost == COST_CLASS_GROUPED;
    int64_t m = d[grouped ? DIM_QGROUPED_ROOM : DIM_QGEMM_M];
    int64_t n = d[grouped ? DIM_QGROUPED_N : DIM_QGEMM_N];
    int64_t k = d[grouped ? DIM_QGROUPED_K : DIM_QGEMM_K];
    quant_form form = (quant_form)d[grouped ? DIM_QGROUPED_FORM : DIM_QGEMM_FORM];
    quant_pair p = {.parts = grouped ? d[DIM_QGROUPED_E] : 1,
                    .at = (dtype)d[grouped ? DIM_QGROUPED_AT : DIM_QGEMM_AT],
                    .bt = (dtype)d[grouped ? DIM_QGROUPED_BT : DIM_QGEMM_BT],
                    .grouped = grouped,
                    .weight_gradient = kind->gradient == GRADIENT_OF_WEIGHTS};
    bool square = quant_info_of(form).square;
    if (p.weight_gradient) {
        p.a = (quant_shape){form, false, n, m};
        p.b = (quant_shape){form, false, k, m};
    } else {
        bool data = kind->gradient == GRADIENT_OF_INPUTS;
        p.a = (quant_shape){form, false, m, data ? n : k};
        p.b = (quant_shape){form, square, data ? k : n, data ? n : k};
    }
    return p;
}

int64_t quant_gemm_room(const op *o)
{
    quant_pair p = quant_pair_of(o);
    int64_t b = mul_sat(p.b.rows, p.b.cols);
    if (p.grouped && !p.weight_gradient) b = mul_sat(b, p.parts);
    return mul_sat(4, add_sat(mul_sat(p.a.rows, p.a.cols), b));
}
