/* directions_context.h - DeepSeek-V3 from 4K to 256K on H100, shards of 4,096 tokens: the split
 * spelled as CP of every kind and as TP. */
#ifndef BENCH_DIRECTIONS_CONTEXT_H
#define BENCH_DIRECTIONS_CONTEXT_H

#include <stdio.h>

#include "predict/deltas.h"

enum { LENGTHS = 6, SPELLINGS = 6 };

static const struct {
    const char *recipe, *name;
    int parts;
    double published;
} lengths[LENGTHS] = {{"recipes/dsv3-4k-h100.yaml", "4K", 1, 295},
                      {"recipes/dsv3-16k-h100.yaml", "16K", 4, 315},
                      {"recipes/dsv3-32k-h100.yaml", "32K", 8, 321},
                      {"recipes/dsv3-64k-h100.yaml", "64K", 16, 306},
                      {"recipes/dsv3-128k-h100.yaml", "128K", 32, 303},
                      {"recipes/dsv3-256k-h100.yaml", "256K, 512 GPUs", 64, 297}};

static const char *const spellings[SPELLINGS] = {"CP ring",    "CP all_gather",  "CP a2a",
                                                 "CP a2a+p2p", "CP latent ring", "TP"};

/* What the container of these runs has for MLA (rule mla-needs-a-ring); the latent ring is ours. */
static const bool had_it[SPELLINGS] = {true, false, false, true, false, true};

#define ONE_LEVEL "model.hierarchical_context_parallel_sizes=null"

static inline const char *spelling_words(int how, int parts, arena *a)
{
    int inner = parts <= 8 ? parts / 2 : 8;
    switch (how) {
    case 0:
        return "model.cp_comm_type=p2p " ONE_LEVEL;
    case 1:
        return "model.cp_comm_type=all_gather " ONE_LEVEL;
    case 2:
        return "model.cp_comm_type=a2a " ONE_LEVEL;
    case 3:
        return parts < 4 ? ""
                         : arena_text(a,
                                      "model.cp_comm_type=a2a+p2p "
                                      "model.hierarchical_context_parallel_sizes=[%d,%d]",
                                      inner, parts / inner);
    case 4:
        return "model.cp_comm_type=p2p moefold.mla_latent_ring=true " ONE_LEVEL;
    default:
        return arena_text(a,
                          "model.context_parallel_size=1 model.tensor_model_parallel_size=%d "
                          "model.cp_comm_type=p2p " ONE_LEVEL,
                          parts);
    }
}

/* The spelling that is nearest to what was published, over all lengths from 16K on. */
typedef struct context_sums {
    double off[SPELLINGS], worst[SPELLINGS];
    bool fits[SPELLINGS];
} context_sums;

static inline status print_length(int at, context_sums *sums, arena *a, error *err)
{
    printf("| %s | %.0f ", lengths[at].name, lengths[at].published);
    for (int how = 0; how < SPELLINGS; how++) {
        delta_end e;
        const char *words = spelling_words(how, lengths[at].parts, a);
        status st = delta_end_of(&e, NULL, lengths[at].recipe, words, a, err);
        if (st) return st;
        double off = e.p.tflops_per_gpu / lengths[at].published - 1, size = off < 0 ? -off : off;
        printf("| %.0f (%.0f GiB%s) ", e.p.tflops_per_gpu, (double)e.p.peak_bytes / 1073741824.0,
               e.p.fits ? "" : "!");
        if (at) sums->off[how] += size / (LENGTHS - 1);
        if (size > sums->worst[how]) sums->worst[how] = size;
        sums->fits[how] = sums->fits[how] && e.p.fits;
    }
    printf("|\n");
    return OK;
}

static inline void print_verdict(const context_sums *sums)
{
    int best = 0, theirs = 0; /* that fit; theirs: what that container could run */
    for (int how = 0; how < SPELLINGS; how++) {
        if (!sums->fits[how]) continue;
        if (sums->off[how] < sums->off[best]) best = how;
        if (had_it[how] && sums->off[how] < sums->off[theirs]) theirs = how;
    }
    printf("\nMean distance from the published figures, 16K on:");
    for (int how = 0; how < SPELLINGS; how++)
        printf("%s %s %.0f %% (at most %.0f %%)%s", how ? "," : "", spellings[how],
               100 * sums->off[how], 100 * sums->worst[how],
               sums->fits[how] ? "" : ", does not fit everywhere");
    printf(".\n\n"
           "Nearest of those that fit: **%s**; of those that the container could run: **%s**.\n",
           spellings[best], spellings[theirs]);
}

static inline status print_context(arena *a, error *err)
{
    context_sums sums = {0};
    for (int how = 0; how < SPELLINGS; how++) sums.fits[how] = true;
    printf("\n"
           "## DeepSeek-V3 from 4K to 256K on H100: how is the sequence split?\n\n"
           "The source's card calls the split CP = sequence / 4096, but its commands set TP. The "
           "table has both, with everything else as\n"
           "published (EP32 PP8 VPP4, deepep, recompute, optimizer on the host), in TFLOP/s/GPU, "
           "with the memory of the fullest rank\n"
           "(!: does not fit). These runs' Transformer Engine had neither all_gather nor a2a for "
           "MLA, which came with 2.15\n"
           "(container 26.06).\n\n"
           "| length | published ");
    for (int how = 0; how < SPELLINGS; how++) printf("| %s ", spellings[how]);
    printf("|\n|---|--:|--:|--:|--:|--:|--:|--:|\n");
    for (int at = 0; at < LENGTHS; at++) {
        status st = print_length(at, &sums, a, err);
        if (st) return st;
    }
    print_verdict(&sums);
    return OK;
}

#endif
