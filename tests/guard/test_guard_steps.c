/* test_guard_steps.c - steps that are not the usual one leave the state that they should, to the
 * bit: weights, both moments and all counters.
 *
 * | what                        | beside what is here, in tests/train                             |
 * |-----------------------------|---------------------------------------------------------------|
 * | skipped: NaN, norm          | test_optimizer.c: a_bad_gradient_skips_the_step               |
 * | routed buffers grow         | test_trainer.c: small_routed_buffers_grow (losses)            |
 * | a validation between steps  | test_trainer.c: recorded_routing_is_that_of_any_layout        |
 * | a save before a late gather | tests/cli/test_train.sh: resume_is_exact (one rank)           |
 * | checkpoints of before       | test_checkpoint_layouts.c: any layout, made-up values         |
 * | offload, recompute          | not here: test_offload.c, test_executor.c                     |
 */
#include "guard/machine_testing.h"

#include "train/data/source.h"

#define M        "model."
#define TP2      M "tensor_model_parallel_size=2 "
#define PP2      M "pipeline_model_parallel_size=2 "
#define VPP2     M "virtual_pipeline_model_parallel_size=2 "
#define EP2      M "expert_model_parallel_size=2 "
#define ETP1     M "expert_tensor_parallel_size=1 "
#define A2A      M "moe_token_dispatcher_type=alltoall "
#define LATE     "ddp.overlap_grad_reduce=true ddp.overlap_param_gather=true ddp.bucket_size=8000 "
#define EP_ASYNC "comm_overlap.overlap_moe_expert_parallel_comm=true "
#define RANKS(n) "cluster.n_gpus=" #n " "
#define ROOM     "moefold.moe_buffer_factor=64 "
#define BIAS                                                                                       \
    M "moe_router_enable_expert_bias=true " M "moe_router_score_function=sigmoid " M               \
      "moe_router_load_balancing_type=none "
#define SLIGHT M "moe_router_bias_update_rate=1e-9 "

/* The learning rate falls with every step: which of them it has seen shows. Data are 1,297 tokens
 * of a file: of mock data every rank of every run shuffled thirteen million samples. */
#define DATA  "tests/data/megatron-data/a-u16"
#define SPLIT "1,1,1"
#define COMMON                                                                                     \
    "mixed_precision=fp32 model.seq_length=16 train.micro_batch_size=1 train.global_batch_size=4 " \
    "model.vocab_size=1024 train.train_iters=4 optimizer.lr=1e-3 optimizer.min_lr=1e-4 "           \
    "optimizer.clip_grad=1.0 "                                                                     \
    "optimizer.weight_decay=0.1 scheduler.lr_decay_style=cosine "                                  \
    "dataset.data_path=[" DATA "] dataset.split='" SPLIT "' "                                      \
    "model.hidden_size=64 model.ffn_hidden_size=96 model.moe_ffn_hidden_size=32 "                  \
    "model.num_attention_heads=4 model.num_query_groups=2 model.kv_channels=16 "                   \
    "model.moe_z_loss_coeff=0.001 "
enum { ITERS = 4, GBS = 4, SEQ = 16, VOCAB = 1024 };

static const char *const layouts[] = {
    RANKS(1),
    LATE PP2 VPP2 RANKS(4),
    TP2 EP2 ETP1 A2A RANKS(4),
};
enum { N_LAYOUTS = sizeof layouts / sizeof layouts[0] };

/* ---- runs */

/* Trains `tiny`; fails the test where the run fails. What was said is in `g`. */
static guard_run ran(const char *words)
{
    guard_run g = {.model = "tiny", .words = words};
    guard_train(&g);
    for (int r = 0; r < GUARD_RANKS_MAX; r++)
        if (g.s[r]) fail_msg("%s: %s", words, g.err[r].text);
    return g;
}

/* A run that saves in a folder of its own: its state at `step`. */
static guard_state *state_of(const char *words, int64_t step, const char **said, arena *a)
{
    const char *folder = guard_folder(a);
    guard_run g = ran(arena_text(a, COMMON "%s checkpoint.save=%s", words, folder));
    guard_state *s = guard_read(folder, step);
    if (said) *said = arena_text(a, "%s", g.said);
    free(g.said);
    guard_remove(folder);
    return s;
}

static void same_ends(const char *one, const char *other, const char *what, arena *a)
{
    guard_state *x = state_of(one, ITERS, NULL, a), *y = state_of(other, ITERS, NULL, a);
    x->counters.consumed_valid_samples = y->counters.consumed_valid_samples;
    guard_same(x, y, what);
    free(x);
    free(y);
}

/* ---- skipped steps
 *
 * A run is stopped after two steps. From there one goes on, and skips the third; the other starts
 * from a copy of the checkpoint whose counters say that the third was skipped, as checkpoint.h
 * documents them. The fourth must then be the same step. */

typedef struct copy {
    setup *s;
    weight_list w;
    checkpoint c;
} copy;

static void copy_load(copy *x, const char *words, const char *folder, int64_t step, arena *a)
{
    error err = {{0}};
    x->s = ARENA_NEW(a, setup);
    setup_of_words(x->s, a, "tiny", words);
    weight_list_init(&x->w, x->s, a);
    x->c = (checkpoint){.s = x->s, .w = &x->w};
    x->c.weights = ARENA_ARRAY(a, float, x->w.elements);
    x->c.exp_avg = ARENA_ARRAY(a, float, x->w.owned);
    x->c.exp_avg_sq = ARENA_ARRAY(a, float, x->w.owned);
    if (checkpoint_load(&x->c, folder, step, &err)) fail_msg("%s", err.text);
}

static void copy_save(copy *x, const char *folder)
{
    error err = {{0}};
    if (checkpoint_save(&x->c, folder, 0, &err)) fail_msg("%s", err.text);
}

static void step_was_skipped(checkpoint_state *s)
{
    s->iteration++;
    s->consumed_samples += GBS;
    s->skipped_iterations++;
}

/* Marks the tokens of a step's batch. */
static void mark_tokens(bool *seen, int step)
{
    arena *a = arena_create();
    data_options o = data_defaults();
    data_source *d;
    error err = {{0}};
    int32_t tokens[SEQ], labels[SEQ], positions[SEQ];
    float mask[SEQ];
    o.paths.list = (const char *[]){DATA};
    o.paths.n = 1;
    o.split = SPLIT;
    o.seq_length = SEQ;
    o.vocab_size = VOCAB;
    o.eod = VOCAB - 1;
    o.n_samples[DATA_TRAIN] = (int64_t)ITERS * GBS;
    if (data_open(&d, &o, a, &err)) fail_msg("%s", err.text);
    for (int i = 0; i < GBS; i++) {
        data_item into = {tokens, labels, mask, positions, NULL, 0, 0};
        if (data_sample(d, DATA_TRAIN, (int64_t)(step - 1) * GBS + i, &into, &err))
            fail_msg("%s", err.text);
        for (int k = 0; k < SEQ; k++) seen[tokens[k]] = true;
    }
    data_close(d);
    arena_destroy(a);
}

/* A token that the third step reads and the fourth does not. */
static int token_of_the_third_step(void)
{
    bool third[VOCAB] = {0}, fourth[VOCAB] = {0};
    mark_tokens(third, 3);
    mark_tokens(fourth, 4);
    for (int i = 0; i < VOCAB; i++)
        if (third[i] && !fourth[i]) return i;
    fail_msg("the fourth step reads all tokens of the third");
    return -1;
}

static void fill_row(copy *x, int token, float poison)
{
    for (int i = 0; i < x->w.n; i++) {
        const weight *w = &x->w.list[i];
        if (strcmp(w->row->name, "embedding.word_embeddings.weight") != 0) continue;
        int64_t width = w->n / w->dim[0];
        for (int64_t k = 0; k < width; k++) x->c.weights[w->offset + token * width + k] = poison;
        return;
    }
    fail_msg("the model has no word table");
}

typedef struct skipping {
    const char *layout, *words; /* words: of what goes on only */
    float poison;               /* into a row of the word table that only step three reads; 0: no */
} skipping;

/* Both ends, from two steps on. */
static void ends_of(const skipping *k, guard_state **skipped, guard_state **left_out, arena *a)
{
    const char *start = guard_folder(a), *with = guard_folder(a), *without = guard_folder(a);
    const char *words = arena_text(a, COMMON ROOM "%s", k->layout);
    copy x;
    free(ran(arena_text(a, "%s train.exit_interval=2 checkpoint.save=%s", words, start)).said);
    copy_load(&x, words, start, 2, a);
    if (k->poison != 0) fill_row(&x, token_of_the_third_step(), k->poison);
    copy_save(&x, with);
    step_was_skipped(&x.c.state);
    copy_save(&x, without);
    guard_run g = ran(
        arena_text(a, "%s %s checkpoint.load=%s checkpoint.save=%s", words, k->words, with, with));
    if (g.sum.skipped != 1) fail_msg("%s: %d steps were skipped", k->layout, (int)g.sum.skipped);
    free(g.said);
    free(ran(arena_text(a, "%s checkpoint.load=%s checkpoint.save=%s", words, without, without))
             .said);
    *skipped = guard_read(with, ITERS);
    *left_out = guard_read(without, ITERS);
    guard_remove(start);
    guard_remove(with);
    guard_remove(without);
}

static void skips_in_all_layouts(skipping k, const char *what)
{
    for (int i = 0; i < N_LAYOUTS; i++) {
        arena *a = arena_create();
        guard_state *skipped, *left_out;
        k.layout = layouts[i];
        ends_of(&k, &skipped, &left_out, a);
        guard_same(skipped, left_out, arena_text(a, "%s, %s", what, layouts[i]));
        free(skipped);
        free(left_out);
        arena_destroy(a);
    }
}

/* The loss is NaN, and with it every gradient. */
static void a_step_with_a_nan_changes_nothing(void **state)
{
    (void)state;
    skips_in_all_layouts((skipping){.words = "", .poison = NAN}, "NaN");
}

/* A row that is nearly zero is scaled up by the first norm, and its gradient with it. */
static void a_step_with_a_large_norm_changes_nothing(void **state)
{
    (void)state;
    skips_in_all_layouts(
        (skipping){.words = "optimizer.grad_norm_skip_threshold=8", .poison = 1e-5f}, "norm");
}

/* A skipped step writes nothing, biases of routers included: what they follow are the loads of a
 * batch that the weights have not learned from. The rate is so small that no token chooses
 * otherwise for it. */
static void biases_of_experts_stay_in_skipped_steps(void **state)
{
    (void)state;
    static const skipping rows[] = {
        {RANKS(4) EP2 LATE BIAS SLIGHT, "", NAN},
        {RANKS(4) EP2 LATE BIAS SLIGHT, "optimizer.grad_norm_skip_threshold=8", 1e-5f},
    };
    for (int i = 0; i < 2; i++) {
        arena *a = arena_create();
        guard_state *skipped, *left_out;
        int biases = 0;
        ends_of(&rows[i], &skipped, &left_out, a);
        for (int k = 0; k < skipped->n; k++)
            biases += strstr(skipped->list[k].name, "expert_bias") != NULL;
        assert_true(biases > 0);
        guard_same(skipped, left_out, "biases and all else");
        free(skipped);
        free(left_out);
        arena_destroy(a);
    }
}

/* ---- routed buffers that grow */

/* Goes on after two steps, with moments that are not zero. */
static guard_state *gone_on(const char *words, const char *from, const char **said, arena *a)
{
    return state_of(arena_text(a, "%s checkpoint.load=%s", words, from), ITERS, said, a);
}

static void reruns_end_where_room_does(void **state)
{
    (void)state;
    static const char *const rows[] = {
        EP2 A2A RANKS(2),
        EP2 A2A PP2 VPP2 LATE EP_ASYNC BIAS RANKS(4),
        TP2 EP2 ETP1 A2A "validation.eval_interval=1 validation.eval_iters=1 " RANKS(4),
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        arena *a = arena_create();
        const char *start = guard_folder(a), *tight, *ample;
        const char *room = arena_text(a, ROOM "%s", rows[i]);
        free(ran(arena_text(a, COMMON "%s train.exit_interval=2 checkpoint.save=%s", room, start))
                 .said);
        guard_state *x =
            gone_on(arena_text(a, "%s moefold.moe_buffer_factor=1.0", rows[i]), start, &tight, a);
        guard_state *y = gone_on(room, start, &ample, a);
        assert_non_null(strstr(tight, "the step runs again"));
        assert_null(strstr(ample, "the step runs again"));
        guard_same(x, y, rows[i]);
        guard_remove(start);
        free(x);
        free(y);
        arena_destroy(a);
    }
}

/* ---- validations */

static void validations_change_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < N_LAYOUTS; i++) {
        arena *a = arena_create();
        const char *without = arena_text(a, ROOM "%s", layouts[i]), *said;
        guard_state *x = state_of(
            arena_text(a, "%s validation.eval_interval=1 validation.eval_iters=2", without), ITERS,
            &said, a);
        guard_state *y = state_of(without, ITERS, NULL, a);
        assert_non_null(strstr(said, "validation loss"));
        assert_int_equal(x->counters.consumed_valid_samples, ITERS * 2 * GBS);
        x->counters.consumed_valid_samples = 0;
        guard_same(x, y, layouts[i]);
        free(x);
        free(y);
        arena_destroy(a);
    }
}

/* ---- saves between an update and its late gather */

/* What was saved after step three, with the gathers still to come, goes on to the same end. */
static void same_after_a_stop(const char *words, const guard_state *end, arena *a)
{
    const char *folder = guard_folder(a);
    const char *all = arena_text(a, COMMON "%s checkpoint.save=%s", words, folder);
    free(ran(arena_text(a, "%s train.exit_interval=3", all)).said);
    assert_int_equal(access(arena_text(a, "%s/iter_0000003", folder), F_OK), 0);
    free(ran(arena_text(a, "%s checkpoint.load=%s", all, folder)).said);
    guard_state *s = guard_read(folder, ITERS);
    guard_same(s, end, "stopped and gone on");
    guard_remove(folder);
    free(s);
}

static void saves_before_late_gathers_change_nothing(void **state)
{
    (void)state;
    static const char *const rows[] = {LATE RANKS(2), LATE PP2 VPP2 RANKS(4),
                                       LATE EP2 A2A BIAS RANKS(4)};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        arena *a = arena_create();
        const char *words = arena_text(a, ROOM "%s", rows[i]);
        const char *often = arena_text(a, "%s checkpoint.save_interval=1", words);
        guard_state *end = state_of(words, ITERS, NULL, a);
        guard_state *third = state_of(often, 3, NULL, a);
        same_ends(often, words, "saved after every step", a);
        same_ends(arena_text(a, "%s checkpoint.async_save=true", often), words, "beside", a);
        same_after_a_stop(words, end, a);
        const char *early = arena_text(a, "%s ddp.overlap_param_gather=false", often);
        guard_state *other = state_of(early, 3, NULL, a);
        guard_same(third, other, "with gathers at once");
        free(end);
        free(third);
        free(other);
        arena_destroy(a);
    }
}

/* ---- checkpoints of before */

/* Written by the program as it was before buffers had types, after three steps of five on two
 * ranks. It goes on where a run that starts today is after three steps. */
#define OLD                                                                                        \
    "mixed_precision=fp32 model.seq_length=32 train.micro_batch_size=1 train.global_batch_size=4 " \
    "train.train_iters=5 optimizer.lr=1e-3 optimizer.clip_grad=1.0 optimizer.weight_decay=0.1 "    \
    "moefold.moe_buffer_factor=64 model.vocab_size=32 model.num_layers=2 model.hidden_size=16 "    \
    "model.ffn_hidden_size=24 model.num_attention_heads=2 model.num_query_groups=1 "               \
    "model.kv_channels=8 model.num_moe_experts=4 model.moe_ffn_hidden_size=8 "

static void old_checkpoints_load(void **state)
{
    (void)state;
    arena *a = arena_create();
    const char *goes_on = guard_folder(a), *whole = guard_folder(a), *other = guard_folder(a);
    const char *load = "checkpoint.load=tests/guard/old-checkpoint";
    free(ran(arena_text(a, OLD BIAS EP2 RANKS(2) "%s checkpoint.save=%s", load, goes_on)).said);
    free(ran(arena_text(a, OLD BIAS PP2 RANKS(4) "%s checkpoint.save=%s", load, other)).said);
    guard_state *x = guard_read(goes_on, 5), *z = guard_read(other, 5);
    assert_int_equal(x->counters.optimizer_steps, 5);
    assert_int_equal(z->counters.consumed_samples, 5 * 4);
    if (guard_comparable(guard_record(a), a)) {
        free(ran(arena_text(a, OLD BIAS EP2 RANKS(2) "checkpoint.save=%s", whole)).said);
        guard_state *y = guard_read(whole, 5);
        guard_same(x, y, "an old checkpoint");
        free(y);
    }
    guard_remove(goes_on);
    guard_remove(whole);
    guard_remove(other);
    free(x);
    free(z);
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_with_a_nan_changes_nothing),
        cmocka_unit_test(a_step_with_a_large_norm_changes_nothing),
        cmocka_unit_test(biases_of_experts_stay_in_skipped_steps),
        cmocka_unit_test(reruns_end_where_room_does),
        cmocka_unit_test(validations_change_nothing),
        cmocka_unit_test(saves_before_late_gathers_change_nothing),
        cmocka_unit_test(old_checkpoints_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
