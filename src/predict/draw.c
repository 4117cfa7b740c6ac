/* draw.c - means over draws, from the normal distribution of loads. */
#include "predict/draw.h"

#include <math.h>

double draw_padded(double rows, double tile)
{
    const double far = 2.5; /* times sqrt(2) standard deviations: four in 10,000 lie beyond */
    double spread = sqrt(2 * rows), tiles = 0;
    if (!(rows > 0) || !(tile > 0)) return rows;
    double first = floor(fmax(0, rows - far * spread) / tile);
    double last = ceil((rows + far * spread) / tile);
    for (double k = first; k < last; k++) /* the chance that more than k tiles are taken */
        tiles += erfc((k * tile - rows) / spread) / 2;
    return tile * (first + tiles);
}

/* The mean of the largest of n normal numbers: the integral of the chance that it is above x, from
 * 0 on, less that of the chance that it is below, up to 0. */
static double largest(double n)
{
    const double step = 0.5, far = 5;
    double sum = 0;
    for (double x = step / 2; x < far; x += step) {
        double above = erfc(x / sqrt(2)) / 2;
        sum += step * (1 - pow(1 - above, n) - pow(above, n));
    }
    return sum;
}

double draw_fullest(double ranks, double rows, double topk, double experts)
{
    if (!(ranks > 1) || !(rows > 0) || !(experts > topk)) return 1;
    /* Loads add up to a constant: their differences vary as those of independent ones would. */
    double variance = rows * (experts - topk) / (experts - 1);
    return 1 + largest(ranks) * sqrt(variance) / rows;
}
