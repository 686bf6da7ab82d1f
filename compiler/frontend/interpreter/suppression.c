/* Non-maximum suppression of the boxes of one class.
 * Compiled once to suppression.ll (see native_code.py), which every host loads.
 *
 * Few boxes of many are wanted, as a rule: a heap gives the best of the remaining ones in log n
 * steps, where sorting all scores would cost more than every comparison of boxes. */
#include <stdint.h>

enum { BLOCK = 32 }; /* scores that are compared with the threshold at a time */

/* Whether box `a` is looked at before `b`: equal scores in the order of boxes, NaN after all. */
static int before(const float *scores, int32_t a, int32_t b)
{
    float one = scores[a], other = scores[b];
    if (one > other || other > one)
        return one > other;
    int nan = one != one, others = other != other;
    return nan != others ? others : a < b;
}

/* Moves the box at the root of a subheap down to where both below it come after it. */
static void sink(const float *scores, int32_t *heap, int64_t size, int64_t root)
{
    int32_t box = heap[root];
    for (int64_t child = 2 * root + 1; child < size; child = 2 * root + 1) {
        if (child + 1 < size && before(scores, heap[child + 1], heap[child]))
            child++;
        if (!before(scores, heap[child], box))
            break;
        heap[root] = heap[child];
        root = child;
    }
    heap[root] = box;
}

/* As in numpy NaN is the result of NaN, so that no box shares anything with one that has it. */
static float larger(float a, float b) { return a > b || a != a ? a : b; }
static float smaller(float a, float b) { return a < b || a != a ? a : b; }

/* Whether a box shares more than `widest` of the union with one of `count` kept ones. A share that
 * is NaN counts as more. There is no way out of the loop, so that it becomes vectors. */
static int overlaps(const float *box, float size, const float *kept, int64_t most, int64_t count,
                    float widest)
{
    const float *y = kept, *x = y + most, *top = x + most, *right = top + most, *sizes = right + most;
    int32_t any = 0;
    for (int64_t i = 0; i < count; i++) {
        float height = smaller(box[2], top[i]) - larger(box[0], y[i]);
        float width = smaller(box[3], right[i]) - larger(box[1], x[i]);
        float shared = larger(height, 0) * larger(width, 0);
        float share = shared / (size + sizes[i] - shared);
        share = shared > 0 ? share : 0;
        any |= !(share <= widest);
    }
    return any;
}

/* The boxes with scores above the threshold, all if it is null; the result is how many. */
static int64_t candidates(const float *scores, int64_t count, const float *threshold, int32_t *heap)
{
    int64_t size = 0;
    for (int64_t first = 0; first < count; first += BLOCK) {
        int64_t n = count - first < BLOCK ? count - first : BLOCK;
        int32_t any = !threshold;
        if (threshold && n == BLOCK) /* most blocks have none, which a vector tells at once */
            for (int64_t i = 0; i < BLOCK; i++)
                any |= scores[first + i] > *threshold;
        else
            any = 1;
        if (any)
            for (int64_t i = first; i < first + n; i++)
                if (!threshold || scores[i] > *threshold)
                    heap[size++] = (int32_t)i;
    }
    return size;
}

/* The indices of the boxes chosen by one class, the best first; the result is how many. */
static int64_t suppress_class(const float *boxes, const float *scores, int64_t count, int64_t most,
                              float widest, const float *threshold, int32_t *heap, float *kept,
                              int64_t *chosen)
{
    int64_t size = candidates(scores, count, threshold, heap), taken = 0;
    for (int64_t root = size / 2; root-- > 0;)
        sink(scores, heap, size, root);
    while (size > 0 && taken < most) {
        int32_t best = heap[0];
        heap[0] = heap[--size];
        if (size > 0)
            sink(scores, heap, size, 0);
        const float *box = boxes + 4 * (int64_t)best;
        float area = (box[2] - box[0]) * (box[3] - box[1]);
        if (overlaps(box, area, kept, most, taken, widest))
            continue;
        for (int64_t side = 0; side < 4; side++)
            kept[side * most + taken] = box[side];
        kept[4 * most + taken] = area;
        chosen[taken++] = best;
    }
    return taken;
}

/* Chooses boxes for each of `classes` (classes, count) of scores: `taken` are how many of each,
 * and the rows of `chosen` (classes, most) begin with their indices.
 *
 * `boxes` (count, 4) are smaller and larger coordinates. Those with scores of at most `threshold`
 * are not chosen. `heap` has room for `count`, `kept` for 5 times `most`. */
void suppress(const float *boxes, const float *scores, int64_t classes, int64_t count, int64_t most,
              float widest, const float *threshold, int32_t *heap, float *kept, int64_t *chosen,
              int64_t *taken)
{
    for (int64_t i = 0; i < classes; i++)
        taken[i] = suppress_class(boxes, scores + i * count, count, most, widest, threshold, heap, kept,
                                  chosen + i * most);
}
