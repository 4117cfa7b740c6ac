/* lt.c - see lt.h. */
#include "kernels/cuda/lt.h"

#include <cublasLt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/lt_choices.h"

struct lt_plan {
    cublasLtMatmulDesc_t d;
    cublasLtMatrixLayout_t first, second, result; /* as cuBLAS sees them: columns first */
    cublasLtMatmulAlgo_t algo;
    float beta;
};

static struct {
    pthread_once_t once;
    cublasLtHandle_t handle;
    cublasStatus_t made;
} lt = {.once = PTHREAD_ONCE_INIT};

static void make_handle(void)
{
    lt.made = cublasLtCreate(&lt.handle);
}

static cudaDataType_t type_of(dtype t)
{
    return t == DTYPE_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

/* A row-major C[m][n] is n x m by columns, so B comes first. */
static cublasStatus_t describe(lt_plan *p, const lt_shape *s)
{
    const cublasOperation_t turn_b = s->b_turned ? CUBLAS_OP_N : CUBLAS_OP_T,
                            turn_a = s->a_turned ? CUBLAS_OP_T : CUBLAS_OP_N;
    const uint64_t m = (uint64_t)s->m, n = (uint64_t)s->n, k = (uint64_t)s->k;
    const uint64_t b_rows = s->b_turned ? n : k, b_columns = s->b_turned ? k : n;
    const uint64_t a_rows = s->a_turned ? m : k, a_columns = s->a_turned ? k : m;
    cublasStatus_t e = cublasLtMatmulDescCreate(&p->d, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (!e)
        e = cublasLtMatmulDescSetAttribute(p->d, CUBLASLT_MATMUL_DESC_TRANSA, &turn_b,
                                           sizeof turn_b);
    if (!e)
        e = cublasLtMatmulDescSetAttribute(p->d, CUBLASLT_MATMUL_DESC_TRANSB, &turn_a,
                                           sizeof turn_a);
    if (!e)
        e = cublasLtMatrixLayoutCreate(&p->first, type_of(s->in), b_rows, b_columns,
                                       (int64_t)b_rows);
    if (!e)
        e = cublasLtMatrixLayoutCreate(&p->second, type_of(s->in), a_rows, a_columns,
                                       (int64_t)a_rows);
    if (!e) e = cublasLtMatrixLayoutCreate(&p->result, type_of(s->out), n, m, (int64_t)n);
    return e;
}

static cublasStatus_t prefer(cublasLtMatmulPreference_t pref)
{
    static const cublasLtMatmulPreferenceAttributes_t places[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const uint32_t aligned = 16;
    const size_t most = LT_WORKSPACE - LT_ALIGN;
    cublasStatus_t e = cublasLtMatmulPreferenceSetAttribute(
        pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most);
    for (size_t i = 0; !e && i < sizeof places / sizeof places[0]; i++)
        e = cublasLtMatmulPreferenceSetAttribute(pref, places[i], &aligned, sizeof aligned);
    return e;
}

/* The heuristic's first. */
static cublasStatus_t choose_first(lt_plan *p)
{
    cublasLtMatmulPreference_t pref = NULL;
    cublasLtMatmulHeuristicResult_t best;
    int found = 0;
    cublasStatus_t e = cublasLtMatmulPreferenceCreate(&pref);
    if (!e) e = prefer(pref);
    if (!e)
        e = cublasLtMatmulAlgoGetHeuristic(lt.handle, p->d, p->first, p->second, p->result,
                                           p->result, pref, 1, &best, &found);
    if (!e && found == 0) e = CUBLAS_STATUS_NOT_SUPPORTED;
    if (!e) p->algo = best.algo;
    if (pref) cublasLtMatmulPreferenceDestroy(pref);
    return e;
}

/* Can what was chosen once still be used? */
static bool is_usable(const lt_plan *p)
{
    cublasLtMatmulHeuristicResult_t r;
    return cublasLtMatmulAlgoCheck(lt.handle, p->d, p->first, p->second, p->result, p->result,
                                   &p->algo, &r) == CUBLAS_STATUS_SUCCESS &&
           r.workspaceSize <= LT_WORKSPACE - LT_ALIGN;
}

static cublasStatus_t choose(lt_plan *p, const lt_shape *s)
{
    lt_choice c = {.shape = *s};
    _Static_assert(sizeof p->algo == sizeof c.algo, "an algorithm is eight words");
    if (lt_choices_find(&c)) {
        memcpy(&p->algo, c.algo, sizeof c.algo);
        if (is_usable(p)) return CUBLAS_STATUS_SUCCESS;
    }
    const cublasStatus_t e = choose_first(p);
    if (e) return e;
    memcpy(c.algo, &p->algo, sizeof c.algo);
    lt_choices_keep(&c);
    return e;
}

void lt_keep_choices(const char *path, const char *from)
{
    lt_choices_use(path, from, cublasLtGetVersion());
}

status lt_plan_make(lt_plan **plan, const lt_shape *s, const char *what, error *err)
{
    pthread_once(&lt.once, make_handle);
    if (lt.made)
        return error_set(err, ERR_MACHINE, "cuBLASLt %zu cannot be opened: %s",
                         cublasLtGetVersion(), cublasLtGetStatusString(lt.made));
    lt_plan *p = calloc(1, sizeof *p);
    if (!p) return error_set(err, ERR_MACHINE, "%s: out of memory", what);
    p->beta = s->add ? 1 : 0;
    cublasStatus_t e = describe(p, s);
    if (!e) e = choose(p, s);
    if (e) {
        lt_plan_free(p);
        return error_set(err, ERR_MACHINE,
                         "%s: cuBLASLt %zu has no algorithm for a product of %lld x %lld x %lld: "
                         "%s",
                         what, cublasLtGetVersion(), (long long)s->m, (long long)s->n,
                         (long long)s->k, cublasLtGetStatusString(e));
    }
    *plan = p;
    return OK;
}

void lt_plan_free(lt_plan *p)
{
    if (!p) return;
    if (p->first) cublasLtMatrixLayoutDestroy(p->first);
    if (p->second) cublasLtMatrixLayoutDestroy(p->second);
    if (p->result) cublasLtMatrixLayoutDestroy(p->result);
    if (p->d) cublasLtMatmulDescDestroy(p->d);
    free(p);
}

bool lt_run(const lt_plan *p, const void *a, const void *b, void *c, void *workspace, void *stream)
{
    const float one = 1;
    void *aligned = (void *)(((uintptr_t)workspace + LT_ALIGN - 1) / LT_ALIGN * LT_ALIGN);
    const cublasStatus_t e =
        cublasLtMatmul(lt.handle, p->d, &one, b, p->first, a, p->second, &p->beta, c, p->result, c,
                       p->result, &p->algo, aligned, LT_WORKSPACE - LT_ALIGN, (cudaStream_t)stream);
    if (e) fprintf(stderr, "cuBLASLt: %s\n", cublasLtGetStatusString(e));
    return !e;
}
