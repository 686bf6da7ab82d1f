"""The pool of arenas that runs on the CPU share."""

import pickle

from compiler.backends.cpu.arenas import ArenaPool


def test_runs_in_turn_take_the_same_arena():
    pool = ArenaPool()
    with pool.taken(100) as first:
        first[:] = 1
    with pool.taken(60) as second:
        assert second is first
    assert pool.idle_bytes == first.nbytes == 100


def test_runs_at_once_take_different_arenas():
    pool = ArenaPool()
    with pool.taken(64) as first, pool.taken(64) as second:
        first[:], second[:] = 1, 2
        assert set(first) == {1}
    assert pool.idle_bytes == 128


def test_a_larger_need_replaces_a_smaller_arena():
    pool = ArenaPool()
    with pool.taken(10), pool.taken(1000) as large:
        assert large.nbytes == 1000
    assert pool.idle_bytes == 1000


def test_a_copy_and_a_closed_pool_have_no_arenas():
    pool = ArenaPool()
    with pool.taken(10):
        pass
    assert pickle.loads(pickle.dumps(pool)).idle_bytes == 0
    pool.close()
    assert pool.idle_bytes == 0
