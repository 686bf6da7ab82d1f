/* What a schedule costs: a simulation of one run of tasks on a device.
 *
 * Tasks are numbers from 0, and so are streams. Edges are pairs of tasks, the earlier first. Lists of
 * tasks lie one after another in `items`: those of task v are items[first[v]] to items[first[v + 1]].
 * `compiler.scheduling.simulator` says what the numbers mean. */
#include <stddef.h>
#include <stdint.h>

extern void *malloc(size_t), free(void *), *memmove(void *, const void *, size_t);
extern _Noreturn void abort(void);

typedef struct { const int64_t *first, *items; } lists;

typedef struct {
    int64_t count;
    const double *cost;                         /* ns alone on the device, by task */
    const double *slots, *disturbance, *traffic; /* shares of the device that a task takes alone */
} workload;

static void *allocate(int64_t count, size_t size) {
    void *memory = malloc((size_t)(count > 0 ? count : 1) * size);
    if (!memory) abort();
    return memory;
}

static int64_t *integers(int64_t count) { return allocate(count, sizeof(int64_t)); }
static double *numbers(int64_t count) { return allocate(count, sizeof(double)); }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t width_of(int64_t count, const int64_t *streams) {
    int64_t most = -1;
    for (int64_t task = 0; task < count; ++task) most = larger(most, streams[task]);
    return most + 1;
}

/* The edges between tasks that follow each other on a stream; returns how many. */
static int64_t stream_edges(
    int64_t count, const int64_t *order, const int64_t *streams, int64_t *edges) {
    int64_t width = width_of(count, streams), found = 0, *last = integers(width);
    for (int64_t stream = 0; stream < width; ++stream) last[stream] = -1;
    for (int64_t place = 0; place < count; ++place) {
        int64_t task = order[place], before = last[streams[task]];
        last[streams[task]] = task;
        if (before < 0) continue;
        edges[2 * found] = before, edges[2 * found + 1] = task;
        ++found;
    }
    free(last);
    return found;
}

/* The successors of each task: `first` has a place more than there are tasks. */
static void successors(
    int64_t count, int64_t edge_count, const int64_t *edges, int64_t *first, int64_t *targets) {
    for (int64_t task = 0; task <= count; ++task) first[task] = 0;
    for (int64_t row = 0; row < edge_count; ++row) ++first[edges[2 * row] + 1];
    for (int64_t task = 0; task < count; ++task) first[task + 1] += first[task];
    int64_t *place = integers(count);
    memmove(place, first, (size_t)count * sizeof *place);
    for (int64_t row = 0; row < edge_count; ++row)
        targets[place[edges[2 * row]]++] = edges[2 * row + 1];
    free(place);
}

/* A heap of tasks that may start: the first by time, then by rank. */
typedef struct { int64_t size, *tasks; const int64_t *rank; double *at; } heap;

static int starts_before(const heap *ready, int64_t a, int64_t b) {
    if (ready->at[a] != ready->at[b]) return ready->at[a] < ready->at[b];
    return ready->rank[a] < ready->rank[b];
}

static void push(heap *ready, int64_t task, double at) {
    int64_t place = ready->size++;
    ready->at[task] = at;
    while (place && starts_before(ready, task, ready->tasks[(place - 1) / 2])) {
        ready->tasks[place] = ready->tasks[(place - 1) / 2];
        place = (place - 1) / 2;
    }
    ready->tasks[place] = task;
}

static int64_t pop(heap *ready) {
    int64_t top = ready->tasks[0], moved = ready->tasks[--ready->size], place = 0;
    for (int64_t child; (child = 2 * place + 1) < ready->size; place = child) {
        if (child + 1 < ready->size
            && starts_before(ready, ready->tasks[child + 1], ready->tasks[child]))
            ++child;
        if (!starts_before(ready, ready->tasks[child], moved)) break;
        ready->tasks[place] = ready->tasks[child];
    }
    ready->tasks[place] = moved;
    return top;
}

/* The tasks that run, oldest first, how fast each goes, 1 being its speed alone, and what is left. */
typedef struct { int64_t count, *tasks; double *speed, *left; } running;

/* Block slots are granted first come, first served. Then each task suffers from the others'
 * interference, or all alike from overdrawn bandwidth if that is worse. */
static void set_speeds(running *now, const workload *work) {
    double left = 1.0, interference = 0.0, traffic = 0.0;
    for (int64_t i = 0; i < now->count; ++i) {
        int64_t task = now->tasks[i];
        double share = left / work->slots[task];
        now->speed[i] = share < 1.0 ? share : 1.0;
        left = left > work->slots[task] ? left - work->slots[task] : 0.0;
        interference += now->speed[i] * work->disturbance[task];
        traffic += now->speed[i] * work->traffic[task];
    }
    for (int64_t i = 0; i < now->count; ++i) {
        double others = interference - now->speed[i] * work->disturbance[now->tasks[i]];
        now->speed[i] /= 1.0 + others > traffic ? 1.0 + others : traffic;
    }
}

/* The place of the running task that ends first, and after how long. */
static int64_t next_end(const running *now, double *after) {
    int64_t place = -1;
    *after = __builtin_inf();
    for (int64_t i = 0; i < now->count; ++i) {
        if (!(now->speed[i] > 0.0) || !(now->left[i] / now->speed[i] < *after)) continue;
        *after = now->left[i] / now->speed[i];
        place = i;
    }
    return place;
}

static int64_t take(running *now, int64_t place) {
    int64_t task = now->tasks[place];
    for (int64_t i = place; i + 1 < now->count; ++i) {
        now->tasks[i] = now->tasks[i + 1];
        now->left[i] = now->left[i + 1];
    }
    --now->count;
    return task;
}

/* What a run keeps by task: how many tasks it waits for, since when it may start, and the ns of the
 * host or the device to issue it. */
typedef struct { int64_t *waiting; double *ready, *issue; } waits;

static waits waits_of(
    int64_t count, lists after, const int64_t *streams, const double *release, double gap,
    double awaited) {
    waits found = {integers(count), numbers(count), numbers(count)};
    for (int64_t task = 0; task < count; ++task) {
        found.waiting[task] = 0;
        found.ready[task] = release[task];
        found.issue[task] = 0.0;
    }
    for (int64_t task = 0; task < count; ++task)
        for (int64_t i = after.first[task]; i < after.first[task + 1]; ++i) {
            ++found.waiting[after.items[i]];
            found.issue[after.items[i]] += streams[after.items[i]] != streams[task];
        }
    for (int64_t task = 0; task < count; ++task)
        found.issue[task] = gap + awaited * found.issue[task];
    return found;
}

/* How long until the first task that may start does so; infinite if there is none. */
static double until_start(const heap *starts, const waits *wait, double now, double issued) {
    if (!starts->size) return __builtin_inf();
    int64_t task = starts->tasks[0];
    double at = starts->at[task] > now ? starts->at[task] : now;
    return (issued + wait->issue[task] > at ? issued + wait->issue[task] : at) - now;
}

/* Run all tasks: events in the order of time, a start after an end at the same time. */
static void run_events(
    const workload *work, lists after, const double *delay, waits *wait, heap *starts, running *busy,
    double *start, double *end) {
    double now = 0.0, issued = -__builtin_inf(), until_end;
    while (starts->size || busy->count) {
        set_speeds(busy, work);
        int64_t place = next_end(busy, &until_end);
        double until = until_start(starts, wait, now, issued);
        double passed = until_end < until ? until_end : until;
        for (int64_t i = 0; i < busy->count; ++i) busy->left[i] -= passed * busy->speed[i];
        now += passed;
        if (until < until_end) {
            int64_t task = pop(starts);
            start[task] = issued = now;
            busy->left[busy->count] = work->cost[task];
            busy->tasks[busy->count++] = task;
            continue;
        }
        if (place < 0) return; /* none of those that run ever ends */
        int64_t task = take(busy, place);
        end[task] = now;
        for (int64_t i = after.first[task]; i < after.first[task + 1]; ++i) {
            int64_t next = after.items[i];
            if (now > wait->ready[next]) wait->ready[next] = now;
            if (--wait->waiting[next] == 0) push(starts, next, wait->ready[next] + delay[next]);
        }
    }
}

/* Start and end of every task; infinite for tasks that wait for each other in a cycle.
 *
 * `edges` has room for `count` more, those of the streams. */
void simulate(
    const workload *work, int64_t edge_count, int64_t *edges, const int64_t *order,
    const int64_t *streams, const double *release, const double *delay, double gap, double awaited,
    double *start, double *end) {
    int64_t count = work->count;
    edge_count += stream_edges(count, order, streams, edges + 2 * edge_count);
    int64_t *first = integers(count + 1), *targets = integers(edge_count), *rank = integers(count);
    successors(count, edge_count, edges, first, targets);
    lists after = {first, targets};
    waits wait = waits_of(count, after, streams, release, gap, awaited);
    heap starts = {0, integers(count), rank, numbers(count)};
    running busy = {0, integers(count), numbers(count), numbers(count)};
    for (int64_t place = 0; place < count; ++place) rank[order[place]] = place;
    for (int64_t task = 0; task < count; ++task) {
        start[task] = end[task] = __builtin_inf();
        if (wait.waiting[task] == 0) push(&starts, task, wait.ready[task] + delay[task]);
    }
    run_events(work, after, delay, &wait, &starts, &busy, start, end);
    void *own[] = {first,        targets,    rank,       wait.waiting, wait.ready, wait.issue,
                   starts.tasks, starts.at, busy.tasks, busy.speed,   busy.left};
    for (size_t i = 0; i < sizeof own / sizeof *own; ++i) free(own[i]);
}
