/* The inner loops of the search for schedules: moves on plain arrays, and what they cost.
 *
 * A schedule is three arrays: `order`, the tasks by place; `streams`, by task; `fused`, by place:
 * whether its task is in the partition of the place before.
 *
 * Compiled once to inner_loops.ll: see native_code.py. */
#include "simulation.h"

extern void qsort(void *, size_t, size_t, int (*)(const void *, const void *));

typedef struct { int64_t *order, *streams; uint8_t *fused; } state;

typedef struct { double makespan, total; } duration; /* ns: the last end, and the sum of all ends */

typedef struct {
    workload work;
    const double *delay;         /* ns that a task's launches take, by task */
    double graph, gap, awaited; /* ns of the launch of a graph, between launches, and for a wait */
} device_run;

/* The first and the last place of the partition that each place is in. */
static void partition_ends(int64_t count, const uint8_t *fused, int64_t *head, int64_t *tail) {
    for (int64_t place = 0; place < count; ++place)
        head[place] = place && fused[place] ? head[place - 1] : place;
    for (int64_t place = count - 1; place >= 0; --place)
        tail[place] = place + 1 < count && fused[place + 1] ? tail[place + 1] : place;
}

static int descending(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left < right) - (left > right);
}

/* Where each task is, and the ends of its partition. */
typedef struct { int64_t *place_of, *head, *tail; } partitions;

static partitions partitions_of(int64_t count, const state *now) {
    partitions found = {integers(count), integers(count), integers(count)};
    for (int64_t place = 0; place < count; ++place) found.place_of[now->order[place]] = place;
    partition_ends(count, now->fused, found.head, found.tail);
    return found;
}

static void free_partitions(partitions *known) {
    free(known->place_of);
    free(known->head);
    free(known->tail);
}

/* The last places of the partitions that the one from a place on needs, descending. */
static int64_t awaited_places(
    int64_t begin, const int64_t *order, const partitions *known, lists before, int64_t *found) {
    int64_t size = 0;
    for (int64_t place = begin; place <= known->tail[begin]; ++place)
        for (int64_t i = before.first[order[place]]; i < before.first[order[place] + 1]; ++i) {
            int64_t other = known->place_of[before.items[i]];
            if (known->head[other] != begin) found[size++] = known->tail[other];
        }
    qsort(found, (size_t)size, sizeof *found, descending);
    return size;
}

/* The waits that `elide-sync` leaves, as pairs of tasks: by vector clocks, in launch order.
 *
 * Returns how many; `edges` has room for one for each item of `before`. */
int64_t kept_edges(int64_t count, const state *now, const lists *before, int64_t *edges) {
    int64_t width = width_of(count, now->streams), kept = 0;
    partitions known = partitions_of(count, now);
    int64_t *last = integers(width), *found = integers(before->first[count]);
    int32_t *clocks = allocate(count * width, sizeof *clocks);
    int32_t *sequence = allocate(count, sizeof *sequence);
    for (int64_t stream = 0; stream < width; ++stream) last[stream] = -1;
    for (int64_t place = 0; place < count; ++place) {
        int64_t stream = now->streams[now->order[place]];
        int32_t *clock = clocks + place * width;
        for (int64_t i = 0; i < width; ++i)
            clock[i] = last[stream] < 0 ? 0 : clocks[last[stream] * width + i];
        int64_t size = now->fused[place]
            ? 0 : awaited_places(place, now->order, &known, *before, found);
        for (int64_t i = 0; i < size; ++i) {
            int64_t other = now->order[found[i]];
            if (clock[now->streams[other]] >= sequence[found[i]]) continue;
            edges[2 * kept] = other, edges[2 * kept + 1] = now->order[place];
            ++kept;
            const int32_t *theirs = clocks + found[i] * width;
            for (int64_t j = 0; j < width; ++j)
                if (theirs[j] > clock[j]) clock[j] = theirs[j];
        }
        sequence[place] = ++clock[stream];
        last[stream] = place;
    }
    free_partitions(&known);
    free(last), free(found), free(clocks), free(sequence);
    return kept;
}

/* The ns of one run as one graph; infinite for a cycle. */
static duration run_time(
    const device_run *run, const state *now, int64_t edge_count, int64_t *edges) {
    int64_t count = run->work.count;
    double *release = numbers(count), *start = numbers(count), *end = numbers(count);
    for (int64_t task = 0; task < count; ++task) release[task] = run->graph;
    simulate(&run->work, edge_count, edges, now->order, now->streams, release, run->delay, run->gap,
             run->awaited, start, end);
    duration found = {0.0, 0.0};
    for (int64_t task = 0; task < count; ++task) {
        if (end[task] > found.makespan) found.makespan = end[task];
        found.total += end[task];
    }
    free(release), free(start), free(end);
    return found;
}

/* The first and the last place that the partition which begins at a place may take. */
static void legal_places(
    int64_t begin, const state *now, int64_t count, const partitions *known, const lists *before,
    const lists *after, int64_t *low, int64_t *high) {
    *low = 0, *high = count - 1;
    for (int64_t place = begin; place <= known->tail[begin]; ++place) {
        int64_t task = now->order[place];
        for (int64_t i = before->first[task]; i < before->first[task + 1]; ++i) {
            int64_t other = known->place_of[before->items[i]];
            if (known->head[other] != begin) *low = larger(*low, known->tail[other] + 1);
        }
        for (int64_t i = after->first[task]; i < after->first[task + 1]; ++i) {
            int64_t other = known->place_of[after->items[i]];
            if (known->head[other] != begin) *high = smaller(*high, known->head[other] - 1);
        }
    }
}

/* Exchange two neighbours: the places from `low` up to `middle`, and those from there up to `high`. */
static void rotate(void *array, size_t size, int64_t low, int64_t middle, int64_t high) {
    char *places = (char *)array + (size_t)low * size;
    size_t first = (size_t)(middle - low) * size, second = (size_t)(high - middle) * size;
    char *kept = allocate(middle - low, size);
    memmove(kept, places, first);
    memmove(places, places + first, second);
    memmove(places + second, kept, first);
    free(kept);
}

/* Move the partition from begin to end so that it begins, or ends if later, at the target. */
static void shift(int64_t begin, int64_t end, int64_t target, state *now) {
    int64_t low = smaller(begin, target), high = larger(end, target) + 1;
    int64_t middle = target < begin ? begin : end + 1;
    rotate(now->order, sizeof *now->order, low, middle, high);
    rotate(now->fused, sizeof *now->fused, low, middle, high);
}

/* Move a partition to another place where it may be. */
static int change_place(
    int64_t begin, int64_t dice, int64_t count, state *now, const partitions *known,
    const lists *before, const lists *after) {
    int64_t end = known->tail[begin], low, high;
    legal_places(begin, now, count, known, before, after, &low, &high);
    int64_t choices = begin - low + high - end;
    if (choices == 0) return 0;
    int64_t target = low + dice % choices;
    if (target >= begin) target += end + 1 - begin;
    shift(begin, end, target < begin ? known->head[target] : known->tail[target], now);
    return 1;
}

/* Move a partition to any stream, or to that of one of its first task's predecessors. */
static int change_stream(
    int64_t begin, int64_t end, const int64_t *dice, int64_t width, state *now,
    const lists *before) {
    int64_t task = now->order[begin], known = before->first[task + 1] - before->first[task];
    int64_t stream = dice[2] % width;
    if (known && dice[3] % 2)
        stream = now->streams[before->items[before->first[task] + dice[2] % known]];
    if (stream == now->streams[task]) return 0;
    for (int64_t place = begin; place <= end; ++place) now->streams[now->order[place]] = stream;
    return 1;
}

/* Let a partition absorb the next one, on its stream. */
static int merge_next(int64_t end, int64_t count, state *now, const partitions *known) {
    if (end + 1 == count) return 0;
    for (int64_t place = end + 1; place <= known->tail[end + 1]; ++place)
        now->streams[now->order[place]] = now->streams[now->order[end]];
    now->fused[end + 1] = 1;
    return 1;
}

/* Change a schedule in place by one legal move that four numbers choose; 0 for none. */
int change(
    int64_t count, const int64_t *dice, int64_t width, state *now, const lists *before,
    const lists *after) {
    partitions known = partitions_of(count, now);
    int64_t place = dice[1] % count, kind = dice[0] % 20;
    int64_t begin = known.head[place], end = known.tail[place];
    int changed = 1;
    if (kind < 9)
        changed = change_stream(begin, end, dice, width, now, before);
    else if (kind < 18)
        changed = change_place(begin, dice[2], count, now, &known, before, after);
    else if (kind == 19)
        changed = merge_next(end, count, now, &known);
    else if (begin == end)
        changed = 0;
    else
        now->fused[larger(place, begin + 1)] = 0;
    free_partitions(&known);
    return changed;
}

static void copy(int64_t count, const state *from, state *to) {
    memmove(to->order, from->order, (size_t)count * sizeof *to->order);
    memmove(to->streams, from->streams, (size_t)count * sizeof *to->streams);
    memmove(to->fused, from->fused, (size_t)count * sizeof *to->fused);
}

/* The ns of a run with the waits that `elide-sync` leaves. */
static duration cost(
    const device_run *run, const state *now, const lists *before, int64_t *edges) {
    return run_time(run, now, kept_edges(run->work.count, now, before, edges), edges);
}

/* The ns of a run with such waits. */
double makespan(const device_run *run, const state *now, int64_t edge_count, int64_t *edges) {
    return run_time(run, now, edge_count, edges).makespan;
}

/* Try a move for each four numbers, in place; those that do not shorten the run are undone.
 *
 * Of runs of one length, that whose tasks end earlier on average is kept. Returns the number of
 * moves kept. */
int64_t improve(
    const device_run *run, int64_t steps, const int64_t *chances, int64_t width, state *now,
    const lists *before, const lists *after) {
    int64_t count = run->work.count, kept = 0;
    int64_t *edges = integers(2 * (before->first[count] + count));
    state saved = {integers(count), integers(count), allocate(count, 1)};
    duration best = cost(run, now, before, edges);
    for (int64_t step = 0; step < steps; ++step) {
        copy(count, now, &saved);
        if (!change(count, chances + 4 * step, width, now, before, after)) continue;
        duration found = cost(run, now, before, edges);
        if (found.makespan < best.makespan
            || (found.makespan == best.makespan && found.total < best.total)) {
            best = found;
            ++kept;
        } else {
            copy(count, &saved, now);
        }
    }
    free(edges), free(saved.order), free(saved.streams), free(saved.fused);
    return kept;
}
