/* fast_grouped.cu - GEMMs of experts on Hopper's tensor cores: rows for grouped_gemm.cuh.
 *
 * F1  Offsets are read on the device. Rows past the last expert's are cleared by a launch of their
 *     own, whose blocks leave at once where there are none.
 * F2  A weight gradient adds (OVERWRITE: writes, zeros of empty experts, too) each element once, so
 *     its sums have a fixed order (C2). */
#include "backend/cuda/kernels/device.cuh"
#include "backend/cuda/kernels/grouped_launch.cuh"
#include "backend/cuda/kernels/grouped_tail.cuh"

/* ---- which sizes */

/* What the copy engine can describe; positions are those of GROUPED for all three. */
static bool sizes_fit(const op *o, int64_t n_of, int64_t k_of)
{
    const int64_t room = o->dim[DIM_GROUPED_ROOM], e = o->dim[DIM_GROUPED_E];
    const int64_t n = o->dim[DIM_GROUPED_N], k = o->dim[DIM_GROUPED_K];
    return room > 0 && e > 0 && e <= MAX_EXPERTS && n > 0 && k > 0 && n % n_of == 0 &&
           k % k_of == 0 && room <= INT32_MAX && n <= INT32_MAX && k <= INT32_MAX;
}

static bool takes_y(const op *o, const op_types *t)
{
    return all_bf16(o, t, 2, 1) && sizes_fit(o, 8, 8);
}

static bool takes_d(const op *o, const op_types *t)
{
    return all_bf16(o, t, 2, 1) && sizes_fit(o, 8, 64);
}

static bool takes_w(const op *o, const op_types *t)
{
    return all_bf16(o, t, 2, 0) && t->out[0] == DTYPE_F32 && sizes_fit(o, 64, 64);
}

/* ---- launches */

template <int KIND> static status prepare(const op *o, const op_types *, void **, error *err)
{
    return gpu_can("run our grouped GEMM", gemm_prepare<KIND>(o->flags & OVERWRITE), o, err);
}

template <int KIND> static void launch(const kernel_call *c)
{
    const op_grouped o = op_grouped_of(c); /* its gradients' operands stand alike */
    const gemm_args g = gemm_args_of<KIND>(o.offsets, o.y.p, o.E, o.ROOM, o.N, o.K);
    if (gemm_launch<KIND>({o.x.p, o.w.p, g}, c->o->flags & OVERWRITE, stream_of(c)) != cudaSuccess)
        launch_failed(c);
    else if (KIND != GEMM_WEIGHT)
        clear_tail(c, o.y.p, o.offsets + o.E, o.ROOM, g.n);
}

extern "C" cuda_part cuda_fast_grouped(void)
{
    static const kernel rows[] = {
        {.kind = OP_GROUPED,
         .name = "wgmma",
         .accepts = takes_y,
         .prepare = prepare<GEMM_FORWARD>,
         .launch = launch<GEMM_FORWARD>},
        {.kind = OP_GROUPED_D,
         .name = "wgmma",
         .accepts = takes_d,
         .prepare = prepare<GEMM_DATA>,
         .launch = launch<GEMM_DATA>},
        {.kind = OP_GROUPED_W,
         .name = "wgmma",
         .accepts = takes_w,
         .prepare = prepare<GEMM_WEIGHT>,
         .launch = launch<GEMM_WEIGHT>},
    };
    return PART(rows);
}
