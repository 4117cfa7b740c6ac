/* draw.h - what routing leaves to chance where experts are balanced in the mean.
 *
 * Megatron's moe_router_force_load_balancing replaces logits by normal numbers (RandomSTE), so that
 * every expert is as likely as the next, but each draw of a layer and microbatch is another. Loads
 * are sums of many tokens: taken as normal, with the variance of independent draws. */
#ifndef PREDICT_DRAW_H
#define PREDICT_DRAW_H

/* The mean of an expert's rows rounded up to a multiple of `tile`, where `rows` are its mean. 2,048
 * rows are 2,048 give or take 45, so they begin one more tile every second time: half a tile is
 * lost in the mean, where a load of exactly 2,048 would lose nothing. */
double draw_padded(double rows, double tile);

/* Load of the fullest of `ranks` over the mean, in the mean of draws: each rank gets `rows` in the
 * mean of tokens that choose `topk` different ones of `experts`. All wait for it in every layer. */
double draw_fullest(double ranks, double rows, double topk, double experts);

#endif
