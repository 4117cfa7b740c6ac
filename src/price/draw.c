#include "price/draw.h"

#include <math.h>

double draw_padded(double rows, double tile)
{
    enum { FAR = 4 }; /* times sqrt(2) standard deviations: what lies beyond is one in 10^8 */
    double spread = sqrt(2 * rows), tiles = 0;
    if (!(rows > 0) || !(tile > 0)) return rows;
    double first = floor(fmax(0, rows - FAR * spread) / tile);
    double last = ceil((rows + FAR * spread) / tile);
    for (double k = first; k < last; k++) /* the chance that more than k tiles are taken */
        tiles += erfc((k * tile - rows) / spread) / 2;
    return tile * (first + tiles);
}
