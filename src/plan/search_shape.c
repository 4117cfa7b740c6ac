/* search_shape.c - what stages weigh, once for all that is tried on them: how often each part
 * counts in the step of a pipeline rank, and how often what it saves is alive there.
 *
 * I1  Before a rank's first forward the first microbatch passes all stages before it, and behind
 *     its last backward the gradient passes them back; between lies its own work.
 * I2  A rank that another one covers in every respect is left out. */
#include <string.h>

#include "plan/search_parts.h"

static bool covers_time(const stage_times *t, const time_row *a, const time_row *b)
{
    for (int k = 0; k < t->parts.n; k++) {
        int i = t->parts.part[k];
        if (a->weigh[i] < b->weigh[i] || a->alone[i] < b->alone[i]) return false;
    }
    return a->messages >= b->messages;
}

static void add_time_row(stage_times *t, const time_row *row)
{
    int kept = 0;
    for (int i = 0; i < t->n; i++) { /* I2 */
        if (covers_time(t, &t->rows[i], row)) return;
        if (!covers_time(t, row, &t->rows[i])) t->rows[kept++] = t->rows[i];
    }
    t->rows[kept++] = *row;
    t->n = kept;
}

static part_list parts_of(const layout_facts *f, int64_t stages)
{
    part_list l = {0};
    for (int i = 0; i < MIX_PARTS; i++) {
        bool here = false;
        for (int64_t k = 0; k < stages; k++) here = here || f->mix[k].n[i];
        if (here) l.part[l.n++] = i;
    }
    return l;
}

/* How often what a part saves is alive at once on a rank, at least. */
static void count_live(search *s, int64_t *live, const part_list *parts, const slots_of *slots)
{
    const choice *c = slots->c;
    int64_t *n = s->of_chunk;
    for (int k = 0; k < parts->n; k++) {
        int i = parts->part[k];
        for (int64_t v = 0; v < c->vpp; v++) n[v] = slots->f->mix[v * c->pp + slots->rank].n[i];
        live[i] = saved_least(slots, n);
    }
}

const stage_times *search_stage_times(search *s, const choice *c)
{
    int64_t micros = search_micros(s, c), key[4] = {c->pp, c->vpp, c->split, micros};
    stage_times *t = memo_get(&s->times, key);
    if (t) return t;
    t = ARENA_NEW(s->a, stage_times);
    const layout_facts *f = ranks_facts(s->r, c);
    arena_place mark = arena_mark(s->scratch);
    t->rows = ARENA_RAW(s->scratch, time_row, c->pp);
    t->parts = parts_of(f, c->pp * c->vpp);
    double before[MIX_PARTS] = {0};
    for (int64_t q = 0; q < c->pp; q++) { /* I1 */
        time_row row = {.messages = 2 * (double)q};
        choice pairs = *c;
        pairs.overlap = OVERLAP_EP;
        step_shape z = {.micros = micros};
        slots_of slots = {.c = &pairs, .z = &z, .f = f, .rank = q};
        int64_t warm[MIX_PARTS];
        count_live(s, warm, &t->parts, &slots);
        memcpy(row.weigh, before, sizeof before);
        for (int k = 0; k < t->parts.n; k++) {
            int i = t->parts.part[k];
            for (int64_t v = 0; v < c->vpp; v++)
                row.weigh[i] += (double)(micros * f->mix[v * c->pp + q].n[i]);
            before[i] += f->mix[q].n[i];
            row.alone[i] = (double)warm[i];
        }
        add_time_row(t, &row);
    }
    time_row *kept = ARENA_RAW(s->a, time_row, t->n);
    memcpy(kept, t->rows, sizeof *kept * (size_t)t->n);
    t->rows = kept;
    arena_release(s->scratch, mark);
    memo_put(&s->times, key, t);
    return t;
}

static bool covers_memory(const stage_bytes *t, const memory_row *a, const memory_row *b)
{
    for (int k = 0; k < t->parts.n; k++) {
        int i = t->parts.part[k];
        if (a->live[0][i] < b->live[0][i] || a->live[1][i] < b->live[1][i]) return false;
    }
    for (int i = 0; i < OFFLOADS; i++)
        if (a->state[i] < b->state[i]) return false;
    return true;
}

static memory_row row_of(search *s, const stage_bytes *t, const layout_facts *const *f,
                         const choice *c, step_shape z, int64_t rank)
{
    memory_row row = {{0}, {{0}}};
    for (int i = 0; i < OFFLOADS; i++) {
        const rank_facts *r = &f[i]->ranks[rank];
        row.state[i] = r->state[0] + r->state[1] + (s->waits ? 0 : r->state[2]);
        if (s->megatron) row.state[i] += r->overlap;
    }
    for (int pairs = 0; pairs < 2; pairs++) {
        choice x = *c;
        x.overlap = pairs ? OVERLAP_EP : OVERLAP_NOTHING;
        slots_of slots = {.c = &x, .z = &z, .f = f[0], .rank = rank};
        count_live(s, row.live[pairs], &t->parts, &slots);
    }
    return row;
}

static void fill_bytes(search *s, stage_bytes *t, const choice *c, const layout_facts *const *f)
{
    step_shape z = {.micros = search_micros(s, c)};
    t->ok = true;
    t->passing = f[0]->split->receives_early ? 2 : 1;
    arena_place mark = arena_mark(s->scratch);
    t->rows = ARENA_RAW(s->scratch, memory_row, c->pp);
    t->parts = parts_of(f[0], c->pp * c->vpp);
    for (int64_t q = 0; q < c->pp; q++) {
        for (int i = 0; i < OFFLOADS; i++)
            if (f[i]->ranks[q].optimizer > t->optimizer[i])
                t->optimizer[i] = f[i]->ranks[q].optimizer;
        memory_row row = row_of(s, t, f, c, z, q);
        bool covered = false;
        for (int i = 0; i < t->n; i++) covered = covered || covers_memory(t, &t->rows[i], &row);
        if (!covered) t->rows[t->n++] = row; /* I2 */
    }
    memory_row *kept = ARENA_RAW(s->a, memory_row, t->n);
    memcpy(kept, t->rows, sizeof *kept * (size_t)t->n);
    t->rows = kept;
    arena_release(s->scratch, mark);
}

const stage_bytes *search_stage_bytes(search *s, const choice *c)
{
    int64_t key[8] = {c->tp,  c->ep,    c->etp,       c->pp,
                      c->vpp, c->split, c->precision, search_micros(s, c)};
    stage_bytes *t = memo_get(&s->bytes, key);
    if (t) return t->ok ? t : NULL;
    t = ARENA_NEW(s->a, stage_bytes);
    memo_put(&s->bytes, key, t);
    const layout_facts *f[OFFLOADS];
    choice x = *c;
    for (x.offload = 0; x.offload < OFFLOADS; x.offload++) {
        f[x.offload] = ranks_facts(s->r, &x);
        if (!f[x.offload]->ok) return NULL;
    }
    fill_bytes(s, t, c, f);
    return t;
}

static int64_t alive(const stage_bytes *t, const memory_row *row, const int64_t *saved, bool pairs)
{
    int64_t sum = 0;
    for (int k = 0; k < t->parts.n; k++) {
        int i = t->parts.part[k];
        sum += row->live[pairs][i] * saved[i];
    }
    return sum;
}

int64_t stage_bytes_least(const stage_bytes *t, const int64_t *saved, int offload, bool pairs)
{
    int64_t most = 0;
    for (int i = 0; i < t->n; i++) {
        int64_t sum = t->rows[i].state[offload] + alive(t, &t->rows[i], saved, pairs);
        if (sum > most) most = sum;
    }
    return most;
}

int stage_bytes_offload(const stage_bytes *t, const int64_t *saved, bool pairs, int64_t usable)
{
    int offload = 0;
    for (int i = 0; i < t->n && offload < OFFLOADS; i++) {
        int64_t room = usable - alive(t, &t->rows[i], saved, pairs);
        while (offload < OFFLOADS && t->rows[i].state[offload] > room) offload++;
    }
    return offload;
}

static double way_least(const stage_times *t, const drop_times *of, int way, double message)
{
    double most = 0;
    for (int i = 0; i < t->n; i++) {
        const time_row *row = &t->rows[i];
        double sum = row->messages * message;
        for (int k = 0; k < t->parts.n; k++) {
            int part = t->parts.part[k];
            double own = row->weigh[part] * of->seconds[way][part];
            if (of->pairs) own += row->alone[part] * of->longer[way][part];
            sum += own;
        }
        if (sum > most) most = sum;
    }
    return most;
}

double stage_times_least(const stage_times *t, const drop_times *of, double message)
{
    double most = 0;
    for (int way = 0; way < of->ways; way++) {
        double seconds = way_least(t, of, way, message);
        if (seconds > most) most = seconds;
    }
    return most;
}
