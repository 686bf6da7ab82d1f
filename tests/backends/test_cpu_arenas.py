"""The pool of arenas that runs on the CPU share."""

import pickle

from compiler.backends.cpu.arenas import ArenaPool


def test_runs_in_turn_take_the_same_arena():
    pool = ArenaPool()
    first = pool.take(100)
    first[:] = 1
    pool.give_back(first)
    assert pool.take(60) is first
    pool.give_back(first)
    assert pool.idle_bytes == first.nbytes == 100


def test_runs_at_once_take_different_arenas():
    pool = ArenaPool()
    first, second = pool.take(64), pool.take(64)
    first[:], second[:] = 1, 2
    assert set(first) == {1}
    pool.give_back(first)
    pool.give_back(second)
    assert pool.idle_bytes == 128


def test_a_larger_need_replaces_a_smaller_arena():
    pool = ArenaPool()
    small, large = pool.take(10), pool.take(1000)
    assert large.nbytes == 1000
    pool.give_back(large)
    pool.give_back(small)
    assert pool.idle_bytes == 1000


def test_a_copy_and_a_closed_pool_have_no_arenas():
    pool = ArenaPool()
    pool.give_back(pool.take(10))
    assert pickle.loads(pickle.dumps(pool)).idle_bytes == 0
    pool.close()
    assert pool.idle_bytes == 0
