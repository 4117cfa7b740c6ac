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

/* ---- blocks */

int param_layer_blocks(const model *m, int64_t i, param_block blocks[LAYER_BLOCKS_MAX])
{
    int n = 0;
    if (i >= m->n_layers) blocks[n++] = BLOCK_MTP;
    blocks[n++] = model_layer_is(m, i, LAYER_LINEAR) ? BLOCK_LINEAR : BLOCK_ATTENTION;
    blocks[n++] = model_layer_is(m, i, LAYER_MOE) ? BLOCK_MOE : BLOCK_MLP;
    return n;
}

static int64_t layers_with_weights(const model *m)
{
    int64_t n_mtp = m->mtp_repeated && m->n_mtp > 1 ? 1 : m->n_mtp;
    return m->n_layers + n_mtp;
}

int64_t param_block_count(const model *m, param_block b)
{
    if (b == BLOCK_EMBEDDING || b == BLOCK_HEAD) return 1;
    int64_t count = 0;
    for (int64_t i = 0; i < layers_with_weights(m); i++) {
        param_block blocks[LAYER_BLOCKS_MAX];
        int n = param_layer_blocks(m, i, blocks);
        for (int j = 0; j < n; j++) count += blocks[j] == b;
    }
    return count;
}

static int64_t active_elements(const param *p, const model *m)
{
    if (p->kind != PARAM_EXPERT) return param_elements(p);
    return mul_sat(param_local(p, 1, 1, p->dim[0]), m->topk < p->dim[0] ? m->topk : p->dim[0]);
}

param_totals param_count(const param_table *t, const model *m)
{
    param_totals sum = {0};
    int64_t count[BLOCK_COUNT];
    for (int b = 0; b < BLOCK_COUNT; b++) count[b] = param_block_count(m, (param_block)b);
    for (int i = 0; i < t->n_rows; i++) {
        const param *p = &t->rows[i];
        int64_t n = mul_sat(param_elements(p), count[p->block]);
        if (!p->trained) {
            sum.buffers = add_sat(sum.buffers, n);
            continue;
        }
        sum.total = add_sat(sum.total, n);
        sum.active = add_sat(sum.active, mul_sat(active_elements(p, m), count[p->block]));
        if (p->kind == PARAM_EXPERT) sum.expert = add_sat(sum.expert, n);
        if (p->kind == PARAM_EMBEDDING) sum.embedding = add_sat(sum.embedding, n);
    }
    return sum;
}

/* ---- Hugging Face names */

/* DeepSeek's files keep prediction modules as further layers, Qwen3-Next's under a name of their
 * own. */
const char *param_hf_prefix(arena *a, const model *m, param_block b, int64_t i)
{
    if (b == BLOCK_EMBEDDING || b == BLOCK_HEAD) return "";
    if (i < m->n_layers || !text_equal(m->family, "qwen3_next"))
        return arena_text(a, "model.layers.%" PRId64 ".", i);
    return b == BLOCK_MTP ? "mtp." : arena_text(a, "mtp.layers.%" PRId64 ".", i - m->n_layers);
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
    text_add(&t, "%s", param_hf_prefix(a, m, p->block, i));
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
