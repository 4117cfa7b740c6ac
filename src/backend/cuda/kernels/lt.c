/* lt.c - see lt.h. */
#include "backend/cuda/kernels/lt.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/kernels/lt_choices.h"
#include "backend/cuda/kernels/lt_plan.h"

static struct {
    pthread_once_t once;
    cublasLtHandle_t handle;
    cublasStatus_t made;
    pthread_mutex_t lock; /* of what follows */
    bool tunes;
    int forced; /* the place of the heuristic's list instead of its first, for tests */
    lt_use *uses;
    int n_uses, room;
} lt = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

static void make_handle(void)
{
    lt.made = cublasLtCreate(&lt.handle);
}

static cudaDataType_t type_of(dtype t)
{
    return t == DTYPE_BF16   ? CUDA_R_16BF
           : t == DTYPE_E4M3 ? CUDA_R_8F_E4M3
           : t == DTYPE_E5M2 ? CUDA_R_8F_E5M2
           : t == DTYPE_FP4  ? CUDA_R_4F_E2M1
                             : CUDA_R_32F;
}

static cublasStatus_t set_mode(lt_plan *p, cublasLtMatmulDescAttributes_t which, int32_t mode)
{
    return cublasLtMatmulDescSetAttribute(p->d, which, &mode, sizeof mode);
}

/* B is cuBLAS's A, see below. The heuristic wants addresses, which come with the launch: until then
 * they are aligned as those will be. */
static cublasStatus_t describe_scales(lt_plan *p, const lt_shape *s)
{
    static const struct {
        int32_t a, b;
    } modes[LT_SCALINGS] = {
        [LT_FACTORS] = {CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F,
                        CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F},
        [LT_SQUARES] = {CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F,
                        CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F},
        [LT_ROWS] = {CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F,
                     CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F},
        [LT_MX] = {CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0,
                   CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0},
        [LT_NV] = {CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3,
                   CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3},
    };
    static const int32_t on_device = CUBLASLT_POINTER_MODE_DEVICE;
    const lt_scales aligned = {.a = (void *)LT_ALIGN, .b = (void *)LT_ALIGN};
    if (s->scaling == LT_UNSCALED) return CUBLAS_STATUS_SUCCESS;
    cublasStatus_t e = set_mode(p, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, modes[s->scaling].b);
    if (!e) e = set_mode(p, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, modes[s->scaling].a);
    if (!e && p->by_factors) e = set_mode(p, CUBLASLT_MATMUL_DESC_POINTER_MODE, on_device);
    if (!e && !lt_set_scales(p, &aligned)) e = CUBLAS_STATUS_INVALID_VALUE;
    return e;
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
        e = cublasLtMatrixLayoutCreate(&p->first, type_of(s->scaling ? s->in_b : s->in), b_rows,
                                       b_columns, (int64_t)b_rows);
    if (!e)
        e = cublasLtMatrixLayoutCreate(&p->second, type_of(s->in), a_rows, a_columns,
                                       (int64_t)a_rows);
    if (!e) e = cublasLtMatrixLayoutCreate(&p->result, type_of(s->out), n, m, (int64_t)n);
    return e ? e : describe_scales(p, s);
}

/* Bytes of the workspace that are the library's (L4). */
static size_t room_of(const lt_plan *p)
{
    return LT_WORKSPACE - LT_ALIGN - (p->by_factors ? LT_ALIGN : 0);
}

static cublasStatus_t prefer(const lt_plan *p, cublasLtMatmulPreference_t pref)
{
    static const cublasLtMatmulPreferenceAttributes_t places[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const uint32_t aligned = 16, sums = CUBLASLT_REDUCTION_SCHEME_MASK &
                                        ~(uint32_t)CUBLASLT_REDUCTION_SCHEME_INPLACE; /* L2 */
    const size_t most = room_of(p);
    cublasStatus_t e = cublasLtMatmulPreferenceSetAttribute(
        pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most);
    if (!e)
        e = cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                 &sums, sizeof sums);
    for (size_t i = 0; !e && i < sizeof places / sizeof places[0]; i++)
        e = cublasLtMatmulPreferenceSetAttribute(pref, places[i], &aligned, sizeof aligned);
    return e;
}

/* The heuristic's list, best guess first. */
static cublasStatus_t ask(const lt_plan *p, cublasLtMatmulAlgo_t list[LT_TRIED], int *n)
{
    cublasLtMatmulPreference_t pref = NULL;
    cublasLtMatmulHeuristicResult_t found[LT_TRIED];
    int n_found = 0;
    cublasStatus_t e = cublasLtMatmulPreferenceCreate(&pref);
    if (!e) e = prefer(p, pref);
    if (!e)
        e = cublasLtMatmulAlgoGetHeuristic(lt.handle, p->d, p->first, p->second, p->result,
                                           p->result, pref, LT_TRIED, found, &n_found);
    *n = 0;
    for (int i = 0; i < n_found && !e; i++)
        if (found[i].state == CUBLAS_STATUS_SUCCESS) list[(*n)++] = found[i].algo;
    if (!e && *n == 0) e = CUBLAS_STATUS_NOT_SUPPORTED;
    if (pref) cublasLtMatmulPreferenceDestroy(pref);
    return e;
}

/* Can what was chosen once still be used? */
static bool is_usable(const lt_plan *p)
{
    cublasLtMatmulHeuristicResult_t r;
    return cublasLtMatmulAlgoCheck(lt.handle, p->d, p->first, p->second, p->result, p->result,
                                   &p->algo, &r) == CUBLAS_STATUS_SUCCESS &&
           r.workspaceSize <= room_of(p);
}

/* ---- choosing */

static lt_use *use_of(const lt_shape *s)
{
    for (int i = 0; i < lt.n_uses; i++)
        if (lt_shape_is(&lt.uses[i].shape, s)) return &lt.uses[i];
    return NULL;
}

static void note_use(const lt_use *u)
{
    lt_use *old = use_of(&u->shape);
    if (!old && lt.n_uses == lt.room) {
        const int room = lt.room ? 2 * lt.room : 64;
        lt_use *list = realloc(lt.uses, sizeof *list * (size_t)room);
        if (!list) return; /* one fewer is told of */
        lt.uses = list;
        lt.room = room;
    }
    if (!old) lt.uses[lt.n_uses++] = *u;
}

static int place_in(const cublasLtMatmulAlgo_t *list, int n, const cublasLtMatmulAlgo_t *a)
{
    for (int i = 0; i < n; i++)
        if (memcmp(&list[i], a, sizeof *a) == 0) return i;
    return -1;
}

static status tune(lt_plan *p, const cublasLtMatmulAlgo_t *list, int n, lt_use *u, error *err)
{
    char note[128];
    lt_choice c = {.shape = u->shape};
    status s = lt_tune(p, list, n, u, err);
    if (s) return s;
    u->from = LT_TUNED;
    memcpy(c.algo, &p->algo, sizeof c.algo);
    snprintf(note, sizeof note, "%.60s: number %d of %d, %.4f ms, the first %.4f", u->name,
             u->place + 1, u->tried, 1e3 * u->own_s, 1e3 * u->first_s);
    return lt_choices_tune(&c, note, err);
}

/* What is kept or tuned, where it can be used (L1). */
static lt_source known(lt_plan *p, lt_choice *c)
{
    _Static_assert(sizeof p->algo == sizeof c->algo, "an algorithm is eight words");
    const lt_source from = lt_choices_find(c);
    memcpy(&p->algo, c->algo, sizeof c->algo);
    return from != LT_FIRST && is_usable(p) ? from : LT_FIRST;
}

static status choose(lt_plan *p, lt_use *u, error *err)
{
    static const char *const scaling_names[LT_SCALINGS] = {
        "",
        " in FP8 with a factor a tensor",
        " in FP8 with scales for 1 x 128 and 128 x 128",
        " in FP8 with scales for 1 x 128",
        " in MXFP8",
        " in NVFP4"};
    cublasLtMatmulAlgo_t list[LT_TRIED];
    lt_choice c = {.shape = u->shape};
    int n;
    const cublasStatus_t e = ask(p, list, &n);
    if (e)
        return error_set(err, ERR_MACHINE,
                         "%s: cuBLASLt %zu has no algorithm for a product of %lld x %lld x %lld%s: "
                         "%s",
                         u->name, cublasLtGetVersion(), (long long)c.shape.m, (long long)c.shape.n,
                         (long long)c.shape.k, scaling_names[c.shape.scaling],
                         cublasLtGetStatusString(e));
    u->from = known(p, &c);
    if (lt.tunes && !use_of(&u->shape)) return tune(p, list, n, u, err);
    if (u->from == LT_FIRST) p->algo = list[lt.forced < n ? lt.forced : n - 1];
    u->place = place_in(list, n, &p->algo);
    memcpy(c.algo, &p->algo, sizeof c.algo);
    if (u->from != LT_KEPT) lt_choices_keep(&c);
    return OK;
}

void lt_use_files(const char *run, const char *from, const char *tuned, const char *gpu, bool tunes)
{
    const char *forced = getenv("MOEFOLD_CUBLASLT"); /* for tests of resuming: docs/GPU.md */
    static char last[1024];
    char words[1024];
    snprintf(words, sizeof words, "%s\n%s\n%s\n%d", run, from, tuned, tunes);
    lt_choices_use(&(lt_files){run, from, tuned, cublasLtGetVersion(), gpu});
    pthread_mutex_lock(&lt.lock);
    lt.tunes = tunes;
    lt.forced = forced && atoi(forced) > 0 ? atoi(forced) : 0;
    if (strcmp(last, words) != 0) lt.n_uses = 0; /* ranks that are threads share one list */
    memcpy(last, words, sizeof last);
    pthread_mutex_unlock(&lt.lock);
}

int lt_uses(lt_use *list, int room)
{
    pthread_mutex_lock(&lt.lock);
    const int n = lt.n_uses;
    for (int i = 0; i < n && i < room; i++) list[i] = lt.uses[i];
    pthread_mutex_unlock(&lt.lock);
    return n;
}

/* ---- plans */

status lt_plan_make(lt_plan **plan, const lt_shape *s, const char *what, error *err)
{
    pthread_once(&lt.once, make_handle);
    if (lt.made)
        return error_set(err, ERR_MACHINE, "cuBLASLt %zu cannot be opened: %s",
                         cublasLtGetVersion(), cublasLtGetStatusString(lt.made));
    lt_plan *p = calloc(1, sizeof *p);
    if (!p) return error_set(err, ERR_MACHINE, "%s: out of memory", what);
    p->beta = s->add ? 1 : 0;
    p->by_factors = s->scaling == LT_NV;
    lt_use u = {.shape = *s, .place = -1};
    snprintf(u.name, sizeof u.name, "%s", what);
    const cublasStatus_t e = describe(p, s);
    status st = e ? error_set(err, ERR_MACHINE, "%s: cuBLASLt cannot describe it: %s", what,
                              cublasLtGetStatusString(e))
                  : OK;
    pthread_mutex_lock(&lt.lock);
    if (!st) st = choose(p, &u, err);
    if (!st) note_use(&u);
    pthread_mutex_unlock(&lt.lock);
    if (st) {
        lt_plan_free(p);
        return st;
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

bool lt_set_scales(lt_plan *p, const lt_scales *s)
{
    cublasStatus_t e = cublasLtMatmulDescSetAttribute(p->d, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER,
                                                      &s->b, sizeof s->b);
    if (!e)
        e = cublasLtMatmulDescSetAttribute(p->d, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &s->a,
                                           sizeof s->a);
    p->scales = *s;
    if (e) fprintf(stderr, "cuBLASLt: scales: %s\n", cublasLtGetStatusString(e));
    return !e;
}

bool lt_run(const lt_plan *p, const void *a, const void *b, void *c, void *workspace, void *stream)
{
    const float one = 1, *alpha = &one, *beta = &p->beta;
    char *aligned = (char *)(((uintptr_t)workspace + LT_ALIGN - 1) / LT_ALIGN * LT_ALIGN);
    if (p->by_factors) { /* L4 */
        lt_factors *f = (lt_factors *)(void *)(aligned + room_of(p));
        lt_put_factors(&p->scales, p->beta, f, stream);
        alpha = &f->alpha;
        beta = &f->beta;
    }
    const cublasStatus_t e =
        cublasLtMatmul(lt.handle, p->d, alpha, b, p->first, a, p->second, beta, c, p->result, c,
                       p->result, &p->algo, aligned, room_of(p), (cudaStream_t)stream);
    if (e) fprintf(stderr, "cuBLASLt: %s\n", cublasLtGetStatusString(e));
    return !e;
}
