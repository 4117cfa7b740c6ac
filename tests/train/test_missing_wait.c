/* test_missing_wait.c - a wait that the audit says is needed is needed: without it the deferred
 * device computes something else.
 *
 * Not in every case: what comes from another rank may never come early enough, since that rank
 * waits for this one. So of each layout one must show, and half of all. */
#define _GNU_SOURCE
#include "train/layout_rig.c"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "predict/audit/order_check.h"

#define M "model."

static const char *const layouts[] = {
    M "tensor_model_parallel_size=2 " M "sequence_parallel=true " M
      "expert_model_parallel_size=2 " M "expert_tensor_parallel_size=1 " M
      "moe_token_dispatcher_type=alltoall cluster.n_gpus=2",
    M "pipeline_model_parallel_size=2 " M
      "virtual_pipeline_model_parallel_size=2 comm_overlap.overlap_p2p_comm=true "
      "comm_overlap.batch_p2p_comm=false cluster.n_gpus=2",
    "cluster.n_gpus=2 ddp.overlap_grad_reduce=true ddp.overlap_param_gather=true "
    "ddp.bucket_size=8000",
    M "fine_grained_activation_offloading=true " M "min_offloaded_tensor_size=0 " M
      "offload_modules=[core_attn,attn_proj,expert_fc1,moe_act] cluster.n_gpus=1",
};
enum { N_LAYOUTS = sizeof layouts / sizeof layouts[0], EACH = 4, SEEDS = 8, STEPS = 2 };

/* A WAIT of a program; segment -1: none. */
typedef struct wait_at {
    int segment, phase, op;
} wait_at;

/* ---- which waits are needed */

static const op *left_out;

bool planted_deaf(const op *wait, const item *it)
{
    (void)it;
    return wait == left_out;
}

static bool is_needed(const order_map *m, const op *wait, arena *a)
{
    order_report r;
    if (wait->kind != OP_WAIT || (wait->flags & ACROSS)) return false;
    left_out = wait;
    order_check(&r, m, a);
    left_out = NULL;
    return r.unordered > 0 && r.unfinished == 0;
}

/* Some of them, of many lists and streams. */
static int needed_waits(wait_at *out, const char *folder, const char *words)
{
    enum { MOST = 4096 };
    arena *a = arena_create();
    setup *s = ARENA_NEW(a, setup);
    program *p = ARENA_NEW(a, program);
    wait_at *all = ARENA_ARRAY(a, wait_at, MOST);
    int n = 0;
    setup_of_words(s, a, folder, words);
    program_build(p, s, 0, a);
    const order_map *m = order_map_make(p, a);
    for (int i = 0; i < p->n_segments; i++)
        for (int phase = 0; phase < 2; phase++)
            for (int k = 0; k < p->segments[i]->n_ops[phase] && n < MOST; k++)
                if (is_needed(m, &p->segments[i]->ops[phase][k], a))
                    all[n++] = (wait_at){i, phase, k};
    assert_true(n >= EACH);
    for (int i = 0; i < EACH; i++) out[i] = all[(2 * i + 1) * n / (2 * EACH)];
    arena_destroy(a);
    return n;
}

/* ---- running without one */

/* A stream does not wait for itself. */
static void take_out(program *p, const void *with)
{
    const wait_at *w = with;
    if (w->segment < 0 || w->segment >= p->n_segments) return;
    const segment *seg = p->segments[w->segment];
    if (w->op >= seg->n_ops[w->phase]) return;
    op *o = &seg->ops[w->phase][w->op];
    if (o->kind != OP_WAIT) return;
    o->stream = STREAM_COMPUTE;
    o->dim[DIM_WAIT_EVENT] = 0;
}

static uint64_t add_bytes(uint64_t sum, const void *from, int64_t n)
{
    const unsigned char *bytes = from;
    for (int64_t i = 0; i < n; i++) sum = (sum ^ bytes[i]) * 0x100000001b3u;
    return sum;
}

/* Of what was trained, and of what was reported. */
static uint64_t sum_of(rank_rig *g)
{
    const step_report *r = &g->report;
    uint64_t sum = add_bytes(7, r->sums, (int64_t)sizeof *r->sums * SUM_COUNT);
    sum = add_bytes(sum, r->verdict, (int64_t)sizeof *r->verdict * VERDICT_COUNT);
    sum = add_bytes(sum, r->loads, g->p.step_bytes[STEP_LOAD]);
    static const region kept[] = {REGION_WEIGHTS, REGION_OPTIMIZER};
    for (int i = 0; i < 2; i++) {
        int64_t n = g->p.bytes[kept[i]];
        unsigned char *bytes = malloc((size_t)n + 1);
        executor_read(g->e, bytes, g->p.offset[kept[i]], n);
        sum = add_bytes(sum, bytes, n);
        free(bytes);
    }
    return sum;
}

static void *sum_main(void *with)
{
    rank_rig *g = with;
    error err = {{0}};
    uint64_t *sums = (void *)g->keep;
    g->a = arena_create();
    status st = open_rank(g, &err);
    if (!st) st = load_weights(g, &err);
    if (st) comm_abort(g->c, 3, err.text);
    fill_tables(g);
    for (int step = 0; step < STEPS; step++) {
        run_step(g, step);
        update(g);
        sums[comm_rank(g->c)] += sum_of(g);
    }
    executor_close(g->e);
    arena_destroy(g->a);
    return NULL;
}

/* In a process of its own: what runs out of order may end it. False: it did. */
static bool run_apart(uint64_t *sums, const char *folder, const char *words, const char *on,
                      const wait_at *without)
{
    int result = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        rig_result out = {.text = ""};
        rank_rig *rigs = calloc(RIG_RANKS_MAX, sizeof *rigs);
        comm *comms[RIG_RANKS_MAX];
        pthread_t threads[RIG_RANKS_MAX];
        error err = {{0}};
        int n = (int)ranks_of(folder, words);
        setenv("MOEFOLD_TIMEOUT_SECONDS", "10", 1);
        if ((!getenv("MOEFOLD_VERBOSE") && !freopen("/dev/null", "w", stderr)) ||
            comm_open_threads(comms, n, &err))
            _exit(1);
        for (int i = 0; i < n; i++) {
            rigs[i] = (rank_rig){.folder = folder, .words = words, .out = &out, .c = comms[i]};
            rigs[i].device = on;
            rigs[i].change = take_out;
            rigs[i].with = without;
            rigs[i].keep = (void *)sums;
            pthread_create(&threads[i], NULL, sum_main, &rigs[i]);
        }
        for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
        _exit(0);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &result, 0), child);
    return WIFEXITED(result) && WEXITSTATUS(result) == 0;
}

static bool is_noticed(const uint64_t *right, uint64_t *sums, const char *words,
                       const wait_at *without)
{
    const size_t bytes = sizeof *sums * RIG_RANKS_MAX;
    for (int seed = 1; seed <= SEEDS; seed++) {
        char on[32];
        snprintf(on, sizeof on, "deferred:%d", seed);
        memset(sums, 0, bytes);
        if (!run_apart(sums, family_cases[0], words, on, without)) return true;
        if (memcmp(sums, right, bytes) != 0) return true;
    }
    return false;
}

static void a_needed_wait_is_missed(void **state)
{
    (void)state;
    const size_t bytes = sizeof(uint64_t) * RIG_RANKS_MAX;
    uint64_t *sums = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t right[RIG_RANKS_MAX];
    const wait_at none = {-1, 0, 0};
    int noticed = 0, needed = 0;
    assert_true(sums != MAP_FAILED);
    for (int l = 0; l < N_LAYOUTS; l++) {
        arena *a = arena_create();
        const char *words = arena_text(
            a, "model.seq_length=16 train.global_batch_size=4 moefold.moe_buffer_factor=64 %s",
            layouts[l]);
        wait_at chosen[EACH];
        needed += needed_waits(chosen, family_cases[0], words);
        memset(sums, 0, bytes);
        assert_true(run_apart(sums, family_cases[0], words, "cpu", &none));
        memcpy(right, sums, bytes);
        memset(sums, 0, bytes);
        assert_true(run_apart(sums, family_cases[0], words, "deferred:1", &none));
        assert_memory_equal(right, sums, bytes);
        int before = noticed;
        for (int i = 0; i < EACH; i++) {
            bool seen = is_noticed(right, sums, words, &chosen[i]);
            noticed += seen;
            if (!seen)
                print_message("%s: list %d.%d runs as well without its operation %d\n", layouts[l],
                              chosen[i].segment, chosen[i].phase, chosen[i].op);
        }
        assert_true(noticed > before);
        arena_destroy(a);
    }
    print_message("%d of %d waits taken out show (of %d that are needed)\n", noticed,
                  N_LAYOUTS * EACH, needed);
    assert_true(noticed >= N_LAYOUTS * EACH / 2);
    munmap(sums, bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_needed_wait_is_missed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
