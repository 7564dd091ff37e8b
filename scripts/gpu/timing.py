# SPDX-License-Identifier: Apache-2.0
"""Timing as `barewarp bench` does it: launches captured in a CUDA graph, over operands that
rotate through three times the L2, replayed; the median counts."""
import statistics

import torch

REPLAYS, WARM_UP = 31, 3


def rotation(bytes_each, device=0):
    """How many operands of that size to rotate through."""
    return torch.cuda.get_device_properties(device).L2_cache_size * 3 // bytes_each + 2


def capture(calls):
    """A graph of the calls, one after the other."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # what is made at the first call must not be captured
        for call in calls[:2]:
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    return graph


def replay(graph, launches):
    """Microseconds a launch of one replay."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    graph.replay()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e3 / launches


def chain(make, operands, least=192):
    """make(operand) for each operand in turn, at least so many; a bench_time."""
    rounds = -(-least // len(operands))
    calls = [lambda o=o: make(o) for o in operands] * rounds
    graph = capture(calls)
    for _ in range(WARM_UP):
        replay(graph, len(calls))
    return summary([replay(graph, len(calls)) for _ in range(REPLAYS)])


def summary(times):
    times = sorted(times)
    tenth = len(times) // 10
    return dict(median=statistics.median(times), low=times[tenth], high=times[-1 - tenth])
