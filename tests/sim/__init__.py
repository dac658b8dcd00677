"""A simulator: whole brokers, their network, disks, clocks and clients, in one process.

One seed is one run, repeated exactly: `python -m tests.sim --seed 7`. The brokers are the real
ones from `cli/serve.py` down to the calls of `os`. The event loop, the network, the disk and the
time are simulated, so that the seed decides the order in which things happen.

    times.py      the time: nothing but the simulator moves it
    processes.py  what belongs to one broker: its callbacks and its clock end when it is killed
    loop.py       the event loop: when nothing is left to do, the next timer is due at once
    network.py    connections: delays, pieces, full buffers, resets, silence
    disk.py       files: writes are lost in a power cut unless they were synced; calls fail
    brokers.py    brokers that start, stop, are killed, paused and started again
    client.py     a client that speaks RESP
    families.py   what clients do, a class for each family, and what they remember of it
    history.py    the checks: nothing lost, nothing twice, one holder, answers in order
    faults.py     what goes wrong, and when
    run.py        one run: a seed becomes brokers, clients, faults, and a verdict
    bugs.py       deliberate bugs, each of which the checks must find
    __main__.py   the command line

The simulator runs in a process of its own, because it replaces the time before the package is
imported, and because the order of sets must not change (PYTHONHASHSEED).

Not here: the store on Redis (tests/faults/redis_faults.py), random work at the level of a store
(tests/store/crash_walk.py, tests/model).
"""
