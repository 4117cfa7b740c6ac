/* megatron_finish.c - what Megatron-LM makes of a list as a whole, and all that is wrong with it
 * in one message. */
#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "base/maths.h"
#include "config/megatron_reader.h"
#include "config/tokenizers.h"

/* What the launcher leaves open, the job has from the head of its batch script: srun starts what
 * --ntasks-per-node says, or a rank a GPU. torchrun without --nnodes is a job of one node. */
static void slurm_sizes(reader *rd)
{
    const slurm_header *h = &rd->slurm;
    int64_t gpus = slurm_gpus_per_node(h), tasks = h->tasks_per_node;
    bool shared = h->tasks > 0 && h->nodes > 0 && h->tasks % h->nodes == 0;
    if (!tasks && shared) tasks = h->tasks / h->nodes;
    if (!rd->n_nodes && !rd->torchrun) rd->n_nodes = h->nodes;
    if (!rd->n_procs) rd->n_procs = tasks > 1 && !rd->torchrun ? tasks : gpus;
    if (!h->gpu || rd->r->knob[K_GPU].from == FROM_USER) return;
    char *name = arena_copy(rd->r->a, h->gpu, strlen(h->gpu));
    for (char *p = name; *p; p++) *p = (char)toupper((unsigned char)*p);
    if (gpu_find(name)) recipe_set(rd->r, K_GPU, value_of_text(name), "#SBATCH");
}

static void launched_gpus(reader *rd)
{
    slurm_sizes(rd);
    if (rd->n_nodes && !rd->n_procs)
        recipe_note(
            rd->r,
            "--nnodes without --nproc-per-node does not give the GPU count: set cluster.n_gpus");
    if (!rd->n_procs) return;
    int64_t nodes = rd->n_nodes ? rd->n_nodes : 1;
    const char *why = rd->slurm.nodes ? "#SBATCH and the launcher: nodes x ranks of a node"
                                      : "--nnodes x --nproc-per-node";
    recipe_set(rd->r, K_GPUS_PER_NODE, value_of_int(rd->n_procs),
               rd->slurm.nodes ? why : "--nproc-per-node");
    recipe_set(rd->r, K_N_GPUS, value_of_int(mul_sat(nodes, rd->n_procs)), why);
}

/* Megatron-LM heeds --num-query-groups only beside --group-query-attention, and then has 1
 * unless set. */
static void group_queries(reader *rd)
{
    setting *groups = &rd->r->knob[K_KV_HEADS];
    if (rd->group_queries && groups->from != FROM_USER) {
        recipe_set(rd->r, K_KV_HEADS, value_of_int(1),
                   "--group-query-attention without --num-query-groups");
    } else if (!rd->group_queries && groups->from == FROM_USER) {
        recipe_note(rd->r,
                    "%s: --num-query-groups: no effect in Megatron-LM, because "
                    "--group-query-attention is missing: one key/value head per query head",
                    groups->why);
        *groups = (setting){0};
    }
}

/* Megatron-LM asks the tokenizer; without --tokenizer-type pretrain_gpt.py takes GPT-2's. */
static void vocabulary(reader *rd)
{
    if (rd->r->knob[K_VOCAB].from != FROM_NOTHING || recipe_given(rd->r, K_MODEL)) return;
    const char *type = rd->tokenizer ? rd->tokenizer : rd->vocab_file ? "GPT2BPETokenizer" : NULL;
    int64_t size = tokenizer_size(type, rd->tokenizer_model);
    if (!size) return;
    const char *model = rd->tokenizer_model ? shell_plain(rd->r->a, rd->tokenizer_model) : "";
    recipe_set(rd->r, K_VOCAB, value_of_int(size), arena_text(rd->r->a, "size of %s", type));
    recipe_note(rd->r, "%s: --vocab-size is not given: %" PRId64 ", the size of %s%s%.100s",
                rd->name, size, type, *model ? " " : "", model);
}

static status apply_last(reader *rd)
{
    for (int i = 0; i < rd->n_last; i++) TRY(combo_apply(rd->r, rd->last[i], rd->where, rd->err));
    return OK;
}

/* ---- trouble */

enum { LISTED_BYTES = 1500 }; /* of a message */

static void list_unknown(reader *rd, textbuf *t)
{
    const troubles *u = &rd->unknown;
    if (u->n) text_add(t, "%s: %d unknown flag%s", rd->name, u->n, u->n > 1 ? "s" : "");
    for (int i = 0; i < u->n; i++) {
        if (t->n > LISTED_BYTES) {
            text_add(t, "\n  and %d more", u->n - i);
            return;
        }
        const char *near = flag_nearest(rd->r->a, u->items[i].name);
        text_add(t, "\n  %s: unknown flag '%.100s'%s%s%s", u->items[i].where, u->items[i].name,
                 near ? "; the nearest known one is '" : "", near ? near : "", near ? "'" : "");
    }
}

static void list_missing(reader *rd, textbuf *t)
{
    const troubles *m = &rd->missing;
    if (m->n)
        text_add(t,
                 "%s%s: %d variable%s no value here; --set NAME=value gives one (nothing is "
                 "executed, the environment is not read)",
                 t->n ? "\n" : "", rd->name, m->n, m->n > 1 ? "s have" : " has");
    for (int i = 0; i < m->n; i++) {
        if (t->n > LISTED_BYTES) {
            text_add(t, "\n  and %d more", m->n - i);
            return;
        }
        bool command = m->items[i].name[0] == '$';
        text_add(t, "\n  %s: %s for %s%s", m->items[i].where, m->items[i].name, m->items[i].flag,
                 command ? " (write the value itself)" : "");
    }
}

static status say_trouble(reader *rd)
{
    if (!rd->unknown.n && !rd->missing.n) return OK;
    if (rd->unknown.n == 1 && !rd->missing.n) {
        const trouble *u = &rd->unknown.items[0];
        const char *near = flag_nearest(rd->r->a, u->name);
        return error_set(rd->err, ERR_INPUT, "%s: unknown flag '%.200s'%s%s%s", u->where, u->name,
                         near ? "; the nearest known one is '" : "", near ? near : "",
                         near ? "'" : "");
    }
    textbuf t = text_init(rd->r->a);
    list_unknown(rd, &t);
    list_missing(rd, &t);
    return error_set(rd->err, ERR_INPUT, "%s", t.s);
}

status reader_finish(reader *rd)
{
    TRY(apply_last(rd));
    TRY(say_trouble(rd));
    if (rd->padded_vocab.kind != V_NULL)
        recipe_set(rd->r, K_VOCAB, rd->padded_vocab, "--padded-vocab-size");
    if (recipe_is_lm(rd->r)) group_queries(rd);
    launched_gpus(rd);
    vocabulary(rd);
    return OK;
}
