/* Runs a schedule of kernels: a team of threads advances streams, and shares the blocks of large
 * launches. Compiled once to executor.ll (see build_portable.py), which every LP64 POSIX host loads.
 *
 * Each thread, over and over: advances a stream whose next task may start (its home stream, else the
 * one whose task comes first in launch order), else claims blocks of a launch that another thread has
 * opened, else rests. A stream is held by at most one thread at a time but belongs to none, so the
 * calling thread alone can finish any run, and more streams than threads are list scheduling.
 *
 * A launch with a control record runs the launches of its bodies instead of a function: the thread
 * that holds the stream runs them one after another, others help with their blocks. Before a body
 * runs, the buffers of its launches are set to the places that its tensors have in this iteration.
 *
 * Nothing is reset between runs: flags compare with the number of the run. A thread left over from
 * the last run can therefore only find work that is ready in this one.
 *
 * Where there are `spans`, each thread writes down when it executed a task, or blocks of another's.
 *
 * The structures mirror those in tables.py. */
#include <stdatomic.h>
#include <stdint.h>

/* Not <pthread.h>: the sizes of its types differ between hosts, so 128 bytes stand for each. */
typedef struct { _Alignas(64) char storage[128]; } opaque;
extern int pthread_mutex_init(opaque *, const void *);
extern int pthread_mutex_lock(opaque *), pthread_mutex_unlock(opaque *);
extern int pthread_cond_init(opaque *, const void *);
extern int pthread_cond_wait(opaque *, opaque *), pthread_cond_broadcast(opaque *);
extern int sched_yield(void);
extern void *pthread_self(void);
extern void cpu_pause(void); /* the host's spin-wait hint, defined when this is loaded */
extern int64_t cpu_clock(void); /* ns of the host's monotonic clock, likewise */

enum {
    PAUSES = 1000, /* rounds of waiting for others' blocks before a thread yields its core */
    IDLE = 20000,  /* idle rounds before a thread sleeps: half a millisecond or so; waking takes 50 us */
};

typedef void kernel(void **buffers, int64_t begin, int64_t end);

typedef struct {
    int64_t slot;             /* of `slots` */
    int64_t first, odd, even; /* the buffer of the control launch in iteration 0, 1, 3.. and 2, 4.. */
    int64_t offset, step;     /* bytes, and bytes more in each iteration */
} place;

typedef struct { int64_t initial, even, odd, bytes; } carry; /* buffers of a carried value */

typedef struct {
    int64_t first_launch, last_launch;
    int64_t first_fixed, last_fixed;   /* of `places`: the same in all iterations */
    int64_t first_moving, last_moving; /* of `places` */
} body;

typedef struct {
    int64_t loops;                   /* whether it runs body 0 again and again, else one of two */
    int64_t length;                  /* iterations; if negative, buffers 0 and 1 say how many */
    int64_t iteration, condition;    /* buffers; the condition is negative if no body computes it */
    int64_t first_carry, last_carry; /* of `carries` */
    body bodies[2];
} control;

typedef struct {
    _Alignas(64) kernel *function;
    void **buffers;
    int64_t blocks;
    _Atomic int64_t unclaimed; /* the blocks that are left, see range(); none while closed */
    _Atomic int64_t finished;  /* executed blocks since it was opened */
    control *control;          /* none if it has a function */
} launch;

typedef struct {
    int64_t first_launch, last_launch;
    int64_t first_wait, last_wait; /* of `waits` */
    int64_t order;                 /* its place in launch order */
    int64_t awaited;               /* whether another stream waits for it */
    _Atomic int64_t done;          /* the last run in which it finished */
} task;

typedef struct {
    _Alignas(64) int64_t first; /* of `tasks` */
    int64_t last;
    _Atomic int64_t held;             /* whether a thread advances it now */
    _Atomic int64_t run, position;    /* the next task in that run, written by the holder */
    _Atomic(launch *) open;           /* the launch whose blocks may be claimed, or none */
} stream;

typedef struct { int64_t slot, base, offset; } binding;

typedef struct { int64_t task, launch, thread, start, end; } span; /* task or launch is negative */

typedef struct {
    int64_t threads, streams, bindings;
    stream *stream;     /* none is empty */
    task *tasks;
    launch *launches;
    int64_t *waits;     /* indices of tasks */
    void **slots;       /* the arguments of all launches */
    binding *binding;   /* the slots that change with each run */
    place *places;
    carry *carries;
    span *spans;               /* none unless runs are timed */
    int64_t most_spans;
    _Atomic int64_t span_count; /* may be more than there is place for */
    opaque lock, wake;
    _Alignas(64) _Atomic int64_t run;
    _Atomic int64_t closed;
    _Alignas(64) _Atomic int64_t unfinished; /* streams of this run */
    _Alignas(64) _Atomic int64_t events;
    _Atomic int64_t sleepers;
} engine;

#define GET(field) atomic_load_explicit(&(field), memory_order_acquire)
#define PEEK(field) atomic_load_explicit(&(field), memory_order_relaxed)
#define PUT(field, value) atomic_store_explicit(&(field), value, memory_order_release)
#define SET(field, value) atomic_store_explicit(&(field), value, memory_order_relaxed)

/* Wakes the sleepers. Either this sees a sleeper, or the sleeper sees the event: both sides write
 * before they read, sequentially consistent. */
static void announce(engine *e) {
    if (e->threads == 1) return;
    atomic_fetch_add(&e->events, 1);
    if (!atomic_load(&e->sleepers)) return;
    pthread_mutex_lock(&e->lock);
    pthread_cond_broadcast(&e->wake);
    pthread_mutex_unlock(&e->lock);
}

static void sleep_unless_news(engine *e, int64_t seen) {
    pthread_mutex_lock(&e->lock);
    atomic_fetch_add(&e->sleepers, 1);
    while (atomic_load(&e->events) == seen) pthread_cond_wait(&e->wake, &e->lock);
    atomic_fetch_sub(&e->sleepers, 1);
    pthread_mutex_unlock(&e->lock);
}

static void spin(int64_t rounds) {
    if (rounds < PAUSES) cpu_pause();
    else sched_yield();
}

static void note(engine *e, int64_t task, int64_t launch, int64_t start) {
    int64_t end = cpu_clock(), place = atomic_fetch_add(&e->span_count, 1);
    if (place >= e->most_spans) return;
    e->spans[place] = (span){task, launch, (int64_t)pthread_self(), start, end};
}

/* Blocks from `begin` to `end` in one word. */
static int64_t range(int64_t begin, int64_t end) { return end << 32 | begin; }

/* Executes some of the launch's unclaimed blocks: a share of what is left that shrinks towards the
 * end (guided self-scheduling, Polychronopoulos and Kuck 1987). Who opened the launch takes the first
 * ones and helpers the last, so that a core meets what it had in its cache in the launch before. */
static int claim(engine *e, launch *l, int helps) {
    int64_t seen = GET(l->unclaimed), begin, end, count, rest;
    do {
        begin = seen & UINT32_MAX, end = seen >> 32;
        if (begin >= end) return 0;
        count = 1 + (end - begin - 1) / (2 * e->threads);
        rest = helps ? range(begin, end - count) : range(begin + count, end);
    } while (!atomic_compare_exchange_weak_explicit(&l->unclaimed, &seen, rest, memory_order_acq_rel,
                                                    memory_order_acquire));
    if (helps) begin = end - count;
    int64_t start = helps && e->spans ? cpu_clock() : 0;
    l->function(l->buffers, begin, begin + count);
    if (start) note(e, -1, l - e->launches, start);
    atomic_fetch_add_explicit(&l->finished, count, memory_order_release);
    return 1;
}

static void share(engine *e, stream *s, launch *l) {
    SET(l->finished, 0);
    PUT(l->unclaimed, range(0, l->blocks));
    PUT(s->open, l);
    announce(e);
    while (claim(e, l, 0)) {}
    PUT(s->open, 0);
    for (int64_t rounds = 0; GET(l->finished) < l->blocks; rounds++) spin(rounds);
}

static void control_flow(engine *e, stream *s, launch *l);

static void execute(engine *e, stream *s, int64_t first, int64_t last) {
    for (launch *l = e->launches + first; l < e->launches + last; l++)
        if (l->control) control_flow(e, s, l);
        else if (l->blocks == 1 || l->blocks > INT32_MAX || e->threads == 1)
            l->function(l->buffers, 0, l->blocks);
        else share(e, s, l);
}

static void bind(engine *e, int64_t first, int64_t last, char **buffers, int64_t step) {
    for (place *p = e->places + first; p < e->places + last; p++) {
        int64_t buffer = step == 0 ? p->first : step & 1 ? p->odd : p->even;
        e->slots[p->slot] = buffers[buffer] + p->offset + step * p->step;
    }
}

/* The iterations write a carried value to two buffers in turn; the last one must be the even one. */
static void settle(engine *e, control *c, char **buffers, int64_t steps) {
    if (steps & 1) return;
    for (carry *v = e->carries + c->first_carry; v < e->carries + c->last_carry; v++)
        __builtin_memcpy(buffers[v->even], buffers[steps ? v->odd : v->initial], v->bytes);
}

static void loop(engine *e, stream *s, control *c, char **buffers) {
    body *b = c->bodies;
    int64_t *limit = (int64_t *)buffers[0], step = 0;
    int64_t length = c->length >= 0 ? c->length : *buffers[1] ? *limit : 0;
    bind(e, b->first_fixed, b->last_fixed, buffers, 0);
    while (step < length) {
        *(int64_t *)buffers[c->iteration] = step;
        bind(e, b->first_moving, b->last_moving, buffers, step++);
        execute(e, s, b->first_launch, b->last_launch);
        if (c->condition >= 0 && !*buffers[c->condition]) break;
    }
    settle(e, c, buffers, step);
}

static void control_flow(engine *e, stream *s, launch *l) {
    control *c = l->control;
    char **buffers = (char **)l->buffers;
    if (c->loops) {
        loop(e, s, c, buffers);
        return;
    }
    body *b = &c->bodies[!*buffers[0]];
    bind(e, b->first_fixed, b->last_fixed, buffers, 0);
    execute(e, s, b->first_launch, b->last_launch);
}

/* The stream's next task in this run if it may start, else none; a hint unless the stream is held. */
static task *ready(engine *e, stream *s, int64_t run) {
    int64_t position = GET(s->run) == run ? PEEK(s->position) : s->first;
    if (position == s->last) return 0;
    task *t = e->tasks + position;
    for (int64_t w = t->first_wait; w < t->last_wait; w++)
        if (GET(e->tasks[e->waits[w]].done) != run) return 0;
    return t;
}

static void finish(engine *e, stream *s, task *t, int64_t run) {
    int64_t position = t - e->tasks + 1;
    SET(s->position, position);
    PUT(s->run, run);
    PUT(t->done, run);
    int over = position == s->last && atomic_fetch_sub(&e->unfinished, 1) == 1;
    if (t->awaited || over) announce(e);
}

/* Executes the stream's next task, and those after it as far as tokens allow unless other streams
 * are short of threads; whether there was any. */
static int advance(engine *e, stream *s) {
    int progress = 0;
    if (atomic_exchange_explicit(&s->held, 1, memory_order_acquire)) return 0;
    int64_t run = GET(e->run);
    for (task *t; (!progress || e->streams <= e->threads) && (t = ready(e, s, run)); progress = 1) {
        int64_t start = e->spans ? cpu_clock() : 0;
        execute(e, s, t->first_launch, t->last_launch);
        if (start) note(e, t - e->tasks, -1, start);
        finish(e, s, t, run);
    }
    PUT(s->held, 0);
    return progress;
}

static stream *choose(engine *e, int64_t home) {
    stream *best = 0, *own = e->stream + home;
    int64_t order = INT64_MAX, run = GET(e->run);
    for (stream *s = e->stream; s < e->stream + e->streams; s++) {
        task *t = PEEK(s->held) ? 0 : ready(e, s, run);
        if (t && s == own && e->streams <= e->threads) return s;
        if (t && t->order < order) best = s, order = t->order;
    }
    return best;
}

static int help(engine *e, stream *s) {
    launch *l = GET(s->open);
    return l && claim(e, l, 1);
}

static int work(engine *e, int64_t home) {
    stream *chosen = choose(e, home);
    if (chosen) return advance(e, chosen);
    for (int64_t s = 0; s < e->streams; s++)
        if (help(e, e->stream + (home + s) % e->streams)) return 1;
    return 0;
}

/* Sleeps rather than yields: on a busy machine a yield costs a time slice, a sleeper is woken at once. */
static void work_until(engine *e, int64_t home, _Atomic int64_t *flag, int64_t value) {
    for (int64_t rounds = 0; GET(*flag) != value; rounds++) {
        int64_t seen = atomic_load(&e->events);
        if (work(e, home)) rounds = 0;
        else if (rounds < IDLE) cpu_pause();
        else if (GET(*flag) != value) sleep_unless_news(e, seen);
    }
}

void executor_open(engine *e) {
    pthread_mutex_init(&e->lock, 0);
    pthread_cond_init(&e->wake, 0);
}

/* One run, on the calling thread and whoever helps; `bases` are the addresses of changing buffers. */
void executor_run(engine *e, char **bases) {
    for (binding *b = e->binding; b < e->binding + e->bindings; b++)
        e->slots[b->slot] = bases[b->base] + b->offset;
    SET(e->unfinished, e->streams);
    PUT(e->run, PEEK(e->run) + 1);
    if (e->streams > 1) announce(e);
    work_until(e, 0, &e->unfinished, 0);
}

/* The life of one more thread, whose home is stream `home`; returns after executor_close. */
void executor_work(engine *e, int64_t home) {
    work_until(e, home, &e->closed, 1);
}

/* Nothing is destroyed: neither lock nor condition owns anything, and a forked child would wait in
 * pthread_cond_destroy for threads that it does not have. */
void executor_close(engine *e) {
    PUT(e->closed, 1);
    announce(e);
}
