/* fast_moe.h - the threaded rows of the MoE kinds, by file. */
#ifndef BACKEND_CPU_KERNELS_FAST_MOE_H
#define BACKEND_CPU_KERNELS_FAST_MOE_H

#include "backend/kernels/kernels.h"

/* ---- fast_moe_router.c */
void fast_router(const op *o, void *const *in, void *const *out);
void fast_router_d(const op *o, void *const *in, void *const *out);
void fast_aux_loss(const op *o, void *const *in, void *const *out);
void fast_aux_global(const op *o, void *const *in, void *const *out);
void fast_aux_count(const op *o, void *const *in, void *const *out);
void fast_z_loss(const op *o, void *const *in, void *const *out);

/* ---- fast_moe_dispatch.c */
void fast_drop(const op *o, void *const *in, void *const *out);
void fast_permute(const op *o, void *const *in, void *const *out);
void fast_permute_d(const op *o, void *const *in, void *const *out);
void fast_unpermute(const op *o, void *const *in, void *const *out);
void fast_unpermute_d(const op *o, void *const *in, void *const *out);
void fast_flex_place(const op *o, void *const *in, void *const *out);

/* ---- fast_moe_grouped.c */
void fast_grouped(const op *o, void *const *in, void *const *out);
void fast_grouped_d(const op *o, void *const *in, void *const *out);
void fast_grouped_w(const op *o, void *const *in, void *const *out);

/* ---- fast_moe_bias.c */
void fast_grouped_bias(const op *o, void *const *in, void *const *out);
void fast_grouped_bias_w(const op *o, void *const *in, void *const *out);
void fast_grouped_bias_p(const op *o, void *const *in, void *const *out);

#endif
