/* test_data_golden.h - what the data tests share: Megatron's own orders, and how to compare. */
#ifndef TESTS_TRAIN_TEST_DATA_GOLDEN_H
#define TESTS_TRAIN_TEST_DATA_GOLDEN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "train/data/source.h"

#define MEGATRON_DATA "tests/data/megatron-data/"

enum { SEQ_MAX = 128 };

static inline json_t *orders_read(void)
{
    json_t *root;
    error err;
    if (json_read(MEGATRON_DATA "orders.json", &root, &err)) fail_msg("%s", err.text);
    return root;
}

static inline int64_t int_of(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    if (!json_is_integer(v)) fail_msg("no number '%s'", key);
    return json_integer_value(v);
}

static inline const char *text_of(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

static inline bool flag_of(const json_t *o, const char *key, bool otherwise)
{
    const json_t *v = json_object_get(o, key);
    return v ? json_is_true(v) : otherwise;
}

static inline int64_t item_of(const json_t *list, int64_t i)
{
    return json_integer_value(json_array_get(list, (size_t)i));
}

static inline int64_t length_of(const json_t *list)
{
    return (int64_t)json_array_size(list);
}

/* "sizes" of a case: null is one epoch. */
static inline void sizes_of(data_options *o, const json_t *sizes)
{
    for (int i = 0; i < DATA_SPLITS; i++) {
        const json_t *v = json_array_get(sizes, (size_t)i);
        o->n_samples[i] = json_is_integer(v) ? json_integer_value(v) : DATA_ALL;
    }
}

static inline data_options options_of(const json_t *c, const json_t *root)
{
    const json_t *o = json_object_get(c, "options"), *pad = json_object_get(o, "pad");
    data_options d = data_defaults();
    sizes_of(&d, json_object_get(c, "sizes"));
    d.split = text_of(c, "split");
    d.seq_length = int_of(c, "sequence_length");
    d.seed = int_of(c, "seed");
    d.vocab_size = (int32_t)int_of(root, "vocab_size");
    d.eod = (int32_t)int_of(root, "eod");
    d.pad = pad ? (int32_t)json_integer_value(pad) : -1;
    d.eod_mask_loss = flag_of(o, "eod_mask_loss", false);
    d.reset_position_ids = flag_of(o, "reset_position_ids", false);
    d.reset_attention_mask = flag_of(o, "reset_attention_mask", false);
    d.inter_document = flag_of(o, "inter_document_masking", false);
    d.extra_token = flag_of(o, "add_extra_token_to_sequence", true);
    d.drop_partial_valid = flag_of(o, "drop_last_partial_validation_sequence", true);
    return d;
}

static inline data_source *opened(const data_options *o, arena *a)
{
    data_source *d = NULL;
    error err = {{0}};
    if (data_open(&d, o, a, &err)) fail_msg("%s", err.text);
    return d;
}

/* A sample with room of its own. */
typedef struct roomy_item {
    data_item item;
    int32_t tokens[SEQ_MAX], labels[SEQ_MAX], positions[SEQ_MAX], cu_seqlens[SEQ_MAX + 1];
    float loss_mask[SEQ_MAX];
} roomy_item;

static inline void item_read(roomy_item *r, const data_source *d, data_split which, int64_t i)
{
    error err = {{0}};
    r->item = (data_item){r->tokens, r->labels, r->loss_mask, r->positions, r->cu_seqlens, 0, 0};
    if (data_sample(d, which, i, &r->item, &err)) fail_msg("%s", err.text);
}

static inline void assert_list(const int32_t *got, const json_t *want, const char *what)
{
    for (int64_t i = 0; i < length_of(want); i++)
        if (got[i] != item_of(want, i))
            fail_msg("%s[%d] is %d, not %d", what, (int)i, got[i], (int)item_of(want, i));
}

/* One entry of "samples": only what is not the rule is written there. */
static inline void assert_sample(const roomy_item *r, const json_t *want)
{
    const json_t *tokens = json_object_get(want, "tokens");
    const json_t *positions = json_object_get(want, "position_ids");
    const json_t *cuts = json_object_get(want, "cu_seqlens");
    const char *mask = text_of(want, "loss_mask");
    int64_t n = length_of(tokens);
    assert_true(n > 0);
    assert_int_equal(length_of(json_object_get(want, "labels")), n);
    assert_int_equal(strlen(mask), n);
    assert_list(r->tokens, tokens, "tokens");
    assert_list(r->labels, json_object_get(want, "labels"), "labels");
    for (int i = 0; i < n; i++) {
        assert_true(r->loss_mask[i] == (mask[i] == '1' ? 1.0F : 0.0F));
        if (!positions) assert_int_equal(r->positions[i], i);
    }
    if (positions) assert_list(r->positions, positions, "positions");
    if (!cuts) return;
    assert_int_equal(length_of(cuts), n + 1);
    assert_list(r->cu_seqlens, cuts, "cu_seqlens");
    assert_int_equal(r->item.max_seqlen, int_of(want, "max_seqlen"));
}

static inline void assert_rows(const data_index *x, const json_t *rows)
{
    for (int64_t k = 0; k < length_of(rows); k++) {
        const json_t *want = json_array_get(rows, (size_t)k);
        index_place p = index_row(x, k);
        assert_int_equal(p.entry, item_of(want, 0));
        assert_int_equal(p.offset, item_of(want, 1));
    }
}

/* Sizes of a set; the lists may be heads only. */
static inline void assert_index(const data_index *x, const json_t *set)
{
    const json_t *range = json_object_get(set, "documents");
    assert_int_equal(x->ask.sequences.begin, item_of(range, 0));
    assert_int_equal(x->ask.sequences.end, item_of(range, 1));
    assert_int_equal(x->n_samples, int_of(set, "length"));
    assert_int_equal(x->n_tokens, int_of(set, "tokens_per_epoch"));
    assert_int_equal(x->n_epochs, int_of(set, "epochs"));
}

static inline void assert_orders(const data_index *x, const json_t *documents, const json_t *rows,
                                 const json_t *shuffle)
{
    assert_rows(x, rows);
    for (int64_t i = 0; i < length_of(documents); i++)
        assert_int_equal(x->documents[i], item_of(documents, i));
    for (int64_t i = 0; i < length_of(shuffle); i++)
        assert_int_equal(index_shuffled(x, i), item_of(shuffle, i));
}

static inline void assert_samples(const data_source *d, data_split which, const json_t *samples)
{
    assert_true(length_of(samples) > 0);
    for (int64_t i = 0; i < length_of(samples); i++) {
        roomy_item r;
        item_read(&r, d, which, i);
        assert_sample(&r, json_array_get(samples, (size_t)i));
    }
}

static inline void assert_has(const char *text, const char *part)
{
    if (!strstr(text, part)) fail_msg("'%s' does not hold '%s'", text, part);
}

#endif
