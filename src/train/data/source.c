/* source.c - files, orders and blends of the three sets, behind one door.
 *
 * I1  A store is opened once and serves all three sets. It is closed if and only if it was opened:
 *     n_open counts.
 * I2  A set of length 0 has no members. Any other has n_members of them, and a blend unless it is
 *     one path without weight, or mock data. */
#include "train/data/source.h"

#include <assert.h>
#include <inttypes.h>

#include "base/maths.h"
#include "train/data/idx.h"
#include "train/data/store.h"

#define SAMPLES_MAX ((int64_t)1 << 52) /* beyond, a double does not count them one by one */

typedef struct data_set {
    int64_t length;
    data_index *members; /* [n_members] */
    data_blend blend;    /* length 0: there is none */
} data_set;

/* Files that are read as one. */
typedef struct data_group {
    blend_list list;
    idx_file *files; /* [n_members]; NULL: mock data */
    int n_members, n_open;
} data_group;

struct data_source {
    data_options o;
    sample_rules rules;
    split_ends ends;
    mock_store mock;
    bool separate;
    data_group groups[DATA_SPLITS]; /* the first alone, unless each set has files of its own */
    data_set sets[DATA_SPLITS];
};

static const data_group *group_of(const data_source *d, data_split which)
{
    return &d->groups[d->separate ? which : 0];
}

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
    if (o->paths.n > 0 && !o->split)
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
    if (d->separate)
        return error_set(err, ERR_INPUT,
                         "data: files for validation or test are named, but none for training; "
                         "give dataset.train_data_path");
    return error_set(err, ERR_INPUT, "dataset.split '%.100s' leaves nothing for training",
                     d->o.split);
}

/* ---- stores */

static status open_files(data_source *d, data_group *g, const data_paths *p, arena *a, error *err)
{
    TRY(blend_parse(&g->list, a, p->list, p->n, err));
    g->n_members = g->list.n;
    g->files = ARENA_ARRAY(a, idx_file, g->n_members);
    idx_options o = {{d->o.vocab_size, d->o.pad}, d->o.read_bin};
    for (; g->n_open < g->n_members; g->n_open++) { /* I1 */
        TRY(idx_open(&g->files[g->n_open], g->list.prefixes[g->n_open], &o, a, err));
    }
    return OK;
}

static status open_mock(data_source *d, arena *a, error *err)
{
    d->groups[0].n_members = 1;
    status s = mock_init(&d->mock, a, d->o.vocab_size, d->o.eod, err);
    d->mock.store.ids.pad = d->o.pad;
    return s;
}

static status open_stores(data_source *d, arena *a, error *err)
{
    status s = OK;
    if (d->o.paths.n > 0) return open_files(d, &d->groups[0], &d->o.paths, a, err);
    if (!d->separate) return open_mock(d, a, err);
    for (data_split i = DATA_TRAIN; !s && i < DATA_SPLITS; i++)
        if (wanted(d, i)) s = open_files(d, &d->groups[i], &d->o.separate[i], a, err);
    return s;
}

static const data_store *store_of(const data_source *d, data_split which, int member)
{
    const data_group *g = group_of(d, which);
    return g->files ? &g->files[member].store : &d->mock.store;
}

/* ---- sets */

/* Of one path with a weight Megatron makes a blend where files are split, and none where each set
 * has its own. */
static const double *weights_of(const data_source *d, data_split which)
{
    const data_group *g = group_of(d, which);
    return d->separate && g->n_members == 1 ? NULL : g->list.weights;
}

static int64_t asked_of(const data_source *d, data_split which, int member)
{
    const data_group *g = group_of(d, which);
    int64_t n = d->o.n_samples[which];
    if (weights_of(d, which)) return blend_built(n, g->list.weights[member], d->o.surplus);
    return g->n_members > 1 ? DATA_ALL : n;
}

static status build_member(const data_source *d, data_split which, int member, error *err)
{
    const data_store *store = store_of(d, which, member);
    split_range range = split_of(&d->ends, which, store->n_sequences);
    if (range.begin >= range.end && d->separate)
        return error_set(err, ERR_INPUT, "%s: has no sequence for %s", store->name,
                         data_split_names[which]);
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
    const double *weights = weights_of(d, which);
    int members = group_of(d, which)->n_members;
    int64_t *sizes = ARENA_ARRAY(scratch, int64_t, members), n = d->o.n_samples[which];
    blend_ask ask = {members, weights, sizes, n, data_split_names[which]};
    for (int i = 0; i < members; i++) sizes[i] = set->members[i].n_samples;
    if (weights) {
        ask.length = 0;
        for (int i = 0; i < members; i++) ask.length += blend_share(n, weights[i]);
    } else if (n > sum_of(sizes, members)) {
        ask.length = sum_of(sizes, members);
    }
    return blend_init(&set->blend, &ask, err);
}

static status build_set(data_source *d, data_split which, arena *a, error *err)
{
    data_set *set = &d->sets[which];
    int members = group_of(d, which)->n_members;
    if (weights_of(d, which) && d->o.n_samples[which] == DATA_ALL)
        return error_set(
            err, ERR_INPUT,
            "dataset.data_path has weights, so the number of samples for %s must be known",
            data_split_names[which]);
    set->members = ARENA_ARRAY(a, data_index, members);
    for (int i = 0; i < members; i++) {
        status s = build_member(d, which, i, err);
        if (s) return s;
    }
    set->length = set->members[0].n_samples;
    if (members == 1 && !weights_of(d, which)) return OK;
    arena *scratch = arena_create();
    status s = blend_members(d, which, scratch, err);
    arena_destroy(scratch);
    set->length = set->blend.length;
    return s;
}

/* Asked after reading: until then, what was read may be anything. */
static status is_whole(const data_source *d, data_split which, int member, error *err)
{
    const data_store *store = store_of(d, which, member);
    return store->whole ? store->whole(store, err) : OK;
}

/* Files of a set's own are read from the first sequence to the last. */
static status find_ends(data_source *d, error *err)
{
    if (!d->separate) return split_parse(&d->ends, d->o.split, err);
    for (int i = 0; i < DATA_SPLITS; i++) {
        d->ends.present[i] = d->o.separate[i].n > 0;
        d->ends.end[i] = 1;
    }
    return OK;
}

static status build(data_source *d, arena *a, error *err)
{
    status s = check_options(&d->o, err);
    if (!s) s = find_ends(d, err);
    if (!s) s = check_train(d, err);
    if (!s) s = open_stores(d, a, err);
    for (data_split i = DATA_TRAIN; !s && i < DATA_SPLITS; i++)
        if (wanted(d, i)) s = build_set(d, i, a, err);
    for (data_split which = DATA_TRAIN; which < DATA_SPLITS; which++)
        for (int i = 0; i < group_of(d, which)->n_open; i++) {
            status whole = is_whole(d, which, i, err);
            if (whole) return whole;
        }
    return s;
}

status data_open(data_source **out, const data_options *o, arena *a, error *err)
{
    data_source *d = ARENA_NEW(a, data_source);
    d->o = *o;
    for (int i = 0; i < DATA_SPLITS; i++) d->separate |= o->separate[i].n > 0;
    if (o->paths.n <= 0) d->o.split = "1,1,1";
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
        int members = group_of(d, (data_split)i)->n_members;
        for (int m = 0; set->members && m < members; m++) index_release(&set->members[m]);
        blend_release(&set->blend);
        *set = (data_set){0};
    }
    for (int i = 0; i < DATA_SPLITS; i++) {
        data_group *g = &d->groups[i];
        while (g->n_open > 0) idx_close(&g->files[--g->n_open]);
    }
}

/* ---- questions */

int64_t data_length(const data_source *d, data_split which)
{
    return d->sets[which].length;
}

int data_members(const data_source *d, data_split which)
{
    return group_of(d, which)->n_members;
}

const char *data_name(const data_source *d, data_split which, int member)
{
    return store_of(d, which, member)->name;
}

const data_index *data_member(const data_source *d, data_split which, int member)
{
    assert(member >= 0 && member < data_members(d, which) && d->sets[which].length > 0);
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
    status whole = is_whole(d, which, member, err); /* the reason for what else is wrong */
    if (whole) s = whole;
    if (!s && filler) memset(item->loss_mask, 0, (size_t)d->o.seq_length * sizeof(float));
    return s;
}
