/* cut.c - large types and pieces. */
#include "backend/mpi/cut.h"

#include <limits.h>
#include <stdlib.h>

static void check(const message *m, const char *call, int code)
{
    if (code) mpi_stop(m, call, code);
}

void cut_close(state *s)
{
    for (int i = 0; i < s->n_rows; i++) MPI_Type_free(&s->rows[i].type);
}

bool cut_needed(const state *s, const message *m, int64_t n)
{
    return n > s->piece / s->groups[m->group].n;
}

/* n elements as one: whole pieces, then the rest. */
static MPI_Datatype large_type(const message *m, MPI_Datatype of, int64_t piece, int64_t n)
{
    MPI_Datatype one, whole, rest, both;
    int64_t pieces = n / piece, left = n % piece;
    if (pieces > INT_MAX) mpi_stop(m, "a size", MPI_ERR_COUNT);
    check(m, "MPI_Type_contiguous", MPI_Type_contiguous((int)piece, of, &one));
    check(m, "MPI_Type_contiguous", MPI_Type_contiguous((int)pieces, one, &whole));
    check(m, "MPI_Type_contiguous", MPI_Type_contiguous((int)left, of, &rest));
    MPI_Datatype parts[2] = {whole, rest};
    int counts[2] = {1, left > 0};
    MPI_Aint places[2] = {0, (MPI_Aint)dtype_bytes(m->type, n - left)};
    check(m, "MPI_Type_create_struct", MPI_Type_create_struct(2, counts, places, parts, &both));
    MPI_Type_free(&one);
    MPI_Type_free(&whole);
    MPI_Type_free(&rest);
    check(m, "MPI_Type_commit", MPI_Type_commit(&both));
    return both;
}

MPI_Datatype cut_element(dtype t)
{
    switch (t) {
    case DTYPE_F32:
        return MPI_FLOAT;
    case DTYPE_F64:
        return MPI_DOUBLE;
    case DTYPE_I32:
        return MPI_INT32_T;
    default: /* these are only moved: so many bits */
        return dtype_bits(t) == 16 ? MPI_UINT16_T : MPI_BYTE;
    }
}

cut_type cut_typed(const state *s, const message *m, int64_t n)
{
    MPI_Datatype of = cut_element(m->type);
    if (!cut_needed(s, m, n)) return (cut_type){of, (int)n, false};
    return (cut_type){large_type(m, of, s->piece, n), 1, true};
}

void cut_release(cut_type *t)
{
    if (t->own) MPI_Type_free(&t->type);
}

MPI_Datatype cut_row(state *s, dtype element, int64_t n)
{
    for (int i = 0; i < s->n_rows; i++)
        if (s->rows[i].n == n && s->rows[i].element == element) return s->rows[i].type;
    if (n > INT_MAX || s->n_rows == ROWS_MAX) mpi_stop(NULL, "a row's size", MPI_ERR_COUNT);
    MPI_Datatype t;
    check(NULL, "MPI_Type_contiguous", MPI_Type_contiguous((int)n, cut_element(element), &t));
    check(NULL, "MPI_Type_commit", MPI_Type_commit(&t));
    s->rows[s->n_rows].n = n;
    s->rows[s->n_rows].element = element;
    s->rows[s->n_rows++].type = t;
    return t;
}

static MPI_Request *take_requests(const state *s, const message *m, int64_t n)
{
    if (n > INT_MAX) mpi_stop(m, "a size", MPI_ERR_COUNT);
    mpi_job *j = mpi_job_of(s, m);
    j->more = calloc((size_t)n, sizeof *j->more);
    if (!j->more) mpi_stop(m, "requests", 0);
    j->n_more = (int)n;
    return j->more;
}

void cut_all_reduce(state *s, message *m, MPI_Comm among)
{
    int64_t most = s->piece, n = m->n / most + (m->n % most > 0);
    MPI_Request *r = take_requests(s, m, n);
    for (int64_t i = 0; i < n; i++) {
        int64_t count = m->n - i * most < most ? m->n - i * most : most;
        char *part = m->y + dtype_bytes(m->type, i * most);
        check(m, "MPI_Iallreduce",
              MPI_Iallreduce(MPI_IN_PLACE, part, (int)count, cut_element(m->type), MPI_SUM, among,
                             &r[i]));
    }
}

/* Every member's block for itself, and that in pieces. */
void cut_reduce_scatter(state *s, message *m, MPI_Comm among)
{
    int64_t most = s->piece, n = m->n / most + (m->n % most > 0);
    int64_t members_n = s->groups[m->group].n;
    MPI_Request *r = take_requests(s, m, n * members_n);
    for (int64_t p = 0; p < members_n; p++) {
        for (int64_t i = 0; i < n; i++) {
            int64_t count = m->n - i * most < most ? m->n - i * most : most;
            const void *from = m->x + dtype_bytes(m->type, p * m->n + i * most);
            char *to = m->y + dtype_bytes(m->type, i * most);
            if (m->in_place && p == s->groups[m->group].place) from = MPI_IN_PLACE;
            check(m, "MPI_Ireduce",
                  MPI_Ireduce(from, to, (int)count, cut_element(m->type), MPI_SUM, (int)p, among,
                              &r[p * n + i]));
        }
    }
}
