/* quantise_places.h - where a tile of 128 x 128 codes stands in shared memory while it is turned.
 *
 * Sixteen threads of a row have eight columns each, sixteen rows of threads eight rows each. A
 * thread has, for each of its columns, the codes of its eight rows: one unit of eight bytes. A
 * column is sixteen units, and they are exchanged by the number of the thread's columns, so that
 * sixteen threads that store the same rows of sixteen columns meet no bank twice, and neither do
 * eight that read one column, two units each.
 *
 * The header is C, for kernels and for their test. */
#ifndef BACKEND_CUDA_KERNELS_QUANTISE_PLACES_H
#define BACKEND_CUDA_KERNELS_QUANTISE_PLACES_H

#include "base/narrow.h"

enum { TURN_SIDE = 128, TURN_UNIT = 8, TURN_UNITS = TURN_SIDE / TURN_UNIT };

/* Where column `col` has the codes of rows 8 unit .. 8 unit + 7: a place in bytes. */
ON_BOTH int turned_store_at(int col, int unit)
{
    return col * TURN_SIDE + (unit ^ col / TURN_UNIT) * TURN_UNIT;
}

/* Where column `col` has the codes of rows 16 pair .. 16 pair + 15; are its halves exchanged? */
ON_BOTH int turned_load_at(int col, int pair)
{
    return col * TURN_SIDE + (pair ^ col / TURN_UNIT / 2) * 2 * TURN_UNIT;
}

ON_BOTH int turned_is_exchanged(int col)
{
    return col / TURN_UNIT & 1;
}

#endif
