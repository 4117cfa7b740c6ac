/* lanes.c - collects the messages of trace parts by lane, and walks a lane message by message. */
#include "predict/audit/hash.h"
#include "predict/audit/trace.h"

void book_count(audit_book *book)
{
    for (int i = 0; i < book->n_parts; i++) {
        audit_part *p = book->parts[i];
        p->use = ARENA_ARRAY(book->a, lane_use, book->n_lanes + 1);
        for (int64_t k = 0; k < p->n; k++) {
            const audit_item *it = &p->items[k];
            for (int j = 0; j < it->list->n; j++) {
                const audit_entry *e = &it->list->entries[j];
                if (e->lane < 0) continue;
                lane_use *use = &p->use[e->lane];
                use->count++;
                use->hash = hash_add(use->hash, entry_hash_at(it, e));
            }
        }
    }
}

lane_cursor lane_start(const audit_trace *trace, int lane)
{
    return (lane_cursor){.trace = trace, .lane = lane, .last_part = PART_COUNT - 1, .entry = -1};
}

bool lane_next(lane_cursor *c)
{
    for (; c->part <= c->last_part; c->part++, c->item = 0, c->entry = -1) {
        const audit_part *p = c->trace->part[c->part];
        for (; c->item < p->n; c->item++, c->entry = -1) {
            const audit_list *l = p->items[c->item].list;
            while (++c->entry < l->n)
                if (l->entries[c->entry].lane == c->lane) return true;
        }
    }
    return false;
}
