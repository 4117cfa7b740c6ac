/* params.c - sums over the parameter table, and names in Hugging Face files. */
#include "model/params.h"

#include <inttypes.h>
#include <string.h>

#include "base/maths.h"

static int64_t share(int64_t n, int64_t ranks)
{
    return ceil_div(n, ranks > 0 ? ranks : 1);
}

int64_t param_elements(const param *p)
{
    return param_local(p, 1, 1, 1);
}

/* Sizes that do not divide are a rule's business; the fullest rank's share is counted. */
int64_t param_local(const param *p, int64_t tp, int64_t etp, int64_t ep)
{
    int64_t n = 1;
    for (int i = 0; i < p->n_dims; i++) {
        int64_t d = p->dim[i];
        if (i == 0 && p->kind == PARAM_EXPERT) d = share(d, ep);
        if (i == p->axis && p->cut == CUT_TP) d = share(d, tp);
        if (i == p->axis && p->cut == CUT_ETP) d = share(d, etp);
        n = mul_sat(n, d);
    }
    return n;
}

static int64_t active_elements(const param *p)
{
    if (p->kind != PARAM_EXPERT) return param_elements(p);
    int64_t all = p->dim[0], topk = p->block->moe.topk;
    return mul_sat(param_local(p, 1, 1, all), topk < all ? topk : all);
}

param_totals param_count(const param_table *t)
{
    param_totals sum = {0};
    for (int i = 0; i < t->n_rows; i++) {
        const param *p = &t->rows[i];
        int64_t n = mul_sat(param_elements(p), p->block->times);
        if (!p->trained) {
            sum.buffers = add_sat(sum.buffers, n);
            continue;
        }
        sum.total = add_sat(sum.total, n);
        sum.active = add_sat(sum.active, mul_sat(active_elements(p), p->block->times));
        if (p->kind == PARAM_EXPERT) sum.expert = add_sat(sum.expert, n);
        if (p->kind == PARAM_EMBEDDING) sum.embedding = add_sat(sum.embedding, n);
    }
    return sum;
}

/* ---- Hugging Face names */

/* DeepSeek's files keep prediction modules as further layers, Qwen3-Next's under a name of their
 * own. */
const char *param_hf_prefix(arena *a, const model *m, block_kind kind, int64_t i)
{
    if (kind == BLOCK_EMBEDDING || kind == BLOCK_HEAD) return "";
    if (i < m->n_layers || m->names != NAMES_NEXT)
        return arena_text(a, "model.layers.%" PRId64 ".", i);
    return kind == BLOCK_MTP ? "mtp." : arena_text(a, "mtp.layers.%" PRId64 ".", i - m->n_layers);
}

int param_hf_parts(const param *p)
{
    int n = p->hf_names[0] != 0;
    for (const char *s = p->hf_names; *s; s++) n += *s == ' ';
    return n;
}

const char *param_hf_name(arena *a, const model *m, const param *p, int64_t i, int part,
                          int64_t expert)
{
    const char *s = p->hf_names;
    while (part-- > 0) s += strcspn(s, " ") + 1;
    textbuf t = text_init(a);
    text_add(&t, "%s", param_hf_prefix(a, m, p->block->kind, i));
    for (; *s && *s != ' '; s++) {
        if (!text_starts(s, "{e}")) {
            text_put(&t, s, 1);
            continue;
        }
        text_add(&t, "%" PRId64, expert);
        s += 2;
    }
    return t.s;
}
