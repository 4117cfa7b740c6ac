/* screen_price.h - the lines of a predicted step that `plan`, `check` and `price` share. */
#ifndef CLI_SCREEN_PRICE_H
#define CLI_SCREEN_PRICE_H

#include "answer/price.h"

/* A GPU, or where a CPU computes one of its processes. */
const char *screen_device(bool cpu);
const char *screen_devices(bool cpu, int64_t n, const char *name, arena *a); /* "256 H100" */

/* "recipe.yaml: deepseek-v3, 131,072 tokens, 256 H100, global batch 480" */
void screen_head(const setup *s, const hardware *hw, arena *a);

/* Seconds with their band, speed, tokens a day. */
void screen_step(const price_answer *x, int64_t ranks, bool cpu, arena *a);

/* What the fullest rank holds, as a bar and in parts that add up to its peak. */
void screen_memory(const peak_part *parts, int n, int64_t usable, int64_t rank, bool fullest,
                   arena *a);

/* What lies on the host of a node; nothing where nothing does. */
void screen_host(const host_answer *h, int64_t activations, arena *a);

/* What the step is spent on, in percent that add up to 100, and what limits it. */
void screen_time(const price_answer *x, bool cpu, arena *a);

/* "70.3 GiB, fits", "102 GiB, does not fit" in their colours. */
const char *screen_fits(arena *a, int64_t bytes, int64_t usable);

/* Evidence of what limits a step, in the words of its machine. */
const char *screen_evidence(arena *a, const char *evidence, bool cpu);

/* Rules of one severity that are broken, one a line. */
void screen_rules(const violation_answer *list, int n, const char *kind, arena *a);

/* Why times may be off by more than their band, where they may. `estimate`: that they are
 * estimates (cli_estimate_text), or NULL; `name`: the GPU. */
void screen_trust(const char *estimate, const priced_band_answer *band, const char *name);

/* Where our own program's routed buffers are too small for the routing. */
void screen_overflow(const price_answer *x);

/* All of `price`, without its heading and what to do next. */
void screen_of_price(const price_answer *x, const char *estimate, int64_t ranks, bool cpu,
                     arena *a);

/* What limits a step, as a person says it. */
const char *screen_wall(const char *word, bool cpu);

#endif
