/* test_report.c - what the host reads of a step is the same on every rank, bit by bit, and is what
 * ranks would have added up by hand. */
#include "train/layout_rig.c"
#include "train/rig_threads.h"

#define M      "model."
#define TP2    M "tensor_model_parallel_size=2 "
#define CP2    M "context_parallel_size=2 "
#define PP2    M "pipeline_model_parallel_size=2 "
#define EP2    M "expert_model_parallel_size=2 "
#define ETP1   M "expert_tensor_parallel_size=1 "
#define LATE   "ddp.overlap_grad_reduce=true ddp.overlap_param_gather=true ddp.bucket_size=8000 "
#define LOSSES M "moe_aux_loss_coeff=0.01 " M "moe_z_loss_coeff=0.001 moefold.moe_buffer_factor=64 "

static const char *const layouts[] = {
    "cluster.n_gpus=1",
    LATE EP2 "cluster.n_gpus=4",
    TP2 EP2 ETP1 "cluster.n_gpus=4",
    PP2 CP2 EP2 "cluster.n_gpus=4",
    TP2 PP2 EP2 ETP1 "mixed_precision=bf16_mixed cluster.n_gpus=8",
};
enum { N_LAYOUTS = sizeof layouts / sizeof layouts[0], STEPS = 3 };

typedef struct reading {
    rank_rig g;
    double sums[STEPS][SUM_COUNT], verdict[STEPS][VERDICT_COUNT];
    double squares[STEPS]; /* by hand, of this rank */
} reading;

static void *read_main(void *with)
{
    reading *x = with;
    rank_rig *g = &x->g;
    rig_open(g);
    for (int step = 0; step < STEPS; step++) {
        run_step(g, step);
        memcpy(x->sums[step], g->report.sums, sizeof x->sums[0]);
        memcpy(x->verdict[step], g->report.verdict, sizeof x->verdict[0]);
        array_loan l = gradients_of(g);
        x->squares[step] = optimizer_squares(&g->opt, (typed){DTYPE_F32, l.values});
        array_return(&l, ARRAY_READ);
        update(g);
    }
    rig_close(g);
    return NULL;
}

static int read_layout(reading *list, const char *words)
{
    return rig_run(list, sizeof *list, family_cases[0], words, read_main);
}

static void reports_are_equal_on_all_ranks(void **state)
{
    (void)state;
    reading *list = calloc(RIG_RANKS_MAX, sizeof *list);
    arena *a = arena_create();
    for (int l = 0; l < N_LAYOUTS; l++) {
        int n = read_layout(list, common_words(a, arena_text(a, LOSSES "%s", layouts[l])));
        for (int step = 0; step < STEPS; step++) {
            const double *sums = list[0].sums[step], *verdict = list[0].verdict[step];
            double squares = list[0].squares[step];
            for (int i = 1; i < n; i++) {
                assert_memory_equal(list[i].sums[step], sums, sizeof list->sums[0]);
                assert_memory_equal(list[i].verdict[step], verdict, sizeof list->verdict[0]);
                squares += list[i].squares[step];
            }
            assert_true(sums[SUM_SQUARES] == squares); /* in rank order */
            assert_true(verdict[VERDICT_NORM] == sqrt(squares) && squares > 0);
            assert_true(verdict[VERDICT_OUTCOME] == STEP_TAKEN);
            assert_true(sums[SUM_TOKENS] == RIG_SAMPLES * RIG_SEQ);
            assert_true(sums[SUM_AUX] > 0 && sums[SUM_Z] > 0 && sums[SUM_LOSS] > 0);
            assert_true(sums[SUM_LEAVE] == 0 && sums[SUM_FAILED] == 0);
            double t = step + 1; /* Adam's count goes up with the batch */
            assert_true(fabs(verdict[VERDICT_CORRECT1] - 1 / (1 - pow(0.9, t))) < 1e-12);
        }
    }
    arena_destroy(a);
    free(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reports_are_equal_on_all_ranks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
