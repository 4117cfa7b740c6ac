/* load.c - reading a checkpoint into the arrays of a rank.
 *
 * I1  Every file is as long as metadata.json says and has the header that it says, before anything
 *     in it is believed.
 * I2  The boxes of every weight of the model cover each of its elements exactly once, before the
 *     first is read: so what a rank needs is found exactly once.
 * I3  A box is read if the rank needs part of it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/maths.h"
#include "base/waiting.h"
#include "backend/comm/agree.h"
#include "train/checkpoint/folder.h"
#include "train/checkpoint/kinds.h"
#include "train/checkpoint/meta.h"
#include "train/checkpoint/tensor_file.h"

typedef struct loading {
    const checkpoint *c;
    const weight_list *whole; /* the model, whoever holds what */
    const checkpoint_info *info;
    arena *a;
    error *err;
} loading;

/* The boxes of one kind, by weight. */
typedef struct box_list {
    tensor_box *list;
    int n;
} box_list;

status checkpoint_read_info(checkpoint_info *info, arena *a, const char *folder, int64_t iteration,
                            error *err)
{
    const char *path = checkpoint_find(a, folder, iteration);
    int64_t latest = -1;
    error ignored;
    if (!path && !checkpoint_latest(folder, &latest, &ignored) && latest >= 0)
        return error_set(err, ERR_INPUT, "%s: is not there; the latest of %s is of step %lld",
                         checkpoint_path(a, folder, iteration), folder, (long long)latest);
    if (!path)
        return error_set(err, ERR_INPUT, "%s: is not there", checkpoint_path(a, folder, iteration));
    checkpoint_info made = {.path = path};
    TRY(checkpoint_meta_read(&made, a, err));
    *info = made;
    return OK;
}

/* ---- boxes of all files of a kind */

static int by_weight(const void *a, const void *b)
{
    const tensor_box *x = a, *y = b;
    int order = strcmp(x->weight, y->weight);
    for (int i = 0; !order && i < PARAM_DIMS_MAX; i++)
        order = (x->at[i] > y->at[i]) - (x->at[i] < y->at[i]);
    return order;
}

static status read_file(const loading *l, const checkpoint_file *f, tensor_boxes *boxes) /* I1 */
{
    const char *path = arena_text(l->a, "%s/%s", l->info->path, f->name);
    TRY(tensor_boxes_read(boxes, l->a, path, l->err));
    if (boxes->file_bytes != f->bytes)
        return error_set(l->err, ERR_INPUT,
                         "%s: has %" PRId64 " bytes; %" PRId64 " were written: it is damaged", path,
                         boxes->file_bytes, f->bytes);
    if (boxes->header_sum != f->header_sum)
        return error_set(l->err, ERR_INPUT,
                         "%s: the checksum of its header is wrong; the file is damaged", path);
    return OK;
}

static status read_kind(const loading *l, const checkpoint_kind *k, box_list *out)
{
    tensor_boxes *files = ARENA_ARRAY(l->a, tensor_boxes, l->info->n_files);
    status s = OK;
    int n = 0;
    for (int i = 0; i < l->info->n_files && !s; i++) {
        if (strcmp(l->info->files[i].kind, k->name) != 0) continue;
        s = read_file(l, &l->info->files[i], &files[i]);
        if (!s) n += files[i].n;
    }
    if (s) return s;
    *out = (box_list){ARENA_ARRAY(l->a, tensor_box, n), 0};
    for (int i = 0; i < l->info->n_files; i++)
        for (int j = 0; j < files[i].n; j++) out->list[out->n++] = files[i].list[j];
    if (n == 0)
        return error_set(l->err, ERR_INPUT, "%s: has no file of the kind %s", l->info->path,
                         k->name);
    qsort(out->list, (size_t)n, sizeof *out->list, by_weight);
    return OK;
}

/* First of the boxes of this weight; *n says how many follow each other. */
static const tensor_box *find_boxes(const box_list *b, const char *name, int *n)
{
    int lo = 0, hi = b->n;
    while (lo < hi) {
        int middle = lo + (hi - lo) / 2;
        if (strcmp(b->list[middle].weight, name) < 0)
            lo = middle + 1;
        else
            hi = middle;
    }
    for (*n = 0; lo + *n < b->n && strcmp(b->list[lo + *n].weight, name) == 0;) ++*n;
    return &b->list[lo];
}

/* ---- is it this model? */

static const char *shape_text(arena *a, int n, const int64_t *dim)
{
    textbuf t = text_init(a);
    for (int i = 0; i < n; i++) text_add(&t, i ? ", %" PRId64 : "%" PRId64, dim[i]);
    return t.s;
}

static bool same_shape(const loading *l, const weight *w, const tensor_box *b)
{
    const param *p = w->row;
    bool padded = checkpoint_is_table(p) && b->of[0] >= l->c->s->m.vocab;
    if (b->n_dims != p->n_dims) return false;
    for (int i = 0; i < p->n_dims; i++)
        if (b->of[i] != p->dim[i] && !(i == 0 && padded)) return false;
    return true;
}

static status other_model(const loading *l, const char *what, const char *name)
{
    return error_set(l->err, ERR_INPUT,
                     "%s: is of another model (%.100s; this is %.100s): %s weight %s",
                     l->info->path, l->info->model, l->c->s->m.name, what, name);
}

/* Boxes are sorted by their first place, so those that may meet box i follow it. */
static bool overlaps(const tensor_box *b, int n, int i)
{
    for (int j = i + 1; j < n && b[j].at[0] < b[i].at[0] + b[i].dim[0]; j++)
        if (tensor_boxes_overlap(&b[i], &b[j])) return true;
    return false;
}

static status check_cover(const loading *l, const tensor_box *b, int n) /* I2 */
{
    int64_t whole = 1, sum = 0;
    for (int i = 0; i < b->n_dims; i++) whole *= b->of[i];
    for (int i = 0; i < n; i++) {
        bool good = memcmp(b[i].of, b->of, sizeof b->of) == 0 && b[i].n_dims == b->n_dims;
        sum = add_sat(sum, b[i].n);
        if (!good || overlaps(b, n, i))
            return error_set(
                l->err, ERR_INPUT,
                "%s: parts of weight %s overlap or disagree; the checkpoint is damaged", b[i].path,
                b->weight);
    }
    if (sum == whole) return OK;
    return error_set(l->err, ERR_INPUT,
                     "%s: weight %s has %" PRId64 " of its %" PRId64
                     " elements; a file of the checkpoint is missing",
                     l->info->path, b->weight, sum, whole);
}

static status check_weight(const loading *l, const box_list *boxes, const weight *w, int *claimed)
{
    int n;
    const char *name = weight_name(l->a, l->c->s, w);
    const tensor_box *b = find_boxes(boxes, name, &n);
    if (n == 0) return other_model(l, "it has no", name);
    if (!same_shape(l, w, b))
        return error_set(
            l->err, ERR_INPUT,
            "%s: is of another model (%.100s; this is %.100s): weight %s has the shape "
            "[%s] there, [%s] here",
            l->info->path, l->info->model, l->c->s->m.name, name,
            shape_text(l->a, b->n_dims, b->of), shape_text(l->a, w->row->n_dims, w->row->dim));
    *claimed += n;
    return check_cover(l, b, n);
}

static bool is_ours(const loading *l, const checkpoint_kind *k, const char *name)
{
    arena_place mark = arena_mark(l->a);
    bool found = false;
    for (int i = 0; i < l->whole->n && !found; i++) {
        const weight *w = &l->whole->list[i];
        found = checkpoint_kind_has(k, w) && strcmp(weight_name(l->a, l->c->s, w), name) == 0;
        arena_release(l->a, mark);
    }
    return found;
}

/* The first box that belongs to no weight. */
static status unclaimed(const loading *l, const checkpoint_kind *k, const box_list *boxes)
{
    int i = 0;
    while (i + 1 < boxes->n && is_ours(l, k, boxes->list[i].weight)) i++;
    return other_model(l, "this has no", boxes->list[i].weight);
}

static status check_kind(const loading *l, const checkpoint_kind *k, const box_list *boxes)
{
    int claimed = 0;
    status s = OK;
    for (int i = 0; i < l->whole->n && !s; i++)
        if (checkpoint_kind_has(k, &l->whole->list[i]))
            s = check_weight(l, boxes, &l->whole->list[i], &claimed);
    return s || claimed == boxes->n ? s : unclaimed(l, k, boxes);
}

/* ---- values */

static int list_targets(const loading *l, const checkpoint_kind *k, const weight *w,
                        tensor_target *targets)
{
    checkpoint_pieces p;
    checkpoint_pieces_read(&p, l->c, k, w);
    for (int i = 0; i < p.n; i++) {
        tensor_target *t = &targets[i];
        memcpy(t->at, p.box[i].at, sizeof t->at);
        memcpy(t->dim, p.box[i].dim, sizeof t->dim);
        memcpy(t->to, p.box[i].local, sizeof t->to);
        memcpy(t->span, w->dim, sizeof t->span);
        t->values = k->values;
        t->base = p.base;
    }
    return p.n;
}

static status load_weight(const loading *l, const checkpoint_kind *k, const weight *w,
                          const box_list *boxes)
{
    tensor_target targets[PART_BOXES_MAX];
    int n_boxes, n = list_targets(l, k, w, targets);
    if (n == 0) return OK;
    const tensor_box *b = find_boxes(boxes, weight_name(l->a, l->c->s, w), &n_boxes);
    status s = OK;
    for (int i = 0; i < n_boxes && !s; i++) {
        bool needed = false;
        for (int j = 0; j < n; j++) needed = needed || tensor_box_meets(&b[i], &targets[j]);
        if (needed) s = tensor_box_load(&b[i], targets, n, l->err); /* I3 */
    }
    return s;
}

static status load_kind(const loading *l, const checkpoint_kind *k, const box_list *boxes)
{
    status s = OK;
    for (int i = 0; i < l->c->w->n && !s; i++) {
        s = load_weight(l, k, &l->c->w->list[i], boxes);
        waiting_part((double)(i + 1) / (double)l->c->w->n);
    }
    return s;
}

static void zero_moments(const checkpoint *c)
{
    memset(c->exp_avg, 0, (size_t)c->w->owned * sizeof *c->exp_avg);
    memset(c->exp_avg_sq, 0, (size_t)c->w->owned * sizeof *c->exp_avg_sq);
}

static status check_moments(const loading *l)
{
    if (!l->c->exp_avg || l->info->has_moments || l->info->state.optimizer_steps == 0) return OK;
    return error_set(l->err, ERR_INPUT,
                     "%s: has weights and no moments of the optimizer; %s=false loads it without",
                     l->info->path, knobs[K_LOAD_OPTIM].key);
}

/* Names and shapes are the same, so only the vocabulary can be another: tables may be larger than
 * it. The sum depends on the order of the weights, too, which an older program may have had
 * otherwise. */
static status check_fingerprint(const loading *l)
{
    if (checkpoint_fingerprint(l->c->s, l->whole) == l->info->fingerprint) return OK;
    const stored_recipe stored = checkpoint_recipe(l->info);
    int64_t was = stored_vocabulary(&stored, l->a), is = l->c->s->m.vocab;
    if (was == is) return OK;
    return error_set(l->err, ERR_INPUT,
                     "%s: is of another model (%.100s; this is %.100s): %s was %" PRId64
                     " there and is %" PRId64 " here",
                     l->info->path, l->info->model, l->c->s->m.name, knobs[K_VOCAB].key, was, is);
}

static status load_arrays(const loading *l)
{
    box_list boxes[CHECKPOINT_KINDS] = {{0}};
    TRY(check_moments(l));
    int n = l->info->has_moments ? CHECKPOINT_KINDS : 1;
    for (int i = 0; i < n; i++) {
        checkpoint_kind k = checkpoint_kind_of(l->c, i);
        if (k.values) TRY(read_kind(l, &k, &boxes[i]));
        if (k.values) TRY(check_kind(l, &k, &boxes[i]));
    }
    TRY(check_fingerprint(l));
    for (int i = 0; i < n; i++) {
        checkpoint_kind k = checkpoint_kind_of(l->c, i);
        if (k.values) TRY(load_kind(l, &k, &boxes[i]));
    }
    if (l->c->exp_avg && !l->info->has_moments) zero_moments(l->c);
    return OK;
}

status checkpoint_load(checkpoint *c, const char *folder, int64_t iteration, error *err)
{
    arena *a = arena_create();
    checkpoint_info info;
    weight_list whole;
    weight_list_init(&whole, c->s, a);
    status s = checkpoint_read_info(&info, a, folder, iteration, err);
    loading l = {c, &whole, &info, a, err};
    if (!s) s = load_arrays(&l);
    s = ranks_agree(c->c, s, err);
    if (!s) c->state = info.state;
    arena_destroy(a);
    return s;
}

/* ---- checksums */

uint64_t checkpoint_weights_sum(const weight_list *w, const float *weights)
{
    sum64 sum;
    sum_init(&sum);
    for (int i = 0; i < w->n; i++)
        sum_add(&sum, weights + w->list[i].offset, (size_t)w->list[i].n * sizeof *weights);
    return sum_value(&sum);
}

uint64_t checkpoint_fingerprint(const setup *s, const weight_list *w)
{
    arena *a = arena_create();
    arena_place mark = arena_mark(a);
    sum64 sum;
    sum_init(&sum);
    for (int i = 0; i < w->n; i++, arena_release(a, mark)) {
        const param *p = w->list[i].row;
        int64_t dim[PARAM_DIMS_MAX];
        memcpy(dim, p->dim, sizeof dim);
        if (checkpoint_is_table(p)) dim[0] = s->m.vocab;
        const char *line = arena_text(a, "%s [%s]\n", weight_name(a, s, &w->list[i]),
                                      shape_text(a, p->n_dims, dim));
        sum_add(&sum, line, strlen(line));
    }
    arena_destroy(a);
    return sum_value(&sum);
}
