/* source.c - files, orders and blends of the three sets, behind one door.
 *
 * I1  A store is opened once and serves all three sets. It is closed if and only if it was opened:
 *     n_open counts.
 * I2  A set of length 0 has no members. Any other has n_members of them, and a blend unless it is
 *     one path without weight, or mock data. */
#include "run/data/source.h"

#include <assert.h>
#include <inttypes.h>

#include "base/maths.h"
#include "run/data/idx.h"
#include "run/data/mock.h"

#define SAMPLES_MAX ((int64_t)1 << 52) /* beyond, a double does not count them one by one */

typedef struct data_set {
    int64_t length;
    data_index *members; /* [n_members] */
    data_blend blend;    /* length 0: there is none */
} data_set;

struct data_source {
    data_options o;
    sample_rules rules;
    blend_list list;
    split_ends ends;
    mock_store mock;
    idx_file *files; /* [n_members]; NULL: mock data */
    int n_members, n_open;
    data_set sets[DATA_SPLITS];
};

data_options data_defaults(void)
{
    return (data_options){.seed = 1234,
                          .eod = -1,
                          .pad = -1,
                          .surplus = 0.005,
                          .extra_token = true,
                          .drop_partial_valid = true};
}

/* ---- options */

static status check_ids(const data_options *o, error *err)
{
    if (o->vocab_size < 1)
        return error_set(err, ERR_INPUT, "data: a vocabulary of %" PRId32 " ids", o->vocab_size);
    if (o->eod < 0 && (o->eod_mask_loss || o->reset_position_ids || o->reset_attention_mask))
        return error_set(err, ERR_INPUT,
                         "dataset.eod_mask_loss, reset_position_ids and reset_attention_mask need "
                         "the id of the end-of-document token, which is unknown");
    return OK;
}

static status check_options(const data_options *o, error *err)
{
    if (o->seq_length < 1 || o->seq_length >= INT32_MAX)
        return error_set(err, ERR_INPUT, "data: samples of %" PRId64 " tokens cannot be made",
                         o->seq_length);
    if (o->seed < 0 || o->seed > UINT32_MAX)
        return error_set(err, ERR_INPUT, "dataset.random_seed: %" PRId64 " is not in 0 .. 2^32 - 1",
                         o->seed);
    if (!(o->surplus >= 0 && o->surplus <= 1))
        return error_set(err, ERR_INPUT, "dataset.mid_level_dataset_surplus: %g is not in 0 .. 1",
                         o->surplus);
    for (int i = 0; i < DATA_SPLITS; i++)
        if (o->n_samples[i] < DATA_ALL || o->n_samples[i] > SAMPLES_MAX)
            return error_set(err, ERR_INPUT, "data: %" PRId64 " samples for %s cannot be counted",
                             o->n_samples[i], data_split_names[i]);
    if (o->n_paths > 0 && !o->split)
        return error_set(err, ERR_INPUT,
                         "dataset.split is not set: it splits dataset.data_path into training, "
                         "validation and test ('969, 30, 1')");
    return check_ids(o, err);
}

/* Is the set to be built? */
static bool wanted(const data_source *d, data_split which)
{
    return d->o.n_samples[which] != 0 && d->ends.present[which];
}

static status check_train(const data_source *d, error *err)
{
    if (d->o.n_samples[DATA_TRAIN] == 0 || d->ends.present[DATA_TRAIN]) return OK;
    return error_set(err, ERR_INPUT, "dataset.split '%.100s' leaves nothing for training",
                     d->o.split);
}

/* ---- stores */

static status open_files(data_source *d, arena *a, error *err)
{
    status s = blend_parse(&d->list, a, d->o.paths, d->o.n_paths, err);
    if (s) return s;
    d->n_members = d->list.n;
    d->files = ARENA_ARRAY(a, idx_file, d->n_members);
    idx_options o = {{d->o.vocab_size, d->o.pad}, d->o.read_bin};
    for (; d->n_open < d->n_members; d->n_open++) { /* I1 */
        s = idx_open(&d->files[d->n_open], d->list.prefixes[d->n_open], &o, a, err);
        if (s) return s;
    }
    return OK;
}

static status open_stores(data_source *d, arena *a, error *err)
{
    if (d->o.n_paths > 0) return open_files(d, a, err);
    d->n_members = 1;
    status s = mock_init(&d->mock, a, d->o.vocab_size, d->o.eod, err);
    d->mock.store.ids.pad = d->o.pad;
    return s;
}

static const data_store *store_of(const data_source *d, int member)
{
    return d->files ? &d->files[member].store : &d->mock.store;
}

/* ---- sets */

static int64_t asked_of(const data_source *d, data_split which, int member)
{
    int64_t n = d->o.n_samples[which];
    if (d->list.weights) return blend_built(n, d->list.weights[member], d->o.surplus);
    return d->n_members > 1 ? DATA_ALL : n;
}

static status build_member(const data_source *d, data_split which, int member, error *err)
{
    const data_store *store = store_of(d, member);
    split_range range = split_of(&d->ends, which, store->n_sequences);
    if (range.begin >= range.end)
        return error_set(err, ERR_INPUT,
                         "%s: dataset.split '%.100s' gives %s none of the %" PRId64
                         " sequences; give it a larger share, or 0 to skip it",
                         store->name, d->o.split, data_split_names[which], store->n_sequences);
    index_ask ask = {
        .store = store,
        .which = which,
        .sequences = range,
        .seq_length = d->o.seq_length,
        .n_samples = asked_of(d, which, member),
        .seed = (uint32_t)d->o.seed,
        .extra_token = d->o.extra_token,
        .keep_partial = which == DATA_VALID && !d->o.drop_partial_valid,
    };
    return index_init(&d->sets[which].members[member], &ask, err);
}

static int64_t sum_of(const int64_t *sizes, int n)
{
    int64_t sum = 0;
    for (int i = 0; i < n; i++) sum += sizes[i];
    return sum;
}

static status blend_members(data_source *d, data_split which, arena *scratch, error *err)
{
    data_set *set = &d->sets[which];
    int64_t *sizes = ARENA_ARRAY(scratch, int64_t, d->n_members), n = d->o.n_samples[which];
    blend_ask ask = {d->n_members, d->list.weights, sizes, n, data_split_names[which]};
    for (int i = 0; i < d->n_members; i++) sizes[i] = set->members[i].n_samples;
    if (d->list.weights) {
        ask.length = 0;
        for (int i = 0; i < d->n_members; i++) ask.length += blend_share(n, d->list.weights[i]);
    } else if (n > sum_of(sizes, d->n_members)) {
        ask.length = sum_of(sizes, d->n_members);
    }
    return blend_init(&set->blend, &ask, err);
}

static status build_set(data_source *d, data_split which, arena *a, error *err)
{
    data_set *set = &d->sets[which];
    if (d->list.weights && d->o.n_samples[which] == DATA_ALL)
        return error_set(
            err, ERR_INPUT,
            "dataset.data_path has weights, so the number of samples for %s must be known",
            data_split_names[which]);
    set->members = ARENA_ARRAY(a, data_index, d->n_members);
    for (int i = 0; i < d->n_members; i++) {
        status s = build_member(d, which, i, err);
        if (s) return s;
    }
    set->length = set->members[0].n_samples;
    if (d->n_members == 1 && !d->list.weights) return OK;
    arena *scratch = arena_create();
    status s = blend_members(d, which, scratch, err);
    arena_destroy(scratch);
    set->length = set->blend.length;
    return s;
}

/* Asked after reading: until then, what was read may be anything. */
static status is_whole(const data_source *d, int member, error *err)
{
    const data_store *store = store_of(d, member);
    return store->whole ? store->whole(store, err) : OK;
}

static status build(data_source *d, arena *a, error *err)
{
    status s = check_options(&d->o, err);
    if (!s) s = split_parse(&d->ends, d->o.split, err);
    if (!s) s = check_train(d, err);
    if (!s) s = open_stores(d, a, err);
    for (data_split i = DATA_TRAIN; !s && i < DATA_SPLITS; i++)
        if (wanted(d, i)) s = build_set(d, i, a, err);
    for (int i = 0; i < d->n_open; i++) {
        status whole = is_whole(d, i, err);
        if (whole) return whole;
    }
    return s;
}

status data_open(data_source **out, const data_options *o, arena *a, error *err)
{
    data_source *d = ARENA_NEW(a, data_source);
    d->o = *o;
    if (o->n_paths <= 0) d->o.split = "1,1,1";
    if (o->pad == o->eod && !o->allow_ambiguous_pad) d->o.pad = -1;
    d->rules = (sample_rules){o->eod, o->eod_mask_loss, o->reset_position_ids,
                              o->reset_attention_mask, o->inter_document};
    status s = build(d, a, err);
    if (s)
        data_close(d);
    else
        *out = d;
    return s;
}

void data_close(data_source *d)
{
    if (!d) return;
    for (int i = 0; i < DATA_SPLITS; i++) {
        data_set *set = &d->sets[i];
        for (int m = 0; set->members && m < d->n_members; m++) index_release(&set->members[m]);
        blend_release(&set->blend);
        *set = (data_set){0};
    }
    while (d->n_open > 0) idx_close(&d->files[--d->n_open]);
}

/* ---- questions */

int64_t data_length(const data_source *d, data_split which)
{
    return d->sets[which].length;
}

int data_members(const data_source *d)
{
    return d->n_members;
}

const data_index *data_member(const data_source *d, data_split which, int member)
{
    assert(member >= 0 && member < d->n_members && d->sets[which].length > 0);
    return &d->sets[which].members[member];
}

const data_blend *data_blend_of(const data_source *d, data_split which)
{
    return d->sets[which].blend.length ? &d->sets[which].blend : NULL;
}

status data_sample(const data_source *d, data_split which, int64_t index, data_item *item,
                   error *err)
{
    const data_set *set = &d->sets[which];
    bool filler = index == -1;
    int64_t i = filler ? 0 : index;
    if (i < 0 || i >= set->length)
        return error_set(err, ERR_INPUT,
                         "data: sample %" PRId64 " of %s was asked for, which has %" PRId64, index,
                         data_split_names[which], set->length);
    int member = 0;
    if (set->blend.length) {
        member = set->blend.member[i];
        i = set->blend.sample[i];
    }
    const data_index *x = &set->members[member];
    status s = sample_read(x, &d->rules, index_shuffled(x, i), item, err);
    status whole = is_whole(d, member, err); /* the reason for what else is wrong */
    if (whole) s = whole;
    if (!s && filler) memset(item->loss_mask, 0, (size_t)d->o.seq_length * sizeof(float));
    return s;
}
