/* test_chunks.c - sequence chunks and groups of heads: what is planned is used, and buffers are as
 * small as a chunk. That they change no result, or the order of sums alone: test_options.c. */
#include "train/chunks_testing.h"

/* ---- bytes */

/* Forced balance fills every routed buffer. */
static void planned_bytes_are_used(void **state)
{
    (void)state;
    arena *a = arena_create();
    int ran = 0;
    for (int c = 0; c < N_FAMILY_CASES; c++)
        for (int l = 0; l < N_LAYOUTS; l++) {
            const char *words = arena_text(a, EVEN CHUNKS GROUPS LOSSES "%s", layouts[l]);
            if (strstr(words, DROPS) || !rig_is_legal(family_cases[c], words, a)) continue;
            assert_all_used(family_cases[c], words);
            ran++;
        }
    assert_true(ran >= 20);
    arena_destroy(a);
}

#define LONG                                                                                       \
    M "num_layers=4 cluster.gpu=H200 cluster.n_gpus=1 " EVEN                                       \
      "moefold.target=moefold moefold.pack_step=false model.seq_length=524288 "                    \
      "train.global_batch_size=1 " FULL

static int64_t temporaries_of(const program *p)
{
    int64_t most = 0;
    for (int i = 0; i < p->n_segments; i++)
        for (int phase = 0; phase < 2; phase++)
            if (p->segments[i]->temp_bytes[phase] > most) most = p->segments[i]->temp_bytes[phase];
    return most;
}

/* 4.2 million rows of experts take 62 GiB in backward, those of an eighth of the tokens a few. */
static void half_a_million_tokens_fit(void **state)
{
    (void)state;
    arena *a = arena_create();
    const int64_t gib = (int64_t)1 << 30;
    const program *whole = built("qwen3-30b-a3b", LONG, a),
                  *parts = built("qwen3-30b-a3b", LONG "moefold.sequence_chunks=8", a);
    assert_true(whole->arena_bytes > 139 * gib);
    assert_true(parts->arena_bytes < 110 * gib);
    assert_true(temporaries_of(parts) < temporaries_of(whole) - 40 * gib);
    arena_destroy(a);
}

/* Where nobody says, groups are as many as keep tensors of attention below 2^31 elements. */
static void attention_stays_below_what_32_bits_count(void **state)
{
    (void)state;
    arena *a = arena_create();
    const program *p = built("qwen3-30b-a3b", LONG, a);
    const program *one = built("qwen3-30b-a3b", LONG "moefold.attention_head_groups=4", a);
    const item_list *list = &p->items[PART_STEP];
    int seen = 0;
    for (int64_t i = 0; i < list->n; i++) {
        const segment *seg = list->list[i].seg;
        int phase = list->list[i].phase;
        for (int k = 0; k < seg->n_ops[phase]; k++) {
            const op *o = &seg->ops[phase][k];
            if (o->kind != OP_ATTN && o->kind != OP_ATTN_D) continue;
            assert_int_equal(o->dim[DIM_ATTN_N], 16);
            assert_true(o->dim[DIM_ATTN_S] * o->dim[DIM_ATTN_N] * o->dim[DIM_ATTN_D] < (int64_t)1
                                                                                           << 31);
            seen++;
        }
    }
    assert_int_equal(seen, 4 * 3 * 2); /* layers: forward, made again, backward, two groups each */
    assert_true(one->workspace_bytes < p->workspace_bytes);
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_a_million_tokens_fit),
        cmocka_unit_test(attention_stays_below_what_32_bits_count),
        cmocka_unit_test(planned_bytes_are_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
