/* part_map.c - places in the whole weight, in a rank's part, and in boxes.
 *
 * I1  Behind the joint of a box all dimensions are whole, in the box, the weight and the part: what
 *     lies one behind the other along the joint does so in all three. */
#include "train/executor/part_map.h"

static int64_t gemm(const int64_t *dim, int from, int to)
{
    int64_t n = 1;
    for (int i = from; i < to; i++) n *= dim[i];
    return n;
}

static int64_t flat(const int64_t *at, const int64_t *dim, int n)
{
    int64_t place = 0;
    for (int i = 0; i < n; i++) place = place * dim[i] + at[i];
    return place;
}

static void unflat(int64_t place, const int64_t *dim, int n, int64_t *at)
{
    for (int i = n - 1; i >= 0; i--) {
        at[i] = place % dim[i];
        place /= dim[i];
    }
}

void part_map_init(part_map *m, const setup *s, const rank_at *at, const weight *w)
{
    m->w = w;
    m->n = weight_boxes(m->box, s, at, w);
}

/* ---- runs */

static int joint_of(const weight *w, const weight_box *b) /* I1 */
{
    int k = w->row->n_dims - 1;
    while (k > 0 && b->dim[k] == w->row->dim[k] && b->dim[k] == w->dim[k]) k--;
    return k;
}

int64_t box_elements(const weight *w, const weight_box *b)
{
    return gemm(b->dim, 0, w->row->n_dims);
}

box_run box_run_at(const weight *w, const weight_box *b, int64_t i)
{
    int n = w->row->n_dims, k = joint_of(w, b);
    int64_t length = gemm(b->dim, k, n), inside = i % length;
    int64_t in_box[PARAM_DIMS_MAX], whole[PARAM_DIMS_MAX], part[PARAM_DIMS_MAX];
    unflat(i - inside, b->dim, n, in_box);
    for (int d = 0; d < n; d++) {
        whole[d] = b->at[d] + in_box[d];
        part[d] = b->local[d] + in_box[d];
    }
    return (box_run){flat(whole, w->row->dim, n) + inside, flat(part, w->dim, n) + inside,
                     length - inside};
}

/* The first dimension in which the place is outside of the box; -1: inside. */
static int outside(const weight_box *b, const int64_t *at, int n)
{
    for (int i = 0; i < n; i++)
        if (at[i] < b->at[i] || at[i] >= b->at[i] + b->dim[i]) return i;
    return -1;
}

/* How many elements from `at` on are before the next that the box may have along dimension k. */
static int64_t gap(const param *row, const weight_box *b, const int64_t *at, int k)
{
    int64_t end = at[k] < b->at[k] ? b->at[k] : row->dim[k];
    int64_t behind = gemm(row->dim, k + 1, row->n_dims);
    return (end - at[k]) * behind - flat(at + k + 1, row->dim + k + 1, row->n_dims - k - 1);
}

int64_t part_map_find(const part_map *m, int64_t whole, int64_t *run)
{
    const param *row = m->w->row;
    int64_t at[PARAM_DIMS_MAX], in_box[PARAM_DIMS_MAX];
    unflat(whole, row->dim, row->n_dims, at);
    *run = INT64_MAX;
    for (int i = 0; i < m->n; i++) {
        const weight_box *b = &m->box[i];
        int k = outside(b, at, row->n_dims);
        if (k >= 0) {
            int64_t n = gap(row, b, at, k);
            if (n < *run) *run = n;
            continue;
        }
        for (int d = 0; d < row->n_dims; d++) in_box[d] = at[d] - b->at[d];
        box_run r = box_run_at(m->w, b, flat(in_box, b->dim, row->n_dims));
        *run = r.n;
        return r.part;
    }
    return -1;
}

/* ---- ranges of the part */

/* The largest box of the part that starts at element `first` and holds none from `end` on. */
static weight_box next_box(const weight *w, int64_t first, int64_t end, int64_t *n)
{
    int dims = w->row->n_dims, k = 0;
    weight_box b = {{0}, {0}, {0}};
    int64_t each = gemm(w->dim, 1, dims);
    while (k < dims - 1 && (first % each || end - first < each)) each /= w->dim[++k];
    unflat(first, w->dim, dims, b.local);
    for (int i = 0; i < dims; i++) b.dim[i] = i < k ? 1 : w->dim[i];
    b.dim[k] = w->dim[k] - b.local[k];
    if (b.dim[k] > (end - first) / each) b.dim[k] = (end - first) / each;
    *n = b.dim[k] * each;
    return b;
}

/* What a box of the part has of a section; false: nothing. */
static bool meet(weight_box *out, const weight_box *part, const weight_box *section, int n)
{
    *out = (weight_box){{0}, {0}, {0}};
    for (int i = 0; i < n; i++) {
        int64_t lo = section->local[i], hi = lo + section->dim[i];
        if (part->local[i] > lo) lo = part->local[i];
        if (part->local[i] + part->dim[i] < hi) hi = part->local[i] + part->dim[i];
        if (lo >= hi) return false;
        out->local[i] = lo;
        out->dim[i] = hi - lo;
        out->at[i] = section->at[i] + lo - section->local[i];
    }
    return true;
}

int part_map_boxes(weight_box out[PART_BOXES_MAX], const part_map *m, int64_t first, int64_t n)
{
    int count = 0;
    for (int64_t end = first + n, here; first < end; first += here) {
        weight_box part = next_box(m->w, first, end, &here);
        for (int i = 0; i < m->n; i++)
            count += meet(&out[count], &part, &m->box[i], m->w->row->n_dims);
    }
    return count;
}
