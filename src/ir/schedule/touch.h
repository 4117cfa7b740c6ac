/* touch.h - memory that operations touch, and whether two of them must keep their order. */
#ifndef IR_SCHEDULE_TOUCH_H
#define IR_SCHEDULE_TOUCH_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes start .. end-1 of a space; spaces share no memory with one another. */
typedef struct touch {
    int space;
    bool written;
    int64_t start, end;
} touch;

/* Two touches conflict where one writes memory that the other touches. */
static inline bool touch_conflict(const touch *a, const touch *b)
{
    return a->space == b->space && (a->written || b->written) && a->start < b->end &&
           b->start < a->end;
}

#endif
