/* Walks the trees of an ensemble for rows of numbers, and counts the votes of the leaves reached.
 * Compiled once to trees.ll (see compiler/backends/cpu/build_portable.py), which every host loads.
 *
 * Some rows walk a tree side by side, level by level: a step waits for its loads, and there is no
 * branch that depends on the rows but the one at the end of a level. A leaf is its own child.
 *
 * The structures mirror those in walking.py. */
#include <stdint.h>

enum { ROWS = 8 };                          /* that walk side by side */
enum { SUM, MIN, MAX };

typedef struct {
    double bound;
    int32_t feature;
    int32_t nan;         /* whether NaN goes where numbers up to the bound go */
    int32_t children[2]; /* for numbers above the bound, and for the others */
} node;

typedef struct {
    int64_t trees, classes, aggregate;
    const node *nodes;
    const int32_t *roots;
    const int64_t *ends;    /* where the votes of each node begin, and those of the last end */
    const int64_t *ids;     /* of votes: the class or the target */
    const double *weights;  /* of votes */
} ensemble;

static int32_t next(const node *at, const double *row)
{
    double value = row[at->feature];
    return at->children[(value <= at->bound) | ((value != value) & at->nan)];
}

static void vote(const ensemble *e, int32_t leaf, double *scores, uint8_t *voted)
{
    for (int64_t i = e->ends[leaf]; i < e->ends[leaf + 1]; i++) {
        int64_t id = e->ids[i];
        double weight = e->weights[i], before = scores[id];
        if (e->aggregate == SUM)
            scores[id] = before + weight;
        else if (!voted[id] || (e->aggregate == MIN ? weight < before : weight > before))
            scores[id] = weight;
        voted[id] = 1;
    }
}

/* One level: where `n` rows go from; the result is zero if all of them are at leaves. */
static int32_t advance(const ensemble *e, int32_t *at, const double *rows, int64_t columns, int64_t n)
{
    int32_t moved = 0;
    for (int64_t i = 0; i < n; i++) {
        int32_t to = next(&e->nodes[at[i]], &rows[i * columns]);
        moved |= to ^ at[i];
        at[i] = to;
    }
    return moved;
}

/* Adds the votes for `count` rows to `scores` (rows, classes), which are zero like `voted`. */
void trees_vote(const ensemble *e, const double *rows, int64_t count, int64_t columns, double *scores,
                uint8_t *voted)
{
    for (int64_t n; count > 0; count -= n) {
        n = count < ROWS ? count : ROWS;
        for (int64_t tree = 0; tree < e->trees; tree++) {
            int32_t at[ROWS];
            for (int64_t i = 0; i < ROWS; i++)
                at[i] = e->roots[tree];
            if (n == ROWS) /* a number that is known, so that the loop is unrolled */
                while (advance(e, at, rows, columns, ROWS)) {}
            else
                while (advance(e, at, rows, columns, n)) {}
            for (int64_t i = 0; i < n; i++)
                vote(e, at[i], &scores[i * e->classes], &voted[i * e->classes]);
        }
        rows += n * columns, scores += n * e->classes, voted += n * e->classes;
    }
}
