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

static bool is_narrow(const op *o, const op_types *t)
{
    return cuda_types_fit(o, t) && t->in[0] == DTYPE_BF16 && t->in[1] == DTYPE_BF16;
}

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
    return is_narrow(o, t) && t->out[0] == DTYPE_BF16 && sizes_fit(o, 8, 8);
}

static bool takes_d(const op *o, const op_types *t)
{
    return is_narrow(o, t) && t->out[0] == DTYPE_BF16 && sizes_fit(o, 8, 64);
}

static bool takes_w(const op *o, const op_types *t)
{
    return is_narrow(o, t) && t->out[0] == DTYPE_F32 && sizes_fit(o, 64, 64);
}

/* ---- launches */

static status ready(cudaError_t e, const op *o, error *err)
{
    if (e == cudaSuccess) return OK;
    return error_set(err, ERR_MACHINE, "%s: this GPU cannot run our grouped GEMM: %s",
                     op_infos[o->kind].name, cudaGetErrorString(e));
}

template <class O> static gemm_args args_of(const O &o, numbers to, int64_t m, int64_t n, int64_t k)
{
    return {o.offsets, to.p, (int)o.E, (int)o.ROOM, (int)m, (int)n, (int)k};
}

static void end_rows(const kernel_call *c, cudaError_t e, const gemm_args &g)
{
    if (e != cudaSuccess) {
        launch_failed(c);
        return;
    }
    clear_tail<<<264, BLOCK, 0, stream_of(c)>>>((uint4 *)g.c, g.offsets + g.n_experts, g.rows,
                                                g.n / 8);
}

static status y_prepare(const op *o, const op_types *, void **, error *err)
{
    return ready(grouped_prepare<GEMM_FORWARD, OUT_BF16>(), o, err);
}

static void y_launch(const kernel_call *c)
{
    const op_grouped o = op_grouped_of(c);
    const gemm_args g = args_of(o, o.y, 0, o.N, o.K);
    end_rows(c, grouped_launch<GEMM_FORWARD, OUT_BF16>({o.x.p, o.w.p, g}, stream_of(c)), g);
}

static status d_prepare(const op *o, const op_types *, void **, error *err)
{
    return ready(grouped_prepare<GEMM_DATA, OUT_BF16>(), o, err);
}

static void d_launch(const kernel_call *c)
{
    const op_grouped_d o = op_grouped_d_of(c);
    const gemm_args g = args_of(o, o.dx, 0, o.K, o.N);
    end_rows(c, grouped_launch<GEMM_DATA, OUT_BF16>({o.dy.p, o.w.p, g}, stream_of(c)), g);
}

static status w_prepare(const op *o, const op_types *, void **, error *err)
{
    const bool writes = o->flags & OVERWRITE;
    return ready(writes ? grouped_prepare<GEMM_WEIGHT, OUT_FP32>()
                        : grouped_prepare<GEMM_WEIGHT, OUT_FP32_ADD>(),
                 o, err);
}

static void w_launch(const kernel_call *c)
{
    const op_grouped_w o = op_grouped_w_of(c);
    const grouped_call q = {o.dy.p, o.x.p, args_of(o, o.dw, o.N, o.K, 0)};
    const cudaError_t e = c->o->flags & OVERWRITE
                              ? grouped_launch<GEMM_WEIGHT, OUT_FP32>(q, stream_of(c))
                              : grouped_launch<GEMM_WEIGHT, OUT_FP32_ADD>(q, stream_of(c));
    if (e != cudaSuccess) launch_failed(c);
}

extern "C" cuda_part cuda_fast_grouped(void)
{
    static const kernel rows[] = {
        {.kind = OP_GROUPED,
         .name = "wgmma",
         .accepts = takes_y,
         .prepare = y_prepare,
         .launch = y_launch},
        {.kind = OP_GROUPED_D,
         .name = "wgmma",
         .accepts = takes_d,
         .prepare = d_prepare,
         .launch = d_launch},
        {.kind = OP_GROUPED_W,
         .name = "wgmma",
         .accepts = takes_w,
         .prepare = w_prepare,
         .launch = w_launch},
    };
    return PART(rows);
}
